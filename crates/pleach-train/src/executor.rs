//! Running programs in memory that was laid out before the first step.

use std::num::NonZeroUsize;

use pleach_graph::{Program, ValueId};
use pleach_memory::{Plan, Step, keep_all};
use pleach_tensor::{Cpu, Device, Isa, Stream};

use crate::Error;

/// What a program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The number of threads; results do not depend on it.
    pub threads: NonZeroUsize,
    /// The instruction set; results do not depend on it.
    pub isa: Isa,
}

impl Default for Machine {
    /// All processors that the system offers, and the fastest instruction set.
    fn default() -> Machine {
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Machine { threads, isa: Isa::best() }
    }
}

/// A program, its plan, and the device in whose memory it is laid out.
pub(crate) struct Executor {
    pub(crate) program: Program,
    plan: Plan,
    device: Box<dyn Device>,
}

impl Executor {
    /// Plans `program` and takes the memory.
    pub(crate) fn new(program: Program, machine: Machine) -> Result<Executor, Error> {
        let plan = keep_all(&program)?;
        let device = Box::new(Cpu::new(plan.len, machine.threads, machine.isa)?);
        Ok(Executor { program, plan, device })
    }

    /// The bytes of its memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.plan.bytes()
    }

    /// Runs the forward and the backward pass.
    pub(crate) fn pass(&mut self, stream: Stream) {
        self.run(0, self.plan.passes, stream);
    }

    /// Computes the sums of squares of the derivatives.
    pub(crate) fn norms(&mut self) {
        self.run(self.plan.passes, self.plan.update, Stream::default());
    }

    /// Changes the parameters.
    pub(crate) fn update(&mut self) {
        self.run(self.plan.update, self.plan.steps.len(), Stream::default());
    }

    fn run(&mut self, from: usize, to: usize, stream: Stream) {
        for step in &self.plan.steps[from..to] {
            let Step::Run { instruction, operands } = step;
            let kernel = &*self.program.instructions[*instruction].kernel;
            self.device.run(kernel, operands, stream);
        }
    }

    /// Runs one instruction after another and reports the seconds of each, for a profile.
    pub(crate) fn profile(&mut self, stream: Stream, mut report: impl FnMut(usize, f64)) {
        for step in &self.plan.steps {
            let Step::Run { instruction, operands } = step;
            let kernel = &*self.program.instructions[*instruction].kernel;
            let start = std::time::Instant::now();
            self.device.run(kernel, operands, stream);
            report(*instruction, start.elapsed().as_secs_f64());
        }
    }

    /// Writes a value from its `at`-th float on.
    pub(crate) fn write_at(&mut self, value: ValueId, at: usize, floats: &[f32]) {
        let place = self.plan.place(value);
        assert!(at + floats.len() <= place.len(), "{} floats at {at} of {place:?}", floats.len());
        self.device.write(place.start + at, floats);
    }

    /// Writes a value.
    pub(crate) fn write(&mut self, value: ValueId, floats: &[f32]) {
        self.write_at(value, 0, floats);
    }

    /// Reads a value from its `at`-th float on.
    pub(crate) fn read_at(&self, value: ValueId, at: usize, floats: &mut [f32]) {
        let place = self.plan.place(value);
        assert!(at + floats.len() <= place.len(), "{} floats at {at} of {place:?}", floats.len());
        self.device.read(place.start + at, floats);
    }

    /// Reads a value.
    pub(crate) fn read(&self, value: ValueId, floats: &mut [f32]) {
        self.read_at(value, 0, floats);
    }

    /// Reads a value into memory of its own.
    pub(crate) fn get(&self, value: ValueId) -> Vec<f32> {
        let mut floats = vec![0.0; self.program.values[value].len];
        self.read(value, &mut floats);
        floats
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

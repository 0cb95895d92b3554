//! Plans.

use std::ops::Range;

use pleach_graph::ValueId;
use pleach_tensor::Operands;

/// What can go wrong when memory is planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More memory than can be addressed.
    #[error("the plan would take more than {} bytes", isize::MAX)]
    TooLarge,
    /// The kernel does not take what it was given.
    #[error(transparent)]
    Tensor(#[from] pleach_tensor::Error),
}

/// A program laid out in memory.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The floats that it needs.
    pub len: usize,
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// How many of the steps are the forward and the backward pass.
    pub passes: usize,
    /// How many of the steps come before parameters change.
    pub update: usize,
    /// Where values are that come from outside, stay from step to step, or can be read after a
    /// pass; `None` for all others.
    pub places: Vec<Option<Range<usize>>>,
}

/// One thing to do.
#[derive(Clone, Debug)]
pub enum Step {
    /// Run the kernel of an instruction.
    Run {
        /// The place of the instruction in the program.
        instruction: usize,
        /// Where its operands are.
        operands: Operands,
    },
}

impl Plan {
    /// The bytes that it needs.
    pub fn bytes(&self) -> u64 {
        (self.len * size_of::<f32>()) as u64
    }

    /// Where a value is that the plan keeps.
    ///
    /// # Panics
    /// If the plan does not keep it.
    pub fn place(&self, value: ValueId) -> Range<usize> {
        self.places[value].clone().expect("the plan keeps what its user names")
    }
}

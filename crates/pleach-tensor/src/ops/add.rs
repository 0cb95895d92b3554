//! Sums of tensors, with a `ReLU` behind them if wanted.

#![expect(unsafe_code, reason = "parts of one slice are written on several threads")]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Described, Fill, Sample};
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Action, Array, Context, Error, Kernel, Layer, MAX_OPERANDS, Op, Setting, Shape, Slot};

/// Elements a part works on.
const PART: usize = 16 * 1024;

/// The sum of two to twelve inputs of one shape, from the first to the last; with `relu` no less
/// than 0, which takes no pass of its own.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Add {
    relu: bool,
}

impl Op for Add {
    fn name(&self) -> &'static str {
        Add::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        if !(2..=MAX_OPERANDS).contains(&inputs.len()) {
            let expected = format!("2 to {MAX_OPERANDS}");
            return Err(Error::Inputs { op: Self::NAME, expected, got: inputs.len() });
        }
        if inputs.iter().any(|input| *input != inputs[0]) {
            return Err(super::misfit(Self::NAME, inputs, "it takes inputs of one shape"));
        }
        let slots: Vec<Slot> = (0..inputs.len()).map(Slot::Input).collect();
        let same = |from, to| Action::Same { from, to: Slot::InputGrad(to) };
        let backward = if self.relu {
            let masked = Action::run(Backward, [Slot::Output, Slot::OutputGrad], [Slot::InputGrad(0)]);
            let others = (1..inputs.len()).map(|i| same(Slot::InputGrad(0), i));
            [masked].into_iter().chain(others).collect()
        } else {
            (0..inputs.len()).map(|i| same(Slot::OutputGrad, i)).collect()
        };
        let kernel = Forward { relu: self.relu, inputs: inputs.len() };
        Ok(Layer {
            forward: Action::run(kernel, slots, [Slot::Output]),
            backward,
            ..Layer::plain(inputs[0].clone())
        })
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let mut sum = inputs[0].clone();
        for input in &inputs[1..] {
            sum.values.iter_mut().zip(&input.values).for_each(|(sum, x)| *sum += x);
        }
        sum.map(|x| if self.relu { x.max(0.0) } else { x })
    }
}

impl Described for Add {
    const NAME: &'static str = "add";
    const SUMMARY: &'static str = "the sum of inputs of one shape, with a ReLU if wanted";

    fn samples() -> Vec<Sample> {
        let sum = |relu, inputs: usize, shape: Shape| {
            Sample::new(Add { relu }, vec![(shape, Fill::Normal); inputs])
        };
        vec![
            sum(false, 2, [3, 7].into()),
            sum(true, 2, [1, 4, 4, 5].into()),
            sum(true, 3, [2, 16].into()),
            sum(false, MAX_OPERANDS, [2, 33].into()),
            sum(true, 2, [3, 5, 9, 128].into()),
        ]
    }
}

#[derive(Debug)]
struct Forward {
    relu: bool,
    inputs: usize,
}

struct Sum {
    relu: bool,
    inputs: usize,
    x: [*const f32; MAX_OPERANDS],
    y: *mut f32,
    len: usize,
}

impl Kernel for Forward {
    fn in_place(&self) -> &'static [(usize, usize)] {
        const PAIRS: [(usize, usize); MAX_OPERANDS] = {
            let mut pairs = [(0, 0); MAX_OPERANDS];
            let mut i = 0;
            while i < MAX_OPERANDS {
                pairs[i].0 = i;
                i += 1;
            }
            pairs
        };
        &PAIRS[..self.inputs]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let [y] = writes else { unreachable!("one write") };
        let (len, isa, y) = (y.len(), cx.isa, Shared::new(y));
        cx.pool.run(len.div_ceil(PART), &|part| {
            let from = part * PART;
            let mut x = [std::ptr::null(); MAX_OPERANDS];
            for (x, read) in x.iter_mut().zip(reads) {
                *x = y.source(read, from);
            }
            let len = PART.min(len - from);
            isa.run(Sum { relu: self.relu, inputs: reads.len(), x, y: y.at(from), len });
        });
    }
}

impl Body for Sum {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // Below it is nothing; `max` gives its second argument where it is NaN.
        let floor = s.splat(if self.relu { 0.0 } else { f32::NEG_INFINITY });
        let mut i = 0;
        while i < self.len {
            let n = self.len - i;
            // SAFETY: all inputs and `y` hold `len` floats.
            unsafe {
                let mut sum = s.add(s.load_up_to(self.x[0].add(i), n), s.load_up_to(self.x[1].add(i), n));
                for x in &self.x[2..self.inputs] {
                    sum = s.add(sum, s.load_up_to(x.add(i), n));
                }
                s.store_up_to(self.y.add(i), s.max(floor, sum), n);
            }
            i += LANES;
        }
    }
}

/// `dy` where `y > 0`, else 0.
#[derive(Debug)]
struct Backward;

struct Mask {
    y: *const f32,
    dy: *const f32,
    dx: *mut f32,
    len: usize,
}

impl Kernel for Backward {
    fn in_place(&self) -> &'static [(usize, usize)] {
        &[(1, 0)]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([y, dy], [dx]) = (reads, writes) else { unreachable!("two reads and one write") };
        let (len, isa, dx) = (dx.len(), cx.isa, Shared::new(dx));
        cx.pool.run(len.div_ceil(PART), &|part| {
            let from = part * PART;
            let (y, len) = (y[from..].as_ptr(), PART.min(len - from));
            isa.run(Mask { y, dy: dx.source(dy, from), dx: dx.at(from), len });
        });
    }
}

impl Body for Mask {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let zero = s.splat(0.0);
        let mut i = 0;
        while i < self.len {
            let n = self.len - i;
            // SAFETY: `y`, `dy` and `dx` hold `len` floats.
            unsafe {
                let positive = s.lt(zero, s.load_up_to(self.y.add(i), n));
                let dx = s.select(positive, s.load_up_to(self.dy.add(i), n), zero);
                s.store_up_to(self.dx.add(i), dx, n);
            }
            i += LANES;
        }
    }
}

//! A learned value for each place of a sequence.

#![expect(unsafe_code, reason = "blocks are read by pointers, and written on several threads")]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Described, Fill, Sample};
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Action, Array, Context, Error, Init, Kernel, Layer, Op, Parameter, Role, Setting, Shape, Slot};

/// Elements of an example that a part works on.
const BLOCK: usize = 2 * 1024;

/// Adds a learned `weight` to every example, so that a network can tell places of a sequence apart.
///
/// # Shapes
/// - input and output: `[n, t, d]`
/// - `weight`: `[t, d]`, at the start normal with a standard deviation of 0.02, as in GPT-2
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Position {}

impl Op for Position {
    fn name(&self) -> &'static str {
        Position::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(Self::NAME, inputs)?;
        let &[n, t, d] = input.sizes() else {
            return Err(super::misfit(Self::NAME, inputs, "it takes [n, t, features]"));
        };
        if input.is_empty() {
            return Err(super::misfit(Self::NAME, inputs, "it takes at least one of each"));
        }
        let size = input.checked_len("the input")? / n;
        let (shape, init) = (Shape::from([t, d]), Init::Normal(0.02));
        Ok(Layer {
            parameters: vec![Parameter { name: "weight", shape, role: Role::Weight, init }],
            forward: Action::run(Forward { n, size }, [Slot::Input(0), Slot::Parameter(0)], [Slot::Output]),
            backward: vec![
                Action::run(Backward { n, size }, [Slot::OutputGrad], [Slot::ParameterGrad(0)]),
                Action::Same { from: Slot::OutputGrad, to: Slot::InputGrad(0) },
            ],
            ..Layer::plain(input.clone())
        })
    }

    fn reference(&self, inputs: &[Array], parameters: &[Array]) -> Array {
        let mut y = inputs[0].clone();
        for (y, weight) in y.values.iter_mut().zip(parameters[0].values.iter().cycle()) {
            *y += weight;
        }
        y
    }
}

impl Described for Position {
    const NAME: &'static str = "position";
    const SUMMARY: &'static str = "adds a learned value at each place of a sequence";

    fn samples() -> Vec<Sample> {
        let shapes: [Shape; 4] = [[1, 1, 1].into(), [3, 5, 7].into(), [1, 4, 16].into(), [4, 50, 93].into()];
        shapes.map(|shape| Sample::new(Position {}, [(shape, Fill::Normal)])).to_vec()
    }
}

/// `y = x + weight`, for `n` examples of `size` elements.
#[derive(Debug)]
struct Forward {
    n: usize,
    size: usize,
}

impl Kernel for Forward {
    fn in_place(&self) -> &'static [(usize, usize)] {
        &[(0, 0)]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([x, weight], [y]) = (reads, writes) else { unreachable!("two reads and one write") };
        let (isa, y) = (cx.isa, Shared::new(y));
        let blocks = self.size.div_ceil(BLOCK);
        cx.pool.run(self.n * blocks, &|part| {
            let (example, from) = (part / blocks, part % blocks * BLOCK);
            let at = example * self.size + from;
            let len = BLOCK.min(self.size - from);
            isa.run(Sum { a: y.source(x, at), b: weight[from..].as_ptr(), to: y.at(at), len });
        });
    }
}

/// The derivative by the weight: a left fold over the `n` examples. A part has some elements.
#[derive(Debug)]
struct Backward {
    n: usize,
    size: usize,
}

impl Kernel for Backward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([dy], [to]) = (reads, writes) else { unreachable!("one read and one write") };
        let (isa, to) = (cx.isa, Shared::new(to));
        cx.pool.run(self.size.div_ceil(BLOCK), &|part| {
            let from = part * BLOCK;
            let len = BLOCK.min(self.size - from);
            // SAFETY: each block is in one part.
            unsafe { to.slice(from, from + len) }.copy_from_slice(&dy[from..from + len]);
            for example in 1..self.n {
                let to = to.at(from);
                isa.run(Sum { a: to, b: dy[example * self.size + from..].as_ptr(), to, len });
            }
        });
    }
}

/// `to = a + b`.
struct Sum {
    a: *const f32,
    b: *const f32,
    to: *mut f32,
    len: usize,
}

impl Body for Sum {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for i in (0..self.len).step_by(LANES) {
            let n = self.len - i;
            // SAFETY: all three have `len` floats.
            unsafe {
                let sum = s.add(s.load_up_to(self.a.add(i), n), s.load_up_to(self.b.add(i), n));
                s.store_up_to(self.to.add(i), sum, n);
            }
        }
    }
}

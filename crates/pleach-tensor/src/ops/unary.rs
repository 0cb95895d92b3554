//! Functions of single elements: what is the same for all of them.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Described, Fill, Sample};
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Action, Array, Context, Error, Kernel, Layer, Op, Setting, Shape, Slot};

/// Elements a part works on.
const PART: usize = 16 * 1024;

/// A function of one element, and its derivative. The value at NaN must be NaN.
pub(super) trait Function:
    Copy + Debug + Default + Serialize + DeserializeOwned + Send + Sync + 'static
{
    const NAME: &'static str;
    const SUMMARY: &'static str;

    /// The function.
    fn value<S: Simd>(self, simd: S, x: S::V) -> S::V;

    /// The derivative at `x`.
    fn slope<S: Simd>(self, simd: S, x: S::V) -> S::V;

    /// The definition.
    fn exact(self, x: f64) -> f64;
}

impl<F: Function> Op for F {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(F::NAME, inputs)?;
        let backward = Action::run(Backward(*self), [Slot::Input(0), Slot::OutputGrad], [Slot::InputGrad(0)]);
        Ok(Layer {
            forward: Action::run(Forward(*self), [Slot::Input(0)], [Slot::Output]),
            backward: vec![backward],
            ..Layer::plain(input.clone())
        })
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        inputs[0].map(|x| self.exact(x))
    }
}

impl<F: Function> Described for F {
    const NAME: &'static str = F::NAME;
    const SUMMARY: &'static str = F::SUMMARY;

    fn samples() -> Vec<Sample> {
        [[3, 7], [5, 16], [2, 20_000]]
            .map(|sizes| Sample::new(F::default(), [(Shape::from(sizes), Fill::Apart)]))
            .to_vec()
    }
}

/// `y = f(x)`.
#[derive(Debug)]
struct Forward<F>(F);

/// `dx = f'(x) · dy`.
#[derive(Debug)]
struct Backward<F>(F);

impl<F: Function> Kernel for Forward<F> {
    fn in_place(&self) -> &'static [(usize, usize)] {
        &[(0, 0)]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([x], [y]) = (reads, writes) else { unreachable!("one read and one write") };
        elements(cx, x, None, y, self.0);
    }
}

impl<F: Function> Kernel for Backward<F> {
    fn in_place(&self) -> &'static [(usize, usize)] {
        &[(1, 0)]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([x, dy], [dx]) = (reads, writes) else { unreachable!("two reads and one write") };
        elements(cx, x, Some(dy), dx, self.0);
    }
}

/// Computes `f(x)`, or `f'(x) · dy` where there is a `dy`. A read that is empty is in `out`.
#[expect(unsafe_code, reason = "parts of one slice are written on several threads")]
fn elements<F: Function>(cx: &mut Context<'_>, x: &[f32], dy: Option<&[f32]>, out: &mut [f32], f: F) {
    struct Part<F> {
        x: *const f32,
        dy: Option<*const f32>,
        out: *mut f32,
        len: usize,
        f: F,
    }
    impl<F: Function> Body for Part<F> {
        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            let mut i = 0;
            while i < self.len {
                let n = self.len - i;
                // SAFETY: `x`, `dy` and `out` hold `len` floats.
                unsafe {
                    let x = s.load_up_to(self.x.add(i), n);
                    let y = match self.dy {
                        None => self.f.value(s, x),
                        Some(dy) => s.mul(self.f.slope(s, x), s.load_up_to(dy.add(i), n)),
                    };
                    s.store_up_to(self.out.add(i), y, n);
                }
                i += LANES;
            }
        }
    }
    let (len, isa) = (out.len(), cx.isa);
    let out = Shared::new(out);
    cx.pool.run(len.div_ceil(PART), &|part| {
        let from = part * PART;
        isa.run(Part {
            x: out.source(x, from),
            dy: dy.map(|dy| out.source(dy, from)),
            out: out.at(from),
            len: PART.min(len - from),
            f,
        });
    });
}

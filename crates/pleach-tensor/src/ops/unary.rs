//! Functions of single elements: what is the same for all of them.

use super::Described;
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Action, Context, Error, Kernel, Layer, Shape, Slot};

/// Elements a part works on.
const PART: usize = 16 * 1024;

/// A function of one element, and its derivative.
pub(super) trait Function: Described + Copy {
    /// The function.
    fn value<S: Simd>(self, simd: S, x: S::V) -> S::V;

    /// The derivative at `x`.
    fn slope<S: Simd>(self, simd: S, x: S::V) -> S::V;
}

/// The layer of a function of single elements.
pub(super) fn layer<F: Function>(function: F, shapes: &[Shape]) -> Result<Layer, Error> {
    let [input] = super::inputs(F::NAME, shapes)?;
    Ok(Layer {
        output: input.clone(),
        parameters: Vec::new(),
        saved: Vec::new(),
        running: Vec::new(),
        forward: Action::run(Forward(function), [Slot::Input(0)], [Slot::Output]),
        inference: None,
        backward: vec![Action::run(
            Backward(function),
            [Slot::Input(0), Slot::OutputGrad],
            [Slot::InputGrad(0)],
        )],
        macs: 0,
    })
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
    // In place, what is read lies where the result goes.
    let place = |read: &[f32], at: usize| {
        if read.is_empty() { out.at(at).cast_const() } else { read[at..].as_ptr() }
    };
    cx.pool.run(len.div_ceil(PART), &|part| {
        let from = part * PART;
        isa.run(Part {
            x: place(x, from),
            dy: dy.map(|dy| place(dy, from)),
            out: out.at(from),
            len: PART.min(len - from),
            f,
        });
    });
}

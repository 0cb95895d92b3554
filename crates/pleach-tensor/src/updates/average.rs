//! Moving averages of parameters.

use super::PART;
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Context, Kernel};

/// `a ← a + (1 − decay)·(w − a)`: reads a parameter and its average, and writes the average, which
/// may stay in place.
///
/// Polyak and Juditsky, *Acceleration of stochastic approximation by averaging*, 1992, with weights
/// that fade.
#[derive(Clone, Copy, Debug)]
pub struct MovingAverage {
    /// How much of the average is left after a step.
    pub decay: f32,
}

impl Kernel for MovingAverage {
    fn in_place(&self) -> &'static [(usize, usize)] {
        &[(1, 0)]
    }

    #[expect(unsafe_code, reason = "parts of an average are written on several threads")]
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        struct Part {
            parameter: *const f32,
            from: *const f32,
            to: *mut f32,
            len: usize,
            rest: f32,
        }
        impl Body for Part {
            #[inline(always)]
            fn run<S: Simd>(self, s: S) {
                let rest = s.splat(self.rest);
                let mut i = 0;
                while i < self.len {
                    let n = self.len - i;
                    // SAFETY: all of them hold `len` floats.
                    unsafe {
                        let w = s.load_up_to(self.parameter.add(i), n);
                        let a = s.load_up_to(self.from.add(i), n);
                        s.store_up_to(self.to.add(i), s.fma(rest, s.sub(w, a), a), n);
                    }
                    i += LANES;
                }
            }
        }
        let (parameter, isa, rest) = (reads[0], cx.isa, 1.0 - self.decay);
        let len = parameter.len();
        let average = Shared::new(&mut *writes[0]);
        cx.pool.run(len.div_ceil(PART), &|part| {
            let at = part * PART;
            let to = average.at(at);
            // In place, what is read lies where the result goes.
            let from = if reads[1].is_empty() { to.cast_const() } else { reads[1][at..].as_ptr() };
            isa.run(Part { parameter: parameter[at..].as_ptr(), from, to, len: PART.min(len - at), rest });
        });
    }
}

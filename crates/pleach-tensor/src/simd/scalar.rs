//! Plain code: an array of sixteen floats.

use super::{LANES, Simd};

/// Plain code; every machine can run it.
#[derive(Clone, Copy)]
pub(super) struct Scalar;

type V = [f32; LANES];
type M = [bool; LANES];

#[inline(always)]
fn map(a: V, f: impl Fn(f32) -> f32) -> V {
    std::array::from_fn(|i| f(a[i]))
}

#[inline(always)]
fn zip(a: V, b: V, f: impl Fn(f32, f32) -> f32) -> V {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Simd for Scalar {
    const WIDE: bool = false;
    type V = V;
    type M = M;

    #[inline(always)]
    fn splat(self, x: f32) -> V {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> V {
        // SAFETY: the caller promises 16 floats; an array of floats needs no more alignment.
        unsafe { from.cast::<V>().read() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, v: V) {
        // SAFETY: the caller promises 16 floats; an array of floats needs no more alignment.
        unsafe { to.cast::<V>().write(v) }
    }
    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, n: usize) -> V {
        let mut v = [0.0; LANES];
        // SAFETY: the caller promises `n` floats, and `n` < 16.
        unsafe { from.copy_to_nonoverlapping(v.as_mut_ptr(), n) };
        v
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, v: V, n: usize) {
        // SAFETY: the caller promises `n` floats, and `n` < 16.
        unsafe { v.as_ptr().copy_to_nonoverlapping(to, n) }
    }
    #[inline(always)]
    fn add(self, a: V, b: V) -> V {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: V, b: V) -> V {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: V, b: V) -> V {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: V, b: V) -> V {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, a: V, b: V, c: V) -> V {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    fn max(self, a: V, b: V) -> V {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: V, b: V) -> V {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn sqrt(self, a: V) -> V {
        map(a, f32::sqrt)
    }
    #[inline(always)]
    fn lt(self, a: V, b: V) -> M {
        std::array::from_fn(|i| a[i] < b[i])
    }
    #[inline(always)]
    fn eq(self, a: V, b: V) -> M {
        std::array::from_fn(|i| a[i] == b[i])
    }
    #[inline(always)]
    fn select(self, mask: M, yes: V, no: V) -> V {
        std::array::from_fn(|i| if mask[i] { yes[i] } else { no[i] })
    }
    #[inline(always)]
    fn round(self, a: V) -> V {
        map(a, f32::round_ties_even)
    }
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole numbers between -126 and 127"
    )]
    fn exp2_whole(self, a: V) -> V {
        map(a, |a| f32::from_bits(((a as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    #[expect(clippy::cast_possible_wrap, reason = "an exponent has eight bits")]
    fn split(self, a: V) -> (V, V) {
        let exponent = map(a, |a| ((a.to_bits() >> 23) as i32 - 127) as f32);
        let mantissa = map(a, |a| f32::from_bits(a.to_bits() & 0x007f_ffff | 0x3f80_0000));
        (exponent, mantissa)
    }
}

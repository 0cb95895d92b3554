//! What sums along rows have in common: sixteen chains, one of every sixteenth value, that are
//! combined at the end of a row.

#![expect(unsafe_code, reason = "masks are loaded by pointers")]

use crate::simd::{LANES, Simd};

const ONES: [f32; 2 * LANES] = {
    let mut ones = [0.0; 2 * LANES];
    let mut i = 0;
    while i < LANES {
        ones[i] = 1.0;
        i += 1;
    }
    ones
};

/// Which lanes are within a row of which `left` values are left.
#[inline(always)]
pub(super) fn within<S: Simd>(s: S, left: usize) -> S::M {
    // SAFETY: 16 floats from the sixteenth at most.
    let ones = unsafe { s.load(ONES.as_ptr().add(LANES - left.min(LANES))) };
    s.eq(ones, s.splat(1.0))
}

/// The largest lane; NaN does not count.
#[inline(always)]
pub(super) fn largest<S: Simd>(s: S, v: S::V) -> f32 {
    let mut most = f32::NEG_INFINITY;
    for x in s.array(v) {
        most = if x > most { x } else { most };
    }
    most
}

/// A function of one float.
#[inline(always)]
pub(super) fn single<S: Simd>(s: S, v: S::V) -> f32 {
    s.array(v)[0]
}

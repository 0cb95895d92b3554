//! The linear maps of Winograd's convolution, one vector of channels at a time.
//!
//! With `m` outputs a side and filters of 3, a tile of `m + 2` inputs is a polynomial seen at
//! `m + 2` points. For an image `d`, a filter `g` and a gradient `e` of the output,
//!
//! - the output is `Aᵀ [(G g Gᵀ) ∘ (Bᵀ d B)] A`,
//! - the gradient of the filter is `Gᵀ [(Bᵀ d B) ∘ (A e Aᵀ)] G`, summed over tiles.
//!
//! F(2×2, 3×3) has the points 0, ±1, ∞; F(4×4, 3×3) has 0, ±3/4, ±3/2, ∞, which are exact in
//! binary and give a third of the rounding error of 0, ±1, ±2, ∞.
//!
//! # Source
//! Lavin, Gray, *Fast Algorithms for Convolutional Neural Networks*, CVPR 2016, arXiv:1509.09308,
//! §4. Deviation: the points of F(4×4, 3×3).

use crate::simd::{LANES, Simd};

/// Values along the longest side of a tile.
pub(super) const SIDE: usize = 6;

/// Places of the values of a tile.
pub(super) type Places = [[*const f32; SIDE]; SIDE];

/// A small matrix, applied to the first values of an array.
pub(super) trait Linear {
    const IN: usize;
    const OUT: usize;
    fn apply<S: Simd>(s: S, x: [S::V; SIDE]) -> [S::V; SIDE];
}

/// `Bᵀ`, for `M` outputs a side.
pub(super) struct Input<const M: usize>;
/// `G`.
pub(super) struct Filter<const M: usize>;
/// `Aᵀ`.
pub(super) struct Output<const M: usize>;
/// `A`.
pub(super) struct OutputGrad<const M: usize>;
/// `Gᵀ`.
pub(super) struct FilterGrad<const M: usize>;

/// The maps of a tile of `M` outputs a side.
pub(super) trait Maps {
    type Input: Linear;
    type Filter: Linear;
    type Output: Linear;
    type OutputGrad: Linear;
    type FilterGrad: Linear;
}

/// F(M×M, 3×3).
pub(super) struct F<const M: usize>;

impl Maps for F<2> {
    type Input = Input<2>;
    type Filter = Filter<2>;
    type Output = Output<2>;
    type OutputGrad = OutputGrad<2>;
    type FilterGrad = FilterGrad<2>;
}

impl Maps for F<4> {
    type Input = Input<4>;
    type Filter = Filter<4>;
    type Output = Output<4>;
    type OutputGrad = OutputGrad<4>;
    type FilterGrad = FilterGrad<4>;
}

/// The points of F(4×4, 3×3) beside 0 and ∞ are ±P and ±Q.
const P: f32 = 0.75;
const Q: f32 = 1.5;
const P2: f32 = P * P;
const Q2: f32 = Q * Q;
/// What the filter is divided by at 0, ±P and ±Q: the products of differences of the points.
const N_0: f32 = 1.0 / (P2 * Q2);
const N_P: f32 = 1.0 / (2.0 * P2 * (P2 - Q2));
const N_Q: f32 = 1.0 / (2.0 * Q2 * (Q2 - P2));

/// `a · x`.
#[inline(always)]
fn mul<S: Simd>(s: S, a: f32, x: S::V) -> S::V {
    s.mul(s.splat(a), x)
}

/// `a · x + y`.
#[inline(always)]
fn fma<S: Simd>(s: S, a: f32, x: S::V, y: S::V) -> S::V {
    s.fma(s.splat(a), x, y)
}

impl Linear for Input<2> {
    const IN: usize = 4;
    const OUT: usize = 4;
    #[inline(always)]
    fn apply<S: Simd>(s: S, [d0, d1, d2, d3, none, _]: [S::V; SIDE]) -> [S::V; SIDE] {
        [s.sub(d0, d2), s.add(d1, d2), s.sub(d2, d1), s.sub(d1, d3), none, none]
    }
}

impl Linear for Filter<2> {
    const IN: usize = 3;
    const OUT: usize = 4;
    #[inline(always)]
    fn apply<S: Simd>(s: S, [g0, g1, g2, none, ..]: [S::V; SIDE]) -> [S::V; SIDE] {
        let (even, odd) = (mul(s, 0.5, s.add(g0, g2)), mul(s, 0.5, g1));
        [g0, s.add(even, odd), s.sub(even, odd), g2, none, none]
    }
}

impl Linear for Output<2> {
    const IN: usize = 4;
    const OUT: usize = 2;
    #[inline(always)]
    fn apply<S: Simd>(s: S, [m0, m1, m2, m3, none, _]: [S::V; SIDE]) -> [S::V; SIDE] {
        [s.add(m0, s.add(m1, m2)), s.sub(s.sub(m1, m2), m3), none, none, none, none]
    }
}

impl Linear for OutputGrad<2> {
    const IN: usize = 2;
    const OUT: usize = 4;
    #[inline(always)]
    fn apply<S: Simd>(s: S, [e0, e1, none, ..]: [S::V; SIDE]) -> [S::V; SIDE] {
        [e0, s.add(e0, e1), s.sub(e0, e1), s.sub(s.splat(0.0), e1), none, none]
    }
}

impl Linear for FilterGrad<2> {
    const IN: usize = 4;
    const OUT: usize = 3;
    #[inline(always)]
    fn apply<S: Simd>(s: S, [u0, u1, u2, u3, none, _]: [S::V; SIDE]) -> [S::V; SIDE] {
        let even = mul(s, 0.5, s.add(u1, u2));
        [s.add(u0, even), mul(s, 0.5, s.sub(u1, u2)), s.add(even, u3), none, none, none]
    }
}

impl Linear for Input<4> {
    const IN: usize = 6;
    const OUT: usize = 6;
    #[inline(always)]
    fn apply<S: Simd>(s: S, [d0, d1, d2, d3, d4, d5]: [S::V; SIDE]) -> [S::V; SIDE] {
        let p_even = fma(s, -Q2, d2, d4);
        let p_odd = mul(s, P, fma(s, -Q2, d1, d3));
        let q_even = fma(s, -P2, d2, d4);
        let q_odd = mul(s, Q, fma(s, -P2, d1, d3));
        [
            fma(s, P2 * Q2, d0, fma(s, -(P2 + Q2), d2, d4)),
            s.add(p_even, p_odd),
            s.sub(p_even, p_odd),
            s.add(q_even, q_odd),
            s.sub(q_even, q_odd),
            fma(s, P2 * Q2, d1, fma(s, -(P2 + Q2), d3, d5)),
        ]
    }
}

impl Linear for Filter<4> {
    const IN: usize = 3;
    const OUT: usize = 6;
    #[inline(always)]
    fn apply<S: Simd>(s: S, [g0, g1, g2, ..]: [S::V; SIDE]) -> [S::V; SIDE] {
        let p_even = mul(s, N_P, fma(s, P2, g2, g0));
        let p_odd = mul(s, N_P * P, g1);
        let q_even = mul(s, N_Q, fma(s, Q2, g2, g0));
        let q_odd = mul(s, N_Q * Q, g1);
        [
            mul(s, N_0, g0),
            s.add(p_even, p_odd),
            s.sub(p_even, p_odd),
            s.add(q_even, q_odd),
            s.sub(q_even, q_odd),
            g2,
        ]
    }
}

impl Linear for Output<4> {
    const IN: usize = 6;
    const OUT: usize = 4;
    #[inline(always)]
    fn apply<S: Simd>(s: S, [m0, m1, m2, m3, m4, m5]: [S::V; SIDE]) -> [S::V; SIDE] {
        let (p_even, p_odd) = (s.add(m1, m2), s.sub(m1, m2));
        let (q_even, q_odd) = (s.add(m3, m4), s.sub(m3, m4));
        [
            s.add(m0, s.add(p_even, q_even)),
            fma(s, Q, q_odd, mul(s, P, p_odd)),
            fma(s, Q2, q_even, mul(s, P2, p_even)),
            s.add(fma(s, Q2 * Q, q_odd, mul(s, P2 * P, p_odd)), m5),
            m0,
            m0,
        ]
    }
}

impl Linear for OutputGrad<4> {
    const IN: usize = 4;
    const OUT: usize = 6;
    #[inline(always)]
    fn apply<S: Simd>(s: S, [e0, e1, e2, e3, ..]: [S::V; SIDE]) -> [S::V; SIDE] {
        let p_even = fma(s, P2, e2, e0);
        let p_odd = fma(s, P2 * P, e3, mul(s, P, e1));
        let q_even = fma(s, Q2, e2, e0);
        let q_odd = fma(s, Q2 * Q, e3, mul(s, Q, e1));
        [e0, s.add(p_even, p_odd), s.sub(p_even, p_odd), s.add(q_even, q_odd), s.sub(q_even, q_odd), e3]
    }
}

impl Linear for FilterGrad<4> {
    const IN: usize = 6;
    const OUT: usize = 3;
    #[inline(always)]
    fn apply<S: Simd>(s: S, [u0, u1, u2, u3, u4, u5]: [S::V; SIDE]) -> [S::V; SIDE] {
        let (p_even, p_odd) = (s.add(u1, u2), s.sub(u1, u2));
        let (q_even, q_odd) = (s.add(u3, u4), s.sub(u3, u4));
        [
            fma(s, N_0, u0, fma(s, N_P, p_even, mul(s, N_Q, q_even))),
            fma(s, N_P * P, p_odd, mul(s, N_Q * Q, q_odd)),
            s.add(fma(s, N_P * P2, p_even, mul(s, N_Q * Q2, q_even)), u5),
            u0,
            u0,
            u0,
        ]
    }
}

/// Writes `L d Lᵀ` for the values `at..at + n` (up to 16) behind each place of `d`, frequency `f` of
/// it at `to + f · plane`. All 16 floats of a vector are written.
///
/// # Safety
/// The places of the first `L::IN` rows and columns and `to` are valid for that.
#[inline(always)]
pub(super) unsafe fn to_planes<S: Simd, L: Linear>(
    s: S,
    places: &Places,
    at: usize,
    n: usize,
    to: *mut f32,
    plane: usize,
) {
    // SAFETY: as the caller promises. The first branch is compiled without masks.
    unsafe {
        if n >= LANES {
            to_planes_of::<S, L>(s, places, at, LANES, to, plane);
        } else {
            to_planes_of::<S, L>(s, places, at, n, to, plane);
        }
    }
}

#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "rows and columns of matrices")]
unsafe fn to_planes_of<S: Simd, L: Linear>(
    s: S,
    places: &Places,
    at: usize,
    n: usize,
    to: *mut f32,
    plane: usize,
) {
    let zero = s.splat(0.0);
    let mut half = [[zero; SIDE]; SIDE];
    for j in 0..L::IN {
        let mut column = [zero; SIDE];
        for i in 0..L::IN {
            // SAFETY: as the caller promises.
            column[i] = unsafe { s.load_up_to(places[i][j].add(at), n) };
        }
        let column = L::apply(s, column);
        for i in 0..L::OUT {
            half[i][j] = column[i];
        }
    }
    for (i, row) in half.into_iter().enumerate().take(L::OUT) {
        let row = L::apply(s, row);
        for j in 0..L::OUT {
            // SAFETY: as the caller promises.
            unsafe { s.store(to.add((i * L::OUT + j) * plane), row[j]) };
        }
    }
}

/// Where a tile goes: rows `strides[0]` floats apart and columns `strides[1]`, the first `size` of
/// each.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) to: *mut f32,
    pub(super) strides: [usize; 2],
    pub(super) size: [usize; 2],
}

/// Writes the first `n` (up to 16) of each value of `L u Lᵀ + shift`, of which frequency `f` of `u`
/// is at `from + f · plane`.
///
/// # Safety
/// `from` and `target` are valid for that.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "rows and columns of matrices")]
pub(super) unsafe fn from_planes<S: Simd, L: Linear>(
    s: S,
    from: *const f32,
    plane: usize,
    target: Target,
    n: usize,
    shift: Option<S::V>,
) {
    let zero = s.splat(0.0);
    let mut half = [[zero; SIDE]; SIDE];
    for j in 0..L::IN {
        let mut column = [zero; SIDE];
        for i in 0..L::IN {
            // SAFETY: as the caller promises.
            column[i] = unsafe { s.load(from.add((i * L::IN + j) * plane)) };
        }
        let column = L::apply(s, column);
        for i in 0..L::OUT {
            half[i][j] = column[i];
        }
    }
    for (i, row) in half.into_iter().enumerate().take(target.size[0].min(L::OUT)) {
        let row = L::apply(s, row);
        for j in 0..L::OUT {
            if j < target.size[1] {
                let value = match shift {
                    Some(shift) => s.add(row[j], shift),
                    None => row[j],
                };
                // SAFETY: as the caller promises.
                unsafe {
                    let to = target.to.add(i * target.strides[0] + j * target.strides[1]);
                    s.store_up_to(to, value, n);
                }
            }
        }
    }
}

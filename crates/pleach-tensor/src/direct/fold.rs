//! Left folds over pixels, for the derivative by weights.

#![expect(unsafe_code, reason = "inner loops read and write by pointers")]

use crate::simd::{Body, LANES, Simd};

/// Folds `lines` lines of weights of up to 32 columns over a list of pixels: the derivative by the
/// weight at `(line, column)` is the sum of `x[from + line] · dy[to + column]`.
pub(super) struct Fold<'a> {
    pub(super) x: *const f32,
    pub(super) dy: *const f32,
    pub(super) pixels: &'a [[u32; 2]],
    pub(super) dw: *mut f32,
    pub(super) stride: usize,
    pub(super) lines: usize,
    pub(super) columns: usize,
    pub(super) first: bool,
}

impl Body for Fold<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let mut line = 0;
        while line < self.lines {
            let left = self.lines - line;
            // SAFETY: lists hold offsets in the packed images; parts write different weights.
            unsafe {
                macro_rules! fold {
                    ($lines:literal) => {{
                        if S::WIDE && self.columns > LANES {
                            self.fold::<S, $lines, 2>(s, line, 0);
                        } else {
                            self.fold::<S, $lines, 1>(s, line, 0);
                            if self.columns > LANES {
                                self.fold::<S, $lines, 1>(s, line, LANES);
                            }
                        }
                        line += $lines;
                    }};
                }
                match left {
                    8.. if S::WIDE => fold!(8),
                    4.. => fold!(4),
                    3 => fold!(3),
                    2 => fold!(2),
                    _ => fold!(1),
                }
            }
        }
    }
}

impl Fold<'_> {
    /// Folds `L` lines of `V` vectors of columns over all pixels.
    ///
    /// # Safety
    /// The pixels are in the packed images, and there are so many lines from `line` on.
    #[inline(always)]
    unsafe fn fold<S: Simd, const L: usize, const V: usize>(&self, s: S, line: usize, column: usize) {
        // SAFETY: as the caller promises.
        unsafe {
            let out = self.dw.add(line * self.stride + column);
            let mut sums = [[s.splat(0.0); V]; L];
            if !self.first {
                for (l, sums) in sums.iter_mut().enumerate() {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        let left = self.columns.saturating_sub(column + v * LANES);
                        if left > 0 {
                            *sum = s.load_up_to(out.add(l * self.stride + v * LANES), left);
                        }
                    }
                }
            }
            let (x, dy) = (self.x.add(line), self.dy.add(column));
            for &[from, to] in self.pixels {
                let (x, dy) = (x.add(from as usize), dy.add(to as usize));
                let mut columns = [s.splat(0.0); V];
                for (v, vector) in columns.iter_mut().enumerate() {
                    *vector = s.load_up_to(dy.add(v * LANES), self.columns - column - v * LANES);
                }
                for l in 0..L {
                    let x = s.splat(*x.add(l));
                    for v in 0..V {
                        sums[l][v] = s.fma(x, columns[v], sums[l][v]);
                    }
                }
            }
            for (l, sums) in sums.iter().enumerate() {
                for (v, &sum) in sums.iter().enumerate() {
                    let left = self.columns.saturating_sub(column + v * LANES);
                    if left > 0 {
                        s.store_up_to(out.add(l * self.stride + v * LANES), sum, left);
                    }
                }
            }
        }
    }
}

//! Products of small matrices, a tile of registers at a time.

use crate::simd::{LANES, Simd};

/// `c[i][j] = Σ_p a[i·a_row + p·a_step] · b[p·b_row + j]`, summed in the order of `p`.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub(super) a: *const f32,
    pub(super) a_row: usize,
    pub(super) a_step: usize,
    pub(super) b: *const f32,
    pub(super) b_row: usize,
    pub(super) c: *mut f32,
    pub(super) c_row: usize,
    pub(super) depth: usize,
    /// Whether the sum goes on from what is in `c`; else it begins with 0.
    pub(super) resume: bool,
}

impl Product {
    /// Computes `rows` rows of one or two vectors.
    ///
    /// # Safety
    /// The matrices are as large as that.
    #[inline(always)]
    pub(super) unsafe fn run<S: Simd>(self, s: S, rows: usize, vectors: usize) {
        // SAFETY: as the caller promises; the columns that are not computed here are below.
        unsafe {
            if S::WIDE && vectors == 2 {
                self.columns::<S, 12, 8, 2>(s, rows);
            } else if S::WIDE {
                self.columns::<S, 12, 8, 1>(s, rows);
            } else {
                self.columns::<S, 6, 4, 1>(s, rows);
                if vectors == 2 {
                    let right = Product { b: self.b.add(LANES), c: self.c.add(LANES), ..self };
                    right.columns::<S, 6, 4, 1>(s, rows);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn columns<S: Simd, const MOST: usize, const MANY: usize, const NV: usize>(
        self,
        s: S,
        rows: usize,
    ) {
        let mut i = 0;
        while i < rows {
            let left = rows - i;
            // SAFETY: rows `i..` of the matrices.
            unsafe {
                let part = Product { a: self.a.add(i * self.a_row), c: self.c.add(i * self.c_row), ..self };
                // Two tiles of MANY are better than MOST and a small rest.
                if left >= MOST && left != 2 * MANY {
                    part.tile::<S, MOST, NV>(s);
                    i += MOST;
                } else if left >= MANY {
                    part.tile::<S, MANY, NV>(s);
                    i += MANY;
                } else if left >= 4 {
                    part.tile::<S, 4, NV>(s);
                    i += 4;
                } else if left >= 2 {
                    part.tile::<S, 2, NV>(s);
                    i += 2;
                } else {
                    part.tile::<S, 1, NV>(s);
                    i += 1;
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn tile<S: Simd, const ROWS: usize, const NV: usize>(self, s: S) {
        let mut sums = [[s.splat(0.0); NV]; ROWS];
        // SAFETY: as the caller of `run` promises.
        unsafe {
            if self.resume {
                for (i, row) in sums.iter_mut().enumerate() {
                    for (v, sum) in row.iter_mut().enumerate() {
                        *sum = s.load(self.c.add(i * self.c_row + v * LANES));
                    }
                }
            }
            for p in 0..self.depth {
                let mut b = [s.splat(0.0); NV];
                for (v, b) in b.iter_mut().enumerate() {
                    *b = s.load(self.b.add(p * self.b_row + v * LANES));
                }
                for (i, row) in sums.iter_mut().enumerate() {
                    let a = s.splat(*self.a.add(i * self.a_row + p * self.a_step));
                    for (sum, &b) in row.iter_mut().zip(&b) {
                        *sum = s.fma(a, b, *sum);
                    }
                }
            }
            for (i, row) in sums.iter().enumerate() {
                for (v, &sum) in row.iter().enumerate() {
                    s.store(self.c.add(i * self.c_row + v * LANES), sum);
                }
            }
        }
    }
}

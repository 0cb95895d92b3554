//! Sums over rows: the derivative by a bias.

#![expect(unsafe_code, reason = "inner loops read and write by pointers")]

use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Context, Kernel};

/// Rows that one chain of the bias sums.
const CHAIN: usize = 1024;

/// Reads `dy` of so many rows and columns, and writes the sum of every column: over chunks of 1,024
/// rows, which are then added in their order.
#[derive(Debug)]
pub(crate) struct BiasGrad {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl Kernel for BiasGrad {
    fn workspaces(&self) -> Vec<usize> {
        vec![self.rows.div_ceil(CHAIN) * self.columns]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let (dy, isa, columns) = (reads[0], cx.isa, self.columns);
        let sums = Shared::new(workspace);
        let chunks = self.rows.div_ceil(CHAIN);
        cx.pool.run(chunks, &|chunk| {
            let first = chunk * CHAIN;
            let rows = CHAIN.min(self.rows - first);
            let from = dy[first * columns..].as_ptr();
            isa.run(SumRows { from, stride: columns, rows, columns, to: sums.at(chunk * columns) });
        });
        let (from, to) = (workspace.as_ptr(), writes[0].as_mut_ptr());
        isa.run(SumRows { from, stride: columns, rows: chunks, columns, to });
    }
}

/// Adds rows in their order.
pub(super) struct SumRows {
    pub(super) from: *const f32,
    /// Floats from a row to the next.
    pub(super) stride: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) to: *mut f32,
}

impl Body for SumRows {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for column in (0..self.columns).step_by(LANES) {
            let n = self.columns - column;
            let mut sum = s.splat(0.0);
            // SAFETY: there are so many rows and columns.
            unsafe {
                for row in 0..self.rows {
                    sum = s.add(sum, s.load_up_to(self.from.add(row * self.stride + column), n));
                }
                s.store_up_to(self.to.add(column), sum, n);
            }
        }
    }
}

//! The sum of squares of a gradient.

use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Context, Kernel};

/// Elements a part works on; each part has sixteen sums of its own.
const PART: usize = 64 * 1024;

/// Reads a tensor and writes the sum of the squares of its elements.
///
/// Sums run over fixed parts in sixteen chains each, which are added up in `f64` in their order.
#[derive(Clone, Copy, Debug)]
pub struct SquareSum {
    /// The elements of the tensor.
    pub len: usize,
}

impl Kernel for SquareSum {
    fn workspaces(&self) -> Vec<usize> {
        vec![self.len.div_ceil(PART) * LANES]
    }

    #[expect(unsafe_code, reason = "sums of parts are written on several threads")]
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        struct Part {
            x: *const f32,
            sums: *mut f32,
            len: usize,
        }
        impl Body for Part {
            #[inline(always)]
            fn run<S: Simd>(self, s: S) {
                let mut sum = s.splat(0.0);
                let mut i = 0;
                while i < self.len {
                    // SAFETY: `x` holds `len` floats, `sums` a vector.
                    unsafe {
                        let x = s.load_up_to(self.x.add(i), self.len - i);
                        sum = s.fma(x, x, sum);
                    }
                    i += LANES;
                }
                // SAFETY: as above.
                unsafe { s.store(self.sums, sum) };
            }
        }
        let (x, isa) = (reads[0], cx.isa);
        let sums = Shared::new(workspace);
        cx.pool.run(x.len().div_ceil(PART), &|part| {
            let from = part * PART;
            let len = PART.min(x.len() - from);
            isa.run(Part { x: x[from..].as_ptr(), sums: sums.at(part * LANES), len });
        });
        let sum: f64 = workspace.iter().map(|&sum| f64::from(sum)).sum();
        #[expect(clippy::cast_possible_truncation, reason = "the sum is a float like its terms")]
        let sum = sum as f32;
        writes[0][0] = sum;
    }
}

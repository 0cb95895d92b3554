//! Copies of blocks that lie at equal distances: what concatenations and slices are made of.

#![expect(unsafe_code, reason = "parts of one slice are written on several threads")]

use crate::Context;
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};

/// Elements a part works on.
const PART: usize = 16 * 1024;

/// Blocks of `width` floats whose starts are `stride` apart, the first at `from`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    pub(super) from: usize,
    pub(super) width: usize,
    pub(super) stride: usize,
}

impl Blocks {
    /// Blocks behind one another.
    pub(super) fn dense(width: usize) -> Blocks {
        Blocks { from: 0, width, stride: width }
    }
}

struct Copy {
    /// Null for zeros.
    from: *const f32,
    from_stride: usize,
    to: *mut f32,
    to_stride: usize,
    rows: usize,
    width: usize,
}

/// Copies `rows` blocks of `source` to blocks of the same width of `to`, or writes zeros.
pub(super) fn copy(
    cx: &mut Context<'_>,
    rows: usize,
    source: Option<(&[f32], Blocks)>,
    to: &mut [f32],
    blocks: Blocks,
) {
    if blocks.width == 0 {
        return;
    }
    let width = blocks.width.min(PART);
    let height = PART / width;
    let across = blocks.width.div_ceil(width);
    let (isa, to) = (cx.isa, Shared::new(to));
    cx.pool.run(rows.div_ceil(height) * across, &|part| {
        let (row, column) = (part / across * height, part % across * width);
        let (from, from_stride) = match source {
            Some((from, source)) => {
                (from[source.from + row * source.stride + column..].as_ptr(), source.stride)
            }
            None => (std::ptr::null(), 0),
        };
        isa.run(Copy {
            from,
            from_stride,
            to: to.at(blocks.from + row * blocks.stride + column),
            to_stride: blocks.stride,
            rows: height.min(rows - row),
            width: width.min(blocks.width - column),
        });
    });
}

impl Body for Copy {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for row in 0..self.rows {
            let mut i = 0;
            while i < self.width {
                let n = self.width - i;
                // SAFETY: blocks have `width` floats.
                unsafe {
                    let v = if self.from.is_null() {
                        s.splat(0.0)
                    } else {
                        s.load_up_to(self.from.add(row * self.from_stride + i), n)
                    };
                    s.store_up_to(self.to.add(row * self.to_stride + i), v, n);
                }
                i += LANES;
            }
        }
    }
}

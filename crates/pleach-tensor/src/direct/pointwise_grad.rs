//! The derivative of a filter of one pixel by its weights, where these are few: a matrix product
//! over all pixels.

use super::bias_grad::SumRows;
use super::fold::Fold;
use crate::geometry::Geometry;
use crate::kernel::Shared;
use crate::simd::LANES;
use crate::tile::COLUMNS;
use crate::{Context, Kernel};

/// Pixels that are folded at a time: 32 columns of them stay in the first cache.
const CHUNK: usize = 128;
/// The most weights; with more of them, packing what is read pays.
const WEIGHTS: usize = 64 * 1024;
/// Floats of all slices' sums, about.
const SUMS: usize = 256 * 1024;
/// Sums that a part adds over the slices.
const PART: usize = 4 * 1024;

/// Reads `(x, dy)` and writes `dw`: sums over 4 to 16 slices of the pixels, which are then added in
/// their order.
#[derive(Debug)]
pub(super) struct PointwiseGrad {
    channels: usize,
    outputs: usize,
    /// Offsets in `x` and `dy` of the pixels of an image, or of 128 pixels behind one another.
    pixels: Vec<[u32; 2]>,
    /// Floats from there to the next ones.
    steps: [usize; 2],
    /// Pixels of the output in all images.
    total: usize,
    slices: usize,
}

impl PointwiseGrad {
    /// Whether it suits these sizes.
    pub(super) fn suits(g: &Geometry) -> bool {
        g.r * g.s == 1 && g.groups == 1 && g.k.is_multiple_of(LANES) && g.c * g.k <= WEIGHTS
    }

    pub(super) fn new(g: &Geometry) -> PointwiseGrad {
        let (height, width) = (g.out_h(), g.out_w());
        let total = g.n * height * width;
        let offset = |at: usize| u32::try_from(at).expect("an image has less than 4 G floats");
        let (pixels, steps) = if g.stride == [1, 1] {
            let pixels = (0..CHUNK.min(total)).map(|i| [offset(i * g.c), offset(i * g.k)]).collect();
            (pixels, [CHUNK * g.c, CHUNK * g.k])
        } else {
            let place = |i: usize| (i / width * g.stride[0] * g.w + i % width * g.stride[1]) * g.c;
            let pixels = (0..height * width).map(|i| [offset(place(i)), offset(i * g.k)]).collect();
            (pixels, [g.h * g.w * g.c, height * width * g.k])
        };
        let slices = (SUMS / (g.c * g.k)).clamp(4, 16);
        PointwiseGrad { channels: g.c, outputs: g.k, pixels, steps, total, slices }
    }

    /// Lists of pixels until all pixels are through.
    fn units(&self) -> usize {
        self.total.div_ceil(self.pixels.len())
    }

    /// How many of them a slice has.
    fn units_of_slice(&self) -> usize {
        self.units().div_ceil(self.slices)
    }
}

impl Kernel for PointwiseGrad {
    fn workspaces(&self) -> Vec<usize> {
        vec![self.units().div_ceil(self.units_of_slice()) * self.channels * self.outputs]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let (x, dy, isa) = (reads[0], reads[1], cx.isa);
        let (units, weights) = (self.units_of_slice(), self.channels * self.outputs);
        let slices = self.units().div_ceil(units);
        let sums = Shared::new(&mut *workspace);
        cx.pool.run(slices, &|slice| {
            for unit in slice * units..((slice + 1) * units).min(self.units()) {
                let count = self.pixels.len().min(self.total - unit * self.pixels.len());
                for (i, pixels) in self.pixels[..count].chunks(CHUNK).enumerate() {
                    for column in (0..self.outputs).step_by(COLUMNS) {
                        isa.run(Fold {
                            x: x[unit * self.steps[0]..].as_ptr(),
                            dy: dy[unit * self.steps[1] + column..].as_ptr(),
                            pixels,
                            dw: sums.at(slice * weights + column),
                            stride: self.outputs,
                            lines: self.channels,
                            columns: COLUMNS.min(self.outputs - column),
                            first: unit == slice * units && i == 0,
                        });
                    }
                }
            }
        });
        let (sums, dw) = (Shared::new(workspace), Shared::new(&mut *writes[0]));
        cx.pool.run(weights.div_ceil(PART), &|part| {
            let column = part * PART;
            let columns = PART.min(weights - column);
            isa.run(SumRows {
                from: sums.at(column),
                stride: weights,
                rows: slices,
                columns,
                to: dw.at(column),
            });
        });
    }
}

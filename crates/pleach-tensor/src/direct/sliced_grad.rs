//! The derivative of a convolution by its weights, where these are few: nothing is packed, and every
//! slice of the pixels has sums of its own.

use super::bias_grad::SumRows;
use super::fold::Fold;
use crate::geometry::Geometry;
use crate::kernel::Shared;
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

/// Reads `(x, dy)` and writes `dw`: sums over up to 16 slices of the pixels, which are then added in
/// their order.
///
/// A row of the filter and all channels are one stretch of a row of images, so that they may be few.
#[derive(Debug)]
pub(super) struct SlicedGrad {
    g: Geometry,
    /// Rows of the output that are folded at a time, and how often an image has so many.
    rows: usize,
    units_of_image: usize,
    /// The offsets of their pixels in `x` and `dy`.
    pixels: Vec<[u32; 2]>,
    /// Columns of an image, with those of its padding.
    width: usize,
    /// Floats of the rows that they read, with zeros around; 0 where there are none around.
    band: usize,
    slices: usize,
}

impl SlicedGrad {
    /// Whether it suits these sizes.
    pub(super) fn suits(g: &Geometry) -> bool {
        // A row of the filter must be one stretch of a row of the image.
        g.groups == 1 && (g.s == 1 || g.dilation[1] == 1) && g.weights() <= WEIGHTS
    }

    pub(super) fn new(g: &Geometry) -> SlicedGrad {
        let mut g = *g;
        if g.r * g.s == 1 && g.stride == [1, 1] {
            // Pixels have no neighbours, so all of them are one column.
            (g.n, g.h, g.w) = (1, g.n * g.h * g.w, 1);
        }
        let (height, width) = (g.out_h(), g.w + g.padding[1] + g.padding[3]);
        let rows = CHUNK.div_ceil(g.out_w()).min(height);
        let offset = |at: usize| u32::try_from(at).expect("some rows have less than 4 G floats");
        let mut pixels = Vec::new();
        for y in 0..rows {
            for x in 0..g.out_w() {
                let from = (y * g.stride[0] * width + x * g.stride[1]) * g.c;
                pixels.push([offset(from), offset((y * g.out_w() + x) * g.k)]);
            }
        }
        let band = if g.padding == [0; 4] { 0 } else { band_rows(&g, rows) * width * g.c };
        let units_of_image = height.div_ceil(rows);
        let slices = (SUMS / g.weights()).clamp(4, 16);
        SlicedGrad { g, rows, units_of_image, pixels, width, band, slices }
    }

    fn units(&self) -> usize {
        self.g.n * self.units_of_image
    }

    fn units_of_slice(&self) -> usize {
        self.units().div_ceil(self.slices)
    }

    /// Slices there are: none is empty.
    fn slices(&self) -> usize {
        self.units().div_ceil(self.units_of_slice())
    }

    /// Copies the rows of an image that `rows` rows of the output from `first` on read.
    fn copy(&self, image: &[f32], first: usize, rows: usize, band: &mut [f32]) {
        let g = &self.g;
        let (left, len) = (g.padding[1] * g.c, g.w * g.c);
        for (i, row) in band.chunks_exact_mut(self.width * g.c).take(band_rows(g, rows)).enumerate() {
            match (first * g.stride[0] + i).checked_sub(g.padding[0]).filter(|&y| y < g.h) {
                None => row.fill(0.0),
                Some(y) => {
                    row[..left].fill(0.0);
                    row[left..left + len].copy_from_slice(&image[y * len..(y + 1) * len]);
                    row[left + len..].fill(0.0);
                }
            }
        }
    }
}

/// Rows of the input that so many rows of the output read.
fn band_rows(g: &Geometry, rows: usize) -> usize {
    (rows - 1) * g.stride[0] + (g.r - 1) * g.dilation[0] + 1
}

impl Kernel for SlicedGrad {
    fn workspaces(&self) -> Vec<usize> {
        vec![self.slices() * (self.g.weights() + self.band)]
    }

    #[expect(unsafe_code, reason = "slices have memory of their own")]
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let (x, dy, isa, g) = (reads[0], reads[1], cx.isa, &self.g);
        let (weights, lines, units) = (g.weights(), g.s * g.c, self.units_of_slice());
        let (sums, bands) = workspace.split_at_mut(self.slices() * weights);
        let (sums, bands) = (Shared::new(sums), Shared::new(bands));
        cx.pool.run(self.slices(), &|slice| {
            for unit in slice * units..((slice + 1) * units).min(self.units()) {
                let (image, first) = (unit / self.units_of_image, unit % self.units_of_image * self.rows);
                let rows = self.rows.min(g.out_h() - first);
                let image_x = &x[image * g.h * g.w * g.c..];
                let from = if self.band > 0 {
                    // SAFETY: every slice has a band of its own.
                    let band = unsafe { bands.slice(slice * self.band, (slice + 1) * self.band) };
                    self.copy(image_x, first, rows, band);
                    band.as_ptr()
                } else {
                    image_x[first * g.stride[0] * g.w * g.c..].as_ptr()
                };
                let dy = &dy[(image * g.out_h() + first) * g.out_w() * g.k..];
                for (i, pixels) in self.pixels[..rows * g.out_w()].chunks(CHUNK).enumerate() {
                    for column in (0..g.k).step_by(COLUMNS) {
                        for r in 0..g.r {
                            isa.run(Fold {
                                x: from.wrapping_add(r * g.dilation[0] * self.width * g.c),
                                dy: dy[column..].as_ptr(),
                                pixels,
                                dw: sums.at(slice * weights + r * lines * g.k + column),
                                stride: g.k,
                                lines,
                                columns: COLUMNS.min(g.k - column),
                                first: unit == slice * units && i == 0,
                            });
                        }
                    }
                }
            }
        });
        let dw = Shared::new(&mut *writes[0]);
        cx.pool.run(weights.div_ceil(PART), &|part| {
            let (from, columns) = (part * PART, PART.min(weights - part * PART));
            let rows = self.slices();
            isa.run(SumRows { from: sums.at(from), stride: weights, rows, columns, to: dw.at(from) });
        });
    }
}

//! Winograd's convolution with 3×3 filters at stride 1, for any number of channels.
//!
//! Images are cut into tiles of 2×2 or 4×4 outputs; each becomes 16 or 36 numbers a channel, its
//! *frequencies*, among which a convolution is a product of matrices, one a frequency. Buffers of
//! frequencies are planes, one a frequency, 16 floats farther apart than they are long: distances
//! that are powers of two would fall on the same sets of the cache.
//!
//! Every sum has one order. Products are summed over channels, or over tiles for the gradient of the
//! filter, from the first to the last; where such a sum is cut it goes on from what was stored.

#![expect(unsafe_code, reason = "tiles are read and written by pointers")]

mod correlation;
mod product;
#[cfg(test)]
mod tests;
mod transforms;
mod weight_grad;

use transforms::{Places, SIDE, Target};

use crate::geometry::Geometry;
use crate::simd::LANES;
use crate::{Kernel, Numerics};

/// Floats between two planes beyond what they hold.
const PADDING: usize = LANES;
/// Outputs that are multiplied at once: two vectors.
const WIDTH: usize = 2 * LANES;
/// Threads that find a buffer of their own, in the small and in the fast workspace.
const SLOTS: [usize; 2] = [2, 8];

/// How many outputs a tile has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tile {
    /// 2×2: 16 products for 36.
    F2,
    /// 4×4: 36 products for 144.
    F4,
}

impl Tile {
    /// Outputs a side.
    fn side(self) -> usize {
        match self {
            Tile::F2 => 2,
            Tile::F4 => 4,
        }
    }

    /// Numbers that a tile becomes.
    fn frequencies(self) -> usize {
        (self.side() + 2) * (self.side() + 2)
    }
}

/// Channels below which transforms cost more than the products that they save.
const CHANNELS: usize = 16;

/// The tile of a convolution: of those that `numerics` allows, the one with the fewest products for
/// the size of the output, the smaller one of two. None where a direct sum has no more, or channels
/// are few.
///
/// Neither the batch nor anything but the shape of an image and its filters has a say, so that an
/// image gives the same bits in every batch.
pub(crate) fn tile(g: &Geometry, numerics: Numerics) -> Option<Tile> {
    let tiles: &[Tile] = match numerics {
        Numerics::Direct => &[],
        Numerics::Winograd2 => &[Tile::F2],
        Numerics::Winograd4 => &[Tile::F2, Tile::F4],
    };
    let fits = [g.r, g.s] == [3, 3]
        && g.stride == [1, 1]
        && g.dilation == [1, 1]
        && g.groups == 1
        && g.c.min(g.k) >= CHANNELS;
    if !fits {
        return None;
    }
    let (height, width) = (g.out_h(), g.out_w());
    let products = |tile: Tile| {
        let side = tile.side();
        height.div_ceil(side) * width.div_ceil(side) * tile.frequencies()
    };
    let best = tiles.iter().copied().min_by_key(|&tile| products(tile))?;
    (products(best) < 9 * height * width).then_some(best)
}

/// `y = x ∗ w (+ bias)`: reads `x`, `w` and, if it is given a third, the bias `[k]`; writes `y`.
pub(crate) fn forward(g: &Geometry, tile: Tile) -> impl Kernel + use<> {
    let [top, left, ..] = g.padding;
    let (x, y) = (([g.h, g.w], g.c), ([g.out_h(), g.out_w()], g.k));
    correlation::Correlation::new(tile, g.n, x, y, [top, left], false)
}

/// The gradient by the images: reads `dy` and `w`, writes `dx`.
pub(crate) fn input_grad(g: &Geometry, tile: Tile) -> impl Kernel + use<> {
    let [top, left, ..] = g.padding;
    let (x, y) = (([g.h, g.w], g.c), ([g.out_h(), g.out_w()], g.k));
    correlation::Correlation::new(tile, g.n, y, x, [2 - top, 2 - left], true)
}

/// The gradient by the filters: reads `x` and `dy`, writes `dw`.
pub(crate) fn weight_grad(g: &Geometry, tile: Tile) -> impl Kernel + use<> {
    weight_grad::WeightGrad::new(g, tile)
}

/// Equal images and a grid of tiles over each of them.
#[derive(Clone, Copy, Debug)]
struct Grid {
    /// Height and width of an image.
    size: [usize; 2],
    channels: usize,
    /// How far the first tile begins before the image.
    padding: [usize; 2],
    /// Rows and columns of tiles.
    tiles: [usize; 2],
    /// From one tile to the next.
    step: usize,
}

impl Grid {
    /// The image, and the row and column of it, at which a tile begins.
    #[inline(always)]
    fn corner(&self, tile: usize) -> [usize; 3] {
        let [rows, columns] = self.tiles;
        let (image, place) = (tile / (rows * columns), tile % (rows * columns));
        [image, place / columns * self.step, place % columns * self.step]
    }

    /// The pixels of the `SIZE`×`SIZE` window of a tile; those outside of the image are `zeros`.
    #[inline(always)]
    fn window<const SIZE: usize>(&self, images: &[f32], tile: usize, zeros: *const f32) -> Places {
        let mut places = [[zeros; SIDE]; SIDE];
        let [image, top, left] = self.corner(tile);
        for (i, row) in places.iter_mut().enumerate().take(SIZE) {
            // Wraps to more than any size above the image and left of it.
            let y = (top + i).wrapping_sub(self.padding[0]);
            if y < self.size[0] {
                let line = (image * self.size[0] + y) * self.size[1];
                for (j, place) in row.iter_mut().enumerate().take(SIZE) {
                    let x = (left + j).wrapping_sub(self.padding[1]);
                    if x < self.size[1] {
                        // SAFETY: a pixel of an image; the kernel saw that `images` holds them all.
                        *place = unsafe { images.as_ptr().add((line + x) * self.channels) };
                    }
                }
            }
        }
        places
    }

    /// Where the outputs of a tile go that begins in the image: at most its part inside.
    #[inline(always)]
    fn target(&self, images: *mut f32, tile: usize) -> Target {
        let [image, y, x] = self.corner(tile);
        let at = ((image * self.size[0] + y) * self.size[1] + x) * self.channels;
        Target {
            to: images.wrapping_add(at),
            strides: [self.size[1] * self.channels, self.channels],
            size: [self.size[0] - y, self.size[1] - x],
        }
    }

    /// The floats of `n` images.
    fn floats(&self, n: usize) -> usize {
        n * self.size[0] * self.size[1] * self.channels
    }
}

/// `n` rounded up to whole vectors.
fn whole(n: usize) -> usize {
    n.next_multiple_of(LANES)
}

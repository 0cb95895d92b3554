//! The derivative of a convolution by its weights: sums over all pixels.
//!
//! Each weight's derivative is one left fold over the pixels that its tap reaches, image by image.
//! Images are taken some at a time; their pixels are packed, so that the inner loop reads memory in
//! its order, and the folds continue from group to group. Threads share the weights among them.

#![expect(unsafe_code, reason = "inner loops read and write by pointers")]

use super::fold::Fold;
use crate::geometry::Geometry;
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::tile::COLUMNS;
use crate::{Context, Kernel};

/// Pixels of a group of images, about.
const GROUP: usize = 1024;
/// Pixels that are packed by one part.
const PACK: usize = 256;

/// Weights that are lines of one stretch of a packed image.
#[derive(Debug)]
struct Lines {
    /// Their group of the convolution.
    group: usize,
    /// Where they begin in the packed images.
    from: usize,
    /// Which list of pixels their taps reach.
    list: usize,
    /// The first of them among all lines of the weight, and how many they are.
    line: usize,
    len: usize,
}

/// Reads `(x, dy)` and writes `dw`.
#[derive(Debug)]
pub(super) struct WeightGrad {
    g: Geometry,
    /// Sixteen channels of every pixel are packed side by side; so many blocks of them a group.
    blocks: usize,
    lines: Vec<Lines>,
    /// For each list the offsets in the packed input and in the packed derivative, image by image.
    lists: Vec<Vec<[u32; 2]>>,
    /// How many entries of each list belong to the first so many images.
    counts: Vec<Vec<usize>>,
    /// Images of a group.
    images: usize,
}

impl WeightGrad {
    pub(super) fn new(g: &Geometry) -> WeightGrad {
        let pixels = (g.h * g.w).max(g.out_h() * g.out_w());
        let images = (GROUP / pixels).clamp(1, g.n);
        let mut kernel = WeightGrad {
            g: *g,
            blocks: g.group_c().div_ceil(LANES),
            lines: Vec::new(),
            lists: Vec::new(),
            counts: Vec::new(),
            images,
        };
        kernel.list();
        kernel
    }

    /// Output pixels of an image.
    fn out_pixels(&self) -> usize {
        self.g.out_h() * self.g.out_w()
    }

    /// Floats of the packed input of a group of images.
    fn packed_input(&self) -> usize {
        self.g.groups * self.blocks * self.images * self.g.h * self.g.w * LANES
    }

    /// Panels of the derivative of a group of the convolution.
    fn panels(&self) -> usize {
        self.g.group_k().div_ceil(COLUMNS)
    }

    /// Makes a list of the pixels that each tap reaches, and which weights use it.
    fn list(&mut self) {
        let g = self.g;
        for r in 0..g.r {
            for s in 0..g.s {
                let reached = |y: usize, x: usize| {
                    let row = (y * g.stride[0] + r * g.dilation[0]).checked_sub(g.padding[0])?;
                    let column = (x * g.stride[1] + s * g.dilation[1]).checked_sub(g.padding[1])?;
                    (row < g.h && column < g.w).then_some(row * g.w + column)
                };
                let mut list = Vec::new();
                let mut counts = vec![0];
                let offset = |at: usize| u32::try_from(at).expect("a group has less than 4 G floats");
                for image in 0..self.images {
                    for pixel in 0..self.out_pixels() {
                        if let Some(from) = reached(pixel / g.out_w(), pixel % g.out_w()) {
                            let from = (image * g.h * g.w + from) * LANES;
                            let to = (image * self.out_pixels() + pixel) * COLUMNS;
                            list.push([offset(from), offset(to)]);
                        }
                    }
                    counts.push(list.len());
                }
                self.lists.push(list);
                self.counts.push(counts);
            }
        }
        for group in 0..g.groups {
            for tap in 0..g.r * g.s {
                for block in 0..self.blocks {
                    self.lines.push(Lines {
                        group,
                        from: (group * self.blocks + block) * self.images * g.h * g.w * LANES,
                        list: tap,
                        line: tap * g.group_c() + block * LANES,
                        len: LANES.min(g.group_c() - block * LANES),
                    });
                }
            }
        }
    }

    /// Packs `images` images of the input from `first` on.
    fn pack_input(&self, cx: &mut Context<'_>, x: &[f32], first: usize, images: usize, to: Shared<'_>) {
        let (g, isa) = (&self.g, cx.isa);
        let pixels = g.h * g.w;
        cx.pool.run((images * pixels).div_ceil(PACK), &|chunk| {
            let from = chunk * PACK;
            for (group, block) in pairs(g.groups, self.blocks) {
                let channel = block * LANES;
                let row = (group * self.blocks + block) * self.images * pixels + from;
                let at = (first * pixels + from) * g.c + group * g.group_c() + channel;
                isa.run(Copy {
                    from: x[at..].as_ptr(),
                    stride: g.c,
                    rows: PACK.min(images * pixels - from),
                    len: g.group_c() - channel,
                    width: LANES,
                    to: to.at(row * LANES),
                });
            }
        });
    }

    /// Packs `images` images of the derivative from `first` on: 32 channels side by side.
    fn pack_grad(&self, cx: &mut Context<'_>, dy: &[f32], first: usize, images: usize, to: Shared<'_>) {
        let (g, isa) = (&self.g, cx.isa);
        let (pixels, panels) = (self.out_pixels(), self.panels());
        cx.pool.run((images * pixels).div_ceil(PACK), &|chunk| {
            let from = chunk * PACK;
            for (group, panel) in pairs(g.groups, panels) {
                let channel = panel * COLUMNS;
                let row = (group * panels + panel) * self.images * pixels + from;
                let at = (first * pixels + from) * g.k + group * g.group_k() + channel;
                isa.run(Copy {
                    from: dy[at..].as_ptr(),
                    stride: g.k,
                    rows: PACK.min(images * pixels - from),
                    len: g.group_k() - channel,
                    width: COLUMNS,
                    to: to.at(row * COLUMNS),
                });
            }
        });
    }
}

/// All pairs of a group and one of its `each` blocks.
fn pairs(groups: usize, each: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..groups).flat_map(move |group| (0..each).map(move |block| (group, block)))
}

impl Kernel for WeightGrad {
    fn workspaces(&self) -> Vec<usize> {
        let grad = self.g.groups * self.panels() * self.images * self.out_pixels() * COLUMNS;
        vec![self.packed_input().next_multiple_of(LANES) + grad]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let (x, dy) = (reads[0], reads[1]);
        let (input, grad) = workspace.split_at_mut(self.packed_input().next_multiple_of(LANES));
        let (input, grad, dw) = (Shared::new(input), Shared::new(grad), Shared::new(&mut *writes[0]));
        let (g, isa, panels) = (&self.g, cx.isa, self.panels());
        for first in (0..g.n).step_by(self.images) {
            let images = self.images.min(g.n - first);
            self.pack_input(cx, x, first, images, input);
            self.pack_grad(cx, dy, first, images, grad);
            cx.pool.run(self.lines.len() * panels, &|part| {
                let (panel, lines) = (part / self.lines.len(), &self.lines[part % self.lines.len()]);
                let column = panel * COLUMNS;
                let row = (lines.group * panels + panel) * self.images;
                let to = lines.line * g.k + lines.group * g.group_k() + column;
                isa.run(Fold {
                    x: input.at(lines.from),
                    dy: grad.at(row * self.out_pixels() * COLUMNS),
                    pixels: &self.lists[lines.list][..self.counts[lines.list][images]],
                    dw: dw.at(to),
                    stride: g.k,
                    lines: lines.len,
                    columns: COLUMNS.min(g.group_k() - column),
                    first: first == 0,
                });
            });
        }
    }
}

/// Copies rows of up to `width` floats, filling up with zeros.
struct Copy {
    from: *const f32,
    stride: usize,
    rows: usize,
    len: usize,
    width: usize,
    to: *mut f32,
}

impl Body for Copy {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for row in 0..self.rows {
            for v in (0..self.width).step_by(LANES) {
                // SAFETY: rows lie in the tensor, and the packed ones are this part's own.
                unsafe {
                    let from = self.from.add(row * self.stride);
                    let vector =
                        if v < self.len { s.load_up_to(from.add(v), self.len - v) } else { s.splat(0.0) };
                    s.store(self.to.add(row * self.width + v), vector);
                }
            }
        }
    }
}

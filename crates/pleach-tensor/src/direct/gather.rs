//! A convolution, forward or to its input: every pixel is a sum over the pixels that it gathers.
//!
//! Pixels are grouped into classes that gather the same taps of the filter at the same distances, so
//! that the inner loop knows no borders and no strides: a tap that falls outside the image is simply
//! not in the list of its class, and nothing is padded or dilated with zeros.

#![expect(unsafe_code, reason = "rows are gathered by pointers")]

use std::collections::HashMap;

use super::taps::{Taps, distances, forward_taps, input_taps};
use crate::geometry::Geometry;
use crate::kernel::Shared;
use crate::simd::{Body, Simd};
use crate::tile::{COLUMNS, Run, Source, Start, next_rows, pack, product};
use crate::{Context, Kernel};

/// Floats of rows that a part reads, about: they share a cache with a panel.
const PART: usize = 64 * 1024;
/// The fewest parts of a large convolution.
const PARTS: usize = 16;
/// Floats of all panels above which a part works on one of them.
const PANELS: usize = 128 * 1024;

/// Pixels that gather alike.
#[derive(Debug)]
struct Class {
    /// Where a pixel's first tap is, and where the pixel itself is, in floats from the image.
    pixels: Vec<[u32; 2]>,
    /// What is gathered; empty where no tap of the filter reaches.
    runs: Vec<Run>,
}

/// Rows of one class: pixels of images behind one another.
#[derive(Clone, Copy, Debug)]
struct Block {
    class: usize,
    first: usize,
    len: usize,
}

/// One direction of a convolution. Reads `(x, w)` or `(x, w, bias)` and writes `y`, or reads
/// `(dy, w)` and writes `dx`.
#[derive(Debug)]
pub(crate) struct Gather {
    classes: Vec<Class>,
    blocks: Vec<Block>,
    taps: usize,
    groups: usize,
    /// Channels that are gathered, and that are written, of a group.
    from: usize,
    to: usize,
    /// Floats of an image that is read, and of one that is written.
    from_image: usize,
    to_image: usize,
    /// Floats between lines of the weight.
    weight_stride: usize,
    /// Whether lines of the weight are what is written.
    transposed: bool,
    bias: bool,
}

impl Gather {
    /// `y = x ∗ w`, plus a bias a channel.
    pub(crate) fn forward(g: &Geometry, bias: bool) -> Gather {
        let [rows, columns] = forward_taps(g);
        let (from, to) = (g.w * g.c, g.out_w() * g.k);
        let (from, to) = ([g.h * from, from, g.c], [g.out_h() * to, to, g.k]);
        Gather::new(g, [&rows, &columns], from, to, false, bias)
    }

    /// `dx`, from `dy` and `w`; a transposed convolution adds a bias a channel.
    pub(crate) fn input_grad(g: &Geometry, bias: bool) -> Gather {
        let [rows, columns] = input_taps(g);
        let (from, to) = (g.out_w() * g.k, g.w * g.c);
        let (from, to) = ([g.out_h() * from, from, g.k], [g.h * to, to, g.c]);
        Gather::new(g, [&rows, &columns], from, to, true, bias)
    }

    /// From the taps of every row and column that is written. Strides are floats of an image, of a
    /// row and of a pixel that is read, and that is written.
    pub(super) fn new(
        g: &Geometry,
        [rows, columns]: [&[Taps]; 2],
        from_strides: [usize; 3],
        to_strides: [usize; 3],
        transposed: bool,
        bias: bool,
    ) -> Gather {
        let [from_image, from_row, from_pixel] = from_strides;
        let [to_image, to_row, to_pixel] = to_strides;
        let (from, to) = if transposed { (g.group_k(), g.group_c()) } else { (g.group_c(), g.group_k()) };
        let mut places: HashMap<[Taps; 2], usize> = HashMap::new();
        let mut classes: Vec<Class> = Vec::new();
        for (y, row) in rows.iter().enumerate() {
            for (x, column) in columns.iter().enumerate() {
                let place = *places.entry([distances(row), distances(column)]).or_insert_with(|| {
                    let line = |r, s| from * place(r * g.s + s, g.r * g.s, transposed);
                    let runs = runs(row, column, line, from, [from_row, from_pixel], g.groups == 1);
                    classes.push(Class { pixels: Vec::new(), runs });
                    classes.len() - 1
                });
                let first = match (row.first(), column.first()) {
                    (Some(row), Some(column)) => row[1] * from_row + column[1] * from_pixel,
                    _ => 0,
                };
                let pixel = y * to_row + x * to_pixel;
                let offset = |at: usize| u32::try_from(at).expect("an image has less than 4 G floats");
                classes[place].pixels.push([offset(first), offset(pixel)]);
            }
        }
        let rows = g.n * rows.len() * columns.len();
        let part = (PART / from).min(rows / PARTS).clamp(48, 4096) / 48 * 48;
        let mut blocks = Vec::new();
        for (class, pixels) in classes.iter().map(|class| class.pixels.len()).enumerate() {
            let mut first = 0;
            while first < g.n * pixels {
                let len = part.min(g.n * pixels - first);
                blocks.push(Block { class, first, len });
                first += len;
            }
        }
        // Large parts first, so that threads end together.
        blocks.sort_by_key(|block| std::cmp::Reverse(block.len));
        Gather {
            classes,
            blocks,
            taps: g.r * g.s,
            groups: g.groups,
            from,
            to,
            from_image,
            to_image,
            weight_stride: g.k,
            transposed,
            bias,
        }
    }

    /// Panels of a group.
    fn panels(&self) -> usize {
        self.to.div_ceil(COLUMNS)
    }

    /// Floats of a panel.
    fn panel(&self) -> usize {
        self.taps * self.from * COLUMNS
    }
}

/// Where a tap lies in a panel: backwards on the way to the input, in the order of the pixels.
fn place(tap: usize, taps: usize, transposed: bool) -> usize {
    if transposed { taps - 1 - tap } else { tap }
}

/// What a class gathers, from its first tap on, `line` being where a tap's lines of the panel begin.
/// Taps that follow one another in memory and in the panel are one run, if all channels are gathered.
fn runs(
    rows: &[[usize; 2]],
    columns: &[[usize; 2]],
    line: impl Fn(usize, usize) -> usize,
    channels: usize,
    [row_stride, stride]: [usize; 2],
    whole: bool,
) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let distance = |a: usize, b: usize| a.cast_signed() - b.cast_signed();
    for row in rows {
        for column in columns {
            let down = distance(row[1], rows[0][1]) * row_stride.cast_signed();
            let right = distance(column[1], columns[0][1]) * stride.cast_signed();
            let run = Run { row: down + right, panel: line(row[0], column[0]), len: channels };
            match runs.last_mut() {
                Some(last)
                    if whole
                        && last.row + last.len.cast_signed() == run.row
                        && last.panel + last.len == run.panel =>
                {
                    last.len += run.len;
                }
                _ => runs.push(run),
            }
        }
    }
    runs
}

impl Kernel for Gather {
    fn workspaces(&self) -> Vec<usize> {
        vec![self.groups * self.panels() * self.panel()]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let (x, w) = (reads[0], reads[1]);
        let bias = if self.bias { Some(reads[2]) } else { None };
        let isa = cx.isa;
        let (panels, y) = (Shared::new(workspace), Shared::new(&mut *writes[0]));
        let (per_group, size) = (self.panels(), self.panel());
        cx.pool.run(self.groups * per_group * self.taps, &|part| {
            let (panel, tap) = (part / self.taps, part % self.taps);
            let (group, column) = (panel / per_group, panel % per_group * COLUMNS);
            // A tap of the weight has as many lines as a group has inputs, and all outputs in each.
            let (lines, first) = if self.transposed {
                (self.to, group * self.from + column * self.weight_stride)
            } else {
                (self.from, group * self.to + column)
            };
            let source = Source {
                from: w[tap * lines * self.weight_stride + first..].as_ptr(),
                lines: self.from,
                columns: COLUMNS.min(self.to - column),
                line_stride: if self.transposed { 1 } else { self.weight_stride },
                column_stride: if self.transposed { self.weight_stride } else { 1 },
            };
            let line = self.from * place(tap, self.taps, self.transposed);
            let panel = panels.at(panel * size + line * COLUMNS);
            isa.run(Pack { source, panel });
        });
        // With few weights a part goes through all panels, with many it keeps one.
        let all = self.groups * per_group;
        let (shared, parts) =
            if all * size <= PANELS { (all, self.blocks.len()) } else { (1, self.blocks.len() * all) };
        cx.pool.run(parts, &|part| {
            let (first, block) = (part / self.blocks.len(), part % self.blocks.len());
            let block = self.blocks[block];
            for panel in first..first + shared {
                let (group, column) = (panel / per_group, panel % per_group * COLUMNS);
                let to = group * self.to + column;
                isa.run(Part {
                    class: &self.classes[block.class],
                    block,
                    images: [self.from_image, self.to_image],
                    x: x[group * self.from..].as_ptr(),
                    panel: panels.at(panel * size),
                    start: bias.map_or(Start::Zero, |bias| Start::Bias(bias[to..].as_ptr())),
                    y: y.at(to),
                    columns: COLUMNS.min(self.to - column),
                });
            }
        });
    }
}

struct Pack {
    source: Source,
    panel: *mut f32,
}

impl Body for Pack {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: the source lies in the weight, and the panel is this part's own.
        unsafe { pack(s, self.source, self.panel) }
    }
}

struct Part<'a> {
    class: &'a Class,
    block: Block,
    images: [usize; 2],
    x: *const f32,
    panel: *const f32,
    start: Start,
    y: *mut f32,
    columns: usize,
}

impl Body for Part<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Part { class, block, images, x, panel, start, y, columns } = self;
        let pixels = &class.pixels[..];
        let (mut image, mut pixel) = (block.first / pixels.len(), block.first % pixels.len());
        let mut left = block.len;
        let mut rows = [std::ptr::null(); 12];
        let mut outs = [std::ptr::null_mut(); 12];
        while left > 0 {
            let count = next_rows::<S>(left);
            // SAFETY: classes hold offsets inside images, and parts write different pixels or
            // different columns of them.
            unsafe {
                for i in 0..count {
                    let [from, to] = pixels[pixel];
                    rows[i] = x.add(image * images[0] + from as usize);
                    outs[i] = y.add(image * images[1] + to as usize);
                    pixel += 1;
                    if pixel == pixels.len() {
                        (image, pixel) = (image + 1, 0);
                    }
                }
                product(s, count, &rows, &class.runs, panel, start, &outs, columns);
            }
            left -= count;
        }
    }
}

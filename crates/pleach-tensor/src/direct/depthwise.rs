//! Convolutions in which every channel has a filter of its own: the channels are the vectors.

#![expect(unsafe_code, reason = "inner loops read and write by pointers")]

use super::bias_grad::SumRows;
use super::taps::{Taps, distances, forward_taps, input_taps};
use crate::geometry::Geometry;
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Context, Kernel};

/// Floats that a part writes, about.
const PART: usize = 8 * 1024;
/// The most chains of the derivative by the weight.
const CHAINS: usize = 32;

/// How one direction of a depthwise convolution moves over images.
#[derive(Debug)]
struct Walk {
    channels: usize,
    filter_columns: usize,
    /// What every written row sums.
    rows: Vec<Taps>,
    /// The pixels of every written row.
    segments: Vec<Segment>,
    /// Floats of an image and of a row that is read, and that is written.
    from: [usize; 2],
    to: [usize; 2],
}

/// Equally spaced pixels of a row that sum alike.
#[derive(Debug)]
struct Segment {
    /// Taps of the filter, and their distances in floats from the first pixel that is read.
    taps: Taps,
    /// The first pixel that is read and the one that is written, in floats from their rows.
    from: usize,
    to: usize,
    /// From one to the next.
    from_step: usize,
    to_step: usize,
    len: usize,
    /// Whether the pixels that one sums are neighbours as those that are written, so that most are
    /// read for several of them.
    slides: bool,
}

impl Walk {
    fn forward(g: &Geometry) -> Walk {
        let [rows, columns] = forward_taps(g);
        Walk {
            channels: g.c,
            filter_columns: g.s,
            segments: segments(&columns, g.c),
            rows,
            from: [g.h * g.w * g.c, g.w * g.c],
            to: [g.out_h() * g.out_w() * g.c, g.out_w() * g.c],
        }
    }

    fn backward(g: &Geometry) -> Walk {
        let [rows, columns] = input_taps(g);
        Walk {
            channels: g.c,
            filter_columns: g.s,
            segments: segments(&columns, g.c),
            rows,
            from: [g.out_h() * g.out_w() * g.c, g.out_w() * g.c],
            to: [g.h * g.w * g.c, g.w * g.c],
        }
    }
}

/// Cuts the columns that are written into segments.
fn segments(columns: &[Taps], channels: usize) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    let slides = false;
    for (column, taps) in columns.iter().enumerate() {
        let from = taps.first().map_or(0, |tap| tap[1]) * channels;
        let to = column * channels;
        let taps: Taps = distances(taps).iter().map(|&[tap, pixel]| [tap, pixel * channels]).collect();
        // With a stride the pixels that sum alike take turns.
        let open = segments.iter_mut().rev().find(|segment| {
            let at = |start: usize, step: usize| start + segment.len * step;
            segment.taps == taps
                && (segment.len == 1 && from >= segment.from
                    || at(segment.from, segment.from_step) == from && at(segment.to, segment.to_step) == to)
        });
        match open {
            Some(segment) => {
                if segment.len == 1 {
                    (segment.from_step, segment.to_step) = (from - segment.from, to - segment.to);
                }
                segment.len += 1;
            }
            None => segments.push(Segment { taps, from, to, from_step: 0, to_step: 0, len: 1, slides }),
        }
    }
    for segment in &mut segments {
        let step = segment.from_step;
        segment.slides = segment.taps.windows(2).all(|pair| pair[1][1] == pair[0][1] + step);
    }
    segments
}

/// One direction of a depthwise convolution. Reads `(x, w)` or `(x, w, bias)` and writes `y`, or
/// reads `(dy, w)` and writes `dx`.
#[derive(Debug)]
pub(crate) struct Depthwise {
    walk: Walk,
    images: usize,
    bias: bool,
}

impl Depthwise {
    /// `y = x ∗ w`, plus a bias a channel.
    pub(crate) fn forward(g: &Geometry, bias: bool) -> Depthwise {
        Depthwise { walk: Walk::forward(g), images: g.n, bias }
    }

    /// `dx`, from `dy` and `w`.
    pub(crate) fn input_grad(g: &Geometry) -> Depthwise {
        Depthwise { walk: Walk::backward(g), images: g.n, bias: false }
    }
}

impl Kernel for Depthwise {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let (x, w, isa, walk) = (reads[0], reads[1], cx.isa, &self.walk);
        let bias = if self.bias { Some(reads[2]) } else { None };
        let y = Shared::new(&mut *writes[0]);
        let height = walk.rows.len();
        let rows = (PART / walk.to[1]).max(1);
        cx.pool.run((self.images * height).div_ceil(rows), &|part| {
            for row in part * rows..((part + 1) * rows).min(self.images * height) {
                let (image, row) = (row / height, row % height);
                isa.run(Row {
                    walk,
                    taps: &walk.rows[row],
                    x: x[image * walk.from[0]..].as_ptr(),
                    w: w.as_ptr(),
                    bias: bias.map(<[f32]>::as_ptr),
                    y: y.at(image * walk.to[0] + row * walk.to[1]),
                });
            }
        });
    }
}

/// One row that is written.
struct Row<'a> {
    walk: &'a Walk,
    taps: &'a [[usize; 2]],
    x: *const f32,
    w: *const f32,
    bias: Option<*const f32>,
    y: *mut f32,
}

impl Body for Row<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for segment in &self.walk.segments {
            let mut pixel = 0;
            while pixel < segment.len {
                // SAFETY: segments hold offsets inside rows, and nobody else writes this row.
                unsafe {
                    pixel += match segment.len - pixel {
                        8.. if S::WIDE => self.pixels::<S, 8>(s, segment, pixel),
                        4.. => self.pixels::<S, 4>(s, segment, pixel),
                        2.. => self.pixels::<S, 2>(s, segment, pixel),
                        _ => self.pixels::<S, 1>(s, segment, pixel),
                    };
                }
            }
        }
    }
}

impl Row<'_> {
    /// Computes `P` pixels of a segment, and returns `P`.
    ///
    /// # Safety
    /// The segment has so many from `first` on.
    #[inline(always)]
    unsafe fn pixels<S: Simd, const P: usize>(&self, s: S, segment: &Segment, first: usize) -> usize {
        let channels = self.walk.channels;
        let whole = channels / LANES * LANES;
        // SAFETY: as the caller promises.
        unsafe {
            for channel in (0..whole).step_by(LANES) {
                self.vector::<S, P, true>(s, segment, first, channel);
            }
            if whole < channels {
                self.vector::<S, P, false>(s, segment, first, whole);
            }
        }
        P
    }

    /// One vector of channels of `P` pixels.
    ///
    /// # Safety
    /// As [`pixels`](Row::pixels); there are 16 channels, or fewer if it is not `WHOLE`.
    #[inline(always)]
    unsafe fn vector<S: Simd, const P: usize, const WHOLE: bool>(
        &self,
        s: S,
        segment: &Segment,
        first: usize,
        channel: usize,
    ) {
        let channels = self.walk.channels;
        let n = channels - channel;
        // SAFETY: as the caller promises.
        unsafe {
            let start = match self.bias {
                Some(bias) => load::<S, WHOLE>(s, bias.add(channel), n),
                None => s.splat(0.0),
            };
            let mut sums = [start; P];
            let x = self.x.add(segment.from + first * segment.from_step + channel);
            for &[r, row] in self.taps {
                let x = x.add(row * self.walk.from[1]);
                let w = self.w.add(r * self.walk.filter_columns * channels + channel);
                match (segment.taps.len(), segment.slides) {
                    (3, true) => self.slide::<S, P, 3, WHOLE>(s, segment, x, w, n, &mut sums),
                    (5, true) => self.slide::<S, P, 5, WHOLE>(s, segment, x, w, n, &mut sums),
                    _ => {
                        for &[tap, distance] in &segment.taps {
                            let w = load::<S, WHOLE>(s, w.add(tap * channels), n);
                            let x = x.add(distance);
                            for (p, sum) in sums.iter_mut().enumerate() {
                                *sum = s.fma(load::<S, WHOLE>(s, x.add(p * segment.from_step), n), w, *sum);
                            }
                        }
                    }
                }
            }
            let y = self.y.add(segment.to + first * segment.to_step + channel);
            for (p, &sum) in sums.iter().enumerate() {
                store::<S, WHOLE>(s, y.add(p * segment.to_step), sum, n);
            }
        }
    }

    /// Adds a row of `T` taps to `P` pixels, in the order of the taps, reading every pixel once.
    ///
    /// # Safety
    /// As [`vector`](Row::vector), with pointers to its channels; the segment slides and has `T` taps.
    #[inline(always)]
    unsafe fn slide<S: Simd, const P: usize, const T: usize, const WHOLE: bool>(
        &self,
        s: S,
        segment: &Segment,
        x: *const f32,
        w: *const f32,
        n: usize,
        sums: &mut [S::V; P],
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            let mut taps = [s.splat(0.0); T];
            for (t, tap) in taps.iter_mut().enumerate() {
                *tap = load::<S, WHOLE>(s, w.add(segment.taps[t][0] * self.walk.channels), n);
            }
            for pixel in 0..P + T - 1 {
                let x = load::<S, WHOLE>(s, x.add(pixel * segment.from_step), n);
                for t in 0..T {
                    if pixel >= t && pixel - t < P {
                        sums[pixel - t] = s.fma(x, taps[t], sums[pixel - t]);
                    }
                }
            }
        }
    }
}

/// # Safety
/// There are 16 floats, or `n` fewer if it is not `WHOLE`.
#[inline(always)]
unsafe fn load<S: Simd, const WHOLE: bool>(s: S, from: *const f32, n: usize) -> S::V {
    // SAFETY: as the caller promises.
    unsafe { if WHOLE { s.load(from) } else { s.load_first(from, n) } }
}

/// # Safety
/// As [`load`].
#[inline(always)]
unsafe fn store<S: Simd, const WHOLE: bool>(s: S, to: *mut f32, v: S::V, n: usize) {
    // SAFETY: as the caller promises.
    unsafe { if WHOLE { s.store(to, v) } else { s.store_first(to, v, n) } }
}

/// Reads `(x, dy)` of a depthwise convolution and writes `dw`: sums over up to 32 chunks of rows of
/// the output, which are then added in their order.
#[derive(Debug)]
pub(crate) struct DepthwiseWeightGrad {
    walk: Walk,
    weights: usize,
    /// Rows of the output in all images, and in a chunk.
    rows: usize,
    chunk: usize,
}

impl DepthwiseWeightGrad {
    pub(crate) fn new(g: &Geometry) -> DepthwiseWeightGrad {
        let rows = g.n * g.out_h();
        let weights = g.r * g.s * g.c;
        DepthwiseWeightGrad { walk: Walk::forward(g), weights, rows, chunk: rows.div_ceil(CHAINS) }
    }
}

impl Kernel for DepthwiseWeightGrad {
    fn workspaces(&self) -> Vec<usize> {
        vec![self.rows.div_ceil(self.chunk) * self.weights]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let (x, dy, isa, walk) = (reads[0], reads[1], cx.isa, &self.walk);
        let (chunks, height) = (self.rows.div_ceil(self.chunk), walk.rows.len());
        let sums = Shared::new(workspace);
        cx.pool.run(chunks, &|chunk| {
            // SAFETY: every chunk has sums of its own.
            let sums = unsafe { sums.slice(chunk * self.weights, (chunk + 1) * self.weights) };
            sums.fill(0.0);
            for row in chunk * self.chunk..((chunk + 1) * self.chunk).min(self.rows) {
                let (image, row) = (row / height, row % height);
                isa.run(GradRow {
                    walk,
                    taps: &walk.rows[row],
                    x: x[image * walk.from[0]..].as_ptr(),
                    dy: dy[image * walk.to[0] + row * walk.to[1]..].as_ptr(),
                    dw: sums.as_mut_ptr(),
                });
            }
        });
        let (columns, to) = (self.weights, writes[0].as_mut_ptr());
        isa.run(SumRows { from: workspace.as_ptr(), stride: columns, rows: chunks, columns, to });
    }
}

/// What one row of the output adds to the derivative.
struct GradRow<'a> {
    walk: &'a Walk,
    taps: &'a [[usize; 2]],
    x: *const f32,
    dy: *const f32,
    dw: *mut f32,
}

impl Body for GradRow<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let channels = self.walk.channels;
        let mut channel = 0;
        while channel < channels {
            // SAFETY: there are so many channels.
            channel += unsafe {
                match channels - channel {
                    32.. if S::WIDE => self.channels::<S, 2, true>(s, channel),
                    16.. => self.channels::<S, 1, true>(s, channel),
                    _ => self.channels::<S, 1, false>(s, channel),
                }
            };
        }
    }
}

impl GradRow<'_> {
    /// Folds `V` vectors of channels over the row; returns how many channels these are.
    ///
    /// # Safety
    /// There are so many from `channel` on, or fewer if it is not `WHOLE`.
    #[inline(always)]
    unsafe fn channels<S: Simd, const V: usize, const WHOLE: bool>(&self, s: S, channel: usize) -> usize {
        for &[r, row] in self.taps {
            for segment in &self.walk.segments {
                let mut tap = 0;
                while tap < segment.taps.len() {
                    // SAFETY: as the caller promises.
                    tap += unsafe {
                        match segment.taps.len() - tap {
                            4.. => self.fold::<S, 4, V, WHOLE>(s, segment, r, row, tap, channel),
                            3 => self.fold::<S, 3, V, WHOLE>(s, segment, r, row, tap, channel),
                            2 => self.fold::<S, 2, V, WHOLE>(s, segment, r, row, tap, channel),
                            _ => self.fold::<S, 1, V, WHOLE>(s, segment, r, row, tap, channel),
                        }
                    };
                }
            }
        }
        V * LANES
    }

    /// Folds `T` taps of a row of the filter over the pixels of a segment; returns `T`.
    ///
    /// # Safety
    /// There are so many taps from `tap` on, and channels as in [`channels`](GradRow::channels).
    #[inline(always)]
    unsafe fn fold<S: Simd, const T: usize, const V: usize, const WHOLE: bool>(
        &self,
        s: S,
        segment: &Segment,
        r: usize,
        row: usize,
        tap: usize,
        channel: usize,
    ) -> usize {
        let channels = self.walk.channels;
        let n = channels - channel;
        // SAFETY: segments hold offsets inside rows.
        unsafe {
            let mut x = self.x.add(row * self.walk.from[1] + segment.from + channel);
            let mut dy = self.dy.add(segment.to + channel);
            let dw = self.dw.add(r * self.walk.filter_columns * channels + channel);
            let mut sums = [[s.splat(0.0); V]; T];
            let mut places = [(0, 0); T];
            for t in 0..T {
                let [at, distance] = segment.taps[tap + t];
                places[t] = (at * channels, distance);
                for v in 0..V {
                    sums[t][v] = load::<S, WHOLE>(s, dw.add(places[t].0 + v * LANES), n);
                }
            }
            for _ in 0..segment.len {
                for v in 0..V {
                    let dy = load::<S, WHOLE>(s, dy.add(v * LANES), n);
                    for t in 0..T {
                        let x = load::<S, WHOLE>(s, x.add(places[t].1 + v * LANES), n);
                        sums[t][v] = s.fma(x, dy, sums[t][v]);
                    }
                }
                x = x.add(segment.from_step);
                dy = dy.add(segment.to_step);
            }
            for t in 0..T {
                for v in 0..V {
                    store::<S, WHOLE>(s, dw.add(places[t].0 + v * LANES), sums[t][v], n);
                }
            }
        }
        T
    }
}

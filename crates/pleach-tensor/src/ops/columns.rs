//! Sums and maps over the rows of matrices, a coefficient for each column: what normalisations are
//! made of.
//!
//! A tensor is seen as segments (the whole batch, or each image) of rows of columns. The rows of a
//! segment are cut into chunks; a chunk is summed from its first row to its last, and chunks are
//! combined in `f64` in their order. All of this is fixed by the shape.

#![expect(unsafe_code, reason = "rows are read by pointers, and chunks are written on several threads")]

use std::ops::Range;

use crate::Context;
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};

/// The most chunks of all segments together, as long as segments are fewer.
const CHUNKS: usize = 32;
/// The fewest rows of a chunk.
const ROWS: usize = 64;
/// Columns that a part works on.
const BLOCK: usize = 256;
/// Vectors that lie side by side in registers.
const SIDE: usize = 4;

/// How a tensor is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) segments: usize,
    /// Rows of a segment.
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Chunks of a segment.
    chunks: usize,
}

/// What one part works on.
struct Part {
    segment: usize,
    /// Its chunk, counted through all segments.
    chunk: usize,
    /// Rows, counted through all segments.
    rows: Range<usize>,
    columns: Range<usize>,
}

/// Coefficients of columns, one row of them for each segment.
#[derive(Clone, Copy)]
pub(super) struct Coefficients<'a> {
    pub(super) values: &'a [f32],
    /// From one segment's row to the next one's.
    pub(super) stride: usize,
}

impl Coefficients<'_> {
    fn at(self, part: &Part) -> *const f32 {
        self.values[part.segment * self.stride..][part.columns.clone()].as_ptr()
    }
}

/// The derivative by the output of a normalisation, and by its inside where a `ReLU` follows it.
#[derive(Clone, Copy)]
pub(super) struct Grad<'a> {
    /// The derivative by the output; empty where it lies in the memory of the result.
    pub(super) dy: &'a [f32],
    /// `scale` and `shift` of a normalisation that a `ReLU` follows: only where
    /// `x · scale + shift > 0` does `dy` count.
    pub(super) relu: Option<[Coefficients<'a>; 2]>,
}

impl Grid {
    pub(super) fn new(segments: usize, rows: usize, columns: usize) -> Grid {
        let chunks = (CHUNKS / segments.max(1)).min(rows / ROWS).max(1);
        Grid { segments, rows, columns, chunks }
    }

    /// Floats of the sums of all chunks.
    pub(super) fn partials(&self) -> usize {
        2 * self.segments * self.chunks * self.columns
    }

    /// Coefficients that lie behind one another.
    pub(super) fn coefficients<'a>(&self, values: &'a [f32]) -> Coefficients<'a> {
        Coefficients { values, stride: self.columns }
    }

    /// The first row of each segment.
    pub(super) fn first_rows<'a>(&self, x: &'a [f32]) -> Coefficients<'a> {
        Coefficients { values: x, stride: self.rows * self.columns }
    }

    fn parts(&self) -> usize {
        self.segments * self.chunks * self.columns.div_ceil(BLOCK)
    }

    fn part(&self, part: usize) -> Part {
        let (chunk, block) = (part % (self.segments * self.chunks), part / (self.segments * self.chunks));
        let (segment, inside) = (chunk / self.chunks, chunk % self.chunks);
        let row = |chunk: usize| segment * self.rows + chunk * self.rows / self.chunks;
        Part {
            segment,
            chunk,
            rows: row(inside)..row(inside + 1),
            columns: block * BLOCK..self.columns.min((block + 1) * BLOCK),
        }
    }

    /// Sums two terms of every element over the rows of each chunk: `d` and `d · (x − centre)`,
    /// where `d` is the derivative, or `x − centre` itself where there is none.
    pub(super) fn sums(
        &self,
        cx: &mut Context<'_>,
        x: &[f32],
        grad: Option<Grad<'_>>,
        centre: Coefficients<'_>,
        partials: &mut [f32],
    ) {
        let (grid, isa, partials) = (*self, cx.isa, Shared::new(partials));
        cx.pool.run(self.parts(), &|index| {
            let part = grid.part(index);
            let start = part.rows.start * grid.columns + part.columns.start;
            let to = 2 * part.chunk * grid.columns + part.columns.start;
            let sums = Sums {
                x: x[start..].as_ptr(),
                dy: grad.map_or(std::ptr::null(), |grad| grad.dy[start..].as_ptr()),
                relu: relu(grad, &part),
                centre: centre.at(&part),
                to: [partials.at(to), partials.at(to + grid.columns)],
                rows: part.rows.len(),
                stride: grid.columns,
            };
            let columns = part.columns.len();
            match grad {
                None => isa.run(Columns(sums, columns)),
                Some(Grad { relu: None, .. }) => isa.run(Columns(OfGrad::<_, false>(sums), columns)),
                Some(_) => isa.run(Columns(OfGrad::<_, true>(sums), columns)),
            }
        });
    }

    /// The two sums of a column over all rows of a segment.
    pub(super) fn total(&self, partials: &[f32], segment: usize, column: usize) -> [f64; 2] {
        let mut total = [0.0; 2];
        let chunks = partials.chunks_exact(2 * self.columns).skip(segment * self.chunks).take(self.chunks);
        for chunk in chunks {
            total[0] += f64::from(chunk[column]);
            total[1] += f64::from(chunk[self.columns + column]);
        }
        total
    }

    /// `y = x · scale + shift`, and no less than 0 with `relu`; `x` is empty where it lies in `y`.
    pub(super) fn affine(
        &self,
        cx: &mut Context<'_>,
        x: &[f32],
        [scale, shift]: [Coefficients<'_>; 2],
        relu: bool,
        y: &mut [f32],
    ) {
        let (grid, isa, y) = (*self, cx.isa, Shared::new(y));
        cx.pool.run(self.parts(), &|index| {
            let part = grid.part(index);
            let start = part.rows.start * grid.columns + part.columns.start;
            let affine = Affine {
                x: y.source(x, start),
                scale: scale.at(&part),
                shift: shift.at(&part),
                relu,
                to: y.at(start),
                rows: part.rows.len(),
                stride: grid.columns,
            };
            isa.run(Columns(affine, part.columns.len()));
        });
    }

    /// `dx = d · slope + (x − centre) · tilt + shift`.
    pub(super) fn gradient(
        &self,
        cx: &mut Context<'_>,
        x: &[f32],
        grad: Grad<'_>,
        [centre, slope, tilt, shift]: [Coefficients<'_>; 4],
        dx: &mut [f32],
    ) {
        let (grid, isa, dx) = (*self, cx.isa, Shared::new(dx));
        cx.pool.run(self.parts(), &|index| {
            let part = grid.part(index);
            let start = part.rows.start * grid.columns + part.columns.start;
            let gradient = Gradient {
                x: x[start..].as_ptr(),
                dy: dx.source(grad.dy, start),
                relu: relu(Some(grad), &part),
                coefficients: [centre, slope, tilt, shift].map(|values| values.at(&part)),
                to: dx.at(start),
                rows: part.rows.len(),
                stride: grid.columns,
            };
            let columns = part.columns.len();
            if grad.relu.is_some() {
                isa.run(Columns(OfGrad::<_, true>(gradient), columns));
            } else {
                isa.run(Columns(OfGrad::<_, false>(gradient), columns));
            }
        });
    }
}

fn relu(grad: Option<Grad<'_>>, part: &Part) -> [*const f32; 2] {
    match grad.and_then(|grad| grad.relu) {
        Some(coefficients) => coefficients.map(|values| values.at(part)),
        None => [std::ptr::null(); 2],
    }
}

/// Work on some columns that lie side by side.
trait Group {
    /// Works on `lanes` columns from `column` on, which are in `N` vectors.
    ///
    /// # Safety
    /// The pointers hold rows with that many columns.
    unsafe fn group<S: Simd, const N: usize>(&self, s: S, column: usize, lanes: usize);
}

/// A group of this many columns, some vectors at a time.
struct Columns<G>(G, usize);

impl<G: Group> Body for Columns<G> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Columns(group, columns) = self;
        let mut column = 0;
        // SAFETY: whoever makes one gives pointers to rows of so many columns.
        unsafe {
            while columns - column >= SIDE * LANES {
                group.group::<S, SIDE>(s, column, SIDE * LANES);
                column += SIDE * LANES;
            }
            while column < columns {
                group.group::<S, 1>(s, column, columns - column);
                column += LANES;
            }
        }
    }
}

/// Loads `N` vectors that lie side by side.
///
/// # Safety
/// `from` is valid for reading `lanes` floats, and these are more than `16 (N - 1)`.
#[inline(always)]
unsafe fn load<S: Simd, const N: usize>(s: S, from: *const f32, lanes: usize) -> [S::V; N] {
    let mut v = [s.splat(0.0); N];
    for (j, v) in v.iter_mut().enumerate() {
        // SAFETY: as the caller promises.
        *v = unsafe { s.load_up_to(from.add(j * LANES), lanes - j * LANES) };
    }
    v
}

/// Stores `N` vectors that lie side by side.
///
/// # Safety
/// `to` is valid for writing `lanes` floats, and these are more than `16 (N - 1)`.
#[inline(always)]
unsafe fn store<S: Simd, const N: usize>(s: S, to: *mut f32, v: [S::V; N], lanes: usize) {
    for (j, v) in v.into_iter().enumerate() {
        // SAFETY: as the caller promises.
        unsafe { s.store_up_to(to.add(j * LANES), v, lanes - j * LANES) };
    }
}

struct Sums {
    x: *const f32,
    dy: *const f32,
    relu: [*const f32; 2],
    centre: *const f32,
    to: [*mut f32; 2],
    rows: usize,
    stride: usize,
}

struct Gradient {
    x: *const f32,
    dy: *const f32,
    relu: [*const f32; 2],
    coefficients: [*const f32; 4],
    to: *mut f32,
    rows: usize,
    stride: usize,
}

struct Affine {
    x: *const f32,
    scale: *const f32,
    shift: *const f32,
    relu: bool,
    to: *mut f32,
    rows: usize,
    stride: usize,
}

/// Work that has a `dy`, with a `ReLU` or without.
struct OfGrad<G, const RELU: bool>(G);

impl Group for Sums {
    #[inline(always)]
    unsafe fn group<S: Simd, const N: usize>(&self, s: S, column: usize, lanes: usize) {
        // SAFETY: as the caller promises.
        unsafe {
            let centre: [S::V; N] = load(s, self.centre.add(column), lanes);
            let (mut sums, mut squares) = ([s.splat(0.0); N], [s.splat(0.0); N]);
            for row in 0..self.rows {
                let x: [S::V; N] = load(s, self.x.add(row * self.stride + column), lanes);
                for j in 0..N {
                    let d = s.sub(x[j], centre[j]);
                    sums[j] = s.add(sums[j], d);
                    squares[j] = s.fma(d, d, squares[j]);
                }
            }
            store(s, self.to[0].add(column), sums, lanes);
            store(s, self.to[1].add(column), squares, lanes);
        }
    }
}

impl<const RELU: bool> Group for OfGrad<Sums, RELU> {
    #[inline(always)]
    unsafe fn group<S: Simd, const N: usize>(&self, s: S, column: usize, lanes: usize) {
        let work = &self.0;
        let zero = s.splat(0.0);
        // SAFETY: as the caller promises.
        unsafe {
            let centre: [S::V; N] = load(s, work.centre.add(column), lanes);
            let [mut scale, mut shift] = [[zero; N]; 2];
            if RELU {
                scale = load(s, work.relu[0].add(column), lanes);
                shift = load(s, work.relu[1].add(column), lanes);
            }
            let (mut sums, mut products) = ([zero; N], [zero; N]);
            for row in 0..work.rows {
                let at = row * work.stride + column;
                let x: [S::V; N] = load(s, work.x.add(at), lanes);
                let mut d: [S::V; N] = load(s, work.dy.add(at), lanes);
                for j in 0..N {
                    if RELU {
                        d[j] = s.select(s.lt(zero, s.fma(x[j], scale[j], shift[j])), d[j], zero);
                    }
                    sums[j] = s.add(sums[j], d[j]);
                    products[j] = s.fma(d[j], s.sub(x[j], centre[j]), products[j]);
                }
            }
            store(s, work.to[0].add(column), sums, lanes);
            store(s, work.to[1].add(column), products, lanes);
        }
    }
}

impl<const RELU: bool> Group for OfGrad<Gradient, RELU> {
    #[inline(always)]
    unsafe fn group<S: Simd, const N: usize>(&self, s: S, column: usize, lanes: usize) {
        let work = &self.0;
        let zero = s.splat(0.0);
        // SAFETY: as the caller promises.
        unsafe {
            let [mut scale, mut relu_shift] = [[zero; N]; 2];
            if RELU {
                scale = load(s, work.relu[0].add(column), lanes);
                relu_shift = load(s, work.relu[1].add(column), lanes);
            }
            let centre: [S::V; N] = load(s, work.coefficients[0].add(column), lanes);
            let slope: [S::V; N] = load(s, work.coefficients[1].add(column), lanes);
            let tilt: [S::V; N] = load(s, work.coefficients[2].add(column), lanes);
            let shift: [S::V; N] = load(s, work.coefficients[3].add(column), lanes);
            for row in 0..work.rows {
                let at = row * work.stride + column;
                let x: [S::V; N] = load(s, work.x.add(at), lanes);
                let mut d: [S::V; N] = load(s, work.dy.add(at), lanes);
                for j in 0..N {
                    if RELU {
                        d[j] = s.select(s.lt(zero, s.fma(x[j], scale[j], relu_shift[j])), d[j], zero);
                    }
                    let straight = s.fma(d[j], slope[j], shift[j]);
                    d[j] = s.fma(s.sub(x[j], centre[j]), tilt[j], straight);
                }
                store(s, work.to.add(at), d, lanes);
            }
        }
    }
}

impl Group for Affine {
    #[inline(always)]
    unsafe fn group<S: Simd, const N: usize>(&self, s: S, column: usize, lanes: usize) {
        // Below it is nothing; `max` gives its second argument where it is NaN.
        let floor = s.splat(if self.relu { 0.0 } else { f32::NEG_INFINITY });
        // SAFETY: as the caller promises.
        unsafe {
            let scale: [S::V; N] = load(s, self.scale.add(column), lanes);
            let shift: [S::V; N] = load(s, self.shift.add(column), lanes);
            for row in 0..self.rows {
                let at = row * self.stride + column;
                let mut y: [S::V; N] = load(s, self.x.add(at), lanes);
                for j in 0..N {
                    y[j] = s.max(floor, s.fma(y[j], scale[j], shift[j]));
                }
                store(s, self.to.add(at), y, lanes);
            }
        }
    }
}

//! Attention of the places of a sequence to one another, without a matrix of all their scores.
//!
//! A part takes one head of one example after another. Scores exist for a few queries and a block of
//! keys at a time: a running maximum and a running sum of each query make the softmax exact all the
//! same. The backward pass computes scores again from the logarithms of those sums. Keys and queries
//! are gone through in their order, in blocks of fixed sizes.

#![expect(unsafe_code, reason = "inner loops read and write by pointers")]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rows::{largest, single, within};
use super::{Described, Fill, Sample};
use crate::kernel::Shared;
use crate::math::{exp, ln};
use crate::simd::{Body, LANES, Simd};
use crate::tile::{COLUMNS, Rows, Source, Start, multiply, pack};
use crate::{Action, Array, Context, Error, Kernel, Layer, Op, Setting, Shape, Slot};

/// Queries of a tile of the forward pass.
const QUERIES: usize = 48;
/// Keys of a block of the forward pass.
const KEYS: usize = 2 * COLUMNS;
/// Queries of a tile, and keys of a block, of the backward pass.
const SIDE: usize = COLUMNS;
/// The most parts; each has its own workspace.
const PARTS: usize = 48;

/// Softmax attention of several heads: `o = softmax(q · kᵀ / √width) · v`, where a head has `width`
/// of the features of queries `q`, keys `k` and values `v`.
///
/// With `causal`, as by default, a place sees only itself and those before it.
///
/// # Shapes
/// - input: `[n, t, 3 · d]`, the queries, keys and values of a place side by side; `heads` divide `d`
/// - output: `[n, t, d]`, the heads side by side
///
/// # Source
/// Vaswani et al., *Attention Is All You Need*, NIPS 2017, arXiv:1706.03762, Eq. 1; in tiles as
/// Milakov, Gimelshein, *Online normalizer calculation for softmax*, arXiv:1805.02867, and Dao, Fu,
/// Ermon, Rudra, Ré, *`FlashAttention`*, `NeurIPS` 2022, arXiv:2205.14135.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attention {
    heads: usize,
    #[serde(default = "yes")]
    causal: bool,
}

fn yes() -> bool {
    true
}

impl Op for Attention {
    fn name(&self) -> &'static str {
        Attention::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(Self::NAME, inputs)?;
        let refuse = |reason: &str| super::misfit(Self::NAME, inputs, reason);
        let &[n, t, features] = input.sizes() else {
            return Err(refuse("it takes [n, t, queries, keys and values side by side]"));
        };
        if input.is_empty() {
            return Err(refuse("it takes at least one of each"));
        }
        let heads = self.heads;
        if heads == 0 || !features.is_multiple_of(heads.saturating_mul(3)) {
            return Err(refuse(&format!("three times {heads} heads do not divide {features} features")));
        }
        input.checked_len("the input")?;
        let width = features / 3 / heads;
        let sizes = Sizes { n, t, heads, width, causal: self.causal };
        let pairs = if self.causal { t * (t + 1) / 2 } else { t * t };
        Ok(Layer {
            saved: vec![n * self.heads * t],
            forward: Action::run(Forward(sizes), [Slot::Input(0)], [Slot::Output, Slot::Saved(0)]),
            backward: vec![Action::run(
                Backward(sizes),
                [Slot::Input(0), Slot::Output, Slot::Saved(0), Slot::OutputGrad],
                [Slot::InputGrad(0)],
            )],
            macs: (n * pairs) as u64 * 2 * sizes.features() as u64,
            ..Layer::plain(Shape::from([n, t, sizes.features()]))
        })
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let x = &inputs[0];
        let [n, t, features] = [0, 1, 2].map(|axis| x.shape.sizes()[axis]);
        let d = features / 3;
        let width = d / self.heads;
        let mut y = Array::zeros([n, t, d]);
        for example in 0..n {
            for head in 0..self.heads {
                for query in 0..t {
                    let keys = if self.causal { query + 1 } else { t };
                    let score = |key: usize| -> f64 {
                        let term = |i: usize| {
                            let at = head * width + i;
                            x.at(&[example, query, at]) * x.at(&[example, key, d + at])
                        };
                        (0..width).map(term).sum::<f64>() / (width as f64).sqrt()
                    };
                    let weights: Vec<f64> = (0..keys).map(|key| score(key).exp()).collect();
                    let total: f64 = weights.iter().sum();
                    for i in head * width..(head + 1) * width {
                        let value = |key: usize| x.at(&[example, key, 2 * d + i]);
                        let sum: f64 = weights.iter().enumerate().map(|(key, w)| w * value(key)).sum();
                        let at = y.offset(&[example, query, i]);
                        y.values[at] = sum / total;
                    }
                }
            }
        }
        y
    }
}

impl Described for Attention {
    const NAME: &'static str = "attention";
    const SUMMARY: &'static str = "softmax attention of several heads to q, k and v side by side";

    fn samples() -> Vec<Sample> {
        let sample = |n, t, heads, width, causal| {
            let shape = Shape::from([n, t, 3 * heads * width]);
            Sample::new(Attention { heads, causal }, [(shape, Fill::Normal)])
        };
        vec![
            sample(1, 1, 1, 1, true),
            sample(2, 5, 3, 5, false),
            sample(2, 16, 2, 16, true),
            sample(1, 67, 1, 33, false),
            sample(1, 131, 2, 7, true),
            sample(13, 3, 4, 2, true),
        ]
    }
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    n: usize,
    t: usize,
    heads: usize,
    width: usize,
    causal: bool,
}

impl Sizes {
    /// Features of queries, of keys, of values and of the output.
    fn features(self) -> usize {
        self.heads * self.width
    }

    /// Sizes of all examples.
    fn all(self) -> usize {
        self.n * self.heads
    }

    /// Floats of the panels whose lines are places.
    fn down(self, places: usize) -> usize {
        self.width.div_ceil(COLUMNS) * places * COLUMNS
    }

    /// Floats of the panels whose columns are all places.
    fn across(self) -> usize {
        self.t.div_ceil(COLUMNS) * self.width * COLUMNS
    }

    /// Where a head's queries begin in the input, and where its outputs do.
    fn starts(self, head: usize) -> [usize; 2] {
        let (example, head) = (head / self.heads, head % self.heads);
        let place = example * self.t * self.features();
        [3 * place + head * self.width, place + head * self.width]
    }

    /// How many of the `keys` keys from `key` on a query sees.
    #[inline(always)]
    fn seen(self, query: usize, key: usize, keys: usize) -> usize {
        if self.causal { (query + 1).saturating_sub(key).min(keys) } else { keys }
    }

    /// How many keys the queries before `end` see.
    #[inline(always)]
    fn keys(self, end: usize) -> usize {
        if self.causal { end } else { self.t }
    }

    /// What scores are multiplied with.
    fn scale(self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }

    /// Packs `places` rows of a head into panels whose lines are places.
    ///
    /// # Safety
    /// The rows are readable, and [`down`](Sizes::down) floats are writable.
    #[inline(always)]
    unsafe fn pack_down<S: Simd>(self, s: S, rows: Rows<*const f32>, places: usize, to: *mut f32) -> Down {
        for column in (0..self.width).step_by(COLUMNS) {
            // SAFETY: as the caller promises.
            unsafe {
                let source = Source {
                    from: rows.at.add(column),
                    lines: places,
                    columns: COLUMNS.min(self.width - column),
                    line_stride: rows.stride,
                    column_stride: 1,
                };
                pack(s, source, to.add(column * places));
            }
        }
        Down { panels: to, places, width: self.width }
    }

    /// Packs all rows of a head into panels whose columns are places.
    ///
    /// # Safety
    /// The rows are readable, and [`across`](Sizes::across) floats are writable.
    #[inline(always)]
    unsafe fn pack_across<S: Simd>(self, s: S, rows: Rows<*const f32>, to: *mut f32) {
        for place in (0..self.t).step_by(COLUMNS) {
            // SAFETY: as the caller promises.
            unsafe {
                let source = Source {
                    from: rows.at.add(place * rows.stride),
                    lines: self.width,
                    columns: COLUMNS.min(self.t - place),
                    line_stride: 1,
                    column_stride: rows.stride,
                };
                pack(s, source, to.add(place * self.width));
            }
        }
    }
}

/// Panels whose lines are places, of all features of a head.
#[derive(Clone, Copy)]
struct Down {
    panels: *const f32,
    places: usize,
    width: usize,
}

impl Down {
    /// Adds to `to` the products of `count` rows and of the `depth` lines from `place` on, or writes
    /// them where they are the `first`.
    ///
    /// # Safety
    /// There are so many rows and lines.
    #[inline(always)]
    unsafe fn accumulate<S: Simd>(
        self,
        s: S,
        [count, depth]: [usize; 2],
        from: Rows<*const f32>,
        place: usize,
        first: bool,
        to: Rows<*mut f32>,
    ) {
        let start = if first { Start::Zero } else { Start::Output };
        for column in (0..self.width).step_by(COLUMNS) {
            // SAFETY: as the caller promises.
            unsafe {
                let panel = self.panels.add(column * self.places + place * COLUMNS);
                let to = Rows { at: to.at.add(column), ..to };
                multiply(s, [count, depth], from, panel, start, to, COLUMNS.min(self.width - column));
            }
        }
    }
}

/// Writes the output, and the logarithm of the sum of the exponentials of each query's scores.
#[derive(Debug)]
struct Forward(Sizes);

impl Forward {
    /// Where there are few heads, several units of work share the queries of one.
    fn shares(&self) -> usize {
        (PARTS / self.0.all()).clamp(1, self.0.t.div_ceil(QUERIES))
    }

    fn parts(&self) -> usize {
        PARTS.min(self.0.all() * self.shares())
    }

    /// Floats of workspace of a part: keys and values in panels.
    fn panels(&self) -> usize {
        self.0.across() + self.0.down(self.0.t)
    }
}

impl Kernel for Forward {
    fn workspaces(&self) -> Vec<usize> {
        vec![self.parts() * self.panels()]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let ([x], [y, sums]) = (reads, writes) else { unreachable!("one read and two writes") };
        let (sizes, isa) = (self.0, cx.isa);
        let [y, sums, workspace] = [&mut **y, &mut **sums, workspace].map(Shared::new);
        let (parts, shares) = (self.parts(), self.shares());
        cx.pool.run(parts, &|part| {
            for unit in (part..sizes.all() * shares).step_by(parts) {
                let (head, share) = (unit / shares, unit % shares);
                let [from, to] = sizes.starts(head);
                isa.run(ForwardHead {
                    sizes,
                    share,
                    shares,
                    x: Rows { at: x[from..].as_ptr(), stride: 3 * sizes.features() },
                    y: Rows { at: y.at(to), stride: sizes.features() },
                    sums: sums.at(head * sizes.t),
                    panels: workspace.at(part * self.panels()),
                });
            }
        });
    }
}

/// Every so many tiles of the queries of one head, from one of the first on.
struct ForwardHead {
    sizes: Sizes,
    share: usize,
    shares: usize,
    x: Rows<*const f32>,
    y: Rows<*mut f32>,
    sums: *mut f32,
    panels: *mut f32,
}

/// The scores of a tile, and of each of its queries the largest score and the sum so far.
struct Tile {
    scores: [f32; QUERIES * KEYS],
    largest: [f32; QUERIES],
    sums: [f32; QUERIES],
}

impl Body for ForwardHead {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ForwardHead { sizes, x, y, .. } = self;
        let (t, d) = (sizes.t, sizes.features());
        // SAFETY: a head's queries, keys and values have `width` floats at each of `t` places, as
        // have its outputs; panels have the sizes that the workspace was made for, and a tile has
        // place for its queries and for a block of keys.
        unsafe {
            let keys = self.panels;
            sizes.pack_across(s, Rows { at: x.at.add(d), ..x }, keys);
            let values = Rows { at: x.at.add(2 * d), ..x };
            let values = sizes.pack_down(s, values, t, keys.add(sizes.across()));
            let mut tile =
                Tile { scores: [0.0; QUERIES * KEYS], largest: [0.0; QUERIES], sums: [0.0; QUERIES] };
            for query in (self.share * QUERIES..t).step_by(self.shares * QUERIES) {
                let count = QUERIES.min(t - query);
                let queries = Rows { at: x.at.add(query * x.stride), ..x };
                let out = Rows { at: y.at.add(query * y.stride), ..y };
                tile.largest = [f32::NEG_INFINITY; QUERIES];
                tile.sums = [0.0; QUERIES];
                let end = sizes.keys(query + count);
                for key in (0..end).step_by(KEYS) {
                    let block = KEYS.min(end - key);
                    for column in (0..block).step_by(COLUMNS) {
                        let panel = keys.add((key + column) * sizes.width);
                        let to = Rows { at: tile.scores.as_mut_ptr().add(column), stride: KEYS };
                        multiply(s, [count, sizes.width], queries, panel, Start::Zero, to, COLUMNS);
                    }
                    for row in 0..count {
                        let seen = sizes.seen(query + row, key, block);
                        let factor = tile.weigh(s, row, seen, sizes.scale());
                        if key > 0 {
                            scale_row(s, out.at.add(row * out.stride), sizes.width, factor);
                        }
                    }
                    let scores = Rows { at: tile.scores.as_ptr(), stride: KEYS };
                    values.accumulate(s, [count, block], scores, key, key == 0, out);
                }
                for row in 0..count {
                    scale_row(s, out.at.add(row * out.stride), sizes.width, 1.0 / tile.sums[row]);
                }
                for row in (0..count).step_by(LANES) {
                    let log = ln(s, s.load(tile.sums.as_ptr().add(row)));
                    let log = s.add(log, s.load(tile.largest.as_ptr().add(row)));
                    s.store_up_to(self.sums.add(query + row), log, count - row);
                }
            }
        }
    }
}

impl Tile {
    /// Makes weights of the scores of a query, zeros of those it does not see, and adds them to its
    /// sum; returns what its outputs so far are to be multiplied with.
    #[inline(always)]
    fn weigh<S: Simd>(&mut self, s: S, row: usize, seen: usize, scale: f32) -> f32 {
        let scores = self.scores[row * KEYS..(row + 1) * KEYS].as_mut_ptr();
        let old = self.largest[row];
        // SAFETY: a row has `KEYS` scores.
        unsafe {
            let mut most = s.splat(old);
            for i in (0..seen).step_by(LANES) {
                let score = s.mul(s.load(scores.add(i)), s.splat(scale));
                // A NaN does not count here; its weight is NaN.
                most = s.max(s.select(within(s, seen - i), score, most), most);
            }
            let new = largest(s, most);
            let mut sum = s.splat(0.0);
            for i in (0..KEYS).step_by(LANES) {
                let score = s.mul(s.load(scores.add(i)), s.splat(scale));
                let weight = exp(s, s.sub(score, s.splat(new)));
                let weight = s.select(within(s, seen.saturating_sub(i)), weight, s.splat(0.0));
                sum = s.add(sum, weight);
                s.store(scores.add(i), weight);
            }
            let factor = single(s, exp(s, s.splat(old - new)));
            self.largest[row] = new;
            self.sums[row] = self.sums[row] * factor + s.sum(sum);
            factor
        }
    }
}

/// Multiplies `len` floats with a factor.
///
/// # Safety
/// There are so many.
#[inline(always)]
unsafe fn scale_row<S: Simd>(s: S, row: *mut f32, len: usize, factor: f32) {
    for i in (0..len).step_by(LANES) {
        // SAFETY: as the caller promises.
        unsafe {
            let v = s.mul(s.load_up_to(row.add(i), len - i), s.splat(factor));
            s.store_up_to(row.add(i), v, len - i);
        }
    }
}

/// With the weights `p = softmax(s)` of scores `s = q · kᵀ · scale` and `o = p · v`:
/// `dv = pᵀ · do`, `ds = p (do · vᵀ − Σ do o) · scale`, `dq = ds · k`, `dk = dsᵀ · q`.
#[derive(Debug)]
struct Backward(Sizes);

impl Backward {
    fn parts(&self) -> usize {
        PARTS.min(self.0.all())
    }

    /// Floats of workspace of a part: keys in panels both ways, values, and the queries and
    /// derivatives of a tile.
    fn panels(&self) -> usize {
        2 * self.0.across() + self.0.down(self.0.t) + 2 * self.0.down(SIDE)
    }
}

impl Kernel for Backward {
    fn workspaces(&self) -> Vec<usize> {
        vec![self.parts() * self.panels()]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let ([x, y, sums, dy], [dx]) = (reads, writes) else { unreachable!("four reads and one write") };
        let (sizes, isa) = (self.0, cx.isa);
        let [dx, workspace] = [&mut **dx, workspace].map(Shared::new);
        let parts = self.parts();
        cx.pool.run(parts, &|part| {
            for head in (part..sizes.all()).step_by(parts) {
                let [from, to] = sizes.starts(head);
                isa.run(BackwardHead {
                    sizes,
                    x: Rows { at: x[from..].as_ptr(), stride: 3 * sizes.features() },
                    y: y[to..].as_ptr(),
                    dy: Rows { at: dy[to..].as_ptr(), stride: sizes.features() },
                    sums: sums[head * sizes.t..].as_ptr(),
                    dx: Rows { at: dx.at(from), stride: 3 * sizes.features() },
                    panels: workspace.at(part * self.panels()),
                });
            }
        });
    }
}

struct BackwardHead {
    sizes: Sizes,
    x: Rows<*const f32>,
    y: *const f32,
    dy: Rows<*const f32>,
    sums: *const f32,
    dx: Rows<*mut f32>,
    panels: *mut f32,
}

/// A matrix of a row for each query of a tile, and a column for each key of a block, or the other
/// way round.
type Square = [f32; SIDE * SIDE];

impl Body for BackwardHead {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let BackwardHead { sizes, x, dy, dx, .. } = self;
        let (t, d, width) = (sizes.t, sizes.features(), sizes.width);
        let (mut weights, mut slopes): (Square, Square) = ([0.0; SIDE * SIDE], [0.0; SIDE * SIDE]);
        let (mut weights_across, mut slopes_across) = (weights, slopes);
        let mut means = [0.0; SIDE];
        // SAFETY: as in the forward pass; derivatives lie as what they are derivatives by.
        unsafe {
            let keys = self.panels;
            let values = keys.add(sizes.across());
            let keys_down = values.add(sizes.across());
            let queries_down = keys_down.add(sizes.down(t));
            let grads_down = queries_down.add(sizes.down(SIDE));
            sizes.pack_across(s, Rows { at: x.at.add(d), ..x }, keys);
            sizes.pack_across(s, Rows { at: x.at.add(2 * d), ..x }, values);
            let keys_down = sizes.pack_down(s, Rows { at: x.at.add(d), ..x }, t, keys_down);
            for query in (0..t).step_by(SIDE) {
                let count = SIDE.min(t - query);
                let queries = Rows { at: x.at.add(query * x.stride), ..x };
                let grads = Rows { at: dy.at.add(query * dy.stride), ..dy };
                let query_grads = Rows { at: dx.at.add(query * dx.stride), ..dx };
                let queries_down = sizes.pack_down(s, queries, count, queries_down);
                let grads_down = sizes.pack_down(s, grads, count, grads_down);
                for (row, mean) in means.iter_mut().enumerate().take(count) {
                    let at = (query + row) * dy.stride;
                    *mean = dot(s, self.y.add(at), dy.at.add(at), width);
                }
                let end = sizes.keys(query + count);
                for key in (0..end).step_by(SIDE) {
                    let block = SIDE.min(end - key);
                    let to = Rows { at: weights.as_mut_ptr(), stride: SIDE };
                    multiply(s, [count, width], queries, keys.add(key * width), Start::Zero, to, COLUMNS);
                    let to = Rows { at: slopes.as_mut_ptr(), stride: SIDE };
                    multiply(s, [count, width], grads, values.add(key * width), Start::Zero, to, COLUMNS);
                    for (row, &mean) in means.iter().enumerate().take(count) {
                        let sum = *self.sums.add(query + row);
                        let seen = sizes.seen(query + row, key, block);
                        differentiate(s, &mut weights, &mut slopes, row, [sum, mean, sizes.scale()], seen);
                    }
                    turn(s, &weights, [count, block], &mut weights_across);
                    turn(s, &slopes, [count, block], &mut slopes_across);

                    let from = Rows { at: slopes.as_ptr(), stride: SIDE };
                    keys_down.accumulate(s, [count, block], from, key, key == 0, query_grads);
                    // The first tile of queries that sees these keys.
                    let first = if sizes.causal { query == key } else { query == 0 };
                    let key_grads = Rows { at: dx.at.add(key * dx.stride + d), ..dx };
                    let from = Rows { at: slopes_across.as_ptr(), stride: SIDE };
                    queries_down.accumulate(s, [block, count], from, 0, first, key_grads);
                    let value_grads = Rows { at: key_grads.at.add(d), ..dx };
                    let from = Rows { at: weights_across.as_ptr(), stride: SIDE };
                    grads_down.accumulate(s, [block, count], from, 0, first, value_grads);
                }
            }
        }
    }
}

/// The sum of products of two rows.
///
/// # Safety
/// Both have `len` floats.
#[inline(always)]
unsafe fn dot<S: Simd>(s: S, a: *const f32, b: *const f32, len: usize) -> f32 {
    let mut sum = s.splat(0.0);
    for i in (0..len).step_by(LANES) {
        // SAFETY: as the caller promises.
        sum = unsafe { s.fma(s.load_up_to(a.add(i), len - i), s.load_up_to(b.add(i), len - i), sum) };
    }
    s.sum(sum)
}

/// Makes weights of the scores of a query, and derivatives by its scores of the derivatives by its
/// weights; `sum` is the logarithm of the sum of its exponentials.
#[inline(always)]
fn differentiate<S: Simd>(
    s: S,
    weights: &mut Square,
    slopes: &mut Square,
    row: usize,
    [sum, mean, scale]: [f32; 3],
    seen: usize,
) {
    for i in (0..SIDE).step_by(LANES) {
        let at = row * SIDE + i;
        let (weights, slopes) = (&mut weights[at..at + LANES], &mut slopes[at..at + LANES]);
        // SAFETY: both slices have 16 floats.
        unsafe {
            let inside = within(s, seen.saturating_sub(i));
            let score = s.mul(s.load(weights.as_ptr()), s.splat(scale));
            let weight = s.select(inside, exp(s, s.sub(score, s.splat(sum))), s.splat(0.0));
            let slope = s.mul(weight, s.mul(s.sub(s.load(slopes.as_ptr()), s.splat(mean)), s.splat(scale)));
            s.store(weights.as_mut_ptr(), weight);
            s.store(slopes.as_mut_ptr(), s.select(inside, slope, s.splat(0.0)));
        }
    }
}

/// Rows of queries become rows of keys.
#[inline(always)]
fn turn<S: Simd>(s: S, from: &Square, [queries, keys]: [usize; 2], to: &mut Square) {
    let source =
        Source { from: from.as_ptr(), lines: keys, columns: queries, line_stride: 1, column_stride: SIDE };
    // SAFETY: both have place for as many queries and keys.
    unsafe { pack(s, source, to.as_mut_ptr()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::value;

    #[test]
    fn large_scores_stay_finite() {
        let (t, width) = (70, 4);
        let x = (0..t * 3 * width).map(|i| f64::from(u32::try_from(i * 37 % 101).unwrap()) - 50.0).collect();
        let x = Array::new([1, t, 3 * width], x);
        let op = Attention { heads: 1, causal: false };
        for slot in [Slot::Output, Slot::InputGrad(0)] {
            assert!(value(&op, std::slice::from_ref(&x), &[], slot).iter().all(|y| y.is_finite()));
        }
    }

    #[test]
    fn a_nan_reaches_all_that_see_it() {
        let mut x = Array::zeros([1, 5, 3]);
        x.values[2 * 3 + 1] = f64::NAN;
        let y = value(&Attention { heads: 1, causal: true }, &[x], &[], Slot::Output);
        assert_eq!(y.iter().map(|y| y.is_nan()).collect::<Vec<_>>(), [false, false, true, true, true]);
    }
}

//! Kernels on codes, evaluated for one code against many at once.

use std::borrow::Cow;

use crate::layout::{Block, Layout};

/// Codes that are evaluated together.
pub(super) const LANES: usize = 8;

/// A kernel on codes; all are symmetric, with values that do not depend on the order of the points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kernel {
    /// `exp(-(γ Σ (x - y)² + θ · mismatches + λ · discordance))`: a Gaussian kernel over the numbers,
    /// times an exchangeable one over the options, times a Mallows kernel over the orders
    /// (`exp(-λ n_dis)` of Jiao and Vert 2015, arXiv:1501.03326).
    ///
    /// A parameter that does not exist is at the middle of its values. To leave out what does not
    /// exist in both points would not give a kernel: with a point without the parameter two points
    /// that are far apart would both be the same, and what is learned from that is worthless.
    Mixed {
        /// Per squared distance of the numbers.
        gamma: f64,
        /// Per option that differs.
        theta: f64,
        /// Per order that is reversed: the discordance of two orders is the part of their pairs that
        /// are ordered differently.
        lambda: f64,
    },
    /// `(γ ⟨φ(x), φ(y)⟩ + 1)³` of the [`features`].
    Cubic {
        /// Per unit of the inner product.
        gamma: f64,
    },
}

/// What linear and polynomial models see of a code: numbers and ranks as they are, less ½; an option
/// as one coordinate a value, 1 at the own one; zeros for what does not exist.
pub(super) fn features(layout: &Layout, code: &[f64]) -> Vec<f64> {
    let mut features = Vec::with_capacity(features_len(layout));
    layout.blocks().iter().for_each(|block| push_features(*block, code, &mut features));
    features
}

/// Appends the features of one parameter.
pub(super) fn push_features(block: Block, code: &[f64], features: &mut Vec<f64>) {
    let centred = |u: &f64| if u.is_nan() { 0.0 } else { u - 0.5 };
    match block {
        Block::Number { .. } | Block::Permutation { .. } => {
            let (at, len) = block.place();
            features.extend(code[at..at + len].iter().map(centred));
        }
        Block::Option { at, count } => {
            let start = features.len();
            features.resize(start + features_of(block), 0.0);
            if let Some(option) = option_of(code[at], count) {
                features[start + option] = 1.0;
            }
        }
    }
}

/// Number of [`features`].
pub(super) fn features_len(layout: &Layout) -> usize {
    layout.blocks().iter().map(|block| features_of(*block)).sum()
}

/// Number of features of one parameter.
pub(super) fn features_of(block: Block) -> usize {
    match block {
        Block::Number { .. } => 1,
        Block::Permutation { len, .. } => len,
        Block::Option { count, .. } => usize::try_from(count).expect("options are held in memory"),
    }
}

/// The option that a coordinate codes.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounding down is meant")]
pub(super) fn option_of(u: f64, count: u64) -> Option<usize> {
    (!u.is_nan()).then(|| ((u * count as f64) as u64).min(count - 1) as usize)
}

/// Many vectors, coordinate after coordinate, so that one vector is compared with [`LANES`] at a time.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    /// Coordinate `j` of vector `i` is at `j · stride + i`.
    entries: Vec<f64>,
    stride: usize,
    len: usize,
    /// The smallest and the largest value of every coordinate.
    ranges: Vec<(f64, f64)>,
}

impl Columns {
    pub(super) fn new<'a>(vectors: impl ExactSizeIterator<Item = &'a [f64]>) -> Self {
        let len = vectors.len();
        let stride = len.next_multiple_of(LANES);
        let mut entries = Vec::new();
        for (i, vector) in vectors.enumerate() {
            entries.resize(vector.len() * stride, 0.0);
            for (j, value) in vector.iter().enumerate() {
                entries[j * stride + i] = *value;
            }
        }
        let columns = entries.chunks_exact(stride.max(1));
        let ranges = columns.map(|column| range(&column[..len])).collect();
        Self { entries, stride, len, ranges }
    }

    /// Number of vectors.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Number of vectors with those that fill the last [`LANES`].
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Coordinate `j` of all vectors.
    pub(super) fn column(&self, j: usize) -> &[f64] {
        &self.entries[j * self.stride..(j + 1) * self.stride]
    }

    /// The smallest and the largest value of coordinate `j`.
    pub(super) fn range(&self, j: usize) -> (f64, f64) {
        self.ranges[j]
    }

    fn lanes(&self, j: usize, start: usize) -> &[f64; LANES] {
        self.entries[j * self.stride + start..].first_chunk().expect("columns are padded to whole lanes")
    }
}

/// The smallest and the largest number.
pub(super) fn range(values: &[f64]) -> (f64, f64) {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let (mut low, mut high) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
    for chunk in chunks {
        for k in 0..LANES {
            low[k] = if chunk[k] < low[k] { chunk[k] } else { low[k] };
            high[k] = if chunk[k] > high[k] { chunk[k] } else { high[k] };
        }
    }
    let least = low.iter().chain(rest).copied().fold(f64::INFINITY, f64::min);
    (least, high.iter().chain(rest).copied().fold(f64::NEG_INFINITY, f64::max))
}

impl Kernel {
    /// What the kernel compares: the code with ½ for numbers that do not exist, or the features.
    pub(super) fn vector<'a>(self, layout: &Layout, code: &'a [f64]) -> Cow<'a, [f64]> {
        if let Kernel::Cubic { .. } = self {
            return Cow::Owned(features(layout, code));
        }
        let mut vector = Cow::Borrowed(code);
        for block in layout.blocks() {
            if let Block::Number { at } = *block
                && code[at].is_nan()
            {
                vector.to_mut()[at] = 0.5;
            }
        }
        vector
    }

    /// Values for `vector` against the vectors `start..start + LANES`.
    pub(super) fn lanes(
        self,
        layout: &Layout,
        vector: &[f64],
        columns: &Columns,
        start: usize,
    ) -> [f64; LANES] {
        match self {
            Kernel::Mixed { .. } => self.exponents(layout, vector, columns, start).map(|e| exp(-e)),
            Kernel::Cubic { gamma } => {
                let mut products = [0.0; LANES];
                for (j, x) in vector.iter().enumerate() {
                    let column = columns.lanes(j, start);
                    for k in 0..LANES {
                        products[k] += x * column[k];
                    }
                }
                products.map(|product| {
                    let base = gamma * product + 1.0;
                    base * base * base
                })
            }
        }
    }

    /// Its γ.
    pub(super) fn gamma(self) -> f64 {
        let (Kernel::Mixed { gamma, .. } | Kernel::Cubic { gamma }) = self;
        gamma
    }

    /// The weight of [`distances`] in the exponent; 0 if there is none.
    pub(super) fn weight(self, block: Block) -> f64 {
        let Kernel::Mixed { gamma, theta, lambda } = self else { return 0.0 };
        match block {
            Block::Number { .. } => gamma,
            Block::Option { .. } => theta,
            Block::Permutation { .. } => lambda,
        }
    }

    /// The exponents, without sign, of [`Kernel::Mixed`].
    pub(super) fn exponents(
        self,
        layout: &Layout,
        vector: &[f64],
        columns: &Columns,
        start: usize,
    ) -> [f64; LANES] {
        let mut exponents = [0.0; LANES];
        if layout.is_numbers() {
            for (j, x) in vector.iter().enumerate() {
                let column = columns.lanes(j, start);
                for k in 0..LANES {
                    exponents[k] += (x - column[k]) * (x - column[k]);
                }
            }
            return exponents.map(|exponent| self.gamma() * exponent);
        }
        for block in layout.blocks() {
            let parts = distances(*block, vector, columns, start);
            for k in 0..LANES {
                exponents[k] += self.weight(*block) * parts[k];
            }
        }
        exponents
    }
}

/// How far apart a vector and others are in one parameter.
///
/// All are squared distances in a Euclidean space, in which the middle of all options is ½ (1 - 1/k)
/// from each of them, and the middle of all orders is ¼ from each.
pub(super) fn distances(block: Block, vector: &[f64], columns: &Columns, start: usize) -> [f64; LANES] {
    let mut parts = [0.0; LANES];
    match block {
        Block::Number { at } => {
            let column = columns.lanes(at, start);
            for k in 0..LANES {
                parts[k] = (vector[at] - column[k]) * (vector[at] - column[k]);
            }
        }
        #[expect(clippy::float_cmp, reason = "options are coded as the exact middles of their cells")]
        Block::Option { at, count } => {
            let (x, column) = (vector[at], columns.lanes(at, start));
            let to_middle = 0.5 * (1.0 - 1.0 / count as f64);
            for k in 0..LANES {
                parts[k] = match (x.is_nan(), column[k].is_nan()) {
                    (false, false) => f64::from(u8::from(x != column[k])),
                    (true, true) => 0.0,
                    _ => to_middle,
                };
            }
        }
        Block::Permutation { at, len } => {
            for a in 1..len {
                for b in 0..a {
                    let order = vector[at + a] - vector[at + b];
                    let (left, right) = (columns.lanes(at + a, start), columns.lanes(at + b, start));
                    for k in 0..LANES {
                        parts[k] += f64::from(u8::from(order * (left[k] - right[k]) < 0.0));
                    }
                }
            }
            let pairs = (len * (len - 1) / 2).max(1) as f64;
            let column = columns.lanes(at, start);
            for k in 0..LANES {
                let is_middle = column[k].is_nan() != vector[at].is_nan();
                parts[k] = if is_middle { 0.25 } else { parts[k] / pairs };
            }
        }
    }
    parts
}

/// `e^x` to 2 units in the last place for `x ≤ 700`, and 0 below −708: the same bits on every machine,
/// and made of operations that work on several numbers at once.
#[inline]
pub(super) fn exp(x: f64) -> f64 {
    const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 · 2⁵²: adding it rounds to a whole number.
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let clamped = if x > -708.0 { x } else { -708.0 };
    let shifted = clamped * std::f64::consts::LOG2_E + MAGIC;
    let power = shifted - MAGIC;
    let r = (clamped - power * LN_2_HIGH) - power * LN_2_LOW;
    // The Taylor series to the term of degree 13: the rest is below 2⁻⁵⁵ for |r| ≤ ½ ln 2.
    let mut sum = 1.0 / 6_227_020_800.0;
    for inverse in [
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        sum = sum * r + inverse;
    }
    // The low bits of `shifted` are the power of two.
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    if x > -708.0 { sum * scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::Triangle;
    use crate::{Parameter, Seed, Space};

    #[test]
    fn kernels_of_all_kinds_of_parameters_are_positive_definite() {
        let parameters = vec![
            Parameter::float("x", 0.0, 1.0),
            Parameter::choice("c", ["a", "b", "c"]),
            Parameter::float("m", 0.0, 1.0).when("c == 'b'"),
            Parameter::choice("d", ["a", "b", "c", "d"]).when("x > 0.5"),
            Parameter::permutation("p", 4).when("x > 0.3"),
        ];
        let layout = Layout::new(&Space::new(parameters, &[]).unwrap());
        let mut rng = Seed::new(1).rng(0);
        let kernel = Kernel::Mixed { gamma: 20.0, theta: 1.5, lambda: 3.0 };
        let draw = |_| layout.code(&layout.space().sample(&mut rng, &[]).unwrap());
        let codes: Vec<Vec<f64>> = (0..120).map(draw).collect();
        let vectors: Vec<_> = codes.iter().map(|code| kernel.vector(&layout, code)).collect();
        let columns = Columns::new(vectors.iter().map(|vector| &**vector));
        let mut gram = Vec::new();
        for (i, vector) in vectors.iter().enumerate() {
            let starts = (0..columns.stride()).step_by(LANES);
            let row: Vec<f64> =
                starts.flat_map(|start| kernel.lanes(&layout, vector, &columns, start)).take(120).collect();
            assert!((row[i] - 1.0).abs() < 1e-15, "a point is equal to itself");
            gram.extend(row.iter().enumerate().map(|(j, value)| value + if i == j { 1e-9 } else { 0.0 }));
        }
        assert!(Triangle::cholesky(&gram, 120).is_some());
    }

    #[test]
    fn exp_is_right_to_an_ulp_or_two() {
        for i in 0..200_000 {
            let x = -0.0036 * f64::from(i);
            let (got, want) = (exp(x), x.exp());
            assert!((got - want).abs() <= 4.5e-16 * want || want < 1e-307, "{x}: {got} {want}");
        }
        assert_eq!((exp(0.0), exp(-800.0), exp(f64::NEG_INFINITY)), (1.0, 0.0, 0.0));
    }
}

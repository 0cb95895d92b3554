//! How alike two points are.

use std::sync::Arc;

use crate::layout::{Block, Layout};
use crate::{Descriptor, Point, Problem};

/// A covariance function of points with value 1 at distance 0.
///
/// ```text
/// k(x, y) = (Π(x, y) + Σ_g w_g exp(−a_g D_g(x, y))) / (1 + Σ_g w_g)
/// Π = Matérn-5/2(√(Σ_j (x_j − y_j)² / ℓ_j²)) · Π_j exp(−θ_j [x_j ≠ y_j]) · Π_j exp(−λ_j K_j(x, y))
/// ```
///
/// over the numbers, the options without order, and the permutations, where `K_j` is the share of
/// pairs of elements that are in another order (a Mallows kernel), and over the descriptors, where
/// `D_g` is [`Descriptor::distance`].
///
/// A parameter that does not exist at a point takes part with a neutral value, which keeps
/// covariances positive definite: a number with the middle of its range, an option with one of its
/// own, a permutation with an order of no pair (a quarter of the distance of opposite orders).
///
/// # Hyper-parameters
/// All as logarithms, in this order: `ℓ` of each number, `θ` of each option, `λ` of each
/// permutation, `w` and `a` of each descriptor, and last the nugget: the variance of what no point
/// tells about another.
///
/// # Source
/// The priors of `ℓ`: Hvarfner, Hellsten, Nardi, *Vanilla Bayesian Optimization Performs Great in High
/// Dimensions*, ICML 2024, Eq. 6. Permutations: Jiao, Vert, *The Kendall and Mallows Kernels for
/// Permutations*, ICML 2015. The priors of the others were chosen on tables of networks.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// Coordinates that are numbers, and the hyper-parameter of each.
    numbers: Vec<(usize, usize)>,
    /// Coordinates that are options: how many there are, and the hyper-parameter of each.
    options: Vec<(usize, u64, usize)>,
    orders: Vec<Order>,
    descriptors: Vec<Descriptor>,
    /// Mean and standard deviation of the normal prior of each hyper-parameter.
    priors: Vec<(f64, f64)>,
}

/// A permutation.
#[derive(Clone, Copy, Debug)]
struct Order {
    /// Where it begins in a code.
    at: usize,
    len: usize,
    /// Number of pairs of elements that are compared.
    pairs: usize,
    /// Its hyper-parameter.
    own: usize,
}

impl Order {
    /// Words of an [`Input`].
    fn words(self) -> usize {
        1 + self.pairs.div_ceil(64)
    }
}

/// What a [`Kernel`] reads of one point.
#[derive(Clone, Debug, Default)]
pub(crate) struct Input {
    /// The numbers, in `[0, 1]`.
    pub(crate) numbers: Vec<f64>,
    pub(super) options: Vec<u32>,
    orders: Vec<u64>,
    descriptors: Vec<Vec<(u32, f64)>>,
}

/// A list of [`Input`]s, packed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs {
    len: usize,
    numbers: Vec<f64>,
    options: Vec<u32>,
    orders: Vec<u64>,
    descriptors: Vec<Vec<Vec<(u32, f64)>>>,
}

/// Pairs of elements of a long permutation that are compared, at most; about.
const PAIRS: usize = 1 << 15;
/// The option of a parameter that does not exist.
const NO_OPTION: u32 = u32::MAX;
/// Coordinates with at most this many cells are coarse: next to each other, values may differ at random.
const COARSE_CELLS: u64 = 64;

impl Kernel {
    /// Every parameter of `layout` and every descriptor of `problem`, each with its own scale.
    pub(crate) fn new(problem: &Problem, layout: &Layout) -> Self {
        let blocks = layout.blocks();
        let number = |block: &Block| if let Block::Number { at } = *block { Some(at) } else { None };
        let option =
            |block: &Block| if let Block::Option { at, count } = *block { Some((at, count)) } else { None };
        let order =
            |block: &Block| if let Block::Permutation { at, len } = *block { Some((at, len)) } else { None };
        let mut priors = Vec::new();
        let mut scales = |count: usize, prior: (f64, f64)| {
            let first = priors.len();
            priors.extend(vec![prior; count]);
            first..first + count
        };
        let numbers: Vec<usize> = blocks.iter().filter_map(number).collect();
        let own = scales(numbers.len(), length_prior(numbers.len()));
        let numbers = numbers.into_iter().zip(own).collect();
        let options: Vec<(usize, u64)> = blocks.iter().filter_map(option).collect();
        let own = scales(options.len(), ((2.0 / options.len() as f64).ln(), 1.0));
        let options = options.into_iter().zip(own).map(|((at, count), own)| (at, count, own)).collect();
        let orders: Vec<(usize, usize)> = blocks.iter().filter_map(order).collect();
        let own = scales(orders.len(), (4_f64.ln(), 1.0));
        let orders = orders.into_iter().zip(own);
        let orders =
            orders.map(|((at, len), own)| Order { at, len, pairs: compared(len).count(), own }).collect();
        for _ in problem.descriptors() {
            priors.extend([(-0.7, 1.0), (0.0, 1.0)]);
        }
        let space = layout.space();
        let coarse = |coordinate| space.unit_cells(coordinate).is_some_and(|cells| cells <= COARSE_CELLS);
        let is_coarse = blocks.iter().all(|block| number(block).is_none_or(coarse));
        priors.push(if is_coarse { (0.05_f64.ln(), 1.0) } else { SMOOTH });
        Self { numbers, options, orders, descriptors: problem.descriptors().to_vec(), priors }
    }

    /// Points are vectors of `dim` numbers, with one length scale each or one together.
    #[cfg(test)]
    pub(crate) fn vectors(dim: usize, tied: bool) -> Self {
        let mut priors = vec![length_prior(dim); if tied { dim.min(1) } else { dim }];
        priors.push(SMOOTH);
        let numbers = (0..dim).map(|i| (i, if tied { 0 } else { i })).collect();
        Self { numbers, options: Vec::new(), orders: Vec::new(), descriptors: Vec::new(), priors }
    }

    /// The same with other priors (mean and standard deviation of the logarithms).
    pub(crate) fn with_priors(mut self, change: impl FnOnce(&mut [(f64, f64)])) -> Self {
        change(&mut self.priors);
        self
    }

    /// Mean and standard deviation of the normal prior of each hyper-parameter.
    pub(crate) fn priors(&self) -> &[(f64, f64)] {
        &self.priors
    }

    /// The coordinates of a code that are numbers, in the order of [`Input::numbers`].
    pub(crate) fn number_coordinates(&self) -> impl Iterator<Item = usize> {
        self.numbers.iter().map(|&(at, _)| at)
    }

    /// Whether all that is compared are numbers.
    pub(crate) fn is_numeric(&self) -> bool {
        self.options.is_empty() && self.orders.is_empty() && self.descriptors.is_empty()
    }

    /// Whether nothing but numbers and options is compared.
    pub(super) fn has_waves(&self) -> bool {
        self.orders.is_empty() && self.descriptors.is_empty()
    }

    /// Reads a point, whose code is `code`.
    pub(crate) fn input(&self, code: &[f64], point: &Point) -> Input {
        let descriptors = self.descriptors.iter().map(|descriptor| descriptor.of(point)).collect();
        Input { descriptors, ..self.vector(code) }
    }

    /// Reads a code where there are no descriptors.
    pub(crate) fn vector(&self, code: &[f64]) -> Input {
        let number = |&(at, _): &(usize, usize)| if code[at].is_nan() { 0.5 } else { code[at] };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cell of a coordinate"
        )]
        let option = |&(at, count, _): &(usize, u64, usize)| {
            if code[at].is_nan() { NO_OPTION } else { (code[at] * count as f64) as u32 }
        };
        let mut orders = Vec::new();
        for order in &self.orders {
            push_order(&code[order.at..order.at + order.len], *order, &mut orders);
        }
        Input {
            numbers: self.numbers.iter().map(number).collect(),
            options: self.options.iter().map(option).collect(),
            orders,
            descriptors: Vec::new(),
        }
    }

    /// The kernel with hyper-parameters.
    pub(crate) fn tuned(self: &Arc<Self>, theta: &[f64]) -> Tuned {
        let value: Vec<f64> = theta.iter().map(|t| t.exp()).collect();
        let first = self.priors.len() - 1 - 2 * self.descriptors.len();
        let pairs: Vec<(f64, f64)> =
            value[first..].as_chunks::<2>().0.iter().map(|pair| (pair[0], pair[1])).collect();
        Tuned {
            weights: self.numbers.iter().map(|&(_, own)| value[own].powi(-2)).collect(),
            thetas: self.options.iter().map(|&(.., own)| value[own]).collect(),
            lambdas: self.orders.iter().map(|order| value[order.own]).collect(),
            norm: 1.0 / (1.0 + pairs.iter().map(|pair| pair.0).sum::<f64>()),
            pairs,
            nugget: value[value.len() - 1],
            kernel: self.clone(),
            theta: theta.to_vec(),
        }
    }
}

/// The prior of the nugget where the objective is taken for smooth.
const SMOOTH: (f64, f64) = (-14.0, 2.0);

/// Hvarfner et al. 2024: length scales grow with the root of the dimension. Deviation: the mean is less by
/// 1, which is better on functions of 5 and 10 numbers (theirs is for a smoother kernel).
fn length_prior(dim: usize) -> (f64, f64) {
    (std::f64::consts::SQRT_2 - 1.0 + 0.5 * (dim.max(1) as f64).ln(), 3_f64.sqrt())
}

/// The pairs of elements whose order is compared: all of them, or, of a long permutation, those that
/// are near each other in a circle of the elements.
fn compared(len: usize) -> impl Iterator<Item = (usize, usize)> {
    let hops = (PAIRS / len.max(1)).clamp(1, (len / 2).max(1));
    (1..=hops).flat_map(move |hop| {
        let count = match len.cmp(&(2 * hop)) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => hop,
            std::cmp::Ordering::Greater => len,
        };
        (0..count).map(move |i| (i, (i + hop) % len))
    })
}

/// Appends the words of a permutation: whether it exists, then a bit for each pair.
fn push_order(code: &[f64], order: Order, words: &mut Vec<u64>) {
    let start = words.len();
    words.resize(start + order.words(), 0);
    if code.first().is_some_and(|u| !u.is_nan()) {
        words[start] = 1;
        for (bit, (i, j)) in compared(code.len()).enumerate() {
            words[start + 1 + bit / 64] |= u64::from(code[i] < code[j]) << (bit % 64);
        }
    }
}

/// The share of pairs in another order.
fn order_distance(a: &[u64], b: &[u64], pairs: usize) -> f64 {
    match (a[0], b[0]) {
        (1, 1) => {
            let different: u32 = a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum();
            f64::from(different) / pairs.max(1) as f64
        }
        (0, 0) => 0.0,
        _ => 0.25,
    }
}

impl Inputs {
    pub(crate) fn push(&mut self, input: &Input) {
        self.len += 1;
        self.numbers.extend_from_slice(&input.numbers);
        self.options.extend_from_slice(&input.options);
        self.orders.extend_from_slice(&input.orders);
        self.descriptors.push(input.descriptors.clone());
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Drops all inputs from `n` on.
    pub(crate) fn truncate(&mut self, n: usize) {
        let n = n.min(self.len);
        let shorter = |length: usize| length.checked_div(self.len).unwrap_or(0) * n;
        self.numbers.truncate(shorter(self.numbers.len()));
        self.options.truncate(shorter(self.options.len()));
        self.orders.truncate(shorter(self.orders.len()));
        self.descriptors.truncate(n);
        self.len = n;
    }

    /// The input at `index`.
    pub(crate) fn get(&self, index: usize) -> Input {
        Input {
            numbers: part(&self.numbers, index, self.len).to_vec(),
            options: part(&self.options, index, self.len).to_vec(),
            orders: part(&self.orders, index, self.len).to_vec(),
            descriptors: self.descriptors[index].clone(),
        }
    }
}

/// The share of entry `index` in the packed entries of `len`.
fn part<T>(packed: &[T], index: usize, len: usize) -> &[T] {
    let width = packed.len() / len;
    &packed[index * width..(index + 1) * width]
}

/// A [`Kernel`] with hyper-parameters.
#[derive(Clone, Debug)]
pub(crate) struct Tuned {
    kernel: Arc<Kernel>,
    theta: Vec<f64>,
    /// `1/ℓ²` of each number.
    weights: Vec<f64>,
    thetas: Vec<f64>,
    lambdas: Vec<f64>,
    /// `(w, a)` of each descriptor.
    pairs: Vec<(f64, f64)>,
    /// `1 / (1 + Σ w)`.
    norm: f64,
    nugget: f64,
}

/// Covariances of one point with others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// The covariances.
    pub(crate) k: Vec<f64>,
    /// Their part from the parameters, `Π / (1 + Σ w)`.
    product: Vec<f64>,
    /// Derivatives by the squared scaled distance of the numbers.
    slope: Vec<f64>,
}

impl Tuned {
    pub(crate) fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// The logarithms of the hyper-parameters.
    pub(crate) fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// The variance of what no point tells about another, beside the 1 of the rest.
    pub(crate) fn nugget(&self) -> f64 {
        self.nugget
    }

    /// `1/ℓ` of each number: how fast the function varies along it.
    pub(crate) fn sensitivities(&self) -> impl Iterator<Item = f64> {
        self.weights.iter().map(|w| w.sqrt())
    }

    /// `θ` of each option.
    pub(super) fn option_rates(&self) -> &[f64] {
        &self.thetas
    }

    /// Covariances of `x` with every input.
    pub(crate) fn row(&self, inputs: &Inputs, x: &Input) -> Row {
        self.row_of_first(inputs, inputs.len, x, &self.distances(inputs, inputs.len, x))
    }

    /// For each descriptor, the distances of `x` to the first `n` inputs.
    pub(super) fn distances(&self, inputs: &Inputs, n: usize, x: &Input) -> Vec<Vec<f64>> {
        let distance = |g: usize, other: &Vec<Vec<(u32, f64)>>| {
            self.kernel.descriptors[g].distance(&x.descriptors[g], &other[g])
        };
        (0..self.pairs.len())
            .map(|g| inputs.descriptors[..n].iter().map(|other| distance(g, other)).collect())
            .collect()
    }

    /// Covariances of `x` with the first `n` inputs, given its distances to them.
    pub(super) fn row_of_first(&self, inputs: &Inputs, n: usize, x: &Input, distances: &[Vec<f64>]) -> Row {
        let mut row = Row { k: vec![0.0; n], product: Vec::new(), slope: vec![0.0; n] };
        if self.weights.is_empty() {
            row.k.fill(self.norm);
        } else {
            let rows = inputs.numbers.chunks_exact(self.weights.len());
            for ((k, slope), other) in row.k.iter_mut().zip(&mut row.slope).zip(rows) {
                let root = (5.0 * scaled_distance(&self.weights, &x.numbers, other)).sqrt();
                let decay = self.norm * (-root).exp();
                *k = (1.0 + root + root * root / 3.0) * decay;
                *slope = -5.0 / 6.0 * (1.0 + root) * decay;
            }
        }
        if !(self.thetas.is_empty() && self.lambdas.is_empty()) {
            for i in 0..n {
                let factor = (-self.exponent(inputs, i, x)).exp();
                row.k[i] *= factor;
                row.slope[i] *= factor;
            }
        }
        if !self.pairs.is_empty() {
            row.product.clone_from(&row.k);
            for (distances, (w, a)) in distances.iter().zip(&self.pairs) {
                for (k, distance) in row.k.iter_mut().zip(distances) {
                    *k += self.norm * w * (-a * distance).exp();
                }
            }
        }
        row
    }

    /// `Σ θ_j [≠] + Σ λ_j K_j` between `x` and input `i`.
    fn exponent(&self, inputs: &Inputs, i: usize, x: &Input) -> f64 {
        let mut sum = 0.0;
        if !self.thetas.is_empty() {
            let width = self.thetas.len();
            let other = &inputs.options[i * width..(i + 1) * width];
            for ((theta, a), b) in self.thetas.iter().zip(&x.options).zip(other) {
                sum += if a == b { 0.0 } else { *theta };
            }
        }
        if !self.lambdas.is_empty() {
            let mut other = &inputs.orders[i * x.orders.len()..(i + 1) * x.orders.len()];
            let mut own = &x.orders[..];
            for (lambda, order) in self.lambdas.iter().zip(&self.kernel.orders) {
                let words = order.words();
                sum += lambda * order_distance(&own[..words], &other[..words], order.pairs);
                (own, other) = (&own[words..], &other[words..]);
            }
        }
        sum
    }

    /// `Σ_i b_i ∂k(x, x_i)/∂x_j` for every number `j` of `x`, given the row of `x`.
    pub(crate) fn numbers_gradient(&self, inputs: &Inputs, x: &Input, row: &Row, b: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.weights.len()];
        if sums.is_empty() {
            return sums;
        }
        for ((other, slope), b) in inputs.numbers.chunks_exact(sums.len()).zip(&row.slope).zip(b) {
            let factor = b * slope;
            for ((sum, x), other) in sums.iter_mut().zip(&x.numbers).zip(other) {
                *sum += factor * (x - other);
            }
        }
        sums.iter_mut().zip(&self.weights).for_each(|(sum, w)| *sum *= 2.0 * w);
        sums
    }

    /// Adds `Σ_i b_i ∂k(x, x_i)/∂θ` over the inputs of `row` to `gradient`, for every hyper-parameter
    /// but the nugget.
    pub(super) fn add_gradient(
        &self,
        inputs: &Inputs,
        x: &Input,
        row: &Row,
        distances: &[Vec<f64>],
        b: &[f64],
        gradient: &mut [f64],
    ) {
        let kernel = &self.kernel;
        if !kernel.numbers.is_empty() {
            let mut sums = vec![0.0; self.weights.len()];
            for ((other, slope), b) in inputs.numbers.chunks_exact(sums.len()).zip(&row.slope).zip(b) {
                let factor = b * slope;
                for ((sum, x), other) in sums.iter_mut().zip(&x.numbers).zip(other) {
                    *sum += factor * ((x - other) * (x - other));
                }
            }
            for ((sum, weight), &(_, own)) in sums.iter().zip(&self.weights).zip(&kernel.numbers) {
                gradient[own] -= 2.0 * weight * sum;
            }
        }
        let product = if self.pairs.is_empty() { &row.k } else { &row.product };
        let has_more = !(self.thetas.is_empty() && self.lambdas.is_empty());
        for (i, (product, b)) in product.iter().zip(b).enumerate().filter(|_| has_more) {
            let factor = b * product;
            let width = kernel.options.len();
            let other = &inputs.options[i * width..(i + 1) * width];
            for (((theta, a), other), &(.., own)) in
                self.thetas.iter().zip(&x.options).zip(other).zip(&kernel.options)
            {
                gradient[own] -= if a == other { 0.0 } else { factor * theta };
            }
            let mut other = &inputs.orders[i * x.orders.len()..(i + 1) * x.orders.len()];
            let mut mine = &x.orders[..];
            for (lambda, order) in self.lambdas.iter().zip(&kernel.orders) {
                let words = order.words();
                let distance = order_distance(&mine[..words], &other[..words], order.pairs);
                gradient[order.own] -= factor * lambda * distance;
                (mine, other) = (&mine[words..], &other[words..]);
            }
        }
        let first = gradient.len() - 1 - 2 * self.pairs.len();
        for (g, (distances, (w, a))) in distances.iter().zip(&self.pairs).enumerate() {
            for ((distance, k), b) in distances.iter().zip(&row.k).zip(b) {
                let term = (-a * distance).exp();
                gradient[first + 2 * g] += b * self.norm * w * (term - k);
                gradient[first + 2 * g + 1] -= b * self.norm * w * term * a * distance;
            }
        }
    }
}

/// `Σ w_j (a_j − b_j)²`.
fn scaled_distance(w: &[f64], a: &[f64], b: &[f64]) -> f64 {
    let ((w, w_rest), (a, a_rest), (b, b_rest)) =
        (w.as_chunks::<4>(), a.as_chunks::<4>(), b.as_chunks::<4>());
    let mut sums = [0.0; 4];
    for ((w, a), b) in w.iter().zip(a).zip(b) {
        for k in 0..4 {
            sums[k] += w[k] * ((a[k] - b[k]) * (a[k] - b[k]));
        }
    }
    let rest = w_rest.iter().zip(a_rest).zip(b_rest);
    let tail: f64 = rest.map(|((w, a), b)| w * ((a - b) * (a - b))).sum();
    (sums[0] + sums[2]) + (sums[1] + sums[3]) + tail
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::linalg::Triangle;
    use crate::{Goal, Metric, Parameter, Seed, Space};

    /// A problem with a parameter of every kind, some of which do not exist everywhere, and a descriptor.
    pub(in crate::gp) fn mixed() -> Problem {
        let parameters = vec![
            Parameter::float("x", 0.0, 1.0),
            Parameter::log_float("y", 1e-3, 1.0),
            Parameter::choice("kind", ["a", "b", "c"]),
            Parameter::bool("flag"),
            Parameter::float("z", 0.0, 1.0).when("flag"),
            Parameter::choice("more", ["a", "b"]).when("kind == 'a'"),
            Parameter::permutation("order", 4).when("kind != 'b'"),
            Parameter::permutation("rest", 3),
        ];
        let space = Space::new(parameters, &[]).unwrap();
        let sum = Descriptor::new("sum", &space, |point| {
            vec![(0, point.values()[0].as_f64().unwrap() + f64::from(u8::from(point.is_active(4))))]
        });
        let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
        problem.described(vec![sum])
    }

    /// Random points of a problem, as inputs of its kernel.
    pub(in crate::gp) fn inputs(problem: &Problem, kernel: &Kernel, n: usize, seed: u64) -> Vec<Input> {
        let layout = Layout::new(problem.space());
        let mut rng = Seed::new(seed).rng(0);
        (0..n)
            .map(|_| {
                let point = problem.space().sample(&mut rng, &[]).unwrap();
                kernel.input(&layout.code(&point), &point)
            })
            .collect()
    }

    fn theta(kernel: &Kernel, seed: u64) -> Vec<f64> {
        let mut rng = Seed::new(seed).rng(0);
        kernel.priors().iter().map(|(mean, sd)| mean + sd * rng.normal()).collect()
    }

    #[test]
    fn covariances_of_mixed_points_are_positive_definite() {
        let problem = mixed();
        let kernel = Arc::new(Kernel::new(&problem, &Layout::new(problem.space())));
        for seed in 0..10 {
            let tuned = kernel.tuned(&theta(&kernel, seed));
            let (mut all, mut factor) = (Inputs::default(), Triangle::default());
            for input in inputs(&problem, &kernel, 60, seed) {
                let mut entries = tuned.row(&all, &input).k;
                entries.push(1.0 + 1e-7);
                assert!(factor.push(&entries), "seed {seed}, row {}", all.len());
                all.push(&input);
            }
        }
    }

    #[test]
    fn permutations_differ_by_the_share_of_pairs_in_another_order() {
        for len in [2, 3, 4, 7, 8, 20] {
            let pairs = compared(len).count();
            assert_eq!(pairs, len * (len - 1) / 2, "{len} elements");
            let order = Order { at: 0, len, pairs, own: 0 };
            let words = |ranks: &[usize]| {
                let mut words = Vec::new();
                push_order(&ranks.iter().map(|&rank| rank as f64).collect::<Vec<_>>(), order, &mut words);
                words
            };
            let ranks: Vec<usize> = (0..len).collect();
            let mut swapped = ranks.clone();
            swapped.swap(0, 1);
            let reversed: Vec<usize> = ranks.iter().rev().copied().collect();
            let distance = |other: &[usize]| order_distance(&words(&ranks), &words(other), pairs);
            let near = |got: f64, want: f64| assert!((got - want).abs() < 1e-12, "{got} against {want}");
            near(distance(&ranks), 0.0);
            near(distance(&reversed), 1.0);
            near(distance(&swapped), 1.0 / pairs as f64);
        }
        assert!(compared(5000).count() <= PAIRS, "long permutations are compared in part");
    }

    #[test]
    fn packed_inputs_come_back() {
        let problem = mixed();
        let kernel = Kernel::new(&problem, &Layout::new(problem.space()));
        let list = inputs(&problem, &kernel, 9, 1);
        let mut packed = Inputs::default();
        for input in &list {
            packed.push(input);
        }
        packed.truncate(5);
        for (i, input) in list[..5].iter().enumerate() {
            let back = packed.get(i);
            assert_eq!((&back.numbers, &back.options), (&input.numbers, &input.options));
            assert_eq!((&back.orders, &back.descriptors), (&input.orders, &input.descriptors));
        }
    }

    #[test]
    fn gradients_by_numbers_are_those_of_differences() {
        let problem = mixed();
        let kernel = Arc::new(Kernel::new(&problem, &Layout::new(problem.space())));
        let tuned = kernel.tuned(&theta(&kernel, 3));
        let list = inputs(&problem, &kernel, 12, 2);
        let mut packed = Inputs::default();
        for input in &list[1..] {
            packed.push(input);
        }
        let b: Vec<f64> = (0..11).map(|i| f64::from(i) - 4.0).collect();
        let sum = |x: &Input| crate::linalg::dot(&tuned.row(&packed, x).k, &b);
        let gradient = tuned.numbers_gradient(&packed, &list[0], &tuned.row(&packed, &list[0]), &b);
        for (j, got) in gradient.iter().enumerate() {
            let moved = |step: f64| {
                let mut x = list[0].clone();
                x.numbers[j] += step;
                sum(&x)
            };
            let want = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            // Central differences: the error is about 1e-10 times a third derivative.
            assert!((got - want).abs() < 1e-6 * (1.0 + want.abs()), "{j}: {got} against {want}");
        }
    }
}

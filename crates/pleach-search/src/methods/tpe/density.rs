//! The densities of the two Parzen estimators at candidates.

use std::collections::HashMap;

use super::kernels::{Class, Kernels, Kind, LN_SQRT_TAU, NARROWEST, ln_norm};
use super::mallows;
use crate::normal;

/// The centre and width of the kernel that stands for what is known before the first point.
pub(super) const PRIOR: (f64, f64) = (0.5, 1.0);
/// Kernels that are less likely than the likeliest by `e` to this do not count.
const REACH: f64 = 24.0;
/// As many widths away nothing of a kernel is left.
const FAR: f64 = 6.5;
/// Plain parameters between two looks at whether a kernel still counts.
const STRIDE: usize = 4;
/// The largest density of a kernel, `ln(1 / (NARROWEST √(2π)))`, rounded up.
const PEAK: f64 = 3.7;

/// The codes of candidates, coordinate after coordinate.
#[derive(Debug)]
pub(super) struct Columns {
    n: usize,
    values: Vec<f64>,
}

impl Columns {
    pub(super) fn new(codes: &[Vec<f64>]) -> Self {
        let len = codes.first().map_or(0, Vec::len);
        let values = (0..len).flat_map(|at| codes.iter().map(move |code| code[at])).collect();
        Self { n: codes.len(), values }
    }

    /// The coordinates of a parameter: the first of all candidates, then the second, and so on.
    fn of(&self, kind: Kind) -> &[f64] {
        let (at, len) = place(kind);
        &self.values[at * self.n..][..len * self.n]
    }
}

/// The density of the points of a class, for the candidates given.
#[derive(Debug)]
pub(super) struct Estimator<'a> {
    kernels: &'a Kernels,
    class: Class,
    members: Vec<usize>,
    candidates: &'a Columns,
}

/// `ln` of kernels of few-celled parameters at every candidate, by parameter and bits of centre and rate.
type Cells = HashMap<(usize, u64, u64), Vec<f64>>;

impl<'a> Estimator<'a> {
    pub(super) fn new(kernels: &'a Kernels, class: Class, candidates: &'a Columns) -> Self {
        Self { kernels, class, members: kernels.members(class), candidates }
    }

    /// `ln` of the density at every candidate: a mixture of products over the
    /// parameters that exist at the candidate.
    pub(super) fn ln_density(&self) -> Vec<f64> {
        let (kernels, n) = (self.kernels, self.candidates.n);
        let parameters = 0..kernels.kinds().len();
        let plain: Vec<(usize, usize)> = parameters
            .clone()
            .filter(|&parameter| kernels.is_plain(parameter))
            .map(|parameter| (parameter, place(kernels.kinds()[parameter]).0))
            .collect();
        let rest: Vec<usize> = parameters.clone().filter(|&parameter| !kernels.is_plain(parameter)).collect();
        let weights = Weights::new(self.members.len());
        let mut sum = LnSum::new(n);
        let mut values = vec![weights.ln_prior(); n];
        let mut cells = Cells::new();
        for parameter in parameters {
            self.add_kernel(None, parameter, &mut cells, &mut values);
        }
        sum.add(&values);
        let slack = PEAK * rest.len() as f64;
        let mut squares = vec![0.0; n];
        'kernels: for (rank, &index) in self.members.iter().enumerate() {
            let base = weights.ln(rank) + kernels.total_norm(index);
            let (code, rates) = (kernels.code(index), kernels.rates(index));
            squares.fill(0.0);
            for group in plain.chunks(STRIDE) {
                for &(parameter, at) in group {
                    let (centre, rate) = (code[at], rates[parameter]);
                    for (square, x) in squares.iter_mut().zip(&self.candidates.values[at * n..]) {
                        let z = (x - centre) * rate;
                        *square += z * z;
                    }
                }
                if !sum.is_reached(&squares, base + slack) {
                    continue 'kernels;
                }
            }
            values.iter_mut().zip(&squares).for_each(|(value, square)| *value = base - 0.5 * square);
            for &parameter in &rest {
                self.add_kernel(Some(index), parameter, &mut cells, &mut values);
            }
            sum.add(&values);
        }
        sum.finish()
    }

    /// `ln` of the density of one parameter alone at every candidate.
    pub(super) fn ln_marginal(&self, parameter: usize) -> Vec<f64> {
        let (kernels, n) = (self.kernels, self.candidates.n);
        let kind = kernels.kinds()[parameter];
        if let Kind::Smooth { at } = kind {
            return self.ln_smooth_marginal(parameter, at);
        }
        let weights = Weights::new(kernels.count(self.class, parameter));
        let mut sum = LnSum::new(n);
        let mut values = vec![weights.ln_prior(); n];
        let mut cells = Cells::new();
        self.add_kernel(None, parameter, &mut cells, &mut values);
        sum.add(&values);
        let members = self.members_with(parameter);
        for (rank, &index) in members.iter().enumerate() {
            values.fill(weights.ln(rank));
            self.add_kernel(Some(index), parameter, &mut cells, &mut values);
            sum.add(&values);
        }
        sum.finish()
    }

    /// As [`Estimator::ln_marginal`]; the narrowest kernels, most of many, are summed on a grid.
    fn ln_smooth_marginal(&self, parameter: usize, at: usize) -> Vec<f64> {
        let kernels = self.kernels;
        let weights = Weights::new(kernels.count(self.class, parameter));
        let column = self.candidates.of(kernels.kinds()[parameter]);
        let density = |x: f64, centre: f64, rate: f64, norm: f64| {
            let z = (x - centre) * rate;
            if z.abs() < FAR { (norm - 0.5 * z * z).exp() } else { 0.0 }
        };
        let prior = ln_norm(PRIOR.0, PRIOR.1);
        let mut sums: Vec<f64> = column.iter().map(|&x| density(x, PRIOR.0, 1.0 / PRIOR.1, prior)).collect();
        let mut grid = Grid::new();
        let members = self.members_with(parameter);
        for (rank, &index) in members.iter().enumerate() {
            let (centre, rate) = (kernels.code(index)[at], kernels.rates(index)[parameter]);
            let (norm, weight) = (kernels.norms(index)[parameter], weights.weight(rank));
            if rate >= 1.0 / NARROWEST {
                grid.add(centre, weight);
            } else {
                let terms = column.iter().map(|&x| weight * density(x, centre, rate, norm));
                sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
            }
        }
        if grid.used {
            grid.finish();
            sums.iter_mut().zip(column).for_each(|(sum, &x)| *sum += grid.density(x));
        }
        sums.iter().map(|sum| (sum / weights.total).ln()).collect()
    }

    /// The points at which a parameter exists.
    fn members_with(&self, parameter: usize) -> Vec<usize> {
        let (at, _) = place(self.kernels.kinds()[parameter]);
        self.members.iter().copied().filter(|&index| !self.kernels.code(index)[at].is_nan()).collect()
    }

    /// Adds `ln` of the kernel of a point, or of the prior, in one parameter. What does not exist at a
    /// candidate adds nothing; of what does not exist at the point only the prior is known.
    fn add_kernel(&self, index: Option<usize>, parameter: usize, cells: &mut Cells, values: &mut [f64]) {
        let kernels = self.kernels;
        let kind = kernels.kinds()[parameter];
        let (at, len) = place(kind);
        let index = index.filter(|&index| !kernels.code(index)[at].is_nan());
        let column = self.candidates.of(kind);
        let exists = |x: &f64| !x.is_nan();
        match kind {
            Kind::Smooth { .. } => {
                let (centre, rate, norm) = index.map_or_else(
                    || (PRIOR.0, 1.0 / PRIOR.1, ln_norm(PRIOR.0, PRIOR.1)),
                    |index| {
                        (
                            kernels.code(index)[at],
                            kernels.rates(index)[parameter],
                            kernels.norms(index)[parameter],
                        )
                    },
                );
                for (value, x) in values.iter_mut().zip(column).filter(|(_, x)| exists(x)) {
                    *value += norm - 0.5 * ((x - centre) * rate).powi(2);
                }
            }
            Kind::Cells { .. } => {
                let (centre, rate) = index.map_or((PRIOR.0, 1.0 / PRIOR.1), |index| {
                    (kernels.code(index)[at], kernels.rates(index)[parameter])
                });
                let key = (parameter, centre.to_bits(), rate.to_bits());
                let space = kernels.layout().space();
                let row = cells.entry(key).or_insert_with(|| {
                    let ln_mass = |low: f64, high: f64| {
                        normal::mass((low - centre) * rate, (high - centre) * rate)
                            .max(f64::MIN_POSITIVE)
                            .ln()
                    };
                    let whole = ln_mass(0.0, 1.0);
                    let at_candidate = |&x: &f64| {
                        if x.is_nan() {
                            return 0.0;
                        }
                        let (low, high) = space.unit_cell(at, x);
                        ln_mass(low, high) - whole
                    };
                    column.iter().map(at_candidate).collect()
                });
                values.iter_mut().zip(row).for_each(|(value, ln)| *value += *ln);
            }
            Kind::Option { count, .. } => {
                let kernel = OptionKernel::new(count, kernels.count(self.class, parameter));
                for (value, x) in values.iter_mut().zip(column).filter(|(_, x)| exists(x)) {
                    *value += match index {
                        None => -(count as f64).ln(),
                        Some(index) if kernels.code(index)[at].to_bits() == x.to_bits() => kernel.hit.ln(),
                        Some(_) => kernel.miss.ln(),
                    };
                }
            }
            Kind::Permutation { .. } => {
                let q = mallows::dispersion(len, index.map(|_| kernels.count(self.class, parameter)));
                let norm = mallows::ln_norm(len, q);
                for (candidate, value) in values.iter_mut().enumerate() {
                    let ranks: Vec<f64> =
                        column[candidate..].iter().step_by(self.candidates.n).copied().collect();
                    if exists(&ranks[0]) {
                        let centre = index.map(|index| &kernels.code(index)[at..at + len]);
                        let exchanged = centre.map_or(0, |centre| mallows::exchanged_pairs(centre, &ranks));
                        *value += exchanged as f64 * q.ln() + norm;
                    }
                }
            }
        }
    }
}

/// Where the coordinates of a parameter begin in a code, and how many there are.
pub(super) fn place(kind: Kind) -> (usize, usize) {
    match kind {
        Kind::Smooth { at } | Kind::Cells { at } | Kind::Option { at, .. } => (at, 1),
        Kind::Permutation { at, len } => (at, len),
    }
}

/// The probabilities of the option at the centre and of each other one.
#[derive(Debug)]
pub(super) struct OptionKernel {
    pub(super) hit: f64,
    pub(super) miss: f64,
}

impl OptionKernel {
    /// As if each of the `n` points and the prior had seen `1 / (n + 1)` of every option besides.
    pub(super) fn new(options: u64, n: usize) -> Self {
        let rest = 1.0 / (n as f64 + 1.0);
        let total = 1.0 + options as f64 * rest;
        Self { hit: (1.0 + rest) / total, miss: rest / total }
    }
}

/// The weights of the kernels of an estimator: 1 for the prior and the 25 newest points, less the
/// older a point is.
#[derive(Debug)]
struct Weights {
    n: usize,
    total: f64,
}

impl Weights {
    const FULL: usize = 25;

    fn new(n: usize) -> Self {
        let mut weights = Self { n, total: 1.0 };
        weights.total = 1.0 + (0..n).map(|rank| weights.weight(rank)).sum::<f64>();
        weights
    }

    /// The weight of the point of that rank by age, the oldest first.
    fn weight(&self, rank: usize) -> f64 {
        let old = self.n.saturating_sub(Self::FULL);
        if rank >= old {
            return 1.0;
        }
        let least = 1.0 / self.n as f64;
        least + (1.0 - least) * rank as f64 / (old - 1).max(1) as f64
    }

    fn ln(&self, rank: usize) -> f64 {
        (self.weight(rank) / self.total).ln()
    }

    fn ln_prior(&self) -> f64 {
        -self.total.ln()
    }
}

/// Logarithms of sums, one a candidate; terms come in a fixed order.
#[derive(Debug)]
struct LnSum {
    largest: Vec<f64>,
    /// The sum, in units of the largest term.
    sums: Vec<f64>,
}

impl LnSum {
    fn new(n: usize) -> Self {
        Self { largest: vec![f64::NEG_INFINITY; n], sums: vec![0.0; n] }
    }

    fn add(&mut self, values: &[f64]) {
        for ((largest, sum), &value) in self.largest.iter_mut().zip(&mut self.sums).zip(values) {
            if value > *largest {
                *sum = 1.0 + *sum * (*largest - value).exp();
                *largest = value;
            } else if value > *largest - REACH {
                *sum += (value - *largest).exp();
            }
        }
    }

    /// Whether a term of `base − square / 2` or less can count for any candidate.
    fn is_reached(&self, squares: &[f64], base: f64) -> bool {
        let counts = |(square, largest): (&f64, &f64)| base - 0.5 * square > largest - REACH;
        // Without a branch, so that several candidates are compared at once.
        squares.iter().zip(&self.largest).fold(false, |any, pair| any | counts(pair))
    }

    fn finish(self) -> Vec<f64> {
        self.largest.iter().zip(&self.sums).map(|(largest, sum)| largest + sum.ln()).collect()
    }
}

/// The sum of the narrowest kernels of a number, whose centres are shared out between the two nearest
/// of equally spaced nodes: an error of the density below 2 %.
#[derive(Debug)]
struct Grid {
    nodes: Vec<f64>,
    used: bool,
}

impl Grid {
    /// Four steps of the grid are one width of a kernel.
    const STEPS: usize = 400;

    fn new() -> Self {
        Self { nodes: vec![0.0; Self::STEPS + 1], used: false }
    }

    fn add(&mut self, centre: f64, weight: f64) {
        let (node, share) = Self::node(centre);
        self.nodes[node] += weight * (1.0 - share);
        self.nodes[node + 1] += weight * share;
        self.used = true;
    }

    /// The node below, and how far the way to the next one is gone.
    fn node(x: f64) -> (usize, f64) {
        let scaled = x * Self::STEPS as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounding down is meant")]
        let node = (scaled as usize).min(Self::STEPS - 1);
        (node, scaled - node as f64)
    }

    /// Divides what lies at each node by the mass of its kernel inside `[0, 1]`.
    fn finish(&mut self) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small positive number"
        )]
        let border = (FAR * NARROWEST * Self::STEPS as f64) as usize;
        for (node, weight) in self.nodes.iter_mut().enumerate() {
            if node <= border || node >= Self::STEPS - border {
                let centre = node as f64 / Self::STEPS as f64;
                *weight /= normal::mass(-centre / NARROWEST, (1.0 - centre) / NARROWEST);
            }
        }
    }

    /// The density at `x`, times the total weight.
    fn density(&self, x: f64) -> f64 {
        let reach = FAR * NARROWEST;
        let (first, last) = (Self::node((x - reach).max(0.0)).0, Self::node((x + reach).min(1.0)).0 + 1);
        let step = 1.0 / (Self::STEPS as f64 * NARROWEST);
        let terms = self.nodes[first..=last].iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        let sum: f64 = terms
            .map(|(offset, weight)| {
                let z = x / NARROWEST - (first + offset) as f64 * step;
                weight * (-0.5 * z * z).exp()
            })
            .sum();
        sum * (-NARROWEST.ln() - LN_SQRT_TAU).exp()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::{Parameter, Seed, Space, Value};

    #[test]
    fn densities_equal_those_of_optuna() {
        let parameters = vec![
            Parameter::float("x", -5.0, 10.0),
            Parameter::log_float("rate", 1e-4, 1.0),
            Parameter::int("k", 1, 5),
            Parameter::choice("c", ["a", "b", "c"]),
        ];
        let space = Space::new(parameters, &[]).unwrap();
        let point = |(x, rate, k, c)| {
            space.point(vec![Value::Float(x), Value::Float(rate), Value::Int(k), Value::Choice(c)]).unwrap()
        };
        let mut kernels = Kernels::new(&space);
        let points =
            [(-4.0, 1e-3, 1, 0), (1.0, 1e-2, 3, 0), (2.0, 0.5, 3, 2), (9.5, 2e-4, 4, 0), (2.5, 1e-3, 5, 2)];
        for (index, values) in points.into_iter().enumerate() {
            kernels.push(&point(values));
            kernels.classify(index, Class::Good);
        }
        let candidates = [(-4.5, 1e-3, 1, 1), (2.2, 0.9, 3, 2), (7.0, 2e-2, 5, 0)];
        let codes: Vec<Vec<f64>> =
            candidates.iter().map(|&values| kernels.layout().code(&point(values))).collect();
        let columns = Columns::new(&codes);
        let estimator = Estimator::new(&kernels, Class::Good, &columns);
        // Optuna 5.0.0: _ParzenEstimator.log_pdf, all parameters and x alone; here coordinates are in [0, 1].
        let (width, ln_width) = (15_f64.ln(), 1e4_f64.ln().ln());
        let joint = [-8.046_727_52, -6.317_619_16, -8.159_687_95];
        let alone = [-0.233_939_67, 0.327_244_47, -0.266_531_77];
        for (got, want) in estimator.ln_density().iter().zip(joint) {
            assert!((got - want - width - ln_width).abs() < 1e-7, "{got}");
        }
        for (got, want) in estimator.ln_marginal(0).iter().zip(alone) {
            assert!((got - want).abs() < 1e-7, "{got}");
        }
    }

    #[test]
    fn probabilities_of_all_points_sum_to_one() {
        let parameters = vec![
            Parameter::choice("kind", ["a", "b", "c"]),
            Parameter::log_int("k", 1, 6).when("kind != 'a'"),
            Parameter::permutation("order", 3).when("kind == 'c'"),
            Parameter::bool("flag"),
        ];
        let space = Space::new(parameters, &[]).unwrap();
        let mut kernels = Kernels::new(&space);
        let mut rng = Seed::new(2).rng(0);
        for index in 0..150 {
            kernels.push(&space.sample(&mut rng, &[]).unwrap());
            kernels.classify(index, if index % 7 == 0 { Class::Good } else { Class::Bad });
        }
        // Points that differ in what does not exist are one.
        let all: HashMap<_, _> = (0..space.cardinality().unwrap())
            .map(|i| space.nth(i))
            .map(|point| (space.key(&point), kernels.layout().code(&point)))
            .collect();
        assert_eq!(all.len(), 2 * (1 + 6 + 6 * 6));
        let codes: Vec<Vec<f64>> = all.into_values().collect();
        let columns = Columns::new(&codes);
        for class in [Class::Good, Class::Bad] {
            let density = Estimator::new(&kernels, class, &columns).ln_density();
            let sum: f64 = density.iter().map(|ln| ln.exp()).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        }
    }

    #[test]
    fn one_number_has_the_same_density_alone_and_jointly() {
        let space = Space::new(vec![Parameter::float("x", 0.0, 1.0)], &[]).unwrap();
        let mut kernels = Kernels::new(&space);
        let mut rng = Seed::new(3).rng(0);
        for index in 0..2000 {
            // Most near 0, where kernels are cut, and some far from each other.
            let x = if index % 50 == 0 { rng.unit() } else { 0.1 * rng.unit().powi(2) };
            kernels.push(&space.decode(&[x]));
            kernels.classify(index, Class::Bad);
        }
        let codes: Vec<Vec<f64>> = (0..=1000).map(|i| vec![f64::from(i) / 1000.0]).collect();
        let columns = Columns::new(&codes);
        let estimator = Estimator::new(&kernels, Class::Bad, &columns);
        for (alone, joint) in estimator.ln_marginal(0).iter().zip(estimator.ln_density()) {
            assert!((alone - joint).abs() < 0.02, "{alone} and {joint}");
        }
    }
}

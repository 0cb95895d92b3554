//! A Gaussian process over a [`Pool`]: hyper-parameters, and the posterior at every point.

use super::pool::{Axis, Pool, single};
use crate::Rng;
use crate::linalg::{Triangle, axpy, dot};

/// What is added to the diagonal of every covariance matrix.
const JITTER: f64 = 1e-6;

/// Without order among their values, this many parameters get a decay each.
const MIN_AXES_APART: usize = 9;

/// Known points of a pool, with their distances from each other.
#[derive(Debug)]
pub(crate) struct Known {
    rows: Vec<u32>,
    /// One lower triangle of distances a decay: of the axes that share the decay, then of each view.
    distances: Vec<Vec<f64>>,
    /// Whether every axis has a decay of its own.
    apart: bool,
    n_axes: usize,
    n_views: usize,
}

impl Known {
    pub(crate) fn new(pool: &Pool) -> Self {
        let axes = pool.axes();
        let apart = axes.len() >= MIN_AXES_APART && !axes.iter().any(Axis::is_ordered);
        let n_products = if apart { axes.len() } else { 1 };
        Self {
            rows: Vec::new(),
            distances: vec![Vec::new(); n_products + pool.n_views()],
            apart,
            n_axes: axes.len(),
            n_views: pool.n_views(),
        }
    }

    /// The points, in the order in which they became known.
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    pub(crate) fn push(&mut self, pool: &Pool, point: u32) {
        self.rows.push(point);
        for &other in &self.rows {
            let mut along = (0..self.n_axes).map(|axis| pool.distance(axis, point, other));
            if self.apart {
                self.distances.iter_mut().zip(along).for_each(|(triangle, distance)| triangle.push(distance));
            } else {
                self.distances[0].push(along.by_ref().sum());
            }
            let views = self.distances.len() - self.n_views;
            for (view, triangle) in self.distances[views..].iter_mut().enumerate() {
                triangle.push(pool.view_distance(view, point, other));
            }
        }
    }
}

/// The hyper-parameters of a covariance over a pool.
///
/// `k(a, b) = (exp(-Σ_j θ_j d_j(a, b)) + Σ_v w_v exp(-s_v D_v(a, b))) / (1 + Σ_v w_v)` over axes `j` and
/// descriptors `v`, with a nugget; the variance and the mean of the process follow from the targets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hyperparameters {
    /// Of θ (one, or one an axis), of `s_v`, of `w_v`, and of the nugget.
    pub(crate) logarithms: Vec<f64>,
    /// The step of the line search along each of them.
    pub(crate) steps: Vec<f64>,
}

/// Modes of the log-normal priors, whose standard deviation is 1: θ is 2 over the number of axes.
const PRIOR_DECAY: f64 = 1.0;
const PRIOR_LN_WEIGHT: f64 = -0.7;
const PRIOR_NUGGET: f64 = 0.05;

/// A prior observation of unit variance keeps the scale away from 0.
const PRIOR_TARGETS: f64 = 1.0;
/// Precision of the prior of the mean.
const PRIOR_MEAN: f64 = 0.01;

impl Hyperparameters {
    /// The modes of the priors.
    pub(crate) fn new(known: &Known) -> Self {
        const STEP: f64 = 0.7;
        let logarithms = Self::modes(known);
        Self { steps: vec![STEP; logarithms.len()], logarithms }
    }

    fn modes(known: &Known) -> Vec<f64> {
        let n_products = known.distances.len() - known.n_views;
        let mut modes = vec![(2.0 / known.n_axes.max(1) as f64).ln(); n_products];
        modes.extend(std::iter::repeat_n(PRIOR_DECAY.ln(), known.n_views));
        modes.extend(std::iter::repeat_n(PRIOR_LN_WEIGHT, known.n_views));
        modes.push(PRIOR_NUGGET.ln());
        modes
    }

    /// Improves the posterior density of the hyper-parameters at the known points, each along its own
    /// axis; `targets[i]` belongs to row `i`.
    pub(crate) fn fit(&mut self, known: &Known, targets: &[f64], passes: usize) {
        const SHORTEST: f64 = 0.1;
        const LONGEST: f64 = 1.5;
        let modes = Self::modes(known);
        let mut best = ln_posterior(known, &self.logarithms, &modes, targets);
        for _ in 0..passes {
            for i in 0..self.logarithms.len() {
                let improved = [1.0, -1.0].into_iter().any(|sign| {
                    let mut other = self.logarithms.clone();
                    other[i] += sign * self.steps[i];
                    let density = ln_posterior(known, &other, &modes, targets);
                    let is_better = density > best;
                    if is_better {
                        (self.logarithms, best) = (other, density);
                    }
                    is_better
                });
                self.steps[i] = (self.steps[i] * if improved { 1.4 } else { 0.6 }).clamp(SHORTEST, LONGEST);
            }
        }
    }
}

/// The logarithm of the posterior density of hyper-parameters, up to a constant: the scale of the
/// process is at its best value, the mean is integrated out.
fn ln_posterior(known: &Known, logarithms: &[f64], modes: &[f64], targets: &[f64]) -> f64 {
    let n = known.rows.len();
    let covariance = Covariance::new(logarithms, known);
    let mut factor = Triangle::default();
    let mut at = 0;
    for i in 0..n {
        let mut row: Vec<f64> = (at..=at + i).map(|pair| covariance.of(known, pair)).collect();
        row[i] += covariance.nugget + JITTER;
        if !factor.push(&row) {
            return f64::NEG_INFINITY;
        }
        at += i + 1;
    }
    let centered = Centered::new(&factor, targets);
    let prior: f64 = logarithms.iter().zip(modes).map(|(p, mode)| (p - mode).powi(2)).sum();
    -0.5 * n as f64 * centered.variance.ln() - factor.ln_diagonal() - 0.5 * prior
}

/// Hyper-parameters as the formula of the covariance has them.
#[derive(Clone, Debug, PartialEq)]
struct Covariance {
    /// One or one an axis.
    decays: Vec<f64>,
    product_weight: f64,
    /// Decay and weight of each descriptor.
    views: Vec<(f64, f64)>,
    nugget: f64,
}

impl Covariance {
    fn new(logarithms: &[f64], known: &Known) -> Self {
        let (decays, rest) = logarithms.split_at(known.distances.len() - known.n_views);
        let (view_decays, rest) = rest.split_at(known.n_views);
        let total: f64 = 1.0 + rest[..known.n_views].iter().map(|weight| weight.exp()).sum::<f64>();
        let views = view_decays.iter().zip(rest).map(|(decay, weight)| (decay.exp(), weight.exp() / total));
        Self {
            decays: decays.iter().map(|decay| decay.exp()).collect(),
            product_weight: 1.0 / total,
            views: views.collect(),
            nugget: rest[known.n_views].exp(),
        }
    }

    /// Of a pair of known points, by its place in the triangles.
    fn of(&self, known: &Known, pair: usize) -> f64 {
        let (products, views) = known.distances.split_at(self.decays.len());
        let exponent: f64 =
            self.decays.iter().zip(products).map(|(decay, triangle)| decay * triangle[pair]).sum();
        let view =
            |((decay, weight), triangle): (&(f64, f64), &Vec<f64>)| weight * (-decay * triangle[pair]).exp();
        self.product_weight * (-exponent).exp() + self.views.iter().zip(views).map(view).sum::<f64>()
    }

    /// One decay an axis.
    fn decays_of(&self, pool: &Pool) -> Vec<f64> {
        match self.decays[..] {
            [decay] => vec![decay; pool.axes().len()],
            _ => self.decays.clone(),
        }
    }

    /// Of a point with all others.
    fn row(&self, pool: &Pool, point: u32) -> Vec<f32> {
        let mut row = pool.product_row(point, self.product_weight, &self.decays_of(pool));
        for (view, &(decay, weight)) in self.views.iter().enumerate() {
            pool.add_view_row(view, point, weight, decay, &mut row);
        }
        row
    }
}

/// Targets under a factor `L`: their mean by generalised least squares, what is left, and its scale.
struct Centered {
    mean: f64,
    /// `L⁻¹ (y − mean)`.
    whitened: Vec<f64>,
    /// Variance of the process.
    variance: f64,
}

impl Centered {
    fn new(factor: &Triangle, targets: &[f64]) -> Self {
        let n = targets.len();
        let (y, ones) = (factor.solve(targets), factor.solve(&vec![1.0; n]));
        let mean = dot(&y, &ones) / (dot(&ones, &ones) + PRIOR_MEAN);
        let mut whitened = y;
        axpy(-mean, &ones, &mut whitened);
        let variance = (dot(&whitened, &whitened) + PRIOR_TARGETS) / (n as f64 + PRIOR_TARGETS);
        Self { mean, whitened, variance }
    }
}

/// The factor of the covariance of some points of a pool, and its inverse times their covariance
/// with all points: a cache, which follows from a [`Hyperparameters`] and a list of points.
#[derive(Debug, Default)]
pub(crate) struct Field {
    covariance: Option<Covariance>,
    rows: Vec<u32>,
    factor: Triangle,
    /// `L⁻¹ K(rows, all)`, row by row.
    whitened: Vec<f32>,
}

/// Points that are worked on together, so that they stay in the nearest cache.
const BLOCK: usize = 1024;

impl Field {
    /// Brings the field to these hyper-parameters and points; what is there already is kept.
    pub(crate) fn update(
        &mut self,
        pool: &Pool,
        known: &Known,
        hyperparameters: &Hyperparameters,
        rows: &[u32],
    ) {
        let covariance = Covariance::new(&hyperparameters.logarithms, known);
        if self.covariance.as_ref() != Some(&covariance) {
            *self = Self { covariance: Some(covariance), ..Self::default() };
        }
        let covariance = self.covariance.as_ref().expect("set above");
        let n = pool.len() as usize;
        let kept = self.rows.iter().zip(rows).take_while(|(a, b)| a == b).count();
        self.rows.truncate(kept);
        self.factor.truncate(kept);
        self.whitened.truncate(kept * n);
        for &point in &rows[kept..] {
            let row = covariance.row(pool, point);
            let mut entries: Vec<f64> =
                self.rows.iter().map(|&other| f64::from(row[other as usize])).collect();
            let i = entries.len();
            entries.push(1.0 + covariance.nugget + JITTER);
            let mut jitter = JITTER;
            // Rounding may make points that are nearly equal look too much alike.
            while !self.factor.push(&entries) {
                entries[i] += jitter;
                jitter *= 10.0;
            }
            self.rows.push(point);
            self.whitened.extend(row);
        }
        let coefficients: Vec<Vec<f32>> =
            (kept..rows.len()).map(|i| self.factor.row(i).iter().map(|&l| single(l)).collect()).collect();
        for start in (0..n).step_by(BLOCK) {
            let columns = start..n.min(start + BLOCK);
            for (i, l) in (kept..rows.len()).zip(&coefficients) {
                let (before, own) = self.whitened.split_at_mut(i * n);
                let own = &mut own[columns.clone()];
                eliminate(own, l, |s| &before[s * n..][columns.clone()]);
            }
        }
    }

    /// The posterior at every point, given targets of the first rows. Rows without a target count as
    /// observed at their mean, which leaves the mean as it is and narrows the variance.
    pub(crate) fn posterior(&self, pool: &Pool, targets: &[f64]) -> Posterior {
        let n = pool.len() as usize;
        let centered = Centered::new(&self.factor, targets);
        let (mut means, mut squares) = (vec![single(centered.mean); n], vec![0.0_f32; n]);
        for start in (0..n).step_by(BLOCK) {
            let columns = start..n.min(start + BLOCK);
            let (means, squares) = (&mut means[columns.clone()], &mut squares[columns.clone()]);
            for i in 0..self.rows.len() {
                let weight = centered.whitened.get(i).map_or(0.0, |&b| single(b));
                let row = &self.whitened[i * n..][columns.clone()];
                for ((mean, square), v) in means.iter_mut().zip(&mut *squares).zip(row) {
                    *mean += weight * v;
                    *square += v * v;
                }
            }
        }
        Posterior { means, squares, variance: centered.variance, nugget: self.nugget() }
    }

    /// A draw from the posterior of the process at all points jointly, by Matheron's rule: a draw
    /// from the prior is corrected by what it misses at the known points. `None` if there are
    /// descriptors, or [`Pool::draw`] gives nothing.
    ///
    /// # Source
    /// Wilson et al., *Pathwise Conditioning of Gaussian Processes*, JMLR 22, 2021, Eq. 16.
    pub(crate) fn draw(&self, pool: &Pool, targets: &[f64], rng: &mut Rng) -> Option<Vec<f64>> {
        let covariance = self.covariance.as_ref().filter(|covariance| covariance.views.is_empty())?;
        let Centered { mean, variance, .. } = Centered::new(&self.factor, targets);
        let deviation = variance.sqrt();
        let mut draw = pool.draw(&covariance.decays_of(pool), rng)?;
        let noise = (covariance.nugget + JITTER).sqrt();
        let missed: Vec<f64> = targets
            .iter()
            .zip(&self.rows)
            .map(|(y, &row)| (y - mean) / deviation - draw[row as usize] - noise * rng.normal())
            .collect();
        let n = draw.len();
        for (i, weight) in self.factor.solve(&missed).into_iter().enumerate() {
            let row = &self.whitened[i * n..(i + 1) * n];
            draw.iter_mut().zip(row).for_each(|(draw, &v)| *draw += weight * f64::from(v));
        }
        for value in &mut draw {
            *value = mean + deviation * *value;
        }
        Some(draw)
    }

    fn nugget(&self) -> f64 {
        self.covariance.as_ref().map_or(0.0, |covariance| covariance.nugget)
    }
}

/// Turns a row of covariances into a row of `L⁻¹ K`, given the row of `L` and the rows before.
fn eliminate<'a>(own: &mut [f32], l: &[f32], row: impl Fn(usize) -> &'a [f32]) {
    let (pivot, l) = l.split_last().expect("a row of a factor ends with its pivot");
    let (fours, rest) = l.as_chunks::<4>();
    for (four, s) in fours.iter().zip((0..).step_by(4)) {
        let rows = row(s).iter().zip(row(s + 1)).zip(row(s + 2)).zip(row(s + 3));
        for (own, (((a, b), c), d)) in own.iter_mut().zip(rows) {
            *own -= (four[0] * a + four[1] * b) + (four[2] * c + four[3] * d);
        }
    }
    for (l, s) in rest.iter().zip(4 * fours.len()..) {
        own.iter_mut().zip(row(s)).for_each(|(own, v)| *own -= l * v);
    }
    let inverse = 1.0 / pivot;
    for own in own {
        *own *= inverse;
    }
}

/// The posterior at every point of a pool.
#[derive(Debug)]
pub(crate) struct Posterior {
    means: Vec<f32>,
    /// By how much the variance is smaller than that of the prior, in units of it.
    squares: Vec<f32>,
    /// Of the prior.
    variance: f64,
    nugget: f64,
}

impl Posterior {
    pub(crate) fn mean(&self, point: u32) -> f64 {
        f64::from(self.means[point as usize])
    }

    /// Standard deviation of a new observation: the nugget is in it.
    pub(crate) fn deviation(&self, point: u32) -> f64 {
        let rest = (1.0 - f64::from(self.squares[point as usize])).max(JITTER);
        (self.variance * (rest + self.nugget)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Descriptor, Goal, Metric, Parameter, Problem, Seed, Space};

    fn pool(described: bool) -> Pool {
        let parameters = (0..4).map(|i| Parameter::choice(&format!("e{i}"), ["a", "b", "c"])).collect();
        let space = Space::new(parameters, &[]).unwrap();
        let count =
            |point: &crate::Point| point.values().iter().filter_map(crate::Value::as_choice).sum::<usize>();
        let sum = Descriptor::new("sum", &space, move |point| vec![(0, count(point) as f64)]);
        let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
        Pool::new(&problem.described(if described { vec![sum] } else { Vec::new() }))
    }

    fn known(pool: &Pool, rows: &[u32]) -> Known {
        let mut known = Known::new(pool);
        for &row in rows {
            known.push(pool, row);
        }
        known
    }

    const ROWS: [u32; 9] = [3, 77, 12, 40, 41, 0, 66, 25, 58];
    const TARGETS: [f64; 7] = [0.3, -1.2, 0.8, 0.1, 0.2, -0.7, 1.5];

    #[test]
    fn a_field_that_grew_equals_one_computed_at_once() {
        let pool = pool(true);
        let known = known(&pool, &ROWS);
        let hyperparameters = Hyperparameters::new(&known);
        let (mut grown, mut whole) = (Field::default(), Field::default());
        // The third update takes two rows back.
        for rows in [&ROWS[..2], &[3, 77, 12, 9, 10], &ROWS[..6], &ROWS] {
            grown.update(&pool, &known, &hyperparameters, rows);
        }
        whole.update(&pool, &known, &hyperparameters, &ROWS);
        assert!(grown.factor == whole.factor && grown.whitened == whole.whitened);
    }

    /// The formulas of Rasmussen and Williams 2006, Eq. 2.25, 2.26, with a matrix inverse in double
    /// precision.
    #[test]
    fn posteriors_equal_the_textbook() {
        let pool = pool(true);
        let known = known(&pool, &ROWS[..7]);
        let hyperparameters = Hyperparameters::new(&known);
        let covariance = Covariance::new(&hyperparameters.logarithms, &known);
        let mut field = Field::default();
        field.update(&pool, &known, &hyperparameters, &ROWS[..7]);
        let posterior = field.posterior(&pool, &TARGETS);
        let rows: Vec<Vec<f64>> = (0..pool.len())
            .map(|a| covariance.row(&pool, a).iter().map(|&k| f64::from(k)).collect())
            .collect();
        let mut matrix = Vec::new();
        for (i, &a) in ROWS[..7].iter().enumerate() {
            matrix.extend(ROWS[..7].iter().map(|&b| rows[a as usize][b as usize]));
            matrix[8 * i] += covariance.nugget + JITTER;
        }
        let factor = Triangle::cholesky(&matrix, 7).unwrap();
        let inverse_times = |b: &[f64]| factor.solve_transposed(&factor.solve(b));
        let mean = dot(&TARGETS, &inverse_times(&[1.0; 7]))
            / (inverse_times(&[1.0; 7]).iter().sum::<f64>() + PRIOR_MEAN);
        let rest: Vec<f64> = TARGETS.iter().map(|y| y - mean).collect();
        let variance = (dot(&rest, &inverse_times(&rest)) + 1.0) / 8.0;
        for (point, row) in (0..).zip(&rows) {
            let k: Vec<f64> = ROWS[..7].iter().map(|&a| row[a as usize]).collect();
            let want = mean + dot(&k, &inverse_times(&rest));
            let deviation = (variance * (1.0 - dot(&k, &inverse_times(&k)) + covariance.nugget)).sqrt();
            // Single precision, and a condition number of about 100.
            assert!((posterior.mean(point) - want).abs() < 1e-4);
            assert!((posterior.deviation(point) - deviation).abs() < 1e-4);
        }
    }

    #[test]
    fn rows_without_a_target_narrow_the_variance_alone() {
        let pool = pool(false);
        let known = known(&pool, &ROWS[..7]);
        let hyperparameters = Hyperparameters::new(&known);
        let mut field = Field::default();
        field.update(&pool, &known, &hyperparameters, &ROWS[..7]);
        let before = field.posterior(&pool, &TARGETS);
        field.update(&pool, &known, &hyperparameters, &ROWS);
        let after = field.posterior(&pool, &TARGETS);
        assert_eq!(before.means, after.means);
        assert!((0..pool.len()).all(|point| after.deviation(point) <= before.deviation(point)));
        assert!(after.deviation(25) < 0.5 * before.deviation(25));
    }

    /// The means of 400 draws at 81 points: the largest of 81 standard scores is above 5 with
    /// probability 5e-5. The standard deviations are within 20 %, which is 5.6 standard errors.
    #[test]
    fn draws_have_the_moments_of_the_posterior() {
        const DRAWS: usize = 400;
        let pool = pool(false);
        let known = known(&pool, &ROWS[..7]);
        let hyperparameters = Hyperparameters::new(&known);
        let mut field = Field::default();
        field.update(&pool, &known, &hyperparameters, &ROWS[..7]);
        let posterior = field.posterior(&pool, &TARGETS);
        let draws: Vec<Vec<f64>> = (0..DRAWS as u64)
            .map(|k| field.draw(&pool, &TARGETS, &mut Seed::new(1).rng(k)).unwrap())
            .collect();
        for point in 0..pool.len() {
            let values = draws.iter().map(|draw| draw[point as usize]);
            let mean = values.clone().sum::<f64>() / DRAWS as f64;
            let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / (DRAWS - 1) as f64;
            // That of the process, without the nugget of an observation.
            let want = posterior.deviation(point).powi(2) - posterior.variance * posterior.nugget;
            assert!((mean - posterior.mean(point)).abs() < 5.0 * (want / DRAWS as f64).sqrt());
            assert!((variance.sqrt() / want.sqrt() - 1.0).abs() < 0.2, "{variance} {want}");
        }
    }

    #[test]
    fn fits_find_the_decay_of_a_draw() {
        let pool = pool(false);
        let all: Vec<u32> = (0..pool.len()).collect();
        let known = known(&pool, &all);
        for decay in [0.1_f64, 1.5] {
            let draw = pool.draw(&[decay; 4], &mut Seed::new(3).rng(0)).unwrap();
            let mut hyperparameters = Hyperparameters::new(&known);
            hyperparameters.fit(&known, &draw, 12);
            // 81 points fix the logarithm of the decay to about 0.4.
            assert!((hyperparameters.logarithms[0] - decay.ln()).abs() < 1.2, "{hyperparameters:?}");
        }
        let mut constant = Hyperparameters::new(&known);
        constant.fit(&known, &[0.0; 81], 3);
        assert!(constant.logarithms.iter().all(|logarithm| logarithm.is_finite()));
    }
}

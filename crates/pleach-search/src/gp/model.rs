//! The posterior of a Gaussian process.

use super::fit::PRIOR_TARGETS;
use super::kernel::Row;
use super::{Input, Inputs, Tuned};
use crate::Rng;
use crate::linalg::{Triangle, axpy, dot};

/// Known points under a kernel: the factor `L` of their covariance `L Lᵀ = K + N`.
///
/// A point more is a row more, with the same bits as if all had been there from the start.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    tuned: Tuned,
    inputs: Inputs,
    factor: Triangle,
    /// `L⁻¹ 1`.
    ones: Vec<f64>,
}

impl Model {
    pub(crate) fn new(tuned: Tuned) -> Self {
        Self { tuned, inputs: Inputs::default(), factor: Triangle::default(), ones: Vec::new() }
    }

    /// Adds a point whose target has noise of variance `noise` beside the nugget, in units of the
    /// variance of the process.
    pub(crate) fn push(&mut self, input: &Input, noise: f64) {
        let mut entries = self.tuned.row(&self.inputs, input).k;
        let n = entries.len();
        let diagonal = 1.0 + self.tuned.nugget() + noise;
        let mut jitter = 1e-10;
        entries.push(diagonal);
        // A point beside a known one is told from it by rounding alone: its noise grows until it is.
        while !self.factor.push(&entries) {
            entries[n] = diagonal + jitter;
            jitter *= 10.0;
        }
        let row = self.factor.row(n);
        self.ones.push((1.0 - dot(&row[..n], &self.ones)) / row[n]);
        self.inputs.push(input);
    }

    /// Number of points.
    pub(crate) fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Drops all points from `n` on.
    pub(crate) fn truncate(&mut self, n: usize) {
        self.inputs.truncate(n);
        self.factor.truncate(n);
        self.ones.truncate(n);
    }

    pub(crate) fn tuned(&self) -> &Tuned {
        &self.tuned
    }

    pub(crate) fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// The posterior given a target for each of the first points; those after them are pending, and
    /// their `draws` standard normal each make as many posteriors (see [`Posterior::means`]).
    ///
    /// `draws` holds one list a posterior, with a number for each pending point.
    pub(crate) fn condition(self, targets: &[f64], draws: &[Vec<f64>]) -> Posterior {
        let n = targets.len();
        let mut z: Vec<f64> = Vec::with_capacity(self.len());
        for (i, target) in targets.iter().enumerate() {
            let row = self.factor.row(i);
            z.push((target - dot(&row[..i], &z)) / row[i]);
        }
        let ones = &self.ones[..n];
        let total = dot(ones, ones);
        let mean = if n == 0 { 0.0 } else { dot(ones, &z) / total };
        axpy(-mean, ones, &mut z);
        let variance = (dot(&z, &z) + PRIOR_TARGETS) / (n as f64 + PRIOR_TARGETS);
        // Given the known targets, the whitened pending values are standard normal.
        let sd = variance.sqrt();
        let mut whitened = vec![z];
        if self.len() > n {
            whitened = draws
                .iter()
                .map(|draw| whitened[0].iter().copied().chain(draw.iter().map(|e| sd * e)).collect())
                .collect();
        }
        Posterior { model: self, known: n, whitened, mean, variance }
    }
}

/// A [`Model`] given targets.
#[derive(Clone, Debug)]
pub(crate) struct Posterior {
    model: Model,
    /// Points with a target; those after them are pending.
    known: usize,
    /// `L⁻¹ (y − mean)`, for each draw of the pending values.
    whitened: Vec<Vec<f64>>,
    mean: f64,
    variance: f64,
}

/// What a [`Posterior`] says at a point.
#[derive(Clone, Debug)]
pub(crate) struct Marginal {
    row: Row,
    /// `L⁻¹ k`.
    v: Vec<f64>,
    /// The mean, for each draw of the pending values.
    pub(crate) means: Vec<f64>,
    /// The variance without the nugget.
    pub(crate) variance: f64,
}

impl Posterior {
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// The variance of the process.
    pub(crate) fn process_variance(&self) -> f64 {
        self.variance
    }

    /// The mean of the process.
    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    /// `(K + N)⁻¹ (y − mean − values)`, for values of the prior and its noise at the known points.
    pub(super) fn corrections(&self, values: &[f64]) -> Vec<f64> {
        let factor = &self.model.factor;
        let mut rest = factor.solve(values);
        rest.iter_mut().zip(&self.whitened[0]).for_each(|(rest, z)| *rest = z - *rest);
        factor.solve_transposed(&rest)
    }

    /// The variance of the nugget.
    pub(crate) fn nugget(&self) -> f64 {
        self.variance * self.model.tuned.nugget()
    }

    /// The distribution of the value at a point.
    pub(crate) fn at(&self, x: &Input) -> Marginal {
        let row = self.model.tuned.row(&self.model.inputs, x);
        let v = self.model.factor.solve(&row.k);
        let means = self.whitened.iter().map(|z| self.mean + dot(&v, z)).collect();
        let variance = self.variance * (1.0 - dot(&v, &v)).max(1e-12);
        Marginal { row, v, means, variance }
    }

    /// The derivative of `Σ_s by_mean[s] means[s] + by_variance variance` by the numbers of the point.
    pub(crate) fn gradient(&self, x: &Input, at: &Marginal, by_mean: &[f64], by_variance: f64) -> Vec<f64> {
        let mut b = vec![0.0; at.v.len()];
        self.whitened.iter().zip(by_mean).for_each(|(z, weight)| axpy(*weight, z, &mut b));
        axpy(-2.0 * by_variance * self.variance, &at.v, &mut b);
        let b = self.model.factor.solve_transposed(&b);
        self.model.tuned.numbers_gradient(&self.model.inputs, x, &at.row, &b)
    }

    /// The values at the pending points, for each draw.
    pub(crate) fn pending_values(&self) -> Vec<Vec<f64>> {
        let factor = &self.model.factor;
        let values = |z: &Vec<f64>| -> Vec<f64> {
            (self.known..self.model.len()).map(|i| self.mean + dot(factor.row(i), &z[..=i])).collect()
        };
        self.whitened.iter().map(values).collect()
    }

    /// Mean (of the first draw) at each known point.
    pub(crate) fn fitted(&self, targets: &[f64], noise: &[f64]) -> Vec<f64> {
        // K α = (K + N) α − N α, and (K + N) α = y − mean.
        let alpha = self.model.factor.solve_transposed(&self.whitened[0]);
        let nugget = self.model.tuned.nugget();
        let points = targets.iter().zip(noise).zip(&alpha);
        points.map(|((target, noise), alpha)| target - (nugget + noise) * alpha).collect()
    }

    /// A joint draw of the values at `points` (the nugget left out): `O(m³ + m² n + m n²)`.
    ///
    /// Rows that rounding makes dependent repeat what they depend on.
    pub(crate) fn sample(&self, points: &[Input], rng: &mut Rng) -> Vec<f64> {
        let tuned = &self.model.tuned;
        let mut inputs = Inputs::default();
        let mut factor = Triangle::default();
        let (mut whitened, mut draws, mut values) = (Vec::<Vec<f64>>::new(), Vec::new(), Vec::new());
        for x in points {
            let at = self.at(x);
            let prior = tuned.row(&inputs, x).k;
            let mut entries: Vec<f64> = whitened.iter().zip(&prior).map(|(v, k)| k - dot(v, &at.v)).collect();
            entries.push(at.variance / self.variance + 1e-9);
            let n = entries.len() - 1;
            while !factor.push(&entries) {
                entries[n] = 2.0 * entries[n] + 1e-9;
            }
            draws.push(rng.normal());
            values.push(at.means[0] + self.variance.sqrt() * dot(factor.row(n), &draws));
            inputs.push(x);
            whitened.push(at.v);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Seed;
    use crate::gp::Kernel;
    use crate::gp::kernel::tests::{inputs, mixed};
    use crate::layout::Layout;

    /// A model of `n` random points of a mixed problem, targets, and further points.
    fn model(n: usize) -> (Model, Vec<f64>, Vec<Input>) {
        let problem = mixed();
        let kernel = Arc::new(Kernel::new(&problem, &Layout::new(problem.space())));
        let theta: Vec<f64> = kernel.priors().iter().map(|prior| prior.0).collect();
        let mut model = Model::new(kernel.tuned(&theta));
        let mut list = inputs(&problem, &kernel, n + 8, 4);
        let rest = list.split_off(n);
        for input in &list {
            model.push(input, 0.0);
        }
        let mut rng = Seed::new(8).rng(0);
        (model, (0..n).map(|_| rng.normal()).collect(), rest)
    }

    #[test]
    fn without_a_nugget_known_points_are_met_and_far_ones_are_not_known() {
        let kernel = Arc::new(Kernel::vectors(1, false));
        let mut model = Model::new(kernel.tuned(&[0.1_f64.ln(), 1e-9_f64.ln()]));
        let points = [0.1, 0.3, 0.35, 0.6];
        for x in points {
            model.push(&kernel.vector(&[x]), 0.0);
        }
        let posterior = model.condition(&[1.0, -1.0, 0.0, 2.0], &[]);
        for (x, want) in points.iter().zip([1.0, -1.0, 0.0, 2.0]) {
            let at = posterior.at(&kernel.vector(&[*x]));
            assert!((at.means[0] - want).abs() < 1e-5 && at.variance < 1e-6, "{x}: {at:?}");
        }
        let far = posterior.at(&kernel.vector(&[100.0]));
        assert!((far.variance / posterior.process_variance() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_point_told_twice_is_survived() {
        let kernel = Arc::new(Kernel::vectors(2, true));
        let mut model = Model::new(kernel.tuned(&[0.0, -80.0]));
        (0..5).for_each(|_| model.push(&kernel.vector(&[0.5, 0.5]), 0.0));
        let at = model.condition(&[1.0; 5], &[]).at(&kernel.vector(&[0.5, 0.5]));
        assert!((at.means[0] - 1.0).abs() < 1e-6, "{at:?}");
    }

    #[test]
    fn gradients_are_those_of_differences_with_pending_points() {
        let (mut model, targets, rest) = model(20);
        rest[1..4].iter().for_each(|input| model.push(input, 0.0));
        let draws = vec![vec![0.3, -1.0, 0.5], vec![-0.2, 0.1, 1.5]];
        let posterior = model.condition(&targets, &draws);
        let value = |x: &Input| {
            let at = posterior.at(x);
            0.7 * at.means[0] - 0.4 * at.means[1] + 2.0 * at.variance
        };
        let gradient = posterior.gradient(&rest[0], &posterior.at(&rest[0]), &[0.7, -0.4], 2.0);
        for (j, got) in gradient.iter().enumerate() {
            let moved = |step: f64| {
                let mut x = rest[0].clone();
                x.numbers[j] += step;
                value(&x)
            };
            let want = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            // Central differences: the error is about 1e-10 times a third derivative.
            assert!((got - want).abs() < 1e-6 * (1.0 + want.abs()), "{j}: {got} against {want}");
        }
    }

    #[test]
    fn fitted_values_are_the_means_at_known_points() {
        let (model, targets, _) = model(15);
        let known: Vec<Input> = (0..15).map(|i| model.inputs().get(i)).collect();
        let posterior = model.condition(&targets, &[]);
        let fitted = posterior.fitted(&targets, &[0.0; 15]);
        for (x, fitted) in known.iter().zip(fitted) {
            let want = posterior.at(x).means[0];
            assert!((fitted - want).abs() < 1e-9);
        }
    }

    #[test]
    fn pending_values_have_the_joint_distribution() {
        // Conditioning on draws of two pending values, and drawing both jointly, agree in moments:
        // 4,000 draws put each mean within 5 standard errors.
        let (model, targets, rest) = model(10);
        let alone = model.clone().condition(&targets, &[]);
        let mut rng = Seed::new(2).rng(0);
        let n = 4000;
        let draws: Vec<Vec<f64>> = (0..n).map(|_| vec![rng.normal(), rng.normal()]).collect();
        let mut pending = model;
        rest[..2].iter().for_each(|input| pending.push(input, 0.0));
        let given = pending.condition(&targets, &draws);
        let at = given.at(&rest[0]);
        let before = alone.at(&rest[0]);
        let mean = at.means.iter().sum::<f64>() / f64::from(n);
        let error = (before.variance / f64::from(n)).sqrt();
        assert!((mean - before.means[0]).abs() < 5.0 * error, "{mean} {before:?}");
        let joint: Vec<Vec<f64>> = (0..n).map(|_| alone.sample(&rest[..2], &mut rng)).collect();
        let covariance = joint
            .iter()
            .map(|values| (values[0] - before.means[0]) * (values[1] - alone.at(&rest[1]).means[0]))
            .sum::<f64>()
            / f64::from(n);
        let cross = alone.model.tuned.row(
            &{
                let mut one = Inputs::default();
                one.push(&rest[0]);
                one
            },
            &rest[1],
        );
        let want = alone.variance * (cross.k[0] - dot(&before.v, &alone.at(&rest[1]).v));
        let spread = (before.variance * alone.at(&rest[1]).variance / f64::from(n)).sqrt();
        assert!((covariance - want).abs() < 8.0 * spread, "{covariance} against {want}");
    }
}

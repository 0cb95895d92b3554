//! What an evaluation of a point is worth.

use super::{Input, Posterior};
use crate::linalg::axpy;
use crate::normal::{ln_cdf, ln_cdf_slope, ln_improvement};

/// The logarithm of the expected improvement over the best known loss, times the probability that every
/// limit is kept.
///
/// With points pending it is what the point adds to the joint expected improvement of all of them,
/// `E max(0, min(best, f(pending)) − f(x))`, with the expectation over the values of the pending
/// points by Monte Carlo (their draws are fixed in the posterior) and that over `f(x)` in closed form.
/// Points chosen one after the other are so chosen jointly (greedily).
///
/// # Source
/// Ament et al., `NeurIPS` 2023 (the logarithm); Snoek, Larochelle, Adams, *Practical Bayesian
/// Optimization of Machine Learning Algorithms*, `NeurIPS` 2012, §3.2 (pending points); Gardner et al.,
/// *Bayesian Optimization with Inequality Constraints*, ICML 2014 (limits).
#[derive(Debug)]
pub(crate) struct Acquisition<'a> {
    /// The posterior of the loss, with the best loss for each draw of its pending points; none while
    /// no point keeps every limit.
    pub(crate) objective: Option<(&'a Posterior, Vec<f64>)>,
    /// Whether the nugget is part of what is found, as it is where evaluations repeat exactly.
    pub(crate) with_nugget: bool,
    /// Posteriors of values that must not exceed 0.
    pub(crate) limits: Vec<&'a Posterior>,
}

impl<'a> Acquisition<'a> {
    /// Improvement over `best`, or over a pending value that is better.
    pub(crate) fn improvement(posterior: &'a Posterior, best: f64, with_nugget: bool) -> Self {
        let pending = posterior.pending_values();
        let best = pending.iter().map(|values| values.iter().copied().fold(best, f64::min)).collect();
        Self { objective: Some((posterior, best)), with_nugget, limits: Vec::new() }
    }

    /// The value at a point.
    pub(crate) fn value(&self, x: &Input) -> f64 {
        self.evaluate(x, None)
    }

    /// The value at a point; fills the gradient by its numbers.
    pub(crate) fn value_and_gradient(&self, x: &Input, gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        self.evaluate(x, Some(gradient))
    }

    fn evaluate(&self, x: &Input, mut gradient: Option<&mut [f64]>) -> f64 {
        let mut value = 0.0;
        if let Some((posterior, best)) = &self.objective {
            let at = posterior.at(x);
            let nugget = if self.with_nugget { posterior.nugget() } else { 0.0 };
            let sd = (at.variance + nugget).sqrt();
            let terms: Vec<(f64, f64, f64)> = best
                .iter()
                .zip(&at.means)
                .map(|(best, mean)| {
                    let u = (best - mean) / sd;
                    let (ln, slope) = ln_improvement(u);
                    (ln, slope, u)
                })
                .collect();
            let most = terms.iter().map(|term| term.0).fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = terms.iter().map(|term| (term.0 - most).exp()).sum();
            value += sd.ln() + most + (total / terms.len() as f64).ln();
            if let Some(gradient) = gradient.as_deref_mut() {
                let shares: Vec<f64> = terms.iter().map(|term| (term.0 - most).exp() / total).collect();
                let by_mean: Vec<f64> =
                    terms.iter().zip(&shares).map(|((_, slope, _), share)| -share * slope / sd).collect();
                let by_sd = 1.0
                    - terms.iter().zip(&shares).map(|((_, slope, u), share)| share * slope * u).sum::<f64>();
                let by_variance = 0.5 * by_sd / (sd * sd);
                axpy(1.0, &posterior.gradient(x, &at, &by_mean, by_variance), gradient);
            }
        }
        for posterior in &self.limits {
            let at = posterior.at(x);
            let variance = at.variance + posterior.nugget();
            let sd = variance.sqrt();
            let u = -at.means[0] / sd;
            value += ln_cdf(u);
            if let Some(gradient) = gradient.as_deref_mut() {
                let slope = ln_cdf_slope(u);
                let by_mean = [-slope / sd];
                axpy(1.0, &posterior.gradient(x, &at, &by_mean, -0.5 * slope * u / variance), gradient);
            }
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Seed;
    use crate::gp::{Kernel, Model};

    fn model(n: usize, seed: u64) -> (Model, Vec<f64>) {
        let kernel = Arc::new(Kernel::vectors(3, false));
        let mut model = Model::new(kernel.tuned(&[-0.7, 0.0, 0.3, 0.01_f64.ln()]));
        let mut rng = Seed::new(seed).rng(0);
        let targets = (0..n).map(|_| rng.normal()).collect();
        for _ in 0..n {
            model.push(&kernel.vector(&[rng.unit(), rng.unit(), rng.unit()]), 0.0);
        }
        (model, targets)
    }

    #[test]
    fn gradients_are_those_of_differences() {
        let (model, targets) = model(12, 1);
        let kernel = model.tuned().kernel().clone();
        let draws = vec![vec![0.4], vec![-1.0], vec![2.0]];
        let objective = model.clone().condition(&targets[..11], &draws);
        let limit = model.condition(&targets, &[]);
        let mut acquisition = Acquisition::improvement(&objective, -0.5, true);
        acquisition.limits.push(&limit);
        let mut rng = Seed::new(2).rng(0);
        for _ in 0..20 {
            let x: Vec<f64> = (0..3).map(|_| rng.unit()).collect();
            let mut gradient = vec![0.0; 3];
            let value = acquisition.value_and_gradient(&kernel.vector(&x), &mut gradient);
            assert!((value - acquisition.value(&kernel.vector(&x))).abs() < 1e-12);
            for j in 0..3 {
                let moved = |step: f64| {
                    let mut x = x.clone();
                    x[j] += step;
                    acquisition.value(&kernel.vector(&x))
                };
                let want = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                // Central differences: the error is about 1e-10 times a third derivative.
                assert!((gradient[j] - want).abs() < 1e-5 * (1.0 + want.abs()), "{gradient:?} {want}");
            }
        }
    }

    #[test]
    fn the_joint_improvement_is_that_of_many_joint_draws() {
        // E max(0, min(best, f(p)) − f(x)) by 20,000 joint draws of f(p) and f(x): a relative error
        // near 0.02 at one standard error; the acquisition has 2,000 draws of f(p), near 0.02 too.
        let (model, targets) = model(10, 3);
        let kernel = model.tuned().kernel().clone();
        let (p, x) = (kernel.vector(&[0.4, 0.5, 0.6]), kernel.vector(&[0.5, 0.45, 0.6]));
        let mut rng = Seed::new(4).rng(0);
        let alone = model.clone().condition(&targets, &[]);
        let best = alone.at(&x).means[0];
        let n = 20_000;
        let mean = (0..n)
            .map(|_| {
                let draw = alone.sample(&[p.clone(), x.clone()], &mut rng);
                (best.min(draw[0]) - draw[1]).max(0.0)
            })
            .sum::<f64>()
            / f64::from(n);
        let mut pending = model;
        pending.push(&p, 0.0);
        let draws: Vec<Vec<f64>> = (0..2000).map(|_| vec![rng.normal()]).collect();
        let posterior = pending.condition(&targets, &draws);
        // A hundredth of the variance of the pending value is its nugget.
        let value = Acquisition::improvement(&posterior, best, false).value(&x).exp();
        assert!((value / mean - 1.0).abs() < 0.15, "{value} against {mean}");
        let single = Acquisition::improvement(&alone, best, false).value(&x).exp();
        assert!(value < 0.8 * single, "a pending neighbour takes from it: {value} of {single}");
    }
}

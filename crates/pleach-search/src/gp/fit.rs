//! Hyper-parameters from data.

use std::sync::Arc;

use super::kernel::Row;
use super::targets::Losses;
use super::{Input, Inputs, Kernel, Tuned, minimise};
use crate::linalg::{Triangle, axpy, dot};

/// How far a hyper-parameter may be from the mean of its prior, in standard deviations.
const REACH: f64 = 4.0;
/// The smallest logarithm of the nugget.
const LEAST_NUGGET: f64 = -23.0;
/// The prior standard deviation of a warp, and its largest size.
const WARP_SPREAD: f64 = 2.0;
const WARPS: f64 = 7.0;
/// Jitters that are tried where a covariance is not positive definite.
const JITTERS: [f64; 4] = [0.0, 1e-8, 1e-5, 1e-2];
/// The variance of the targets counts as known from this many targets of variance 1 more than there are.
pub(super) const PRIOR_TARGETS: f64 = 1.0;

/// The hyper-parameters of largest posterior density given targets of variance about 1, whose noise
/// variances are `noise` (in units of the variance of the process).
///
/// The mean (generalised least squares) and the variance of the process are profiled out. The
/// search starts from `start` and takes at most `evaluations` of the density, each of which takes
/// `O(n³ + n² d)`. It never fails: the worst it returns is `start`.
pub(crate) fn fit(
    kernel: &Arc<Kernel>,
    inputs: &Inputs,
    noise: &[f64],
    targets: &[f64],
    start: &[f64],
    evaluations: usize,
) -> Vec<f64> {
    let (lower, upper) = bounds(kernel);
    let objective = Objective::new(kernel, inputs, noise);
    let value = |theta: &[f64], gradient: &mut [f64]| objective.value(theta, targets, gradient).0;
    minimise(start, &lower, &upper, evaluations, value).0
}

/// As [`fit`], together with the logarithm by which the losses are told (see [`Losses::warped`]): the one
/// under which they are most probable. `warp` is where it starts.
pub(crate) fn fit_warped(
    kernel: &Arc<Kernel>,
    inputs: &Inputs,
    losses: &Losses,
    start: &[f64],
    warp: f64,
    evaluations: usize,
) -> (Vec<f64>, f64) {
    let n = losses.len();
    let (mut lower, mut upper) = bounds(kernel);
    lower.push(-WARPS);
    upper.push(WARPS);
    let noise = vec![0.0; n];
    let objective = Objective::new(kernel, inputs, &noise);
    let last = start.len();
    let start: Vec<f64> = start.iter().copied().chain([warp]).collect();
    let value = |point: &[f64], gradient: &mut [f64]| {
        let warped = losses.warped(point[last]);
        let (value, by_target) = objective.value(&point[..last], &warped.values, &mut gradient[..last]);
        let z = point[last] / WARP_SPREAD;
        gradient[last] = dot(&by_target, &warped.slopes) + warped.cost_slope + z / WARP_SPREAD;
        value + warped.cost + 0.5 * z * z
    };
    let mut found = minimise(&start, &lower, &upper, evaluations, value).0;
    let warp = found.pop().expect("it was pushed above");
    (found, warp)
}

fn bounds(kernel: &Kernel) -> (Vec<f64>, Vec<f64>) {
    let (mut lower, mut upper): (Vec<f64>, Vec<f64>) =
        kernel.priors().iter().map(|(mean, sd)| (mean - REACH * sd, mean + REACH * sd)).unzip();
    let last = lower.len() - 1;
    lower[last] = lower[last].max(LEAST_NUGGET);
    upper[last] = upper[last].min(1.0);
    (lower, upper)
}

/// The negative logarithm of the posterior density of hyper-parameters.
pub(super) struct Objective<'a> {
    kernel: &'a Arc<Kernel>,
    inputs: &'a Inputs,
    noise: &'a [f64],
    /// The inputs, one by one.
    points: Vec<Input>,
    /// For each input and descriptor, the distances to the inputs before.
    distances: Vec<Vec<Vec<f64>>>,
}

impl<'a> Objective<'a> {
    pub(super) fn new(kernel: &'a Arc<Kernel>, inputs: &'a Inputs, noise: &'a [f64]) -> Self {
        let tuned = kernel.tuned(&kernel.priors().iter().map(|prior| prior.0).collect::<Vec<_>>());
        let points: Vec<Input> = (0..inputs.len()).map(|i| inputs.get(i)).collect();
        let distances = points.iter().enumerate().map(|(i, x)| tuned.distances(inputs, i, x)).collect();
        Self { kernel, inputs, noise, points, distances }
    }

    /// The value and its derivatives by the targets; fills those by the hyper-parameters. Infinite where
    /// the covariance is not positive definite.
    ///
    /// # Source
    /// Rasmussen, Williams 2006, Eq. 5.8 and 5.9, with the variance profiled out (Eq. 5.8 at its
    /// maximum in the variance, whose inverse-gamma prior has [`PRIOR_TARGETS`] degrees of freedom).
    pub(super) fn value(&self, theta: &[f64], targets: &[f64], gradient: &mut [f64]) -> (f64, Vec<f64>) {
        let n = self.inputs.len();
        gradient.fill(0.0);
        let tuned = self.kernel.tuned(theta);
        let rows: Vec<_> =
            (0..n).map(|i| tuned.row_of_first(self.inputs, i, &self.points[i], &self.distances[i])).collect();
        let Some(factor) = self.factor(&tuned, &rows) else { return (f64::INFINITY, vec![0.0; n]) };
        let ones = factor.solve(&vec![1.0; n]);
        let mut z = factor.solve(targets);
        let mean = dot(&ones, &z) / dot(&ones, &ones);
        axpy(-mean, &ones, &mut z);
        let quadratic = dot(&z, &z) + PRIOR_TARGETS;
        let count = n as f64 + PRIOR_TARGETS;
        let mut value = 0.5 * count * quadratic.ln() + factor.ln_diagonal();
        let mut alpha = factor.solve_transposed(&z);
        let columns = inverse_columns(&factor);
        // dk enters with K⁻¹ − α αᵀ · count / quadratic, each pair twice and halved.
        let scale = count / quadratic;
        let mut trace = 0.0;
        let mut weights = Vec::with_capacity(n);
        for i in 0..n {
            weights.clear();
            for j in 0..=i {
                let inverse = dot(&columns[i], &columns[j][i - j..]);
                weights.push(inverse - scale * alpha[i] * alpha[j]);
            }
            trace += 0.5 * weights[i];
            tuned.add_gradient(
                self.inputs,
                &self.points[i],
                &rows[i],
                &self.distances[i],
                &weights,
                gradient,
            );
        }
        gradient[theta.len() - 1] += trace * tuned.nugget();
        for ((theta, (mean, sd)), gradient) in theta.iter().zip(self.kernel.priors()).zip(gradient) {
            let z = (theta - mean) / sd;
            value += 0.5 * z * z;
            *gradient += z / sd;
        }
        for alpha in &mut alpha {
            *alpha *= scale;
        }
        (value, alpha)
    }

    fn factor(&self, tuned: &Tuned, rows: &[Row]) -> Option<Triangle> {
        JITTERS.iter().find_map(|jitter| {
            let mut factor = Triangle::default();
            let mut entries = Vec::with_capacity(rows.len());
            for (row, noise) in rows.iter().zip(self.noise) {
                entries.clear();
                entries.extend_from_slice(&row.k);
                entries.push(1.0 + tuned.nugget() + noise + jitter);
                factor.push(&entries).then_some(())?;
            }
            Some(factor)
        })
    }
}

/// The columns of `L⁻¹`, each from its diagonal entry on.
fn inverse_columns(factor: &Triangle) -> Vec<Vec<f64>> {
    let n = factor.len();
    (0..n)
        .map(|j| {
            let mut column = Vec::with_capacity(n - j);
            for i in j..n {
                let row = factor.row(i);
                let unit = if i == j { 1.0 } else { 0.0 };
                let entry = (unit - dot(&row[j..i], &column)) / row[i];
                column.push(entry);
            }
            column
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use crate::gp::Model;
    use crate::gp::kernel::tests::{inputs, mixed};
    use crate::layout::Layout;

    #[test]
    fn gradients_by_hyper_parameters_are_those_of_differences() {
        let problem = mixed();
        let kernel = Arc::new(Kernel::new(&problem, &Layout::new(problem.space())));
        let mut packed = Inputs::default();
        for input in inputs(&problem, &kernel, 25, 7) {
            packed.push(&input);
        }
        let mut rng = Seed::new(3).rng(0);
        let targets: Vec<f64> = (0..25).map(|_| rng.normal()).collect();
        let noise: Vec<f64> = (0..25).map(|i| 0.01 * f64::from(i)).collect();
        let objective = Objective::new(&kernel, &packed, &noise);
        let theta: Vec<f64> =
            kernel.priors().iter().map(|(mean, sd)| mean + 0.3 * sd * rng.normal()).collect();
        let mut gradient = vec![0.0; theta.len()];
        let (_, by_target) = objective.value(&theta, &targets, &mut gradient);
        for (j, got) in gradient.iter().enumerate() {
            let moved = |step: f64| {
                let mut theta = theta.clone();
                theta[j] += step;
                objective.value(&theta, &targets, &mut vec![0.0; theta.len()]).0
            };
            let want = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            // Central differences of a value near 50 round at 1e-9.
            assert!((got - want).abs() < 1e-6 * (1.0 + want.abs()), "{j}: {got} against {want}");
        }
        for j in [0, 7, 24] {
            let moved = |step: f64| {
                let mut targets = targets.clone();
                targets[j] += step;
                objective.value(&theta, &targets, &mut vec![0.0; theta.len()]).0
            };
            let want = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((by_target[j] - want).abs() < 1e-6 * (1.0 + want.abs()), "target {j}: {want}");
        }
    }

    #[test]
    fn the_logarithm_that_makes_a_process_of_losses_is_found() {
        // Exponentials of a smooth function want a logarithm, and the function itself none.
        let kernel = Arc::new(Kernel::vectors(1, false));
        let start: Vec<f64> = kernel.priors().iter().map(|prior| prior.0).collect();
        let mut packed = Inputs::default();
        let mut wave = Vec::new();
        for i in 0..40 {
            let x = (f64::from(i) + 0.5) / 40.0;
            packed.push(&kernel.vector(&[x]));
            wave.push((9.0 * x).sin());
        }
        let warp = |values: Vec<f64>| {
            let losses = Losses::new(&values);
            fit_warped(&kernel, &packed, &losses, &start, 0.0, 60).1
        };
        let bent = warp(wave.iter().map(|y| (4.0 * y).exp()).collect());
        let plain = warp(wave);
        assert!(plain > 2.0 && bent < plain - 2.0, "{plain} and {bent}");
    }

    #[test]
    fn length_scales_are_found_again() {
        // A draw of a process at 150 points: the first number matters, the second does not.
        let kernel = Arc::new(Kernel::vectors(2, false));
        let mut rng = Seed::new(5).rng(0);
        let mut packed = Inputs::default();
        let mut targets = Vec::new();
        for _ in 0..150 {
            let x = [rng.unit(), rng.unit()];
            packed.push(&kernel.vector(&x));
            targets.push((9.0 * x[0]).sin() + 0.1 * rng.normal());
        }
        let start: Vec<f64> = kernel.priors().iter().map(|prior| prior.0).collect();
        let theta = fit(&kernel, &packed, &vec![0.0; 150], &targets, &start, 60);
        assert!(theta[1] > theta[0] + 0.7, "lengths {theta:?}");
        let mut model = Model::new(kernel.tuned(&theta));
        (0..150).for_each(|i| model.push(&packed.get(i), 0.0));
        let nugget = model.condition(&targets, &[]).nugget();
        // Of 150 points, the noise is known to 12 %; this is within a factor of 2.
        assert!((0.005..0.02).contains(&nugget), "the variance of the noise is 0.01, not {nugget}");
        // A constant target and repeated points change nothing that fails.
        let (flat, same) = (vec![0.0; 150], vec![0.5; 150]);
        for targets in [flat, same] {
            let theta = fit(&kernel, &packed, &vec![0.0; 150], &targets, &start, 20);
            assert!(theta.iter().all(|t| t.is_finite()), "{theta:?}");
        }
    }
}

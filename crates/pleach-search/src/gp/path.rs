//! Draws of the whole function from a posterior.

use super::{Input, Posterior};
use crate::Rng;
use crate::linalg::{axpy, dot};

/// Waves of a draw from the prior: its covariance is met with an error near `1 / √512`.
const WAVES: usize = 256;

/// A draw of the function from a [`Posterior`], to be read at any number of points in `O(n d)` each.
///
/// A draw from the prior is a sum of random waves; what it lacks at the known points, noise included,
/// is added by the kernel.
///
/// # Source
/// Wilson et al., *Efficiently Sampling Functions from Gaussian Process Posteriors*, ICML 2020, Eq. 13.
/// The waves: Rahimi, Recht, *Random Features for Large-Scale Kernel Machines*, NIPS 2007; frequencies
/// of the Matérn-5/2 kernel have a t distribution with 5 degrees of freedom.
/// For options, a wave has a random sign for each option of some of the parameters.
#[derive(Debug)]
pub(crate) struct Path<'a> {
    posterior: &'a Posterior,
    /// For each wave, one a number.
    frequencies: Vec<f64>,
    phases: Vec<f64>,
    amplitudes: Vec<f64>,
    /// For each wave, the parameters whose options turn its sign, with the seed of the signs.
    signs: Vec<Vec<(usize, u64)>>,
    /// What a covariance with each known point adds.
    corrections: Vec<f64>,
}

impl<'a> Path<'a> {
    /// A draw; `None` for kernels over permutations or descriptors, of which waves are not known.
    pub(crate) fn draw(posterior: &'a Posterior, rng: &mut Rng) -> Option<Self> {
        let model = posterior.model();
        let (tuned, inputs) = (model.tuned(), model.inputs());
        if !tuned.kernel().has_waves() {
            return None;
        }
        let mut path = Self {
            posterior,
            frequencies: Vec::new(),
            phases: Vec::new(),
            amplitudes: Vec::new(),
            signs: Vec::new(),
            corrections: Vec::new(),
        };
        let sd = posterior.process_variance().sqrt();
        for _ in 0..WAVES {
            let chi_squared = (0..5).map(|_| rng.normal().powi(2)).sum::<f64>();
            let scale = (5.0 / chi_squared).sqrt();
            path.frequencies.extend(tuned.sensitivities().map(|rate| rate * scale * rng.normal()));
            path.phases.push(std::f64::consts::TAU * rng.unit());
            path.amplitudes.push(sd * (2.0 / WAVES as f64).sqrt() * rng.normal());
            let turned = tuned.option_rates().iter().map(|rate| rng.unit() > (-rate).exp());
            let turned: Vec<usize> =
                turned.enumerate().filter(|(_, turned)| *turned).map(|(index, _)| index).collect();
            path.signs.push(turned.into_iter().map(|index| (index, rng.bits())).collect());
        }
        let noise = posterior.nugget().sqrt();
        let drawn: Vec<f64> =
            (0..model.len()).map(|i| path.prior(&inputs.get(i)) + noise * rng.normal()).collect();
        path.corrections = posterior.corrections(&drawn);
        Some(path)
    }

    /// The value at a point.
    pub(crate) fn value(&self, x: &Input) -> f64 {
        let model = self.posterior.model();
        let row = model.tuned().row(model.inputs(), x);
        self.posterior.mean() + self.prior(x) + dot(&row.k, &self.corrections)
    }

    /// The value at a point, and its derivatives by the numbers.
    pub(crate) fn slope(&self, x: &Input) -> (f64, Vec<f64>) {
        let model = self.posterior.model();
        let row = model.tuned().row(model.inputs(), x);
        let mut value = self.posterior.mean() + dot(&row.k, &self.corrections);
        let mut slope = model.tuned().numbers_gradient(model.inputs(), x, &row, &self.corrections);
        for (frequencies, amplitude, angle) in self.waves(x) {
            let (sin, cos) = angle.sin_cos();
            value += amplitude * cos;
            axpy(-amplitude * sin, frequencies, &mut slope);
        }
        (value, slope)
    }

    /// The draw from the prior, less its mean.
    fn prior(&self, x: &Input) -> f64 {
        self.waves(x).map(|(_, amplitude, angle)| amplitude * angle.cos()).sum()
    }

    /// The frequencies of each wave, and its amplitude and angle at a point.
    fn waves<'b>(&'b self, x: &'b Input) -> impl Iterator<Item = (&'b [f64], f64, f64)> {
        let d = x.numbers.len();
        self.phases.iter().enumerate().map(move |(wave, phase)| {
            let frequencies = &self.frequencies[wave * d..(wave + 1) * d];
            let is_turned = self.signs[wave]
                .iter()
                .fold(false, |turned, &(index, seed)| turned ^ (sign(seed, x.options[index]) == 1));
            let amplitude = if is_turned { -self.amplitudes[wave] } else { self.amplitudes[wave] };
            (frequencies, amplitude, dot(frequencies, &x.numbers) + phase)
        })
    }
}

/// A random bit for each option (the finaliser of `SplitMix64`: Steele, Lea, Flood 2014).
fn sign(seed: u64, option: u32) -> u64 {
    let mut z = seed.wrapping_add(u64::from(option).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) >> 63
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gp::{Kernel, Model};
    use crate::layout::Layout;
    use crate::{Goal, Metric, Parameter, Problem, Seed, Space};

    /// A posterior of two numbers and an option, given eight points, with more points beside.
    fn example() -> (Posterior, Vec<Input>) {
        let parameters = vec![
            Parameter::float("x", 0.0, 1.0),
            Parameter::float("y", 0.0, 1.0),
            Parameter::choice("kind", ["a", "b", "c"]),
        ];
        let space = Space::new(parameters, &[]).unwrap();
        let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
        let layout = Layout::new(problem.space());
        let kernel = Arc::new(Kernel::new(&problem, &layout));
        let mut rng = Seed::new(6).rng(0);
        let mut input = || {
            let point = problem.space().sample(&mut rng, &[]).unwrap();
            kernel.input(&layout.code(&point), &point)
        };
        let mut model = Model::new(kernel.tuned(&[-1.0, 0.0, 0.5, -3.0]));
        (0..8).for_each(|_| model.push(&input(), 0.0));
        let points: Vec<Input> = (0..6).map(|_| input()).collect();
        let targets: Vec<f64> = (0..8).map(|i| f64::from(i % 3) - 1.0).collect();
        (model.condition(&targets, &[]), points)
    }

    #[test]
    fn slopes_of_paths_are_those_of_differences() {
        let (posterior, points) = example();
        let path = Path::draw(&posterior, &mut Seed::new(8).rng(0)).unwrap();
        for x in &points {
            let (value, slope) = path.slope(x);
            assert!((value - path.value(x)).abs() < 1e-12);
            for (j, got) in slope.iter().enumerate() {
                let moved = |step: f64| {
                    let mut x = x.clone();
                    x.numbers[j] += step;
                    path.value(&x)
                };
                let want = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                // Central differences of a value near 1 round at 1e-11, and a Matérn-5/2 bends little in 1e-5.
                assert!((got - want).abs() < 1e-6 * (1.0 + want.abs()), "{got} against {want}");
            }
        }
    }

    #[test]
    fn paths_have_the_moments_of_the_posterior() {
        let (posterior, points) = example();
        let n = 3000;
        let mut rng = Seed::new(7).rng(0);
        let values: Vec<Vec<f64>> = (0..n)
            .map(|_| {
                let path = Path::draw(&posterior, &mut rng).unwrap();
                points.iter().map(|x| path.value(x)).collect()
            })
            .collect();
        for (i, x) in points.iter().enumerate() {
            let at = posterior.at(x);
            let mean = values.iter().map(|values| values[i]).sum::<f64>() / f64::from(n);
            let variance = values.iter().map(|values| (values[i] - mean).powi(2)).sum::<f64>() / f64::from(n);
            let error = (at.variance / f64::from(n)).sqrt();
            // Five standard errors, of the mean and of the variance.
            assert!((mean - at.means[0]).abs() < 5.0 * error, "{mean} against {at:?}");
            assert!((variance / at.variance - 1.0).abs() < 5.0 * (2.0 / f64::from(n)).sqrt(), "{variance}");
        }
    }
}

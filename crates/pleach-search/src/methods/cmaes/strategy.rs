//! The distribution of CMA-ES and its update, free of boxes, spaces and trials.

use crate::linalg::{Triangle, axpy, dot};
use crate::methods::bytes::{Reader, Writer};
use crate::{Error, Rng};

/// What follows from the dimension and the population size alone (Hansen 2016, Table 1).
///
/// Symbols: `μ` is `parents`, `μ_eff` `mass`, `c_σ` `path_rate`, `d_σ` `damping`, `c_c`
/// `axis_path_rate`, `c_1` `rank_one`, `c_μ` `rank_mu`, `χ_n` `expected_length`.
#[derive(Clone, Debug)]
struct Rates {
    weights: Vec<f64>,
    parents: usize,
    mass: f64,
    path_rate: f64,
    damping: f64,
    axis_path_rate: f64,
    rank_one: f64,
    rank_mu: f64,
    expected_length: f64,
}

impl Rates {
    fn new(dim: usize, population: usize, active: bool) -> Self {
        let n = dim as f64;
        let half = f64::midpoint(population as f64, 1.0).ln();
        let raw: Vec<f64> = (1..=population).map(|i| half - (i as f64).ln()).collect();
        let parents = raw.iter().filter(|&&w| w > 0.0).count();
        let mass_of = |weights: &[f64]| {
            let squares: f64 = weights.iter().map(|w| w * w).sum();
            if squares > 0.0 { weights.iter().sum::<f64>().powi(2) / squares } else { 0.0 }
        };
        let (good, bad) = raw.split_at(parents);
        let (mass, bad_mass) = (mass_of(good), mass_of(bad));
        let path_rate = (mass + 2.0) / (n + mass + 5.0);
        let rank_one = 2.0 / ((n + 1.3).powi(2) + mass);
        let rank_mu =
            (2.0 * (0.25 + mass + 1.0 / mass - 2.0) / ((n + 2.0).powi(2) + mass)).min(1.0 - rank_one);
        // Eq. 50 to 53: the negative weights sum up to no more than keeps C positive definite.
        let negative = (1.0 + rank_one / rank_mu)
            .min(1.0 + 2.0 * bad_mass / (mass + 2.0))
            .min((1.0 - rank_one - rank_mu) / (n * rank_mu));
        let (good_sum, bad_sum) = (good.iter().sum::<f64>(), bad.iter().sum::<f64>().abs());
        let scale_bad = if active && bad_sum > 0.0 { negative / bad_sum } else { 0.0 };
        Self {
            weights: raw.iter().map(|&w| if w > 0.0 { w / good_sum } else { w * scale_bad }).collect(),
            parents,
            mass,
            path_rate,
            damping: 1.0 + 2.0 * (((mass - 1.0) / (n + 1.0)).sqrt() - 1.0).max(0.0) + path_rate,
            axis_path_rate: (4.0 + mass / n) / (n + 4.0 + 2.0 * mass / n),
            rank_one,
            rank_mu,
            expected_length: n.sqrt() * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n)),
        }
    }
}

/// One told sample of a generation.
#[derive(Clone, Debug)]
pub(in crate::methods) struct Sample {
    /// Where it is.
    pub(in crate::methods) x: Vec<f64>,
    /// Whether it was drawn from the present distribution; others are clipped.
    pub(in crate::methods) own: bool,
}

/// A normal distribution `N(mean, sigma² D C D)` that learns from ranked samples.
///
/// `D` is a diagonal of factors of at least 1 that keeps the spread of a coordinate above a floor
/// (the margin of discrete coordinates); `C = A Aᵀ` with `A` lower triangular.
///
/// # Source
/// Hansen, *The CMA Evolution Strategy: A Tutorial*, arXiv:1604.00772: Eq. 35 to 53.
/// Deviations: `A⁻¹` of the Cholesky factor takes the place of `C^{-1/2}` in the step-size path, as
/// in Krause, Arbonès, Igel, *CMA-ES with Optimal Covariance Update and Storage Complexity*
/// (2016): exact at every generation and several times cheaper than eigenvectors.
/// Samples that are not drawn from the distribution are clipped as in Hansen, *Injecting External
/// Solutions Into CMA-ES*, arXiv:1110.4181.
#[derive(Clone, Debug)]
pub(in crate::methods) struct Strategy {
    rates: Rates,
    pub(in crate::methods) mean: Vec<f64>,
    pub(in crate::methods) sigma: f64,
    /// `C`, row by row; what is above the diagonal is not kept.
    covariance: Vec<f64>,
    /// `A`.
    factor: Triangle,
    sigma_path: Vec<f64>,
    axis_path: Vec<f64>,
    /// The diagonal of `D`.
    pub(super) stretch: Vec<f64>,
    /// Generations so far.
    pub(in crate::methods) generation: u64,
}

impl Strategy {
    pub(super) fn new(mean: Vec<f64>, sigma: f64, population: usize, active: bool) -> Self {
        let n = mean.len();
        let identity: Vec<f64> = (0..n * n).map(|i| if i % (n + 1) == 0 { 1.0 } else { 0.0 }).collect();
        let factor = Triangle::cholesky(&identity, n).expect("the identity is positive definite");
        Self {
            rates: Rates::new(n, population, active),
            mean,
            sigma,
            covariance: identity,
            factor,
            sigma_path: vec![0.0; n],
            axis_path: vec![0.0; n],
            stretch: vec![1.0; n],
            generation: 0,
        }
    }

    pub(in crate::methods) fn population(&self) -> usize {
        self.rates.weights.len()
    }

    /// A draw, with the step widened by `factor`.
    pub(super) fn draw(&self, widen: f64, rng: &mut Rng) -> Vec<f64> {
        let n = self.mean.len();
        let z: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
        let step = |i: usize| widen * self.sigma * self.stretch[i] * dot(self.factor.row(i), &z[..=i]);
        (0..n).map(|i| self.mean[i] + step(i)).collect()
    }

    /// Standard deviation of a coordinate, without `D`.
    pub(super) fn deviation(&self, coordinate: usize) -> f64 {
        self.sigma * self.covariance[coordinate * (self.mean.len() + 1)].sqrt()
    }

    /// Learns a generation, best first; as many samples as the population has.
    pub(super) fn update(&mut self, samples: &[Sample]) {
        let n = self.mean.len();
        let rates = &self.rates;
        debug_assert_eq!(samples.len(), rates.weights.len());
        self.generation += 1;
        // Longer steps than this are shortened when they are not our own (arXiv:1110.4181, §3).
        let longest = (n as f64).sqrt() + 2.0 * n as f64 / (n as f64 + 2.0);
        let mut steps: Vec<Vec<f64>> = Vec::with_capacity(samples.len());
        let mut squares: Vec<f64> = Vec::with_capacity(samples.len());
        let mut whitened_mean = vec![0.0; n];
        let mut mean_step = vec![0.0; n];
        for (k, sample) in samples.iter().enumerate() {
            let mut y = self.step(&sample.x);
            let mut z = self.factor.solve(&y);
            let length = dot(&z, &z).sqrt();
            if !sample.own && length > longest {
                let scale = longest / length;
                y.iter_mut().chain(&mut z).for_each(|v| *v *= scale);
            }
            if k < rates.parents {
                axpy(rates.weights[k], &z, &mut whitened_mean);
                axpy(rates.weights[k], &y, &mut mean_step);
            }
            squares.push(dot(&z, &z));
            steps.push(y);
        }
        for ((mean, stretch), step) in self.mean.iter_mut().zip(&self.stretch).zip(&mean_step) {
            *mean += self.sigma * stretch * step;
        }

        let keep = 1.0 - rates.path_rate;
        let gain = (rates.path_rate * (2.0 - rates.path_rate) * rates.mass).sqrt();
        for (path, step) in self.sigma_path.iter_mut().zip(&whitened_mean) {
            *path = keep * *path + gain * step;
        }
        let length = dot(&self.sigma_path, &self.sigma_path).sqrt();
        let age = i32::try_from(self.generation).unwrap_or(i32::MAX).saturating_mul(2);
        let settled =
            length / (1.0 - keep.powi(age)).sqrt() < (1.4 + 2.0 / (n as f64 + 1.0)) * rates.expected_length;
        let stall = if settled { 1.0 } else { 0.0 };

        let gain = stall * (rates.axis_path_rate * (2.0 - rates.axis_path_rate) * rates.mass).sqrt();
        for (path, step) in self.axis_path.iter_mut().zip(&mean_step) {
            *path = (1.0 - rates.axis_path_rate) * *path + gain * step;
        }
        let lost = (1.0 - stall) * rates.rank_one * rates.axis_path_rate * (2.0 - rates.axis_path_rate);
        let decay = 1.0 + lost - rates.rank_one - rates.rank_mu * rates.weights.iter().sum::<f64>();
        let mut next: Vec<f64> = self.covariance.iter().map(|c| c * decay).collect();
        add_outer(rates.rank_one, &self.axis_path, &mut next);
        for ((y, &square), &weight) in steps.iter().zip(&squares).zip(&rates.weights) {
            // Eq. 46: a step with a negative weight counts with the length √n.
            let weight = if weight < 0.0 { weight * n as f64 / square.max(1e-12) } else { weight };
            if weight != 0.0 {
                add_outer(rates.rank_mu * weight, y, &mut next);
            }
        }
        // Rounding may leave a matrix without a factor; then this generation does not change it.
        if let Some(factor) = Triangle::cholesky(&next, n) {
            self.covariance = next;
            self.factor = factor;
        }
        let change = rates.path_rate / rates.damping * (length / rates.expected_length - 1.0);
        self.sigma *= change.min(1.0).exp();
    }

    /// Keeps the mean in the unit cube, every deviation below `widest`, and some deviation above what
    /// rounding swallows.
    pub(super) fn confine(&mut self, widest: f64) {
        const NARROWEST: f64 = 1e-12;
        self.mean.iter_mut().for_each(|m| *m = m.clamp(0.0, 1.0));
        let largest = (0..self.mean.len()).map(|i| self.deviation(i)).fold(0.0, f64::max);
        self.sigma *= largest.clamp(NARROWEST, widest) / largest;
    }

    /// Whether no coordinate moves any more but by its margin.
    pub(super) fn has_vanished(&self) -> bool {
        (0..self.mean.len()).all(|i| self.deviation(i) < 1e-11 || self.stretch[i] > 100.0)
    }

    /// Whether the lengths of the axes differ too much for the precision of numbers.
    pub(super) fn is_degenerate(&self) -> bool {
        let diagonal = (0..self.mean.len()).map(|i| self.factor.row(i)[i]);
        let (low, high) = diagonal.fold((f64::INFINITY, 0.0_f64), |(low, high), a| (low.min(a), high.max(a)));
        high > 1e7 * low
    }

    /// Everything that does not follow from the rest.
    pub(super) fn write(&self, out: &mut Writer) {
        out.u64(self.generation);
        out.f64(self.sigma);
        for values in [&self.mean, &self.sigma_path, &self.axis_path] {
            out.floats(values);
        }
        for (i, row) in self.covariance.chunks(self.mean.len()).enumerate() {
            out.floats(&row[..=i]);
        }
    }

    /// The strategy that was written; the stretch is left to the caller.
    pub(super) fn read(
        from: &mut Reader<'_>,
        dim: usize,
        population: usize,
        active: bool,
    ) -> Result<Self, Error> {
        let (generation, sigma) = (from.u64()?, from.f64()?);
        let mut floats = |count| from.floats(count);
        let (mean, sigma_path, axis_path) = (floats(dim)?, floats(dim)?, floats(dim)?);
        let mut covariance = vec![0.0; dim * dim];
        for i in 0..dim {
            covariance[i * dim..=i * dim + i].copy_from_slice(&floats(i + 1)?);
        }
        let factor = Triangle::cholesky(&covariance, dim).ok_or(Error::Snapshot)?;
        let rates = Rates::new(dim, population, active);
        let stretch = vec![1.0; dim];
        Ok(Self { rates, mean, sigma, covariance, factor, sigma_path, axis_path, stretch, generation })
    }

    /// The step from the mean to `x`, in units of the deviations: `(x − mean) / (σ D)`.
    fn step(&self, x: &[f64]) -> Vec<f64> {
        let scaled = x.iter().zip(&self.mean).zip(&self.stretch);
        scaled.map(|((x, mean), stretch)| (x - mean) / (self.sigma * stretch)).collect()
    }

    /// `x` in the coordinates in which draws are standard normal.
    pub(in crate::methods) fn whiten(&self, x: &[f64]) -> Vec<f64> {
        self.factor.solve(&self.step(x))
    }
}

/// Adds `alpha x xᵀ` to the lower triangle.
fn add_outer(alpha: f64, x: &[f64], matrix: &mut [f64]) {
    let n = x.len();
    for i in 0..n {
        axpy(alpha * x[i], &x[..=i], &mut matrix[i * n..=i * n + i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    #[track_caller]
    fn assert_close(got: &[f64], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        for (a, b) in got.iter().zip(want) {
            assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{got:?} against {want:?}");
        }
    }

    #[test]
    fn rates_equal_pycma() {
        // cma 4.5.0: CMAEvolutionStrategy([0] * 10, 1).sp; its c_σ is another one than the tutorial's.
        let rates = Rates::new(10, 10, true);
        let weights = [
            0.456_272_646_903_405_97,
            0.270_753_097_001_785_2,
            0.162_231_117_158_669_78,
            0.085_233_547_100_164_48,
            0.025_509_591_835_974_777,
            -0.080_012_607_580_872_24,
            -0.221_764_160_999_146_53,
            -0.344_554_941_784_820_93,
            -0.452_864_086_378_421_96,
            -0.549_749_917_697_385_3,
        ];
        assert_close(&rates.weights, &weights);
        assert_close(
            &[rates.mass, rates.rank_one, rates.rank_mu, rates.axis_path_rate],
            &[
                3.167_299_281_410_701_7,
                0.015_283_824_524_751_714,
                0.023_551_776_650_417_47,
                0.294_990_383_035_622_25,
            ],
        );
        assert_close(&[rates.path_rate], &[5.167_299_281_410_702 / 18.167_299_281_410_7]);
    }

    /// Minimises until `f` of the mean is below 1e-12; the number of evaluations.
    fn evaluations(dim: usize, active: bool, f: impl Fn(&[f64]) -> f64) -> usize {
        let mut strategy = Strategy::new(vec![0.8; dim], 0.2, 4 + 3 * dim.ilog2() as usize, active);
        let mut rng = Seed::new(4).rng(0);
        for generation in 1..4000 {
            let mut ranked: Vec<(f64, Sample)> = (0..strategy.population())
                .map(|_| {
                    let x = strategy.draw(1.0, &mut rng);
                    (f(&x), Sample { x, own: true })
                })
                .collect();
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
            strategy.update(&ranked.into_iter().map(|(_, sample)| sample).collect::<Vec<_>>());
            if f(&strategy.mean) < 1e-12 {
                return generation * strategy.population();
            }
        }
        panic!("not reached");
    }

    #[test]
    fn quadratics_are_solved_in_the_expected_time() {
        // cma 4.5.0 needs 2,100 and 5,100 evaluations on these in 10 dimensions (seed 1).
        let sphere = |x: &[f64]| x.iter().map(|v| (v - 0.3).powi(2)).sum::<f64>();
        let ellipsoid = |x: &[f64]| {
            let d = (x.len() - 1) as f64;
            x.iter()
                .zip(0_i32..)
                .map(|(v, i)| 1e6_f64.powf(f64::from(i) / d) * (v - 0.3).powi(2))
                .sum::<f64>()
        };
        let (one, many) = (evaluations(10, true, sphere), evaluations(10, true, ellipsoid));
        assert!(one < 3000 && many < 8000, "{one} and {many}");
        assert!(many < evaluations(10, false, ellipsoid), "the active update pays on an ellipsoid");
    }

    #[test]
    fn long_steps_of_others_are_clipped() {
        let mut strategy = Strategy::new(vec![0.5; 4], 1e-3, 6, true);
        let far = Sample { x: vec![1.0; 4], own: false };
        strategy.update(&vec![far; 6]);
        let moved = (strategy.mean[0] - 0.5) / 1e-3;
        let longest = 4_f64.sqrt() + 8.0 / 6.0;
        assert!((moved - longest / 2.0).abs() < 1e-9, "{moved}");
        assert!(strategy.sigma < 1e-2, "{}", strategy.sigma);
    }
}

//! A Gaussian process with one length scale, beside a quadratic trend.

use crate::linalg::{Triangle, dot, squared_distance};

/// Variance of the quadratic part at the origin, in units of the variance of the other part: what
/// served best of 0, 0.01, 0.03, 0.1, 1 and 10 on six functions of 20 dimensions.
const QUADRATIC: f64 = 0.03;

/// Matérn's covariance with smoothness 5/2 at a distance.
fn matern(distance: f64) -> f64 {
    let s = 5_f64.sqrt() * distance;
    (1.0 + s + s * s / 3.0) * (-s).exp()
}

/// The covariance of quadratic functions with normal coefficients.
fn quadratic(a: &[f64], b: &[f64]) -> f64 {
    QUADRATIC * (1.0 + dot(a, b) / a.len() as f64).powi(2)
}

/// What the covariance depends on, in units of the variance of the process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::methods) struct Scales {
    /// The length scale.
    pub(in crate::methods) length: f64,
    /// Variance of the noise of a value.
    pub(in crate::methods) nugget: f64,
}

/// A Gaussian process of constant mean, whose covariance is Matérn's and that of quadratic functions
/// (near an optimum most functions are such, and few points tell which).
#[derive(Clone, Debug)]
pub(super) struct Surrogate {
    points: Vec<Vec<f64>>,
    factor: Triangle,
    weights: Vec<f64>,
    pub(super) scales: Scales,
    mean: f64,
    scale: f64,
}

impl Surrogate {
    /// The process with the most likely of the given scales, whose variance is the most likely one for
    /// each. None if there are no points, or if no covariance matrix is positive definite.
    pub(super) fn fit(points: Vec<Vec<f64>>, values: &[f64], choices: &[Scales]) -> Option<Self> {
        let n = points.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let scale = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64).sqrt().max(1e-12);
        let centred: Vec<f64> = values.iter().map(|v| (v - mean) / scale).collect();
        let mut distances = Vec::with_capacity(n * (n + 1) / 2);
        let mut trend = Vec::with_capacity(n * (n + 1) / 2);
        for (i, point) in points.iter().enumerate() {
            distances.extend(points[..=i].iter().map(|other| squared_distance(point, other).sqrt()));
            trend.extend(points[..=i].iter().map(|other| quadratic(point, other)));
        }
        let mut best: Option<(f64, Scales, Triangle, Vec<f64>)> = None;
        for &scales in choices {
            let mut factor = Triangle::default();
            let mut row = Vec::with_capacity(n);
            let is_definite = (0..n).all(|i| {
                let entries = i * (i + 1) / 2..(i + 1) * (i + 2) / 2;
                let pairs = distances[entries.clone()].iter().zip(&trend[entries]);
                row.clear();
                row.extend(pairs.map(|(distance, trend)| matern(distance / scales.length) + trend));
                row[i] += scales.nugget;
                factor.push(&row)
            });
            if !is_definite || n == 0 {
                continue;
            }
            let z = factor.solve(&centred);
            let variance = (dot(&z, &z) / n as f64).max(1e-12);
            let likelihood = -0.5 * n as f64 * variance.ln() - factor.ln_diagonal();
            if best.as_ref().is_none_or(|(other, ..)| likelihood > *other) {
                best = Some((likelihood, scales, factor, z));
            }
        }
        let (_, scales, factor, z) = best?;
        let weights = factor.solve_transposed(&z);
        Some(Self { points, factor, weights, scales, mean, scale })
    }

    /// Expected value at a point.
    pub(super) fn mean(&self, x: &[f64]) -> f64 {
        self.mean + self.scale * dot(&self.covariances(x), &self.weights)
    }

    /// Expected value and standard deviation at a point, the latter for a process of variance 1 in units
    /// of the spread of the values.
    pub(super) fn predict(&self, x: &[f64]) -> (f64, f64) {
        let covariances = self.covariances(x);
        let z = self.factor.solve(&covariances);
        let variance = (1.0 + quadratic(x, x) - dot(&z, &z)).max(1e-10);
        (self.mean + self.scale * dot(&covariances, &self.weights), self.scale * variance.sqrt())
    }

    fn covariances(&self, x: &[f64]) -> Vec<f64> {
        let covariance = |point: &Vec<f64>| {
            matern(squared_distance(point, x).sqrt() / self.scales.length) + quadratic(point, x)
        };
        self.points.iter().map(covariance).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    const SCALES: Scales = Scales { length: 4.0, nugget: 1e-6 };

    fn points(n: usize, dim: usize) -> Vec<Vec<f64>> {
        let mut rng = Seed::new(2).rng(0);
        (0..n).map(|_| (0..dim).map(|_| rng.normal()).collect()).collect()
    }

    #[test]
    fn known_values_are_met_and_far_ones_uncertain() {
        let points = points(30, 4);
        let values: Vec<f64> = points.iter().map(|x| (x[0] + 2.0 * x[1]).sin()).collect();
        let surrogate = Surrogate::fit(points.clone(), &values, &[SCALES]).unwrap();
        for (x, value) in points.iter().zip(&values) {
            let (mean, deviation) = surrogate.predict(x);
            assert!((mean - value).abs() < 1e-3 && deviation < 1e-2, "{mean} against {value}, {deviation}");
            assert!((mean - surrogate.mean(x)).abs() < 1e-12);
        }
        assert!(surrogate.predict(&[40.0; 4]).1 > 0.5);
    }

    #[test]
    fn the_likelier_scales_are_taken() {
        let points = points(80, 2);
        let values: Vec<f64> = points.iter().map(|x| (3.0 * x[0]).sin()).collect();
        let lengths = [0.05, 1.0, 100.0].map(|length| Scales { length, nugget: 1e-6 });
        let surrogate = Surrogate::fit(points, &values, &lengths).unwrap();
        assert_eq!(surrogate.scales, lengths[1]);
        assert!(Surrogate::fit(Vec::new(), &[], &lengths).is_none());
    }
}

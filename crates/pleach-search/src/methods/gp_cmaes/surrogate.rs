//! A Gaussian process with one length scale, beside a quadratic trend.

use crate::gp::targets::Losses;
use crate::linalg::{Triangle, dot, squared_distance};

/// Matérn's covariance with smoothness 5/2 at a distance.
fn matern(distance: f64) -> f64 {
    let s = 5_f64.sqrt() * distance;
    (1.0 + s + s * s / 3.0) * (-s).exp()
}

/// The covariance of quadratic functions with normal coefficients.
fn quadratic(a: &[f64], b: &[f64]) -> f64 {
    (1.0 + dot(a, b) / a.len() as f64).powi(2)
}

/// What the process depends on, in units of the variance of its Matérn part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::methods) struct Scales {
    /// The length scale.
    pub(in crate::methods) length: f64,
    /// Variance of the noise of a value.
    pub(in crate::methods) nugget: f64,
    /// Variance of the quadratic part at the origin.
    pub(in crate::methods) trend: f64,
    /// How losses are told, see [`Losses::warped`].
    pub(in crate::methods) warp: f64,
}

/// A Gaussian process of mean 0, whose covariance is Matérn's and that of quadratic functions
/// (near an optimum most functions are such, and few points tell which), of losses told by a logarithm.
#[derive(Clone, Debug)]
pub(super) struct Surrogate {
    points: Vec<Vec<f64>>,
    /// The losses as told, of mean 0 and variance 1.
    pub(super) values: Vec<f64>,
    factor: Triangle,
    weights: Vec<f64>,
    pub(super) scales: Scales,
}

impl Surrogate {
    /// The process with the most likely of the given scales, whose variance is the most likely one for
    /// each. None if there are no points, or if no covariance matrix is positive definite.
    pub(super) fn fit(points: Vec<Vec<f64>>, losses: &Losses, choices: &[Scales]) -> Option<Self> {
        let n = points.len();
        if n == 0 {
            return None;
        }
        let mut distances = Vec::with_capacity(n * (n + 1) / 2);
        let mut quadratics = Vec::with_capacity(n * (n + 1) / 2);
        for (i, point) in points.iter().enumerate() {
            distances.extend(points[..=i].iter().map(|other| squared_distance(point, other).sqrt()));
            quadratics.extend(points[..=i].iter().map(|other| quadratic(point, other)));
        }
        let mut best: Option<(f64, Self)> = None;
        for &scales in choices {
            let mut factor = Triangle::default();
            let mut row = Vec::with_capacity(n);
            let is_definite = (0..n).all(|i| {
                let entries = i * (i + 1) / 2..(i + 1) * (i + 2) / 2;
                let pairs = distances[entries.clone()].iter().zip(&quadratics[entries]);
                row.clear();
                row.extend(pairs.map(|(distance, quadratic)| {
                    matern(distance / scales.length) + scales.trend * quadratic
                }));
                row[i] += scales.nugget;
                factor.push(&row)
            });
            if !is_definite {
                continue;
            }
            let warped = losses.warped(scales.warp);
            let z = factor.solve(&warped.values);
            let variance = (dot(&z, &z) / n as f64).max(1e-12);
            let likelihood = -0.5 * n as f64 * variance.ln() - factor.ln_diagonal() - warped.cost;
            if best.as_ref().is_none_or(|(other, ..)| likelihood > *other) {
                let weights = factor.solve_transposed(&z);
                let surrogate = Self { points: Vec::new(), values: warped.values, factor, weights, scales };
                best = Some((likelihood, surrogate));
            }
        }
        best.map(|(_, surrogate)| Self { points, ..surrogate })
    }

    /// What the other points let expect of a known one (Dubrule, 1983).
    pub(super) fn left_out(&self, i: usize) -> f64 {
        let mut unit = vec![0.0; self.values.len()];
        unit[i] = 1.0;
        let z = self.factor.solve(&unit);
        self.values[i] - self.weights[i] / dot(&z, &z)
    }

    /// Expected value at a point.
    pub(super) fn mean(&self, x: &[f64]) -> f64 {
        dot(&self.covariances(x), &self.weights)
    }

    /// Expected value and standard deviation at a point, the latter for a process of variance 1.
    pub(super) fn predict(&self, x: &[f64]) -> (f64, f64) {
        let covariances = self.covariances(x);
        let z = self.factor.solve(&covariances);
        let variance = (1.0 + self.scales.trend * quadratic(x, x) - dot(&z, &z)).max(1e-10);
        (dot(&covariances, &self.weights), variance.sqrt())
    }

    fn covariances(&self, x: &[f64]) -> Vec<f64> {
        let covariance = |point: &Vec<f64>| {
            matern(squared_distance(point, x).sqrt() / self.scales.length)
                + self.scales.trend * quadratic(point, x)
        };
        self.points.iter().map(covariance).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    const SCALES: Scales = Scales { length: 4.0, nugget: 1e-6, trend: 0.03, warp: 6.0 };

    fn points(n: usize, dim: usize) -> Vec<Vec<f64>> {
        let mut rng = Seed::new(2).rng(0);
        (0..n).map(|_| (0..dim).map(|_| rng.normal()).collect()).collect()
    }

    fn fitted(points: &[Vec<f64>], f: fn(&[f64]) -> f64, choices: &[Scales]) -> Option<Surrogate> {
        let losses = Losses::new(&points.iter().map(|x| f(x)).collect::<Vec<f64>>());
        Surrogate::fit(points.to_vec(), &losses, choices)
    }

    #[test]
    fn known_values_are_met_and_far_ones_uncertain() {
        let points = points(30, 4);
        let surrogate = fitted(&points, |x| (x[0] + 2.0 * x[1]).sin(), &[SCALES]).unwrap();
        for (x, value) in points.iter().zip(&surrogate.values) {
            let (mean, deviation) = surrogate.predict(x);
            assert!((mean - value).abs() < 1e-3 && deviation < 1e-2, "{mean} against {value}, {deviation}");
            assert!((mean - surrogate.mean(x)).abs() < 1e-12);
        }
        assert!(surrogate.predict(&[40.0; 4]).1 > 0.5);
    }

    #[test]
    fn a_point_left_out_is_expected_as_a_fit_without_it_does() {
        let points = points(12, 2);
        let losses = Losses::new(&points.iter().map(|x| x[0] + x[1] * x[1]).collect::<Vec<f64>>());
        let whole = Surrogate::fit(points.clone(), &losses, &[SCALES]).unwrap();
        for i in 0..points.len() {
            let others: Vec<usize> = (0..points.len()).filter(|&other| other != i).collect();
            let kept: Vec<Vec<f64>> = others.iter().map(|&other| points[other].clone()).collect();
            // The values of the whole, since those of a part are standardised anew.
            let mut part = Surrogate::fit(kept, &losses.pick(&others), &[SCALES]).unwrap();
            let values: Vec<f64> = others.iter().map(|&other| whole.values[other]).collect();
            part.weights = part.factor.solve_transposed(&part.factor.solve(&values));
            let (expected, got) = (part.mean(&points[i]), whole.left_out(i));
            assert!((expected - got).abs() < 1e-6, "{expected} against {got}");
        }
    }

    #[test]
    fn the_likelier_scales_are_taken() {
        let points = points(80, 2);
        let lengths = [0.05, 1.0, 100.0].map(|length| Scales { length, ..SCALES });
        let surrogate = fitted(&points, |x| (3.0 * x[0]).sin(), &lengths).unwrap();
        assert_eq!(surrogate.scales, lengths[1]);
        let warps = [-6.0, 6.0].map(|warp| Scales { warp, trend: 10.0, ..SCALES });
        let surrogate = fitted(&points, |x| dot(x, x), &warps).unwrap();
        assert_eq!(surrogate.scales, warps[1], "a quadratic function needs no logarithm");
        assert!(fitted(&[], |_| 0.0, &lengths).is_none());
    }
}

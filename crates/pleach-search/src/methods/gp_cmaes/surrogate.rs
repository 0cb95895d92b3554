//! A Gaussian process with one length scale.

use crate::linalg::{Triangle, dot, squared_distance};

/// Matérn's covariance with smoothness 5/2 at a distance.
fn matern(distance: f64) -> f64 {
    let s = 5_f64.sqrt() * distance;
    (1.0 + s + s * s / 3.0) * (-s).exp()
}

/// A Gaussian process of constant mean, whose variance follows from its length scale.
#[derive(Clone, Debug)]
pub(super) struct Surrogate {
    points: Vec<Vec<f64>>,
    factor: Triangle,
    weights: Vec<f64>,
    pub(super) length: f64,
    mean: f64,
    scale: f64,
}

impl Surrogate {
    /// The most likely of the given length scales; `nuggets` are variances of the noise of every value,
    /// in units of the variance of the process. None if no covariance matrix is positive definite.
    pub(super) fn fit(
        points: Vec<Vec<f64>>,
        values: &[f64],
        lengths: &[f64],
        nuggets: &[f64],
    ) -> Option<Self> {
        let n = points.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let scale = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64).sqrt().max(1e-12);
        let centred: Vec<f64> = values.iter().map(|v| (v - mean) / scale).collect();
        let mut distances = Vec::with_capacity(n * (n - 1) / 2);
        for i in 0..n {
            distances.extend((0..i).map(|j| squared_distance(&points[i], &points[j]).sqrt()));
        }
        let mut best: Option<(f64, f64, Triangle, Vec<f64>)> = None;
        for &length in lengths {
            let mut factor = Triangle::default();
            let mut row = Vec::with_capacity(n);
            let mut at = 0;
            let is_definite = (0..n).all(|i| {
                row.clear();
                row.extend(distances[at..at + i].iter().map(|d| matern(d / length)));
                row.push(1.0 + nuggets[i]);
                at += i;
                factor.push(&row)
            });
            if !is_definite {
                continue;
            }
            let z = factor.solve(&centred);
            let variance = (dot(&z, &z) / n as f64).max(1e-12);
            let likelihood = -0.5 * n as f64 * variance.ln() - factor.ln_diagonal();
            if best.as_ref().is_none_or(|(other, ..)| likelihood > *other) {
                best = Some((likelihood, length, factor, z));
            }
        }
        let (_, length, factor, z) = best?;
        let weights = factor.solve_transposed(&z);
        Some(Self { points, factor, weights, length, mean, scale })
    }

    /// Expected value at a point.
    pub(super) fn mean(&self, x: &[f64]) -> f64 {
        self.mean + self.scale * dot(&self.covariances(x), &self.weights)
    }

    /// Expected value and standard deviation at a point.
    pub(super) fn predict(&self, x: &[f64]) -> (f64, f64) {
        let covariances = self.covariances(x);
        let z = self.factor.solve(&covariances);
        let variance = (1.0 - dot(&z, &z)).max(1e-10);
        (self.mean + self.scale * dot(&covariances, &self.weights), self.scale * variance.sqrt())
    }

    fn covariances(&self, x: &[f64]) -> Vec<f64> {
        self.points.iter().map(|point| matern(squared_distance(point, x).sqrt() / self.length)).collect()
    }
}

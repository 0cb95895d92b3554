//! Quadratic bowls: the sphere, an ill-conditioned ellipsoid and a bent cigar.

use super::Entry;
use super::function::{self, Function};

pub(super) const SPHERE: Entry = Entry {
    name: "sphere",
    summary: "a round bowl, on [-5, 5]^dims; minimum 0 at 0",
    options: function::OPTIONS,
    metrics: function::METRICS,
    build: |request| function::build(request, sphere(function::dims(request, 1)?)),
};

pub(super) const ELLIPSOID: Entry = Entry {
    name: "ellipsoid",
    summary: "a bowl a thousand times longer than wide, on [-5, 5]^dims; minimum 0 at 0",
    options: function::OPTIONS,
    metrics: function::METRICS,
    build: |request| function::build(request, ellipsoid(function::dims(request, 1)?)),
};

pub(super) const BENT_CIGAR: Entry = Entry {
    name: "bent-cigar",
    summary: "a bowl with one long axis among short ones, on [-5, 5]^dims; minimum 0 at 0",
    options: function::OPTIONS,
    metrics: function::METRICS,
    build: |request| function::build(request, bent_cigar(function::dims(request, 1)?)),
};

/// `f(x) = Σ xᵢ²`; minimum 0 at `x = 0`.
pub(super) fn sphere(dims: usize) -> Function {
    Function::new(vec![(-5.0, 5.0); dims], vec![0.0; dims], 0.0, |x| x.iter().map(|x| x * x).sum())
}

/// `f(x) = Σ 10^{6 (i−1)/(n−1)} xᵢ²`, condition number 10⁶; minimum 0 at `x = 0`.
///
/// # Source
/// N. Hansen, S. Finck, R. Ros, A. Auger, *Real-Parameter Black-Box Optimization Benchmarking 2009:
/// Noiseless Functions Definitions*, INRIA RR-6829, f2, without its transformation.
pub(super) fn ellipsoid(dims: usize) -> Function {
    let span = dims.max(2) as f64 - 1.0;
    let weights: Vec<f64> = (0..dims).map(|i| 10_f64.powf(6.0 * i as f64 / span)).collect();
    Function::new(vec![(-5.0, 5.0); dims], vec![0.0; dims], 0.0, move |x| {
        x.iter().zip(&weights).map(|(x, weight)| weight * x * x).sum()
    })
}

/// `f(x) = x₁² + 10⁶ Σ_{i>1} xᵢ²`; minimum 0 at `x = 0`.
///
/// # Source
/// As [`ellipsoid`], f12, without its transformations (which bend it).
pub(super) fn bent_cigar(dims: usize) -> Function {
    Function::new(vec![(-5.0, 5.0); dims], vec![0.0; dims], 0.0, |x| {
        x[0] * x[0] + 1e6 * x[1..].iter().map(|x| x * x).sum::<f64>()
    })
}

//! Griewank's function.

use super::Entry;
use super::function::{self, Function};

pub(super) const ENTRY: Entry = Entry {
    name: "griewank",
    summary: "a wide bowl covered with ripples, on [-600, 600]^dims; minimum 0 at 0",
    options: function::OPTIONS,
    metrics: function::METRICS,
    build: |request| function::build(request, function(function::dims(request, 1)?)),
};

/// `f(x) = Σ xᵢ²/4000 + 1 − Π cos(xᵢ/√i)`; minimum 0 at `x = 0`.
///
/// # Source
/// A. O. Griewank, *Generalized descent for global optimization*, J. Optimization Theory and
/// Applications 34, 1981.
pub(super) fn function(dims: usize) -> Function {
    let scales: Vec<f64> = (1..=dims).map(|i| (i as f64).sqrt()).collect();
    Function::new(vec![(-600.0, 600.0); dims], vec![0.0; dims], 0.0, move |x| {
        let ripples: f64 = x.iter().zip(&scales).map(|(x, scale)| (x / scale).cos()).product();
        x.iter().map(|x| x * x).sum::<f64>() / 4000.0 + (1.0 - ripples)
    })
}

//! Styblinski and Tang's function.

use super::Entry;
use super::function::{self, Function};

pub(super) const ENTRY: Entry = Entry {
    name: "styblinski-tang",
    summary: "two unequal valleys in each dimension, on [-5, 5]^dims; minimum -39.166 dims at -2.9035",
    options: function::OPTIONS,
    metrics: function::METRICS,
    build: |request| function::build(request, function(function::dims(request, 1)?)),
};

/// `f(x) = Σ (xᵢ⁴ − 16 xᵢ² + 5 xᵢ)/2`; minimum at `xᵢ = r`, the lowest root of `4 r³ − 32 r + 5`.
///
/// # Source
/// M. A. Styblinski, T.-S. Tang, *Experiments in nonconvex optimization: stochastic approximation with
/// function smoothing and simulated annealing*, Neural Networks 3, 1990.
pub(super) fn function(dims: usize) -> Function {
    const R: f64 = -2.903_534_027_771_177;
    // A term with its minimum m split off is (x − r)² ((x + r)² + 2 r² − 16)/2, which is nowhere negative.
    const M: f64 = R * R * (16.0 - 3.0 * R * R) / 2.0;
    let minimum = M * dims as f64;
    Function::new(vec![(-5.0, 5.0); dims], vec![R; dims], minimum, move |x| {
        let above = |x: f64| 0.5 * (x - R).powi(2) * ((x + R).powi(2) + (2.0 * R * R - 16.0));
        minimum + x.iter().map(|&x| above(x)).sum::<f64>()
    })
}

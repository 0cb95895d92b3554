//! Branin's function.

use std::f64::consts::PI;

use super::Entry;
use super::function::{self, Function};

pub(super) const ENTRY: Entry = Entry {
    name: "branin",
    summary: "three equal minima, on [-5, 10] x [0, 15]; minimum 0.397887 at (π, 2.275)",
    options: function::FIXED_OPTIONS,
    metrics: function::METRICS,
    build: |request| function::build(request, function()),
};

/// `f(x) = (x₂ − b x₁² + c x₁ − r)² + s (1 − t) cos x₁ + s` with `b = 5.1/4π²`, `c = 5/π`, `r = 6`,
/// `s = 10`, `t = 1/8π`; minimum `s t = 5/4π` at `(−π, 12.275)`, `(π, 2.275)` and `(3π, 2.475)`.
///
/// # Source
/// L. C. W. Dixon, G. P. Szegő, *The global optimization problem: an introduction*, in Towards
/// Global Optimization 2, 1978, after F. H. Branin, 1972.
pub(super) fn function() -> Function {
    const B: f64 = 5.1 / (4.0 * PI * PI);
    const C: f64 = 5.0 / PI;
    const R: f64 = 6.0;
    const S: f64 = 10.0;
    const T: f64 = 1.0 / (8.0 * PI);
    // At x₁ = π the cosine is −1 and the parabola is at r + b π² − c π = 6 + 1.275 − 5.
    let minimiser = vec![PI, 2.275];
    Function::new(vec![(-5.0, 10.0), (0.0, 15.0)], minimiser, S * T, |x| {
        // s (1 − t) (1 + cos x₁) + s t: a sum of terms that are not negative.
        (x[1] - B * x[0] * x[0] + C * x[0] - R).powi(2) + S * (1.0 - T) * (1.0 + x[0].cos()) + S * T
    })
}

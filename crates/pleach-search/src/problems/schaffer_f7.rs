//! Schaffer's function F7.

use super::Entry;
use super::function::{self, Function};

pub(super) const ENTRY: Entry = Entry {
    name: "schaffer-f7",
    summary: "a funnel of rings that narrow towards the bottom, on [-100, 100]^dims; minimum 0 at 0",
    options: function::OPTIONS,
    metrics: function::METRICS,
    build: |request| function::build(request, function(function::dims(request, 2)?)),
};

/// With `sᵢ = √(xᵢ² + xᵢ₊₁²)`: `f(x) = (Σ_{i<n} √sᵢ (1 + sin²(50 sᵢ^⅕))/(n − 1))²`; minimum 0 at `x = 0`.
///
/// # Source
/// N. Hansen, S. Finck, R. Ros, A. Auger, *Real-Parameter Black-Box Optimization Benchmarking 2009:
/// Noiseless Functions Definitions*, INRIA RR-6829, f17, without its transformations.
pub(super) fn function(dims: usize) -> Function {
    Function::new(vec![(-100.0, 100.0); dims], vec![0.0; dims], 0.0, |x| {
        let rings = x.windows(2).map(|x| x[0].hypot(x[1]));
        let sum: f64 = rings.map(|s| s.sqrt() * (1.0 + (50.0 * s.powf(0.2)).sin().powi(2))).sum();
        (sum / (x.len() - 1) as f64).powi(2)
    })
}

//! Dixon and Price's function.

use super::Entry;
use super::function::{self, Function};

pub(super) const ENTRY: Entry = Entry {
    name: "dixon-price",
    summary: "a chain of parabolic valleys that steepen, on [-10, 10]^dims; minimum 0 at 2^(2^(1-i) - 1)",
    options: function::OPTIONS,
    metrics: function::METRICS,
    build: |request| function::build(request, function(function::dims(request, 1)?)),
};

/// `f(x) = (x₁ − 1)² + Σ_{i>1} i (2 xᵢ² − xᵢ₋₁)²`; minimum 0 at `xᵢ = 2^(2^(1−i) − 1)`, and
/// where the last coordinate has the other sign.
///
/// # Source
/// L. C. W. Dixon, R. C. Price, *Truncated Newton method for sparse unconstrained optimization using
/// automatic differentiation*, J. Optimization Theory and Applications 60, 1989.
pub(super) fn function(dims: usize) -> Function {
    let mut minimiser = vec![1.0_f64];
    while let (Some(last), true) = (minimiser.last(), minimiser.len() < dims) {
        minimiser.push((last / 2.0).sqrt());
    }
    Function::new(vec![(-10.0, 10.0); dims], minimiser, 0.0, |x| {
        let links = x.windows(2).zip(2..).map(|(x, i)| f64::from(i) * (2.0 * x[1] * x[1] - x[0]).powi(2));
        (x[0] - 1.0).powi(2) + links.sum::<f64>()
    })
}

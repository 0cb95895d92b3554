//! Rosenbrock's function.

use super::Entry;
use super::function::{self, Function};

pub(super) const ENTRY: Entry = Entry {
    name: "rosenbrock",
    summary: "a narrow curved valley, on [-10, 10]^dims; minimum 0 at 1",
    options: function::OPTIONS,
    metrics: function::METRICS,
    build: |request| function::build(request, function(function::dims(request, 2)?)),
};

/// `f(x) = Σ_{i<n} 100 (xᵢ₊₁ − xᵢ²)² + (1 − xᵢ)²`; minimum 0 at `x = 1`.
///
/// # Source
/// H. H. Rosenbrock, *An automatic method for finding the greatest or least value of a function*,
/// Computer Journal 3, 1960, for two dimensions.
pub(super) fn function(dims: usize) -> Function {
    Function::new(vec![(-10.0, 10.0); dims], vec![1.0; dims], 0.0, |x| {
        x.windows(2).map(|x| 100.0 * (x[1] - x[0] * x[0]).powi(2) + (1.0 - x[0]).powi(2)).sum()
    })
}

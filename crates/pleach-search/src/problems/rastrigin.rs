//! Rastrigin's function.

use std::f64::consts::PI;

use super::Entry;
use super::function::{self, Function};

pub(super) const ENTRY: Entry = Entry {
    name: "rastrigin",
    summary: "a bowl with a grid of deep dents, on [-5.12, 5.12]^dims; minimum 0 at 0",
    options: function::OPTIONS,
    metrics: function::METRICS,
    build: |request| function::build(request, function(function::dims(request, 1)?)),
};

/// `f(x) = 10 n + Σ xᵢ² − 10 cos(2π xᵢ)`; minimum 0 at `x = 0`.
///
/// # Source
/// L. A. Rastrigin, *Systems of Extremal Control*, Nauka 1974, for two dimensions; for n
/// H. Mühlenbein, M. Schomisch, J. Born, *The parallel genetic algorithm as function optimizer*,
/// Parallel Computing 17, 1991.
pub(super) fn function(dims: usize) -> Function {
    Function::new(vec![(-5.12, 5.12); dims], vec![0.0; dims], 0.0, |x| {
        // 1 − cos(2πx) = 2 sin²(πx) does not cancel.
        x.iter().map(|x| x * x + 20.0 * (PI * x).sin().powi(2)).sum()
    })
}

//! Zakharov's function.

use super::Entry;
use super::function::{self, Function};

pub(super) const ENTRY: Entry = Entry {
    name: "zakharov",
    summary: "a plate that one direction makes ever steeper, on [-5, 10]^dims; minimum 0 at 0",
    options: function::OPTIONS,
    metrics: function::METRICS,
    build: |request| function::build(request, function(function::dims(request, 1)?)),
};

/// With `s = Σ i xᵢ/2`: `f(x) = Σ xᵢ² + s² + s⁴`; minimum 0 at `x = 0`.
///
/// # Source
/// M. Jamil, X.-S. Yang, *A literature survey of benchmark functions for global optimisation problems*,
/// 2013, arXiv:1308.4008, under that name.
pub(super) fn function(dims: usize) -> Function {
    Function::new(vec![(-5.0, 10.0); dims], vec![0.0; dims], 0.0, |x| {
        let s: f64 = x.iter().zip(1..).map(|(x, i)| 0.5 * f64::from(i) * x).sum();
        x.iter().map(|x| x * x).sum::<f64>() + s.powi(2) + s.powi(4)
    })
}

//! Levy's function.

use std::f64::consts::{PI, TAU};

use super::Entry;
use super::function::{self, Function};

pub(super) const ENTRY: Entry = Entry {
    name: "levy",
    summary: "a bowl with waves that grow outwards, on [-10, 10]^dims; minimum 0 at 1",
    options: function::OPTIONS,
    metrics: function::METRICS,
    build: |request| function::build(request, function(function::dims(request, 1)?)),
};

/// With `wᵢ = 1 + (xᵢ − 1)/4`:
/// `f(x) = sin²(π w₁) + Σ_{i<n} (wᵢ − 1)² (1 + 10 sin²(π wᵢ + 1)) + (wₙ − 1)² (1 + sin²(2π wₙ))`;
/// minimum 0 at `x = 1`.
///
/// # Source
/// M. Laguna, R. Martí, *Experimental testing of advanced scatter search designs for global
/// optimization of multimodal functions*, J. Global Optimization 33, 2005, after A. V. Levy and
/// A. Montalvo, 1985.
pub(super) fn function(dims: usize) -> Function {
    Function::new(vec![(-10.0, 10.0); dims], vec![1.0; dims], 0.0, |x| {
        // v = w − 1, so that the sines of multiples of π are exactly 0 at the minimum.
        let v = |x: f64| (x - 1.0) / 4.0;
        let (last, inner) = x.split_last().expect("there is at least one dimension");
        let (first, last) = (v(x[0]), v(*last));
        let terms =
            inner.iter().map(|&x| v(x)).map(|v| v * v * (1.0 + 10.0 * (PI * (v + 1.0) + 1.0).sin().powi(2)));
        (PI * first).sin().powi(2) + terms.sum::<f64>() + last * last * (1.0 + (TAU * last).sin().powi(2))
    })
}

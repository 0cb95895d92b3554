//! Ackley's function.

use std::f64::consts::{E, TAU};

use super::Entry;
use super::function::{self, Function};

pub(super) const ENTRY: Entry = Entry {
    name: "ackley",
    summary: "a funnel covered with shallow dents, on [-5, 10]^dims; minimum 0 at 0",
    options: function::OPTIONS,
    metrics: function::METRICS,
    build: |request| function::build(request, function(function::dims(request, 1)?)),
};

/// `f(x) = −20 exp(−0.2 √(Σ xᵢ²/n)) − exp(Σ cos(2π xᵢ)/n) + 20 + e`; minimum 0 at `x = 0`.
///
/// # Source
/// D. H. Ackley, *A Connectionist Machine for Genetic Hillclimbing*, Kluwer 1987, for two
/// dimensions; the box is the one in use for Bayesian optimisation.
pub(super) fn function(dims: usize) -> Function {
    let n = dims as f64;
    Function::new(vec![(-5.0, 10.0); dims], vec![0.0; dims], 0.0, move |x| {
        let radius = (x.iter().map(|x| x * x).sum::<f64>() / n).sqrt();
        let waves = x.iter().map(|x| (TAU * x).cos()).sum::<f64>() / n;
        // Grouped so that both parts are exactly 0 at the minimum and never negative.
        20.0 * -(-0.2 * radius).exp_m1() + (E - waves.exp()).max(0.0)
    })
}

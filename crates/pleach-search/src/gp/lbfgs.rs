//! Minimisation of smooth functions in a box.

use std::collections::VecDeque;

use crate::linalg::{axpy, dot};

/// Steps whose curvature is remembered.
const MEMORY: usize = 8;
/// Halvings of a step before the search ends.
const HALVINGS: usize = 20;
/// Share of the predicted decrease that a step must reach.
const ARMIJO: f64 = 1e-4;

/// Minimises `f` over the box from `lower` to `upper` by at most `evaluations` calls.
///
/// `f(x, gradient)` fills the gradient and returns the value; a value that is not finite counts as
/// infinitely bad. The result, a point and its value, is no worse than `start`, which is clamped into the box.
///
/// # Source
/// Nocedal, Wright, *Numerical Optimization* (2006), Alg. 7.4 and 7.5, on the coordinates that are
/// not held at a bound by the gradient; steps are projected into the box (Bertsekas 1982) and halved
/// until Armijo's condition holds.
pub(crate) fn minimise(
    start: &[f64],
    lower: &[f64],
    upper: &[f64],
    evaluations: usize,
    mut f: impl FnMut(&[f64], &mut [f64]) -> f64,
) -> (Vec<f64>, f64) {
    let n = start.len();
    let project = |x: &mut [f64]| {
        x.iter_mut().zip(lower.iter().zip(upper)).for_each(|(x, (low, high))| *x = x.clamp(*low, *high));
    };
    let mut x = start.to_vec();
    project(&mut x);
    let mut gradient = vec![0.0; n];
    let mut value = f(&x, &mut gradient);
    if !value.is_finite() {
        return (x, f64::INFINITY);
    }
    let mut pairs: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
    let mut left = evaluations.saturating_sub(1);
    while left > 0 {
        let held: Vec<bool> = (0..n)
            .map(|i| (x[i] <= lower[i] && gradient[i] > 0.0) || (x[i] >= upper[i] && gradient[i] < 0.0))
            .collect();
        let free: Vec<f64> =
            gradient.iter().zip(&held).map(|(g, held)| if *held { 0.0 } else { *g }).collect();
        let mut direction = descent(&free, &pairs);
        direction.iter_mut().zip(&held).filter(|(_, held)| **held).for_each(|(p, _)| *p = 0.0);
        let mut slope = dot(&direction, &free);
        if slope.is_nan() || slope >= 0.0 {
            pairs.clear();
            direction = free.iter().map(|g| -g).collect();
            slope = -dot(&free, &free);
        }
        if slope > -1e-18 {
            break;
        }
        // The first step is a tenth of the unit length at most: nothing is known of the scale.
        let mut step = if pairs.is_empty() { (0.1 / (-slope).sqrt()).min(1.0) } else { 1.0 };
        let mut found = None;
        for _ in 0..HALVINGS.min(left) {
            let mut next = x.clone();
            axpy(step, &direction, &mut next);
            project(&mut next);
            let mut next_gradient = vec![0.0; n];
            let next_value = f(&next, &mut next_gradient);
            left -= 1;
            let moved: Vec<f64> = next.iter().zip(&x).map(|(a, b)| a - b).collect();
            if next_value.is_finite() && next_value <= value + ARMIJO * dot(&free, &moved).min(0.0) {
                found = Some((next, next_value, next_gradient, moved));
                break;
            }
            step *= 0.5;
        }
        let Some((next, next_value, next_gradient, moved)) = found else { break };
        let turned: Vec<f64> = next_gradient.iter().zip(&gradient).map(|(a, b)| a - b).collect();
        if dot(&moved, &turned) > 1e-12 * dot(&turned, &turned) {
            pairs.push_back((moved, turned));
            if pairs.len() > MEMORY {
                pairs.pop_front();
            }
        }
        let gain = value - next_value;
        (x, value, gradient) = (next, next_value, next_gradient);
        if gain <= 1e-9 * (1.0 + value.abs()) {
            break;
        }
    }
    (x, value)
}

/// `−H g` by the two-loop recursion.
fn descent(gradient: &[f64], pairs: &VecDeque<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let mut q: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut alphas = Vec::with_capacity(pairs.len());
    for (s, y) in pairs.iter().rev() {
        let alpha = dot(s, &q) / dot(s, y);
        axpy(-alpha, y, &mut q);
        alphas.push(alpha);
    }
    if let Some((s, y)) = pairs.back() {
        let scale = dot(s, y) / dot(y, y);
        for q in &mut q {
            *q *= scale;
        }
    }
    for ((s, y), alpha) in pairs.iter().zip(alphas.iter().rev()) {
        let beta = dot(y, &q) / dot(s, y);
        axpy(alpha - beta, s, &mut q);
    }
    q
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rosenbrock_is_minimised_inside_and_on_the_edge_of_a_box() {
        let f = |x: &[f64], g: &mut [f64]| {
            let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
            g.copy_from_slice(&[-2.0 * a - 400.0 * x[0] * b, 200.0 * b]);
            a * a + 100.0 * b * b
        };
        let check = |upper: f64, want: [f64; 2]| {
            let found = minimise(&[-1.2, 1.0], &[-2.0, -2.0], &[upper, 2.0], 200, f);
            let error = (found.0[0] - want[0]).abs() + (found.0[1] - want[1]).abs();
            assert!(error < 1e-4, "{found:?}");
        };
        check(2.0, [1.0, 1.0]);
        // On the edge x = 0.5 the valley is at y = x².
        check(0.5, [0.5, 0.25]);
    }

    #[test]
    fn the_number_of_calls_is_bounded_and_odd_values_are_survived() {
        for budget in [1, 2, 7] {
            let mut calls = 0;
            let found = minimise(&[0.3], &[0.0], &[1.0], budget, |x, g| {
                calls += 1;
                g[0] = -1.0;
                if x[0] > 0.31 { f64::NAN } else { -x[0] }
            });
            assert!(calls <= budget && found.1 <= -0.3, "{calls} calls: {found:?}");
        }
        let found = minimise(&[0.3], &[0.0], &[1.0], 9, |_, _| f64::NAN);
        assert!(found.1.is_infinite());
    }
}

//! How far a point is from keeping a constraint.

use super::condition::{Condition, Truth, View, compare};
use super::parse::Comparison;

/// Of a condition that is broken and has no measure.
const BROKEN: f64 = 1.0;
/// Of a comparison with NaN: worse than any other.
const UNDEFINED: f64 = 1e6;

impl Condition {
    /// 0 if the condition is kept (its opposite, if `opposite`), else a number that falls as a
    /// comparison comes closer to being kept: the logarithm of the ratio of its sides if both are
    /// positive, their relative difference otherwise.
    pub(super) fn violation(&self, view: View<'_>, opposite: bool) -> f64 {
        match self {
            Condition::Not(inner) => inner.violation(view, !opposite),
            Condition::And(items) => {
                let each = items.iter().map(|item| item.violation(view, opposite));
                if opposite { each.fold(f64::INFINITY, f64::min) } else { each.sum() }
            }
            _ => {
                let truth = if opposite { self.at(view).not() } else { self.at(view) };
                match (truth, self) {
                    (Truth::True | Truth::Absent, _) => 0.0,
                    (Truth::Undefined, _) => UNDEFINED,
                    (Truth::False, Condition::Compare(comparison, left, right)) => {
                        let sides = left.at(view).zip(right.at(view));
                        sides.map_or(BROKEN, |(a, b)| gap(*comparison, a, b))
                    }
                    (Truth::False, _) => BROKEN,
                }
            }
        }
    }
}

/// How far apart two numbers are that should be closer or on the other side of each other.
fn gap(comparison: Comparison, a: f64, b: f64) -> f64 {
    // Equal numbers that should not be have no direction to go to.
    if compare(Comparison::Equal, a, b) || comparison == Comparison::Unequal {
        return f64::EPSILON;
    }
    let gap = if a > 0.0 && b > 0.0 { (a / b).ln() } else { (a - b) / (1.0 + a.abs() + b.abs()) };
    if gap.is_nan() { UNDEFINED } else { gap.abs().max(f64::EPSILON) }
}

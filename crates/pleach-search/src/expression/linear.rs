//! Conditions that are linear in numbers.

use super::condition::{Condition, Number};
use super::parse::{Arithmetic, Comparison};

/// `Σ weight · parameter ≤ bound`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Halfspace {
    /// Parameters with their weights, ascending.
    pub(crate) weights: Vec<(usize, f64)>,
    pub(crate) bound: f64,
}

impl Condition {
    /// The half-spaces of which the condition is the intersection, boundaries aside; `None` if it is
    /// no such intersection.
    pub(super) fn halfspaces(&self) -> Option<Vec<Halfspace>> {
        match self {
            Condition::And(items) => {
                let parts: Option<Vec<_>> = items.iter().map(Condition::halfspaces).collect();
                parts.map(|parts| parts.concat())
            }
            Condition::Compare(comparison, left, right) => compare(*comparison, left, right, false),
            Condition::Not(inner) => match &**inner {
                Condition::Compare(comparison, left, right) => compare(*comparison, left, right, true),
                _ => None,
            },
            _ => None,
        }
    }
}

fn compare(comparison: Comparison, left: &Number, right: &Number, negated: bool) -> Option<Vec<Halfspace>> {
    let is_at_most = match comparison {
        Comparison::Less | Comparison::AtMost => !negated,
        Comparison::Greater | Comparison::AtLeast => negated,
        Comparison::Equal | Comparison::Unequal => return None,
    };
    let mut difference = Sum::of(left)?;
    difference.add(&Sum::of(right)?, -1.0);
    if !is_at_most {
        difference.scale(-1.0);
    }
    let is_finite = difference.constant.is_finite() && difference.weights.iter().all(|(_, w)| w.is_finite());
    is_finite.then(|| vec![Halfspace { weights: difference.weights, bound: -difference.constant }])
}

/// `Σ weight · parameter + constant`.
struct Sum {
    weights: Vec<(usize, f64)>,
    constant: f64,
}

impl Sum {
    fn of(number: &Number) -> Option<Self> {
        match number {
            Number::Constant(constant) => Some(Self { weights: Vec::new(), constant: *constant }),
            Number::Parameter(parameter) => Some(Self { weights: vec![(*parameter, 1.0)], constant: 0.0 }),
            Number::Negate(inner) => Self::of(inner).map(|mut sum| {
                sum.scale(-1.0);
                sum
            }),
            Number::Arithmetic(operator, left, right) => {
                let (mut a, b) = (Self::of(left)?, Self::of(right)?);
                match operator {
                    Arithmetic::Add => a.add(&b, 1.0),
                    Arithmetic::Subtract => a.add(&b, -1.0),
                    Arithmetic::Multiply if b.weights.is_empty() => a.scale(b.constant),
                    Arithmetic::Multiply if a.weights.is_empty() => {
                        let factor = a.constant;
                        a = b;
                        a.scale(factor);
                    }
                    Arithmetic::Divide if b.weights.is_empty() => a.scale(1.0 / b.constant),
                    _ => return None,
                }
                Some(a)
            }
            Number::Option { .. } | Number::Call(..) | Number::Count(..) => None,
        }
    }

    fn add(&mut self, other: &Self, factor: f64) {
        for &(parameter, weight) in &other.weights {
            match self.weights.binary_search_by_key(&parameter, |entry| entry.0) {
                Ok(at) => self.weights[at].1 += factor * weight,
                Err(at) => self.weights.insert(at, (parameter, factor * weight)),
            }
        }
        self.constant += factor * other.constant;
    }

    fn scale(&mut self, factor: f64) {
        self.weights.iter_mut().for_each(|entry| entry.1 *= factor);
        self.constant *= factor;
    }
}

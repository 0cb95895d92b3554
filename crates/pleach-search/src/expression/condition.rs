//! Compiled expressions and their value at a point.

use super::parse::{Arithmetic, Comparison, Function};
use crate::Value;

/// The truth of a condition at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    False,
    True,
    /// It speaks of a parameter that does not exist there.
    Absent,
    /// It compares with NaN.
    Undefined,
}

impl Truth {
    pub(super) const ALL: [Truth; 4] = [Truth::False, Truth::True, Truth::Absent, Truth::Undefined];

    pub(super) fn not(self) -> Self {
        match self {
            Truth::False => Truth::True,
            Truth::True => Truth::False,
            other => other,
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Truth::False, _) | (_, Truth::False) => Truth::False,
            (Truth::Undefined, _) | (_, Truth::Undefined) => Truth::Undefined,
            (Truth::Absent, _) | (_, Truth::Absent) => Truth::Absent,
            (Truth::True, Truth::True) => Truth::True,
        }
    }

    /// Whether a constraint of this truth is kept.
    pub(crate) fn is_kept(self) -> bool {
        matches!(self, Truth::True | Truth::Absent)
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Truth::True } else { Truth::False }
    }
}

/// The values of a point and which of them exist (all, if `active` is `None`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) values: &'a [Value],
    pub(crate) active: Option<&'a [bool]>,
}

impl<'a> View<'a> {
    fn get(self, parameter: usize) -> Option<&'a Value> {
        self.active.is_none_or(|active| active[parameter]).then(|| &self.values[parameter])
    }
}

/// A number-valued expression.
#[derive(Clone, Debug)]
pub(super) enum Number {
    Constant(f64),
    /// A float or int.
    Parameter(usize),
    /// An ordinal or categorical whose options are all numbers.
    Option {
        parameter: usize,
        numbers: Box<[f64]>,
        sorted: bool,
    },
    Negate(Box<Number>),
    Arithmetic(Arithmetic, Box<Number>, Box<Number>),
    Call(Function, Box<[Number]>),
    /// How many conditions are true.
    Count(Box<[Condition]>),
}

/// A truth-valued expression.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    Constant(bool),
    /// A bool.
    Flag(usize),
    Not(Box<Condition>),
    And(Box<[Condition]>),
    Compare(Comparison, Box<Number>, Box<Number>),
    /// Whether both sides have the same truth.
    Same(Box<Condition>, Box<Condition>),
    /// Whether a parameter has one of these options, in increasing order.
    Option {
        parameter: usize,
        options: Box<[u32]>,
    },
    /// Whether two parameters have options of the same label; `options[i]` is the one of `other`
    /// that is labelled as option `i` of `parameter`.
    SameOption {
        parameter: usize,
        other: usize,
        options: Box<[Option<u32>]>,
    },
}

impl Condition {
    pub(super) fn at(&self, view: View<'_>) -> Truth {
        match self {
            Condition::Constant(holds) => Truth::from(*holds),
            Condition::Flag(parameter) => match view.get(*parameter) {
                None => Truth::Absent,
                Some(value) => Truth::from(*value == Value::Bool(true)),
            },
            Condition::Not(inner) => inner.at(view).not(),
            Condition::And(items) => {
                let mut truth = Truth::True;
                for item in items {
                    truth = truth.and(item.at(view));
                    if truth == Truth::False {
                        break;
                    }
                }
                truth
            }
            Condition::Compare(comparison, left, right) => match (left.at(view), right.at(view)) {
                (Some(a), Some(b)) if a.is_nan() || b.is_nan() => Truth::Undefined,
                (Some(a), Some(b)) => Truth::from(compare(*comparison, a, b)),
                _ => Truth::Absent,
            },
            Condition::Same(left, right) => same(left.at(view), right.at(view)),
            Condition::Option { parameter, options } => match option(view, *parameter) {
                None => Truth::Absent,
                Some(index) => Truth::from(options.binary_search(&index).is_ok()),
            },
            Condition::SameOption { parameter, other, options } => {
                match (option(view, *parameter), option(view, *other)) {
                    (Some(index), Some(other)) => Truth::from(options[index as usize] == Some(other)),
                    _ => Truth::Absent,
                }
            }
        }
    }
}

/// Equality of truths; one that is not known makes it unknown.
pub(super) fn same(left: Truth, right: Truth) -> Truth {
    match (left, right) {
        (Truth::Undefined, _) | (_, Truth::Undefined) => Truth::Undefined,
        (Truth::Absent, _) | (_, Truth::Absent) => Truth::Absent,
        _ => Truth::from(left == right),
    }
}

fn option(view: View<'_>, parameter: usize) -> Option<u32> {
    match view.get(parameter)? {
        Value::Choice(index) => Some(*index),
        _ => unreachable!("checked when compiled: the parameter has options"),
    }
}

impl Number {
    /// The value; `None` if a parameter in it does not exist.
    pub(super) fn at(&self, view: View<'_>) -> Option<f64> {
        Some(match self {
            Number::Constant(x) => *x,
            Number::Parameter(parameter) => view.get(*parameter)?.as_f64().unwrap_or(f64::NAN),
            Number::Option { parameter, numbers, .. } => numbers[option(view, *parameter)? as usize],
            Number::Negate(inner) => -inner.at(view)?,
            Number::Arithmetic(operator, left, right) => {
                arithmetic(*operator, left.at(view)?, right.at(view)?)
            }
            Number::Count(items) => {
                let one = |item: &Condition| match item.at(view) {
                    Truth::True => 1.0,
                    Truth::False | Truth::Absent => 0.0,
                    Truth::Undefined => f64::NAN,
                };
                items.iter().map(one).sum()
            }
            Number::Call(function, arguments) => {
                let first = arguments[0].at(view)?;
                match function {
                    Function::Min | Function::Max => {
                        let mut best = first;
                        for argument in &arguments[1..] {
                            best = extreme(*function, best, argument.at(view)?);
                        }
                        best
                    }
                    _ => apply(*function, first),
                }
            }
        })
    }
}

/// The smaller or larger of two numbers; unlike `f64::min`, NaN if either is.
fn extreme(function: Function, a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if function == Function::Min {
        a.min(b)
    } else {
        a.max(b)
    }
}

pub(super) fn arithmetic(operator: Arithmetic, a: f64, b: f64) -> f64 {
    match operator {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide => a / b,
        Arithmetic::Remainder => remainder(a, b),
        // The standard library has 1 for NaN ** 0 and 1 ** NaN.
        Arithmetic::Power if a.is_nan() || b.is_nan() => f64::NAN,
        Arithmetic::Power => a.powf(b),
    }
}

/// The remainder with the sign of the divisor: `-1 % 8` is 7.
pub(super) fn remainder(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
}

/// A function of one argument.
pub(super) fn apply(function: Function, x: f64) -> f64 {
    match function {
        Function::Abs => x.abs(),
        Function::Floor => x.floor(),
        Function::Ceil => x.ceil(),
        Function::Sqrt => x.sqrt(),
        Function::Log => x.ln(),
        Function::Exp => x.exp(),
        Function::Min | Function::Max | Function::Count => x,
    }
}

pub(super) fn compare(comparison: Comparison, a: f64, b: f64) -> bool {
    match comparison {
        Comparison::Equal => at_most(a, b) && at_most(b, a),
        Comparison::Unequal => !(at_most(a, b) && at_most(b, a)),
        Comparison::Less => !at_most(b, a),
        Comparison::AtMost => at_most(a, b),
        Comparison::Greater => !at_most(a, b),
        Comparison::AtLeast => at_most(b, a),
    }
}

/// Whether `a ≤ b` up to rounding.
pub(super) fn at_most(a: f64, b: f64) -> bool {
    a <= b || (a.is_finite() && b.is_finite() && a - b <= 4.0 * f64::EPSILON * a.abs().max(b.abs()))
}

//! The language of conditions and known constraints.
//!
//! Numbers, `'text'`, `true`, `false`, names of parameters; `+ - * / % **`; comparisons, also in
//! chains (`1 <= a < b`); `and`, `or`, `not`; `in [..]`; `min max abs floor ceil sqrt log exp`; `count(a, b, …)`, the number
//! of conditions that are true.
//! Precedence is Python's, `%` takes the sign of its divisor, arithmetic is that of `f64`.
//!
//! # Truth
//! A parameter that does not exist at a point has no value, and neither has what is computed from
//! it: a comparison with it is *absent*. One with NaN is *undefined*. `and`, `or` and `not` follow
//! Kleene: an operand that decides alone decides, else undefined outweighs absent, and absent
//! outweighs the rest. What is absent is not counted. A constraint holds if it is true or absent; a condition if it is true.
//!
//! # Equality
//! Numbers within 4 units in the last place of each other count as equal, in every comparison, so
//! that `a + b <= 0.3` holds for 0.1 and 0.2. Integers up to 2⁵⁰ are told apart.

mod compile;
mod condition;
mod enclose;
mod linear;
mod parse;
#[cfg(test)]
mod tests;
mod violation;

use crate::Error;

pub(crate) use compile::Scope;
use condition::{Condition, Number};
pub(crate) use condition::{Truth, View};
pub(crate) use enclose::{Region, Side, Truths};
pub(crate) use linear::Halfspace;
pub(crate) use parse::KEYWORDS;

/// A parsed and type-checked expression over the parameters of one space.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    text: String,
    condition: Condition,
    parameters: Vec<usize>,
}

impl Expression {
    /// # Errors
    /// [`Error::Expression`] with the column of the fault.
    pub(crate) fn new(text: &str, scope: &Scope<'_>) -> Result<Self, Error> {
        let (condition, parameters) = read(text, scope, compile::condition)?;
        Ok(Self { text: text.to_owned(), condition, parameters })
    }

    /// As the user wrote it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The parameters it mentions, in order, without repetition.
    pub(crate) fn parameters(&self) -> &[usize] {
        &self.parameters
    }

    /// Its truth at a point.
    pub(crate) fn truth(&self, view: View<'_>) -> Truth {
        self.condition.at(view)
    }

    /// The half-spaces of which it is the intersection, boundaries aside; `None` if it is no such
    /// intersection.
    pub(crate) fn halfspaces(&self) -> Option<Vec<Halfspace>> {
        self.condition.halfspaces()
    }

    /// How far it is from being kept at a point; 0 if it is kept.
    pub(crate) fn violation(&self, view: View<'_>) -> f64 {
        self.condition.violation(view, false)
    }

    /// The truths that it may take in a region.
    pub(crate) fn over(&self, region: &Region<'_>) -> Truths {
        self.condition.over(region)
    }
}

/// A parsed and type-checked expression whose value is a number; that of a condition is 1 or 0.
#[derive(Clone, Debug)]
pub(crate) struct Quantity(Either);

#[derive(Clone, Debug)]
enum Either {
    Number(Number),
    Condition(Condition),
}

impl Quantity {
    /// # Errors
    /// [`Error::Expression`] with the column of the fault.
    pub(crate) fn new(text: &str, scope: &Scope<'_>) -> Result<Self, Error> {
        read(text, scope, compile::quantity).map(Self)
    }

    /// Its value at a point; `None` if a parameter in it does not exist there, or if it is not a
    /// finite number.
    pub(crate) fn at(&self, view: View<'_>) -> Option<f64> {
        match &self.0 {
            Either::Number(number) => number.at(view).filter(|x| x.is_finite()),
            Either::Condition(condition) => match condition.at(view) {
                Truth::True => Some(1.0),
                Truth::False => Some(0.0),
                Truth::Absent | Truth::Undefined => None,
            },
        }
    }
}

/// Parses a text and compiles its tree.
fn read<T>(
    text: &str,
    scope: &Scope<'_>,
    compile: impl FnOnce(&parse::Node, &Scope<'_>) -> Result<T, parse::Fault>,
) -> Result<T, Error> {
    parse::parse(text, &|name| scope.index_of(name).is_some()).and_then(|node| compile(&node, scope)).map_err(
        |fault| Error::Expression {
            expression: text.to_owned(),
            column: fault.column,
            message: fault.message,
        },
    )
}

//! Parameters as a user declares them.

use serde::{Deserialize, Serialize};

use crate::Literal;

/// The values a parameter can take.
///
/// In files a domain is a table such as `{ type = "int", low = 1, high = 8 }`, or the short text
/// that [`Domain::parse`] reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Domain {
    /// A real number in `[low, high]`; with `step`, one of `low, low + step, …`.
    Float {
        /// The smallest value.
        low: f64,
        /// The largest value.
        high: f64,
        /// Whether equal ratios, not equal differences, are equally far apart.
        #[serde(default, skip_serializing_if = "is_false")]
        log: bool,
        /// The distance of neighbouring values, if they are discrete.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<f64>,
    },
    /// An integer in `low..=high`; with `step`, one of `low, low + step, …`.
    Int {
        /// The smallest value.
        low: i64,
        /// The largest value.
        high: i64,
        /// Whether equal ratios, not equal differences, are equally far apart.
        #[serde(default, skip_serializing_if = "is_false")]
        log: bool,
        /// The distance of neighbouring values.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        step: i64,
    },
    /// One of several ordered options.
    Ordinal {
        /// The options, in their order.
        values: Vec<Literal>,
    },
    /// One of several options without order.
    Choice {
        /// The options.
        values: Vec<Literal>,
    },
    /// True or false.
    Bool,
    /// An order of `0..n`.
    Permutation {
        /// How many elements are ordered.
        n: u32,
    },
}

impl Domain {
    /// The options of an ordinal or categorical, in order; none for other domains.
    pub fn options(&self) -> &[Literal] {
        match self {
            Domain::Ordinal { values } | Domain::Choice { values } => values,
            _ => &[],
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

fn one() -> i64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(step: &i64) -> bool {
    *step == 1
}

/// A named parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name: a letter or underscore, then letters, digits, `_`, `-`, `.` (all ASCII).
    pub name: String,
    /// Its values.
    #[serde(flatten)]
    pub domain: Domain,
    /// The condition under which it exists, such as `opt == 'adamw'`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
}

impl Parameter {
    /// A parameter that always exists.
    pub fn new(name: &str, domain: Domain) -> Self {
        Self { name: name.to_owned(), domain, when: None }
    }

    /// A real number in `[low, high]` on a linear scale.
    pub fn float(name: &str, low: f64, high: f64) -> Self {
        Self::new(name, Domain::Float { low, high, log: false, step: None })
    }

    /// A real number in `[low, high]` on a logarithmic scale.
    pub fn log_float(name: &str, low: f64, high: f64) -> Self {
        Self::new(name, Domain::Float { low, high, log: true, step: None })
    }

    /// An integer in `low..=high` on a linear scale.
    pub fn int(name: &str, low: i64, high: i64) -> Self {
        Self::new(name, Domain::Int { low, high, log: false, step: 1 })
    }

    /// An integer in `low..=high` on a logarithmic scale.
    pub fn log_int(name: &str, low: i64, high: i64) -> Self {
        Self::new(name, Domain::Int { low, high, log: true, step: 1 })
    }

    /// One of several options without order.
    pub fn choice<L: Into<Literal>>(name: &str, values: impl IntoIterator<Item = L>) -> Self {
        Self::new(name, Domain::Choice { values: values.into_iter().map(Into::into).collect() })
    }

    /// One of several ordered options.
    pub fn ordinal<L: Into<Literal>>(name: &str, values: impl IntoIterator<Item = L>) -> Self {
        Self::new(name, Domain::Ordinal { values: values.into_iter().map(Into::into).collect() })
    }

    /// True or false.
    pub fn bool(name: &str) -> Self {
        Self::new(name, Domain::Bool)
    }

    /// An order of `0..n`.
    pub fn permutation(name: &str, n: u32) -> Self {
        Self::new(name, Domain::Permutation { n })
    }

    /// The same parameter, existing only where `condition` holds.
    #[must_use]
    pub fn when(self, condition: &str) -> Self {
        Self { when: Some(condition.to_owned()), ..self }
    }
}

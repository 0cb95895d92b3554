//! The space that is searched: parameters, conditions, known constraints, and views of its points.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Error, Literal, Rng, Value};

/// The values a parameter can take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Domain {
    /// A real number in `[low, high]`; with `step`, one of `low, low + step, …`.
    Float { low: f64, high: f64, #[serde(default, skip_serializing_if = "is_false")] log: bool, #[serde(default, skip_serializing_if = "Option::is_none")] step: Option<f64> },
    /// An integer in `low..=high`; with `step`, one of `low, low + step, …`.
    Int { low: i64, high: i64, #[serde(default, skip_serializing_if = "is_false")] log: bool, #[serde(default = "one", skip_serializing_if = "is_one")] step: i64 },
    /// One of several ordered options.
    Ordinal { values: Vec<Literal> },
    /// One of several options without order.
    Choice { values: Vec<Literal> },
    /// True or false.
    Bool,
    /// An order of `0..n`.
    Permutation { n: u32 },
}

/// A named parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name: a letter or underscore, then letters, digits, `_`, `-`, `.`.
    pub name: String,
    /// Its values.
    #[serde(flatten)]
    pub domain: Domain,
    /// The condition under which it exists, such as `opt == 'adamw'`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
}

impl Parameter {
    /// A real number in `[low, high]` on a linear scale.
    pub fn float(name: &str, low: f64, high: f64) -> Self { todo!() }
    /// A real number in `[low, high]` on a logarithmic scale.
    pub fn log_float(name: &str, low: f64, high: f64) -> Self { todo!() }
    /// An integer in `low..=high` on a linear scale.
    pub fn int(name: &str, low: i64, high: i64) -> Self { todo!() }
    /// One of several options without order.
    pub fn choice<L: Into<Literal>>(name: &str, values: impl IntoIterator<Item = L>) -> Self { todo!() }
    /// One of several ordered options.
    pub fn ordinal<L: Into<Literal>>(name: &str, values: impl IntoIterator<Item = L>) -> Self { todo!() }
    /// True or false.
    pub fn bool(name: &str) -> Self { todo!() }
    /// An order of `0..n`.
    pub fn permutation(name: &str, n: u32) -> Self { todo!() }
    /// The same parameter, existing only where `condition` holds.
    #[must_use]
    pub fn when(self, condition: &str) -> Self { todo!() }
}

/// The identity of a point: equal for two points iff their active values are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u128);

/// A point of a [`Space`]: one value for each parameter, inactive ones included.
///
/// The values of inactive parameters are auxiliary: they keep the unit-cube view complete, and
/// keys, literals and constraints never see them.
#[derive(Clone, Debug, PartialEq)]
pub struct Point { /* values: Box<[Value]>, active: ... */ }

impl Point {
    /// One value for each parameter, in the order of the space.
    pub fn values(&self) -> &[Value] { todo!() }
    /// Whether parameter `index` exists at this point.
    pub fn is_active(&self, index: usize) -> bool { todo!() }
}

/// A checked list of parameters with known constraints.
#[derive(Clone, Debug)]
pub struct Space { /* … */ }

impl Space {
    /// Checks everything once (names, ranges, conditions parse and do not form a cycle, constraints
    /// parse and can be met) and prepares start points if constraints are tight.
    pub fn new(parameters: Vec<Parameter>, constraints: &[&str]) -> Result<Self, Error> { todo!() }
    pub fn parameters(&self) -> &[Parameter] { todo!() }
    pub fn constraints(&self) -> impl Iterator<Item = &str> { [].into_iter() }
    pub fn index_of(&self, name: &str) -> Option<usize> { todo!() }
    /// A point from native values; checks count, types and ranges, computes what is active. Does not check constraints.
    pub fn point(&self, values: Vec<Value>) -> Result<Point, Error> { todo!() }
    /// A point from labelled values. Every active parameter must be given, inactive ones must not. Checks constraints too.
    pub fn point_from_literals(&self, literals: &BTreeMap<String, Literal>) -> Result<Point, Error> { todo!() }
    /// The active parameters of a point with their values as people read them, in the order of the space.
    pub fn literals(&self, point: &Point) -> Vec<(&str, Literal)> { todo!() }
    pub fn key(&self, point: &Point) -> Key { todo!() }
    /// Whether every known constraint holds.
    pub fn admits(&self, point: &Point) -> bool { todo!() }
    /// Number of coordinates of the unit-cube view: 1 a parameter, n for a permutation of n.
    pub fn unit_len(&self) -> usize { todo!() }
    pub fn encode(&self, point: &Point) -> Vec<f64> { todo!() }
    pub fn decode(&self, unit_point: &[f64]) -> Point { todo!() }
    /// The number of cells a coordinate of the unit cube falls into: `None` for a continuous one (floats without step, permutation keys).
    pub fn unit_cells(&self, coordinate: usize) -> Option<u64> { todo!() }
    /// Number of points up to the values of inactive parameters and constraints: an upper bound on distinct points; `None` if infinite or above 2^63.
    pub fn cardinality(&self) -> Option<u64> { todo!() }
    /// The `index`-th combination of a finite space (mixed radix, last parameter fastest).
    pub fn nth(&self, index: u64) -> Point { todo!() }
    /// A random point that keeps the known constraints, with at most 64 membership tests.
    /// `starts`: points known to be inside (stored trials), used when plain draws miss.
    pub fn sample(&self, rng: &mut Rng, starts: &[&Point]) -> Result<Point, Error> { todo!() }
    /// A copy with one active parameter changed (uniformly chosen; a categorical to another option, a numeric by a local step, …); inside the constraints if 64 tests find such a change.
    pub fn mutate(&self, point: &Point, rng: &mut Rng) -> Result<Point, Error> { todo!() }
    /// The point nearest to `unit_point` that is inside, on the segment from `inside` (which must be inside): `unit_point` itself when it is admitted, else bisection with ≤ 24 tests.
    pub fn pull_inside(&self, unit_point: &[f64], inside: &Point) -> Point { todo!() }
}

//! What came of a trial, and the one order in which methods compare trials.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What an evaluation measured.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// One value for each metric of the problem, in its order.
    pub metrics: Vec<f64>,
    /// Standard error of the objective, if the evaluation knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sem: Option<f64>,
    /// What the evaluation cost, in the user's unit (seconds, most often).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Features of the point that are known only after the evaluation, of fixed length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<f64>>,
}

impl Measurement {
    /// A measurement without standard error, cost or features.
    pub fn new(metrics: Vec<f64>) -> Self {
        Self { metrics, ..Self::default() }
    }
}

/// Why a trial failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureClass {
    /// A metric was NaN or infinite.
    Diverged,
    /// The evaluation ended with an error.
    Crashed,
    /// The evaluation ran out of memory.
    OutOfMemory,
    /// The evaluation ended well but did not report every metric.
    MetricMissing,
    /// The evaluation ran past its time limit.
    Timeout,
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FailureClass::Diverged => "diverged",
            FailureClass::Crashed => "crashed",
            FailureClass::OutOfMemory => "out-of-memory",
            FailureClass::MetricMissing => "metric-missing",
            FailureClass::Timeout => "timeout",
        })
    }
}

/// What came of a trial, as a method sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was measured.
    Measured(Measurement),
    /// The point turned out to be infeasible; nothing was measured.
    Infeasible,
    /// It failed; methods learn it as worse than everything measured.
    Failed(FailureClass),
    /// It was withdrawn (cancelled, lost): no longer pending, and nothing is learned from it.
    Withdrawn,
}

/// How good a trial is, in one total order: smaller is better.
///
/// Feasible points come first, by objective; then points that break an outcome constraint, by
/// their normalised violation (Deb 2000, the feasibility rule); then infeasible ones; then failed
/// ones; then withdrawn ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Merit {
    /// Every limit is kept; the objective, signed so that smaller is better.
    Feasible(f64),
    /// Sum over the limits of how far each is exceeded, divided by its scale.
    Violating(f64),
    /// The point cannot be evaluated.
    Infeasible,
    /// The evaluation failed.
    Failed,
    /// Nothing is known.
    Withdrawn,
}

impl Merit {
    fn key(self) -> (u8, f64) {
        match self {
            Merit::Feasible(loss) => (0, loss),
            Merit::Violating(violation) => (1, violation),
            Merit::Infeasible => (2, 0.0),
            Merit::Failed => (3, 0.0),
            Merit::Withdrawn => (4, 0.0),
        }
    }

    /// The signed objective of a feasible trial.
    pub fn loss(self) -> Option<f64> {
        match self {
            Merit::Feasible(loss) => Some(loss),
            _ => None,
        }
    }
}

impl Eq for Merit {}

impl Ord for Merit {
    fn cmp(&self, other: &Self) -> Ordering {
        let ((class, value), (other_class, other_value)) = (self.key(), other.key());
        class.cmp(&other_class).then(value.total_cmp(&other_value))
    }
}

impl PartialOrd for Merit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

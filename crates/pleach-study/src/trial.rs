//! Trials as users and workers see them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use pleach_search::{FailureClass, Literal};
use serde::{Deserialize, Serialize};

/// Where a trial stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// To be handed out: enqueued, given back, or taken back from a lost worker.
    Waiting,
    /// Handed out to a worker.
    Running,
    /// Stopped by its worker with the wish to go on later; see [`Study::retry`](crate::Study::retry).
    Paused,
    /// Measured.
    Done,
    /// Stopped early because it did not look promising.
    Pruned,
    /// Its point turned out to be infeasible.
    Infeasible,
    /// It failed; [`TrialRecord::failure`] says how.
    Failed,
    /// It ran past its time limit.
    Timeout,
    /// Its workers died, as often as the study allows.
    Lost,
    /// The user called it off.
    Cancelled,
}

impl State {
    /// All states, in the order of their codes.
    pub const ALL: [State; 10] = [
        State::Waiting,
        State::Running,
        State::Paused,
        State::Done,
        State::Pruned,
        State::Infeasible,
        State::Failed,
        State::Timeout,
        State::Lost,
        State::Cancelled,
    ];

    /// Whether the trial is over: its outcome is known and does not change any more.
    pub fn is_final(self) -> bool {
        self > State::Paused
    }

    /// Its name as files and the command line spell it.
    pub fn name(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Running => "running",
            State::Paused => "paused",
            State::Done => "done",
            State::Pruned => "pruned",
            State::Infeasible => "infeasible",
            State::Failed => "failed",
            State::Timeout => "timeout",
            State::Lost => "lost",
            State::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for State {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        State::ALL.into_iter().find(|state| state.name() == text).ok_or_else(|| {
            format!("no state is called {text}; there are {}", State::ALL.map(State::name).join(", "))
        })
    }
}

/// What an evaluation found, with the names of its metrics.
///
/// Made from a list of named values, or from a bare number, which is the objective.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// Values by name: the declared metrics, all of them, and any others worth keeping. The
    /// empty name stands for the objective.
    #[serde(with = "numbers")]
    pub metrics: BTreeMap<String, f64>,
    /// Standard error of the objective, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sem: Option<f64>,
    /// What the evaluation cost, in the user's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Features of the point known only after the evaluation, of one length for all trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<f64>>,
    /// What else there is to say, kept as [`TrialRecord::error`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl From<f64> for Evaluation {
    fn from(objective: f64) -> Self {
        Self { metrics: BTreeMap::from([(String::new(), objective)]), ..Self::default() }
    }
}

impl<S: Into<String>, const N: usize> From<[(S, f64); N]> for Evaluation {
    fn from(metrics: [(S, f64); N]) -> Self {
        Self {
            metrics: metrics.into_iter().map(|(name, value)| (name.into(), value)).collect(),
            ..Self::default()
        }
    }
}

impl From<BTreeMap<String, f64>> for Evaluation {
    fn from(metrics: BTreeMap<String, f64>) -> Self {
        Self { metrics, ..Self::default() }
    }
}

/// How a trial ended, as its worker tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Tell {
    /// It was measured. With a declared metric missing it becomes
    /// [`FailureClass::MetricMissing`], with one that is not finite [`FailureClass::Diverged`].
    Done(Evaluation),
    /// The point cannot be evaluated.
    Infeasible {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// It failed.
    Failed {
        /// How.
        class: FailureClass,
        /// In words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The most memory it held, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peak_rss_bytes: Option<u64>,
    },
    /// It ran past its time limit; the values of its last report are kept.
    Timeout,
    /// It was stopped early; the values of its last report are kept.
    Pruned,
    /// It was stopped and can go on later.
    Paused,
    /// Its worker cannot finish it: it is handed out again, `attempt` one higher.
    Retry,
    /// Nobody will finish it.
    Lost,
    /// It was called off.
    Cancelled,
}

/// A trial handed out to a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Its number in the study, from 0.
    pub number: u64,
    /// How often it has been handed out, this time included: from 1.
    pub attempt: u32,
    /// For random choices of the evaluation; the same at every attempt.
    pub seed: u64,
    /// The active parameters, in the order of the space.
    pub params: Vec<(String, Literal)>,
}

impl Assignment {
    /// The value of a parameter; `None` if it is inactive here or does not exist.
    pub fn param(&self, name: &str) -> Option<&Literal> {
        self.params.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }

    /// The value of a float or int parameter.
    pub fn f64(&self, name: &str) -> Option<f64> {
        self.param(name)?.as_f64()
    }
}

/// A trial that was evaluated elsewhere, for [`Study::import`](crate::Study::import).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportRow {
    /// The active parameters.
    pub params: BTreeMap<String, Literal>,
    /// How it ended; [`Tell::Paused`] and [`Tell::Retry`] are refused.
    pub tell: Tell,
    /// When it started, in Unix milliseconds, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<i64>,
    /// When it ended, in Unix milliseconds, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<i64>,
}

/// How far a study is.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Number of trials, whatever their state.
    pub trials: u64,
    /// Number of trials by state; states without trials are left out.
    pub counts: BTreeMap<State, u64>,
    /// The best point so far, once one was measured.
    pub best: Option<BestTrial>,
}

impl Progress {
    /// Number of trials in one state.
    pub fn count(&self, state: State) -> u64 {
        self.counts.get(&state).copied().unwrap_or(0)
    }

    /// Number of trials whose outcome is known.
    pub fn finished(&self) -> u64 {
        self.counts.iter().filter(|(state, _)| state.is_final()).map(|(_, count)| count).sum()
    }
}

/// The best point of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestTrial {
    /// The first trial of the point.
    pub number: u64,
    /// The objective: a mean over replicates, or a posterior mean where the noise is known.
    pub value: f64,
    /// Standard error of `value`, if the noise is known.
    pub sem: Option<f64>,
    /// Whether every limit is kept; false if no trial keeps them all.
    pub feasible: bool,
    /// Its active parameters.
    pub params: Vec<(String, Literal)>,
    /// What trial `number` reported: declared metrics, then others.
    #[serde(with = "pairs")]
    pub metrics: Vec<(String, f64)>,
}

/// A stored trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Its number in the study, from 0.
    pub number: u64,
    /// Where it stands.
    pub state: State,
    /// Its active parameters, in the order of the space.
    pub params: Vec<(String, Literal)>,
    /// What it reported: declared metrics in their order, then others by name.
    #[serde(with = "pairs")]
    pub metrics: Vec<(String, f64)>,
    /// Standard error of the objective.
    pub sem: Option<f64>,
    /// What it cost.
    pub cost: Option<f64>,
    /// Features known only after the evaluation.
    pub features: Option<Vec<f64>>,
    /// How it failed, for [`State::Failed`].
    pub failure: Option<FailureClass>,
    /// Where its point came from: `method`, `fresh`, `enqueued`, `replicate of 3`, `imported`.
    pub origin: String,
    /// How often it was handed out.
    pub attempt: u32,
    /// Who evaluates or evaluated it.
    pub worker: Option<String>,
    /// When it was proposed, in Unix milliseconds of the owner's clock; for information only.
    pub created_ms: i64,
    /// When it was handed out last.
    pub started_ms: Option<i64>,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// What went wrong, in words.
    pub error: Option<String>,
    /// The most memory its evaluation held, if known.
    pub peak_rss_bytes: Option<u64>,
}

impl TrialRecord {
    /// The value it reported under that name.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
    }
}

/// A number in JSON; those JSON lacks are written as `"nan"`, `"inf"`, `"-inf"`.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(untagged)]
enum Number {
    Finite(f64),
    Other(Special),
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum Special {
    #[serde(rename = "nan", alias = "NaN")]
    Nan,
    #[serde(rename = "inf", alias = "Infinity")]
    Infinity,
    #[serde(rename = "-inf", alias = "-Infinity")]
    NegInfinity,
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        match value {
            _ if value.is_finite() => Number::Finite(value),
            f64::INFINITY => Number::Other(Special::Infinity),
            f64::NEG_INFINITY => Number::Other(Special::NegInfinity),
            _ => Number::Other(Special::Nan),
        }
    }
}

impl From<Number> for f64 {
    fn from(number: Number) -> Self {
        match number {
            Number::Finite(value) => value,
            Number::Other(Special::Nan) => f64::NAN,
            Number::Other(Special::Infinity) => f64::INFINITY,
            Number::Other(Special::NegInfinity) => f64::NEG_INFINITY,
        }
    }
}

/// Maps of numbers, finite or not.
pub(crate) mod numbers {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::Number;

    pub(crate) fn serialize<S: Serializer>(
        map: &BTreeMap<String, f64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(map.iter().map(|(name, value)| (name, Number::from(*value))))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, f64>, D::Error> {
        let map = BTreeMap::<String, Number>::deserialize(deserializer)?;
        Ok(map.into_iter().map(|(name, number)| (name, number.into())).collect())
    }
}

/// Lists of named numbers, finite or not.
pub(crate) mod pairs {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Number;

    pub(crate) fn serialize<S: Serializer>(
        pairs: &[(String, f64)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(pairs.iter().map(|(name, value)| (name, Number::from(*value))))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, f64)>, D::Error> {
        let pairs = Vec::<(String, Number)>::deserialize(deserializer)?;
        Ok(pairs.into_iter().map(|(name, number)| (name, number.into())).collect())
    }
}

//! How parameters follow gradients: the update rule, its rate over time, and what limits it.

use std::sync::Arc;

use pleach_tensor::Update;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Error;

/// The update rule and everything around it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Solver {
    /// The rule's name in [`pleach_tensor::UPDATES`].
    pub name: String,
    /// The largest learning rate.
    pub rate: f64,
    /// How the rate changes over the steps.
    #[serde(default)]
    pub schedule: Schedule,
    /// The largest norm of all gradients together; longer ones are scaled down to it.
    #[serde(default, rename = "clip-norm", skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// What is left in a step of the moving average of weights that evaluation uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<f64>,
    /// Attributes of the rule: `momentum`, `weight-decay` and so on.
    #[serde(flatten)]
    pub attributes: Map<String, Value>,
}

/// The learning rate over the steps, as a fraction of the largest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Steps in which the rate grows from 0 to its largest, linearly.
    #[serde(default)]
    pub warmup: u64,
    /// What it does then.
    #[serde(default)]
    pub shape: Shape,
}

/// How the rate falls after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Shape {
    /// It does not.
    #[default]
    Constant,
    /// Linearly to 0 at the last step.
    Linear,
    /// Half a cosine to 0 at the last step (Loshchilov and Hutter 2017, Eq. 5, without restarts).
    Cosine,
    /// Times `factor` at each of these fractions of all steps.
    Drops {
        /// Fractions of all steps, ascending.
        at: Vec<f64>,
        /// What the rate is multiplied by.
        factor: f64,
    },
}

impl Solver {
    /// The update rule.
    pub(crate) fn rule(&self) -> Result<Arc<dyn Update>, Error> {
        let wrong = |reason: String| Error::Solver { reason };
        if !(self.rate > 0.0 && self.rate.is_finite()) {
            return Err(wrong(format!("rate is a positive number, not {}", self.rate)));
        }
        if let Some(norm) = self.clip_norm.filter(|norm| norm.is_nan() || *norm <= 0.0) {
            return Err(wrong(format!("clip-norm is a positive number, not {norm}")));
        }
        if let Some(average) = self.average.filter(|average| !(0.0..1.0).contains(average)) {
            return Err(wrong(format!("average is in [0, 1), not {average}")));
        }
        if let Shape::Drops { at, factor } = &self.schedule.shape {
            if !(at.is_sorted() && at.iter().all(|at| (0.0..=1.0).contains(at))) {
                return Err(wrong("drops are at ascending fractions of all steps".into()));
            }
            if !(*factor > 0.0 && factor.is_finite()) {
                return Err(wrong(format!("the factor of drops is a positive number, not {factor}")));
            }
        }
        let attributes = Value::Object(self.attributes.clone());
        pleach_tensor::update(&self.name, attributes).map_err(|error| wrong(error.to_string()))
    }

    /// The learning rate of step `step` of `steps`, counted from 0.
    pub fn rate(&self, step: u64, steps: u64) -> f64 {
        let Schedule { warmup, shape } = &self.schedule;
        if step < *warmup {
            return self.rate * (step + 1) as f64 / *warmup as f64;
        }
        let rest = steps.saturating_sub(*warmup).max(1) as f64;
        let done = ((step - warmup) as f64 / rest).min(1.0);
        self.rate
            * match shape {
                Shape::Constant => 1.0,
                Shape::Linear => 1.0 - done,
                Shape::Cosine => 0.5 * (1.0 + libm::cos(std::f64::consts::PI * done)),
                Shape::Drops { at, factor } => {
                    let all = step as f64 / steps.max(1) as f64;
                    at.iter().filter(|&&at| all >= at).fold(1.0, |rate, _| rate * factor)
                }
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solver(text: &str) -> Solver {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn rates_follow_their_schedules() {
        let rates = |schedule: &str, steps: &[u64]| -> Vec<f64> {
            let solver = solver(&format!(r#"{{"name": "sgd", "rate": 2.0, "schedule": {schedule}}}"#));
            steps.iter().map(|&step| solver.rate(step, 10)).collect()
        };
        assert_eq!(rates("{}", &[0, 9]), [2.0, 2.0]);
        assert_eq!(rates(r#"{"shape": "linear"}"#, &[0, 5, 9]), [2.0, 1.0, 0.199_999_999_999_999_96]);
        assert_eq!(rates(r#"{"shape": "linear", "warmup": 4}"#, &[0, 3, 4, 7]), [0.5, 2.0, 2.0, 1.0]);
        assert_eq!(rates(r#"{"shape": "cosine"}"#, &[0, 5, 10]), [2.0, 1.0, 0.0]);
        let drops = r#"{"shape": {"drops": {"at": [0.5, 0.8], "factor": 0.1}}}"#;
        assert_eq!(rates(drops, &[4, 5, 8]), [2.0, 0.2, 0.020_000_000_000_000_004]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            r#"{"name": "sgd", "rate": 0.0}"#,
            r#"{"name": "sgd", "rate": 0.1, "clip-norm": 0.0}"#,
            r#"{"name": "sgd", "rate": 0.1, "average": 1.0}"#,
            r#"{"name": "sgd", "rate": 0.1, "momentun": 0.9}"#,
            r#"{"name": "sgdm", "rate": 0.1}"#,
            r#"{"name": "sgd", "rate": 0.1, "schedule": {"shape": {"drops": {"at": [0.8, 0.5], "factor": 0.1}}}}"#,
        ] {
            assert!(solver(text).rule().is_err(), "{text}");
        }
    }
}

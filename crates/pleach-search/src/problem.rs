//! What is searched, and what is measured.

use serde::{Deserialize, Serialize};

use crate::{Descriptor, Error, Measurement, Merit, Outcome, Space};

/// The direction in which a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// Smaller is better; a limit is an upper bound.
    Min,
    /// Larger is better; a limit is a lower bound.
    Max,
}

/// A named number that an evaluation reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Its name in reports.
    pub name: String,
    /// Its direction.
    pub goal: Goal,
    /// An outcome constraint: the worst value that is still allowed. A metric with a limit is a
    /// constraint, the one without is the objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
}

impl Metric {
    /// The metric to optimise.
    pub fn objective(name: &str, goal: Goal) -> Self {
        Self { name: name.to_owned(), goal, limit: None }
    }

    /// A metric that must stay within `limit`.
    pub fn constraint(name: &str, goal: Goal, limit: f64) -> Self {
        Self { name: name.to_owned(), goal, limit: Some(limit) }
    }

    /// How far `value` exceeds the limit, divided by the limit's size (by 1 for a limit of 0); negative
    /// within it.
    pub(crate) fn excess(&self, value: f64) -> f64 {
        let Some(limit) = self.limit else { return 0.0 };
        let excess = match self.goal {
            Goal::Min => value - limit,
            Goal::Max => limit - value,
        };
        let scale = if limit == 0.0 { 1.0 } else { limit.abs() };
        excess / scale
    }
}

/// A space and the metrics of its points.
#[derive(Clone, Debug)]
pub struct Problem {
    space: Space,
    metrics: Vec<Metric>,
    objective: usize,
    descriptors: Vec<Descriptor>,
}

impl Problem {
    /// Checks the metrics: names are distinct, limits finite, and exactly one metric has no limit.
    ///
    /// # Errors
    /// [`Error::Metrics`] says which rule is broken.
    pub fn new(space: Space, metrics: Vec<Metric>) -> Result<Self, Error> {
        let error = |message: String| Err(Error::Metrics { message });
        for (i, metric) in metrics.iter().enumerate() {
            if metric.name.is_empty() {
                return error("a metric has an empty name".into());
            }
            if metrics[..i].iter().any(|other| other.name == metric.name) {
                return error(format!("metric {} is declared twice", metric.name));
            }
            if metric.limit.is_some_and(|limit| !limit.is_finite()) {
                return error(format!("the limit of {} is not a finite number", metric.name));
            }
        }
        let mut free = (0..metrics.len()).filter(|&i| metrics[i].limit.is_none());
        match (free.next(), free.next()) {
            (Some(objective), None) => Ok(Self { space, metrics, objective, descriptors: Vec::new() }),
            (None, _) => error("no metric is free to be optimised; leave one without a limit".into()),
            (Some(a), Some(b)) => error(format!(
                "{} and {} both have no limit, and searching a Pareto front is not built yet; give all but one a limit",
                metrics[a].name, metrics[b].name
            )),
        }
    }

    /// The same problem with features of its points that are known before an evaluation.
    #[must_use]
    pub fn described(self, descriptors: Vec<Descriptor>) -> Self {
        Self { descriptors, ..self }
    }

    /// Features of points that are known before an evaluation.
    pub fn descriptors(&self) -> &[Descriptor] {
        &self.descriptors
    }

    /// The space that is searched.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Every metric, in the order of [`Measurement::metrics`].
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// The metric to optimise.
    pub fn objective(&self) -> &Metric {
        &self.metrics[self.objective]
    }

    /// The index of the objective in [`Problem::metrics`].
    pub fn objective_index(&self) -> usize {
        self.objective
    }

    /// The same metrics and descriptors over another space (a widened range, an added choice).
    ///
    /// # Errors
    /// [`Error::Expression`] for a descriptor that means nothing in it.
    pub(crate) fn with_space(&self, space: Space) -> Result<Self, Error> {
        let descriptors = self.descriptors.iter().map(|descriptor| descriptor.over(&space));
        Ok(Self { descriptors: descriptors.collect::<Result<_, _>>()?, space, ..self.clone() })
    }

    /// The objective of a measurement, signed so that smaller is better.
    pub fn loss(&self, measurement: &Measurement) -> f64 {
        let value = measurement.metrics[self.objective];
        match self.objective().goal {
            Goal::Min => value,
            Goal::Max => -value,
        }
    }

    /// The signed loss back in the user's direction.
    pub fn value(&self, loss: f64) -> f64 {
        match self.objective().goal {
            Goal::Min => loss,
            Goal::Max => -loss,
        }
    }

    /// Where an outcome stands in the order of trials.
    pub fn merit(&self, outcome: &Outcome) -> Merit {
        match outcome {
            Outcome::Measured(measurement) => {
                let violation: f64 = self
                    .metrics
                    .iter()
                    .zip(&measurement.metrics)
                    .map(|(metric, &value)| metric.excess(value).max(0.0))
                    .sum();
                if violation > 0.0 {
                    Merit::Violating(violation)
                } else {
                    Merit::Feasible(self.loss(measurement))
                }
            }
            Outcome::Infeasible => Merit::Infeasible,
            Outcome::Failed(_) => Merit::Failed,
            Outcome::Withdrawn => Merit::Withdrawn,
        }
    }
}

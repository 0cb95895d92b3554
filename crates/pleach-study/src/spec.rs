//! What a study searches.

use pleach_search::{Metric, Options, Parameter, Problem, Search, Seed, Space};
use serde::{Deserialize, Serialize};

/// What a study searches, and how: everything its proposals depend on but the events.
///
/// It is stored with the study; [`Study::create`](crate::Study::create) refuses to continue a study
/// with another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Name of the study within its file, and of its folder of trials.
    pub name: String,
    /// The parameters of the space.
    pub parameters: Vec<Parameter>,
    /// Known constraints, such as `width * depth <= 4096`.
    #[serde(default)]
    pub constraints: Vec<String>,
    /// What a trial measures; exactly one metric has no limit and is the objective.
    pub metrics: Vec<Metric>,
    /// The registered name of the method.
    pub method: String,
    /// Options of the method.
    #[serde(default)]
    pub options: Options,
    /// The root of every random choice.
    pub seed: u64,
}

impl Spec {
    /// A spec of that name and seed by the method `random`, to be completed with parameters and metrics.
    pub fn new(name: &str, seed: u64) -> Self {
        Self {
            name: name.to_owned(),
            parameters: Vec::new(),
            constraints: Vec::new(),
            metrics: Vec::new(),
            method: "random".to_owned(),
            options: Options::new(),
            seed,
        }
    }

    /// The space and its metrics.
    ///
    /// # Errors
    /// What [`Space::new`] and [`Problem::new`] find wrong.
    pub fn problem(&self) -> Result<Problem, pleach_search::Error> {
        let constraints: Vec<&str> = self.constraints.iter().map(String::as_str).collect();
        Problem::new(Space::new(self.parameters.clone(), &constraints)?, self.metrics.clone())
    }

    /// The search before its first trial.
    ///
    /// # Errors
    /// As [`Spec::problem`]; what [`Search::new`] finds wrong with the method and its options.
    pub fn search(&self) -> Result<Search, pleach_search::Error> {
        Search::new(self.problem()?, &self.method, &self.options, Seed::new(self.seed))
    }
}

//! Searches of recorded evaluations, by a method of ours or by a peer.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use pleach_search::problems::{Setup, TestProblem, problem};
use pleach_search::{Domain, Measurement, Metric, Options, Outcome, Point, Search, Seed, Value};
use serde_json::json;

use super::peer::{self, Dialogue};
use crate::Result;

/// A problem of recorded evaluations. The folder of tables is named by the variable `PLEACH_DATA`.
pub(super) fn table(name: &str, options: &Options, metrics: &[Metric]) -> Result<Arc<TestProblem>> {
    let folder = || std::env::var_os("PLEACH_DATA").map(PathBuf::from);
    let read = |path: &str| {
        let folder = folder()
            .ok_or_else(|| std::io::Error::other("set PLEACH_DATA to the folder of reference data"))?;
        std::fs::read(folder.join(path))
    };
    Ok(Arc::new(problem(name)?.build(&Setup { options, metrics, read: &read, ..Setup::default() })?))
}

/// A problem, and how often it may be evaluated.
#[derive(Clone, Debug)]
pub(super) struct Quest {
    pub(super) problem: Arc<TestProblem>,
    pub(super) seed: u64,
    pub(super) queries: u64,
}

impl Quest {
    /// Queries until the best point of the table is found; one more than there may be if it is not.
    pub(super) fn queries_to_best(&self, optimizer: &Optimizer) -> Result<u64> {
        let best = self.problem.optimum().ok_or("no point keeps every limit")?;
        let target = self.problem.problem().objective_index();
        let metrics = self.problem.problem().metrics();
        let (mut query, mut found) = (0, None);
        self.search(optimizer, |_, measurement| {
            query += 1;
            let value = measurement.metrics[target];
            let kept =
                metrics.iter().zip(&measurement.metrics).all(|(metric, &value)| excess(metric, value) <= 0.0);
            // The best is a recorded value: nothing is better, and what is equal is it or its equal.
            if kept && !(is_better(&metrics[target], best, value)) {
                found.get_or_insert(query);
            }
            found.is_some()
        })?;
        Ok(found.unwrap_or(self.queries + 1))
    }

    /// Evaluates what the optimiser proposes, until `seen` says that this is enough. A point that is
    /// proposed again has the outcome it had, and is not seen again.
    pub(super) fn search(
        &self,
        optimizer: &Optimizer,
        mut seen: impl FnMut(&Point, &Measurement) -> bool,
    ) -> Result<String> {
        match optimizer {
            Optimizer::Ours { method } => {
                let problem = self.problem.problem().clone();
                let mut search = Search::new(problem, method, &Options::new(), Seed::new(self.seed))?;
                for _ in 0..self.queries {
                    let number = search.ask(1)?[0];
                    let point = search.history().trial(number).point.clone();
                    let measurement = self.measure(&point, number)?;
                    let enough = seen(&point, &measurement);
                    search.tell(number, Outcome::Measured(measurement))?;
                    if enough {
                        break;
                    }
                }
                Ok(super::version())
            }
            Optimizer::Peer { name } => self.search_by_peer(name, seen),
        }
    }

    fn search_by_peer(
        &self,
        name: &str,
        mut seen: impl FnMut(&Point, &Measurement) -> bool,
    ) -> Result<String> {
        /// A peer that only repeats itself ends after so many proposals a query.
        const REPEATS: u64 = 4;
        let space = self.problem.problem().space();
        let metrics = self.problem.problem().metrics();
        let objective = self.problem.problem().objective_index();
        let parameters: Vec<_> = space
            .parameters()
            .iter()
            .map(|parameter| match &parameter.domain {
                Domain::Ordinal { values } => json!({ "count": values.len(), "ordered": true }),
                domain => json!({ "count": domain.options().len(), "ordered": false }),
            })
            .collect();
        let proposals = REPEATS * self.queries;
        let limited = metrics.len() > 1;
        let task = json!({
            "peer": name, "parameters": parameters, "seed": self.seed >> 33, "evaluations": proposals,
            "constrained": limited,
        });
        let mut dialogue = Dialogue::start(&peer::python()?, "table_optimizer.py")?;
        dialogue.say(&task)?;
        let mut known: HashMap<Vec<u32>, Measurement> = HashMap::new();
        loop {
            let answer = dialogue.hear()?;
            let Some(options) = answer.get("options").filter(|_| (known.len() as u64) < self.queries) else {
                let version = answer["version"].as_str().unwrap_or_default().to_owned();
                dialogue.end()?;
                return Ok(version);
            };
            let options: Vec<u32> = serde_json::from_value(options.clone())?;
            let point = space.point(options.iter().map(|&option| Value::Choice(option)).collect())?;
            let number = known.len() as u64;
            let mut enough = false;
            if !known.contains_key(&options) {
                let measurement = self.measure(&point, number)?;
                enough = seen(&point, &measurement);
                known.insert(options.clone(), measurement);
            }
            let measurement = &known[&options];
            if enough {
                dialogue.end()?;
                return Ok(answer["version"].as_str().unwrap_or_default().to_owned());
            }
            let values = &measurement.metrics;
            let sign = if is_better(&metrics[objective], 1.0, 0.0) { -1.0 } else { 1.0 };
            let excess: Vec<f64> = metrics
                .iter()
                .zip(values)
                .filter(|(metric, _)| metric.limit.is_some())
                .map(|(metric, &value)| excess(metric, value))
                .collect();
            dialogue.say(&json!({ "loss": sign * values[objective], "excess": excess }))?;
        }
    }

    fn measure(&self, point: &Point, number: u64) -> Result<Measurement> {
        match self.problem.evaluate(point, number) {
            Outcome::Measured(measurement) => Ok(measurement),
            other => Err(format!("the table gave {other:?}").into()),
        }
    }
}

/// Who searches.
#[derive(Clone, Debug)]
pub(super) enum Optimizer {
    /// A registered method.
    Ours { method: &'static str },
    /// A peer of `table_optimizer.py`.
    Peer { name: &'static str },
}

/// Whether `a` is better than `b`.
pub(super) fn is_better(metric: &Metric, a: f64, b: f64) -> bool {
    match metric.goal {
        pleach_search::Goal::Min => a < b,
        pleach_search::Goal::Max => a > b,
    }
}

/// By how much a value exceeds the limit of its metric; 0 without a limit.
fn excess(metric: &Metric, value: f64) -> f64 {
    match (metric.limit, metric.goal) {
        (None, _) => 0.0,
        (Some(limit), pleach_search::Goal::Min) => value - limit,
        (Some(limit), pleach_search::Goal::Max) => limit - value,
    }
}

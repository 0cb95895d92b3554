//! Problems that are built in, as the work of a trial.

use std::path::Path;

use pleach_search::problems::{Setup, TestProblem, problem};
use pleach_search::{Error, Literal, Measurement, Metric, Options, Outcome, Parameter, Space};
use pleach_study::{Assignment, Evaluation, Evaluator, Tell, TrialContext};

/// A built-in problem with its options.
#[derive(Debug)]
pub(crate) struct Builtin {
    name: &'static str,
    problem: TestProblem,
}

impl Builtin {
    /// Builds the problem of that name; files that options name are looked up from `folder`.
    pub(crate) fn new(
        name: &str,
        options: &Options,
        metrics: &[Metric],
        space: Option<&Space>,
        folder: &Path,
    ) -> Result<Self, Error> {
        let entry = problem(name)?;
        let read = |path: &str| std::fs::read(folder.join(path));
        let problem = entry.build(&Setup { options, metrics, space, read: &read })?;
        Ok(Self { name: entry.name, problem })
    }

    /// Its registered name.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn parameters(&self) -> &[Parameter] {
        self.problem.problem().space().parameters()
    }

    pub(crate) fn constraints(&self) -> Vec<String> {
        self.problem.problem().space().constraints().map(str::to_owned).collect()
    }

    pub(crate) fn metrics(&self) -> &[Metric] {
        self.problem.problem().metrics()
    }

    /// A measurement under the names of its metrics.
    fn evaluation(&self, measurement: Measurement) -> Evaluation {
        let Measurement { metrics, sem, cost, features } = measurement;
        let names = self.metrics().iter().map(|metric| metric.name.clone());
        Evaluation { metrics: names.zip(metrics).collect(), sem, cost, features }
    }

    /// Another way to write a point, if the problem has one that its field knows.
    pub(crate) fn describe(&self, params: &[(String, Literal)]) -> Option<String> {
        (self.name == "nasbench201").then(|| architecture(params))?
    }
}

/// A cell of NAS-Bench-201 in its authors' notation: for each node the operations on the edges
/// into it, such as `|nor_conv_3x3~0|+|none~0|skip_connect~1|+|…|`.
fn architecture(params: &[(String, Literal)]) -> Option<String> {
    let operation = |from: usize, to: usize| {
        let (_, value) = params.iter().find(|(name, _)| *name == format!("edge_{from}_{to}"))?;
        let name = value.to_string();
        let prefix = if name.starts_with("conv") { "nor_" } else { "" };
        Some(format!("{prefix}{name}~{from}"))
    };
    let nodes: Option<Vec<String>> = (1..4)
        .map(|to| {
            let into: Option<Vec<String>> = (0..to).map(|from| operation(from, to)).collect();
            Some(format!("|{}|", into?.join("|")))
        })
        .collect();
    Some(nodes?.join("+"))
}

impl Evaluator for &Builtin {
    fn evaluate(&self, assignment: &Assignment, _: &TrialContext<'_>) -> Result<Tell, pleach_study::Error> {
        let point = self
            .problem
            .problem()
            .space()
            .point_from_literals(&assignment.params.iter().cloned().collect())?;
        Ok(match self.problem.evaluate(&point, assignment.number) {
            Outcome::Measured(measurement) => Tell::Done(self.evaluation(measurement)),
            Outcome::Infeasible => Tell::Infeasible { reason: None },
            Outcome::Failed(class) => Tell::Failed { class, reason: None, peak_rss_bytes: None },
            Outcome::Withdrawn => Tell::Cancelled,
        })
    }
}

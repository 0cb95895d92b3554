//! Problems that are built in, as the work of a trial.

use std::path::Path;

use pleach_search::problems::{Setup, TestProblem, problem};
use pleach_search::{Error, Literal, Measurement, Metric, Options, Outcome, Parameter, Point, Space};
use pleach_study::{Assignment, Evaluation, Evaluator, Tell, TrialContext};

/// A built-in problem with its options.
#[derive(Debug)]
pub(crate) struct Builtin {
    name: &'static str,
    problem: TestProblem,
    /// Whether trials take the time that was recorded, in simulated time.
    pub(crate) simulate: bool,
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
        Ok(Self { name: entry.name, problem, simulate: false })
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

    /// What is known of its points before an evaluation, by name, as a study stores it.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = (String, String)> {
        let descriptors = self.problem.problem().descriptors().iter();
        descriptors
            .filter_map(|descriptor| Some((descriptor.name().to_owned(), descriptor.source()?.to_owned())))
    }

    pub(crate) fn metrics(&self) -> &[Metric] {
        self.problem.problem().metrics()
    }

    /// The point of named values.
    fn point(&self, params: &[(String, Literal)]) -> Result<Point, Error> {
        self.problem.problem().space().point_from_literals(&params.iter().cloned().collect())
    }

    /// A measurement under the names of its metrics, and what else is known of the point.
    fn evaluation(&self, point: &Point, measurement: Measurement) -> Evaluation {
        let Measurement { metrics, sem, cost, features } = measurement;
        let named = self.metrics().iter().map(|metric| metric.name.clone()).zip(metrics);
        let extras = self.problem.extras(point).into_iter().map(|(name, value)| (name.to_owned(), value));
        Evaluation { metrics: named.chain(extras).collect(), sem, cost, features, note: None }
    }

    /// Another way to write a point, if the problem has one that its field knows.
    pub(crate) fn describe(&self, params: &[(String, Literal)]) -> Option<String> {
        self.problem.spell(&self.point(params).ok()?)
    }
}

impl Builtin {
    /// What came of a trial.
    pub(crate) fn tell(&self, assignment: &Assignment) -> Result<Tell, pleach_study::Error> {
        let point = self.point(&assignment.params)?;
        Ok(match self.problem.evaluate(&point, assignment.number) {
            Outcome::Measured(measurement) => Tell::Done(self.evaluation(&point, measurement)),
            Outcome::Infeasible => Tell::Infeasible { reason: None },
            Outcome::Failed(class) => Tell::Failed { class, reason: None, peak_rss_bytes: None },
            Outcome::Withdrawn => Tell::Cancelled,
        })
    }
}

impl Evaluator for &Builtin {
    fn evaluate(&self, assignment: &Assignment, _: &TrialContext<'_>) -> Result<Tell, pleach_study::Error> {
        self.tell(assignment)
    }
}

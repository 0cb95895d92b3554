//! Problems that evaluate themselves: functions with known minima, and tables of recorded
//! evaluations.
//!
//! A problem is built by name from [`PROBLEMS`] with [`Options`](crate::Options), as an experiment file gives them.
//! Nothing here opens a file: tables are read through [`Setup::read`].
//!
//! ```
//! use pleach_search::problems::{Setup, problem};
//! use pleach_search::{Literal, Outcome, Search, Seed};
//!
//! let options = [("dims".to_owned(), Literal::Int(2)), ("shift".to_owned(), Literal::Bool(true))];
//! let ackley = problem("ackley")?.build(&Setup { options: &options.into(), ..Setup::default() })?;
//! let mut search = Search::new(ackley.problem().clone(), "random", &Default::default(), Seed::new(7))?;
//! for number in search.ask(50)? {
//!     let outcome = ackley.evaluate(&search.history().trial(number).point, number);
//!     search.tell(number, outcome)?;
//! }
//! let regret = search.history().best().expect("fifty points were measured").value - ackley.optimum().unwrap();
//! assert!(regret > 0.0 && regret < 10.0);
//! # Ok::<(), pleach_search::Error>(())
//! ```

mod ackley;
mod branin;
mod cell;
mod clock;
mod dixon_price;
mod function;
mod griewank;
mod hartmann;
mod levy;
mod nasbench201;
mod quadratic;
mod rastrigin;
mod recorded;
mod rosenbrock;
mod schaffer_f7;
mod setup;
mod styblinski_tang;
mod table;
#[cfg(test)]
pub(crate) mod testing;
mod zakharov;

use std::fmt;

pub use clock::Clock;
pub use function::Function;
pub use nasbench201::nats_bench_index;
use setup::Request;
pub use setup::Setup;

use crate::descriptor::Features;
use crate::{Descriptor, Error, Goal, Outcome, Point, Problem, Seed, Space};

/// Every problem.
pub const PROBLEMS: &[Entry] = &[
    ackley::ENTRY,
    levy::ENTRY,
    rosenbrock::ENTRY,
    rastrigin::ENTRY,
    griewank::ENTRY,
    dixon_price::ENTRY,
    zakharov::ENTRY,
    styblinski_tang::ENTRY,
    schaffer_f7::ENTRY,
    quadratic::SPHERE,
    quadratic::ELLIPSOID,
    quadratic::BENT_CIGAR,
    branin::ENTRY,
    hartmann::ENTRY,
    nasbench201::ENTRY,
    recorded::FCNET,
    recorded::MLP,
    table::ENTRY,
];

/// A registered problem.
#[derive(Debug)]
pub struct Entry {
    /// Its name in files and on the command line.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// Its options: name, default (empty if it must be given), meaning.
    pub options: &'static [(&'static str, &'static str, &'static str)],
    /// The metrics it offers: name, direction, meaning. The first is the objective unless the setup
    /// says otherwise. Empty if a file brings them.
    pub metrics: &'static [(&'static str, Goal, &'static str)],
    build: fn(&Request<'_>) -> Result<TestProblem, Error>,
}

impl Entry {
    /// Builds the problem.
    ///
    /// # Errors
    /// [`Error::Option`] for an unknown option or a value it cannot take, [`Error::Metrics`] for a
    /// metric it does not offer, [`Error::Table`] for a file that cannot be read.
    pub fn build(&self, setup: &Setup<'_>) -> Result<TestProblem, Error> {
        if let Some(option) =
            setup.options.keys().find(|key| self.options.iter().all(|(name, ..)| name != key))
        {
            let known: Vec<&str> = self.options.iter().map(|(name, ..)| *name).collect();
            let message = format!("no such option; there are {}", known.join(", "));
            return Err(Error::Option { method: self.name.into(), option: option.clone(), message });
        }
        (self.build)(&Request { problem: self.name, setup })
    }
}

/// The problem of that name.
///
/// # Errors
/// [`Error::Unknown`] names those that exist.
pub fn problem(name: &str) -> Result<&'static Entry, Error> {
    PROBLEMS.iter().find(|entry| entry.name == name).ok_or_else(|| Error::Unknown {
        kind: "problem",
        name: name.into(),
        known: PROBLEMS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
    })
}

/// The features that a registered problem gives its points under a name of its own; `None` if no
/// problem of that name has any.
///
/// # Errors
/// What is wrong with the name, or with `space`, in words.
pub(crate) fn features(problem: &str, name: &str, space: &Space) -> Option<Result<Box<Features>, String>> {
    (problem == nasbench201::ENTRY.name).then(|| nasbench201::features(name, space))
}

/// What a trial at a point gives, as a function of the point and the number of the trial.
type Evaluate = Box<dyn Fn(&Point, u64) -> Outcome + Send + Sync>;

/// What is known of a point beside the metrics of the problem, by name.
type Extras = Box<dyn Fn(&Point) -> Vec<(&'static str, f64)> + Send + Sync>;

/// A problem together with what its points are worth.
pub struct TestProblem {
    problem: Problem,
    optimum: Option<f64>,
    evaluate: Evaluate,
    extras: Extras,
    spell: Option<fn(&Point) -> String>,
}

impl TestProblem {
    /// A problem whose trials give what `evaluate` says of their point and number.
    ///
    /// `optimum` is the best value of the objective that a point within every limit has, before noise.
    pub fn new(
        problem: Problem,
        optimum: Option<f64>,
        evaluate: impl Fn(&Point, u64) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        Self { problem, optimum, evaluate: Box::new(evaluate), extras: Box::new(|_| Vec::new()), spell: None }
    }

    /// The space and the metrics.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The best value of the objective that a point within every limit has, before noise.
    pub fn optimum(&self) -> Option<f64> {
        self.optimum
    }

    /// What trial `number` at `point` gives: equal arguments, equal outcome.
    ///
    /// The cost of a measurement is its recorded duration in seconds, where one was recorded.
    pub fn evaluate(&self, point: &Point, number: u64) -> Outcome {
        (self.evaluate)(point, number)
    }

    /// What else was recorded of a point: the metrics on offer that the problem does not report.
    pub fn extras(&self, point: &Point) -> Vec<(&'static str, f64)> {
        (self.extras)(point)
    }

    /// The point as its field writes it, where there is such a notation.
    pub fn spell(&self, point: &Point) -> Option<String> {
        self.spell.map(|spell| spell(point))
    }

    /// The same problem with features of its points that are known before an evaluation.
    #[must_use]
    pub fn described(self, descriptors: Vec<Descriptor>) -> Self {
        Self { problem: self.problem.described(descriptors), ..self }
    }

    /// The same problem with normal noise of standard deviation `sd` on the objective.
    ///
    /// The draw of a trial is keyed by `seed` and its number; `sd` is reported as standard error.
    #[must_use]
    pub fn with_noise(self, sd: f64, seed: Seed) -> Self {
        let (seed, objective, inner) =
            (seed.child("noise", 0), self.problem.objective_index(), self.evaluate);
        let evaluate: Evaluate = Box::new(move |point, number| match inner(point, number) {
            Outcome::Measured(mut measurement) => {
                measurement.metrics[objective] += sd * seed.rng(number).normal();
                measurement.sem = Some(sd);
                Outcome::Measured(measurement)
            }
            other => other,
        });
        Self { evaluate, ..self }
    }
}

impl fmt::Debug for TestProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestProblem")
            .field("problem", &self.problem)
            .field("optimum", &self.optimum)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_problems_describe_themselves_and_repeat() {
        for (i, entry) in PROBLEMS.iter().enumerate() {
            let kebab =
                |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
            assert!(kebab(entry.name) && !entry.summary.is_empty(), "{entry:?}");
            assert!(PROBLEMS[..i].iter().all(|other| other.name != entry.name), "{} twice", entry.name);
            assert!(entry.options.iter().all(|(name, _, meaning)| !name.is_empty() && !meaning.is_empty()));
            if entry.options.iter().any(|(name, ..)| *name == "path") {
                continue;
            }
            let [a, b] = [0, 1].map(|_| entry.build(&Setup::default()).unwrap());
            assert_eq!(a.problem().objective().name, entry.metrics[0].0);
            let mut rng = Seed::new(1).rng(0);
            for number in 0..20 {
                let point = a.problem().space().sample(&mut rng, &[]).unwrap();
                let outcome = a.evaluate(&point, number);
                assert_eq!(outcome, b.evaluate(&point, number));
                assert!(matches!(outcome, Outcome::Measured(_)), "{} {point:?}", entry.name);
            }
        }
    }
}

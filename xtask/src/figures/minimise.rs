//! A function to minimise, by a method of ours or by a peer, from nothing or from a given start.

use std::time::{Duration, Instant};

use pleach_search::problems::{Setup, TestProblem, problem};
use pleach_search::{Literal, METHODS, Options, Outcome, Point, Search, Seed};
use serde_json::{Value, json};

use super::jobs::Job;
use super::peer::Dialogue;
use super::record::{Log, Record};
use super::{peer, version};
use crate::Result;

/// One function with its optimum at one place, and what a run may spend on it.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) name: String,
    pub(super) seed: u64,
    pub(super) evaluations: u64,
    /// Time that a run may take if an evaluation took [`EVALUATION`].
    time: Option<Duration>,
    problem: TestProblem,
    optimum: f64,
}

/// What an evaluation is taken to last where time is limited; nobody waits for it.
const EVALUATION: Duration = Duration::from_millis(5);

/// A value of a run of a partition.
pub(super) const BELOW_ROOT: &str = "share of asks below the root";

/// What came of a run.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// The lowest regret so far, after each evaluation.
    pub(super) curve: Vec<f64>,
    /// The version of the optimiser.
    pub(super) version: String,
    /// Other values to record, with what they are.
    pub(super) more: Vec<(&'static str, f64)>,
    /// Time spent in the optimiser.
    spent: Duration,
}

impl Task {
    /// A function of `dims` dimensions (0: of its own), moved and turned unless it has dimensions of
    /// its own, with the figure's `index`-th seed.
    pub(super) fn of(log: &Log, function: &str, dims: i64, evaluations: u64, index: u64) -> Result<Self> {
        let seed = Seed::new(log.seed_base).child(function, index).value();
        // A seed of the experiment file is a signed integer.
        let small = i64::try_from(seed >> 1)?;
        let mut options = Options::from([
            ("shift".to_owned(), Literal::from(dims > 0)),
            ("rotate".to_owned(), Literal::from(dims > 0)),
            ("seed".to_owned(), Literal::from(small)),
        ]);
        if dims > 0 {
            options.insert("dims".to_owned(), Literal::from(dims));
        }
        let problem = problem(function)?.build(&Setup { options: &options, ..Setup::default() })?;
        let optimum = problem.optimum().ok_or("the functions have a known optimum")?;
        Ok(Self { name: self::name(function, dims), seed, evaluations, time: None, problem, optimum })
    }

    /// The same task with a limit of time.
    #[must_use]
    pub(super) fn within(self, time: Duration) -> Self {
        Self { name: format!("{}, {} s", self.name, time.as_secs()), time: Some(time), ..self }
    }

    /// The job of recording what a run of this task leaves.
    pub(super) fn job(self, method: &str, run: impl FnOnce(&Self) -> Result<Run> + Send + 'static) -> Job {
        let (method, problem, seed, n) = (method.to_owned(), self.name.clone(), self.seed, self.evaluations);
        let name = method.clone();
        let work = move || run(&self).map(|run| run.records(&name, &self));
        Job { method, problem, seed, n, work: Box::new(work) }
    }

    /// Coordinates of a point.
    pub(super) fn dims(&self) -> usize {
        self.problem.problem().space().unit_len()
    }

    /// What a method of ours is told: how much it may spend, as peers are, and not to begin at the centre
    /// of the box, since the functions that are measured say nothing of where their optimum lies.
    pub(super) fn options(&self, method: &str) -> Result<Options> {
        Ok(match method {
            "auto" => Options::from([("budget".to_owned(), Literal::Int(i64::try_from(self.evaluations)?))]),
            "cmaes" => Options::from([("start".to_owned(), Literal::from("random"))]),
            _ => Options::new(),
        })
    }

    /// Minimises by the registered method; `start` is evaluated first, as a trial of the user's.
    pub(super) fn ours(&self, method: &str, options: &Options, start: Option<&[f64]>) -> Result<Run> {
        let mut search = Search::new(self.problem.problem().clone(), method, options, Seed::new(self.seed))?;
        let mut run = Run { version: version(), ..Run::default() };
        if let Some(start) = start {
            let number = search.enqueue(self.problem.problem().space().decode(start))?;
            let outcome = self.see(&mut run, &search.history().trial(number).point)?.1;
            search.tell(number, outcome)?;
        }
        while !self.is_over(&run) {
            let clock = Instant::now();
            let number = search.ask(1)?[0];
            run.spent += clock.elapsed();
            let outcome = self.see(&mut run, &search.history().trial(number).point)?.1;
            let clock = Instant::now();
            search.tell(number, outcome)?;
            run.spent += clock.elapsed();
        }
        if let Some(partition) = search.partition() {
            run.more.push((BELOW_ROOT, partition.asks_below_root as f64 / partition.asks as f64));
        }
        Ok(run)
    }

    /// Minimises by a peer of `optimizer.py`, with settings of its own beside those of the task; the
    /// value of `start` counts as its first evaluation.
    pub(super) fn peer(&self, name: &str, settings: &Value, start: Option<&[f64]>) -> Result<Run> {
        let mut task = json!({
            "peer": name, "dims": self.dims(), "seed": self.seed >> 33,
            "evaluations": self.evaluations - u64::from(start.is_some()),
        });
        if let (Some(task), Some(settings)) = (task.as_object_mut(), settings.as_object()) {
            task.extend(settings.clone());
        }
        let python = if matches!(name, "turbo-1" | "botorch-logei" | "optuna-gp") {
            peer::python_with_torch()?
        } else {
            peer::python()?
        };
        let mut dialogue = Dialogue::start(&python, "optimizer.py")?;
        dialogue.say(&task)?;
        let mut run = Run::default();
        if let Some(start) = start {
            self.see(&mut run, &self.problem.problem().space().decode(start))?;
        }
        loop {
            let clock = Instant::now();
            let answer = dialogue.hear()?;
            // A peer's first words come after its packages have loaded.
            if run.curve.len() > usize::from(start.is_some()) {
                run.spent += clock.elapsed();
            }
            let points = match answer["points"].as_array() {
                Some(points) if !self.is_over(&run) => points,
                _ => {
                    run.version = answer["version"].as_str().unwrap_or_default().into();
                    dialogue.end()?;
                    return Ok(run);
                }
            };
            let mut values = Vec::with_capacity(points.len());
            for point in points {
                let unit_point: Vec<f64> = serde_json::from_value(point.clone())?;
                values.push(self.see(&mut run, &self.problem.problem().space().decode(&unit_point))?.0);
            }
            dialogue.say(&json!({ "values": values }))?;
        }
    }

    fn is_over(&self, run: &Run) -> bool {
        let evaluations = u32::try_from(run.curve.len()).unwrap_or(u32::MAX);
        u64::from(evaluations) >= self.evaluations
            || self.time.is_some_and(|time| run.spent + evaluations * EVALUATION >= time)
    }

    /// Evaluates a point; the value and the outcome.
    fn see(&self, run: &mut Run, point: &Point) -> Result<(f64, Outcome)> {
        let outcome = self.problem.evaluate(point, 0);
        let Outcome::Measured(measurement) = &outcome else {
            return Err(format!("the function gave {outcome:?}").into());
        };
        let value = measurement.metrics[0];
        let lowest = run.curve.last().copied().unwrap_or(f64::INFINITY);
        run.curve.push(lowest.min(value - self.optimum));
        Ok((value, outcome))
    }
}

impl Run {
    /// What was left at the end, and the other values.
    fn records(&self, method: &str, task: &Task) -> Vec<Record> {
        let record = |problem: String, value: f64| Record {
            method: method.into(),
            version: self.version.clone(),
            problem,
            seed: task.seed,
            n: task.evaluations,
            value,
            seconds: self.spent.as_secs_f64(),
        };
        let left = record(task.name.clone(), self.curve.last().copied().unwrap_or(f64::INFINITY));
        let more = self.more.iter().map(|(what, value)| record(format!("{}, {what}", task.name), *value));
        std::iter::once(left).chain(more).collect()
    }
}

/// The name of a function in so many dimensions (0: of its own).
pub(super) fn name(function: &str, dims: i64) -> String {
    if dims > 0 { format!("{function} {dims}-d") } else { function.to_owned() }
}

/// Whether a method is registered; says so if it is not.
pub(super) fn is_registered(method: &str) -> bool {
    let known = METHODS.iter().any(|entry| entry.name == method);
    if !known {
        super::log(&format!("SKIPPED: no method is called {method}"));
    }
    known
}

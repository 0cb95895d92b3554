//! Our CMA-ES beside pycma, from the same start with the same population, on the same functions.

use std::time::Instant;

use pleach_search::problems::{Setup, TestProblem, problem};
use pleach_search::{Literal, Measurement, Options, Outcome, Point, Search, Seed};
use serde_json::json;

use super::record::{Log, Record, Row};
use super::statistics::median;
use super::{Figure, peer, version};
use crate::Result;

pub(super) const FIGURE: Figure = Figure {
    name: "same-cmaes",
    about: "cmaes and pycma, same x0, sigma and popsize, 6 functions x 20 seeds: what is left to the optimum",
    minutes: 10,
    run,
    summarise,
    picture: None,
};

/// Function, dimensions (0: its own), evaluations.
const FUNCTIONS: &[(&str, i64, u64)] = &[
    ("ackley", 10, 4_000),
    ("levy", 10, 4_000),
    ("rosenbrock", 10, 8_000),
    ("rastrigin", 10, 4_000),
    ("branin", 0, 600),
    ("hartmann-6", 0, 1_500),
];
const SEEDS: u64 = 20;
/// Of the side of the box.
const SIGMA: f64 = 0.2;
/// A function counts as solved this close to its optimum.
const SOLVED: f64 = 1e-8;

/// One function with one start.
struct Task {
    problem: TestProblem,
    optimum: f64,
    start: Vec<f64>,
    popsize: u64,
    evaluations: u64,
    seed: u64,
}

impl Task {
    fn new(name: &str, dims: i64, evaluations: u64, seed: u64) -> Result<Self> {
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
        let problem = problem(name)?.build(&Setup { options: &options, ..Setup::default() })?;
        let dims = problem.problem().space().unit_len();
        let mut rng = Seed::new(seed).child("start", 0).rng(0);
        let start = (0..dims).map(|_| rng.unit()).collect();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small positive number"
        )]
        let popsize = 4 + (3.0 * (dims as f64).ln()) as u64;
        let optimum = problem.optimum().ok_or("the functions have a known optimum")?;
        Ok(Self { problem, optimum, start, popsize, evaluations, seed })
    }

    fn regret(&self, point: &Point) -> Result<f64> {
        match self.problem.evaluate(point, 0) {
            Outcome::Measured(measurement) => Ok(measurement.metrics[0] - self.optimum),
            other => Err(format!("the function gave {other:?}").into()),
        }
    }
}

/// What is left at the end, and the evaluations until solved.
struct Run {
    regret: f64,
    evaluations: u64,
}

impl Run {
    fn new(task: &Task) -> Self {
        Self { regret: f64::INFINITY, evaluations: task.evaluations }
    }

    fn see(&mut self, evaluation: u64, regret: f64) {
        if regret <= SOLVED && self.regret > SOLVED {
            self.evaluations = evaluation;
        }
        self.regret = self.regret.min(regret);
    }
}

fn run(log: &mut Log) -> Result<()> {
    let python = peer::python()?;
    for &(name, dims, evaluations) in FUNCTIONS {
        for index in 0..SEEDS {
            let seed = Seed::new(log.seed_base).child(name, index).value();
            let task = Task::new(name, dims, evaluations, seed)?;
            for method in ["cmaes", "pycma"] {
                if log.has(method, &solved(name), seed, evaluations) {
                    continue;
                }
                let start = Instant::now();
                let (run, version) =
                    if method == "cmaes" { (ours(&task)?, version()) } else { pycma(&task, &python)? };
                for (problem, value) in
                    [(name.to_owned(), run.regret), (solved(name), run.evaluations as f64)]
                {
                    log.push(&Record {
                        method: method.into(),
                        version: version.clone(),
                        problem,
                        seed,
                        n: evaluations,
                        value,
                        seconds: start.elapsed().as_secs_f64(),
                    })?;
                }
            }
        }
    }
    Ok(())
}

fn solved(name: &str) -> String {
    format!("{name}, evaluations until solved")
}

fn ours(task: &Task) -> Result<Run> {
    let options = Options::from([
        ("sigma0".to_owned(), Literal::from(SIGMA)),
        ("popsize".to_owned(), Literal::from(i64::try_from(task.popsize)?)),
        ("restarts".to_owned(), Literal::from("none")),
    ]);
    let mut search = Search::new(task.problem.problem().clone(), "cmaes", &options, Seed::new(task.seed))?;
    let mut run = Run::new(task);
    for evaluation in 1..=task.evaluations {
        // The first mean is the first trial of the user's; pycma is given its value too.
        let number = match evaluation {
            1 => search.enqueue(task.problem.problem().space().decode(&task.start))?,
            _ => search.ask(1)?[0],
        };
        let regret = task.regret(&search.history().trial(number).point)?;
        run.see(evaluation, regret);
        search.tell(number, Outcome::Measured(Measurement::new(vec![regret])))?;
    }
    Ok(run)
}

fn pycma(task: &Task, python: &std::path::Path) -> Result<(Run, String)> {
    let mut peer = peer::Dialogue::start(python, "cma_peer.py")?;
    peer.say(&json!({
        "x0": task.start, "sigma": SIGMA, "popsize": task.popsize, "seed": task.seed >> 33,
        "evaluations": task.evaluations - 1,
    }))?;
    let mut run = Run::new(task);
    run.see(1, task.regret(&task.problem.problem().space().decode(&task.start))?);
    let mut evaluation = 1;
    loop {
        let answer = peer.hear()?;
        let Some(points) = answer["points"].as_array() else {
            peer.end()?;
            return Ok((run, answer["version"].as_str().unwrap_or_default().into()));
        };
        let mut values = Vec::with_capacity(points.len());
        for point in points {
            let unit_point: Vec<f64> = serde_json::from_value(point.clone())?;
            let regret = task.regret(&task.problem.problem().space().decode(&unit_point))?;
            evaluation += 1;
            run.see(evaluation, regret);
            values.push(regret);
        }
        peer.say(&json!({ "values": values }))?;
    }
}

fn summarise(records: &[Record]) -> Vec<Row> {
    let of = |method: &str, problem: &str, floor: f64| {
        let runs = records.iter().filter(|r| r.method == method && r.problem == problem);
        median(&runs.map(|r| r.value.max(floor)).collect::<Vec<_>>())
    };
    let mut rows = Vec::new();
    let mut good = 0.0;
    for (name, ..) in FUNCTIONS {
        let (mine, theirs) = (of("cmaes", name, SOLVED), of("pycma", name, SOLVED));
        let ratio = mine / theirs;
        good += f64::from(u8::from(ratio <= 1.05));
        rows.push(Row::new(format!("{name}, median regret over pycma's"), ratio));
        rows.push(Row::new(format!("{name}, median regret"), mine));
        rows.push(Row::new(format!("{name}, median regret of pycma"), theirs));
        let until = solved(name);
        rows.push(Row::new(
            format!("{name}, evaluations until solved over pycma's"),
            of("cmaes", &until, 0.0) / of("pycma", &until, 0.0),
        ));
    }
    rows.push(Row::new("functions with a median ratio of at most 1.05", good));
    rows
}

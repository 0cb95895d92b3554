//! Our CMA-ES beside pycma, from the same start with the same population, on the same functions.

use pleach_search::{Literal, Options, Seed};
use serde_json::json;

use super::Figure;
use super::jobs;
use super::minimise::{Run, Task, name};
use super::record::{Log, Record, Row};
use super::statistics::median;
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
const SOLVED_AFTER: &str = "evaluations until solved";

fn run(log: &mut Log) -> Result<()> {
    let mut all = Vec::new();
    for &(function, dims, evaluations) in FUNCTIONS {
        for index in 0..SEEDS {
            for method in ["cmaes", "pycma"] {
                let task = Task::of(log, function, dims, evaluations, index)?;
                all.push(task.job(method, move |task| minimise(task, method)));
            }
        }
    }
    jobs::run(log, all)
}

/// Both get the value of the same start, which is the first mean.
fn minimise(task: &Task, method: &str) -> Result<Run> {
    let mut rng = Seed::new(task.seed).child("start", 0).rng(0);
    let start: Vec<f64> = (0..task.dims()).map(|_| rng.unit()).collect();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    let popsize = 4 + (3.0 * (task.dims() as f64).ln()) as u32;
    let mut run = if method == "cmaes" {
        let options = Options::from([
            ("sigma0".to_owned(), Literal::from(SIGMA)),
            ("popsize".to_owned(), Literal::from(i64::from(popsize))),
            ("restarts".to_owned(), Literal::from("none")),
        ]);
        task.ours("cmaes", &options, Some(&start))?
    } else {
        let settings = json!({ "x0": start, "sigma": SIGMA, "popsize": popsize, "restarts": false });
        task.peer("pycma", &settings, Some(&start))?
    };
    let until = run.curve.iter().position(|&regret| regret <= SOLVED);
    run.more.push((SOLVED_AFTER, until.map_or(task.evaluations as f64, |index| index as f64 + 1.0)));
    Ok(run)
}

fn summarise(records: &[Record]) -> Vec<Row> {
    let of = |method: &str, problem: &str| {
        let runs = records.iter().filter(|r| r.method == method && r.problem == problem);
        median(&runs.map(|r| r.value.max(SOLVED)).collect::<Vec<_>>())
    };
    let mut rows = Vec::new();
    let mut good = 0.0;
    for &(function, dims, _) in FUNCTIONS {
        let name = name(function, dims);
        let (mine, theirs) = (of("cmaes", &name), of("pycma", &name));
        let ratio = mine / theirs;
        good += f64::from(u8::from(ratio <= 1.05));
        rows.push(Row::new(format!("{name}, median regret over pycma's"), ratio));
        rows.push(Row::new(format!("{name}, median regret"), mine));
        rows.push(Row::new(format!("{name}, median regret of pycma"), theirs));
        let until = format!("{name}, {SOLVED_AFTER}");
        rows.push(Row::new(format!("{until} over pycma's"), of("cmaes", &until) / of("pycma", &until)));
    }
    rows.push(Row::new("functions with a median ratio of at most 1.05", good));
    rows
}

//! Methods of ours beside implementations of the same methods.

use serde_json::json;

use super::Figure;
use super::contest::cell;
use super::jobs;
use super::minimise::{Task, is_registered, name};
use super::record::{Log, Record, Row};
use crate::Result;

pub(super) const FIGURE: Figure = Figure {
    name: "same-method",
    about: "tpe, gp and turbo beside implementations of the same methods, 6 functions x 20 seeds: median regrets",
    minutes: 120,
    run,
    summarise,
    picture: None,
};

/// Function, dimensions (0: its own), evaluations.
const FUNCTIONS: &[(&str, i64, u64)] = &[
    ("branin", 0, 60),
    ("hartmann-6", 0, 100),
    ("ackley", 5, 100),
    ("levy", 10, 100),
    ("rosenbrock", 5, 100),
    ("rastrigin", 5, 100),
];
const SEEDS: u64 = 20;

/// A method of ours and a peer.
const PAIRS: &[(&str, &str)] =
    &[("tpe", "optuna-tpe"), ("gp", "optuna-gp"), ("gp", "botorch-logei"), ("turbo", "turbo-1")];

fn run(log: &mut Log) -> Result<()> {
    let mut all = Vec::new();
    for index in 0..SEEDS {
        for &(function, dims, evaluations) in FUNCTIONS {
            let task = || Task::of(log, function, dims, evaluations, index);
            for method in ["tpe", "gp", "turbo"].into_iter().filter(|method| is_registered(method)) {
                all.push(task()?.job(method, move |task| task.ours(method, &task.options(method)?, None)));
            }
            for (_, peer) in PAIRS {
                all.push(task()?.job(peer, move |task| task.peer(peer, &json!({ "batch": 1 }), None)));
            }
        }
    }
    jobs::run(log, all)
}

fn summarise(records: &[Record]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (method, peer) in PAIRS {
        let mut good = 0.0;
        for &(function, dims, _) in FUNCTIONS {
            let problem = name(function, dims);
            let ((mine, n), (theirs, m)) = (cell(records, method, &problem), cell(records, peer, &problem));
            good += f64::from(u8::from(mine / theirs <= 1.05));
            rows.push(Row::new(format!("{problem}, {method}, median regret of {n} runs"), mine));
            rows.push(Row::new(format!("{problem}, {peer}, median regret of {m} runs"), theirs));
            rows.push(Row::new(format!("{problem}, {method} over {peer}"), mine / theirs));
        }
        rows.push(Row::new(format!("{method} over {peer}, functions with a ratio of at most 1.05"), good));
    }
    rows
}

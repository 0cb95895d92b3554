//! Partitions and the best of our methods beside peers, on functions in 20 and 100 dimensions.

use std::time::Duration;

use serde_json::json;

use super::Figure;
use super::contest::{cell, log_ratios, ratio_rows};
use super::jobs;
use super::minimise::{Task, is_registered, name};
use super::record::{Log, Record, Row};
use crate::Result;

pub(super) const IN_20: Figure = Figure {
    name: "synthetic-20d",
    about: "final regret beside peers, 4 functions in 20 dimensions, 500 evaluations x 20 seeds",
    minutes: 60,
    run: |log| run(log, &AT_20),
    summarise: |records| summarise(records, &AT_20),
    picture: None,
};

pub(super) const IN_TIME: Figure = Figure {
    name: "synthetic-20d-time",
    about: "the same where 60 s pay for the optimiser and for evaluations of 5 ms, x 3 seeds",
    minutes: 60,
    run: |log| run(log, &AT_20_IN_TIME),
    summarise: |records| summarise(records, &AT_20_IN_TIME),
    picture: None,
};

pub(super) const IN_100: Figure = Figure {
    name: "synthetic-100d",
    about: "final regret beside peers, 3 functions in 100 dimensions, 1,000 evaluations x 10 seeds",
    minutes: 120,
    run: |log| run(log, &AT_100),
    summarise: |records| summarise(records, &AT_100),
    picture: None,
};

/// Functions with what may be spent on each.
struct Contest {
    functions: &'static [&'static str],
    dims: i64,
    evaluations: u64,
    time: Option<Duration>,
    seeds: u64,
    /// Of a peer that takes minutes a run.
    slow_seeds: u64,
}

const AT_20: Contest = Contest {
    functions: &["ackley", "levy", "rosenbrock", "rastrigin"],
    dims: 20,
    evaluations: 500,
    time: None,
    seeds: 20,
    slow_seeds: 5,
};

/// 60 s pay for at most 12,000 evaluations of 5 ms.
const AT_20_IN_TIME: Contest =
    Contest { evaluations: 12_000, time: Some(Duration::from_mins(1)), seeds: 3, slow_seeds: 3, ..AT_20 };

const AT_100: Contest = Contest {
    functions: &["ackley", "levy", "rastrigin"],
    dims: 100,
    evaluations: 1_000,
    time: None,
    seeds: 10,
    slow_seeds: 5,
};

const METHODS: &[&str] = &["la-mcts", "auto", "gp-cmaes", "cmaes"];

/// Peers, and whether one takes minutes a run.
const PEERS: &[(&str, bool)] = &[
    ("pycma", false),
    ("optuna-cma", false),
    ("nevergrad-ngopt", false),
    ("optuna-tpe", false),
    ("turbo-1", true),
];

/// The batch of TuRBO-1, as its authors use it in experiments of this size.
const TURBO_BATCH: u64 = 10;

fn run(log: &mut Log, contest: &Contest) -> Result<()> {
    let mut all = Vec::new();
    for &method in METHODS.iter().filter(|method| is_registered(method)) {
        for task in tasks(log, contest, contest.seeds)? {
            all.push(task.job(method, move |task| task.ours(method, &task.options(method)?, None)));
        }
    }
    for &(peer, slow) in PEERS {
        for task in tasks(log, contest, if slow { contest.slow_seeds } else { contest.seeds })? {
            all.push(task.job(peer, move |task| task.peer(peer, &json!({ "batch": TURBO_BATCH }), None)));
        }
    }
    jobs::run(log, all)
}

/// Seeds outermost, so that a run that is cut short has something of every function.
fn tasks(log: &Log, contest: &Contest, seeds: u64) -> Result<Vec<Task>> {
    let mut tasks = Vec::new();
    for index in 0..seeds {
        for function in contest.functions {
            let mut task = Task::of(log, function, contest.dims, contest.evaluations, index)?;
            if let Some(time) = contest.time {
                task = task.within(time);
            }
            tasks.push(task);
        }
    }
    Ok(tasks)
}

fn summarise(records: &[Record], contest: &Contest) -> Vec<Row> {
    let mut rows = Vec::new();
    let suffix = contest.time.map_or(String::new(), |time| format!(", {} s", time.as_secs()));
    let mut best_peers = Vec::new();
    for function in contest.functions {
        let problem = name(function, contest.dims) + &suffix;
        for method in METHODS.iter().copied().chain(PEERS.iter().map(|(peer, _)| *peer)) {
            let (median, n) = cell(records, method, &problem);
            rows.push(Row::new(format!("{problem}, {method}, median regret of {n} runs"), median));
        }
        let left = |peer: &str| cell(records, peer, &problem).0;
        let best = PEERS.iter().map(|(peer, _)| *peer).filter(|peer| left(peer).is_finite());
        if let Some(best) = best.min_by(|a, b| left(a).total_cmp(&left(b))) {
            best_peers.push((problem, best));
        }
    }
    for method in METHODS {
        let ratios: Vec<Vec<f64>> =
            best_peers.iter().map(|(problem, peer)| log_ratios(records, method, peer, problem)).collect();
        let mut worst = f64::NAN;
        for ((problem, peer), ratios) in best_peers.iter().zip(&ratios) {
            let [mean, low, high] = ratio_rows(
                &format!("{problem}, {method} over the best peer, {peer}"),
                std::slice::from_ref(ratios),
            );
            worst = worst.max(mean.value);
            rows.extend([mean, low, high]);
        }
        rows.extend(ratio_rows(&format!("{method} over the best peers"), &ratios));
        rows.push(Row::new(format!("{method} over the best peers, worst function"), worst));
    }
    rows
}

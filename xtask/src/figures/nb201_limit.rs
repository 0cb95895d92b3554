//! How many trained networks it takes to find the most accurate one that is fast enough.

use std::time::Instant;

use pleach_search::{Goal, Literal, Metric, Options, Seed};

use super::jobs::{self, Job};
use super::minimise::is_registered;
use super::record::{Log, Record, Row};
use super::statistics::median;
use super::tables::{Optimizer, Quest, table};
use super::{Figure, version};
use crate::Result;

pub(super) const FIGURE: Figure = Figure {
    name: "nb201-limit",
    about: "queries to the most accurate net of NAS-Bench-201 under three limits of latency, 20 seeds",
    minutes: 15,
    run,
    summarise,
    picture: None,
};

const OURS: &[&str] = &["auto", "lanas", "random"];
const PEER: &str = "optuna-tpe";
/// Milliseconds; a tenth, a quarter and a half of all nets are as fast. It is measured with the accuracy.
const LIMITS: &[f64] = &[12.0, 14.0, 16.0];
const SEEDS: u64 = 20;
const PEER_SEEDS: u64 = 10;
/// A run that has not found the best net by then counts as one query more.
const BUDGET: u64 = 1_000;

fn name(limit: f64) -> String {
    format!("cifar10 within {limit} ms")
}

fn run(log: &mut Log) -> Result<()> {
    let mut all = Vec::new();
    for &limit in LIMITS {
        let metrics = [
            Metric::objective("val_accuracy", Goal::Max),
            Metric::constraint("latency_ms", Goal::Min, limit),
        ];
        let options = Options::from([("dataset".to_owned(), Literal::from("cifar10"))]);
        let problem = table("nas-bench-201", &options, &metrics)?;
        let ours = OURS.iter().filter(|method| is_registered(method));
        let searchers = ours.map(|&method| (method, Optimizer::Ours { method }, SEEDS));
        for (who, optimizer, seeds) in searchers.chain([(PEER, Optimizer::Peer { name: PEER }, PEER_SEEDS)]) {
            for index in 0..seeds {
                let seed = Seed::new(log.seed_base).child("nb201-limit", index).value();
                let quest = Quest { problem: problem.clone(), seed, queries: BUDGET };
                all.push(job(who, optimizer.clone(), name(limit), quest));
            }
        }
    }
    jobs::run(log, all)
}

fn job(who: &'static str, optimizer: Optimizer, problem: String, quest: Quest) -> Job {
    let (seed, n, name) = (quest.seed, quest.queries, problem.clone());
    let work = move || {
        let start = Instant::now();
        let queries = quest.queries_to_best(&optimizer)?;
        Ok(vec![Record {
            method: who.into(),
            version: version(),
            problem: name,
            seed,
            n,
            value: queries as f64,
            seconds: start.elapsed().as_secs_f64(),
        }])
    };
    Job { method: who.into(), problem, seed, n, work: Box::new(work) }
}

fn summarise(records: &[Record]) -> Vec<Row> {
    let mut rows = Vec::new();
    for &limit in LIMITS {
        let problem = name(limit);
        let median_of = |method: &str| {
            let runs = records.iter().filter(|r| r.method == method && r.problem == problem);
            median(&runs.map(|r| r.value).collect::<Vec<_>>())
        };
        for who in OURS.iter().chain([&PEER]) {
            rows.push(Row::new(format!("{who}, {problem}, median queries"), median_of(who)));
        }
        // Those that were not found count as the budget, so the ratios are lower bounds.
        for other in [PEER, "random"] {
            let ratio = median_of(other) / median_of("auto");
            rows.push(Row::new(format!("{other} over auto, {problem}"), ratio));
        }
    }
    rows
}

//! How many trained networks a model looks at before it finds the best of NAS-Bench-201.

use std::time::Instant;

use pleach_search::{Literal, Options, Seed};

use super::jobs::{self, Job};
use super::minimise::is_registered;
use super::record::{Log, Record, Row};
use super::statistics::{median, quantile};
use super::tables::{Optimizer, Quest, table};
use super::{Figure, picture, version};
use crate::Result;

pub(super) const FIGURE: Figure = Figure {
    name: "nb201-queries",
    about: "queries to the net of best mean validation accuracy on NAS-Bench-201, 100 seeds a data set",
    minutes: 5,
    run,
    summarise,
    picture: Some(picture),
};

/// A name, the method, and whether it sees descriptors of the cells.
const SEARCHERS: &[(&str, &str, bool)] = &[
    ("auto", "auto", true),
    ("lanas", "lanas", true),
    ("auto without descriptors", "auto", false),
    ("aging-evolution", "aging-evolution", false),
];
const DATASETS: &[&str] = &["cifar10", "cifar100", "imagenet16-120"];
const SEEDS: u64 = 100;
/// A run that has not found the best net by then counts as one query more.
const BUDGET: u64 = 300;

fn run(log: &mut Log) -> Result<()> {
    let mut all = Vec::new();
    for &dataset in DATASETS {
        for descriptors in [true, false] {
            let options = Options::from([
                ("dataset".to_owned(), Literal::from(dataset)),
                ("descriptors".to_owned(), Literal::from(descriptors)),
            ]);
            let problem = table("nas-bench-201", &options, &[])?;
            let searchers = SEARCHERS.iter().filter(|(.., sees)| *sees == descriptors);
            for &(name, method, _) in searchers.filter(|(_, method, _)| is_registered(method)) {
                for index in 0..SEEDS {
                    let seed = Seed::new(log.seed_base).child("nb201-queries", index).value();
                    let quest = Quest { problem: problem.clone(), seed, queries: BUDGET };
                    all.push(job(name, method, dataset, quest));
                }
            }
        }
    }
    jobs::run(log, all)
}

fn job(name: &'static str, method: &'static str, dataset: &'static str, quest: Quest) -> Job {
    let (seed, n) = (quest.seed, quest.queries);
    let work = move || {
        let start = Instant::now();
        let queries = quest.queries_to_best(&Optimizer::Ours { method })?;
        Ok(vec![Record {
            method: name.into(),
            version: version(),
            problem: dataset.into(),
            seed,
            n,
            value: queries as f64,
            seconds: start.elapsed().as_secs_f64(),
        }])
    };
    Job { method: name.into(), problem: dataset.into(), seed, n, work: Box::new(work) }
}

fn picture(records: &[Record]) -> String {
    let curves = picture::curves(records, &["auto", "aging-evolution"], DATASETS);
    picture::share_found(&curves, DATASETS.len(), BUDGET as f64)
}

fn summarise(records: &[Record]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, ..) in SEARCHERS {
        for dataset in DATASETS {
            let runs = || records.iter().filter(|r| r.method == *name && r.problem == *dataset);
            let queries: Vec<f64> = runs().map(|r| r.value).collect();
            let found = queries.iter().filter(|&&queries| queries <= BUDGET as f64).count();
            let total: f64 = queries.iter().map(|queries| queries.min(BUDGET as f64)).sum();
            let seconds: f64 = runs().map(|r| r.seconds).sum();
            let row = |what: &str, value| Row::new(format!("{name}, {dataset}, {what}"), value);
            rows.push(row("median queries", median(&queries)));
            rows.push(row("90 % quantile", quantile(&queries, 0.9)));
            rows.push(row("share found", found as f64 / queries.len() as f64));
            rows.push(row("ms a query", 1e3 * seconds / total));
        }
    }
    rows
}

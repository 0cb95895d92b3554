//! How many trained networks aging evolution looks at before it finds the best of NAS-Bench-201.

use std::time::Instant;

use pleach_search::problems::{Setup, TestProblem, problem};
use pleach_search::{Literal, Options, Outcome, Search, Seed};

use super::record::{Log, Record, Row};
use super::statistics::{median, quantile};
use super::{Figure, picture, version};
use crate::Result;

pub(super) const FIGURE: Figure = Figure {
    name: "nb201-evolution",
    about: "queries to the net of best mean validation accuracy on NAS-Bench-201, 50 seeds a data set",
    minutes: 2,
    run,
    summarise,
    picture: Some(picture),
};

const METHODS: &[&str] = &["aging-evolution", "random"];
const DATASETS: &[&str] = &["cifar10", "cifar100", "imagenet16-120"];
const SEEDS: u64 = 50;
/// A run that has not found the best net by then counts as this many queries.
const BUDGET: u64 = 2_000;

fn run(log: &mut Log) -> Result<()> {
    for &dataset in DATASETS {
        let options = Options::from([("dataset".to_owned(), Literal::from(dataset))]);
        let problem = problem("nas-bench-201")?.build(&Setup { options: &options, ..Setup::default() })?;
        for index in 0..SEEDS {
            let seed = Seed::new(log.seed_base).child("nb201-evolution", index).value();
            for method in METHODS {
                if log.has(method, dataset, seed, BUDGET) {
                    continue;
                }
                let start = Instant::now();
                let queries = queries_to_best(&problem, method, seed)?;
                log.push(&Record {
                    method: (*method).into(),
                    version: version(),
                    problem: dataset.into(),
                    seed,
                    n: BUDGET,
                    value: queries as f64,
                    seconds: start.elapsed().as_secs_f64(),
                })?;
            }
        }
    }
    Ok(())
}

fn queries_to_best(problem: &TestProblem, method: &str, seed: u64) -> Result<u64> {
    let target = problem.optimum().ok_or("the table knows its best entry")?;
    let mut search = Search::new(problem.problem().clone(), method, &Options::new(), Seed::new(seed))?;
    for query in 1..=BUDGET {
        let number = search.ask(1)?[0];
        let outcome = problem.evaluate(&search.history().trial(number).point, number);
        let value = match &outcome {
            Outcome::Measured(measurement) => measurement.metrics[problem.problem().objective_index()],
            other => return Err(format!("the table gave {other:?}").into()),
        };
        search.tell(number, outcome)?;
        if value >= target {
            return Ok(query);
        }
    }
    Ok(BUDGET)
}

fn picture(records: &[Record]) -> String {
    let curves = picture::curves(records, METHODS, DATASETS);
    picture::share_found(&curves, DATASETS.len(), BUDGET as f64)
}

fn summarise(records: &[Record]) -> Vec<Row> {
    let mut rows = Vec::new();
    for method in METHODS {
        for dataset in DATASETS {
            let queries: Vec<f64> = records
                .iter()
                .filter(|r| r.method == *method && r.problem == *dataset)
                .map(|r| r.value)
                .collect();
            rows.push(Row::new(format!("{method}, {dataset}, median queries"), median(&queries)));
            rows.push(Row::new(format!("{method}, {dataset}, 90 % quantile"), quantile(&queries, 0.9)));
        }
    }
    rows
}

//! Hyper-parameters of small networks, looked up in tables: methods that see single runs, judged by means.

use std::sync::Arc;
use std::time::Instant;

use pleach_search::problems::TestProblem;
use pleach_search::{Literal, Options, Outcome, Seed};

use super::Figure;
use super::jobs::{self, Job};
use super::minimise::is_registered;
use super::record::{Log, Record, Row};
use super::statistics::median;
use super::tables::{Optimizer, Quest, is_better, table};
use crate::Result;

pub(super) const FIGURE: Figure = Figure {
    name: "hpo-tables",
    about: "2 tables of FCNet and 4 of MLPs: regret of the mean after 50 and 100 single runs, 20 seeds, beside peers",
    minutes: 30,
    run,
    summarise,
    picture: None,
};

const TABLES: &[(&str, &str)] = &[
    ("fcnet", "protein_structure"),
    ("fcnet", "slice_localization"),
    ("hpobench-mlp", "car"),
    ("hpobench-mlp", "phoneme"),
    ("hpobench-mlp", "segment"),
    ("hpobench-mlp", "vehicle"),
];
const OURS: &[&str] = &["auto", "lanas", "aging-evolution", "random"];
/// A peer, and its number of seeds: a forest takes minutes a run.
const PEERS: &[(&str, u64)] = &[("optuna-tpe", 20), ("smac", 5)];
const SEEDS: u64 = 20;
/// Queries after which the best so far is judged.
const LOOKS: [u64; 2] = [50, 100];
/// Queries in which the best of a table of means is to be found.
const BUDGET: u64 = 200;

fn run(log: &mut Log) -> Result<()> {
    let mut all = Vec::new();
    for &(problem, name) in TABLES {
        let file = format!("hpo/{}_{name}.csv.gz", problem.replace("hpobench-mlp", "hpobench_mlp"));
        let options = |replicate: &str, seed: i64| {
            Options::from([
                ("path".to_owned(), Literal::from(file.as_str())),
                ("replicate".to_owned(), Literal::from(replicate)),
                ("seed".to_owned(), Literal::from(seed)),
            ])
        };
        let means = table(problem, &options("mean", 0), &[])?;
        for index in 0..SEEDS {
            let seed = Seed::new(log.seed_base).child("hpo-tables", index).value();
            let small = i64::try_from(seed >> 1).expect("63 bits");
            let draws = table(problem, &options("draw", small), &[])?;
            let ours = OURS.iter().filter(|method| is_registered(method));
            let ours = ours.map(|&method| (method, Optimizer::Ours { method }, SEEDS));
            let peers = PEERS.iter().map(|&(name, seeds)| (name, Optimizer::Peer { name }, seeds));
            for (who, optimizer, _) in ours.chain(peers).filter(|(.., seeds)| index < *seeds) {
                let quest = Quest { problem: draws.clone(), seed, queries: LOOKS[1] };
                all.push(regret_job(who, optimizer, name, quest, means.clone()));
            }
            if problem == "fcnet" && is_registered("auto") {
                let quest = Quest { problem: means.clone(), seed, queries: BUDGET };
                all.push(queries_job(name, quest));
            }
        }
    }
    jobs::run(log, all)
}

/// The name of a regret in the records.
fn regret_name(table: &str, queries: u64) -> String {
    format!("{table}, regret after {queries}")
}

fn queries_name(table: &str) -> String {
    format!("{table}, queries to the best")
}

/// Records how much worse than the best of the table the mean of the incumbent is.
fn regret_job(
    who: &'static str,
    optimizer: Optimizer,
    table: &'static str,
    quest: Quest,
    means: Arc<TestProblem>,
) -> Job {
    let (seed, n) = (quest.seed, quest.queries);
    let work = move || {
        let start = Instant::now();
        let optimum = means.optimum().ok_or("the table is not empty")?;
        let metric = means.problem().objective().clone();
        let (mut best, mut query, mut regrets) = (None, 0, Vec::new());
        let version = quest.search(&optimizer, |point, measurement| {
            query += 1;
            let value = measurement.metrics[0];
            let leads = best.as_ref().is_none_or(|(leader, _)| is_better(&metric, value, *leader));
            if leads && let Outcome::Measured(mean) = means.evaluate(point, 0) {
                best = Some((value, (mean.metrics[0] - optimum).abs()));
            }
            if LOOKS.contains(&query) {
                regrets.push((query, best.map_or(f64::INFINITY, |(_, regret)| regret)));
            }
            false
        })?;
        // A peer that repeated itself has no more to show than it has found.
        let last = best.map_or(f64::INFINITY, |(_, regret)| regret);
        let record = |look: &u64| Record {
            method: who.into(),
            version: version.clone(),
            problem: regret_name(table, *look),
            seed,
            n,
            value: regrets.iter().find(|(query, _)| query == look).map_or(last, |(_, regret)| *regret),
            seconds: start.elapsed().as_secs_f64(),
        };
        Ok(LOOKS.iter().map(record).collect())
    };
    Job { method: who.into(), problem: regret_name(table, n), seed, n, work: Box::new(work) }
}

fn queries_job(table: &'static str, quest: Quest) -> Job {
    let (seed, n, problem) = (quest.seed, quest.queries, queries_name(table));
    let name = problem.clone();
    let work = move || {
        let start = Instant::now();
        let queries = quest.queries_to_best(&Optimizer::Ours { method: "auto" })?;
        Ok(vec![Record {
            method: "auto".into(),
            version: super::version(),
            problem: name,
            seed,
            n,
            value: queries as f64,
            seconds: start.elapsed().as_secs_f64(),
        }])
    };
    Job { method: "auto".into(), problem, seed, n, work: Box::new(work) }
}

fn summarise(records: &[Record]) -> Vec<Row> {
    let values = |who: &str, problem: &str| -> Vec<f64> {
        records.iter().filter(|r| r.method == who && r.problem == problem).map(|r| r.value).collect()
    };
    let everyone: Vec<&str> = OURS.iter().copied().chain(PEERS.iter().map(|(name, _)| *name)).collect();
    let mut rows = Vec::new();
    let mut ranks = vec![Vec::new(); everyone.len()];
    for (_, table) in TABLES {
        for look in LOOKS {
            let problem = regret_name(table, look);
            let medians: Vec<f64> = everyone.iter().map(|who| median(&values(who, &problem))).collect();
            for (who, median) in everyone.iter().zip(&medians) {
                rows.push(Row::new(format!("{who}, {problem}, median"), *median));
            }
            for (ranks, own) in ranks.iter_mut().zip(&medians) {
                // Equal medians share their ranks; who has no run has no rank.
                let below = medians.iter().filter(|other| *other < own).count() as f64;
                let up_to = medians.iter().filter(|other| *other <= own).count() as f64;
                if own.is_finite() {
                    ranks.push(0.5 * (below + up_to + 1.0));
                }
            }
        }
    }
    let means: Vec<f64> = ranks.iter().map(|ranks| ranks.iter().sum::<f64>() / ranks.len() as f64).collect();
    for (who, mean) in everyone.iter().zip(&means) {
        rows.push(Row::new(format!("{who}, mean rank of medians"), *mean));
    }
    let others = means[1..].iter().copied().filter(|mean| mean.is_finite()).fold(f64::INFINITY, f64::min);
    rows.push(Row::new("auto, mean rank over the best of the others", means[0] / others));
    for (_, table) in TABLES.iter().filter(|(problem, _)| *problem == "fcnet") {
        let problem = queries_name(table);
        rows.push(Row::new(format!("auto, {problem}, median"), median(&values("auto", &problem))));
    }
    rows
}

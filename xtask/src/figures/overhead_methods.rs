//! What one ask and one tell of the methods that model cost, with a rebuild of the model in the mean.

use std::time::Instant;

use pleach_search::{Goal, Metric, Options, Parameter, Problem, Search, Seed, Space};

use super::minimise::is_registered;
use super::overhead_memory::step;
use super::record::{Log, Record, Row};
use super::statistics::{median, quantile};
use super::{Figure, peer, version};
use crate::Result;

pub(super) const FIGURE: Figure = Figure {
    name: "overhead-methods",
    about: "milliseconds of ask + tell from n to 1.25 n trials, 20 floats, of methods that model; Optuna beside it",
    minutes: 60,
    run,
    summarise,
    picture: None,
};

/// A method and the numbers of trials at which it is measured.
const METHODS: &[(&str, &[u64])] = &[
    ("tpe", &[1_000, 5_000]),
    ("la-mcts+cmaes", &[1_000, 10_000, 100_000]),
    ("gp", &[300, 1_000]),
    ("gp-cmaes", &[300, 1_000]),
    ("turbo", &[300, 1_000]),
];
/// Sampler, trials before the clock starts, trials on the clock.
const OPTUNA: &[(&str, u64, u64)] = &[("tpe", 5_000, 30), ("gp", 300, 20), ("gp", 1_000, 5)];
const REPEATS: u64 = 3;

/// What is recorded of the trials from n to 1.25 n.
const VALUES: [&str; 3] = ["mean ms", "p99 ms", "max ms"];

fn run(log: &mut Log) -> Result<()> {
    let python = peer::python_with_torch()?;
    for repeat in 0..REPEATS {
        let seed = Seed::new(log.seed_base).child("overhead-methods", repeat).value();
        for &(method, sizes) in METHODS.iter().filter(|(method, _)| is_registered(method)) {
            if !sizes.iter().all(|&n| log.has(method, VALUES[0], seed, n)) {
                measure(log, method, sizes, seed)?;
            }
        }
        for &(sampler, n, trials) in OPTUNA {
            let method = format!("optuna {sampler}");
            if log.has(&method, VALUES[0], seed, n) {
                continue;
            }
            let start = Instant::now();
            let arguments = [sampler, &trials.to_string(), &n.to_string(), &(seed >> 33).to_string()];
            let answer = peer::measure(&python, "optuna_overhead.py", &arguments)?;
            log.push(&Record {
                method,
                version: answer["version"].as_str().unwrap_or_default().into(),
                problem: VALUES[0].into(),
                seed,
                n,
                value: answer["ms"].as_f64().ok_or("the peer printed no time")?,
                seconds: start.elapsed().as_secs_f64(),
            })?;
        }
    }
    Ok(())
}

fn measure(log: &mut Log, method: &str, sizes: &[u64], seed: u64) -> Result<()> {
    let parameters = (0..20).map(|i| Parameter::float(&format!("x{i}"), 0.0, 1.0)).collect();
    let problem = Problem::new(Space::new(parameters, &[])?, vec![Metric::objective("loss", Goal::Min)])?;
    let mut search = Search::new(problem, method, &Options::new(), Seed::new(seed))?;
    let start = Instant::now();
    for &n in sizes {
        while search.history().next_number() < n {
            step(&mut search)?;
        }
        let mut times = Vec::new();
        while search.history().next_number() < n + n / 4 {
            let clock = Instant::now();
            step(&mut search)?;
            times.push(clock.elapsed().as_secs_f64() * 1e3);
        }
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        for (what, value) in VALUES.into_iter().zip([mean, quantile(&times, 0.99), quantile(&times, 1.0)]) {
            log.push(&Record {
                method: method.into(),
                version: version(),
                problem: what.into(),
                seed,
                n,
                value,
                seconds: start.elapsed().as_secs_f64(),
            })?;
        }
    }
    Ok(())
}

fn summarise(records: &[Record]) -> Vec<Row> {
    let at = |method: &str, what: &str, n: u64| {
        let runs = records.iter().filter(|r| r.method == method && r.problem == what && r.n == n);
        median(&runs.map(|r| r.value).collect::<Vec<_>>())
    };
    let mut rows = Vec::new();
    for &(method, sizes) in METHODS {
        for &n in sizes {
            let row = |what| Row::new(format!("{method}, n = {n}, {what}"), at(method, what, n));
            rows.extend(VALUES.map(row));
        }
    }
    for &(sampler, n, _) in OPTUNA {
        let peer = at(&format!("optuna {sampler}"), VALUES[0], n);
        rows.push(Row::new(format!("Optuna {sampler}, n = {n}, {}", VALUES[0]), peer));
        rows.push(Row::new(
            format!("{sampler}, n = {n}, Optuna's time over ours"),
            peer / at(sampler, VALUES[0], n),
        ));
    }
    rows
}

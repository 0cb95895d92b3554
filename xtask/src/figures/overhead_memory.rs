//! What one ask and one tell cost in memory.

use std::time::Instant;

use pleach_search::{Goal, Measurement, Metric, Options, Outcome, Parameter, Problem, Search, Seed, Space};

use super::record::{Log, Record, Row};
use super::statistics::median;
use super::{Figure, peer, version};
use crate::Result;

pub(super) const FIGURE: Figure = Figure {
    name: "overhead-memory",
    about: "milliseconds of ask + tell in memory, 20 floats, up to 100,000 trials; Optuna beside it",
    minutes: 3,
    run,
    summarise,
    picture: None,
};

const METHODS: &[&str] = &["random", "sobol", "cmaes", "aging-evolution"];
const SIZES: &[u64] = &[100, 1_000, 10_000, 100_000];
const REPEATS: u64 = 5;
/// Sampler, trials before the clock starts, trials on the clock.
const OPTUNA: &[(&str, u64, u64)] = &[("random", 900, 100), ("cmaes", 900, 100), ("tpe", 900, 30)];

fn run(log: &mut Log) -> Result<()> {
    let python = peer::python()?;
    for repeat in 0..REPEATS {
        let seed = Seed::new(log.seed_base).child("overhead-memory", repeat).value();
        for method in METHODS {
            if !SIZES.iter().all(|&n| log.has(method, "20 floats", seed, n)) {
                for (n, ms, seconds) in windows(method, seed)? {
                    let record = Record {
                        method: (*method).into(),
                        version: version(),
                        problem: "20 floats".into(),
                        seed,
                        n,
                        value: ms,
                        seconds,
                    };
                    log.push(&record)?;
                }
            }
        }
        for &(sampler, warmup, trials) in OPTUNA {
            let (method, n) = (format!("optuna {sampler}"), warmup + trials);
            if log.has(&method, "20 floats", seed, n) {
                continue;
            }
            let start = Instant::now();
            let arguments = [sampler, &trials.to_string(), &warmup.to_string(), &(seed >> 33).to_string()];
            let answer = peer::measure(&python, "optuna_overhead.py", &arguments)?;
            log.push(&Record {
                method,
                version: answer["version"].as_str().unwrap_or_default().into(),
                problem: "20 floats".into(),
                seed,
                n,
                value: answer["ms"].as_f64().ok_or("the peer printed no time")?,
                seconds: start.elapsed().as_secs_f64(),
            })?;
        }
    }
    Ok(())
}

/// Milliseconds a trial over the last tenth of the trials before each size, and seconds until then.
fn windows(method: &str, seed: u64) -> Result<Vec<(u64, f64, f64)>> {
    let parameters = (0..20).map(|i| Parameter::float(&format!("x{i}"), 0.0, 1.0)).collect();
    let problem = Problem::new(Space::new(parameters, &[])?, vec![Metric::objective("loss", Goal::Min)])?;
    let mut search = Search::new(problem, method, &Options::new(), Seed::new(seed))?;
    let start = Instant::now();
    let mut told = 0;
    let mut rows = Vec::new();
    for &size in SIZES {
        while told < size - size / 10 {
            step(&mut search)?;
            told += 1;
        }
        let window = Instant::now();
        while told < size {
            step(&mut search)?;
            told += 1;
        }
        let ms = window.elapsed().as_secs_f64() * 1e3 / (size / 10) as f64;
        rows.push((size, ms, start.elapsed().as_secs_f64()));
    }
    Ok(rows)
}

/// Asks for a point and tells its squared distance from a point inside.
pub(super) fn step(search: &mut Search) -> Result<()> {
    let number = search.ask(1)?[0];
    let values = search.history().trial(number).point.values();
    let loss = values.iter().filter_map(pleach_search::Value::as_f64).map(|x| (x - 0.3).powi(2)).sum();
    search.tell(number, Outcome::Measured(Measurement::new(vec![loss])))?;
    Ok(())
}

fn summarise(records: &[Record]) -> Vec<Row> {
    let at = |method: &str, n: u64| {
        let values: Vec<f64> =
            records.iter().filter(|r| r.method == method && r.n == n).map(|r| r.value).collect();
        median(&values)
    };
    let mut rows = Vec::new();
    for method in METHODS {
        for &n in SIZES {
            rows.push(Row::new(format!("{method}, n = {n}, ms a trial"), at(method, n)));
        }
    }
    for &(sampler, warmup, trials) in OPTUNA {
        let n = warmup + trials;
        let peer = at(&format!("optuna {sampler}"), n);
        rows.push(Row::new(format!("Optuna {sampler}, n = {n}, ms a trial"), peer));
        if METHODS.contains(&sampler) {
            rows.push(Row::new(format!("{sampler}, Optuna's time over ours"), peer / at(sampler, n)));
        }
    }
    rows
}

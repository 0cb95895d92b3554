//! What a trial costs when it survives everything.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pleach_search::{Goal, Literal, Metric, Parameter, Seed};
use pleach_study::command::{Command, CommandEvaluator, CommandSpec};
use pleach_study::{Durability, Evaluation, RunOptions, Spec, StoreOptions, Study, Tell, run_workers};

use super::record::{Log, Record, Row};
use super::statistics::median;
use super::{Figure, peer, scratch, version};
use crate::Result;

pub(super) const FIGURE: Figure = Figure {
    name: "overhead-durable",
    about: "a trial through SQLite, from client processes and from commands; reopening; bytes; Optuna beside it",
    minutes: 6,
    run,
    summarise,
    picture: None,
};

const REPEATS: u64 = 7;
const LARGE: u64 = 100_000;

/// One thing to measure: how it is called in records and rows, how many trials, and the measurement.
struct Part {
    problem: &'static str,
    n: u64,
    measure: fn(&Path, u64, u64) -> Result<f64>,
}

const PARTS: &[Part] = &[
    Part { problem: "in process, ms a trial", n: 3_000, measure: in_process },
    Part { problem: "in process with FULL, ms a trial", n: 300, measure: in_process_full },
    Part { problem: "one write and fsync of the disk, ms", n: 300, measure: fsync },
    Part { problem: "2 client processes, trials a second", n: 3_000, measure: clients },
    Part { problem: "command trials with 2 workers, trials a second", n: 1_000, measure: commands },
];

fn run(log: &mut Log) -> Result<()> {
    let folder = scratch("overhead-durable")?;
    let python = peer::python()?;
    for repeat in 0..REPEATS {
        let seed = Seed::new(log.seed_base).child("overhead-durable", repeat).value();
        for part in PARTS {
            record(log, "pleach", part.problem, seed, part.n, || (part.measure)(&folder, seed, part.n))?;
        }
        optuna(log, &folder, &python, seed)?;
    }
    let seed = Seed::new(log.seed_base).child("overhead-durable", REPEATS).value();
    for method in ["cmaes", "random"] {
        let parts = [
            "reopen 100,000 trials with snapshot, s",
            "reopen 100,000 trials without snapshot, s",
            "bytes a trial",
        ];
        if parts.iter().all(|problem| log.has(method, problem, seed, LARGE)) {
            continue;
        }
        let file = folder.join(format!("{method}.db"));
        fill(&file, method, seed)?;
        let bytes = fs::metadata(&file)?.len() as f64 / LARGE as f64;
        record(log, method, parts[2], seed, LARGE, || Ok(bytes))?;
        record(log, method, parts[0], seed, LARGE, || reopen(&file))?;
        record(log, method, parts[1], seed, LARGE, || {
            let connection = rusqlite::Connection::open(&file)?;
            connection.execute("DELETE FROM snapshot", [])?;
            drop(connection);
            reopen(&file)
        })?;
    }
    Ok(())
}

/// Optuna beside [`in_process`].
fn optuna(log: &mut Log, folder: &Path, python: &Path, seed: u64) -> Result<()> {
    const TRIALS: u64 = 40;
    if log.has("optuna", PARTS[0].problem, seed, TRIALS) {
        return Ok(());
    }
    let file = folder.join("optuna.db");
    let _ = fs::remove_file(&file);
    let start = Instant::now();
    let (trials, seed_text, file) = (TRIALS.to_string(), (seed >> 33).to_string(), file.to_string_lossy());
    let answer = peer::measure(python, "optuna_overhead.py", &["random", &trials, "5", &seed_text, &file])?;
    log.push(&Record {
        method: "optuna".into(),
        version: answer["version"].as_str().unwrap_or_default().into(),
        problem: PARTS[0].problem.into(),
        seed,
        n: TRIALS,
        value: answer["ms"].as_f64().ok_or("the peer printed no time")?,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Measures and writes a record unless the log has it.
fn record(
    log: &mut Log,
    method: &str,
    problem: &str,
    seed: u64,
    n: u64,
    measure: impl FnOnce() -> Result<f64>,
) -> Result<()> {
    if log.has(method, problem, seed, n) {
        return Ok(());
    }
    let start = Instant::now();
    let value = measure()?;
    log.push(&Record {
        method: method.into(),
        version: version(),
        problem: problem.into(),
        seed,
        n,
        value,
        seconds: start.elapsed().as_secs_f64(),
    })
}

fn spec(method: &str, seed: u64) -> Spec {
    Spec {
        parameters: (0..20).map(|i| Parameter::float(&format!("x{i}"), 0.0, 1.0)).collect(),
        metrics: vec![Metric::objective("loss", Goal::Min)],
        method: method.into(),
        ..Spec::new("overhead", seed)
    }
}

/// A file of that name that does not exist yet.
fn fresh(folder: &Path, name: &str) -> Result<PathBuf> {
    let folder = folder.join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder.join("study.db"))
}

fn loss(params: &[(String, Literal)]) -> f64 {
    params.iter().filter_map(|(_, value)| value.as_f64()).map(|x| (x - 0.3).powi(2)).sum()
}

fn in_process(folder: &Path, seed: u64, n: u64) -> Result<f64> {
    ask_and_tell(&fresh(folder, "normal")?, seed, n, &StoreOptions::default())
}

fn in_process_full(folder: &Path, seed: u64, n: u64) -> Result<f64> {
    ask_and_tell(
        &fresh(folder, "full")?,
        seed,
        n,
        &StoreOptions { durability: Durability::Power, ..StoreOptions::default() },
    )
}

/// Milliseconds a trial, one ask and one tell each, every one acknowledged after its commit.
fn ask_and_tell(file: &Path, seed: u64, n: u64, options: &StoreOptions) -> Result<f64> {
    let study = Study::create(file, &spec("random", seed), options)?;
    let start = Instant::now();
    for _ in 0..n {
        step(&study, "figure")?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e3 / n as f64)
}

fn step(study: &Study, worker: &str) -> Result<()> {
    for trial in study.ask(worker, 1, None)? {
        study.tell(
            trial.number,
            trial.attempt,
            Tell::Done(Evaluation::from([("loss", loss(&trial.params))])),
        )?;
    }
    Ok(())
}

/// Milliseconds of appending 4 KiB and waiting for the disk.
fn fsync(folder: &Path, _seed: u64, n: u64) -> Result<f64> {
    let mut file = File::create(folder.join("fsync"))?;
    let start = Instant::now();
    for _ in 0..n {
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e3 / n as f64)
}

/// Trials a second of two client processes that ask and tell through the socket of this process.
fn clients(folder: &Path, seed: u64, n: u64) -> Result<f64> {
    let file = fresh(folder, "clients")?;
    let study = Study::create(&file, &spec("random", seed), &StoreOptions::default())?;
    let start = Instant::now();
    let clients: Vec<_> = (0..2)
        .map(|_| {
            std::process::Command::new(std::env::current_exe()?)
                .arg("client")
                .arg(&file)
                .arg((n / 2).to_string())
                .spawn()
        })
        .collect::<std::io::Result<_>>()?;
    for mut client in clients {
        if !client.wait()?.success() {
            return Err("a client failed".into());
        }
    }
    let rate = n as f64 / start.elapsed().as_secs_f64();
    drop(study);
    Ok(rate)
}

/// A client process of [`clients`].
pub(crate) fn client(file: &Path, trials: u64) -> Result<()> {
    let study = Study::open(file, None, &StoreOptions::default())?;
    for _ in 0..trials {
        step(&study, "client")?;
    }
    Ok(())
}

/// Trials a second of two workers that start `/bin/true` (which reports nothing, so each trial fails).
fn commands(folder: &Path, seed: u64, n: u64) -> Result<f64> {
    let file = fresh(folder, "commands")?;
    let study = Study::create(&file, &spec("random", seed), &StoreOptions::default())?;
    let evaluator = CommandEvaluator::new(&study, Command::new(CommandSpec::new(["/bin/true"]), &[])?)?;
    let options = RunOptions { workers: 2, trials: Some(n), ..RunOptions::default() };
    let start = Instant::now();
    run_workers(&study, &evaluator, &options, &|_| ())?;
    Ok(n as f64 / start.elapsed().as_secs_f64())
}

/// A study of [`LARGE`] trials.
fn fill(file: &Path, method: &str, seed: u64) -> Result<()> {
    let _ = fs::remove_file(file);
    let study = Study::create(file, &spec(method, seed), &StoreOptions::default())?;
    let mut left = LARGE;
    while left > 0 {
        for trial in study.ask("figure", usize::try_from(left.min(50))?, None)? {
            left -= 1;
            study.tell(
                trial.number,
                trial.attempt,
                Tell::Done(Evaluation::from([("loss", loss(&trial.params))])),
            )?;
        }
    }
    Ok(study.close()?)
}

/// Seconds until a study that exists can be asked.
fn reopen(file: &Path) -> Result<f64> {
    let start = Instant::now();
    let study = Study::open(file, None, &StoreOptions::default())?;
    let trial = study.ask("figure", 1, None)?;
    let seconds = start.elapsed().as_secs_f64();
    study.tell(trial[0].number, trial[0].attempt, Tell::Cancelled)?;
    Ok(seconds)
}

fn summarise(records: &[Record]) -> Vec<Row> {
    let of = |method: &str, problem: &str| {
        let values: Vec<f64> =
            records.iter().filter(|r| r.method == method && r.problem == problem).map(|r| r.value).collect();
        median(&values)
    };
    let mut rows: Vec<Row> =
        PARTS.iter().map(|part| Row::new(part.problem, of("pleach", part.problem))).collect();
    let optuna = of("optuna", PARTS[0].problem);
    rows.push(Row::new("Optuna with SQLite, ms a trial", optuna));
    rows.push(Row::new("Optuna's time over ours", optuna / of("pleach", PARTS[0].problem)));
    // The slower and larger of the methods counts.
    for problem in [
        "reopen 100,000 trials with snapshot, s",
        "reopen 100,000 trials without snapshot, s",
        "bytes a trial",
    ] {
        let values = records.iter().filter(|r| r.problem == problem).map(|r| r.value);
        rows.push(Row::new(problem, values.fold(f64::NAN, f64::max)));
    }
    rows
}

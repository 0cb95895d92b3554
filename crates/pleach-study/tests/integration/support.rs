//! What the tests of studies share.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, thread};

use pleach_search::{Goal, Metric, Parameter};
use pleach_study::{
    Assignment, Error, Evaluation, Filter, Reader, Spec, StoreOptions, Study, Tell, TrialRecord,
};
use tempfile::TempDir;

/// A file in a folder of its own.
pub(crate) fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("temporary folders can be made");
    let path = folder.path().join("study.db");
    (folder, path)
}

/// Three parameters, one objective.
pub(crate) fn spec(method: &str) -> Spec {
    Spec {
        parameters: vec![
            Parameter::float("x", -5.0, 10.0),
            Parameter::float("y", 0.0, 15.0),
            Parameter::int("k", 1, 40),
        ],
        metrics: vec![Metric::objective("loss", Goal::Min)],
        method: method.into(),
        ..Spec::new("test", 7)
    }
}

/// A space that the method can search: `grid` needs a finite one.
pub(crate) fn spec_for(method: &str) -> Spec {
    let mut spec = spec(method);
    if method == "grid" {
        spec.parameters =
            vec![Parameter::int("x", -5, 10), Parameter::int("y", 0, 15), Parameter::int("k", 1, 40)];
    }
    spec
}

pub(crate) fn create(path: &Path, spec: &Spec) -> Study {
    Study::create(path, spec, &StoreOptions::default()).expect("the study can be created")
}

/// A bowl that fails here and there.
pub(crate) fn evaluate(trial: &Assignment) -> Tell {
    let value = |name: &str| trial.f64(name).expect("it is a number");
    let loss = (value("x") - 1.0).powi(2) + (value("y") - 2.0).powi(2) + value("k") / 40.0;
    match trial.number % 11 {
        3 => Tell::Done(Evaluation::from(f64::NAN)),
        7 => Tell::Infeasible { reason: None },
        _ => Tell::Done(Evaluation::from([("loss", loss), ("extra", 2.0 * loss)])),
    }
}

/// Asks for one trial and tells it, until the study has `trials`.
pub(crate) fn run(study: &Study, trials: u64) {
    try_run(study, trials).expect("nothing is wrong with the file");
}

pub(crate) fn try_run(study: &Study, trials: u64) -> Result<(), Error> {
    while let Some(trial) = study.ask("w", 1, Some(trials))?.pop() {
        study.tell(trial.number, trial.attempt, evaluate(&trial))?;
    }
    Ok(())
}

/// What does not depend on clocks, workers and interruptions.
pub(crate) fn table(path: &Path) -> Vec<String> {
    let reader = Reader::open(path).expect("it can be read");
    let trials = reader.trials(Some("test"), &Filter::default()).expect("it can be read");
    let line =
        |t: &TrialRecord| format!("{} {} {:?} {:?} {:?}", t.number, t.state, t.params, t.metrics, t.failure);
    trials.iter().map(line).collect()
}

/// The table of a study that nothing interrupted.
pub(crate) fn straight(spec: &Spec, trials: u64) -> Vec<String> {
    let (_folder, path) = file();
    let study = create(&path, spec);
    run(&study, trials);
    study.close().expect("nothing is wrong with the file");
    table(&path)
}

/// Random numbers for tests (Knuth's MMIX generator, high bits).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Runs the test of that name, which is no test but a part for another process, with `values` in
/// its environment.
pub(crate) fn part(name: &str, values: &[(&str, &str)]) -> Child {
    let mut command = Command::new(env::current_exe().expect("a test has a program"));
    command.args(["--exact", name, "--nocapture"]).envs(values.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the test program can be started")
}

/// Waits until `happened`; a test that hangs is ended by whoever runs it.
pub(crate) fn until(happened: impl Fn() -> bool) {
    while !happened() {
        thread::yield_now();
    }
}

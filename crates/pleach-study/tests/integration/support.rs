//! What the tests share.

use std::path::{Path, PathBuf};

use pleach_search::{Goal, Metric, Parameter};
use pleach_study::{Assignment, Evaluation, Reader, Spec, StoreOptions, Study, Tell, TrialRecord};
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
    while let Some(trial) = study.ask("w", 1, Some(trials)).expect("it can be asked").pop() {
        study.tell(trial.number, trial.attempt, evaluate(&trial)).expect("it can be told");
    }
}

/// What does not depend on clocks, workers and interruptions.
pub(crate) fn table(path: &Path) -> Vec<String> {
    let reader = Reader::open(path).expect("it can be read");
    let trials = reader.trials(Some("test"), &Default::default()).expect("it can be read");
    let line =
        |t: &TrialRecord| format!("{} {} {:?} {:?} {:?}", t.number, t.state, t.params, t.metrics, t.failure);
    trials.iter().map(line).collect()
}

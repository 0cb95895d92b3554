//! What durability costs on the disk; times are a figure, not a test.

use std::fs;

use pleach_search::{Goal, Metric, Parameter};
use pleach_study::{Evaluation, Spec, StoreOptions, Study, Tell};

use crate::support::file;

fn floats(method: &str) -> Spec {
    Spec {
        parameters: (0..20).map(|i| Parameter::float(&format!("x{i}"), 0.0, 1.0)).collect(),
        metrics: vec![Metric::objective("loss", Goal::Min)],
        method: method.into(),
        ..Spec::new("floats", 1)
    }
}

#[test]
fn a_trial_of_twenty_floats_takes_at_most_400_bytes() {
    let (_folder, path) = file();
    let study = Study::create(&path, &floats("random"), &StoreOptions::default()).unwrap();
    fill(&study, 2000);
    study.close().unwrap();
    let bytes = fs::metadata(&path).unwrap().len() / 2000;
    assert!(bytes <= 400, "{bytes} bytes");
}

fn fill(study: &Study, trials: u64) {
    while let Some(trial) = study.ask("worker-1", 1, Some(trials)).unwrap().pop() {
        let tell = Tell::Done(Evaluation::from(trial.f64("x0").unwrap()));
        study.tell(trial.number, trial.attempt, tell).unwrap();
    }
}

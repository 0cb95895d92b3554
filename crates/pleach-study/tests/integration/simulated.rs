//! Simulated time.

use std::cell::Cell;
use std::path::Path;

use pleach_study::{
    Assignment, Event, Filter, Finish, RunOptions, Spec, Stop, StoreOptions, Study, Tell, run_simulated,
};

use crate::support::{create, evaluate, file, spec, table};

/// Costs follow from the point, so that many trials overlap.
fn costly(trial: &Assignment) -> Tell {
    match evaluate(trial) {
        Tell::Done(mut evaluation) => {
            evaluation.cost = Some(1.0 + trial.f64("k").unwrap());
            Tell::Done(evaluation)
        }
        other => other,
    }
}

/// Runs until `most` trials have ended in this run, or the study has `trials`.
fn run(study: &Study, trials: u64, most: u64) -> (Finish, f64) {
    let stop = Stop::new();
    let options =
        RunOptions { workers: 4, trials: Some(trials), stop: stop.clone(), ..RunOptions::default() };
    let ended = Cell::new(0);
    let observe = |event: &Event<'_>| {
        if matches!(event, Event::Ended { .. }) {
            ended.set(ended.get() + 1);
            if ended.get() >= most {
                stop.request();
            }
        }
    };
    let (summary, seconds) = run_simulated(study, &|trial| Ok(costly(trial)), &options, &observe).unwrap();
    (summary.finish, seconds)
}

fn search() -> Spec {
    let options = [("population".to_owned(), 10.into()), ("sample".to_owned(), 3.into())].into();
    Spec { options, ..spec("aging-evolution") }
}

fn straight(path: &Path) -> f64 {
    let study = create(path, &search());
    let (finish, seconds) = run(&study, 80, u64::MAX);
    assert_eq!(finish, Finish::Trials);
    study.close().unwrap();
    seconds
}

#[test]
fn simulated_time_is_that_of_parallel_workers() {
    let (_folder, path) = file();
    let seconds = straight(&path);
    let reader = pleach_study::Reader::open(&path).unwrap();
    let total: f64 = reader.trials(None, &Filter::default()).unwrap().iter().filter_map(|t| t.cost).sum();
    // Four workers are busy all the time but for the last trials of three of them, of 41 s at most.
    assert!(seconds >= total / 4.0 && seconds <= total / 4.0 + 41.0, "{seconds} of {total}");
}

#[test]
fn a_stopped_run_goes_on_as_if_it_had_not_been() {
    let (_folder, path) = file();
    let seconds = straight(&path);
    for step in [1, 7, 30] {
        let (_folder, other) = file();
        create(&other, &search()).close().unwrap();
        let mut last = (Finish::Stopped, 0.0);
        while last.0 == Finish::Stopped {
            let study = Study::open(&other, None, &StoreOptions::default()).unwrap();
            last = run(&study, 80, step);
            study.close().unwrap();
        }
        assert_eq!(table(&other), table(&path));
        assert_eq!(last, (Finish::Trials, seconds));
    }
}

//! Whatever is done with a study, an interrupted one and its uninterrupted twin end alike.

use std::collections::BTreeMap;
use std::path::Path;

use pleach_search::{Literal, METHODS};
use pleach_study::{Assignment, Error, Evaluation, ImportRow, Spec, StoreOptions, Study, Tell};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{evaluate, file, spec_for, table};

/// What a user or worker may do; numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Ask(usize),
    Tell(usize),
    GiveBack(usize),
    Pause(usize),
    Timeout(usize),
    Enqueue(i64),
    Import(i64),
    Cancel(u64),
    Retry(u64),
    Widen,
    /// Only for the interrupted twin.
    Crash,
    /// Only for the interrupted twin.
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..4_usize).prop_map(Step::Ask),
        6 => (0..9_usize).prop_map(Step::Tell),
        1 => (0..9_usize).prop_map(Step::GiveBack),
        1 => (0..9_usize).prop_map(Step::Pause),
        1 => (0..9_usize).prop_map(Step::Timeout),
        1 => (1..40_i64).prop_map(Step::Enqueue),
        1 => (1..40_i64).prop_map(Step::Import),
        1 => (0..20_u64).prop_map(Step::Cancel),
        1 => (0..20_u64).prop_map(Step::Retry),
        1 => Just(Step::Widen),
        2 => Just(Step::Crash),
        1 => Just(Step::Reopen),
    ]
}

fn point(spec: &Spec, k: i64) -> BTreeMap<String, Literal> {
    let whole = spec.method == "grid";
    let number = |n: i64| if whole { Literal::Int(n) } else { Literal::Float(n as f64) };
    BTreeMap::from([("x".into(), number(k % 9)), ("y".into(), number(k % 7)), ("k".into(), Literal::Int(k))])
}

/// The study, which never gives a trial up: its twin loses no worker.
fn open(path: &Path, spec: &Spec) -> Study {
    let options = StoreOptions { max_lost: u32::MAX, ..StoreOptions::default() };
    Study::create(path, spec, &options).unwrap()
}

/// Takes the steps, the interruptions among them only if `interrupted`; what was refused, as text.
fn take(path: &Path, spec: &Spec, steps: &[Step], interrupted: bool) -> Vec<String> {
    let mut study = open(path, spec);
    let mut held: Vec<Assignment> = Vec::new();
    let mut refusals = Vec::new();
    let pick = |held: &mut Vec<Assignment>, i: usize| (!held.is_empty()).then(|| held.remove(i % held.len()));
    let tell = |study: &Study, trial: &Assignment, tell: Tell| {
        study.tell(trial.number, trial.attempt, tell).map(drop)
    };
    for step in steps {
        let result = match step {
            Step::Ask(n) => study.ask("w", *n, None).map(|trials| held.extend(trials)),
            Step::Tell(i) => {
                pick(&mut held, *i).map_or(Ok(()), |trial| tell(&study, &trial, evaluate(&trial)))
            }
            Step::GiveBack(i) => {
                pick(&mut held, *i).map_or(Ok(()), |trial| tell(&study, &trial, Tell::Retry))
            }
            Step::Pause(i) => pick(&mut held, *i).map_or(Ok(()), |trial| tell(&study, &trial, Tell::Paused)),
            Step::Timeout(i) => pick(&mut held, *i).map_or(Ok(()), |trial| {
                study.report(trial.number, 1, [("loss".to_owned(), 3.0)].into())?;
                tell(&study, &trial, Tell::Timeout)
            }),
            Step::Enqueue(k) => study.enqueue(point(spec, *k)).map(drop),
            Step::Import(k) => {
                let tell = Tell::Done(Evaluation::from(*k as f64));
                study
                    .import(vec![ImportRow {
                        params: point(spec, *k),
                        tell,
                        started_ms: None,
                        ended_ms: None,
                    }])
                    .map(drop)
            }
            Step::Cancel(number) => {
                held.retain(|trial| trial.number != *number);
                study.cancel(*number)
            }
            Step::Retry(number) => study.retry(*number).map(drop),
            Step::Widen => {
                let mut parameters = spec.parameters.clone();
                parameters[2] = pleach_search::Parameter::int("k", 1, 80);
                study.edit_space(parameters)
            }
            Step::Crash | Step::Reopen if !interrupted => Ok(()),
            step => {
                if matches!(step, Step::Crash) {
                    study.crash();
                } else {
                    // Its trials are given back, and would be handed out in the order of numbers.
                    if !held.is_empty() {
                        continue;
                    }
                    study.close().unwrap();
                }
                study = open(path, spec);
                // Handed out again by number, and before anything else that waits.
                let again =
                    if held.is_empty() { Vec::new() } else { study.ask("w", held.len(), None).unwrap() };
                for trial in again {
                    let before =
                        held.iter_mut().find(|held| held.number == trial.number).expect("it was held");
                    assert_eq!((&before.params, before.seed), (&trial.params, trial.seed));
                    *before = trial;
                }
                Ok(())
            }
        };
        if let Err(error) = result {
            assert!(!matches!(error, Error::Damaged { .. } | Error::Database { .. }), "{error}");
            refusals.push(error.to_string());
        }
    }
    study.crash();
    refusals
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_interrupted_study_ends_like_its_uninterrupted_twin(method in 0..METHODS.len(), steps in vec(step(), 1..60)) {
        let spec = spec_for(METHODS[method].name);
        let (_one, straight) = file();
        let (_two, broken) = file();
        prop_assert_eq!(take(&straight, &spec, &steps, false), take(&broken, &spec, &steps, true));
        // Trials that were running when the study ended are running or waiting.
        let settled = |path| table(path).iter().map(|line| line.replace(" waiting ", " running ")).collect::<Vec<_>>();
        prop_assert_eq!(settled(&straight), settled(&broken));
    }
}

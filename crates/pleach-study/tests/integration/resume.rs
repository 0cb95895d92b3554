//! A study continues as if it had never been interrupted.

use std::path::Path;

use pleach_search::METHODS;
use pleach_study::{Reader, Spec, State, StoreOptions, Study};
use rusqlite::Connection;

use crate::support::{Dice, create, evaluate, file, run, spec, spec_for, straight, table};

fn delete_snapshots(path: &Path) -> usize {
    let connection = Connection::open(path).unwrap();
    connection.execute("DELETE FROM snapshot", []).unwrap()
}

#[test]
fn every_method_goes_on_after_crashes_at_random_points() {
    for entry in METHODS {
        let spec = spec_for(entry.name);
        let expected = straight(&spec, 90);
        for seed in 0..3 {
            let mut dice = Dice(seed);
            let (_folder, path) = file();
            let mut study = create(&path, &spec);
            loop {
                if dice.below(6) == 0 {
                    study.crash();
                    study = create(&path, &spec);
                }
                let Some(trial) = study.ask("w", 1, Some(90)).unwrap().pop() else { break };
                match dice.below(12) {
                    // Between ask and tell.
                    0 => {
                        study.crash();
                        study = create(&path, &spec);
                    }
                    // An orderly end leaves a snapshot.
                    1 => {
                        study.close().unwrap();
                        study = create(&path, &spec);
                    }
                    2 => {
                        study.close().unwrap();
                        assert_eq!(delete_snapshots(&path), 1);
                        study = create(&path, &spec);
                    }
                    _ => {
                        study.tell(trial.number, trial.attempt, evaluate(&trial)).unwrap();
                    }
                }
            }
            study.crash();
            assert_eq!(table(&path), expected, "{}, seed {seed}", entry.name);
        }
    }
}

/// Four workers whose trials end in an order that only depends on `script`; with `crashes`, the
/// owner dies now and then, and the workers get their trials back.
fn scripted(path: &Path, spec: &Spec, script: u64, mut crashes: Option<Dice>) {
    let mut dice = Dice(script);
    let mut study = create(path, spec);
    let mut held = Vec::new();
    loop {
        if crashes.as_mut().is_some_and(|crashes| crashes.below(8) == 0) {
            study.crash();
            study = create(path, spec);
            held.sort_by_key(|trial: &pleach_study::Assignment| trial.number);
            for trial in &mut held {
                let again = study.ask("w", 1, Some(80)).unwrap().pop().unwrap();
                assert_eq!(
                    (again.number, &again.params, again.seed),
                    (trial.number, &trial.params, trial.seed)
                );
                assert_eq!(again.attempt, trial.attempt + 1);
                *trial = again;
            }
        }
        if held.len() < 4
            && let Some(trial) = study.ask("w", 1, Some(80)).unwrap().pop()
        {
            held.push(trial);
            continue;
        }
        if held.is_empty() {
            break;
        }
        held.sort_by_key(|trial| trial.number);
        let trial = held.remove(usize::try_from(dice.below(held.len() as u64)).unwrap());
        study.tell(trial.number, trial.attempt, evaluate(&trial)).unwrap();
    }
    study.crash();
}

#[test]
fn a_scripted_order_of_four_workers_gives_the_same_table_with_and_without_crashes() {
    for entry in METHODS {
        let spec = spec_for(entry.name);
        for script in 0..2 {
            let (_folder, path) = file();
            scripted(&path, &spec, script, None);
            let expected = table(&path);
            let (_folder, path) = file();
            scripted(&path, &spec, script, Some(Dice(script + 100)));
            assert_eq!(table(&path), expected, "{}, script {script}", entry.name);
        }
    }
}

#[test]
fn edits_of_the_space_are_replayed_in_their_place() {
    for entry in METHODS {
        let mut wider = spec_for(entry.name).parameters;
        wider[2] = pleach_search::Parameter::int("k", 1, 80);
        let tables = [false, true].map(|interrupted| {
            let (_folder, path) = file();
            let spec = spec_for(entry.name);
            let mut study = create(&path, &spec);
            run(&study, 30);
            if study.edit_space(wider.clone()).is_err() {
                return Vec::new();
            }
            for trials in [40, 50, 60] {
                if interrupted {
                    if trials == 50 {
                        study.crash();
                    } else {
                        study.close().unwrap();
                    }
                    study = create(&path, &spec);
                }
                run(&study, trials);
            }
            study.crash();
            table(&path)
        });
        assert_eq!(tables[0], tables[1], "{}", entry.name);
    }
}

#[test]
fn a_trial_whose_workers_die_again_and_again_is_lost() {
    let (_folder, path) = file();
    let open = || -> Study { create(&path, &spec("random")) };
    let mut study = open();
    for attempt in 1..=10 {
        assert_eq!(study.ask("w", 1, None).unwrap()[0].number, 0, "attempt {attempt}");
        study.crash();
        study = open();
    }
    assert_eq!(study.ask("w", 1, None).unwrap()[0].number, 1);
    assert_eq!(Reader::open(&path).unwrap().trial(None, 0).unwrap().state, State::Lost);
}

#[test]
fn a_trial_that_waits_after_a_death_is_not_lost_again() {
    let (_folder, path) = file();
    let options = StoreOptions { max_lost: 2, ..StoreOptions::default() };
    let open = || Study::create(&path, &spec("random"), &options).unwrap();
    let study = open();
    assert_eq!(study.ask("w", 2, None).unwrap().len(), 2);
    study.crash();
    let study = open();
    assert_eq!(study.ask("w", 1, None).unwrap()[0].number, 0);
    study.crash();
    let study = open();
    assert_eq!(study.ask("w", 1, None).unwrap()[0].number, 1);
    let progress = study.progress().unwrap();
    assert_eq!((progress.count(State::Lost), progress.count(State::Running)), (1, 1));
}

//! Several processes with one study, and their deaths.

use std::env;
use std::fs;
use std::path::Path;
use std::time::Duration;

use pleach_search::METHODS;
use pleach_study::{Error, Evaluation, Lease, Reader, State, StoreOptions, Study, Tell};

use crate::support::{create, file, part, run, spec, spec_for, straight, table, until};

/// Not a test: another process that runs the study of a method until it has so many trials.
#[test]
fn run_part() {
    let Ok(path) = env::var("PLEACH_TEST_RUN") else { return };
    let method = env::var("PLEACH_TEST_METHOD").unwrap();
    let trials = env::var("PLEACH_TEST_TRIALS").unwrap().parse().unwrap();
    let study = create(Path::new(&path), &spec_for(&method));
    run(&study, trials);
}

/// Not a test: another process that owns a study, holds one trial, and waits to be killed.
#[test]
fn hold_part() {
    let Ok(path) = env::var("PLEACH_TEST_HOLD") else { return };
    let study = create(Path::new(&path), &spec("random"));
    study.ask("holder", 1, None).unwrap();
    fs::write(format!("{path}.holding"), "").unwrap();
    std::thread::sleep(Duration::from_mins(10));
}

#[test]
fn a_process_that_dies_within_and_after_commits_loses_nothing() {
    for entry in METHODS {
        let expected = straight(&spec_for(entry.name), 30);
        let (_folder, path) = file();
        let file = path.to_str().unwrap();
        let arguments =
            [("PLEACH_TEST_RUN", file), ("PLEACH_TEST_METHOD", entry.name), ("PLEACH_TEST_TRIALS", "30")];
        let mut deaths = 0;
        for n in (4..).step_by(3) {
            let point = format!("{}:{n}", if n % 2 == 0 { "commit" } else { "answer" });
            let mut values = arguments.to_vec();
            values.push(("PLEACH_FAILPOINT", &point));
            if part("processes::run_part", &values).wait().unwrap().success() {
                break;
            }
            deaths += 1;
        }
        assert!(deaths >= 3, "{}: {deaths} deaths", entry.name);
        assert_eq!(table(&path), expected, "{}", entry.name);
    }
}

#[test]
fn processes_started_in_one_instant_share_the_work() {
    let (_folder, path) = file();
    let values = [
        ("PLEACH_TEST_RUN", path.to_str().unwrap()),
        ("PLEACH_TEST_METHOD", "random"),
        ("PLEACH_TEST_TRIALS", "200"),
    ];
    let children: Vec<_> = (0..32).map(|_| part("processes::run_part", &values)).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let progress = Reader::open(&path).unwrap().progress(None).unwrap();
    assert_eq!((progress.trials, progress.finished()), (200, 200));
}

#[test]
fn a_client_takes_over_when_the_owner_is_killed() {
    let (_folder, path) = file();
    let mut owner = part("processes::hold_part", &[("PLEACH_TEST_HOLD", path.to_str().unwrap())]);
    until(|| path.with_extension("db.holding").exists());
    let study = create(&path, &spec("random"));
    let mine = study.ask("me", 2, None).unwrap();
    assert_eq!(mine.iter().map(|t| t.number).collect::<Vec<_>>(), [1, 2]);
    owner.kill().unwrap();
    owner.wait().unwrap();
    // What the dead process held comes first, and what this one holds stays with it.
    let next = study.ask("me", 2, None).unwrap();
    assert_eq!(next.iter().map(|t| (t.number, t.attempt)).collect::<Vec<_>>(), [(0, 2), (3, 1)]);
    for trial in mine.iter().chain(&next) {
        study.tell(trial.number, trial.attempt, Tell::Done(Evaluation::from(1.0))).unwrap();
    }
    assert_eq!(study.progress().unwrap().count(State::Done), 4);
}

#[test]
fn trials_of_a_killed_client_are_handed_out_again() {
    let (_folder, path) = file();
    let study = create(&path, &spec("random"));
    let mut client = part("processes::hold_part", &[("PLEACH_TEST_HOLD", path.to_str().unwrap())]);
    until(|| path.with_extension("db.holding").exists());
    assert_eq!(study.ask("me", 1, None).unwrap()[0].number, 1);
    client.kill().unwrap();
    client.wait().unwrap();
    until(|| study.progress().unwrap().count(State::Waiting) == 1);
    assert_eq!(study.ask("me", 1, None).unwrap()[0].number, 0);
}

#[test]
fn handles_of_one_process_share_a_file_too() {
    let (_folder, path) = file();
    let owner = create(&path, &spec("random"));
    let client = create(&path, &spec("random"));
    let given = client.ask("c", 1, None).unwrap();
    let kept = owner.ask("o", 1, None).unwrap();
    // Refusals keep their kind on the way.
    assert!(matches!(client.tell(9, None, Tell::Lost), Err(Error::NoTrial { number: 9, trials: 2 })));
    assert_eq!(
        client.tell(kept[0].number, 1, Tell::Done(Evaluation::from(f64::INFINITY))).unwrap(),
        State::Failed
    );
    owner.close().unwrap();
    // The client has become the owner; its trial is still its own.
    assert_eq!(client.tell(given[0].number, 1, Tell::Done(Evaluation::from(2.0))).unwrap(), State::Done);
    // A handle that is closed gives back what it holds.
    let other = create(&path, &spec("random"));
    assert_eq!(other.ask("x", 1, None).unwrap()[0].number, 2);
    other.close().unwrap();
    assert_eq!(client.ask("c", 1, None).unwrap()[0].number, 2);
}

#[test]
fn leases_of_time_expire_and_others_last() {
    let (_folder, path) = file();
    let owner = create(&path, &spec("random"));
    let lease = |lease| StoreOptions { lease, ..StoreOptions::default() };
    let short = Study::open(&path, None, &lease(Lease::For(Duration::from_millis(1)))).unwrap();
    let long = Study::open(&path, None, &lease(Lease::Forever)).unwrap();
    assert_eq!(short.ask("s", 1, None).unwrap()[0].number, 0);
    assert_eq!(long.ask("l", 1, None).unwrap()[0].number, 1);
    long.close().unwrap();
    until(|| owner.progress().unwrap().count(State::Waiting) == 1);
    // While nobody else has it, the late result is taken.
    assert_eq!(short.tell(0, 1, Tell::Done(Evaluation::from(1.0))).unwrap(), State::Done);
    owner.close().unwrap();
    drop(short);
    let study = create(&path, &spec("random"));
    assert_eq!(study.progress().unwrap().count(State::Running), 1);
    assert_eq!(study.tell(1, 1, Tell::Done(Evaluation::from(1.0))).unwrap(), State::Done);
}

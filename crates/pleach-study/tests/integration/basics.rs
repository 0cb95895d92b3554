//! One process, one study.

use std::collections::BTreeMap;

use pleach_search::{FailureClass, Literal, Parameter};
use pleach_study::{Error, Evaluation, Filter, ImportRow, Reader, State, StoreOptions, Study, Tell};

use crate::support::{create, file, run, spec, table};

fn params(x: f64, y: f64, k: i64) -> BTreeMap<String, Literal> {
    [("x", Literal::Float(x)), ("y", Literal::Float(y)), ("k", Literal::Int(k))]
        .map(|(n, v)| (n.to_owned(), v))
        .into()
}

#[test]
fn a_study_is_run_reopened_and_read() {
    let (_folder, path) = file();
    let study = create(&path, &spec("random"));
    run(&study, 30);
    let progress = study.progress().unwrap();
    assert_eq!((progress.trials, progress.count(State::Done), progress.count(State::Failed)), (30, 24, 3));
    let best = progress.best.clone().unwrap();
    study.close().unwrap();

    let study = Study::open(&path, None, &StoreOptions::default()).unwrap();
    assert_eq!(study.progress().unwrap(), progress);
    assert_eq!(study.spec().unwrap(), spec("random"));
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.progress(None).unwrap(), progress);
    assert_eq!(reader.best(Some("test")).unwrap(), Some(best.clone()));
    let trial = reader.trial(None, best.number).unwrap();
    assert_eq!((trial.state, trial.metric("loss"), trial.attempt), (State::Done, Some(best.value), 1));
    assert_eq!(trial.metrics.len(), 2);
    let failed = Filter { states: vec![State::Failed], ..Filter::default() };
    let failed = reader.trials(None, &failed).unwrap();
    assert_eq!(failed.iter().map(|t| t.number).collect::<Vec<_>>(), [3, 14, 25]);
    assert!(
        failed
            .iter()
            .all(|t| t.failure == Some(FailureClass::Diverged) && t.metric("loss").unwrap().is_nan())
    );
    let newest = Filter { limit: Some(2), newest: true, ..Filter::default() };
    assert_eq!(reader.trials(None, &newest).unwrap().iter().map(|t| t.number).collect::<Vec<_>>(), [28, 29]);
    assert!(matches!(reader.trial(None, 30), Err(Error::NoTrial { number: 30, trials: 30 })));
    assert!(Reader::doctor(&path).iter().all(|finding| finding.ok), "{:?}", Reader::doctor(&path));
}

#[test]
fn trials_end_once_and_in_every_way() {
    let (_folder, path) = file();
    let study = create(&path, &spec("random"));
    let trials = study.ask("w", 9, None).unwrap();
    let tell = |i: usize, tell| study.tell(trials[i].number, trials[i].attempt, tell);
    assert_eq!(tell(0, Tell::Done(Evaluation::from(1.0))).unwrap(), State::Done);
    let again = tell(0, Tell::Done(Evaluation::from(2.0))).unwrap_err();
    assert!(matches!(again, Error::Over { number: 0, state: State::Done }), "{again}");
    assert_eq!(tell(1, Tell::Done(Evaluation::from([("other", 1.0)]))).unwrap(), State::Failed);
    assert_eq!(tell(2, Tell::Infeasible { reason: Some("too wide".into()) }).unwrap(), State::Infeasible);
    assert!(study.report(3, 1, [("loss".to_owned(), 5.0)].into()).unwrap());
    assert!(study.report(3, 2, [("loss".to_owned(), 4.0)].into()).unwrap());
    assert_eq!(tell(3, Tell::Timeout).unwrap(), State::Timeout);
    assert!(!study.report(3, 3, BTreeMap::new()).unwrap());
    assert_eq!(tell(4, Tell::Pruned).unwrap(), State::Pruned);
    study.cancel(5).unwrap();
    assert_eq!(study.renew("w", &[5, 6]).unwrap(), [5]);
    assert_eq!(tell(5, Tell::Done(Evaluation::from(1.0))).unwrap(), State::Cancelled);
    assert!(matches!(study.cancel(5), Err(Error::Over { .. })));
    assert_eq!(tell(6, Tell::Retry).unwrap(), State::Waiting);
    assert_eq!(tell(7, Tell::Paused).unwrap(), State::Paused);
    // The one that was given back comes first, then the paused one once it is resumed.
    assert_eq!(study.retry(7).unwrap(), 7);
    let next = study.ask("v", 3, None).unwrap();
    assert_eq!(next.iter().map(|t| (t.number, t.attempt)).collect::<Vec<_>>(), [(6, 2), (7, 2), (9, 1)]);
    assert_eq!((&next[0].params, next[0].seed), (&trials[6].params, trials[6].seed));
    let late = tell(6, Tell::Done(Evaluation::from(1.0))).unwrap_err();
    assert!(matches!(late, Error::Superseded { number: 6, attempt: 1, current: 2 }), "{late}");
    assert_eq!(study.tell(6, None, Tell::Done(Evaluation::from(1.0))).unwrap(), State::Done);
    // A finished one is tried again as a new trial.
    assert_eq!(study.retry(0).unwrap(), 10);
    assert_eq!(study.ask("w", 1, None).unwrap()[0].params, trials[0].params);
    assert!(matches!(study.retry(8), Err(Error::Refused { .. })));
    assert!(matches!(study.cancel(99), Err(Error::NoTrial { number: 99, trials: 11 })));

    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.trial(None, 3).unwrap().metric("loss"), Some(4.0));
    assert_eq!(reader.reports(None, 3).unwrap().len(), 2);
    assert_eq!(reader.trial(None, 2).unwrap().error.as_deref(), Some("too wide"));
    assert_eq!(reader.trial(None, 1).unwrap().error.as_deref(), Some("not reported: loss"));
}

#[test]
fn points_are_enqueued_and_imported_all_or_none() {
    let (_folder, path) = file();
    let study = create(&path, &spec("random"));
    assert_eq!(study.enqueue(params(1.0, 2.0, 3)).unwrap(), 0);
    assert!(study.enqueue(params(1.0, 2.0, 300)).is_err());
    let row = |x: f64, value: f64| ImportRow {
        params: params(x, 2.0, 3),
        tell: Tell::Done(Evaluation::from(value)),
        started_ms: Some(1),
        ended_ms: Some(2),
    };
    let error = study.import(vec![row(1.0, 1.0), row(99.0, 1.0)]).unwrap_err();
    assert!(error.to_string().starts_with("row 1: x = 99"), "{error}");
    assert_eq!(study.progress().unwrap().trials, 1);
    assert_eq!(study.import(vec![row(1.5, 0.5), row(2.5, f64::INFINITY)]).unwrap(), 2);
    assert_eq!(study.ask("w", 1, None).unwrap()[0].number, 0);
    let progress = study.progress().unwrap();
    assert_eq!((progress.trials, progress.count(State::Failed)), (3, 1));
    assert_eq!(progress.best.unwrap().number, 1);
    let reader = Reader::open(&path).unwrap();
    let trial = reader.trial(None, 1).unwrap();
    assert_eq!((trial.origin.as_str(), trial.started_ms, trial.ended_ms), ("imported", Some(1), Some(2)));
    // A person may tell a waiting trial without asking for it.
    assert_eq!(study.enqueue(params(0.0, 0.0, 1)).unwrap(), 3);
    assert_eq!(study.tell(3, None, Tell::Done(Evaluation::from(0.1))).unwrap(), State::Done);
}

#[test]
fn specs_are_compared_and_spaces_grow() {
    let (_folder, path) = file();
    let study = create(&path, &spec("random"));
    run(&study, 5);
    let mut wider = spec("random").parameters;
    wider[2] = Parameter::int("k", 1, 80);
    study.edit_space(wider.clone()).unwrap();
    assert!(study.edit_space(spec("random").parameters).is_err(), "spaces do not shrink");
    assert_eq!(study.spec().unwrap().parameters, wider);
    run(&study, 10);
    let before = table(&path);
    study.close().unwrap();
    // Both the spec it was created with and the present one open it.
    for parameters in [wider, spec("random").parameters] {
        create(&path, &pleach_study::Spec { parameters, ..spec("random") }).close().unwrap();
    }
    let other = pleach_study::Spec { seed: 8, ..spec("random") };
    let error = Study::create(&path, &other, &StoreOptions::default()).unwrap_err();
    assert!(error.to_string().contains("the seed was 7 and is now 8"), "{error}");
    assert_eq!(table(&path), before);
}

#[test]
fn descriptors_are_stored_with_a_study() {
    let (_folder, path) = file();
    let descriptors = [("area".to_owned(), "x * y".to_owned())].into();
    let described = pleach_study::Spec { descriptors, ..spec("random") };
    let study = create(&path, &described);
    assert_eq!(study.spec().unwrap(), described);
    assert_eq!(described.search().unwrap().history().problem().descriptors()[0].name(), "area");
    run(&study, 5);
    let mut wider = described.parameters.clone();
    wider[2] = Parameter::int("k", 1, 80);
    study.edit_space(wider).unwrap();
    run(&study, 10);
    study.close().unwrap();
    let error = Study::create(&path, &spec("random"), &StoreOptions::default()).unwrap_err();
    assert!(error.to_string().contains("descriptor area was \"x * y\" and is now not there"), "{error}");
    let wrong = [("area".to_owned(), "x * z".to_owned())].into();
    let error = pleach_study::Spec { descriptors: wrong, ..described }.search().unwrap_err();
    assert!(error.to_string().contains("no parameter is called z"), "{error}");
}

#[test]
fn a_reader_sees_the_search_as_it_is_and_as_it_was() {
    let (_folder, path) = file();
    let study = create(&path, &spec("cmaes"));
    run(&study, 40);
    let reader = Reader::open(&path).unwrap();
    let mut now = reader.search(None, None).unwrap();
    assert_eq!(now.history().next_number(), 40);
    for number in [0, 7, 39] {
        let mut then = reader.search(None, Some(number)).unwrap();
        let trials = then.history().trials();
        assert!(trials.iter().all(|trial| trial.outcome.is_some()) && trials.len() as u64 == number);
        // Asked again, it proposes what it proposed then.
        assert_eq!(then.ask(1).unwrap(), [number]);
        assert_eq!(then.history().trial(number).point, now.history().trial(number).point);
    }
    assert!(matches!(reader.search(None, Some(40)), Err(Error::NoTrial { number: 40, trials: 40 })));
    // It is a copy: the study itself goes on from where it is.
    now.ask(1).unwrap();
    assert_eq!(study.ask("w", 1, None).unwrap()[0].number, 40);
    assert_eq!(reader.history(None).unwrap().next_number(), 41);
    assert_eq!(reader.history(None).unwrap().trial(40).point, now.history().trial(40).point);
}

#[test]
fn a_file_holds_several_studies() {
    let (_folder, path) = file();
    let one = create(&path, &spec("random"));
    let two = create(&path, &pleach_study::Spec { name: "two".into(), ..spec("random") });
    run(&one, 4);
    run(&two, 6);
    let names = Reader::open(&path).unwrap().studies().unwrap();
    assert_eq!(
        names.iter().map(|s| (s.name.as_str(), s.trials)).collect::<Vec<_>>(),
        [("test", 4), ("two", 6)]
    );
    let error = Study::open(&path, None, &StoreOptions::default()).unwrap_err();
    assert!(error.to_string().contains("test, two"), "{error}");
    let error = Study::open(&path, Some("three"), &StoreOptions::default()).unwrap_err();
    assert!(matches!(error, Error::NoStudy { .. }), "{error}");
    Study::remove(&path, "test").unwrap();
    assert!(matches!(Study::remove(&path, "test"), Err(Error::NoStudy { .. })));
    assert!(one.progress().unwrap_err().to_string().contains("removed"));
    assert_eq!(two.progress().unwrap().trials, 6);
}

#[test]
fn an_exhausted_space_ends_clearly() {
    let (_folder, path) = file();
    let small = pleach_study::Spec { parameters: vec![Parameter::int("k", 1, 5)], ..spec("random") };
    let study = create(&path, &small);
    let trials = study.ask("w", 9, None).unwrap();
    assert_eq!(trials.len(), 5);
    assert!(matches!(study.ask("w", 1, None), Err(Error::Exhausted { points: 5 })));
    let (_, next) = study.tell_and_ask(0, 1, Tell::Done(Evaluation::from(1.0)), "w", None).unwrap();
    assert_eq!(next, None);
}

#[test]
fn an_objective_is_optimised_on_threads_and_its_faults_are_trials() {
    let (_folder, path) = file();
    let study = create(&path, &spec("random"));
    let progress = study
        .optimize(60, 4, |trial| {
            let (x, y) = (trial.f64("x")?, trial.f64("y")?);
            assert!(trial.assignment().number != 13, "an unlucky number");
            if trial.assignment().number == 17 {
                trial.text("x")?;
            }
            trial.report(0, x)?;
            Ok(x * x + y * y)
        })
        .unwrap();
    assert_eq!((progress.trials, progress.count(State::Done), progress.count(State::Failed)), (60, 58, 2));
    let reader = Reader::open(&path).unwrap();
    assert_eq!(
        reader.trial(None, 13).unwrap().error.as_deref(),
        Some("the evaluation panicked: an unlucky number")
    );
    assert!(reader.trial(None, 17).unwrap().error.unwrap().contains("is not a text"));
}

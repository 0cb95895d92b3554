//! Files of every format that was ever released are read. Their samples are never changed.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::{env, iter};

use pleach_search::{FailureClass, Goal, Literal, Metric, Parameter};
use pleach_study::{Evaluation, Filter, ImportRow, Lease, Reader, Spec, StoreOptions, Study, Tell};

use crate::support::file;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Everything that a reader tells of a file, but for paths.
fn everything(path: &Path) -> String {
    let reader = Reader::open(path).unwrap();
    let mut text = String::new();
    for study in reader.studies().unwrap() {
        let name = Some(study.name.as_str());
        writeln!(text, "{}", serde_json::to_string(&study).unwrap()).unwrap();
        writeln!(text, "{}", serde_json::to_string(&reader.spec(name).unwrap()).unwrap()).unwrap();
        for trial in reader.trials(name, &Filter::default()).unwrap() {
            writeln!(text, "{}", serde_json::to_string(&trial).unwrap()).unwrap();
            for report in reader.reports(name, trial.number).unwrap() {
                writeln!(text, "{}", serde_json::to_string(&report).unwrap()).unwrap();
            }
        }
        writeln!(text, "{}", serde_json::to_string(&reader.progress(name).unwrap()).unwrap()).unwrap();
    }
    text
}

#[test]
fn format_1_is_read_and_continued() {
    let (_folder, path) = file();
    fs::copy(data("format-1.db"), &path).unwrap();
    let expected = fs::read_to_string(data("format-1.jsonl")).unwrap();
    for (i, (line, expected)) in iter::zip(everything(&path).lines(), expected.lines()).enumerate() {
        assert_eq!(line, expected, "line {}", i + 1);
    }
    assert_eq!(everything(&path).lines().count(), expected.lines().count());
    let study = Study::open(&path, Some("all"), &StoreOptions::default()).unwrap();
    let trials = study.progress().unwrap().trials;
    // The two that wait come before new ones.
    let next = study.ask("w", 3, None).unwrap();
    assert_eq!(next.iter().map(|trial| trial.number).collect::<Vec<_>>(), [10, 11, trials]);
}

/// Writes the sample of the present format. Run by hand, once, before its release:
/// `PLEACH_WRITE_SAMPLE=1 cargo test -p pleach-study --test integration write_sample`.
#[test]
fn write_sample() {
    if env::var_os("PLEACH_WRITE_SAMPLE").is_none() {
        return;
    }
    let path = data("format-1.db");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&path);
    let spec = Spec {
        parameters: vec![
            Parameter::log_float("lr", 1e-5, 1e-1),
            Parameter::int("width", 16, 256),
            Parameter::choice("opt", ["sgd", "adamw"]),
            Parameter::float("beta2", 0.9, 0.999).when("opt == 'adamw'"),
            Parameter::bool("nesterov"),
            Parameter::permutation("order", 4),
        ],
        constraints: vec!["width * lr <= 10".into()],
        metrics: vec![Metric::objective("accuracy", Goal::Max), Metric::constraint("ms", Goal::Min, 8.0)],
        method: "aging-evolution".into(),
        ..Spec::new("all", 3)
    };
    let options = StoreOptions { lease: Lease::Forever, ..StoreOptions::default() };
    let study = Study::create(&path, &spec, &options).unwrap();
    let done =
        |accuracy: f64| Evaluation::from([("accuracy", accuracy), ("ms", 9.0 * accuracy), ("size", 3.0)]);
    for trial in study.ask("worker-1", 12, None).unwrap() {
        let number = trial.number;
        let failed =
            |class| Tell::Failed { class, reason: Some("it said so".into()), peak_rss_bytes: Some(1 << 30) };
        study
            .report(number, 1, [("accuracy".to_owned(), 0.1), ("other".to_owned(), f64::NAN)].into())
            .unwrap();
        let tell = match number {
            0 => Tell::Done(done(0.5)),
            1 => Tell::Done(Evaluation {
                sem: Some(0.01),
                cost: Some(2.5),
                features: Some(vec![1.0, 2.0]),
                ..done(0.8)
            }),
            2 => Tell::Done(done(f64::INFINITY)),
            3 => Tell::Infeasible { reason: None },
            4 => failed(FailureClass::OutOfMemory),
            5 => Tell::Timeout,
            6 => Tell::Pruned,
            7 => Tell::Lost,
            8 => Tell::Cancelled,
            9 => Tell::Paused,
            10 => Tell::Retry,
            _ => continue,
        };
        study.tell(number, trial.attempt, tell).unwrap();
    }
    study.tell(11, 1, Tell::Retry).unwrap();
    let params = |lr: f64| {
        let order = Literal::List(vec![3, 1, 0, 2]);
        [
            ("lr", lr.into()),
            ("width", 64.into()),
            ("opt", "sgd".into()),
            ("nesterov", true.into()),
            ("order", order),
        ]
        .map(|(name, value): (&str, Literal)| (name.to_owned(), value))
        .into()
    };
    study
        .import(vec![ImportRow {
            params: params(0.01),
            tell: Tell::Done(done(0.7)),
            started_ms: Some(5),
            ended_ms: Some(6),
        }])
        .unwrap();
    let mut wider = spec.parameters.clone();
    wider[2] = Parameter::choice("opt", ["sgd", "adamw", "lion"]);
    study.edit_space(wider).unwrap();
    assert_eq!(study.enqueue(params(0.02)).unwrap(), 13);
    study.tell(13, None, Tell::Done(done(0.6))).unwrap();
    study.close().unwrap();
    Study::create(&path, &Spec { name: "empty".into(), ..spec }, &options).unwrap().close().unwrap();
    fs::write(data("format-1.jsonl"), everything(&path)).unwrap();
    fs::remove_file(data("format-1.db.lock")).unwrap();
}

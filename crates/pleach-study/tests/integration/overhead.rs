//! What durability costs. The figures of the docs are made elsewhere; these are coarse bounds.

use std::fs;
use std::time::Instant;

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

fn fill(study: &Study, trials: u64) -> Vec<f64> {
    let mut times = Vec::new();
    loop {
        let start = Instant::now();
        let Some(trial) = study.ask("worker-1", 1, Some(trials)).unwrap().pop() else { return times };
        study
            .tell(trial.number, trial.attempt, Tell::Done(Evaluation::from(trial.f64("x0").unwrap())))
            .unwrap();
        times.push(start.elapsed().as_secs_f64());
    }
}

#[test]
#[ignore = "slow: 60 s; prints times, meaningful in release builds"]
#[expect(clippy::print_stdout, reason = "the times are what it is for")]
fn times() {
    let (_folder, path) = file();
    let study = Study::create(&path, &floats("random"), &StoreOptions::default()).unwrap();
    let mut times = fill(&study, 20_000);
    times.sort_by(f64::total_cmp);
    println!(
        "ask + tell: median {:.4} ms, mean {:.4} ms",
        1e3 * times[10_000],
        1e3 * times.iter().sum::<f64>() / 2e4
    );
    let client = Study::open(&path, None, &StoreOptions::default()).unwrap();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for worker in ["a", "b"] {
            let client = client.clone();
            scope.spawn(move || {
                let mut next = client.ask(worker, 1, Some(40_000)).unwrap().pop();
                while let Some(trial) = next {
                    let tell = Tell::Done(Evaluation::from(trial.f64("x0").unwrap()));
                    next = client
                        .tell_and_ask(trial.number, trial.attempt, tell, worker, Some(40_000))
                        .unwrap()
                        .1;
                }
            });
        }
    });
    println!("over the socket: {:.0} trials/s", 2e4 / start.elapsed().as_secs_f64());
    fill(&study, 100_000);
    drop(client);
    study.close().unwrap();
    println!("{} bytes a trial", fs::metadata(&path).unwrap().len() / 100_000);
    let start = Instant::now();
    let study = Study::open(&path, None, &StoreOptions::default()).unwrap();
    println!("reopen: {:.3} s", start.elapsed().as_secs_f64());
    println!("best: {:?}", study.progress().unwrap().best.unwrap().value);
    println!("reopen and best: {:.3} s", start.elapsed().as_secs_f64());
    study.close().unwrap();
}

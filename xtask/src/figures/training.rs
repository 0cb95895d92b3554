//! Steps of training beside PyTorch: the same network, weights, batch and solver, in turns.

use std::path::Path;
use std::time::Instant;

use pleach_tensor::{Isa, Numerics};
use pleach_train::{Machine, Solver, Trainer, TrainerOptions, Worker};
use serde_json::{Value, json};

use super::record::{Log, Record, Row};
use super::statistics::{median, quantile};
use super::{Figure, peer};
use crate::Result;

pub(super) const RESNET18: Figure = Figure {
    name: "resnet18-step",
    about: "a step of ResNet-18 for CIFAR, batch 32, two threads, beside PyTorch eager and compiled, in turns",
    minutes: 12,
    run: |log| run(log, &[Case::RESNET18, Case { numerics: Numerics::Direct, ..Case::RESNET18 }]),
    summarise,
    picture: None,
};

pub(super) const NETS: Figure = Figure {
    name: "net-steps",
    about: "steps of larger and of other networks beside PyTorch eager and compiled, in turns",
    minutes: 60,
    run: |log| run(log, &[Case::RESNET50, Case::RESNET110]),
    summarise,
    picture: None,
};

/// Pairs of turns.
const PAIRS: u64 = 15;
/// The solver of all cases.
const SOLVER: &str = r#"{"name": "sgd", "rate": 0.01, "momentum": 0.9, "weight-decay": 5e-4}"#;

/// A network and its batch.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    model: &'static str,
    parameters: &'static str,
    input: &'static [usize],
    classes: usize,
    batch: usize,
    numerics: Numerics,
    /// Steps of a turn.
    steps: u64,
}

impl Case {
    const RESNET18: Case = Case {
        name: "ResNet-18, 32², batch 32",
        model: "resnet",
        parameters: r#"{"depth": 18, "input": [32, 32, 3], "classes": 10}"#,
        input: &[32, 32, 3],
        classes: 10,
        batch: 32,
        numerics: Numerics::Winograd4,
        steps: 4,
    };
    const RESNET50: Case = Case {
        name: "ResNet-50, 224², batch 8",
        model: "resnet",
        parameters: r#"{"depth": 50, "input": [224, 224, 3], "classes": 1000}"#,
        input: &[224, 224, 3],
        classes: 1000,
        batch: 8,
        steps: 2,
        ..Case::RESNET18
    };
    const RESNET110: Case = Case {
        name: "ResNet-110, 32², batch 32",
        model: "resnet-cifar",
        parameters: r#"{"depth": 110}"#,
        steps: 3,
        ..Case::RESNET18
    };

    fn problem(&self) -> String {
        let numerics = serde_json::to_value(self.numerics).expect("a name");
        format!("{}, {}", self.name, numerics.as_str().unwrap_or_default())
    }

    fn floats(&self) -> usize {
        self.batch * self.input.iter().product::<usize>()
    }

    fn trainer(&self, seed: u64) -> Result<Trainer> {
        let graph = pleach_graph::model(self.model, serde_json::from_str(self.parameters)?)?;
        let solver: Solver = serde_json::from_str(SOLVER)?;
        let machine = Machine { threads: 2.try_into()?, isa: Isa::best() };
        let options = TrainerOptions {
            batch: self.batch,
            numerics: self.numerics,
            seed,
            workers: vec![Worker { nodes: 1, machine }],
            ..TrainerOptions::default()
        };
        Ok(Trainer::new(graph, solver, options)?)
    }
}

fn run(log: &mut Log, cases: &[Case]) -> Result<()> {
    let folder = super::scratch("training")?;
    for case in cases {
        for peer in ["torch-eager", "torch-compile"] {
            if (0..PAIRS).all(|pair| log.has(peer, &case.problem(), log.seed_base + pair, case.steps)) {
                continue;
            }
            contest(log, case, peer, &folder)?;
        }
    }
    Ok(())
}

/// Turns of ours, the peer, the peer, ours, again and again.
fn contest(log: &mut Log, case: &Case, peer: &str, folder: &Path) -> Result<()> {
    let mut trainer = case.trainer(log.seed_base)?;
    let weights = folder.join("weights.safetensors");
    trainer.save(&weights, &Value::Null)?;
    let mut dialogue = peer::Dialogue::start(&peer::python_with_torch()?, "torch_nets.py")?;
    dialogue.say(&json!({
        "model": case.model, "parameters": serde_json::from_str::<Value>(case.parameters)?,
        "shape": case.input, "classes": case.classes, "batch": case.batch, "threads": 2,
        "weights": weights, "solver": serde_json::from_str::<Value>(SOLVER)?,
        "compile": peer == "torch-compile",
    }))?;
    let version = dialogue.hear()?["version"].as_str().unwrap_or_default().to_owned();
    let inputs: Vec<f32> = (0..case.floats()).map(|i| ((i * 7919 % 2003) as f32 - 1001.0) / 600.0).collect();
    let targets: Vec<f32> = (0..case.batch).map(|i| (i * 7 % case.classes) as f32).collect();
    let mut ours = |steps: u64| -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..steps {
            let start = Instant::now();
            trainer.step(&inputs, &targets)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(median(&times))
    };
    let mut theirs = |steps: u64| -> Result<f64> {
        dialogue.say(&json!({"steps": steps}))?;
        let times = dialogue.hear()?["ms"].as_array().cloned().unwrap_or_default();
        Ok(median(&times.iter().filter_map(Value::as_f64).collect::<Vec<_>>()))
    };
    // The first steps compile, allocate and warm up.
    ours(2)?;
    theirs(3)?;
    for pair in 0..PAIRS {
        let seed = log.seed_base + pair;
        if log.has(peer, &case.problem(), seed, case.steps) {
            continue;
        }
        let start = Instant::now();
        let (a, b, c, d) = (ours(case.steps)?, theirs(case.steps)?, theirs(case.steps)?, ours(case.steps)?);
        let seconds = start.elapsed().as_secs_f64();
        let mut push = |method: String, version: String, value: f64| {
            let (problem, n) = (case.problem(), case.steps);
            log.push(&Record { method, version, problem, seed, n, value, seconds })
        };
        push(format!("pleach beside {peer}"), super::version(), 0.5 * (a + d))?;
        push(peer.to_owned(), version.clone(), 0.5 * (b + c))?;
    }
    dialogue.end()
}

fn summarise(records: &[Record]) -> Vec<Row> {
    let mut problems: Vec<&str> = records.iter().map(|record| record.problem.as_str()).collect();
    problems.dedup();
    problems.sort_unstable();
    problems.dedup();
    let mut rows = Vec::new();
    for problem in problems {
        let of = |method: &str| -> Vec<f64> {
            let runs = records.iter().filter(|r| r.method == method && r.problem == problem);
            runs.map(|r| r.value).collect()
        };
        let faster = ["torch-eager", "torch-compile"]
            .into_iter()
            .filter(|peer| !of(peer).is_empty())
            .min_by(|a, b| median(&of(a)).total_cmp(&median(&of(b))));
        let Some(faster) = faster else { continue };
        let ratios: Vec<f64> = of(&format!("pleach beside {faster}"))
            .iter()
            .zip(of(faster))
            .map(|(ours, theirs)| ours / theirs)
            .collect();
        // The median's interval from the order statistics of a binomial (95 %, two-sided).
        let half = 0.98 / (ratios.len() as f64).sqrt();
        rows.push(Row::new(
            format!("{problem}: ms, pleach"),
            median(&of(&format!("pleach beside {faster}"))),
        ));
        rows.push(Row::new(format!("{problem}: ms, {faster}"), median(&of(faster))));
        rows.push(Row::new(format!("{problem}: ratio to the faster"), median(&ratios)));
        rows.push(Row::new(
            format!("{problem}: ratio to the faster, upper 95 %"),
            quantile(&ratios, (0.5 + half).min(1.0)),
        ));
    }
    rows
}

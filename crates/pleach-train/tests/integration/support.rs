//! Small trainings.

use std::num::NonZeroUsize;

use pleach_tensor::{Isa, Numerics};
use pleach_train::{Machine, Solver, Trainer, TrainerOptions, Worker};
use serde_json::{Value, json};

/// A network with the shape of an example, its classes, and rows of targets.
pub(crate) struct Net {
    pub(crate) name: &'static str,
    pub(crate) parameters: Value,
    pub(crate) example: usize,
    pub(crate) targets: usize,
    pub(crate) classes: usize,
    /// Whether inputs are whole numbers below `classes`.
    pub(crate) tokens: bool,
}

/// Batch normalisation, residuals, Winograd's convolutions.
pub(crate) fn resnet() -> Net {
    let parameters = json!({"depth": 8, "input": [8, 8, 3], "classes": 5, "width": 16});
    Net { name: "resnet-cifar", parameters, example: 192, targets: 1, classes: 5, tokens: false }
}

/// Dropout between linear layers.
pub(crate) fn mlp() -> Net {
    let parameters = json!({"input": [20], "hidden": [33, 17], "classes": 5, "dropout": 0.3});
    Net { name: "mlp", parameters, example: 20, targets: 1, classes: 5, tokens: false }
}

/// Embeddings, attention, layer normalisation, dropout.
pub(crate) fn gpt() -> Net {
    let parameters = json!({"tokens": 9, "layers": 1, "width": 16, "heads": 2, "length": 6, "dropout": 0.1});
    Net { name: "gpt", parameters, example: 6, targets: 6, classes: 9, tokens: true }
}

/// A recurrent layer.
pub(crate) fn lstm() -> Net {
    let parameters = json!({"input": [5, 3], "width": 20, "classes": 4});
    Net { name: "lstm", parameters, example: 15, targets: 1, classes: 4, tokens: false }
}

pub(crate) const SGD: &str = r#"{"name": "sgd", "rate": 0.05, "momentum": 0.9, "weight-decay": 1e-3}"#;
pub(crate) const ADAM: &str = r#"{"name": "adamw", "rate": 0.002, "clip-norm": 1.0, "average": 0.9, "schedule": {"warmup": 3, "shape": "cosine"}}"#;

pub(crate) fn machine(threads: usize, isa: Isa) -> Machine {
    Machine { threads: NonZeroUsize::new(threads).unwrap(), isa }
}

pub(crate) fn trainer(net: &Net, solver: &str, nodes: usize, workers: Vec<Worker>) -> Trainer {
    let graph = pleach_graph::model(net.name, net.parameters.clone()).unwrap();
    let solver: Solver = serde_json::from_str(solver).unwrap();
    let options = TrainerOptions {
        batch: 14,
        steps: 30,
        virtual_nodes: nodes,
        numerics: Numerics::Winograd4,
        seed: 11,
        frozen: Vec::new(),
        workers,
    };
    Trainer::new(graph, solver, options).unwrap()
}

/// The batch of step `step`.
pub(crate) fn batch(net: &Net, step: u64) -> (Vec<f32>, Vec<f32>) {
    let number = |i: usize| {
        let mut z = (step << 32 | i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z ^= z >> 29;
        z = z.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z >> 40) as f32 / (1 << 24) as f32
    };
    let class = |i: usize| (number(i) * net.classes as f32).floor();
    let inputs = (0..14 * net.example).map(|i| if net.tokens { class(i) } else { number(i) * 2.0 - 1.0 });
    let targets = (0..14 * net.targets).map(|i| class(i + 1_000_000));
    (inputs.collect(), targets.collect())
}

pub(crate) fn steps(trainer: &mut Trainer, net: &Net, count: u64) {
    for _ in 0..count {
        let (inputs, targets) = batch(net, trainer.steps_done());
        trainer.step(&inputs, &targets).unwrap();
    }
}

/// All bits of the state of a training.
pub(crate) fn bits(trainer: &Trainer) -> Vec<u32> {
    let parameters = (0..trainer.parameters().len()).flat_map(|index| trainer.parameter(index));
    let states = (0..trainer.program().states.len()).flat_map(|index| trainer.state(index));
    parameters.chain(states).map(f32::to_bits).collect()
}

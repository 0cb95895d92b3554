//! Checkpoints, what they refuse, and sessions that go on.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use pleach_tensor::Isa;
use pleach_train::{Error, Event, Recipe, Session, SessionOptions, Worker, evaluate_file};
use serde_json::{Value, json};

use crate::support::{ADAM, SGD, bits, machine, mlp, resnet, steps, trainer};

fn workers(nodes: usize) -> Vec<Worker> {
    vec![Worker { nodes, machine: machine(2, Isa::best()) }]
}

#[test]
fn a_restored_training_goes_on_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    for (net, solver, nodes) in [(resnet(), SGD, 1), (mlp(), ADAM, 4)] {
        let mut whole = trainer(&net, solver, nodes, workers(nodes));
        steps(&mut whole, &net, 9);
        for stop in [0, 1, 5] {
            let path = folder.path().join("state.safetensors");
            let mut first = trainer(&net, solver, nodes, workers(nodes));
            steps(&mut first, &net, stop);
            first.save(&path, &json!({"place": stop})).unwrap();
            let mut second = trainer(&net, solver, nodes, workers(nodes));
            assert_eq!(second.restore(&path).unwrap(), json!({"place": stop}));
            assert_eq!(second.steps_done(), stop);
            steps(&mut second, &net, 9 - stop);
            assert!(bits(&second) == bits(&whole), "{} stopped after {stop}", net.name);
        }
    }
}

#[test]
fn the_checkpoint_of_another_training_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    trainer(&resnet(), SGD, 1, workers(1)).save(&path, &Value::Null).unwrap();
    let net = mlp();
    let mut other = trainer(&net, SGD, 1, workers(1));
    let before = bits(&other);
    let refused = other.restore(&path).unwrap_err().to_string();
    assert!(refused.contains("the network is another one"), "{refused}");
    let mut nodes = trainer(&resnet(), SGD, 2, workers(2));
    let refused = nodes.restore(&path).unwrap_err().to_string();
    assert!(refused.contains("virtual nodes was 1, and is 2 now"), "{refused}");
    assert!(bits(&other) == before);
}

#[test]
fn damaged_checkpoints_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    let net = mlp();
    let mut trainer = trainer(&net, ADAM, 1, workers(1));
    trainer.save(&path, &Value::Null).unwrap();
    let whole = fs::read(&path).unwrap();
    let before = bits(&trainer);
    for cut in (0..whole.len()).step_by(97) {
        fs::write(&path, &whole[..cut]).unwrap();
        assert!(matches!(trainer.restore(&path), Err(Error::Read { .. })), "cut at {cut}");
    }
    for at in (0..400).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x15;
        fs::write(&path, &bytes).unwrap();
        // Some changes are of what anything could be; nothing may panic.
        let _ = trainer.restore(&path);
    }
    fs::write(&path, &whole).unwrap();
    trainer.restore(&path).unwrap();
    assert!(bits(&trainer) == before);
    assert!(matches!(trainer.restore(&folder.path().join("none")), Err(Error::Read { .. })));
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    let net = mlp();
    let mut trainer = trainer(&net, SGD, 1, workers(1));
    trainer.save(&path, &Value::Null).unwrap();
    let first = fs::read(&path).unwrap();
    steps(&mut trainer, &net, 1);
    // The file beside it cannot be made: a folder has its name.
    fs::create_dir(folder.path().join("state.safetensors.new")).unwrap();
    assert!(matches!(trainer.save(&path, &Value::Null), Err(Error::Write { .. })));
    assert_eq!(fs::read(&path).unwrap(), first);
}

#[test]
fn weights_are_taken_by_name_and_frozen_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let net = mlp();
    let mut first = trainer(&net, SGD, 1, workers(1));
    steps(&mut first, &net, 3);
    first.save(&path, &Value::Null).unwrap();
    let mut parameters = net.parameters.clone();
    parameters["classes"] = json!(3);
    let graph = pleach_graph::model("mlp", parameters).unwrap();
    let options = pleach_train::TrainerOptions {
        batch: 14,
        frozen: vec!["hidden".into()],
        ..pleach_train::TrainerOptions::default()
    };
    let mut tuned = pleach_train::Trainer::new(graph, serde_json::from_str(SGD).unwrap(), options).unwrap();
    assert_eq!(tuned.start_from(&path).unwrap(), ["fc.weight", "fc.bias"]);
    let inputs: Vec<f32> = (0..280).map(|i| (i as f32).sin()).collect();
    let targets: Vec<f32> = (0..14).map(|i| (i % 3) as f32).collect();
    let head = tuned.parameter(4);
    tuned.step(&inputs, &targets).unwrap();
    assert_eq!(tuned.parameter(0), first.parameter(0));
    assert_ne!(tuned.parameter(4), head);
}

#[test]
fn a_loss_that_is_not_finite_stops_with_the_parameters_before_it() {
    let net = mlp();
    let mut trainer = trainer(&net, SGD, 1, workers(1));
    steps(&mut trainer, &net, 2);
    let before = bits(&trainer);
    let (mut inputs, targets) = crate::support::batch(&net, 2);
    inputs[17] = f32::NAN;
    let error = trainer.step(&inputs, &targets).unwrap_err();
    assert!(matches!(error, Error::Diverged { step: 2, .. }), "{error}");
    assert!(bits(&trainer) == before);
    assert_eq!(trainer.steps_done(), 2);
}

fn recipe(epochs: u64) -> Recipe {
    serde_json::from_value(json!({
        "model": {"name": "mlp", "hidden": [24], "dropout": 0.1},
        "solver": {"name": "adam", "rate": 0.005},
        "train": {"epochs": epochs, "batch": 100},
        "data": {"held-out": 360},
    }))
    .unwrap()
}

fn session(recipe: &Recipe, checkpoint: Option<&Path>) -> Session {
    let options =
        SessionOptions { checkpoint: checkpoint.map(Path::to_path_buf), ..SessionOptions::default() };
    Session::open(recipe, Path::new("digits"), options).unwrap()
}

#[test]
fn a_session_that_is_broken_off_anywhere_ends_as_if_it_was_not() {
    let mut whole = session(&recipe(3), None);
    assert!(whole.run(&mut |_| ControlFlow::Continue(())).unwrap());
    assert_eq!(whole.history().len(), 3);
    assert!(whole.history()[2].accuracy.unwrap() > 0.8);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    let mut breaks = 0;
    loop {
        let mut part = session(&recipe(3), Some(&path));
        let mut left = 5;
        let done = part.run(&mut |event| {
            left -= u64::from(matches!(event, Event::Step { .. }));
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if done.unwrap() {
            assert!(bits(part.trainer()) == bits(whole.trainer()));
            assert_eq!(part.history(), whole.history());
            break;
        }
        breaks += 1;
    }
    assert!(breaks >= 8, "{breaks}");
    let evaluation = evaluate_file(&path, Path::new("digits"), machine(1, Isa::best())).unwrap();
    assert_eq!(evaluation.examples, 360);
    assert_eq!(evaluation.accuracy, whole.history()[2].accuracy);
}

#[test]
fn what_does_not_fit_is_said() {
    let open = |recipe: Value, data: &str| {
        let recipe: Recipe = serde_json::from_value(recipe).unwrap();
        Session::open(&recipe, Path::new(data), SessionOptions::default()).unwrap_err().to_string()
    };
    let solver = json!({"name": "sgd", "rate": 0.1});
    let mlp = json!({"name": "mlp"});
    for (recipe, data, says) in [
        (json!({"model": mlp, "solver": solver}), "/no/such/place", "/no/such/place"),
        (json!({"model": {"name": "mpl"}, "solver": solver}), "digits", "no model"),
        (json!({"model": {"name": "mlp", "input": [7]}, "solver": solver}), "digits", "64"),
        (json!({"model": {"name": "mlp", "hiden": [7]}, "solver": solver}), "digits", "hiden"),
        (json!({"model": mlp, "solver": solver, "train": {"batch": 5000}}), "digits", "5000"),
        (json!({"model": mlp, "solver": solver, "train": {"batch": 0}}), "digits", "batch"),
        (json!({"model": mlp, "solver": solver, "train": {"frozen": ["x"]}}), "digits", "frozen"),
        (json!({"model": mlp, "solver": solver, "data": {"held-out": 1797}}), "digits", "held-out"),
        (json!({"model": mlp, "solver": {"name": "sgd", "rate": -1}}), "digits", "rate"),
        (json!({"model": {"graph": "none.json"}, "solver": solver}), "digits", "none.json"),
    ] {
        let error = open(recipe.clone(), data);
        assert!(error.contains(says), "{recipe}: {error}");
    }
}

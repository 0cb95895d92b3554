//! Programs: what instructions read was written before, and nothing is computed for nobody.

use std::collections::HashSet;

use pleach_graph::{Graph, Program, ValueKind, model};
use pleach_tensor::Numerics;
use serde_json::json;

fn graphs() -> Vec<Graph> {
    let zoo = [
        ("mlp", json!({"input": [5], "dropout": 0.5})),
        ("resnet", json!({"input": [32, 32, 3], "classes": 10})),
        ("resnet-cifar", json!({"depth": 14})),
        ("densenet", json!({"input": [32, 32, 3], "growth": 4, "blocks": [2, 2]})),
        ("inception-v3", json!({"input": [75, 75, 3]})),
        ("inception-v4", json!({"input": [75, 75, 3]})),
        ("mobilenet-v3", json!({"input": [32, 32, 3]})),
        ("unet", json!({"input": [16, 16, 1], "width": 4, "levels": 2})),
        ("lstm", json!({"input": [7, 3], "layers": 2, "dropout": 0.1})),
        ("gpt", json!({"tokens": 11, "layers": 2, "width": 16, "heads": 2, "length": 5})),
        ("vgg-16", json!({"input": [32, 32, 3], "hidden": 16})),
    ];
    zoo.map(|(name, parameters)| model(name, parameters).unwrap()).to_vec()
}

/// Every read is of something that was there or was written before; every value is written once.
fn check(program: &Program) {
    let mut there: HashSet<usize> = HashSet::new();
    for (value, info) in program.values.iter().enumerate() {
        if matches!(info.kind, ValueKind::Input | ValueKind::Parameter | ValueKind::Seed) {
            there.insert(value);
        }
    }
    for (index, instruction) in program.instructions.iter().enumerate() {
        for read in &instruction.reads {
            assert!(there.contains(read), "{index} reads {} too early", program.values[*read].name);
        }
        for &write in &instruction.writes {
            let again = !there.insert(write);
            let updated = program.values[write].kind == ValueKind::Parameter && index >= program.passes;
            assert!(!again || updated, "{index} writes {} again", program.values[write].name);
        }
    }
}

#[test]
fn programs_read_what_is_there() {
    for graph in graphs() {
        let mut program = Program::training(&graph, 4, Numerics::Winograd4, &|_| false).unwrap();
        assert!(program.forward < program.passes);
        let rule = pleach_tensor::update("adam", json!({})).unwrap();
        program.add_update(&*rule, true, Some(0.9));
        check(&program);
        let learned = program.parameters.iter().filter(|p| p.gradient.is_some()).count();
        assert_eq!(program.norms.len(), learned);
        assert_eq!(program.states.len(), 3 * learned);
        check(&Program::inference(&graph, 4, Numerics::Winograd4, true).unwrap());
    }
}

#[test]
fn without_a_loss_the_target_is_not_asked_for() {
    for graph in graphs() {
        let program = Program::inference(&graph, 1, Numerics::Direct, false).unwrap();
        let inputs: Vec<&str> = program.inputs.iter().map(|port| port.name.as_str()).collect();
        assert!(inputs.len() == 1 && inputs[0] != "target", "{inputs:?}");
        assert_eq!(program.outputs.len(), 1);
    }
}

#[test]
fn frozen_layers_shorten_the_backward_pass() {
    let graph = model("resnet-cifar", json!({"depth": 20})).unwrap();
    let all = Program::training(&graph, 4, Numerics::Direct, &|_| false).unwrap();
    let head = Program::training(&graph, 4, Numerics::Direct, &|name| !name.starts_with("fc")).unwrap();
    assert_eq!(head.forward, all.forward);
    // The loss, the weight and the bias.
    assert_eq!(head.passes - head.forward, 3);
    let none = Program::training(&graph, 4, Numerics::Direct, &|_| true).unwrap_err().to_string();
    assert!(none.contains("frozen"), "{none}");
}

#[test]
fn a_graph_without_a_loss_cannot_be_trained() {
    let mut graph = Graph::new();
    let x = graph.input("image", [3]).unwrap();
    let y = graph.layer("fc", "linear", json!({"features": 2}), &[x]).unwrap();
    assert!(Program::training(&graph, 2, Numerics::Direct, &|_| false).is_err());
    assert!(Program::inference(&graph, 2, Numerics::Direct, false).is_err());
    graph.set_loss(y);
    assert!(Program::training(&graph, 2, Numerics::Direct, &|_| false).is_ok());
}

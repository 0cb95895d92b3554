//! The models of the zoo have the sizes that are known of them.

use pleach_graph::{Graph, MODELS, model};
use pleach_tensor::Numerics;
use serde_json::{Value, json};

/// Parameters that are learned, as torchvision 0.25 and the papers' authors count them.
fn known() -> Vec<(&'static str, Value, usize)> {
    vec![
        ("mlp", json!({"input": [28, 28, 1], "hidden": [300, 100]}), 266_610),
        ("resnet", json!({"depth": 18}), 11_689_512),
        ("resnet", json!({"depth": 34}), 21_797_672),
        ("resnet", json!({"depth": 50}), 25_557_032),
        ("resnet", json!({"depth": 101}), 44_549_160),
        ("resnet", json!({"depth": 152}), 60_192_808),
        ("vgg-16", json!({}), 138_357_544),
        ("vgg-16", json!({"norm": true}), 138_365_992),
        ("densenet", json!({}), 7_978_856),
        ("inception-v3", json!({}), 23_834_568),
        ("mobilenet-v3", json!({}), 5_483_032),
        ("mobilenet-v3", json!({"size": "small"}), 2_542_856),
        ("wide-resnet", json!({}), 36_479_194),
        // 6 blocks of 12·256² + 13·256, both embeddings, the last normalisation and the head.
        ("gpt", json!({"tokens": 65}), 4_837_888),
        // 4·128·(28 + 128 + 2), and 128·10 + 10.
        ("lstm", json!({"input": [28, 28]}), 82_186),
        ("resnet-cifar", json!({"depth": 20}), 269_722),
        ("resnet-cifar", json!({"depth": 110}), 1_727_962),
    ]
}

#[test]
fn models_have_the_parameters_that_are_known_of_them() {
    for (name, parameters, want) in known() {
        let graph = model(name, parameters.clone()).unwrap();
        let got = graph.parameter_count().unwrap();
        // The plain VGG of torchvision has biases in its convolutions; the one with normalisation
        // has them too, and ours does without.
        let without_biases = if parameters == json!({"norm": true}) { 4_224 } else { 0 };
        assert_eq!(got, want - without_biases, "{name} {parameters}");
    }
}

#[test]
fn multiply_adds_are_those_that_are_known() {
    // He et al. 2016, Table 1: 1.8 and 3.8 billion; 4.1 with the stride in the 3 × 3 convolution.
    for (depth, least, most) in [(18, 1.81e9, 1.83e9), (50, 4.08e9, 4.12e9)] {
        let macs = model("resnet", json!({"depth": depth})).unwrap().macs().unwrap() as f64;
        assert!(macs > least && macs < most, "{depth}: {macs}");
    }
}

#[test]
fn deep_models_are_built_without_recursion() {
    for (name, depth) in [("resnet-cifar", 2504), ("resnet-preact", 1001)] {
        let graph = model(name, json!({"depth": depth})).unwrap();
        assert!(graph.nodes().len() > 3 * depth / 2);
        graph.layers(2, Numerics::Winograd4, false).unwrap();
    }
}

#[test]
fn every_graph_survives_its_file() {
    for (name, parameters, _) in known() {
        let graph = model(name, parameters).unwrap();
        let again = Graph::from_json(&graph.to_json()).unwrap();
        assert_eq!(again.to_json(), graph.to_json(), "{name}");
        assert_eq!(again.parameter_count().unwrap(), graph.parameter_count().unwrap());
    }
}

#[test]
fn what_makes_no_model_is_refused() {
    for (name, parameters) in [
        ("resnet", json!({"depth": 19})),
        ("resnet", json!({"dept": 18})),
        ("resnet-cifar", json!({"depth": 21})),
        ("resnet-preact", json!({"depth": 12})),
        ("wide-resnet", json!({"depth": 29})),
        ("unet", json!({"input": [30, 30, 1]})),
        ("unet", json!({"levels": 200})),
        ("gpt", json!({"tokens": 65, "heads": 3})),
        ("lstm", json!({"input": [0, 3]})),
        ("densenet", json!({"blocks": []})),
        ("alexnet", json!({})),
    ] {
        assert!(model(name, parameters.clone()).is_err(), "{name} {parameters}");
    }
    for line in MODELS {
        assert!(!line.summary.is_empty() && !line.parameters.is_empty());
    }
}

#[test]
fn graphs_that_cannot_be_are_refused() {
    for (text, says) in [
        ("{", "not a graph"),
        (r#"{"version": 2, "inputs": {}, "layers": []}"#, "version"),
        (r#"{"version": 1, "inputs": {"x": [-1]}, "layers": []}"#, "shape of input"),
        (
            r#"{"version": 1, "inputs": {"x": [2]}, "layers": [{"name": "y", "op": "relu", "inputs": ["z"]}]}"#,
            "z",
        ),
        (
            r#"{"version": 1, "inputs": {"x": [2]}, "layers": [{"name": "x", "op": "relu", "inputs": ["x"]}]}"#,
            "differ",
        ),
        (
            r#"{"version": 1, "inputs": {"x": [2]}, "layers": [{"name": "y", "op": "rleu", "inputs": ["x"]}]}"#,
            "rleu",
        ),
        (
            r#"{"version": 1, "inputs": {"x": [2]}, "layers": [{"name": "y", "op": "relu", "inputs": ["x"], "slope": 1}]}"#,
            "slope",
        ),
        (r#"{"version": 1, "inputs": {}, "layers": [], "loss": "l"}"#, "the loss"),
        (r#"{"version": 1, "inputs": {}, "layers": [], "outputs": {"o": 3}}"#, "must name a layer"),
    ] {
        let error = Graph::from_json(text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
    let huge = r#"{"version": 1, "inputs": {"x": [4000000000, 4000000000]}, "layers": []}"#;
    let error = Graph::from_json(huge).unwrap().layers(8, Numerics::Direct, false).unwrap_err().to_string();
    assert!(error.contains("would take more than"), "{error}");
}

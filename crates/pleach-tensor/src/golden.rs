//! Agreement with `PyTorch` on small tensors; `tests/data/golden.py` made them.

use serde::Deserialize;
use serde_json::Value;

use crate::conformance::{build, compare, inference, key, largest, passes};
use crate::{Array, Init, Shape, Slot, op};

/// Largest difference, over the largest value: both sides round.
const TOLERANCE: f64 = 1e-5;

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    op: String,
    attributes: Value,
    inputs: Vec<Tensor>,
    parameters: Vec<Tensor>,
    output: Tensor,
    output_grad: Tensor,
    input_grads: Vec<Option<Tensor>>,
    parameter_grads: Vec<Tensor>,
    /// Running averages after one step.
    #[serde(default)]
    running: Vec<Tensor>,
    /// The output of inference with these averages.
    inference: Option<Tensor>,
}

#[derive(Deserialize)]
struct Tensor {
    shape: Shape,
    values: Vec<f64>,
}

fn arrays(tensors: &[Tensor]) -> Vec<Array> {
    tensors.iter().map(|tensor| Array::new(tensor.shape.clone(), tensor.values.clone())).collect()
}

fn check(case: &Case) {
    let name = format!("{} {}", case.op, case.attributes);
    let compare = |slot: Slot, got: &[f32], want: &Tensor| {
        let got: Vec<f64> = got.iter().map(|&x| f64::from(x)).collect();
        assert_eq!(got.len(), want.values.len(), "{name}: {slot:?}");
        compare(&format!("{name}: {slot:?}"), &got, &want.values, largest(&want.values), TOLERANCE);
    };
    let op = op(&case.op, case.attributes.clone()).unwrap();
    let (inputs, mut parameters) = (arrays(&case.inputs), arrays(&case.parameters));
    let layer = build(&*op, &inputs);
    assert_eq!(layer.output, case.output.shape, "{name}");
    #[expect(clippy::cast_possible_truncation, reason = "the values are floats")]
    let output_grad: Vec<f32> = case.output_grad.values.iter().map(|&x| x as f32).collect();
    let values = passes(&*op, &inputs, &parameters, &output_grad);
    let check = |slot: Slot, want: &Tensor| compare(slot, &values[&key(slot)], want);
    check(Slot::Output, &case.output);
    for (i, grad) in case.input_grads.iter().enumerate() {
        if let Some(grad) = grad {
            check(Slot::InputGrad(i), grad);
        }
    }
    for (i, grad) in case.parameter_grads.iter().enumerate() {
        check(Slot::ParameterGrad(i), grad);
    }
    for (running, want) in layer.running.iter().zip(&case.running) {
        let Init::Constant(start) = layer.parameters[running.parameter].init else {
            unreachable!("averages start as constants")
        };
        let latest = &values[&key(Slot::Saved(running.saved))];
        let average: Vec<f32> = latest.iter().map(|x| start + running.momentum * (x - start)).collect();
        compare(Slot::Parameter(running.parameter), &average, want);
    }
    if let Some(want) = &case.inference {
        parameters.extend(arrays(&case.running));
        compare(Slot::Output, &inference(&*op, &inputs, &parameters), want);
    }
}

#[test]
fn operations_agree_with_pytorch() {
    let golden: Golden = serde_json::from_str(include_str!("../tests/data/golden.json")).unwrap();
    for case in &golden.cases {
        check(case);
    }
}

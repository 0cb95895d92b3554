//! Matrix products with learned matrices.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Described, Fill, Sample};
use crate::direct::{BiasGrad, Gather, weight_grad};
use crate::geometry::Geometry;
use crate::{Action, Array, Call, Error, Init, Layer, Op, Parameter, Role, Setting, Shape, Slot};

/// `y = x · w + b` along the last axis; all others are rows.
///
/// # Shapes
/// - input: `[…, in]`, rank 2 and above
/// - `weight`: `[in, out]`, at the start normal with deviation `√(1 / in)`
/// - `bias`: `[out]`, where there is one
/// - output: `[…, out]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Linear {
    features: usize,
    #[serde(default = "yes")]
    bias: bool,
}

fn yes() -> bool {
    true
}

impl Op for Linear {
    fn name(&self) -> &'static str {
        Linear::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(Linear::NAME, inputs)?;
        let refuse = |reason: &str| super::misfit(Linear::NAME, inputs, reason);
        if input.rank() < 2 || input.is_empty() {
            return Err(refuse("it takes rows of features, and at least one of each"));
        }
        if self.features == 0 {
            return Err(refuse("features must be at least 1"));
        }
        let features = input.features();
        let rows = input.checked_len("the input")? / features;
        let mut sizes = input.sizes().to_vec();
        *sizes.last_mut().expect("there are two") = self.features;
        let output = Shape::new(sizes);
        output.checked_len("the output")?;
        // A convolution of images of one pixel.
        let g = Geometry {
            n: rows,
            h: 1,
            w: 1,
            c: features,
            k: self.features,
            r: 1,
            s: 1,
            stride: [1, 1],
            padding: [0; 4],
            dilation: [1, 1],
            groups: 1,
        };
        let weight = Shape::from([features, self.features]);
        weight.checked_len("the weight")?;
        #[expect(clippy::cast_possible_truncation, reason = "a float is all that is needed")]
        let init = Init::Normal((1.0 / features as f64).sqrt() as f32);
        let mut parameters = vec![Parameter { name: "weight", shape: weight, role: Role::Weight, init }];
        let mut reads = vec![Slot::Input(0), Slot::Parameter(0)];
        let mut backward = vec![
            Action::run(
                Gather::input_grad(&g, false),
                [Slot::OutputGrad, Slot::Parameter(0)],
                [Slot::InputGrad(0)],
            ),
            Action::Run(Call {
                kernel: weight_grad(&g),
                reads: vec![Slot::Input(0), Slot::OutputGrad],
                writes: vec![Slot::ParameterGrad(0)],
            }),
        ];
        if self.bias {
            parameters.push(super::bias(self.features));
            reads.push(Slot::Parameter(1));
            let kernel = BiasGrad { rows, columns: self.features };
            backward.push(Action::run(kernel, [Slot::OutputGrad], [Slot::ParameterGrad(1)]));
        }
        Ok(Layer {
            output,
            parameters,
            saved: Vec::new(),
            running: Vec::new(),
            forward: Action::run(Gather::forward(&g, self.bias), reads, [Slot::Output]),
            inference: None,
            backward,
            macs: g.macs(),
        })
    }

    fn reference(&self, inputs: &[Array], parameters: &[Array]) -> Array {
        let x = &inputs[0];
        let features = x.shape.features();
        let mut sizes = x.shape.sizes().to_vec();
        *sizes.last_mut().expect("there are two") = self.features;
        let mut values = Vec::new();
        for row in x.values.chunks_exact(features) {
            for column in 0..self.features {
                let start = if self.bias { parameters[1].values[column] } else { 0.0 };
                values.push(
                    row.iter()
                        .enumerate()
                        .fold(start, |sum, (i, x)| sum + x * parameters[0].at(&[i, column])),
                );
            }
        }
        Array::new(sizes, values)
    }
}

impl Described for Linear {
    const NAME: &'static str = "linear";
    const SUMMARY: &'static str = "x · w + b along the last axis";

    fn samples() -> Vec<Sample> {
        let sample = |sizes: &[usize], features, bias| {
            Sample::new(Linear { features, bias }, [(Shape::new(sizes), Fill::Normal)])
        };
        vec![
            sample(&[1, 1], 1, true),
            sample(&[1, 50], 7, true),
            sample(&[13, 5], 33, false),
            sample(&[2, 3, 17], 40, true),
            sample(&[1100, 20], 35, true),
        ]
    }
}

//! The same values under another shape.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Described, Fill, Sample};
use crate::{Array, Error, Layer, Op, Setting, Shape};

/// The same values as examples of these sizes: `[n, …]` becomes `[n, sizes…]`.
///
/// # Errors
/// [`Error::Shape`] if an example has another number of values.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reshape {
    sizes: Vec<usize>,
}

impl Reshape {
    fn output(&self, input: &Shape) -> Shape {
        Shape::new([&[input.batch()], &*self.sizes].concat())
    }
}

impl Op for Reshape {
    fn name(&self) -> &'static str {
        Reshape::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(Self::NAME, inputs)?;
        let output = self.output(input);
        if input.rank() == 0 || output.checked_len("a reshaped tensor")? != input.len() {
            return Err(super::misfit(Self::NAME, inputs, format!("it would give {output}")));
        }
        Ok(Layer::plain(output))
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        Array::new(self.output(&inputs[0].shape), inputs[0].values.clone())
    }
}

impl Described for Reshape {
    const NAME: &'static str = "reshape";
    const SUMMARY: &'static str = "the same values of each example under another shape";

    fn samples() -> Vec<Sample> {
        let reshape =
            |sizes: Vec<usize>, shape: Shape| Sample::new(Reshape { sizes }, [(shape, Fill::Normal)]);
        vec![
            reshape(vec![2, 3, 5], [3, 30].into()),
            reshape(vec![6, 5], [1, 2, 3, 5].into()),
            reshape(vec![], [4, 1].into()),
        ]
    }
}

/// Each example as a row: `[n, …]` becomes `[n, features]`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flatten {}

impl Flatten {
    fn output(input: &Shape) -> Shape {
        Shape::from([input.batch(), input.sizes()[1..].iter().product()])
    }
}

impl Op for Flatten {
    fn name(&self) -> &'static str {
        Flatten::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(Self::NAME, inputs)?;
        if input.rank() == 0 {
            return Err(super::misfit(Self::NAME, inputs, "it takes [batch, …]"));
        }
        Ok(Layer::plain(Flatten::output(input)))
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        Array::new(Flatten::output(&inputs[0].shape), inputs[0].values.clone())
    }
}

impl Described for Flatten {
    const NAME: &'static str = "flatten";
    const SUMMARY: &'static str = "each example as a row";

    fn samples() -> Vec<Sample> {
        let shapes: [Shape; 3] = [[3, 4, 4, 5].into(), [2, 7].into(), [4].into()];
        shapes.map(|shape| Sample::new(Flatten {}, [(shape, Fill::Normal)])).to_vec()
    }
}

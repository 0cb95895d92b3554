//! Tensors behind one another.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::blocks::{Blocks, copy};
use super::slice::Cut;
use super::{Described, Fill, Sample};
use crate::{Action, Array, Context, Error, Kernel, Layer, MAX_OPERANDS, Op, Setting, Shape, Slot};

/// One to twelve inputs behind one another along `axis`, the last one if nothing is said.
///
/// # Errors
/// [`Error::Shape`] if inputs differ along another axis, or if the axis is the batch.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Concat {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    axis: Option<usize>,
}

impl Concat {
    fn axis(self, inputs: &[Shape]) -> usize {
        self.axis.unwrap_or(inputs[0].rank().max(1) - 1)
    }

    fn output(self, inputs: &[Shape]) -> Result<Shape, Error> {
        let axis = self.axis(inputs);
        let mut sizes = inputs[0].sizes().to_vec();
        let fits = |input: &Shape| {
            let same = |other: usize| input.sizes()[other] == inputs[0].sizes()[other];
            input.rank() == sizes.len() && (0..sizes.len()).all(|other| other == axis || same(other))
        };
        if axis == 0 || axis >= sizes.len() || !inputs.iter().all(fits) {
            let reason = format!("it takes inputs that differ along axis {axis} alone, and not the batch");
            return Err(super::misfit(Self::NAME, inputs, reason));
        }
        sizes[axis] = inputs.iter().map(|input| input.sizes()[axis]).sum();
        let output = Shape::new(sizes);
        output.checked_len("a concatenation")?;
        Ok(output)
    }
}

impl Op for Concat {
    fn name(&self) -> &'static str {
        Concat::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        if !(1..=MAX_OPERANDS).contains(&inputs.len()) {
            let expected = format!("1 to {MAX_OPERANDS}");
            return Err(Error::Inputs { op: Self::NAME, expected, got: inputs.len() });
        }
        let output = self.output(inputs)?;
        let axis = self.axis(inputs);
        let rows = output.sizes()[..axis].iter().product();
        let widths: Vec<usize> = inputs.iter().map(|input| input.sizes()[axis..].iter().product()).collect();
        let stride = widths.iter().sum();
        let mut from = 0;
        let mut backward = Vec::new();
        for (i, &width) in widths.iter().enumerate() {
            let cut = Cut { rows, blocks: Blocks { from, width, stride } };
            backward.push(Action::run(cut, [Slot::OutputGrad], [Slot::InputGrad(i)]));
            from += width;
        }
        let slots: Vec<Slot> = (0..inputs.len()).map(Slot::Input).collect();
        Ok(Layer {
            forward: Action::run(Forward { rows, widths }, slots, [Slot::Output]),
            backward,
            ..Layer::plain(output)
        })
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let shapes: Vec<Shape> = inputs.iter().map(|input| input.shape.clone()).collect();
        let output = self.output(&shapes).expect("it was built");
        let axis = self.axis(&shapes);
        let rows: usize = output.sizes()[..axis].iter().product();
        let mut values = Vec::new();
        for row in 0..rows {
            for input in inputs {
                let width = input.values.len() / rows;
                values.extend(&input.values[row * width..(row + 1) * width]);
            }
        }
        Array::new(output, values)
    }
}

impl Described for Concat {
    const NAME: &'static str = "concat";
    const SUMMARY: &'static str = "its inputs behind one another along an axis, the last by default";

    fn samples() -> Vec<Sample> {
        let join = |axis, shapes: &[Shape]| {
            let inputs: Vec<_> = shapes.iter().map(|shape| (shape.clone(), Fill::Normal)).collect();
            Sample::new(Concat { axis }, inputs)
        };
        vec![
            join(None, &[[2, 3, 5].into(), [2, 3, 16].into(), [2, 3, 1].into()]),
            join(Some(1), &[[2, 3, 5].into(), [2, 1, 5].into()]),
            join(None, &[[1, 4].into()]),
            join(None, &[[2, 20, 20, 24].into(), [2, 20, 20, 19].into()]),
            join(Some(1), &[[2, 20_000].into(), [2, 7].into()]),
        ]
    }
}

#[derive(Debug)]
struct Forward {
    rows: usize,
    widths: Vec<usize>,
}

impl Kernel for Forward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let [y] = writes else { unreachable!("one write") };
        let stride = self.widths.iter().sum();
        let mut from = 0;
        for (x, &width) in reads.iter().zip(&self.widths) {
            copy(cx, self.rows, Some((x, Blocks::dense(width))), y, Blocks { from, width, stride });
            from += width;
        }
    }
}

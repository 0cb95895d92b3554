//! Channels times a factor of each example: the last step of squeeze and excitation.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::columns::{Coefficients, Grad, Grid};
use super::{Described, Fill, Sample};
use crate::{Action, Array, Context, Error, Kernel, Layer, Op, Setting, Shape, Slot};

/// `x · s`: `x` is `[n, …, channels]`, and of `s`, `[n, channels]` or `[n, 1, …, channels]`, an
/// example's factor of a channel holds for all of its places.
///
/// # Source
/// Hu, Shen, Albanie, Sun, Wu, *Squeeze-and-Excitation Networks*, CVPR 2018, arXiv:1709.01507, Eq. 4.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scale {}

impl Op for Scale {
    fn name(&self) -> &'static str {
        Scale::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [x, factor] = super::inputs(Self::NAME, inputs)?;
        let (batch, channels) = (x.batch(), x.features());
        let ends = factor.batch() == batch && factor.features() == channels;
        if x.rank() < 2 || x.is_empty() || factor.rank() < 2 || !ends || factor.len() != batch * channels {
            let reason = "it takes [n, …, channels] and [n, channels]";
            return Err(super::misfit(Self::NAME, inputs, reason));
        }
        let grid = Grid::new(batch, x.len() / (batch * channels), channels);
        Ok(Layer {
            forward: Action::run(Product(grid), [Slot::Input(0), Slot::Input(1)], [Slot::Output]),
            backward: vec![
                Action::run(FactorGrad(grid), [Slot::Input(0), Slot::OutputGrad], [Slot::InputGrad(1)]),
                Action::run(Product(grid), [Slot::OutputGrad, Slot::Input(1)], [Slot::InputGrad(0)]),
            ],
            ..Layer::plain(x.clone())
        })
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let mut y = inputs[0].clone();
        let (batch, channels) = (y.shape.batch(), y.shape.features());
        let size = y.values.len() / batch;
        for (at, y) in y.values.iter_mut().enumerate() {
            *y *= inputs[1].values[at / size * channels + at % channels];
        }
        y
    }
}

impl Described for Scale {
    const NAME: &'static str = "scale";
    const SUMMARY: &'static str = "channels times a factor of each example, as in squeeze and excitation";

    fn samples() -> Vec<Sample> {
        let scale =
            |x: Shape, factor: Shape| Sample::new(Scale {}, [(x, Fill::Normal), (factor, Fill::Normal)]);
        vec![
            scale([3, 7].into(), [3, 7].into()),
            scale([2, 3, 3, 5].into(), [2, 5].into()),
            scale([1, 4, 2, 16].into(), [1, 1, 1, 16].into()),
            scale([3, 9, 15, 72].into(), [3, 72].into()),
        ]
    }
}

/// Zero for every column.
const fn zeros(values: &[f32]) -> Coefficients<'_> {
    Coefficients { values, stride: 0 }
}

#[derive(Debug)]
struct Product(Grid);

impl Kernel for Product {
    fn workspaces(&self) -> Vec<usize> {
        vec![self.0.columns]
    }

    fn in_place(&self) -> &'static [(usize, usize)] {
        &[(0, 0)]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let ([x, factor], [y]) = (reads, writes) else { unreachable!("two reads and one write") };
        workspace.fill(0.0);
        self.0.affine(cx, x, [self.0.coefficients(factor), zeros(workspace)], false, y);
    }
}

/// Sums of `x · dy` over the places of an example.
#[derive(Debug)]
struct FactorGrad(Grid);

impl Kernel for FactorGrad {
    fn workspaces(&self) -> Vec<usize> {
        vec![self.0.partials() + self.0.columns]
    }

    #[expect(clippy::cast_possible_truncation, reason = "the nearest floats are wanted")]
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let ([x, dy], [factor_grad]) = (reads, writes) else { unreachable!("two reads and one write") };
        let (partials, centre) = workspace.split_at_mut(self.0.partials());
        centre.fill(0.0);
        self.0.sums(cx, x, Some(Grad { dy, relu: None }), zeros(centre), partials);
        for (at, grad) in factor_grad.iter_mut().enumerate() {
            let [_, products] = self.0.total(partials, at / self.0.columns, at % self.0.columns);
            *grad = products as f32;
        }
    }
}

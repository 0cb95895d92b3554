//! Batch normalisation, with a `ReLU` behind it if wanted.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::columns::{Grad, Grid};
use super::{Described, Fill, Sample};
use crate::{
    Action, Array, Context, Error, Init, Kernel, Layer, Op, Parameter, Role, Running, Setting, Shape, Slot,
};

/// `γ (x − μ) / √(σ² + ε) + β`, where mean μ and variance σ² of a channel, the last axis, are taken
/// over all other axes.
///
/// In training they are those of the batch; running averages of the mean and of the unbiased
/// variance are kept for inference. Without `affine` there are no γ and β; with `relu` the result
/// is no less than 0, and the backward pass finds out from `x` where it was.
///
/// # Errors
/// [`Error::Shape`] if a channel has fewer than two values to learn from, since their variance is then 0.
///
/// # Source
/// Ioffe, Szegedy, *Batch Normalization*, ICML 2015, arXiv:1502.03167, Algorithm 1.
/// Deviation: `momentum` is the weight of the latest batch, as in `PyTorch`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BatchNorm {
    epsilon: f64,
    momentum: f64,
    relu: bool,
    affine: bool,
}

impl Default for BatchNorm {
    fn default() -> BatchNorm {
        BatchNorm { epsilon: 1e-5, momentum: 0.1, relu: false, affine: true }
    }
}

impl Op for BatchNorm {
    fn name(&self) -> &'static str {
        BatchNorm::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], setting: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(Self::NAME, inputs)?;
        let channels = input.features();
        let rows = input.len() / channels.max(1);
        if input.rank() < 2 || input.is_empty() || (rows < 2 && !setting.inference) {
            let reason = "it takes [batch, …, channels] with two values a channel and more";
            return Err(super::misfit(Self::NAME, inputs, reason));
        }
        let norm = Norm { op: *self, grid: Grid::new(1, rows, channels) };
        let mut parameters = if self.affine { scale_and_shift(channels) } else { Vec::new() };
        let affine: Vec<Slot> = (0..parameters.len()).map(Slot::Parameter).collect();
        let average = parameters.len();
        for (name, init) in [("running_mean", 0.0), ("running_variance", 1.0)] {
            let (shape, init) = ([channels].into(), Init::Constant(init));
            parameters.push(Parameter { name, shape, role: Role::Average, init });
        }
        let averages = [Slot::Parameter(average), Slot::Parameter(average + 1)];
        let (mean, inverse, variance) = (Slot::Saved(0), Slot::Saved(1), Slot::Saved(2));
        #[expect(clippy::cast_possible_truncation, reason = "the nearest float is wanted")]
        let momentum = self.momentum as f32;
        let slots = |first: &[Slot]| [first, &affine].concat();
        let gradients = (0..average).map(Slot::ParameterGrad);
        Ok(Layer {
            parameters,
            saved: vec![channels; 3],
            running: vec![
                Running { parameter: average, saved: 0, momentum },
                Running { parameter: average + 1, saved: 2, momentum },
            ],
            forward: Action::run(
                Forward(norm),
                slots(&[Slot::Input(0)]),
                [Slot::Output, mean, inverse, variance],
            ),
            inference: Some(Action::run(
                Inference(norm),
                slots(&[Slot::Input(0), averages[0], averages[1]]),
                [Slot::Output],
            )),
            backward: vec![Action::run(
                Backward(norm),
                slots(&[Slot::Input(0), Slot::OutputGrad, mean, inverse]),
                [Slot::InputGrad(0)].into_iter().chain(gradients).collect::<Vec<_>>(),
            )],
            ..Layer::plain(input.clone())
        })
    }

    fn reference(&self, inputs: &[Array], parameters: &[Array]) -> Array {
        let x = &inputs[0];
        let channels = x.shape.features();
        let rows = (x.values.len() / channels) as f64;
        let mut y = x.clone();
        for channel in 0..channels {
            let values = || x.values.iter().skip(channel).step_by(channels);
            let mean = values().sum::<f64>() / rows;
            let variance = values().map(|x| (x - mean).powi(2)).sum::<f64>() / rows;
            let (mut scale, mut shift) = (1.0, 0.0);
            if self.affine {
                (scale, shift) = (parameters[0].values[channel], parameters[1].values[channel]);
            }
            for y in y.values.iter_mut().skip(channel).step_by(channels) {
                *y = (*y - mean) / (variance + self.epsilon).sqrt() * scale + shift;
                *y = if self.relu { y.max(0.0) } else { *y };
            }
        }
        y
    }
}

impl Described for BatchNorm {
    const NAME: &'static str = "batch-norm";
    const SUMMARY: &'static str = "normalises each channel over the batch, with a ReLU if wanted";

    fn samples() -> Vec<Sample> {
        let plain = BatchNorm::default();
        let relu = BatchNorm { relu: true, ..plain };
        let normal = |op, shape: Shape| Sample::new(op, [(shape, Fill::Normal)]);
        vec![
            normal(plain, [5, 7].into()),
            normal(relu, [2, 3, 3, 16].into()),
            normal(BatchNorm { affine: false, epsilon: 1e-3, ..relu }, [1, 4, 5, 3].into()),
            normal(BatchNorm { affine: false, ..plain }, [6, 20].into()),
            normal(relu, [4, 9, 11, 72].into()),
            normal(plain, [3, 300].into()),
        ]
    }
}

/// γ and β of normalisations.
pub(super) fn scale_and_shift(channels: usize) -> Vec<Parameter> {
    [("weight", 1.0), ("bias", 0.0)]
        .map(|(name, init)| Parameter {
            name,
            shape: [channels].into(),
            role: Role::Shift,
            init: Init::Constant(init),
        })
        .to_vec()
}

/// Scale and shift of `γ (x − mean) · inverse + β` as a function of `x`.
#[expect(clippy::cast_possible_truncation, reason = "the nearest floats are wanted")]
pub(super) fn affine(mean: f32, inverse: f32, weight: f32, bias: f32) -> [f32; 2] {
    let scale = f64::from(weight) * f64::from(inverse);
    [scale as f32, (f64::from(bias) - f64::from(mean) * scale) as f32]
}

#[derive(Clone, Copy, Debug)]
struct Norm {
    op: BatchNorm,
    grid: Grid,
}

impl Norm {
    /// Scale and shift of all channels.
    fn affine(self, mean: &[f32], inverse: &[f32], parameters: &[&[f32]], [scale, shift]: [&mut [f32]; 2]) {
        for channel in 0..self.grid.columns {
            let [weight, bias] = match parameters {
                [weight, bias] => [weight[channel], bias[channel]],
                _ => [1.0, 0.0],
            };
            [scale[channel], shift[channel]] = affine(mean[channel], inverse[channel], weight, bias);
        }
    }
}

/// Mean and variance of the batch, then `y`.
#[derive(Debug)]
struct Forward(Norm);

impl Kernel for Forward {
    fn workspaces(&self) -> Vec<usize> {
        vec![self.0.grid.partials() + 2 * self.0.grid.columns]
    }

    #[expect(clippy::cast_possible_truncation, reason = "statistics are kept as floats")]
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let ([x, parameters @ ..], [y, mean, inverse, variance]) = (reads, writes) else {
            unreachable!("the input and four writes")
        };
        let grid = &self.0.grid;
        let (partials, coefficients) = workspace.split_at_mut(grid.partials());
        let (scale, shift) = coefficients.split_at_mut(grid.columns);
        // Sums of differences to a value of the channel lose nothing where the mean is large.
        grid.sums(cx, x, None, grid.first_rows(x), partials);
        let rows = grid.rows as f64;
        for channel in 0..grid.columns {
            let [sum, squares] = grid.total(partials, 0, channel);
            let off = sum / rows;
            let spread = squares - sum * off;
            // Rounding may take it below zero; NaN stays.
            let spread = if spread < 0.0 { 0.0 } else { spread };
            mean[channel] = (f64::from(x[channel]) + off) as f32;
            inverse[channel] = (1.0 / (spread / rows + self.0.op.epsilon).sqrt()) as f32;
            variance[channel] = (spread / (rows - 1.0)) as f32;
        }
        self.0.affine(mean, inverse, parameters, [&mut *scale, &mut *shift]);
        let coefficients = [grid.coefficients(scale), grid.coefficients(shift)];
        grid.affine(cx, x, coefficients, self.0.op.relu, y);
    }
}

/// `y` from the running averages.
#[derive(Debug)]
struct Inference(Norm);

impl Kernel for Inference {
    fn workspaces(&self) -> Vec<usize> {
        vec![3 * self.0.grid.columns]
    }

    fn in_place(&self) -> &'static [(usize, usize)] {
        &[(0, 0)]
    }

    #[expect(clippy::cast_possible_truncation, reason = "the nearest floats are wanted")]
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let ([x, mean, variance, parameters @ ..], [y]) = (reads, writes) else {
            unreachable!("the input, the averages and one write")
        };
        let grid = &self.0.grid;
        let (inverse, coefficients) = workspace.split_at_mut(grid.columns);
        let (scale, shift) = coefficients.split_at_mut(grid.columns);
        for (inverse, variance) in inverse.iter_mut().zip(*variance) {
            *inverse = (1.0 / (f64::from(*variance) + self.0.op.epsilon).sqrt()) as f32;
        }
        self.0.affine(mean, inverse, parameters, [&mut *scale, &mut *shift]);
        let coefficients = [grid.coefficients(scale), grid.coefficients(shift)];
        grid.affine(cx, x, coefficients, self.0.op.relu, y);
    }
}

/// With `d` the derivative by what a `ReLU` takes, `x̂` the normalised `x` and means over the rows:
/// `dβ = Σ d`, `dγ = Σ d x̂`, `dx = γ/σ (d − mean(d) − x̂ mean(d x̂))`.
#[derive(Debug)]
struct Backward(Norm);

impl Kernel for Backward {
    fn workspaces(&self) -> Vec<usize> {
        vec![self.0.grid.partials() + 5 * self.0.grid.columns]
    }

    fn in_place(&self) -> &'static [(usize, usize)] {
        &[(1, 0)]
    }

    #[expect(clippy::cast_possible_truncation, reason = "the nearest floats are wanted")]
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let ([x, dy, mean, inverse, parameters @ ..], [dx, gradients @ ..]) = (reads, writes) else {
            unreachable!("the input, its grad, two statistics, and a write")
        };
        let grid = &self.0.grid;
        let (partials, rest) = workspace.split_at_mut(grid.partials());
        let (scale, rest) = rest.split_at_mut(grid.columns);
        let (relu_shift, rest) = rest.split_at_mut(grid.columns);
        let (slope, rest) = rest.split_at_mut(grid.columns);
        let (tilt, shift) = rest.split_at_mut(grid.columns);
        self.0.affine(mean, inverse, parameters, [&mut *scale, &mut *relu_shift]);
        let relu = self.0.op.relu.then(|| [grid.coefficients(scale), grid.coefficients(relu_shift)]);
        let centre = grid.coefficients(mean);
        // In place, `dy` lies in `dx`.
        let read = if dy.is_empty() { &**dx } else { dy };
        grid.sums(cx, x, Some(Grad { dy: read, relu }), centre, partials);
        let rows = grid.rows as f64;
        for channel in 0..grid.columns {
            let [sum, products] = grid.total(partials, 0, channel);
            let inverse = f64::from(inverse[channel]);
            let weight = if let [weight, _] = parameters { f64::from(weight[channel]) } else { 1.0 };
            if let [weight_grad, bias_grad] = gradients {
                weight_grad[channel] = (products * inverse) as f32;
                bias_grad[channel] = sum as f32;
            }
            let steep = weight * inverse;
            slope[channel] = steep as f32;
            tilt[channel] = (-steep * inverse * inverse * products / rows) as f32;
            shift[channel] = (-steep * sum / rows) as f32;
        }
        let [slope, tilt, shift] = [&*slope, tilt, shift].map(|values| grid.coefficients(values));
        grid.gradient(cx, x, Grad { dy, relu }, [centre, slope, tilt, shift], dx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{inference, value};

    #[test]
    fn a_large_mean_costs_no_digits() {
        // Values around 1000 with a variance of 1.25.
        let x = Array::new([512, 1], (0..512).map(|i| 1000.0 + f64::from(i % 4)).collect());
        let op = BatchNorm { affine: false, ..BatchNorm::default() };
        let averages = [Array::zeros([1]), Array::zeros([1])];
        let variance = value(&op, &[x], &averages, Slot::Saved(2));
        assert!((variance[0] - 1.25 * 512.0 / 511.0).abs() < 1e-6, "{variance:?}");
    }

    #[test]
    fn inference_takes_the_averages() {
        let x = Array::new([2, 2], vec![1.0, -4.0, 3.0, f64::NAN]);
        let parameters =
            [[2.0, 1.0], [0.5, 0.0], [1.0, 0.0], [4.0, 1.0]].map(|v| Array::new([2], v.to_vec()));
        let op = BatchNorm { epsilon: 0.0, relu: true, ..BatchNorm::default() };
        let y = inference(&op, &[x], &parameters);
        assert_eq!(y[..3], [0.5, 0.0, 2.5]);
        assert!(y[3].is_nan());
    }

    #[test]
    fn one_value_a_channel_is_refused() {
        let error = BatchNorm::default().build(&[[1, 1, 1, 8].into()], Setting::default()).unwrap_err();
        assert!(error.to_string().contains("two values a channel"), "{error}");
        let setting = Setting { inference: true, ..Setting::default() };
        assert!(BatchNorm::default().build(&[[1, 1, 1, 8].into()], setting).is_ok());
        assert!(BatchNorm::default().build(&[[8].into()], Setting::default()).is_err());
    }
}

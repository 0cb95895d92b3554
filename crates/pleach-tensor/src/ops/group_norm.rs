//! Group normalisation.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::batch_norm::{affine, scale_and_shift};
use super::columns::{Grad, Grid};
use super::{Described, Fill, Sample};
use crate::{Action, Array, Context, Error, Kernel, Layer, Op, Setting, Shape, Slot};

/// `γ (x − μ) / √(σ² + ε) + β`, where mean μ and variance σ² are those of an example's values in a
/// group of neighbouring channels; γ and β belong to channels, the last axis.
///
/// # Errors
/// [`Error::Shape`] if the groups do not divide the channels.
///
/// # Source
/// Wu, He, *Group Normalization*, ECCV 2018, arXiv:1803.08494, Eq. 1 and 7.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupNorm {
    groups: usize,
    #[serde(default = "epsilon")]
    epsilon: f64,
}

/// What is added to a variance, as in `PyTorch`.
pub(super) fn epsilon() -> f64 {
    1e-5
}

impl Op for GroupNorm {
    fn name(&self) -> &'static str {
        GroupNorm::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(Self::NAME, inputs)?;
        let channels = input.features();
        if input.rank() < 2 || input.is_empty() || self.groups == 0 || channels % self.groups != 0 {
            let reason = format!("it takes [batch, …, channels], and {} groups of channels", self.groups);
            return Err(super::misfit(Self::NAME, inputs, reason));
        }
        let grid = Grid::new(input.batch(), input.len() / input.batch() / channels, channels);
        let norm = Norm { op: *self, grid };
        let (weight, bias) = (Slot::Parameter(0), Slot::Parameter(1));
        let (mean, inverse) = (Slot::Saved(0), Slot::Saved(1));
        Ok(Layer {
            parameters: scale_and_shift(channels),
            saved: vec![input.batch() * self.groups; 2],
            forward: Action::run(
                Forward(norm),
                [Slot::Input(0), weight, bias],
                [Slot::Output, mean, inverse],
            ),
            backward: vec![Action::run(
                Backward(norm),
                [Slot::Input(0), Slot::OutputGrad, mean, inverse, weight, bias],
                [Slot::InputGrad(0), Slot::ParameterGrad(0), Slot::ParameterGrad(1)],
            )],
            ..Layer::plain(input.clone())
        })
    }

    fn reference(&self, inputs: &[Array], parameters: &[Array]) -> Array {
        let x = &inputs[0];
        let (batch, channels) = (x.shape.batch(), x.shape.features());
        let mut y = x.clone();
        for (image, y) in y.values.chunks_exact_mut(x.values.len() / batch).enumerate() {
            let image = &x.values[image * y.len()..][..y.len()];
            for group in 0..self.groups {
                let inside = |at: &usize| at % channels / (channels / self.groups) == group;
                let places: Vec<usize> = (0..image.len()).filter(inside).collect();
                let n = places.len() as f64;
                let mean = places.iter().map(|&at| image[at]).sum::<f64>() / n;
                let variance = places.iter().map(|&at| (image[at] - mean).powi(2)).sum::<f64>() / n;
                for at in places {
                    let [scale, shift] = [0, 1].map(|i: usize| parameters[i].values[at % channels]);
                    y[at] = (image[at] - mean) / (variance + self.epsilon).sqrt() * scale + shift;
                }
            }
        }
        y
    }
}

impl Described for GroupNorm {
    const NAME: &'static str = "group-norm";
    const SUMMARY: &'static str = "normalises groups of channels of each example";

    fn samples() -> Vec<Sample> {
        let normal = |groups, shape: Shape| {
            Sample::new(GroupNorm { groups, epsilon: epsilon() }, [(shape, Fill::Normal)])
        };
        vec![
            normal(3, [2, 3, 5, 6].into()),
            normal(1, [3, 7].into()),
            normal(16, [1, 4, 4, 16].into()),
            normal(4, [2, 9, 16, 72].into()),
        ]
    }
}

#[derive(Clone, Copy, Debug)]
struct Norm {
    op: GroupNorm,
    grid: Grid,
}

impl Norm {
    /// The group of a channel of a segment.
    fn group(self, segment: usize, channel: usize) -> usize {
        segment * self.op.groups + channel * self.op.groups / self.grid.columns
    }

    /// Values of a group.
    fn size(self) -> f64 {
        (self.grid.rows * self.grid.columns / self.op.groups) as f64
    }
}

#[derive(Debug)]
struct Forward(Norm);

impl Kernel for Forward {
    fn workspaces(&self) -> Vec<usize> {
        let grid = &self.0.grid;
        vec![grid.partials() + 2 * grid.segments * grid.columns]
    }

    #[expect(clippy::cast_possible_truncation, reason = "statistics are kept as floats")]
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let ([x, weight, bias], [y, mean, inverse]) = (reads, writes) else {
            unreachable!("three reads and three writes")
        };
        let (norm, grid) = (self.0, &self.0.grid);
        let (partials, coefficients) = workspace.split_at_mut(grid.partials());
        let (scale, shift) = coefficients.split_at_mut(grid.segments * grid.columns);
        let first = grid.first_rows(x);
        grid.sums(cx, x, None, first, partials);
        let width = grid.columns / norm.op.groups;
        let rows = grid.rows as f64;
        for segment in 0..grid.segments {
            for group in 0..norm.op.groups {
                let channels = group * width..(group + 1) * width;
                // The mean of a channel is its first value and what the others are off it.
                let channel_mean = |channel: usize| {
                    let [sum, squares] = grid.total(partials, segment, channel);
                    let first = f64::from(first.values[segment * first.stride + channel]);
                    (first + sum / rows, squares - sum * sum / rows)
                };
                let total: f64 = channels.clone().map(|channel| channel_mean(channel).0).sum();
                let group_mean = total / width as f64;
                let mut spread = 0.0;
                for channel in channels {
                    let (mean, own) = channel_mean(channel);
                    spread += own + rows * (mean - group_mean).powi(2);
                }
                // Rounding may take it below zero; NaN stays.
                let spread = if spread < 0.0 { 0.0 } else { spread };
                let at = segment * norm.op.groups + group;
                mean[at] = group_mean as f32;
                inverse[at] = (1.0 / (spread / norm.size() + norm.op.epsilon).sqrt()) as f32;
            }
            for channel in 0..grid.columns {
                let (at, group) = (segment * grid.columns + channel, norm.group(segment, channel));
                [scale[at], shift[at]] = affine(mean[group], inverse[group], weight[channel], bias[channel]);
            }
        }
        grid.affine(cx, x, [grid.coefficients(scale), grid.coefficients(shift)], false, y);
    }
}

/// With `x̂` the normalised `x` and means over a group: `dβ = Σ dy`, `dγ = Σ dy x̂`,
/// `dx = 1/σ (γ dy − mean(γ dy) − x̂ mean(γ dy x̂))`.
#[derive(Debug)]
struct Backward(Norm);

impl Kernel for Backward {
    fn workspaces(&self) -> Vec<usize> {
        let grid = &self.0.grid;
        vec![grid.partials() + 4 * grid.segments * grid.columns]
    }

    fn in_place(&self) -> &'static [(usize, usize)] {
        &[(1, 0)]
    }

    #[expect(clippy::cast_possible_truncation, reason = "the nearest floats are wanted")]
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let ([x, dy, mean, inverse, weight, _], [dx, weight_grad, bias_grad]) = (reads, writes) else {
            unreachable!("six reads and three writes")
        };
        let (norm, grid) = (self.0, &self.0.grid);
        let all = grid.segments * grid.columns;
        let (partials, rest) = workspace.split_at_mut(grid.partials());
        let (centre, rest) = rest.split_at_mut(all);
        let (slope, rest) = rest.split_at_mut(all);
        let (tilt, shift) = rest.split_at_mut(all);
        for at in 0..all {
            centre[at] = mean[norm.group(at / grid.columns, at % grid.columns)];
        }
        // In place, `dy` lies in `dx`.
        let read = if dy.is_empty() { &**dx } else { dy };
        grid.sums(cx, x, Some(Grad { dy: read, relu: None }), grid.coefficients(centre), partials);
        let width = grid.columns / norm.op.groups;
        for at in 0..grid.segments * norm.op.groups {
            let (segment, group) = (at / norm.op.groups, at % norm.op.groups);
            let inverse = f64::from(inverse[at]);
            let (mut sum, mut products) = (0.0, 0.0);
            for channel in group * width..(group + 1) * width {
                let total = grid.total(partials, segment, channel);
                sum += f64::from(weight[channel]) * total[0];
                products += f64::from(weight[channel]) * total[1];
            }
            for channel in group * width..(group + 1) * width {
                let at = segment * grid.columns + channel;
                slope[at] = (f64::from(weight[channel]) * inverse) as f32;
                tilt[at] = (-inverse.powi(3) * products / norm.size()) as f32;
                shift[at] = (-inverse * sum / norm.size()) as f32;
            }
        }
        for channel in 0..grid.columns {
            let (mut sum, mut products) = (0.0, 0.0);
            for segment in 0..grid.segments {
                let total = grid.total(partials, segment, channel);
                sum += total[0];
                products += total[1] * f64::from(inverse[norm.group(segment, channel)]);
            }
            weight_grad[channel] = products as f32;
            bias_grad[channel] = sum as f32;
        }
        let coefficients = [&*centre, slope, tilt, shift].map(|values| grid.coefficients(values));
        grid.gradient(cx, x, Grad { dy, relu: None }, coefficients, dx);
    }
}

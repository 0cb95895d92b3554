//! Transposed convolutions: larger images from smaller ones.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::conv::{Padding, ones, yes};
use super::{Described, Fill, Sample};
use crate::direct::{BiasGrad, Gather, weight_grad};
use crate::geometry::Geometry;
use crate::{Action, Array, Call, Error, Init, Layer, Op, Parameter, Role, Setting, Shape, Slot};

/// The convolution that leads from the output to the input, backwards: every pixel of the input
/// adds a filter of its size to the output, `stride` pixels from its neighbour's.
///
/// # Shapes
/// - input: `[n, h, w, c]`
/// - `weight`: `[r, s, channels, c]`, at the start normal as He et al. say, counting the inputs that
///   reach a pixel
/// - `bias`: `[channels]`, where there is one
/// - output: `[n, out_h, out_w, channels]` with `out_h = (h − 1) · stride − padding + r +
///   output_padding`, `padding` being that above and below
///
/// # Source
/// Dumoulin, Visin, *A guide to convolution arithmetic for deep learning*, arXiv:1603.07285, §4.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ConvTranspose {
    channels: usize,
    kernel: [usize; 2],
    #[serde(default = "ones")]
    stride: [usize; 2],
    #[serde(default)]
    padding: Padding,
    /// Rows below and columns to the right that the output has besides, fewer than `stride`.
    #[serde(default)]
    output_padding: [usize; 2],
    #[serde(default = "yes")]
    bias: bool,
}

impl ConvTranspose {
    /// The convolution that leads from the output to the input.
    fn geometry(&self, input: &Shape) -> Result<Geometry, String> {
        let &[n, h, w, c] = input.sizes() else {
            return Err("it takes images: [n, height, width, channels]".into());
        };
        if input.is_empty() {
            return Err("it takes at least one image of one pixel".into());
        }
        let padding = self.padding.sides();
        let [height, width] = [(h, 0), (w, 1)].map(|(size, axis)| {
            let reach = (size - 1).checked_mul(self.stride[axis])?.checked_add(self.kernel[axis])?;
            let padded = reach.checked_add(self.output_padding[axis])?;
            padded.checked_sub(padding[axis].checked_add(padding[axis + 2])?)
        });
        let (Some(height @ 1..), Some(width @ 1..)) = (height, width) else {
            return Err("padding leaves nothing of the output".into());
        };
        let g = Geometry {
            n,
            h: height,
            w: width,
            c: self.channels,
            k: c,
            r: self.kernel[0],
            s: self.kernel[1],
            stride: self.stride,
            padding,
            dilation: [1, 1],
            groups: 1,
        };
        if self.channels == 0 {
            return Err("channels must be at least 1".into());
        }
        g.check()?;
        if self.output_padding[0] >= self.stride[0] || self.output_padding[1] >= self.stride[1] {
            return Err("output-padding must be less than stride".into());
        }
        Ok(g)
    }
}

impl Op for ConvTranspose {
    fn name(&self) -> &'static str {
        ConvTranspose::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(ConvTranspose::NAME, inputs)?;
        let g = self.geometry(input).map_err(|reason| super::misfit(ConvTranspose::NAME, inputs, reason))?;
        g.check_size()?;
        let init = Init::he((g.r * g.s * g.k).div_ceil(g.stride[0] * g.stride[1]));
        let mut parameters = vec![Parameter { name: "weight", shape: g.weight(), role: Role::Weight, init }];
        let mut reads = vec![Slot::Input(0), Slot::Parameter(0)];
        let mut backward = vec![
            Action::run(
                Gather::forward(&g, false),
                [Slot::OutputGrad, Slot::Parameter(0)],
                [Slot::InputGrad(0)],
            ),
            Action::Run(Call {
                kernel: weight_grad(&g),
                reads: vec![Slot::OutputGrad, Slot::Input(0)],
                writes: vec![Slot::ParameterGrad(0)],
            }),
        ];
        if self.bias {
            parameters.push(super::bias(g.c));
            reads.push(Slot::Parameter(1));
            let kernel = BiasGrad { rows: g.n * g.h * g.w, columns: g.c };
            backward.push(Action::run(kernel, [Slot::OutputGrad], [Slot::ParameterGrad(1)]));
        }
        Ok(Layer {
            output: g.input(),
            parameters,
            saved: Vec::new(),
            running: Vec::new(),
            forward: Action::run(Gather::input_grad(&g, self.bias), reads, [Slot::Output]),
            inference: None,
            backward,
            macs: g.macs(),
        })
    }

    fn reference(&self, inputs: &[Array], parameters: &[Array]) -> Array {
        let (x, w) = (&inputs[0], &parameters[0]);
        let g = self.geometry(&x.shape).expect("it was built for images");
        let mut y = Array::zeros(g.input());
        if self.bias {
            for pixel in y.values.chunks_exact_mut(g.c) {
                pixel.copy_from_slice(&parameters[1].values);
            }
        }
        let [below, right] = [g.padding[0] + g.h, g.padding[1] + g.w];
        for n in 0..g.n {
            for i in 0..g.out_h() {
                for j in 0..g.out_w() {
                    for r in 0..g.r {
                        for s in 0..g.s {
                            let (row, column) = (i * g.stride[0] + r, j * g.stride[1] + s);
                            if !(g.padding[0]..below).contains(&row)
                                || !(g.padding[1]..right).contains(&column)
                            {
                                continue;
                            }
                            let (row, column) = (row - g.padding[0], column - g.padding[1]);
                            for c in 0..g.c {
                                let at = y.offset(&[n, row, column, c]);
                                for k in 0..g.k {
                                    y.values[at] += x.at(&[n, i, j, k]) * w.at(&[r, s, c, k]);
                                }
                            }
                        }
                    }
                }
            }
        }
        y
    }
}

impl Described for ConvTranspose {
    const NAME: &'static str = "conv-transpose";
    const SUMMARY: &'static str = "a transposed convolution of images";

    fn samples() -> Vec<Sample> {
        let plain = |channels, kernel, stride| ConvTranspose {
            channels,
            kernel,
            stride,
            padding: Padding::default(),
            output_padding: [0, 0],
            bias: true,
        };
        let sample =
            |sizes: [usize; 4], op: ConvTranspose| Sample::new(op, [(Shape::from(sizes), Fill::Normal)]);
        vec![
            sample([1, 1, 1, 1], plain(1, [1, 1], [1, 1])),
            sample([2, 4, 3, 5], plain(3, [2, 2], [2, 2])),
            sample([1, 5, 4, 17], ConvTranspose { bias: false, ..plain(33, [2, 2], [2, 2]) }),
            sample([2, 3, 3, 4], plain(6, [1, 1], [2, 3])),
            sample(
                [2, 4, 4, 7],
                ConvTranspose {
                    padding: Padding::Even([1, 1]),
                    output_padding: [1, 1],
                    ..plain(5, [3, 3], [2, 2])
                },
            ),
            sample(
                [1, 3, 5, 3],
                ConvTranspose { padding: Padding::Sides([1, 0, 2, 1]), ..plain(2, [4, 3], [1, 2]) },
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let build = |attributes: Value| {
            let op = super::super::op("conv-transpose", attributes).unwrap();
            op.build(&[Shape::from([1, 4, 4, 3])], Setting::default()).map(|layer| layer.output)
        };
        let with = |padding: usize, more: usize, stride: usize| {
            serde_json::json!({
                "channels": 2, "kernel": [3, 3], "stride": [stride, stride],
                "padding": [padding, padding], "output-padding": [more, more],
            })
        };
        assert_eq!(build(with(1, 1, 2)).unwrap(), Shape::from([1, 8, 8, 2]));
        assert!(build(with(1, 2, 2)).is_err(), "output-padding");
        assert!(build(with(6, 0, 2)).is_err(), "padding");
        assert!(build(with(0, 0, 0)).is_err(), "stride");
        assert!(build(with(0, 0, usize::MAX)).is_err(), "overflow");
    }
}

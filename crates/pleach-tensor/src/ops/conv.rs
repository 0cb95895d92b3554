//! Convolutions of images.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Described, Fill, Sample};
use crate::direct::{BiasGrad, Depthwise, DepthwiseWeightGrad, Gather, input_grad, weight_grad};
use crate::geometry::Geometry;
use crate::winograd;
use crate::{
    Action, Array, Call, Error, Init, Kernel, Layer, Numerics, Op, Parameter, Role, Setting, Shape, Slot,
};

/// `y[n, i, j, k] = b[k] + Σ x[n, i·stride + r·dilation − top, j·stride + s·dilation − left, c] ·
/// w[r, s, c, k]` over the filter and the channels of `k`'s group.
///
/// # Shapes
/// - input: `[n, h, w, c]`
/// - `weight`: `[r, s, c / groups, channels]`, at the start normal as He et al. say
/// - `bias`: `[channels]`, where there is one
/// - output: `[n, out_h, out_w, channels]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Conv {
    channels: usize,
    kernel: [usize; 2],
    #[serde(default = "ones")]
    stride: [usize; 2],
    #[serde(default)]
    padding: Padding,
    #[serde(default = "ones")]
    dilation: [usize; 2],
    #[serde(default = "one")]
    groups: usize,
    #[serde(default = "yes")]
    bias: bool,
}

/// Zeros around an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Padding {
    /// As many above as below, and left as right.
    Even([usize; 2]),
    /// Top, left, bottom, right.
    Sides([usize; 4]),
}

impl Default for Padding {
    fn default() -> Padding {
        Padding::Even([0, 0])
    }
}

impl Padding {
    /// Top, left, bottom, right.
    pub(crate) fn sides(self) -> [usize; 4] {
        match self {
            Padding::Even([vertical, horizontal]) => [vertical, horizontal, vertical, horizontal],
            Padding::Sides(sides) => sides,
        }
    }
}

fn one() -> usize {
    1
}

pub(super) fn ones() -> [usize; 2] {
    [1, 1]
}

pub(super) fn yes() -> bool {
    true
}

impl Conv {
    fn geometry(&self, input: &Shape) -> Option<Geometry> {
        let &[n, h, w, c] = input.sizes() else { return None };
        Some(Geometry {
            n,
            h,
            w,
            c,
            k: self.channels,
            r: self.kernel[0],
            s: self.kernel[1],
            stride: self.stride,
            padding: self.padding.sides(),
            dilation: self.dilation,
            groups: self.groups,
        })
    }
}

/// The kernels that suit a convolution: `(x, w)` or `(x, w, bias)` to `y`, `(dy, w)` to `dx`, and
/// `(x, dy)` to `dw`. They depend on sizes and numerics alone.
fn kernels(g: &Geometry, bias: bool, numerics: Numerics) -> [Arc<dyn Kernel>; 3] {
    if g.groups == g.c && g.groups == g.k {
        let forward = Depthwise::forward(g, bias);
        return [
            Arc::new(forward),
            Arc::new(Depthwise::input_grad(g)),
            Arc::new(DepthwiseWeightGrad::new(g)),
        ];
    }
    if let Some(tile) = winograd::tile(g, numerics) {
        return [
            Arc::new(winograd::forward(g, tile)),
            Arc::new(winograd::input_grad(g, tile)),
            Arc::new(winograd::weight_grad(g, tile)),
        ];
    }
    let forward = Gather::forward(g, bias);
    [Arc::new(forward), input_grad(g), weight_grad(g)]
}

impl Op for Conv {
    fn name(&self) -> &'static str {
        Conv::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], setting: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(Conv::NAME, inputs)?;
        let refuse = |reason: String| super::misfit(Conv::NAME, inputs, reason);
        let g = self
            .geometry(input)
            .filter(|_| !input.is_empty())
            .ok_or_else(|| refuse("it takes images: [n, height, width, channels]".into()))?;
        g.check().map_err(refuse)?;
        g.check_size()?;
        let init = Init::he(g.r * g.s * g.group_c());
        let mut parameters = vec![Parameter { name: "weight", shape: g.weight(), role: Role::Weight, init }];
        let mut reads = vec![Slot::Input(0), Slot::Parameter(0)];
        let [forward, input_grad, weight_grad] = kernels(&g, self.bias, setting.numerics);
        let run = |kernel, reads: &[Slot], write| {
            Action::Run(Call { kernel, reads: reads.to_vec(), writes: vec![write] })
        };
        let mut backward = vec![
            run(input_grad, &[Slot::OutputGrad, Slot::Parameter(0)], Slot::InputGrad(0)),
            run(weight_grad, &[Slot::Input(0), Slot::OutputGrad], Slot::ParameterGrad(0)),
        ];
        if self.bias {
            parameters.push(super::bias(g.k));
            reads.push(Slot::Parameter(1));
            let rows = g.n * g.out_h() * g.out_w();
            let kernel = BiasGrad { rows, columns: g.k };
            backward.push(Action::run(kernel, [Slot::OutputGrad], [Slot::ParameterGrad(1)]));
        }
        Ok(Layer {
            output: g.output(),
            parameters,
            saved: Vec::new(),
            running: Vec::new(),
            forward: run(forward, &reads, Slot::Output),
            inference: None,
            backward,
            macs: g.macs(),
        })
    }

    fn reference(&self, inputs: &[Array], parameters: &[Array]) -> Array {
        let (x, w) = (&inputs[0], &parameters[0]);
        let g = self.geometry(&x.shape).expect("it was built for images");
        let mut y = Array::zeros(g.output());
        for n in 0..g.n {
            for i in 0..g.out_h() {
                for j in 0..g.out_w() {
                    for k in 0..g.k {
                        let first = k / g.group_k() * g.group_c();
                        let mut sum = if self.bias { parameters[1].values[k] } else { 0.0 };
                        for r in 0..g.r {
                            for s in 0..g.s {
                                let row = i * g.stride[0] + r * g.dilation[0];
                                let column = j * g.stride[1] + s * g.dilation[1];
                                let inside = (g.padding[0]..g.padding[0] + g.h).contains(&row)
                                    && (g.padding[1]..g.padding[1] + g.w).contains(&column);
                                if !inside {
                                    continue;
                                }
                                let (row, column) = (row - g.padding[0], column - g.padding[1]);
                                for c in 0..g.group_c() {
                                    sum += x.at(&[n, row, column, first + c]) * w.at(&[r, s, c, k]);
                                }
                            }
                        }
                        let at = y.offset(&[n, i, j, k]);
                        y.values[at] = sum;
                    }
                }
            }
        }
        y
    }
}

impl Described for Conv {
    const NAME: &'static str = "conv";
    const SUMMARY: &'static str = "a convolution of images";

    fn samples() -> Vec<Sample> {
        let plain = |channels, kernel: [usize; 2]| Conv {
            channels,
            kernel,
            stride: [1, 1],
            padding: Padding::Even([kernel[0] / 2, kernel[1] / 2]),
            dilation: [1, 1],
            groups: 1,
            bias: false,
        };
        let sample = |sizes: [usize; 4], conv: Conv| Sample::new(conv, [(Shape::from(sizes), Fill::Normal)]);
        let sides = Padding::Sides([0, 1, 2, 0]);
        vec![
            sample([1, 1, 1, 1], plain(1, [1, 1])),
            sample([2, 5, 7, 3], Conv { bias: true, ..plain(5, [3, 3]) }),
            sample([3, 6, 6, 20], plain(35, [3, 3])),
            sample([1, 9, 8, 17], Conv { stride: [2, 2], ..plain(33, [3, 3]) }),
            sample([2, 8, 9, 4], Conv { stride: [2, 3], bias: true, ..plain(6, [1, 1]) }),
            sample([2, 11, 12, 3], Conv { stride: [2, 2], ..plain(9, [7, 7]) }),
            sample(
                [2, 5, 15, 2],
                Conv { padding: Padding::Sides([1, 0, 0, 3]), bias: true, ..plain(40, [2, 4]) },
            ),
            sample([1, 11, 11, 3], Conv { stride: [2, 2], ..plain(9, [7, 7]) }),
            sample([1, 8, 5, 6], plain(4, [1, 7])),
            sample([1, 8, 5, 6], plain(4, [7, 1])),
            sample([2, 7, 7, 5], Conv { padding: sides, ..plain(3, [3, 3]) }),
            sample(
                [2, 9, 9, 4],
                Conv { dilation: [2, 3], padding: Padding::Even([2, 3]), ..plain(5, [3, 3]) },
            ),
            sample([2, 6, 5, 12], Conv { groups: 3, ..plain(6, [3, 3]) }),
            sample([1, 5, 5, 40], Conv { groups: 2, stride: [2, 1], bias: true, ..plain(70, [3, 3]) }),
            sample([2, 5, 5, 3], Conv { padding: Padding::default(), ..plain(4, [5, 5]) }),
            sample([3, 9, 21, 5], Conv { groups: 5, bias: true, ..plain(5, [3, 3]) }),
            sample([2, 7, 8, 50], Conv { groups: 50, stride: [2, 2], ..plain(50, [5, 5]) }),
            sample(
                [1, 6, 9, 33],
                Conv { groups: 33, dilation: [1, 2], padding: Padding::Even([0, 2]), ..plain(33, [2, 3]) },
            ),
            sample([3, 9, 10, 7], plain(48, [1, 1])),
            sample([2, 7, 9, 19], Conv { stride: [2, 2], ..plain(16, [1, 1]) }),
            sample([1, 8, 5, 16], Conv { groups: 16, stride: [3, 2], ..plain(16, [1, 1]) }),
            sample([3, 20, 20, 16], plain(32, [3, 3])),
        ]
    }
}

//! Convolutions of images.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Described, Fill, Sample};
use crate::direct::{BiasGrad, Gather, WeightGrad};
use crate::geometry::Geometry;
use crate::winograd;
use crate::{Action, Array, Error, Init, Layer, Op, Parameter, Role, Setting, Shape, Slot};

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

fn ones() -> [usize; 2] {
    [1, 1]
}

fn yes() -> bool {
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
        let to_input = ([Slot::OutputGrad, Slot::Parameter(0)], [Slot::InputGrad(0)]);
        let to_weight = ([Slot::Input(0), Slot::OutputGrad], [Slot::ParameterGrad(0)]);
        let tile = winograd::tile(&g, setting.numerics);
        let mut backward = match tile {
            Some(tile) => vec![
                Action::run(winograd::input_grad(&g, tile), to_input.0, to_input.1),
                Action::run(winograd::weight_grad(&g, tile), to_weight.0, to_weight.1),
            ],
            None => vec![
                Action::run(Gather::input_grad(&g), to_input.0, to_input.1),
                Action::run(WeightGrad::new(&g), to_weight.0, to_weight.1),
            ],
        };
        if self.bias {
            parameters.push(super::bias(g.k));
            reads.push(Slot::Parameter(1));
            let rows = g.n * g.out_h() * g.out_w();
            let kernel = BiasGrad { rows, columns: g.k };
            backward.push(Action::run(kernel, [Slot::OutputGrad], [Slot::ParameterGrad(1)]));
        }
        let forward = match tile {
            Some(tile) => Action::run(winograd::forward(&g, tile), reads, [Slot::Output]),
            None => Action::run(Gather::forward(&g, self.bias), reads, [Slot::Output]),
        };
        Ok(Layer {
            output: g.output(),
            parameters,
            saved: Vec::new(),
            running: Vec::new(),
            forward,
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
            sample([2, 11, 11, 3], Conv { stride: [2, 2], ..plain(9, [7, 7]) }),
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
            sample([3, 20, 20, 16], plain(32, [3, 3])),
        ]
    }
}

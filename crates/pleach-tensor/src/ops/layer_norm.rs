//! Layer normalisation.

#![expect(unsafe_code, reason = "rows are read by pointers, and written on several threads")]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::batch_norm::scale_and_shift;
use super::group_norm::epsilon;
use super::rows::within;
use super::{Described, Fill, Sample};
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Action, Array, Context, Error, Kernel, Layer, Op, Setting, Shape, Slot};

/// The most parts, each a chunk of rows.
const PARTS: usize = 32;

/// `γ (x − μ) / √(σ² + ε) + β`, where mean μ and variance σ² are taken along the last axis.
///
/// # Source
/// Ba, Kiros, Hinton, *Layer Normalization*, arXiv:1607.06450, Eq. 3 and 4.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LayerNorm {
    #[serde(default = "epsilon")]
    epsilon: f64,
}

impl Op for LayerNorm {
    fn name(&self) -> &'static str {
        LayerNorm::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(Self::NAME, inputs)?;
        if input.rank() < 2 || input.is_empty() {
            return Err(super::misfit(Self::NAME, inputs, "it takes [batch, …, features]"));
        }
        let columns = input.features();
        let rows = input.len() / columns;
        #[expect(clippy::cast_possible_truncation, reason = "the nearest float is wanted")]
        let norm = Norm { rows, columns, epsilon: self.epsilon as f32 };
        let (mean, inverse) = (Slot::Saved(0), Slot::Saved(1));
        Ok(Layer {
            parameters: scale_and_shift(columns),
            saved: vec![rows; 2],
            forward: Action::run(
                Forward(norm),
                [Slot::Input(0), Slot::Parameter(0), Slot::Parameter(1)],
                [Slot::Output, mean, inverse],
            ),
            backward: vec![Action::run(
                Backward(norm),
                [Slot::Input(0), Slot::OutputGrad, mean, inverse, Slot::Parameter(0)],
                [Slot::InputGrad(0), Slot::ParameterGrad(0), Slot::ParameterGrad(1)],
            )],
            ..Layer::plain(input.clone())
        })
    }

    fn reference(&self, inputs: &[Array], parameters: &[Array]) -> Array {
        let mut y = inputs[0].clone();
        let columns = y.shape.features();
        for row in y.values.chunks_exact_mut(columns) {
            let mean = row.iter().sum::<f64>() / columns as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / columns as f64;
            for (x, (scale, shift)) in
                row.iter_mut().zip(parameters[0].values.iter().zip(&parameters[1].values))
            {
                *x = (*x - mean) / (variance + self.epsilon).sqrt() * scale + shift;
            }
        }
        y
    }
}

impl Described for LayerNorm {
    const NAME: &'static str = "layer-norm";
    const SUMMARY: &'static str = "normalises each row along the last axis";

    fn samples() -> Vec<Sample> {
        let shapes: [Shape; 4] = [[3, 7].into(), [1, 16].into(), [2, 3, 45].into(), [4, 33, 96].into()];
        shapes.map(|shape| Sample::new(LayerNorm { epsilon: epsilon() }, [(shape, Fill::Normal)])).to_vec()
    }
}

#[derive(Clone, Copy, Debug)]
struct Norm {
    rows: usize,
    columns: usize,
    epsilon: f32,
}

impl Norm {
    fn parts(self) -> usize {
        self.rows.min(PARTS)
    }

    /// The first row of a part.
    fn row(self, part: usize) -> usize {
        part * self.rows / self.parts()
    }
}

/// Sums along a row are sixteen chains, one of every sixteenth value, that are summed at the end.
#[derive(Debug)]
struct Forward(Norm);

struct ForwardRows {
    norm: Norm,
    rows: usize,
    x: *const f32,
    weight: *const f32,
    bias: *const f32,
    y: *mut f32,
    mean: *mut f32,
    inverse: *mut f32,
}

impl Kernel for Forward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([x, weight, bias], [y, mean, inverse]) = (reads, writes) else {
            unreachable!("three reads and three writes")
        };
        let (norm, isa) = (self.0, cx.isa);
        let [y, mean, inverse] = [y, mean, inverse].map(|write| Shared::new(write));
        cx.pool.run(norm.parts(), &|part| {
            let (row, end) = (norm.row(part), norm.row(part + 1));
            isa.run(ForwardRows {
                norm,
                rows: end - row,
                x: x[row * norm.columns..end * norm.columns].as_ptr(),
                weight: weight.as_ptr(),
                bias: bias.as_ptr(),
                y: y.at(row * norm.columns),
                mean: mean.at(row),
                inverse: inverse.at(row),
            });
        });
    }
}

impl Body for ForwardRows {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let columns = self.norm.columns;
        for row in 0..self.rows {
            // SAFETY: rows have `columns` floats, as have weight and bias; of statistics there is
            // one a row.
            unsafe {
                let (x, y) = (self.x.add(row * columns), self.y.add(row * columns));
                let mut sum = s.splat(0.0);
                let mut i = 0;
                while i < columns {
                    sum = s.add(sum, s.load_up_to(x.add(i), columns - i));
                    i += LANES;
                }
                let mean = s.sum(sum) / columns as f32;
                let minus = s.splat(-mean);
                let mut squares = s.splat(0.0);
                i = 0;
                while i < columns {
                    let d = s.add(s.load_up_to(x.add(i), columns - i), minus);
                    let d = s.select(within(s, columns - i), d, s.splat(0.0));
                    squares = s.fma(d, d, squares);
                    i += LANES;
                }
                let inverse = 1.0 / (s.sum(squares) / columns as f32 + self.norm.epsilon).sqrt();
                i = 0;
                while i < columns {
                    let left = columns - i;
                    let normal = s.mul(s.add(s.load_up_to(x.add(i), left), minus), s.splat(inverse));
                    let weight = s.load_up_to(self.weight.add(i), left);
                    let v = s.fma(normal, weight, s.load_up_to(self.bias.add(i), left));
                    s.store_up_to(y.add(i), v, left);
                    i += LANES;
                }
                *self.mean.add(row) = mean;
                *self.inverse.add(row) = inverse;
            }
        }
    }
}

/// With `x̂` the normalised `x` and means along a row: `dβ = Σ dy`, `dγ = Σ dy x̂`,
/// `dx = 1/σ (γ dy − mean(γ dy) − x̂ mean(γ dy x̂))`.
#[derive(Debug)]
struct Backward(Norm);

struct BackwardRows {
    norm: Norm,
    rows: usize,
    x: *const f32,
    dy: *const f32,
    mean: *const f32,
    inverse: *const f32,
    weight: *const f32,
    dx: *mut f32,
    weight_grad: *mut f32,
    bias_grad: *mut f32,
}

impl Kernel for Backward {
    fn workspaces(&self) -> Vec<usize> {
        vec![2 * self.0.parts() * self.0.columns]
    }

    fn in_place(&self) -> &'static [(usize, usize)] {
        &[(1, 0)]
    }

    #[expect(clippy::cast_possible_truncation, reason = "the nearest floats are wanted")]
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let ([x, dy, mean, inverse, weight], [dx, weight_grad, bias_grad]) = (reads, writes) else {
            unreachable!("five reads and three writes")
        };
        let (norm, isa) = (self.0, cx.isa);
        let columns = norm.columns;
        workspace.fill(0.0);
        let (dx, sums) = (Shared::new(dx), Shared::new(workspace));
        cx.pool.run(norm.parts(), &|part| {
            let (row, end) = (norm.row(part), norm.row(part + 1));
            isa.run(BackwardRows {
                norm,
                rows: end - row,
                x: x[row * columns..end * columns].as_ptr(),
                dy: dx.source(dy, row * columns),
                mean: mean[row..].as_ptr(),
                inverse: inverse[row..].as_ptr(),
                weight: weight.as_ptr(),
                dx: dx.at(row * columns),
                weight_grad: sums.at(2 * part * columns),
                bias_grad: sums.at((2 * part + 1) * columns),
            });
        });
        for column in 0..columns {
            let total = |offset: usize| -> f64 {
                let chunks = workspace.chunks_exact(2 * columns);
                chunks.map(|chunk| f64::from(chunk[offset + column])).sum()
            };
            weight_grad[column] = total(0) as f32;
            bias_grad[column] = total(columns) as f32;
        }
    }
}

impl Body for BackwardRows {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let columns = self.norm.columns;
        for row in 0..self.rows {
            // SAFETY: rows have `columns` floats, as have the weight and the sums; of statistics
            // there is one a row.
            unsafe {
                let at = row * columns;
                let (x, dy, dx) = (self.x.add(at), self.dy.add(at), self.dx.add(at));
                let minus = s.splat(-*self.mean.add(row));
                let inverse = s.splat(*self.inverse.add(row));
                let (mut sum, mut products) = (s.splat(0.0), s.splat(0.0));
                let mut i = 0;
                while i < columns {
                    let left = columns - i;
                    let normal = s.mul(s.add(s.load_up_to(x.add(i), left), minus), inverse);
                    let d = s.load_up_to(dy.add(i), left);
                    let (to, bias_to) = (self.weight_grad.add(i), self.bias_grad.add(i));
                    s.store_up_to(to, s.fma(d, normal, s.load_up_to(to, left)), left);
                    s.store_up_to(bias_to, s.add(d, s.load_up_to(bias_to, left)), left);
                    let g = s.mul(d, s.load_up_to(self.weight.add(i), left));
                    sum = s.add(sum, g);
                    products = s.fma(g, normal, products);
                    i += LANES;
                }
                let mean = s.splat(s.sum(sum) / columns as f32);
                let tilt = s.splat(s.sum(products) / -(columns as f32));
                i = 0;
                while i < columns {
                    let left = columns - i;
                    let normal = s.mul(s.add(s.load_up_to(x.add(i), left), minus), inverse);
                    let g = s.mul(s.load_up_to(dy.add(i), left), s.load_up_to(self.weight.add(i), left));
                    let v = s.fma(normal, tilt, s.sub(g, mean));
                    s.store_up_to(dx.add(i), s.mul(v, inverse), left);
                    i += LANES;
                }
            }
        }
    }
}

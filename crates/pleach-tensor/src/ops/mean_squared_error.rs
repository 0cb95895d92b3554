//! The loss of regressions.

#![expect(unsafe_code, reason = "rows are read by pointers, and written on several threads")]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Described, Fill, Sample};
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Action, Array, Context, Error, Kernel, Layer, Op, Setting, Shape, Slot};

/// Elements that a part works on, about.
const PART: usize = 16 * 1024;

/// The mean of `(prediction − target)²` over all values of an example: two inputs `[n, …]` of one
/// shape give `[n]`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MeanSquaredError {}

impl Op for MeanSquaredError {
    fn name(&self) -> &'static str {
        MeanSquaredError::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [prediction, target] = super::inputs(Self::NAME, inputs)?;
        if prediction != target || prediction.rank() == 0 || prediction.is_empty() {
            return Err(super::misfit(Self::NAME, inputs, "it takes two inputs of one shape"));
        }
        let rows = Rows { rows: prediction.batch(), columns: prediction.len() / prediction.batch() };
        let both = [Slot::Input(0), Slot::Input(1)];
        let backward = |sign, to| {
            Action::run(Backward { rows, sign }, [both[0], both[1], Slot::OutputGrad], [Slot::InputGrad(to)])
        };
        Ok(Layer {
            forward: Action::run(Forward(rows), both, [Slot::Output]),
            backward: vec![backward(1.0, 0), backward(-1.0, 1)],
            ..Layer::plain(Shape::from([rows.rows]))
        })
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let rows = inputs[0].shape.batch();
        let columns = inputs[0].values.len() / rows;
        let squares = inputs[0].values.iter().zip(&inputs[1].values).map(|(x, y)| (x - y).powi(2));
        let squares: Vec<f64> = squares.collect();
        let means = squares.chunks_exact(columns).map(|row| row.iter().sum::<f64>() / columns as f64);
        Array::new([rows], means.collect())
    }
}

impl Described for MeanSquaredError {
    const NAME: &'static str = "mean-squared-error";
    const SUMMARY: &'static str = "the mean of squared differences to a target, for each example";

    fn samples() -> Vec<Sample> {
        let shapes: [Shape; 5] =
            [[3, 1].into(), [1, 16].into(), [4].into(), [2, 3, 7].into(), [5, 60, 101].into()];
        shapes
            .map(|shape| {
                Sample::new(MeanSquaredError {}, [(shape.clone(), Fill::Normal), (shape, Fill::Normal)])
            })
            .to_vec()
    }
}

#[derive(Clone, Copy, Debug)]
struct Rows {
    rows: usize,
    columns: usize,
}

impl Rows {
    /// Rows of a part.
    fn height(self) -> usize {
        (PART / self.columns).max(1)
    }
}

/// Sums along a row are sixteen chains, one of every sixteenth value, that are summed at the end.
#[derive(Debug)]
struct Forward(Rows);

struct Means {
    rows: usize,
    columns: usize,
    x: *const f32,
    target: *const f32,
    to: *mut f32,
}

impl Kernel for Forward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([x, target], [to]) = (reads, writes) else { unreachable!("two reads and one write") };
        let (Rows { rows, columns }, isa, to) = (self.0, cx.isa, Shared::new(to));
        let height = self.0.height();
        cx.pool.run(rows.div_ceil(height), &|part| {
            let row = part * height;
            isa.run(Means {
                rows: height.min(rows - row),
                columns,
                x: x[row * columns..].as_ptr(),
                target: target[row * columns..].as_ptr(),
                to: to.at(row),
            });
        });
    }
}

impl Body for Means {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for row in 0..self.rows {
            let mut sum = s.splat(0.0);
            let mut i = 0;
            // SAFETY: rows have `columns` floats, and there is a result for each.
            unsafe {
                while i < self.columns {
                    let at = row * self.columns + i;
                    let x = s.load_up_to(self.x.add(at), self.columns - i);
                    let d = s.sub(x, s.load_up_to(self.target.add(at), self.columns - i));
                    sum = s.fma(d, d, sum);
                    i += LANES;
                }
                *self.to.add(row) = s.sum(sum) / self.columns as f32;
            }
        }
    }
}

/// `2/m · dloss · (prediction − target)` with `m` values an example, or minus that.
#[derive(Debug)]
struct Backward {
    rows: Rows,
    sign: f32,
}

struct Grads<'a> {
    columns: usize,
    factor: f32,
    dy: &'a [f32],
    x: *const f32,
    target: *const f32,
    to: *mut f32,
}

impl Kernel for Backward {
    fn in_place(&self) -> &'static [(usize, usize)] {
        &[(0, 0)]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([x, target, dy], [to]) = (reads, writes) else { unreachable!("three reads and one write") };
        let (Rows { rows, columns }, isa, to) = (self.rows, cx.isa, Shared::new(to));
        let factor = self.sign * 2.0 / columns as f32;
        let height = self.rows.height();
        cx.pool.run(rows.div_ceil(height), &|part| {
            let row = part * height;
            isa.run(Grads {
                columns,
                factor,
                dy: &dy[row..rows.min(row + height)],
                x: to.source(x, row * columns),
                target: target[row * columns..].as_ptr(),
                to: to.at(row * columns),
            });
        });
    }
}

impl Body for Grads<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (row, dy) in self.dy.iter().enumerate() {
            let factor = s.splat(self.factor * dy);
            let mut i = 0;
            while i < self.columns {
                let (at, left) = (row * self.columns + i, self.columns - i);
                // SAFETY: rows have `columns` floats.
                unsafe {
                    let x = s.load_up_to(self.x.add(at), left);
                    let d = s.sub(x, s.load_up_to(self.target.add(at), left));
                    s.store_up_to(self.to.add(at), s.mul(d, factor), left);
                }
                i += LANES;
            }
        }
    }
}

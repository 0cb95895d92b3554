//! Long short-term memory.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::recurrent::{self, Cell};
use super::{Described, Sample};
use crate::math::{sigmoid, tanh};
use crate::simd::Simd;
use crate::{Array, Error, Layer, Op, Setting, Shape};

/// A layer of LSTM cells; state and memory are zero at the start.
///
/// With `(i, f, g, o) = x · weight_ih + bias_ih + h · weight_hh + bias_hh`, where `h` and `c` are of
/// the step before: `c' = σ(f) c + σ(i) tanh(g)`, and the output is `σ(o) tanh(c')`.
///
/// # Shapes
/// - input: `[n, t, features]`
/// - `weight_ih`: `[features, 4 · width]`, `weight_hh`: `[width, 4 · width]`, `bias_ih` and
///   `bias_hh`: `[4 · width]`, all of them uniform within `±√(1 / width)` at the start
/// - output: `[n, t, width]`
///
/// # Source
/// Hochreiter, Schmidhuber, *Long Short-Term Memory*, Neural Computation 9(8), 1997; with the forget
/// gate of Gers, Schmidhuber, Cummins, *Learning to Forget*, Neural Computation 12(10), 2000. Order
/// of gates and both biases as in `PyTorch`, so that its weights fit after a transposition.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lstm {
    width: usize,
}

impl Op for Lstm {
    fn name(&self) -> &'static str {
        Lstm::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        recurrent::layer(LstmCell, Self::NAME, inputs, self.width)
    }

    fn reference(&self, inputs: &[Array], parameters: &[Array]) -> Array {
        let width = self.width;
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let mut c = vec![0.0; width];
        recurrent::reference(inputs, parameters, width, |place, x, h, out| {
            if place == 0 {
                c.fill(0.0);
            }
            for unit in 0..width {
                let [i, f, g, o] = [0, 1, 2, 3].map(|gate| x[gate * width + unit] + h[gate * width + unit]);
                c[unit] = sigmoid(f) * c[unit] + sigmoid(i) * g.tanh();
                out[unit] = sigmoid(o) * c[unit].tanh();
            }
        })
    }
}

impl Described for Lstm {
    const NAME: &'static str = "lstm";
    const SUMMARY: &'static str = "long short-term memory along a sequence";

    fn samples() -> Vec<Sample> {
        recurrent::samples(|width| Lstm { width })
    }
}

/// The memory is the cell.
#[derive(Clone, Copy, Debug)]
struct LstmCell;

impl Cell for LstmCell {
    const GATES: usize = 4;
    const APART: bool = false;

    #[inline(always)]
    fn forward<S: Simd>(
        self,
        s: S,
        [i, f, g, o]: [S::V; 4],
        _: S::V,
        [c, _]: [S::V; 2],
    ) -> ([S::V; 4], S::V, S::V) {
        let (i, f, g, o) = (sigmoid(s, i), sigmoid(s, f), tanh(s, g), sigmoid(s, o));
        let c = s.fma(f, c, s.mul(i, g));
        ([i, f, g, o], c, s.mul(o, tanh(s, c)))
    }

    #[inline(always)]
    fn backward<S: Simd>(
        self,
        s: S,
        [i, f, g, o]: [S::V; 4],
        c: S::V,
        [earlier, _]: [S::V; 2],
        grad: S::V,
        carry: S::V,
    ) -> ([S::V; 4], S::V, S::V) {
        let one = s.splat(1.0);
        let t = tanh(s, c);
        let steep = s.mul(grad, o);
        let dc = s.fma(steep, s.sub(one, s.mul(t, t)), carry);
        let di = s.mul(s.mul(dc, g), s.mul(i, s.sub(one, i)));
        let df = s.mul(s.mul(dc, earlier), s.mul(f, s.sub(one, f)));
        let dg = s.mul(s.mul(dc, i), s.sub(one, s.mul(g, g)));
        let d_o = s.mul(s.mul(grad, t), s.mul(o, s.sub(one, o)));
        ([di, df, dg, d_o], s.splat(0.0), s.mul(dc, f))
    }
}

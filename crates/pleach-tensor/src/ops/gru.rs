//! Gated recurrent units.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::recurrent::{self, Cell};
use super::{Described, Sample};
use crate::math::{sigmoid, tanh};
use crate::simd::Simd;
use crate::{Array, Error, Layer, Op, Setting, Shape};

/// A layer of gated recurrent units, whose state is zero at the start.
///
/// With `(r, z, a) = x · weight_ih + bias_ih` and `(r', z', b) = h · weight_hh + bias_hh`, where `h`
/// is the output of the step before: `n = tanh(a + σ(r + r') b)`, and the output is
/// `(1 − σ(z + z')) n + σ(z + z') h`.
///
/// # Shapes
/// - input: `[n, t, features]`
/// - `weight_ih`: `[features, 3 · width]`, `weight_hh`: `[width, 3 · width]`, `bias_ih` and
///   `bias_hh`: `[3 · width]`, all of them uniform within `±√(1 / width)` at the start
/// - output: `[n, t, width]`
///
/// # Source
/// Cho et al., *Learning Phrase Representations using RNN Encoder-Decoder*, EMNLP 2014,
/// arXiv:1406.1078. Deviation: `r` is applied behind the product with the weight, and `z` weighs
/// the old state, as in `PyTorch`, so that its weights fit after a transposition.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gru {
    width: usize,
}

impl Op for Gru {
    fn name(&self) -> &'static str {
        Gru::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        recurrent::layer(GruCell, Self::NAME, inputs, self.width)
    }

    fn reference(&self, inputs: &[Array], parameters: &[Array]) -> Array {
        let width = self.width;
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        recurrent::reference(inputs, parameters, width, |_, x, h, state| {
            for (unit, state) in state.iter_mut().enumerate() {
                let [r, z] = [0, 1].map(|gate| sigmoid(x[gate * width + unit] + h[gate * width + unit]));
                let n = (x[2 * width + unit] + r * h[2 * width + unit]).tanh();
                *state = (1.0 - z) * n + z * *state;
            }
        })
    }
}

impl Described for Gru {
    const NAME: &'static str = "gru";
    const SUMMARY: &'static str = "gated recurrent units along a sequence";

    fn samples() -> Vec<Sample> {
        recurrent::samples(|width| Gru { width })
    }
}

/// The memory is what `r` weighs.
#[derive(Clone, Copy, Debug)]
struct GruCell;

impl Cell for GruCell {
    const GATES: usize = 3;
    const APART: bool = true;

    #[inline(always)]
    fn forward<S: Simd>(
        self,
        s: S,
        [r, z, a, _]: [S::V; 4],
        b: S::V,
        [_, h]: [S::V; 2],
    ) -> ([S::V; 4], S::V, S::V) {
        let (r, z) = (sigmoid(s, r), sigmoid(s, z));
        let n = tanh(s, s.fma(r, b, a));
        ([r, z, n, n], b, s.fma(z, s.sub(h, n), n))
    }

    #[inline(always)]
    fn backward<S: Simd>(
        self,
        s: S,
        [r, z, n, _]: [S::V; 4],
        b: S::V,
        [_, h]: [S::V; 2],
        grad: S::V,
        carry: S::V,
    ) -> ([S::V; 4], S::V, S::V) {
        let one = s.splat(1.0);
        let grad = s.add(grad, carry);
        let dz = s.mul(s.mul(grad, s.sub(h, n)), s.mul(z, s.sub(one, z)));
        let da = s.mul(s.mul(grad, s.sub(one, z)), s.sub(one, s.mul(n, n)));
        let dr = s.mul(s.mul(da, b), s.mul(r, s.sub(one, r)));
        ([dr, dz, da, da], s.mul(da, r), s.mul(grad, z))
    }
}

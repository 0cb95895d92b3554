//! `max(x, 0)`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::unary::{self, Function};
use super::{Described, Fill, Sample};
use crate::simd::Simd;
use crate::{Array, Error, Layer, Op, Setting, Shape};

/// `max(x, 0)`; NaN stays NaN, and the derivative at 0 is 0.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Relu {}

impl Op for Relu {
    fn name(&self) -> &'static str {
        Relu::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        unary::layer(*self, inputs)
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        inputs[0].map(|x| x.max(0.0))
    }
}

impl Described for Relu {
    const NAME: &'static str = "relu";
    const SUMMARY: &'static str = "max(x, 0)";

    fn samples() -> Vec<Sample> {
        [[3, 7], [5, 16], [2, 40_000]]
            .map(|sizes| Sample::new(Relu {}, [(Shape::from(sizes), Fill::Apart)]))
            .to_vec()
    }
}

impl Function for Relu {
    #[inline(always)]
    fn value<S: Simd>(self, s: S, x: S::V) -> S::V {
        // In this order, since `max` gives its second argument where one is NaN.
        s.max(s.splat(0.0), x)
    }

    #[inline(always)]
    fn slope<S: Simd>(self, s: S, x: S::V) -> S::V {
        s.select(s.lt(s.splat(0.0), x), s.splat(1.0), s.splat(0.0))
    }
}

//! Activations: functions of single elements.

use serde::{Deserialize, Serialize};

use super::unary::Function;
use crate::math;
use crate::simd::Simd;

/// `max(x, 0)`; the derivative at 0 is 0.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Relu {}

impl Function for Relu {
    const NAME: &'static str = "relu";
    const SUMMARY: &'static str = "max(x, 0)";

    #[inline(always)]
    fn value<S: Simd>(self, s: S, x: S::V) -> S::V {
        // In this order, since `max` gives its second argument where one is NaN.
        s.max(s.splat(0.0), x)
    }

    #[inline(always)]
    fn slope<S: Simd>(self, s: S, x: S::V) -> S::V {
        s.select(s.lt(s.splat(0.0), x), s.splat(1.0), s.splat(0.0))
    }

    fn exact(self, x: f64) -> f64 {
        x.max(0.0)
    }
}

/// `x` where `x > 0`, else `slope · x`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LeakyRelu {
    slope: f64,
}

impl Default for LeakyRelu {
    fn default() -> LeakyRelu {
        LeakyRelu { slope: 0.01 }
    }
}

impl Function for LeakyRelu {
    const NAME: &'static str = "leaky-relu";
    const SUMMARY: &'static str = "x where x > 0, else slope · x";

    #[inline(always)]
    fn value<S: Simd>(self, s: S, x: S::V) -> S::V {
        s.mul(x, self.slope(s, x))
    }

    #[inline(always)]
    fn slope<S: Simd>(self, s: S, x: S::V) -> S::V {
        #[expect(clippy::cast_possible_truncation, reason = "the nearest float is wanted")]
        let slope = self.slope as f32;
        s.select(s.lt(s.splat(0.0), x), s.splat(1.0), s.splat(slope))
    }

    fn exact(self, x: f64) -> f64 {
        if x > 0.0 { x } else { self.slope * x }
    }
}

/// `1 / (1 + e^−x)`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sigmoid {}

impl Function for Sigmoid {
    const NAME: &'static str = "sigmoid";
    const SUMMARY: &'static str = "1 / (1 + e^-x)";

    #[inline(always)]
    fn value<S: Simd>(self, s: S, x: S::V) -> S::V {
        math::sigmoid(s, x)
    }

    #[inline(always)]
    fn slope<S: Simd>(self, s: S, x: S::V) -> S::V {
        let y = math::sigmoid(s, x);
        s.mul(y, s.sub(s.splat(1.0), y))
    }

    fn exact(self, x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }
}

/// The hyperbolic tangent.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tanh {}

impl Function for Tanh {
    const NAME: &'static str = "tanh";
    const SUMMARY: &'static str = "the hyperbolic tangent";

    #[inline(always)]
    fn value<S: Simd>(self, s: S, x: S::V) -> S::V {
        math::tanh(s, x)
    }

    #[inline(always)]
    fn slope<S: Simd>(self, s: S, x: S::V) -> S::V {
        let y = math::tanh(s, x);
        s.mul(s.add(s.splat(1.0), y), s.sub(s.splat(1.0), y))
    }

    fn exact(self, x: f64) -> f64 {
        x.tanh()
    }
}

/// `x · sigmoid(x)`, also called `SiLU`.
///
/// # Source
/// Ramachandran, Zoph, Le, *Searching for Activation Functions*, arXiv:1710.05941, with β = 1.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Swish {}

impl Function for Swish {
    const NAME: &'static str = "swish";
    const SUMMARY: &'static str = "x · sigmoid(x), also called SiLU";

    #[inline(always)]
    fn value<S: Simd>(self, s: S, x: S::V) -> S::V {
        s.mul(x, math::sigmoid(s, x))
    }

    #[inline(always)]
    fn slope<S: Simd>(self, s: S, x: S::V) -> S::V {
        let (one, y) = (s.splat(1.0), math::sigmoid(s, x));
        s.mul(y, s.fma(x, s.sub(one, y), one))
    }

    fn exact(self, x: f64) -> f64 {
        x / (1.0 + (-x).exp())
    }
}

/// `min(max(x + 3, 0), 6) / 6`.
///
/// # Source
/// Howard et al., ICCV 2019, arXiv:1905.02244, §5.2.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HardSigmoid {}

impl Function for HardSigmoid {
    const NAME: &'static str = "hard-sigmoid";
    const SUMMARY: &'static str = "min(max(x + 3, 0), 6) / 6";

    #[inline(always)]
    fn value<S: Simd>(self, s: S, x: S::V) -> S::V {
        let above = s.max(s.splat(0.0), s.add(x, s.splat(3.0)));
        s.mul(s.min(s.splat(6.0), above), s.splat(1.0 / 6.0))
    }

    #[inline(always)]
    fn slope<S: Simd>(self, s: S, x: S::V) -> S::V {
        let zero = s.splat(0.0);
        let below = s.select(s.lt(x, s.splat(3.0)), s.splat(1.0 / 6.0), zero);
        s.select(s.lt(s.splat(-3.0), x), below, zero)
    }

    fn exact(self, x: f64) -> f64 {
        (x + 3.0).clamp(0.0, 6.0) / 6.0
    }
}

/// `x · min(max(x + 3, 0), 6) / 6`.
///
/// # Source
/// Howard et al., ICCV 2019, arXiv:1905.02244, §5.2.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HardSwish {}

impl Function for HardSwish {
    const NAME: &'static str = "hard-swish";
    const SUMMARY: &'static str = "x · min(max(x + 3, 0), 6) / 6";

    #[inline(always)]
    fn value<S: Simd>(self, s: S, x: S::V) -> S::V {
        s.mul(x, HardSigmoid {}.value(s, x))
    }

    #[inline(always)]
    fn slope<S: Simd>(self, s: S, x: S::V) -> S::V {
        s.fma(x, HardSigmoid {}.slope(s, x), HardSigmoid {}.value(s, x))
    }

    fn exact(self, x: f64) -> f64 {
        x * HardSigmoid {}.exact(x)
    }
}

/// `x · Φ(x)` with the normal distribution Φ, by the error function.
///
/// # Source
/// Hendrycks, Gimpel, *Gaussian Error Linear Units*, arXiv:1606.08415.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gelu {}

/// Φ(x).
#[inline(always)]
fn normal_distribution<S: Simd>(s: S, x: S::V) -> S::V {
    let erf = math::erf(s, s.mul(x, s.splat(std::f32::consts::FRAC_1_SQRT_2)));
    s.fma(erf, s.splat(0.5), s.splat(0.5))
}

impl Function for Gelu {
    const NAME: &'static str = "gelu";
    const SUMMARY: &'static str = "x · Φ(x) with the normal distribution Φ";

    #[inline(always)]
    fn value<S: Simd>(self, s: S, x: S::V) -> S::V {
        s.mul(x, normal_distribution(s, x))
    }

    #[inline(always)]
    fn slope<S: Simd>(self, s: S, x: S::V) -> S::V {
        const FRAC_1_SQRT_TAU: f32 = 0.398_942_3;
        let density = math::exp(s, s.mul(s.mul(x, x), s.splat(-0.5)));
        s.fma(s.mul(x, s.splat(FRAC_1_SQRT_TAU)), density, normal_distribution(s, x))
    }

    fn exact(self, x: f64) -> f64 {
        0.5 * x * (1.0 + math::erf_f64(x * std::f64::consts::FRAC_1_SQRT_2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::value;
    use crate::{Array, Op, Slot};

    #[test]
    fn nan_stays_nan_and_infinities_give_limits() {
        let x = Array::new([1, 3], vec![f64::NAN, f64::INFINITY, -1e30]);
        let ops: [(&dyn Op, [f32; 2]); 8] = [
            (&Relu {}, [f32::INFINITY, 0.0]),
            (&LeakyRelu { slope: 0.5 }, [f32::INFINITY, -5e29]),
            (&Sigmoid {}, [1.0, 0.0]),
            (&Tanh {}, [1.0, -1.0]),
            (&Swish {}, [f32::INFINITY, 0.0]),
            (&HardSigmoid {}, [1.0, 0.0]),
            (&HardSwish {}, [f32::INFINITY, 0.0]),
            (&Gelu {}, [f32::INFINITY, 0.0]),
        ];
        for (op, limits) in ops {
            let y = value(op, std::slice::from_ref(&x), &[], Slot::Output);
            assert!(y[0].is_nan(), "{op:?} hides NaN");
            assert_eq!(y[1..], limits, "{op:?}");
        }
    }
}

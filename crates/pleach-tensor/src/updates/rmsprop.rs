//! RMSProp.

use std::sync::Arc;

use serde::Deserialize;

use super::{Apply, Described, Rule, STEP_FLOATS, Update, check_fraction, check_positive, float};
use crate::Kernel;
use crate::simd::Simd;

/// `v ← α·v + (1 − α)·g²`, `m ← μ·m + g / (√v + ε)`, `w ← w − rate·m`.
///
/// Tieleman and Hinton, *Neural networks for machine learning*, lecture 6.5, 2012.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RmsProp {
    #[serde(default = "alpha")]
    alpha: f64,
    #[serde(default = "epsilon")]
    epsilon: f64,
    #[serde(default)]
    momentum: f64,
    #[serde(default, rename = "weight-decay")]
    weight_decay: f64,
}

fn alpha() -> f64 {
    0.99
}

fn epsilon() -> f64 {
    1e-8
}

impl Described for RmsProp {
    const NAME: &'static str = "rmsprop";
    const SUMMARY: &'static str = "alpha = 0.99, epsilon = 1e-8, momentum = 0.0, weight-decay = 0.0";

    fn check(&self) -> Result<(), String> {
        check_fraction("alpha", self.alpha)?;
        check_fraction("momentum", self.momentum)?;
        check_positive("epsilon", self.epsilon)?;
        check_positive("weight-decay", self.weight_decay)
    }
}

impl Update for RmsProp {
    fn states(&self) -> usize {
        2
    }

    fn kernel(&self, decays: bool) -> Arc<dyn Kernel> {
        Arc::new(Apply::<_, 2>(Scaled {
            alpha: float(self.alpha),
            epsilon: float(self.epsilon),
            momentum: float(self.momentum),
            decay: if decays { float(self.weight_decay) } else { 0.0 },
        }))
    }

    fn step(&self, _: u64, rate: f64, scale: f64) -> [f32; STEP_FLOATS] {
        [float(rate), float(scale), 0.0, 0.0]
    }
}

#[derive(Clone, Copy, Debug)]
struct Scaled {
    alpha: f32,
    epsilon: f32,
    momentum: f32,
    decay: f32,
}

impl Rule<2> for Scaled {
    #[inline(always)]
    fn apply<S: Simd>(
        self,
        s: S,
        g: S::V,
        w: S::V,
        states: &mut [S::V; 2],
        step: &[f32; STEP_FLOATS],
    ) -> S::V {
        let g = s.fma(s.splat(self.decay), w, g);
        let square = s.mul(s.mul(s.splat(1.0 - self.alpha), g), g);
        let v = s.fma(s.splat(self.alpha), states[0], square);
        let scaled = s.div(g, s.add(s.sqrt(v), s.splat(self.epsilon)));
        let m = s.fma(s.splat(self.momentum), states[1], scaled);
        *states = [v, m];
        s.fma(s.splat(-step[0]), m, w)
    }
}

//! Stochastic gradient descent.

use std::sync::Arc;

use serde::Deserialize;

use super::{Apply, Described, Rule, STEP_FLOATS, Update, check_fraction, check_positive, float};
use crate::Kernel;
use crate::simd::Simd;

/// `m ← μ·m + g + λ·w`, `w ← w − rate·m`; with Nesterov's momentum `w ← w − rate·(g + λ·w + μ·m)`.
///
/// Sutskever, Martens, Dahl, Hinton, *On the importance of initialization and momentum in deep
/// learning*, ICML 2013, in the form that multiplies the rate in last.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sgd {
    #[serde(default)]
    momentum: f64,
    #[serde(default)]
    nesterov: bool,
    #[serde(default, rename = "weight-decay")]
    weight_decay: f64,
}

impl Described for Sgd {
    const NAME: &'static str = "sgd";
    const SUMMARY: &'static str = "momentum = 0.0, nesterov = false, weight-decay = 0.0";

    fn check(&self) -> Result<(), String> {
        check_fraction("momentum", self.momentum)?;
        check_positive("weight-decay", self.weight_decay)?;
        if self.nesterov && self.momentum == 0.0 {
            return Err("nesterov needs a momentum above 0".into());
        }
        Ok(())
    }
}

impl Update for Sgd {
    fn states(&self) -> usize {
        usize::from(self.momentum > 0.0)
    }

    fn kernel(&self, decays: bool) -> Arc<dyn Kernel> {
        let decay = if decays { float(self.weight_decay) } else { 0.0 };
        if self.momentum > 0.0 {
            let rest = float(self.momentum);
            Arc::new(Apply::<_, 1>(Momentum { decay, rest, nesterov: self.nesterov }))
        } else {
            Arc::new(Apply::<_, 0>(Plain { decay }))
        }
    }

    fn step(&self, _: u64, rate: f64, scale: f64) -> [f32; STEP_FLOATS] {
        [float(rate), float(scale), 0.0, 0.0]
    }
}

#[derive(Clone, Copy, Debug)]
struct Plain {
    decay: f32,
}

impl Rule<0> for Plain {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, g: S::V, w: S::V, _: &mut [S::V; 0], step: &[f32; STEP_FLOATS]) -> S::V {
        let g = s.fma(s.splat(self.decay), w, g);
        s.fma(s.splat(-step[0]), g, w)
    }
}

#[derive(Clone, Copy, Debug)]
struct Momentum {
    decay: f32,
    rest: f32,
    nesterov: bool,
}

impl Rule<1> for Momentum {
    #[inline(always)]
    fn apply<S: Simd>(
        self,
        s: S,
        g: S::V,
        w: S::V,
        states: &mut [S::V; 1],
        step: &[f32; STEP_FLOATS],
    ) -> S::V {
        let g = s.fma(s.splat(self.decay), w, g);
        let m = s.fma(s.splat(self.rest), states[0], g);
        states[0] = m;
        let direction = if self.nesterov { s.fma(s.splat(self.rest), m, g) } else { m };
        s.fma(s.splat(-step[0]), direction, w)
    }
}

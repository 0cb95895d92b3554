//! Adam, and Adam with decoupled weight decay.

use std::sync::Arc;

use serde::Deserialize;

use super::{Apply, Described, Rule, STEP_FLOATS, Update, check_fraction, check_positive, float};
use crate::Kernel;
use crate::simd::Simd;

/// Kingma and Ba, *Adam: a method for stochastic optimization*, ICLR 2015, Alg. 1; weight decay is
/// added to the gradient.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Adam {
    #[serde(default = "beta1")]
    beta1: f64,
    #[serde(default = "beta2")]
    beta2: f64,
    #[serde(default = "epsilon")]
    epsilon: f64,
    #[serde(default, rename = "weight-decay")]
    weight_decay: f64,
}

/// Loshchilov and Hutter, *Decoupled weight decay regularization*, ICLR 2019, Alg. 2: weights shrink
/// by `rate·λ` beside the step of Adam.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AdamW {
    #[serde(default = "beta1")]
    beta1: f64,
    #[serde(default = "beta2")]
    beta2: f64,
    #[serde(default = "epsilon")]
    epsilon: f64,
    #[serde(default = "hundredth", rename = "weight-decay")]
    weight_decay: f64,
}

fn beta1() -> f64 {
    0.9
}

fn beta2() -> f64 {
    0.999
}

fn epsilon() -> f64 {
    1e-8
}

fn hundredth() -> f64 {
    0.01
}

impl Adam {
    fn rule(&self, decay: f64, decoupled: bool) -> Arc<dyn Kernel> {
        Arc::new(Apply::<_, 2>(Moments {
            beta1: float(self.beta1),
            beta2: float(self.beta2),
            epsilon: float(self.epsilon),
            decay: float(decay),
            decoupled,
        }))
    }
}

impl Described for Adam {
    const NAME: &'static str = "adam";
    const SUMMARY: &'static str = "beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight-decay = 0.0";

    fn check(&self) -> Result<(), String> {
        check_fraction("beta1", self.beta1)?;
        check_fraction("beta2", self.beta2)?;
        check_positive("epsilon", self.epsilon)?;
        check_positive("weight-decay", self.weight_decay)
    }
}

impl Update for Adam {
    fn states(&self) -> usize {
        2
    }

    fn kernel(&self, decays: bool) -> Arc<dyn Kernel> {
        self.rule(if decays { self.weight_decay } else { 0.0 }, false)
    }

    fn step(&self, number: u64, rate: f64, scale: f64) -> [f32; STEP_FLOATS] {
        // Beyond 2³¹ steps both corrections have long been 1.
        let exponent = i32::try_from(number + 1).unwrap_or(i32::MAX);
        let first = 1.0 - self.beta1.powi(exponent);
        let second = 1.0 - self.beta2.powi(exponent);
        [float(rate), float(scale), float(1.0 / first), float(1.0 / second.sqrt())]
    }
}

impl AdamW {
    fn adam(self) -> Adam {
        Adam { beta1: self.beta1, beta2: self.beta2, epsilon: self.epsilon, weight_decay: self.weight_decay }
    }
}

impl Described for AdamW {
    const NAME: &'static str = "adamw";
    const SUMMARY: &'static str = "beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight-decay = 0.01";

    fn check(&self) -> Result<(), String> {
        self.adam().check()
    }
}

impl Update for AdamW {
    fn states(&self) -> usize {
        2
    }

    fn kernel(&self, decays: bool) -> Arc<dyn Kernel> {
        self.adam().rule(if decays { self.weight_decay } else { 0.0 }, true)
    }

    fn step(&self, number: u64, rate: f64, scale: f64) -> [f32; STEP_FLOATS] {
        self.adam().step(number, rate, scale)
    }
}

#[derive(Clone, Copy, Debug)]
struct Moments {
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    decay: f32,
    decoupled: bool,
}

impl Rule<2> for Moments {
    #[inline(always)]
    fn apply<S: Simd>(
        self,
        s: S,
        g: S::V,
        w: S::V,
        states: &mut [S::V; 2],
        step: &[f32; STEP_FLOATS],
    ) -> S::V {
        let [rate, _, first, second] = *step;
        let (g, w) = if self.decoupled {
            (g, s.mul(s.splat(1.0 - rate * self.decay), w))
        } else {
            (s.fma(s.splat(self.decay), w, g), w)
        };
        let m = s.fma(s.splat(self.beta1), states[0], s.mul(s.splat(1.0 - self.beta1), g));
        let square = s.mul(s.mul(s.splat(1.0 - self.beta2), g), g);
        let v = s.fma(s.splat(self.beta2), states[1], square);
        *states = [m, v];
        let root = s.fma(s.sqrt(v), s.splat(second), s.splat(self.epsilon));
        s.fma(s.splat(-rate * first), s.div(m, root), w)
    }
}

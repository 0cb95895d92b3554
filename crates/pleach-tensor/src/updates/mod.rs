//! How parameters follow their gradients: one file and one line of [`UPDATES`] each.

mod adam;
mod average;
mod rmsprop;
mod sgd;
mod square_sum;

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use average::MovingAverage;
pub use square_sum::SquareSum;

use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Context, Error, Kernel};

/// Floats of the operand that tells an update what is different in every step.
pub const STEP_FLOATS: usize = 4;

/// Elements a part works on.
const PART: usize = 16 * 1024;

/// All update rules, by name.
pub const UPDATES: &[UpdateEntry] = &[
    UpdateEntry::of::<sgd::Sgd>(),
    UpdateEntry::of::<adam::Adam>(),
    UpdateEntry::of::<adam::AdamW>(),
    UpdateEntry::of::<rmsprop::RmsProp>(),
];

/// A line of the registry.
#[derive(Clone, Copy, Debug)]
pub struct UpdateEntry {
    /// The name of the rule.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Makes it from its attributes.
    pub parse: fn(Value) -> Result<Arc<dyn Update>, Error>,
}

/// A rule that changes a parameter by its gradient and by what the rule remembers.
pub trait Update: fmt::Debug + Send + Sync {
    /// How many tensors of the parameter's shape it remembers; all begin as zeros.
    fn states(&self) -> usize;

    /// The kernel for a parameter that decays or not. It reads the gradient, [`STEP_FLOATS`] floats
    /// from [`step`](Update::step), the parameter and the states, and writes the parameter and the
    /// states, which may stay in place.
    fn kernel(&self, decays: bool) -> Arc<dyn Kernel>;

    /// What is different in the step of this number, from 0: the learning rate `rate`, the factor
    /// `scale` on gradients, and what the rule makes of the number.
    fn step(&self, number: u64, rate: f64, scale: f64) -> [f32; STEP_FLOATS];
}

/// What a type gives the registry.
trait Described: Update + DeserializeOwned + 'static {
    const NAME: &'static str;
    const SUMMARY: &'static str;

    /// Says which attribute is out of range.
    fn check(&self) -> Result<(), String>;
}

impl UpdateEntry {
    const fn of<T: Described>() -> UpdateEntry {
        UpdateEntry { name: T::NAME, summary: T::SUMMARY, parse: parse::<T> }
    }
}

fn parse<T: Described>(attributes: Value) -> Result<Arc<dyn Update>, Error> {
    let wrong = |reason| Error::Attribute { op: T::NAME.into(), reason };
    let update: T = serde_json::from_value(attributes).map_err(|error| wrong(error.to_string()))?;
    update.check().map_err(wrong)?;
    Ok(Arc::new(update))
}

/// Makes the update rule `name` from its attributes, a JSON object.
///
/// # Errors
/// [`Error::UnknownUpdate`], or [`Error::Attribute`] if an attribute is unknown or out of range.
pub fn update(name: &str, attributes: Value) -> Result<Arc<dyn Update>, Error> {
    match UPDATES.iter().find(|entry| entry.name == name) {
        Some(entry) => (entry.parse)(attributes),
        None => Err(Error::UnknownUpdate {
            name: name.into(),
            known: UPDATES.iter().map(|entry| entry.name).collect(),
        }),
    }
}

/// The error for a fraction that is not in `[0, 1)`.
fn check_fraction(name: &str, value: f64) -> Result<(), String> {
    if (0.0..1.0).contains(&value) { Ok(()) } else { Err(format!("{name} is in [0, 1), not {value}")) }
}

/// The error for a number that is negative or not finite.
fn check_positive(name: &str, value: f64) -> Result<(), String> {
    if value >= 0.0 && value.is_finite() { Ok(()) } else { Err(format!("{name} is at least 0, not {value}")) }
}

#[expect(clippy::cast_possible_truncation, reason = "updates are done in floats")]
fn float(x: f64) -> f32 {
    x as f32
}

/// What a rule does to sixteen elements; `N` is the number of its states.
trait Rule<const N: usize>: Copy + fmt::Debug + Send + Sync + 'static {
    /// The new parameter, from the scaled gradient and the old one; changes the states.
    fn apply<S: Simd>(
        self,
        simd: S,
        gradient: S::V,
        parameter: S::V,
        states: &mut [S::V; N],
        step: &[f32; STEP_FLOATS],
    ) -> S::V;
}

/// The kernel of a rule.
#[derive(Debug)]
struct Apply<R, const N: usize>(R);

impl<R: Rule<N>, const N: usize> Kernel for Apply<R, N> {
    fn in_place(&self) -> &'static [(usize, usize)] {
        const { &[(2, 0), (3, 1), (4, 2)] }
    }

    #[expect(unsafe_code, reason = "parts of a parameter are written on several threads")]
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        struct Part<R, const N: usize> {
            rule: R,
            gradient: *const f32,
            parameter: (*const f32, *mut f32),
            states: [(*const f32, *mut f32); N],
            step: [f32; STEP_FLOATS],
            len: usize,
        }
        impl<R: Rule<N>, const N: usize> Body for Part<R, N> {
            #[inline(always)]
            fn run<S: Simd>(self, s: S) {
                let scale = s.splat(self.step[1]);
                let mut i = 0;
                while i < self.len {
                    let n = self.len - i;
                    // SAFETY: all of them hold `len` floats.
                    unsafe {
                        let gradient = s.mul(s.load_up_to(self.gradient.add(i), n), scale);
                        let parameter = s.load_up_to(self.parameter.0.add(i), n);
                        let mut states = [gradient; N];
                        for (state, (from, _)) in states.iter_mut().zip(self.states) {
                            *state = s.load_up_to(from.add(i), n);
                        }
                        let new = self.rule.apply(s, gradient, parameter, &mut states, &self.step);
                        s.store_up_to(self.parameter.1.add(i), new, n);
                        for (state, (_, to)) in states.into_iter().zip(self.states) {
                            s.store_up_to(to.add(i), state, n);
                        }
                    }
                    i += LANES;
                }
            }
        }
        let (gradient, isa) = (reads[0], cx.isa);
        let step: [f32; STEP_FLOATS] = reads[1].try_into().expect("the floats of a step");
        let len = gradient.len();
        let mut shared = writes.iter_mut().map(|write| Shared::new(write));
        let parameter = shared.next().expect("a parameter");
        let states: [Shared<'_>; N] = std::array::from_fn(|_| shared.next().expect("a state"));
        // In place, what is read lies where the result goes.
        let place = |read: &[f32], write: Shared<'_>, at: usize| {
            let from = if read.is_empty() { write.at(at).cast_const() } else { read[at..].as_ptr() };
            (from, write.at(at))
        };
        cx.pool.run(len.div_ceil(PART), &|part| {
            let from = part * PART;
            isa.run(Part {
                rule: self.0,
                gradient: gradient[from..].as_ptr(),
                parameter: place(reads[2], parameter, from),
                states: std::array::from_fn(|k| place(reads[3 + k], states[k], from)),
                step,
                len: PART.min(len - from),
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use serde_json::json;

    use super::*;
    use crate::{Cpu, Device, Isa, Operands, Stream};

    /// Twenty steps on `f(w) = Σ (w − target)² / 2` from `w = 1`; returns the parameters.
    fn train(name: &str, attributes: Value, isa: Isa, threads: usize) -> Vec<f32> {
        const N: usize = 40_003;
        let rule = update(name, attributes).unwrap();
        let kernel = rule.kernel(true);
        let states = rule.states();
        // Gradient, step, parameter, states.
        let place = |slot: usize| slot * (N + 5)..slot * (N + 5) + N;
        let mut reads = vec![place(0), place(1).start..place(1).start + STEP_FLOATS];
        let kept: Vec<_> = (0..=states).map(|k| place(2 + k)).collect();
        reads.extend(kept.clone());
        let operands = Operands::new(&*kernel, reads, kept, 0..0).unwrap();
        let threads = NonZeroUsize::new(threads).unwrap();
        let mut cpu = Cpu::new((3 + states) * (N + 5), threads, isa).unwrap();
        let mut w = vec![1.0f32; N];
        cpu.write(place(2).start, &w);
        for number in 0..20 {
            let gradient: Vec<f32> = w.iter().enumerate().map(|(i, w)| w - (i % 7) as f32 * 0.25).collect();
            cpu.write(0, &gradient);
            cpu.write(place(1).start, &rule.step(number, 0.05, 1.0));
            cpu.run(&*kernel, &operands, Stream::default());
            cpu.read(place(2).start, &mut w);
        }
        w
    }

    #[test]
    fn rules_agree_with_pytorch() {
        // PyTorch 2.14.1, torch.optim.*, lr=0.05, 20 steps of the same problem in float64; the first
        // seven parameters.
        let cases = include_str!("golden.json");
        let cases: Vec<(String, Value, Vec<f64>)> = serde_json::from_str(cases).unwrap();
        for (name, attributes, want) in cases {
            let got = train(&name, attributes.clone(), Isa::best(), 2);
            for (got, want) in got.iter().zip(&want) {
                let off = (f64::from(*got) - want).abs();
                assert!(off < 2e-5, "{name} {attributes}: {got} for {want}");
            }
        }
    }

    #[test]
    fn every_way_gives_the_same_bits() {
        for entry in UPDATES {
            let want = train(entry.name, json!({}), Isa::Scalar, 1);
            for isa in Isa::available() {
                for threads in 1..=4 {
                    assert!(train(entry.name, json!({}), isa, threads) == want, "{}", entry.name);
                }
            }
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        for (name, attributes) in [
            ("sgd", json!({"momentum": 1.5})),
            ("sgd", json!({"momentum": 0.0, "nesterov": true})),
            ("adam", json!({"beta2": 1.0})),
            ("rmsprop", json!({"epsilon": -1.0})),
            ("adam", json!({"betas": [0.9, 0.99]})),
            ("sdg", json!({})),
        ] {
            assert!(update(name, attributes.clone()).is_err(), "{name} {attributes}");
        }
    }
}

//! Random zeros.

#![expect(unsafe_code, reason = "parts of one slice are written on several threads")]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Described, Fill, Sample};
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Action, Array, Context, Error, Kernel, Layer, Op, Setting, Shape, Slot, Stream};

/// Elements that a part works on, about.
const PART: usize = 16 * 1024;

/// Zero with probability `rate`, else `x / (1 − rate)`; in inference `x` itself.
///
/// Whether an element stays is a function of the training's seed, the step, the operation's place
/// in the network, the example's number in the global batch, and the element's number in the
/// example. So the backward pass and a forward pass that runs again see the same zeros, and so does
/// every division of the batch.
///
/// # Errors
/// [`Error::Attribute`] if `rate` is not in `0 ≤ rate < 1`.
///
/// # Source
/// Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, *Dropout*, JMLR 15, 2014, §10: scaled
/// in training instead of in inference.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dropout {
    rate: f64,
}

impl Op for Dropout {
    fn name(&self) -> &'static str {
        Dropout::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], setting: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(Self::NAME, inputs)?;
        if !(0.0..1.0).contains(&self.rate) {
            let reason = format!("a rate of {} is not in 0 ≤ rate < 1", self.rate);
            return Err(Error::Attribute { op: Self::NAME.into(), reason });
        }
        let plain = Layer::plain(input.clone());
        if self.rate == 0.0 {
            return Ok(plain);
        }
        let mask = Mask {
            draw: Draw { place: setting.place, below: self.below() },
            scale: self.scale(),
            batch: input.batch(),
            size: input.len() / input.batch().max(1),
        };
        Ok(Layer {
            inference: Some(plain.forward.clone()),
            forward: Action::run(mask, [Slot::Input(0)], [Slot::Output]),
            backward: vec![Action::run(mask, [Slot::OutputGrad], [Slot::InputGrad(0)])],
            ..plain
        })
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let mut y = inputs[0].clone();
        let size = y.values.len() / y.shape.batch();
        let draw = Draw { place: 0, below: self.below() };
        for (example, values) in y.values.chunks_exact_mut(size).enumerate() {
            let keys = draw.keys(Stream::EXAMPLE, example);
            for (index, value) in (0..).zip(values) {
                *value *= if draw.stays(keys, index) { f64::from(self.scale()) } else { 0.0 };
            }
        }
        y
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the rate is in 0 ≤ rate < 1")]
impl Dropout {
    fn scale(self) -> f32 {
        (1.0 / (1.0 - self.rate)) as f32
    }

    /// Of numbers that fill 32 bits those below this one mean zero.
    fn below(self) -> u32 {
        (self.rate * 4_294_967_296.0) as u32
    }
}

impl Described for Dropout {
    const NAME: &'static str = "dropout";
    const SUMMARY: &'static str = "random zeros";

    fn samples() -> Vec<Sample> {
        let drop = |rate, shape: Shape| Sample::new(Dropout { rate }, [(shape, Fill::Normal)]);
        vec![
            drop(0.5, [3, 7].into()),
            drop(0.1, [1, 5, 16].into()),
            drop(0.0, [2, 3].into()),
            drop(0.9, [2, 20_011].into()),
            drop(0.25, [700, 33].into()),
        ]
    }
}

/// How it is drawn what stays.
#[derive(Clone, Copy, Debug)]
struct Draw {
    place: u64,
    below: u32,
}

impl Draw {
    /// Two numbers that belong to an example of the batch.
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    fn keys(self, stream: Stream, example: usize) -> [u32; 2] {
        let example = stream.first_example.wrapping_add(example as u64);
        let mut key = 0;
        for word in [stream.seed, stream.step, self.place, example] {
            key = mix(key ^ word);
        }
        [key as u32, (key >> 32) as u32]
    }

    /// Whether an element stays: the integer hash `lowbias32`, entered with one key, and with the
    /// other in its middle, so that sequences of examples are no shifted copies of each other.
    ///
    /// # Source
    /// Wellons, *Prospecting for Hash Functions*, <https://nullprogram.com/blog/2018/07/31/>.
    #[inline(always)]
    fn stays(self, keys: [u32; 2], index: u32) -> bool {
        let mut x = index.wrapping_add(keys[0]);
        x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
        x ^= (x >> 15) ^ keys[1];
        x = x.wrapping_mul(0x846c_a68b);
        x ^ (x >> 16) >= self.below
    }
}

/// A step of `SplitMix64`: Steele, Lea, Flood, *Fast Splittable Pseudorandom Number Generators*,
/// OOPSLA 2014.
fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `x · scale` or zero; the derivative is the same.
#[derive(Clone, Copy, Debug)]
struct Mask {
    draw: Draw,
    scale: f32,
    batch: usize,
    /// Elements of an example.
    size: usize,
}

struct Masked {
    mask: Mask,
    keys: [u32; 2],
    index: u32,
    x: *const f32,
    y: *mut f32,
    len: usize,
}

impl Kernel for Mask {
    fn in_place(&self) -> &'static [(usize, usize)] {
        &[(0, 0)]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([x], [y]) = (reads, writes) else { unreachable!("one read and one write") };
        let (mask, isa, stream, y) = (*self, cx.isa, cx.stream, Shared::new(y));
        // A part is a piece of one example, or some whole ones.
        let width = mask.size.min(PART);
        if width == 0 {
            return;
        }
        let (height, across) = (PART / width, mask.size.div_ceil(width));
        cx.pool.run(mask.batch.div_ceil(height) * across, &|part| {
            let (first, from) = (part / across * height, part % across * width);
            for example in first..mask.batch.min(first + height) {
                let at = example * mask.size + from;
                isa.run(Masked {
                    mask,
                    keys: mask.draw.keys(stream, example),
                    #[expect(clippy::cast_possible_truncation, reason = "beyond 2³² elements draws repeat")]
                    index: from as u32,
                    x: y.source(x, at),
                    y: y.at(at),
                    len: width.min(mask.size - from),
                });
            }
        });
    }
}

impl Body for Masked {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let mut index = self.index;
        let mut i = 0;
        while i < self.len {
            let n = self.len - i;
            let mut factors = [0.0; LANES];
            for factor in &mut factors {
                *factor = if self.mask.draw.stays(self.keys, index) { self.mask.scale } else { 0.0 };
                index = index.wrapping_add(1);
            }
            // SAFETY: `x` and `y` hold `len` floats.
            unsafe {
                let y = s.mul(s.load_up_to(self.x.add(i), n), s.load(factors.as_ptr()));
                s.store_up_to(self.y.add(i), y, n);
            }
            i += LANES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stays of 16 examples of 4096 elements: one bit each.
    fn drawn(rate: f64, stream: Stream, place: u64) -> Vec<bool> {
        let draw = Draw { place, below: Dropout { rate }.below() };
        let example = |example| (0..4096).map(move |index| draw.stays(draw.keys(stream, example), index));
        (0..16).flat_map(example).collect()
    }

    #[test]
    fn as_many_go_as_the_rate_says() {
        for rate in [0.1, 0.5, 0.9] {
            let gone = drawn(rate, Stream::EXAMPLE, 0).iter().filter(|stays| !**stays).count();
            let deviation = (65_536.0 * rate * (1.0 - rate)).sqrt();
            assert!((gone as f64 - 65_536.0 * rate).abs() < 5.0 * deviation, "{gone} at {rate}");
        }
    }

    #[test]
    fn seeds_steps_places_examples_and_elements_are_independent() {
        let base = Stream::EXAMPLE;
        let reference = drawn(0.5, base, 0);
        let mut others = vec![
            drawn(0.5, Stream { seed: base.seed + 1, ..base }, 0),
            drawn(0.5, Stream { step: base.step + 1, ..base }, 0),
            drawn(0.5, base, 1),
            drawn(0.5, Stream { first_example: base.first_example + 100, ..base }, 0),
        ];
        for by in [1, 2, 16, 64, 4096] {
            let mut shifted = reference.clone();
            shifted.rotate_left(by);
            others.push(shifted);
        }
        for (i, other) in others.iter().enumerate() {
            let same = reference.iter().zip(other).filter(|(a, b)| a == b).count();
            // Five standard deviations of 65536 fair coins.
            assert!(same.abs_diff(32_768) < 640, "{same} in {i}");
        }
    }

    #[test]
    fn an_example_draws_the_same_wherever_it_is_in_a_batch() {
        let base = Stream::EXAMPLE;
        let whole = drawn(0.5, base, 0);
        let later = drawn(0.5, Stream { first_example: base.first_example + 3, ..base }, 0);
        assert_eq!(whole[3 * 4096..], later[..13 * 4096]);
    }
}

//! Larger images by repetition.

#![expect(unsafe_code, reason = "pixels are read by pointers, and rows are written on several threads")]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Described, Fill, Sample};
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Action, Array, Context, Error, Kernel, Layer, Op, Setting, Shape, Slot};

/// Each pixel `factor` × `factor` times: the nearest neighbour of every place of the larger image.
/// `[n, h, w, c]` becomes `[n, h · factor, w · factor, c]`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Upsample {
    factor: usize,
}

impl Op for Upsample {
    fn name(&self) -> &'static str {
        Upsample::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(Self::NAME, inputs)?;
        let (&[n, h, w, channels], 1..) = (input.sizes(), self.factor) else {
            let reason = format!("it takes [n, h, w, channels], and a factor of {}", self.factor);
            return Err(super::misfit(Self::NAME, inputs, reason));
        };
        let larger = |size: usize| size.saturating_mul(self.factor);
        let output = Shape::from([n, larger(h), larger(w), channels]);
        output.checked_len("an enlarged image")?;
        let image = Image { rows: n * h, width: w, channels, factor: self.factor };
        Ok(Layer {
            forward: Action::run(Forward(image), [Slot::Input(0)], [Slot::Output]),
            backward: vec![Action::run(Backward(image), [Slot::OutputGrad], [Slot::InputGrad(0)])],
            ..Layer::plain(output)
        })
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let x = &inputs[0];
        let &[n, h, w, channels] = x.shape.sizes() else { unreachable!("it was built") };
        let mut y = Array::zeros([n, h * self.factor, w * self.factor, channels]);
        for at in 0..y.values.len() {
            let (channel, pixel) = (at % channels, at / channels);
            let (column, row) = (pixel % (w * self.factor), pixel / (w * self.factor));
            // Rows of all images are behind one another, and each has whole rows of the other.
            y.values[at] = x.values[(row / self.factor * w + column / self.factor) * channels + channel];
        }
        y
    }
}

impl Described for Upsample {
    const NAME: &'static str = "upsample";
    const SUMMARY: &'static str = "each pixel factor × factor times";

    fn samples() -> Vec<Sample> {
        [(2, [2, 3, 2, 5]), (3, [1, 2, 2, 16]), (1, [1, 1, 1, 3]), (2, [2, 12, 9, 40])]
            .map(|(factor, sizes)| Sample::new(Upsample { factor }, [(sizes.into(), Fill::Normal)]))
            .to_vec()
    }
}

#[derive(Clone, Copy, Debug)]
struct Image {
    /// Rows of all small images.
    rows: usize,
    /// Pixels of a small row.
    width: usize,
    channels: usize,
    factor: usize,
}

#[derive(Debug)]
struct Forward(Image);

/// Sums over the places where a pixel went.
#[derive(Debug)]
struct Backward(Image);

struct Repeat {
    image: Image,
    small: *const f32,
    large: *mut f32,
}

struct Gather {
    image: Image,
    small: *mut f32,
    large: *const f32,
}

impl Kernel for Forward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([x], [y]) = (reads, writes) else { unreachable!("one read and one write") };
        let (image, isa, y) = (self.0, cx.isa, Shared::new(y));
        let row = image.width * image.channels;
        cx.pool.run(image.rows, &|part| {
            let large = y.at(part * row * image.factor * image.factor);
            isa.run(Repeat { image, small: x[part * row..].as_ptr(), large });
        });
    }
}

impl Kernel for Backward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([dy], [dx]) = (reads, writes) else { unreachable!("one read and one write") };
        let (image, isa, dx) = (self.0, cx.isa, Shared::new(dx));
        let row = image.width * image.channels;
        cx.pool.run(image.rows, &|part| {
            let large = dy[part * row * image.factor * image.factor..].as_ptr();
            isa.run(Gather { image, small: dx.at(part * row), large });
        });
    }
}

impl Body for Repeat {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Image { width, channels, factor, .. } = self.image;
        for pixel in 0..width * factor * factor {
            let (row, column) = (pixel / (width * factor), pixel % (width * factor));
            let (from, to) = (column / factor * channels, (row * width * factor + column) * channels);
            let mut i = 0;
            while i < channels {
                let n = channels - i;
                // SAFETY: a small row, and `factor` large ones.
                unsafe {
                    s.store_up_to(self.large.add(to + i), s.load_up_to(self.small.add(from + i), n), n);
                };
                i += LANES;
            }
        }
    }
}

impl Body for Gather {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Image { width, channels, factor, .. } = self.image;
        for pixel in 0..width {
            let mut i = 0;
            while i < channels {
                let n = channels - i;
                let mut sum = s.splat(0.0);
                for row in 0..factor {
                    for column in 0..factor {
                        let from = ((row * width + pixel) * factor + column) * channels + i;
                        // SAFETY: `factor` large rows.
                        sum = s.add(sum, unsafe { s.load_up_to(self.large.add(from), n) });
                    }
                }
                // SAFETY: a small row.
                unsafe { s.store_up_to(self.small.add(pixel * channels + i), sum, n) };
                i += LANES;
            }
        }
    }
}

//! Largest values under windows.

#![expect(
    unsafe_code,
    reason = "pixels are read by pointers, and parts of one slice are written on several threads"
)]

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::window::{Pair, Windows};
use super::{Described, Fill, Sample};
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Action, Array, Context, Error, Kernel, Layer, Op, Setting, Shape, Slot};

/// Outputs that a part of the forward pass works on, about.
const PART: usize = 8 * 1024;
/// Inputs that a part of the backward pass works on, about.
const BAND: usize = 32 * 1024;
/// Channels that a part works on.
const BLOCK: usize = 256;
/// Vectors that lie side by side in registers.
const SIDE: usize = 4;

/// The largest value of each channel under windows of `size` that are `stride` apart, the size if
/// nothing is said. Padding is never the largest, and is at most half of the window; NaN is.
/// Windows that do not fit on the padded image are left out.
///
/// The derivative goes to the first of several largest values, in the order of rows; the backward
/// pass looks for it in the input again.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MaxPool {
    size: Pair,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stride: Option<Pair>,
    #[serde(default = "none")]
    padding: Pair,
}

/// No padding.
pub(super) fn none() -> Pair {
    Pair::Both(0)
}

impl MaxPool {
    fn windows(self, inputs: &[Shape]) -> Result<Windows, Error> {
        Windows::new(Self::NAME, inputs, self.size, self.stride.unwrap_or(self.size), self.padding)
    }
}

impl Op for MaxPool {
    fn name(&self) -> &'static str {
        MaxPool::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let windows = self.windows(inputs)?;
        Ok(layer(windows, windows.output()))
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let windows = self.windows(&[inputs[0].shape.clone()]).expect("it was built");
        Array::new(windows.output(), largest(&windows, &inputs[0]))
    }
}

impl Described for MaxPool {
    const NAME: &'static str = "max-pool";
    const SUMMARY: &'static str = "the largest values under windows";

    fn samples() -> Vec<Sample> {
        let pool = |size, stride, padding, shape: Shape| {
            Sample::new(MaxPool { size, stride, padding }, [(shape, Fill::Apart)])
        };
        let both = Pair::Both;
        vec![
            pool(both(2), None, none(), [2, 4, 5, 3].into()),
            pool(both(3), Some(both(2)), both(1), [1, 7, 8, 16].into()),
            pool(Pair::Each([1, 3]), Some(Pair::Each([2, 1])), Pair::Each([0, 1]), [2, 3, 4, 7].into()),
            pool(both(3), Some(both(2)), both(1), [3, 14, 13, 72].into()),
            pool(both(2), None, none(), [2, 6, 6, 265].into()),
            pool(both(3), Some(both(2)), both(1), [1, 45, 40, 40].into()),
        ]
    }
}

/// The largest value of each channel of each example: `[n, …, channels]` becomes `[n, channels]`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GlobalMaxPool {}

impl Op for GlobalMaxPool {
    fn name(&self) -> &'static str {
        GlobalMaxPool::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let windows = Windows::global(Self::NAME, inputs)?;
        Ok(layer(windows, Shape::from([windows.batch, windows.channels])))
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let windows = Windows::global(Self::NAME, &[inputs[0].shape.clone()]).expect("it was built");
        Array::new([windows.batch, windows.channels], largest(&windows, &inputs[0]))
    }
}

impl Described for GlobalMaxPool {
    const NAME: &'static str = "global-max-pool";
    const SUMMARY: &'static str = "the largest value of each channel";

    fn samples() -> Vec<Sample> {
        let shapes: [Shape; 3] = [[2, 3, 4, 5].into(), [1, 7, 16].into(), [3, 5, 6, 280].into()];
        shapes.map(|shape| Sample::new(GlobalMaxPool {}, [(shape, Fill::Apart)])).to_vec()
    }
}

fn layer(windows: Windows, output: Shape) -> Layer {
    Layer {
        forward: Action::run(Forward(windows), [Slot::Input(0)], [Slot::Output]),
        backward: vec![Action::run(
            Backward(windows),
            [Slot::Input(0), Slot::OutputGrad],
            [Slot::InputGrad(0)],
        )],
        ..Layer::plain(output)
    }
}

fn largest(windows: &Windows, x: &Array) -> Vec<f64> {
    let ([height, width], channels) = (windows.input, windows.channels);
    let mut values = Vec::new();
    for image in x.values.chunks_exact(height * width * channels) {
        for place in 0..windows.output[0] * windows.output[1] {
            let rows = windows.pixels(0, place / windows.output[1]);
            let columns = windows.pixels(1, place % windows.output[1]);
            for channel in 0..channels {
                let value = |(row, column)| image[(row * width + column) * channels + channel];
                let under = rows.clone().flat_map(|row| columns.clone().map(move |column| (row, column)));
                values.push(under.map(value).fold(f64::NEG_INFINITY, f64::max));
            }
        }
    }
    values
}

#[derive(Debug)]
struct Forward(Windows);

/// Some rows of the output, and some channels of them.
struct Largest {
    windows: Windows,
    /// Rows of all images.
    rows: Range<usize>,
    /// The first pixel of the first image, at the first channel of the part.
    x: *const f32,
    y: *mut f32,
    channels: usize,
}

impl Kernel for Forward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([x], [y]) = (reads, writes) else { unreachable!("one read and one write") };
        let (windows, isa, y) = (self.0, cx.isa, Shared::new(y));
        let rows = windows.batch * windows.output[0];
        let block = BLOCK.min(windows.channels).max(1);
        let height = (PART / (windows.output[1] * block).max(1)).max(1);
        let chunks = rows.div_ceil(height);
        cx.pool.run(chunks * windows.channels.div_ceil(block), &|part| {
            let (chunk, channel) = (part % chunks, part / chunks * block);
            isa.run(Largest {
                windows,
                rows: chunk * height..rows.min((chunk + 1) * height),
                x: x[channel..].as_ptr(),
                y: y.at(channel),
                channels: block.min(windows.channels - channel),
            });
        });
    }
}

impl Body for Largest {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let windows = &self.windows;
        let [height, width] = windows.input;
        for row in self.rows.clone() {
            // SAFETY: pixels of one image, and the pixels of one row of the output.
            unsafe {
                let image = self.x.add(row / windows.output[0] * height * width * windows.channels);
                let under_rows = windows.pixels(0, row % windows.output[0]);
                for column in 0..windows.output[1] {
                    let under = [under_rows.clone(), windows.pixels(1, column)];
                    let to = self.y.add((row * windows.output[1] + column) * windows.channels);
                    let mut channel = 0;
                    while self.channels - channel >= SIDE * LANES {
                        self.pixel::<S, SIDE>(s, image, &under, to, channel, SIDE * LANES);
                        channel += SIDE * LANES;
                    }
                    while channel < self.channels {
                        self.pixel::<S, 1>(s, image, &under, to, channel, self.channels - channel);
                        channel += LANES;
                    }
                }
            }
        }
    }
}

impl Largest {
    /// # Safety
    /// `image` has the pixels `under`, and `to` a pixel, with `lanes` channels from `channel` on.
    #[inline(always)]
    unsafe fn pixel<S: Simd, const N: usize>(
        &self,
        s: S,
        image: *const f32,
        under: &[Range<usize>; 2],
        to: *mut f32,
        channel: usize,
        lanes: usize,
    ) {
        let mut most = [s.splat(f32::NEG_INFINITY); N];
        for row in under[0].clone() {
            for column in under[1].clone() {
                // SAFETY: as the caller promises.
                unsafe {
                    let pixel = row * self.windows.input[1] + column;
                    let from = image.add(pixel * self.windows.channels + channel);
                    for (j, most) in most.iter_mut().enumerate() {
                        let x = s.load_up_to(from.add(j * LANES), lanes - j * LANES);
                        // `max` gives `x` where either is NaN, so only an earlier one would be lost.
                        *most = s.select(s.eq(*most, *most), s.max(*most, x), *most);
                    }
                }
            }
        }
        for (j, most) in most.into_iter().enumerate() {
            // SAFETY: as the caller promises.
            unsafe { s.store_up_to(to.add(channel + j * LANES), most, lanes - j * LANES) };
        }
    }
}

/// Adds each derivative where the largest value is. Windows overlap, so a part has a band of rows
/// of the input of its own: it looks at all windows over them, and adds what falls on them.
#[derive(Debug)]
struct Backward(Windows);

struct Scatter {
    windows: Windows,
    /// Rows of the input.
    band: Range<usize>,
    x: *const f32,
    dy: *const f32,
    dx: *mut f32,
    channels: usize,
}

impl Kernel for Backward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([x, dy], [dx]) = (reads, writes) else { unreachable!("two reads and one write") };
        let (windows, isa, dx) = (self.0, cx.isa, Shared::new(dx));
        let [height, width] = windows.input;
        let block = BLOCK.min(windows.channels).max(1);
        let blocks = windows.channels.div_ceil(block);
        let band = (BAND / (width * block).max(1)).clamp(1, height.max(1));
        let bands = height.div_ceil(band);
        let pixels = |sizes: [usize; 2]| sizes[0] * sizes[1] * windows.channels;
        cx.pool.run(windows.batch * bands * blocks, &|part| {
            let (image, channel) = (part / blocks / bands, part % blocks * block);
            let start = part / blocks % bands * band;
            let at = image * pixels(windows.input) + channel;
            isa.run(Scatter {
                windows,
                band: start..height.min(start + band),
                x: x[at..].as_ptr(),
                dy: dy[image * pixels(windows.output) + channel..].as_ptr(),
                dx: dx.at(at),
                channels: block.min(windows.channels - channel),
            });
        });
    }
}

impl Body for Scatter {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let windows = &self.windows;
        let [_, width] = windows.input;
        let rows = windows.over(0, self.band.start).start..windows.over(0, self.band.end - 1).end;
        // SAFETY: an image of the input and one of the output with so many channels; the band of
        // the input belongs to this part.
        unsafe {
            for pixel in self.band.start * width..self.band.end * width {
                let mut channel = 0;
                while channel < self.channels {
                    let to = self.dx.add(pixel * windows.channels + channel);
                    s.store_up_to(to, s.splat(0.0), self.channels - channel);
                    channel += LANES;
                }
            }
            for row in rows {
                for column in 0..windows.output[1] {
                    let mut channel = 0;
                    while self.channels - channel >= SIDE * LANES {
                        self.window::<S, SIDE>(s, [row, column], channel, SIDE * LANES);
                        channel += SIDE * LANES;
                    }
                    while channel < self.channels {
                        self.window::<S, 1>(s, [row, column], channel, self.channels - channel);
                        channel += LANES;
                    }
                }
            }
        }
    }
}

impl Scatter {
    /// # Safety
    /// The pointers are to images with `lanes` channels from `channel` on.
    #[inline(always)]
    unsafe fn window<S: Simd, const N: usize>(&self, s: S, place: [usize; 2], channel: usize, lanes: usize) {
        let windows = &self.windows;
        let [_, width] = windows.input;
        let rows = windows.pixels(0, place[0]);
        let columns = windows.pixels(1, place[1]);
        // The largest value so far, and how many pixels were seen before it.
        let mut most = [s.splat(f32::NEG_INFINITY); N];
        let mut first = [s.splat(0.0); N];
        let mut seen = 0.0;
        for row in rows.clone() {
            for column in columns.clone() {
                for j in 0..N {
                    let at = (row * width + column) * windows.channels + channel + j * LANES;
                    // SAFETY: as the caller promises.
                    let v = unsafe { s.load_up_to(self.x.add(at), lanes - j * LANES) };
                    let larger = s.lt(most[j], v);
                    most[j] = s.select(larger, v, most[j]);
                    first[j] = s.select(larger, s.splat(seen), first[j]);
                }
                seen += 1.0;
            }
        }
        let mut d = [s.splat(0.0); N];
        for (j, d) in d.iter_mut().enumerate() {
            let at = (place[0] * windows.output[1] + place[1]) * windows.channels + channel + j * LANES;
            // SAFETY: as the caller promises.
            *d = unsafe { s.load_up_to(self.dy.add(at), lanes - j * LANES) };
        }
        seen = 0.0;
        for row in rows {
            for column in columns.clone() {
                if self.band.contains(&row) {
                    for j in 0..N {
                        let at = (row * width + column) * windows.channels + channel + j * LANES;
                        // SAFETY: as the caller promises.
                        unsafe {
                            let to = self.dx.add(at);
                            let own = s.select(s.eq(first[j], s.splat(seen)), d[j], s.splat(0.0));
                            let sum = s.add(s.load_up_to(to, lanes - j * LANES), own);
                            s.store_up_to(to, sum, lanes - j * LANES);
                        }
                    }
                }
                seen += 1.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::value;

    #[test]
    fn nan_is_the_largest_and_the_first_of_equals_gets_the_derivative() {
        let mut x = Array::zeros([1, 2, 6, 1]);
        // Of three windows the first is all equal, the others have a NaN first and last.
        x.values[2] = f64::NAN;
        x.values[11] = f64::NAN;
        let op = MaxPool { size: Pair::Both(2), stride: None, padding: none() };
        let y = value(&op, std::slice::from_ref(&x), &[], Slot::Output);
        assert_eq!(y[..1], [0.0]);
        assert!(y[1].is_nan() && y[2].is_nan(), "{y:?}");
        let dx = value(&op, &[x], &[], Slot::InputGrad(0));
        assert_eq!([&dx[..2], &dx[6..8]].concat(), [1.0, 0.0, 0.0, 0.0]);
    }
}

//! Means under windows.

#![expect(
    unsafe_code,
    reason = "pixels are read by pointers, and parts of one slice are written on several threads"
)]

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::max_pool::none;
use super::window::{Pair, Windows};
use super::{Described, Fill, Sample};
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Action, Array, Context, Error, Kernel, Layer, Op, Setting, Shape, Slot};

/// Elements that a part works on, about.
const PART: usize = 8 * 1024;
/// Channels that a part works on.
const BLOCK: usize = 256;
/// Vectors that lie side by side in registers.
const SIDE: usize = 4;

/// The mean of each channel under windows of `size` that are `stride` apart, the size if nothing is
/// said. Padding counts as zeros with `count-padding`, and else is left out. Windows that do not
/// fit on the padded image are left out.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct AveragePool {
    size: Pair,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stride: Option<Pair>,
    #[serde(default = "none")]
    padding: Pair,
    #[serde(default = "yes")]
    count_padding: bool,
}

/// As in `PyTorch`.
fn yes() -> bool {
    true
}

impl AveragePool {
    fn windows(self, inputs: &[Shape]) -> Result<Windows, Error> {
        Windows::new(Self::NAME, inputs, self.size, self.stride.unwrap_or(self.size), self.padding)
    }
}

impl Op for AveragePool {
    fn name(&self) -> &'static str {
        AveragePool::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let windows = self.windows(inputs)?;
        Ok(layer(windows, self.count_padding, windows.output()))
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let windows = self.windows(&[inputs[0].shape.clone()]).expect("it was built");
        Array::new(windows.output(), means(&windows, self.count_padding, &inputs[0]))
    }
}

impl Described for AveragePool {
    const NAME: &'static str = "average-pool";
    const SUMMARY: &'static str = "means under windows";

    fn samples() -> Vec<Sample> {
        let pool = |size, stride, padding, count_padding, shape: Shape| {
            Sample::new(AveragePool { size, stride, padding, count_padding }, [(shape, Fill::Normal)])
        };
        let both = Pair::Both;
        vec![
            pool(both(2), None, none(), true, [2, 4, 5, 3].into()),
            pool(both(3), Some(both(1)), both(1), false, [1, 4, 4, 16].into()),
            pool(Pair::Each([1, 3]), Some(Pair::Each([2, 1])), Pair::Each([0, 1]), true, [2, 3, 4, 7].into()),
            pool(both(3), Some(both(2)), both(1), true, [3, 14, 13, 72].into()),
            pool(both(2), Some(both(3)), none(), false, [2, 9, 9, 300].into()),
        ]
    }
}

/// The mean of each channel of each example: `[n, …, channels]` becomes `[n, channels]`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GlobalAveragePool {}

impl Op for GlobalAveragePool {
    fn name(&self) -> &'static str {
        GlobalAveragePool::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let windows = Windows::global(Self::NAME, inputs)?;
        Ok(layer(windows, false, Shape::from([windows.batch, windows.channels])))
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let windows = Windows::global(Self::NAME, &[inputs[0].shape.clone()]).expect("it was built");
        Array::new([windows.batch, windows.channels], means(&windows, false, &inputs[0]))
    }
}

impl Described for GlobalAveragePool {
    const NAME: &'static str = "global-average-pool";
    const SUMMARY: &'static str = "the mean of each channel";

    fn samples() -> Vec<Sample> {
        let shapes: [Shape; 3] = [[2, 3, 4, 5].into(), [1, 7, 16].into(), [3, 5, 6, 280].into()];
        shapes.map(|shape| Sample::new(GlobalAveragePool {}, [(shape, Fill::Normal)])).to_vec()
    }
}

fn layer(windows: Windows, count_padding: bool, output: Shape) -> Layer {
    let places = 0..windows.output[0] * windows.output[1];
    let shares: Vec<f32> = places.map(|place| 1.0 / count(&windows, count_padding, place) as f32).collect();
    let backward = Backward { windows, shares: shares.clone() };
    Layer {
        forward: Action::run(Forward { windows, shares }, [Slot::Input(0)], [Slot::Output]),
        backward: vec![Action::run(backward, [Slot::OutputGrad], [Slot::InputGrad(0)])],
        ..Layer::plain(output)
    }
}

/// Pixels that count under a window.
fn count(windows: &Windows, count_padding: bool, place: usize) -> usize {
    if count_padding {
        return windows.size[0] * windows.size[1];
    }
    windows.pixels(0, place / windows.output[1]).len() * windows.pixels(1, place % windows.output[1]).len()
}

fn means(windows: &Windows, count_padding: bool, x: &Array) -> Vec<f64> {
    let ([height, width], channels) = (windows.input, windows.channels);
    let mut values = Vec::new();
    for image in x.values.chunks_exact(height * width * channels) {
        for place in 0..windows.output[0] * windows.output[1] {
            let rows = windows.pixels(0, place / windows.output[1]);
            let columns = windows.pixels(1, place % windows.output[1]);
            for channel in 0..channels {
                let value = |(row, column)| image[(row * width + column) * channels + channel];
                let under = rows.clone().flat_map(|row| columns.clone().map(move |column| (row, column)));
                values.push(under.map(value).sum::<f64>() / count(windows, count_padding, place) as f64);
            }
        }
    }
    values
}

/// Sums under windows, from the first row on, and their share.
#[derive(Debug)]
struct Forward {
    windows: Windows,
    /// One over what counts, of each window of an image.
    shares: Vec<f32>,
}

/// Sums of the windows over a pixel, from the first row on.
#[derive(Debug)]
struct Backward {
    windows: Windows,
    shares: Vec<f32>,
}

/// Some rows of what is written, and some channels of them.
struct Sums<'a> {
    windows: Windows,
    shares: &'a [f32],
    backward: bool,
    /// Sizes of an image that is read, and of one that is written.
    read: [usize; 2],
    written: [usize; 2],
    /// Rows of all images.
    rows: Range<usize>,
    from: *const f32,
    to: *mut f32,
    channels: usize,
}

impl Kernel for Forward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([x], [y]) = (reads, writes) else { unreachable!("one read and one write") };
        sums(cx, self.windows, &self.shares, false, x, y);
    }
}

impl Kernel for Backward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([dy], [dx]) = (reads, writes) else { unreachable!("one read and one write") };
        sums(cx, self.windows, &self.shares, true, dy, dx);
    }
}

fn sums(
    cx: &mut Context<'_>,
    windows: Windows,
    shares: &[f32],
    backward: bool,
    from: &[f32],
    to: &mut [f32],
) {
    let (isa, to) = (cx.isa, Shared::new(to));
    let (mut read, mut written) = (windows.input, windows.output);
    if backward {
        std::mem::swap(&mut read, &mut written);
    }
    let rows = windows.batch * written[0];
    let block = BLOCK.min(windows.channels).max(1);
    let height = (PART / (written[1] * block).max(1)).max(1);
    let chunks = rows.div_ceil(height);
    cx.pool.run(chunks * windows.channels.div_ceil(block), &|part| {
        let (chunk, channel) = (part % chunks, part / chunks * block);
        isa.run(Sums {
            windows,
            shares,
            backward,
            read,
            written,
            rows: chunk * height..rows.min((chunk + 1) * height),
            from: from[channel..].as_ptr(),
            to: to.at(channel),
            channels: block.min(windows.channels - channel),
        });
    });
}

impl Body for Sums<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (windows, stride) = (&self.windows, self.windows.channels);
        for row in self.rows.clone() {
            // SAFETY: pixels of one image that is read, and those of one row that is written.
            unsafe {
                let image = self.from.add(row / self.written[0] * self.read[0] * self.read[1] * stride);
                let row_in_image = row % self.written[0];
                for column in 0..self.written[1] {
                    let summed = if self.backward {
                        [windows.over(0, row_in_image), windows.over(1, column)]
                    } else {
                        [windows.pixels(0, row_in_image), windows.pixels(1, column)]
                    };
                    let share = if self.backward {
                        1.0
                    } else {
                        self.shares[row_in_image * self.written[1] + column]
                    };
                    let to = self.to.add((row * self.written[1] + column) * stride);
                    let mut channel = 0;
                    while self.channels - channel >= SIDE * LANES {
                        self.pixel::<S, SIDE>(s, image, &summed, share, to, channel, SIDE * LANES);
                        channel += SIDE * LANES;
                    }
                    while channel < self.channels {
                        self.pixel::<S, 1>(s, image, &summed, share, to, channel, self.channels - channel);
                        channel += LANES;
                    }
                }
            }
        }
    }
}

impl Sums<'_> {
    /// # Safety
    /// `image` has the pixels `summed`, and `to` a pixel, with `lanes` channels from `channel` on.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "what changes from pixel to pixel")]
    unsafe fn pixel<S: Simd, const N: usize>(
        &self,
        s: S,
        image: *const f32,
        summed: &[Range<usize>; 2],
        share: f32,
        to: *mut f32,
        channel: usize,
        lanes: usize,
    ) {
        let mut sums = [s.splat(0.0); N];
        for row in summed[0].clone() {
            for column in summed[1].clone() {
                let place = row * self.read[1] + column;
                let weight = s.splat(if self.backward { self.shares[place] } else { 1.0 });
                for (j, sum) in sums.iter_mut().enumerate() {
                    let at = place * self.windows.channels + channel + j * LANES;
                    // SAFETY: as the caller promises.
                    *sum = s.fma(unsafe { s.load_up_to(image.add(at), lanes - j * LANES) }, weight, *sum);
                }
            }
        }
        for (j, sum) in sums.into_iter().enumerate() {
            let sum = s.mul(sum, s.splat(share));
            // SAFETY: as the caller promises.
            unsafe { s.store_up_to(to.add(channel + j * LANES), sum, lanes - j * LANES) };
        }
    }
}

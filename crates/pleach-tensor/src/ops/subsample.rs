//! Smaller images by leaving pixels out, with more channels of zeros.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Described, Fill, Sample};
use crate::kernel::Shared;
use crate::{Action, Array, Context, Error, Kernel, Layer, Op, Setting, Shape, Slot};

/// Every `stride`-th pixel of every `stride`-th row, its channels filled up to `channels` with zeros:
/// `[n, h, w, c]` becomes `[n, ⌈h / stride⌉, ⌈w / stride⌉, channels]`.
///
/// The shortcut without parameters of He, Zhang, Ren, Sun, *Deep residual learning for image
/// recognition*, CVPR 2016, §4.2 (option A).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subsample {
    stride: usize,
    channels: usize,
}

impl Op for Subsample {
    fn name(&self) -> &'static str {
        Subsample::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(Self::NAME, inputs)?;
        let (&[n, h, w, c], 1..) = (input.sizes(), self.stride) else {
            let reason = format!("it takes [n, h, w, channels], and a stride of {}", self.stride);
            return Err(super::misfit(Self::NAME, inputs, reason));
        };
        if c > self.channels || c == 0 {
            let reason = format!("{c} channels cannot be filled up to {}", self.channels);
            return Err(super::misfit(Self::NAME, inputs, reason));
        }
        let (out_h, out_w) = (h.div_ceil(self.stride), w.div_ceil(self.stride));
        let output = Shape::from([n, out_h, out_w, self.channels]);
        output.checked_len("a smaller image")?;
        let image = Image { n, h, w, c, stride: self.stride, channels: self.channels };
        Ok(Layer {
            forward: Action::run(Forward(image), [Slot::Input(0)], [Slot::Output]),
            backward: vec![Action::run(Backward(image), [Slot::OutputGrad], [Slot::InputGrad(0)])],
            ..Layer::plain(output)
        })
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let x = &inputs[0];
        let &[n, h, w, c] = x.shape.sizes() else { unreachable!("it was built") };
        let mut y = Array::zeros([n, h.div_ceil(self.stride), w.div_ceil(self.stride), self.channels]);
        for image in 0..n {
            for row in (0..h).step_by(self.stride) {
                for column in (0..w).step_by(self.stride) {
                    for channel in 0..c {
                        let at = y.offset(&[image, row / self.stride, column / self.stride, channel]);
                        y.values[at] = x.at(&[image, row, column, channel]);
                    }
                }
            }
        }
        y
    }
}

impl Described for Subsample {
    const NAME: &'static str = "subsample";
    const SUMMARY: &'static str = "every stride-th pixel, with more channels of zeros";

    fn samples() -> Vec<Sample> {
        [(2, 8, [2, 4, 4, 4]), (2, 5, [1, 5, 3, 5]), (3, 40, [2, 7, 8, 17]), (1, 2, [1, 1, 1, 1])]
            .map(|(stride, channels, sizes): (_, _, [usize; 4])| {
                Sample::new(Subsample { stride, channels }, [(sizes.into(), Fill::Normal)])
            })
            .to_vec()
    }
}

#[derive(Clone, Copy, Debug)]
struct Image {
    n: usize,
    h: usize,
    w: usize,
    c: usize,
    stride: usize,
    channels: usize,
}

#[derive(Debug)]
struct Forward(Image);

#[derive(Debug)]
struct Backward(Image);

#[expect(unsafe_code, reason = "rows are written on several threads")]
impl Kernel for Forward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([x], [y]) = (reads, writes) else { unreachable!("one read and one write") };
        let Image { n, h, w, c, stride, channels } = self.0;
        let (out_h, row) = (h.div_ceil(stride), w.div_ceil(stride) * channels);
        let y = Shared::new(y);
        cx.pool.run(n * out_h, &|part| {
            let (image, line) = (part / out_h, part % out_h);
            // SAFETY: each part has a row of its own.
            let row = unsafe { y.slice(part * row, (part + 1) * row) };
            for (column, pixel) in row.chunks_exact_mut(channels).enumerate() {
                let from = ((image * h + line * stride) * w + column * stride) * c;
                pixel[..c].copy_from_slice(&x[from..from + c]);
                pixel[c..].fill(0.0);
            }
        });
    }
}

#[expect(unsafe_code, reason = "rows are written on several threads")]
impl Kernel for Backward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([dy], [dx]) = (reads, writes) else { unreachable!("one read and one write") };
        let Image { n, h, w, c, stride, channels } = self.0;
        let (out_h, out_w) = (h.div_ceil(stride), w.div_ceil(stride));
        let dx = Shared::new(dx);
        cx.pool.run(n * h, &|part| {
            let (image, line) = (part / h, part % h);
            // SAFETY: each part has a row of its own.
            let row = unsafe { dx.slice(part * w * c, (part + 1) * w * c) };
            row.fill(0.0);
            if line.is_multiple_of(stride) {
                for column in 0..out_w {
                    let from = ((image * out_h + line / stride) * out_w + column) * channels;
                    row[column * stride * c..][..c].copy_from_slice(&dy[from..from + c]);
                }
            }
        });
    }
}

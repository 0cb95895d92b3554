//! Axes in another order.

#![expect(unsafe_code, reason = "parts of one slice are written on several threads")]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Described, Fill, Sample};
use crate::kernel::Shared;
use crate::{Action, Array, Context, Error, Kernel, Layer, Op, Setting, Shape, Slot};

/// Elements a part works on, about.
const PART: usize = 16 * 1024;

/// Axes in another order: axis `i` of the output is axis `axes[i]` of the input. The batch stays
/// first.
///
/// # Errors
/// [`Error::Shape`] if `axes` is not an order of all axes with 0 in front.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Transpose {
    axes: Vec<usize>,
}

impl Op for Transpose {
    fn name(&self) -> &'static str {
        Transpose::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(Self::NAME, inputs)?;
        let rank = input.rank();
        let all = (0..rank).all(|axis| self.axes.contains(&axis));
        if self.axes.len() != rank || !all || self.axes.first() != Some(&0) {
            let reason = format!("{:?} is not an order of its axes with the batch, 0, in front", self.axes);
            return Err(super::misfit(Self::NAME, inputs, reason));
        }
        let output = permuted(input, &self.axes);
        let mut back = vec![0; rank];
        for (to, &from) in self.axes.iter().enumerate() {
            back[from] = to;
        }
        let forward = Permute::new(input, &self.axes);
        let backward = Permute::new(&output, &back);
        Ok(Layer {
            forward: Action::run(forward, [Slot::Input(0)], [Slot::Output]),
            backward: vec![Action::run(backward, [Slot::OutputGrad], [Slot::InputGrad(0)])],
            ..Layer::plain(output)
        })
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let x = &inputs[0];
        let mut y = Array::zeros(permuted(&x.shape, &self.axes));
        for (mut at, &value) in x.values.iter().enumerate() {
            let mut index = vec![0; x.shape.rank()];
            for (index, &size) in index.iter_mut().zip(x.shape.sizes()).rev() {
                (*index, at) = (at % size, at / size);
            }
            let place: Vec<usize> = self.axes.iter().map(|&axis| index[axis]).collect();
            let offset = y.offset(&place);
            y.values[offset] = value;
        }
        y
    }
}

impl Described for Transpose {
    const NAME: &'static str = "transpose";
    const SUMMARY: &'static str = "axes in another order";

    fn samples() -> Vec<Sample> {
        let transpose = |axes: &[usize], shape: Shape| {
            Sample::new(Transpose { axes: axes.to_vec() }, [(shape, Fill::Normal)])
        };
        vec![
            transpose(&[0, 2, 1], [2, 3, 5].into()),
            transpose(&[0, 1], [1, 7].into()),
            transpose(&[0, 3, 1, 2], [2, 3, 4, 5].into()),
            transpose(&[0, 2, 1, 3], [2, 40, 8, 33].into()),
            transpose(&[0, 2, 3, 1], [1, 20, 33, 40].into()),
        ]
    }
}

fn permuted(shape: &Shape, axes: &[usize]) -> Shape {
    Shape::new(axes.iter().map(|&axis| shape.sizes()[axis]).collect::<Vec<_>>())
}

/// Sizes of the output, and how far apart its neighbours along each axis are in the input.
#[derive(Debug)]
struct Permute {
    sizes: Vec<usize>,
    strides: Vec<usize>,
}

impl Permute {
    fn new(input: &Shape, axes: &[usize]) -> Permute {
        let sizes = permuted(input, axes).sizes().to_vec();
        let strides = axes.iter().map(|&axis| input.sizes()[axis + 1..].iter().product()).collect();
        Permute { sizes, strides }
    }
}

impl Kernel for Permute {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([x], [y]) = (reads, writes) else { unreachable!("one read and one write") };
        let (Some((&width, sizes)), Some((&stride, strides))) =
            (self.sizes.split_last(), self.strides.split_last())
        else {
            unreachable!("there is a batch")
        };
        let rows: usize = sizes.iter().product();
        let height = (PART / width.max(1)).max(1);
        let y = Shared::new(y);
        cx.pool.run(rows.div_ceil(height), &|part| {
            for row in part * height..rows.min((part + 1) * height) {
                let (mut from, mut rest) = (0, row);
                for (size, stride) in sizes.iter().zip(strides).rev() {
                    from += rest % size * stride;
                    rest /= size;
                }
                // SAFETY: each row is in one part.
                let to = unsafe { y.slice(row * width, (row + 1) * width) };
                if stride == 1 {
                    to.copy_from_slice(&x[from..from + width]);
                } else {
                    for (to, x) in to.iter_mut().zip(x[from..].iter().step_by(stride)) {
                        *to = *x;
                    }
                }
            }
        });
    }
}

//! A range of a tensor along an axis.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::blocks::{Blocks, copy};
use super::{Described, Fill, Sample};
use crate::{Action, Array, Context, Error, Kernel, Layer, Op, Setting, Shape, Slot};

/// What lies at `from..to` along `axis`.
///
/// # Errors
/// [`Error::Shape`] if the range is empty or beyond the axis, or the axis is the batch.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Slice {
    axis: usize,
    from: usize,
    to: usize,
}

impl Op for Slice {
    fn name(&self) -> &'static str {
        Slice::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [input] = super::inputs(Self::NAME, inputs)?;
        let Slice { axis, from, to } = *self;
        let mut sizes = input.sizes().to_vec();
        if axis == 0 || axis >= sizes.len() || from >= to || to > sizes[axis] {
            let reason = format!("it has no {from}..{to} along axis {axis}, or that is the batch");
            return Err(super::misfit(Self::NAME, inputs, reason));
        }
        let inner: usize = sizes[axis + 1..].iter().product();
        let rows = sizes[..axis].iter().product();
        let blocks = Blocks { from: from * inner, width: (to - from) * inner, stride: sizes[axis] * inner };
        sizes[axis] = to - from;
        Ok(Layer {
            forward: Action::run(Cut { rows, blocks }, [Slot::Input(0)], [Slot::Output]),
            backward: vec![Action::run(Paste { rows, blocks }, [Slot::OutputGrad], [Slot::InputGrad(0)])],
            ..Layer::plain(Shape::new(sizes))
        })
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let mut sizes = inputs[0].shape.sizes().to_vec();
        let size = std::mem::replace(&mut sizes[self.axis], self.to - self.from);
        let inner: usize = sizes[self.axis + 1..].iter().product();
        let rows = inputs[0].values.chunks_exact(size * inner);
        let values = rows.flat_map(|row| &row[self.from * inner..self.to * inner]).copied().collect();
        Array::new(Shape::new(sizes), values)
    }
}

impl Described for Slice {
    const NAME: &'static str = "slice";
    const SUMMARY: &'static str = "a range of its input along an axis";

    fn samples() -> Vec<Sample> {
        let slice =
            |axis, from, to, shape: Shape| Sample::new(Slice { axis, from, to }, [(shape, Fill::Normal)]);
        vec![
            slice(1, 0, 2, [3, 7].into()),
            slice(3, 3, 20, [2, 3, 2, 21].into()),
            slice(1, 4, 5, [1, 5, 9].into()),
            slice(2, 1, 30, [4, 20, 31, 33].into()),
        ]
    }
}

/// Blocks of the read, behind one another.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) rows: usize,
    pub(super) blocks: Blocks,
}

impl Kernel for Cut {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([x], [y]) = (reads, writes) else { unreachable!("one read and one write") };
        copy(cx, self.rows, Some((x, self.blocks)), y, Blocks::dense(self.blocks.width));
    }
}

/// Blocks of the write, between zeros.
#[derive(Debug)]
struct Paste {
    rows: usize,
    blocks: Blocks,
}

impl Kernel for Paste {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([x], [y]) = (reads, writes) else { unreachable!("one read and one write") };
        let Blocks { from, width, stride } = self.blocks;
        copy(cx, self.rows, None, y, Blocks { from: 0, width: from, stride });
        copy(cx, self.rows, Some((x, Blocks::dense(width))), y, self.blocks);
        let behind = from + width;
        copy(cx, self.rows, None, y, Blocks { from: behind, width: stride - behind, stride });
    }
}

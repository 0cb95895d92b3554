//! How often classifiers are right.

#![expect(unsafe_code, reason = "parts of one slice are written on several threads")]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cross_entropy::labelled;
use super::{Described, Fill, Sample, class};
use crate::kernel::Shared;
use crate::{Action, Array, Context, Error, Kernel, Layer, Op, Setting, Shape, Slot};

/// Elements that a part works on, about.
const PART: usize = 4 * 1024;

/// 1 for each row whose largest logit is the label's, the first of several largest ones, else 0;
/// also 0 where a logit is NaN or the label is no class. It has no derivative.
///
/// # Shapes
/// - logits: `[n, …, classes]`
/// - labels: `[n, …]`
/// - output: `[n, …]`
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Accuracy {}

impl Op for Accuracy {
    fn name(&self) -> &'static str {
        Accuracy::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let classes = labelled(Self::NAME, inputs)?;
        Ok(Layer {
            forward: Action::run(Forward { classes }, [Slot::Input(0), Slot::Input(1)], [Slot::Output]),
            backward: Vec::new(),
            ..Layer::plain(inputs[1].clone())
        })
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let rows = inputs[0].values.chunks_exact(inputs[0].shape.features()).zip(&inputs[1].values);
        let right = |(row, &label): (&[f64], &f64)| {
            // `max_by` gives the last of several largest ones.
            let best = row.iter().enumerate().rev().max_by(|a, b| a.1.total_cmp(b.1)).expect("a class").0;
            f64::from(u8::from(class(label, row.len()) == Some(best)))
        };
        Array::new(inputs[1].shape.clone(), rows.map(right).collect())
    }
}

impl Described for Accuracy {
    const NAME: &'static str = "accuracy";
    const SUMMARY: &'static str = "1 for each row whose largest logit is the label's, else 0";

    fn samples() -> Vec<Sample> {
        let rows = |labels: Shape, classes: usize| {
            let logits = Shape::new([labels.sizes(), &[classes]].concat());
            Sample::new(Accuracy {}, [(logits, Fill::Normal), (labels, Fill::Classes(classes))])
        };
        vec![rows([40].into(), 3), rows([1].into(), 1), rows([2, 3000].into(), 5)]
    }
}

#[derive(Debug)]
struct Forward {
    classes: usize,
}

impl Kernel for Forward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([logits, labels], [to]) = (reads, writes) else { unreachable!("two reads and one write") };
        let height = (PART / self.classes).max(1);
        let (rows, to) = (to.len(), Shared::new(to));
        cx.pool.run(rows.div_ceil(height), &|part| {
            let (start, end) = (part * height, rows.min((part + 1) * height));
            // SAFETY: rows of this part.
            let to = unsafe { to.slice(start, end) };
            for (to, row) in to.iter_mut().zip(start..) {
                let logits = &logits[row * self.classes..(row + 1) * self.classes];
                let right = class(labels[row], self.classes).is_some_and(|label| {
                    let (before, after) = (&logits[..label], &logits[label..]);
                    before.iter().all(|x| *x < logits[label]) && after.iter().all(|x| *x <= logits[label])
                });
                *to = if right { 1.0 } else { 0.0 };
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::value;

    #[test]
    fn the_first_of_equals_counts_and_nan_does_not() {
        let rows = [([1.0, 1.0], 0.0), ([1.0, 1.0], 1.0), ([f64::NAN, 1.0], 1.0), ([0.0, f64::NAN], 1.0)];
        let logits = Array::new([5, 2], [rows.map(|row| row.0).concat(), vec![0.0, 1.0]].concat());
        let labels = Array::new([5], [&rows.map(|row| row.1)[..], &[2.0]].concat());
        let right = value(&Accuracy {}, &[logits, labels], &[], Slot::Output);
        assert_eq!(right, [1.0, 0.0, 0.0, 0.0, 0.0]);
    }
}

//! The loss of classifiers.

#![expect(unsafe_code, reason = "rows are read by pointers, and written on several threads")]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rows::{largest, single, within};
use super::{Described, Fill, Sample, class};
use crate::kernel::Shared;
use crate::math;
use crate::simd::{Body, LANES, Simd};
use crate::{Action, Array, Context, Error, Kernel, Layer, Op, Setting, Shape, Slot};

/// Elements that a part works on, about.
const PART: usize = 4 * 1024;

/// `−Σ q_k ln p_k` with `p = softmax(logits)`: the label's `q` is `1 − ε + ε/classes`, the others'
/// `ε/classes`, where ε is `label-smoothing`. Each row has its own loss.
///
/// Where a label is not a whole number below the number of classes, the loss and its derivative are
/// NaN.
///
/// # Shapes
/// - logits: `[n, …, classes]`
/// - labels: `[n, …]`; they have no derivative
/// - losses: `[n, …]`
///
/// # Errors
/// [`Error::Attribute`] if `label-smoothing` is not in 0…1.
///
/// # Source
/// Szegedy, Vanhoucke, Ioffe, Shlens, Wojna, *Rethinking the Inception Architecture*, CVPR 2016,
/// arXiv:1512.00567, §7.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(crate) struct CrossEntropy {
    label_smoothing: f64,
}

impl Op for CrossEntropy {
    fn name(&self) -> &'static str {
        CrossEntropy::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let classes = labelled(Self::NAME, inputs)?;
        if !(0.0..=1.0).contains(&self.label_smoothing) {
            let reason = format!("a label-smoothing of {} is not in 0…1", self.label_smoothing);
            return Err(Error::Attribute { op: Self::NAME.into(), reason });
        }
        let output = inputs[1].clone();
        #[expect(clippy::cast_possible_truncation, reason = "the nearest float is wanted")]
        let loss = Loss { rows: output.len(), classes, smoothing: self.label_smoothing as f32 };
        let (most, inverse) = (Slot::Saved(0), Slot::Saved(1));
        Ok(Layer {
            saved: vec![loss.rows; 2],
            forward: Action::run(
                Forward(loss),
                [Slot::Input(0), Slot::Input(1)],
                [Slot::Output, most, inverse],
            ),
            backward: vec![Action::run(
                Backward(loss),
                [Slot::Input(0), Slot::Input(1), Slot::OutputGrad, most, inverse],
                [Slot::InputGrad(0)],
            )],
            ..Layer::plain(output)
        })
    }

    fn reference(&self, inputs: &[Array], _: &[Array]) -> Array {
        let classes = inputs[0].shape.features();
        let rows = inputs[0].values.chunks_exact(classes).zip(&inputs[1].values);
        let loss = |(row, &label): (&[f64], &f64)| {
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let log = most + row.iter().map(|x| (x - most).exp()).sum::<f64>().ln();
            let label = class(label, classes);
            let share = |class| {
                let own = if label == Some(class) { 1.0 - self.label_smoothing } else { 0.0 };
                own + self.label_smoothing / classes as f64
            };
            (0..classes).map(|class| share(class) * (log - row[class])).sum()
        };
        Array::new(inputs[1].shape.clone(), rows.map(loss).collect())
    }
}

impl Described for CrossEntropy {
    const NAME: &'static str = "cross-entropy";
    const SUMMARY: &'static str = "the loss of classifiers: logits and labels give a loss a row";

    fn samples() -> Vec<Sample> {
        let loss = |label_smoothing, labels: Shape, classes: usize| {
            let logits = Shape::new([labels.sizes(), &[classes]].concat());
            let inputs = [(logits, Fill::Normal), (labels, Fill::Classes(classes))];
            Sample::new(CrossEntropy { label_smoothing }, inputs)
        };
        vec![
            loss(0.0, [5].into(), 10),
            loss(0.1, [1].into(), 16),
            loss(0.2, [2, 3].into(), 37),
            loss(0.0, [3, 50].into(), 65),
        ]
    }
}

/// The number of classes, where `inputs` are logits and a label for each row of them.
pub(super) fn labelled(op: &'static str, shapes: &[Shape]) -> Result<usize, Error> {
    let [logits, labels] = super::inputs(op, shapes)?;
    match logits.sizes().split_last() {
        Some((&classes, rows)) if !rows.is_empty() && rows == labels.sizes() && classes > 0 => Ok(classes),
        _ => Err(super::misfit(op, shapes, "it takes logits [n, …, classes] and labels [n, …]")),
    }
}

#[derive(Clone, Copy, Debug)]
struct Loss {
    rows: usize,
    classes: usize,
    smoothing: f32,
}

impl Loss {
    /// Rows of a part.
    fn height(self) -> usize {
        (PART / self.classes).max(1)
    }
}

#[derive(Debug)]
struct Forward(Loss);

struct Losses<'a> {
    loss: Loss,
    logits: &'a [f32],
    labels: &'a [f32],
    to: *mut f32,
    most: *mut f32,
    inverse: *mut f32,
}

impl Kernel for Forward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([logits, labels], [to, most, inverse]) = (reads, writes) else {
            unreachable!("two reads and three writes")
        };
        let (loss, isa, height) = (self.0, cx.isa, self.0.height());
        let [to, most, inverse] = [to, most, inverse].map(|write| Shared::new(write));
        cx.pool.run(loss.rows.div_ceil(height), &|part| {
            let (row, end) = (part * height, loss.rows.min((part + 1) * height));
            isa.run(Losses {
                loss,
                logits: &logits[row * loss.classes..end * loss.classes],
                labels: &labels[row..end],
                to: to.at(row),
                most: most.at(row),
                inverse: inverse.at(row),
            });
        });
    }
}

impl Body for Losses<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Loss { classes, smoothing, .. } = self.loss;
        let lowest = s.splat(f32::NEG_INFINITY);
        let zero = s.splat(0.0);
        for (row, label) in self.labels.iter().enumerate() {
            let logits = &self.logits[row * classes..(row + 1) * classes];
            let mut most = lowest;
            let mut i = 0;
            while i < classes {
                // SAFETY: a row has `classes` floats.
                let x = unsafe { s.load_up_to(logits.as_ptr().add(i), classes - i) };
                most = s.max(s.select(within(s, classes - i), x, lowest), most);
                i += LANES;
            }
            let most = largest(s, most);
            let (mut sum, mut off) = (zero, zero);
            i = 0;
            while i < classes {
                // SAFETY: a row has `classes` floats.
                let x = unsafe { s.load_up_to(logits.as_ptr().add(i), classes - i) };
                let x = s.sub(x, s.splat(most));
                let inside = within(s, classes - i);
                sum = s.add(sum, s.select(inside, math::exp(s, x), zero));
                off = s.add(off, s.select(inside, x, zero));
                i += LANES;
            }
            let sum = s.sum(sum);
            let log = single(s, math::ln(s, s.splat(sum)));
            let own = match class(*label, classes) {
                Some(class) => logits[class] - most,
                None => f32::NAN,
            };
            let mut loss = log - (1.0 - smoothing) * own;
            // A logit of −∞ times no smoothing is NaN.
            if smoothing > 0.0 {
                loss -= smoothing / classes as f32 * s.sum(off);
            }
            // SAFETY: one float a row.
            unsafe {
                *self.to.add(row) = loss;
                *self.most.add(row) = most;
                *self.inverse.add(row) = 1.0 / sum;
            }
        }
    }
}

/// `dloss · (p − q)`.
#[derive(Debug)]
struct Backward(Loss);

struct Grads<'a> {
    loss: Loss,
    logits: *const f32,
    labels: &'a [f32],
    dy: &'a [f32],
    most: &'a [f32],
    inverse: &'a [f32],
    to: *mut f32,
}

impl Kernel for Backward {
    fn in_place(&self) -> &'static [(usize, usize)] {
        &[(0, 0)]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([logits, labels, dy, most, inverse], [to]) = (reads, writes) else {
            unreachable!("five reads and one write")
        };
        let (loss, isa, height) = (self.0, cx.isa, self.0.height());
        let to = Shared::new(to);
        cx.pool.run(loss.rows.div_ceil(height), &|part| {
            let (row, end) = (part * height, loss.rows.min((part + 1) * height));
            isa.run(Grads {
                loss,
                logits: to.source(logits, row * loss.classes),
                labels: &labels[row..end],
                dy: &dy[row..end],
                most: &most[row..end],
                inverse: &inverse[row..end],
                to: to.at(row * loss.classes),
            });
        });
    }
}

impl Body for Grads<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Loss { classes, smoothing, .. } = self.loss;
        for (row, label) in self.labels.iter().enumerate() {
            let dy = self.dy[row];
            let label = class(*label, classes);
            let share = if label.is_some() { smoothing / classes as f32 } else { f32::NAN };
            let (most, inverse) = (s.splat(self.most[row]), s.splat(self.inverse[row]));
            // SAFETY: rows have `classes` floats, and the label is below it.
            unsafe {
                let (from, to) = (self.logits.add(row * classes), self.to.add(row * classes));
                let mut i = 0;
                while i < classes {
                    let e = math::exp(s, s.sub(s.load_up_to(from.add(i), classes - i), most));
                    let d = s.mul(s.fma(e, inverse, s.splat(-share)), s.splat(dy));
                    s.store_up_to(to.add(i), d, classes - i);
                    i += LANES;
                }
                if let Some(class) = label {
                    *to.add(class) -= dy * (1.0 - smoothing);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::value;

    #[test]
    fn labels_that_are_no_classes_give_nan() {
        let logits = Array::new([5, 3], (0..15).map(f64::from).collect());
        let labels = Array::new([5], vec![2.0, 3.0, -1.0, 0.5, f64::NAN]);
        let inputs = [logits, labels];
        let loss = value(&CrossEntropy::default(), &inputs, &[], Slot::Output);
        assert!(loss[0].is_finite() && loss[1..].iter().all(|loss| loss.is_nan()), "{loss:?}");
        let grad = value(&CrossEntropy::default(), &inputs, &[], Slot::InputGrad(0));
        assert!(grad[..3].iter().all(|d| d.is_finite()) && grad[3..].iter().all(|d| d.is_nan()), "{grad:?}");
    }

    #[test]
    fn large_logits_lose_nothing_and_nan_shows() {
        let logits = Array::new([3, 2], vec![-1e4, -1e4, 1e30, 0.0, f64::NAN, 0.0]);
        let inputs = [logits, Array::zeros([3])];
        let loss = value(&CrossEntropy::default(), &inputs, &[], Slot::Output);
        assert!((loss[0] - std::f32::consts::LN_2).abs() < 1e-6, "{loss:?}");
        assert_eq!(loss[1..2], [0.0]);
        assert!(loss[2].is_nan());
    }
}

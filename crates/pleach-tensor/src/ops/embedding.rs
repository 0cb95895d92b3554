//! A vector for each token.

#![expect(unsafe_code, reason = "rows are read by pointers, and written on several threads")]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Described, Fill, Sample, class};
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::{Action, Array, Context, Error, Init, Kernel, Layer, Op, Parameter, Role, Setting, Shape, Slot};

/// Elements that a part of the forward pass works on, about.
const PART: usize = 8 * 1024;
/// Columns that a part of the backward pass works on.
const BLOCK: usize = 2 * LANES;

/// The row of a table of `entries` × `width` that a token, a whole number, names: `[n, …]` becomes
/// `[n, …, width]`. Where a token names none, the vector is NaN.
///
/// The table starts normal with a standard deviation of 0.02, as in GPT-2.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Embedding {
    entries: usize,
    width: usize,
}

impl Op for Embedding {
    fn name(&self) -> &'static str {
        Embedding::NAME
    }

    fn attributes(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn build(&self, inputs: &[Shape], _: Setting) -> Result<Layer, Error> {
        let [tokens] = super::inputs(Self::NAME, inputs)?;
        let shape = Shape::from([self.entries, self.width]);
        if tokens.rank() == 0 || shape.is_empty() {
            let reason = format!("it takes [n, …], and a table of {shape}");
            return Err(super::misfit(Self::NAME, inputs, reason));
        }
        shape.checked_len("the table of an embedding")?;
        let output = Shape::new([tokens.sizes(), &[self.width]].concat());
        output.checked_len("an embedding")?;
        let init = Init::Normal(0.02);
        Ok(Layer {
            parameters: vec![Parameter { name: "weight", shape, role: Role::Weight, init }],
            forward: Action::run(Forward(*self), [Slot::Input(0), Slot::Parameter(0)], [Slot::Output]),
            backward: vec![Action::run(
                Backward(*self),
                [Slot::Input(0), Slot::OutputGrad],
                [Slot::ParameterGrad(0)],
            )],
            ..Layer::plain(output)
        })
    }

    fn reference(&self, inputs: &[Array], parameters: &[Array]) -> Array {
        let mut values = Vec::new();
        for &token in &inputs[0].values {
            let entry = class(token, self.entries).expect("an entry");
            values.extend(&parameters[0].values[entry * self.width..(entry + 1) * self.width]);
        }
        Array::new(Shape::new([inputs[0].shape.sizes(), &[self.width]].concat()), values)
    }
}

impl Described for Embedding {
    const NAME: &'static str = "embedding";
    const SUMMARY: &'static str = "a vector for each token";

    fn samples() -> Vec<Sample> {
        let table = |entries, width, tokens: Shape| {
            Sample::new(Embedding { entries, width }, [(tokens, Fill::Classes(entries))])
        };
        vec![
            table(5, 7, [3, 4].into()),
            table(1, 16, [2].into()),
            table(9, 33, [1, 6].into()),
            table(30, 100, [4, 40].into()),
        ]
    }
}

#[derive(Debug)]
struct Forward(Embedding);

impl Kernel for Forward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([tokens, table], [y]) = (reads, writes) else { unreachable!("two reads and one write") };
        let Embedding { entries, width } = self.0;
        let height = (PART / width).max(1);
        let y = Shared::new(y);
        cx.pool.run(tokens.len().div_ceil(height), &|part| {
            for row in part * height..tokens.len().min((part + 1) * height) {
                // SAFETY: each row is in one part.
                let y = unsafe { y.slice(row * width, (row + 1) * width) };
                match class(tokens[row], entries) {
                    Some(entry) => y.copy_from_slice(&table[entry * width..(entry + 1) * width]),
                    None => y.fill(f32::NAN),
                }
            }
        });
    }
}

/// Sums of the derivatives of an entry's places, from the first token on. A part has some columns.
#[derive(Debug)]
struct Backward(Embedding);

struct Strip<'a> {
    embedding: Embedding,
    tokens: &'a [f32],
    dy: *const f32,
    to: *mut f32,
    columns: usize,
}

impl Kernel for Backward {
    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], _: &mut [f32]) {
        let ([tokens, dy], [to]) = (reads, writes) else { unreachable!("two reads and one write") };
        let (embedding, isa, to) = (self.0, cx.isa, Shared::new(to));
        cx.pool.run(embedding.width.div_ceil(BLOCK), &|part| {
            let column = part * BLOCK;
            isa.run(Strip {
                embedding,
                tokens,
                dy: dy.as_ptr().wrapping_add(column),
                to: to.at(column),
                columns: BLOCK.min(embedding.width - column),
            });
        });
    }
}

impl Body for Strip<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Embedding { entries, width } = self.embedding;
        for entry in 0..entries {
            let mut i = 0;
            while i < self.columns {
                // SAFETY: the table has this entry and these columns.
                unsafe { s.store_up_to(self.to.add(entry * width + i), s.splat(0.0), self.columns - i) };
                i += LANES;
            }
        }
        for (row, token) in self.tokens.iter().enumerate() {
            let Some(entry) = class(*token, entries) else { continue };
            let mut i = 0;
            while i < self.columns {
                let n = self.columns - i;
                // SAFETY: as above; `dy` has a row for each token.
                unsafe {
                    let to = self.to.add(entry * width + i);
                    let dy = s.load_up_to(self.dy.add(row * width + i), n);
                    s.store_up_to(to, s.add(s.load_up_to(to, n), dy), n);
                }
                i += LANES;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::value;

    #[test]
    fn tokens_without_an_entry_give_nan() {
        let tokens = Array::new([4], vec![1.0, 2.0, -1.0, f64::NAN]);
        let table = [Array::new([2, 1], vec![5.0, 6.0])];
        let op = Embedding { entries: 2, width: 1 };
        let y = value(&op, std::slice::from_ref(&tokens), &table, Slot::Output);
        assert_eq!(y[..1], [6.0]);
        assert!(y[1..].iter().all(|y| y.is_nan()), "{y:?}");
        assert_eq!(value(&op, &[tokens], &table, Slot::ParameterGrad(0)), [0.0, 1.0]);
    }
}

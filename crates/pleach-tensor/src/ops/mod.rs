//! The operations: one file and one line of [`OPS`] each.

mod accuracy;
mod activations;
mod add;
mod attention;
mod average_pool;
mod batch_norm;
mod blocks;
mod columns;
mod concat;
mod conv;
mod conv_transpose;
mod cross_entropy;
mod dropout;
mod embedding;
mod group_norm;
mod gru;
mod layer_norm;
mod linear;
mod lstm;
mod max_pool;
mod mean_squared_error;
mod position;
mod recurrent;
mod reshape;
mod rows;
mod scale;
mod slice;
mod subsample;
mod transpose;
mod unary;
mod upsample;
mod window;

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Error, Init, Op, Parameter, Role, Shape};

/// All operations, by name.
pub const OPS: &[Entry] = &[
    Entry::of::<conv::Conv>(),
    Entry::of::<conv_transpose::ConvTranspose>(),
    Entry::of::<linear::Linear>(),
    Entry::of::<activations::Relu>(),
    Entry::of::<activations::LeakyRelu>(),
    Entry::of::<activations::Sigmoid>(),
    Entry::of::<activations::Tanh>(),
    Entry::of::<activations::Swish>(),
    Entry::of::<activations::HardSigmoid>(),
    Entry::of::<activations::HardSwish>(),
    Entry::of::<activations::Gelu>(),
    Entry::of::<batch_norm::BatchNorm>(),
    Entry::of::<group_norm::GroupNorm>(),
    Entry::of::<layer_norm::LayerNorm>(),
    Entry::of::<add::Add>(),
    Entry::of::<scale::Scale>(),
    Entry::of::<concat::Concat>(),
    Entry::of::<slice::Slice>(),
    Entry::of::<transpose::Transpose>(),
    Entry::of::<reshape::Reshape>(),
    Entry::of::<reshape::Flatten>(),
    Entry::of::<upsample::Upsample>(),
    Entry::of::<subsample::Subsample>(),
    Entry::of::<max_pool::MaxPool>(),
    Entry::of::<max_pool::GlobalMaxPool>(),
    Entry::of::<average_pool::AveragePool>(),
    Entry::of::<average_pool::GlobalAveragePool>(),
    Entry::of::<embedding::Embedding>(),
    Entry::of::<position::Position>(),
    Entry::of::<attention::Attention>(),
    Entry::of::<lstm::Lstm>(),
    Entry::of::<gru::Gru>(),
    Entry::of::<dropout::Dropout>(),
    Entry::of::<cross_entropy::CrossEntropy>(),
    Entry::of::<mean_squared_error::MeanSquaredError>(),
    Entry::of::<accuracy::Accuracy>(),
];

/// A line of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name of the operation.
    pub name: &'static str,
    /// What it computes, in a line.
    pub summary: &'static str,
    /// Makes it from its attributes.
    pub parse: fn(Value) -> Result<Arc<dyn Op>, Error>,
    /// Cases that show it at work; the conformance suite and benches run them.
    pub samples: fn() -> Vec<Sample>,
}

/// An operation on inputs of certain shapes.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The operation.
    pub op: Arc<dyn Op>,
    /// The shapes of its inputs, and what is in them.
    pub inputs: Vec<(Shape, Fill)>,
}

/// What an input is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Normal numbers.
    Normal,
    /// Numbers that all differ by 0.01 and more, and none of them within 0.005 of zero: no small
    /// change alters their order or their sign.
    Apart,
    /// Whole numbers below this one.
    Classes(usize),
}

impl Sample {
    /// `op` on inputs of these shapes and contents.
    pub fn new(op: impl Op + 'static, inputs: impl Into<Vec<(Shape, Fill)>>) -> Sample {
        Sample { op: Arc::new(op), inputs: inputs.into() }
    }
}

/// What a type gives the registry.
trait Described: Op + DeserializeOwned + 'static {
    const NAME: &'static str;
    const SUMMARY: &'static str;
    fn samples() -> Vec<Sample>;
}

impl Entry {
    const fn of<T: Described>() -> Entry {
        Entry { name: T::NAME, summary: T::SUMMARY, parse: parse::<T>, samples: T::samples }
    }
}

fn parse<T: Described>(attributes: Value) -> Result<Arc<dyn Op>, Error> {
    match serde_json::from_value::<T>(attributes) {
        Ok(op) => Ok(Arc::new(op)),
        Err(error) => Err(Error::Attribute { op: T::NAME.into(), reason: error.to_string() }),
    }
}

/// Makes the operation `name` from its attributes, a JSON object.
///
/// # Errors
/// [`Error::UnknownOp`], or [`Error::Attribute`] if an attribute is unknown, missing or wrong.
pub fn op(name: &str, attributes: Value) -> Result<Arc<dyn Op>, Error> {
    match OPS.iter().find(|entry| entry.name == name) {
        Some(entry) => (entry.parse)(attributes),
        None => {
            Err(Error::UnknownOp { name: name.into(), known: OPS.iter().map(|entry| entry.name).collect() })
        }
    }
}

/// Checks that there are exactly `N` inputs.
fn inputs<'a, const N: usize>(op: &'static str, shapes: &'a [Shape]) -> Result<&'a [Shape; N], Error> {
    shapes.try_into().map_err(|_| Error::Inputs { op, expected: N.to_string(), got: shapes.len() })
}

/// The error for inputs that do not suit `op`.
fn misfit(op: &'static str, shapes: &[Shape], reason: impl Into<String>) -> Error {
    Error::Shape { op, shapes: shapes.to_vec(), reason: reason.into() }
}

/// A bias a channel, zero at the start.
fn bias(channels: usize) -> Parameter {
    let shape = Shape::from([channels]);
    Parameter { name: "bias", shape, role: Role::Shift, init: Init::Constant(0.0) }
}

/// The class or token that a float stands for, if it is a whole number below `classes`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and below `classes`")]
fn class(value: impl Into<f64>, classes: usize) -> Option<usize> {
    let value = value.into();
    (value >= 0.0 && value < classes as f64 && value.fract() == 0.0).then_some(value as usize)
}

//! Operations of networks: what they compute, and into which kernels they fall apart.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Error, Kernel, Shape};

/// A differentiable operation on tensors, with its attributes.
///
/// One file and one line of [`OPS`](crate::OPS) each.
pub trait Op: fmt::Debug + Send + Sync {
    /// Its name in the registry.
    fn name(&self) -> &'static str;

    /// Its attributes as a JSON object, from which the registry makes it again.
    fn attributes(&self) -> serde_json::Value;

    /// Infers shapes and chooses kernels for inputs of these shapes, batch included.
    ///
    /// # Errors
    /// If the inputs do not suit it: [`Error::Inputs`], [`Error::Shape`], [`Error::TooLarge`].
    fn build(&self, inputs: &[Shape], setting: Setting) -> Result<Layer, Error>;

    /// The definition, in `f64` and as plainly as it can be said; tests compare kernels with it, and
    /// derivatives with its differences. Random operations draw as they do at the
    /// place 0 and `Stream { seed: 5, step: 7, first_example: 3 }`.
    fn reference(&self, inputs: &[Array], parameters: &[Array]) -> Array;
}

/// What is the same for all operations of a network.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setting {
    /// How exact convolutions are.
    pub numerics: Numerics,
    /// A number that differs between the operations of a network: their random numbers do.
    pub place: u64,
    /// Whether the layer only answers: its forward pass of training is never run.
    pub inference: bool,
}

/// The arithmetic that convolutions may use.
///
/// Together with the shape it fixes the class of every convolution before anything is planned, so
/// that a budget, threads or a machine change no bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Numerics {
    /// Sums of products, as the definition says.
    Direct,
    /// Winograd F(2×2, 3×3) where it applies: 2.25 times fewer multiplications.
    #[serde(rename = "winograd-2")]
    Winograd2,
    /// Winograd F(4×4, 3×3) where it applies: 4 times fewer multiplications, and two to six times
    /// the rounding error.
    #[default]
    #[serde(rename = "winograd-4")]
    Winograd4,
}

/// An operation on inputs of fixed shapes.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The shape of the output.
    pub output: Shape,
    /// What it learns, and what it only keeps.
    pub parameters: Vec<Parameter>,
    /// The lengths of what the forward pass leaves for the backward pass beside inputs and output.
    pub saved: Vec<usize>,
    /// Running averages that a step updates.
    pub running: Vec<Running>,
    /// The forward pass of training.
    pub forward: Action,
    /// The forward pass of a trained network, where it is another one.
    pub inference: Option<Action>,
    /// The backward pass, in order; actions whose writes nobody needs may be left out. Empty for an
    /// operation that has no derivative.
    pub backward: Vec<Action>,
    /// Multiply-adds of the forward pass.
    pub macs: u64,
}

impl Layer {
    /// An operation that gives its only input as it is; others replace what differs.
    pub(crate) fn plain(output: Shape) -> Layer {
        Layer {
            output,
            parameters: Vec::new(),
            saved: Vec::new(),
            running: Vec::new(),
            forward: Action::Same { from: Slot::Input(0), to: Slot::Output },
            inference: None,
            backward: vec![Action::Same { from: Slot::OutputGrad, to: Slot::InputGrad(0) }],
            macs: 0,
        }
    }
}

/// A tensor that belongs to an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name within the operation: `weight`, `bias`, `running_mean`.
    pub name: &'static str,
    /// Its shape.
    pub shape: Shape,
    /// What happens to it in a step.
    pub role: Role,
    /// Its values at the start.
    pub init: Init,
}

/// What happens to a parameter in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is learned, and decays where weights decay.
    Weight,
    /// It is learned and never decays: biases, scales and shifts of normalisations.
    Shift,
    /// It is not learned: a running average.
    Average,
}

/// Values at the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// All the same.
    Constant(f32),
    /// Normal, with mean 0 and this standard deviation.
    Normal(f32),
    /// Uniform between minus and plus this bound.
    Uniform(f32),
}

impl Init {
    /// He, Zhang, Ren, Sun, *Delving Deep into Rectifiers*, ICCV 2015, Eq. 10: a standard deviation of
    /// `√(2 / fan_in)`.
    pub fn he(fan_in: usize) -> Init {
        #[expect(clippy::cast_possible_truncation, reason = "a float is all that is needed")]
        Init::Normal((2.0 / fan_in.max(1) as f64).sqrt() as f32)
    }
}

/// A running average: `average ← average + momentum · (latest − average)`, once a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Running {
    /// The parameter that holds the average.
    pub parameter: usize,
    /// What was saved in the forward pass to be averaged.
    pub saved: usize,
    /// How much the latest value counts.
    pub momentum: f32,
}

/// One thing to do in a pass.
#[derive(Clone, Debug)]
pub enum Action {
    /// Run a kernel.
    Run(Call),
    /// `to` is the very value of `from`: no kernel, no memory.
    Same {
        /// The value there is.
        from: Slot,
        /// Its other name.
        to: Slot,
    },
}

impl Action {
    /// Runs `kernel` on `reads`, giving `writes`.
    pub fn run(
        kernel: impl Kernel + 'static,
        reads: impl Into<Vec<Slot>>,
        writes: impl Into<Vec<Slot>>,
    ) -> Action {
        Action::Run(Call { kernel: Arc::new(kernel), reads: reads.into(), writes: writes.into() })
    }
}

/// A kernel and the values it reads and writes.
#[derive(Clone, Debug)]
pub struct Call {
    /// The kernel.
    pub kernel: Arc<dyn Kernel>,
    /// What it reads, in its order.
    pub reads: Vec<Slot>,
    /// What it writes, in its order.
    pub writes: Vec<Slot>,
}

/// A value as an operation sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// An input.
    Input(usize),
    /// A parameter.
    Parameter(usize),
    /// The output.
    Output,
    /// What the forward pass leaves for the backward pass.
    Saved(usize),
    /// The derivative of the loss by the output.
    OutputGrad,
    /// The derivative by an input.
    InputGrad(usize),
    /// The derivative by a parameter.
    ParameterGrad(usize),
}

/// A tensor of `f64` for definitions and tests.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Its shape.
    pub shape: Shape,
    /// Its values, the last axis contiguous.
    pub values: Vec<f64>,
}

impl Array {
    /// A tensor of these values.
    ///
    /// # Panics
    /// If there are more or fewer than the shape says.
    pub fn new(shape: impl Into<Shape>, values: Vec<f64>) -> Array {
        let shape = shape.into();
        assert_eq!(shape.len(), values.len(), "values of a tensor of {shape}");
        Array { shape, values }
    }

    /// A tensor of zeros.
    pub fn zeros(shape: impl Into<Shape>) -> Array {
        let shape = shape.into();
        Array { values: vec![0.0; shape.len()], shape }
    }

    /// The value at these indices.
    pub fn at(&self, indices: &[usize]) -> f64 {
        self.values[self.offset(indices)]
    }

    /// The place of the value at these indices.
    ///
    /// # Panics
    /// If there is none.
    pub fn offset(&self, indices: &[usize]) -> usize {
        assert_eq!(indices.len(), self.shape.rank());
        indices.iter().zip(self.shape.sizes()).fold(0, |offset, (&index, &size)| {
            assert!(index < size);
            offset * size + index
        })
    }

    /// The same with every value changed.
    #[must_use]
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Array {
        Array { shape: self.shape.clone(), values: self.values.iter().map(|&x| f(x)).collect() }
    }
}

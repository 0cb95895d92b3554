//! Networks: graphs of operations, their shapes, gradients and costs, and a zoo of models.
//!
//! A [`Graph`] is put together layer by layer, read from JSON, or taken from the zoo ([`model`]).
//! For a batch it becomes a [`Program`]: a straight line of kernels, forward and backward, over
//! values of known size, each instruction with exactly the values that it reads and writes.
//! Where these values lie in memory is planned by `pleach-memory`, and running them is the business
//! of `pleach-train`.

#![forbid(unsafe_code)]

mod error;
mod graph;
mod json;
mod program;
pub mod zoo;

pub use error::Error;
pub use graph::{Built, Graph, Node, NodeId, NodeKind};
pub use program::{
    Instruction, ParameterPort, Port, Program, RunningPort, StatePort, TARGET, Value, ValueId, ValueKind,
};
pub use zoo::{MODELS, model};

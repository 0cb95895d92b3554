//! What can go wrong.

use crate::{Isa, Shape};

/// What can go wrong when an operation is built or a device is set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation has another number of inputs.
    #[error("{op} takes {expected} inputs, not {got}")]
    Inputs {
        /// The operation.
        op: &'static str,
        /// How many it takes.
        expected: String,
        /// How many there are.
        got: usize,
    },
    /// The shapes of the inputs do not suit an operation.
    #[error("{op} cannot take {}: {reason}", list(shapes))]
    Shape {
        /// The operation.
        op: &'static str,
        /// The shapes of its inputs.
        shapes: Vec<Shape>,
        /// What it asks for.
        reason: String,
    },
    /// An attribute is unknown, missing or out of range.
    #[error("{op}: {reason}")]
    Attribute {
        /// The operation.
        op: String,
        /// What is wrong.
        reason: String,
    },
    /// There is no operation of this name.
    #[error("there is no operation {name:?}; the operations are {}", known.join(", "))]
    UnknownOp {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// There is no update rule of this name.
    #[error("there is no update rule {name:?}; the rules are {}", known.join(", "))]
    UnknownUpdate {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// A size is beyond what the machine can address.
    #[error("{what} would take more than {} bytes", isize::MAX)]
    TooLarge {
        /// What is too large.
        what: String,
    },
    /// The machine does not have an instruction set.
    #[error("this machine does not have {isa}; it has {}", list(&Isa::available()))]
    NoIsa {
        /// The set that was asked for.
        isa: Isa,
    },
    /// The system does not give this much memory.
    #[error("the system does not give {bytes} bytes of memory; ask for a smaller budget")]
    OutOfMemory {
        /// How much was asked for.
        bytes: usize,
    },
    /// Operands of a call overlap or lie outside the arena.
    #[error("operands of {kernel}: {reason}")]
    Operands {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        reason: String,
    },
}

fn list(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

//! What can go wrong.

use std::io;
use std::path::PathBuf;

/// What can go wrong in training.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The network cannot be trained.
    #[error(transparent)]
    Graph(#[from] pleach_graph::Error),
    /// No plan of memory can be made.
    #[error(transparent)]
    Plan(#[from] pleach_memory::Error),
    /// The device cannot be set up.
    #[error(transparent)]
    Device(#[from] pleach_tensor::Error),
    /// Data cannot be used.
    #[error(transparent)]
    Data(#[from] crate::data::Error),
    /// Options do not fit together.
    #[error("{reason}")]
    Options {
        /// What is wrong.
        reason: String,
    },
    /// The solver makes no sense.
    #[error("solver: {reason}")]
    Solver {
        /// What is wrong.
        reason: String,
    },
    /// A batch has another size than the network takes.
    #[error("{got} floats of {what} for a batch of {batch}, which takes {expected}")]
    Batch {
        /// Inputs or targets.
        what: &'static str,
        /// The floats that it takes.
        expected: usize,
        /// The floats that came.
        got: usize,
        /// The examples of a batch.
        batch: usize,
    },
    /// The loss or a gradient is not finite any more.
    #[error(
        "training diverged in step {step}: the loss is {loss}, the norm of the gradients \
         {gradient_norm}; the parameters are those before the step. Lower the rate, or clip the norm"
    )]
    Diverged {
        /// The step.
        step: u64,
        /// Its loss.
        loss: f64,
        /// The norm of its gradients.
        gradient_norm: f64,
    },
    /// A file of weights or state cannot be read.
    #[error("cannot use {path}: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A checkpoint cannot be written.
    #[error("cannot write {path}; the checkpoint before it is kept")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A checkpoint belongs to another training.
    #[error("{path} belongs to another training: {difference}")]
    OtherTraining {
        /// The file.
        path: PathBuf,
        /// The first difference.
        difference: String,
    },
}

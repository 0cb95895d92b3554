//! Making it learn: steps of training, solvers, checkpoints, evaluation.
//!
//! A [`Trainer`] has a network and takes one step a batch ([`Trainer::step`]); all of its memory is
//! laid out before the first step, and its results depend on the options, the batches and the seed
//! alone: not on threads, instruction sets, or on which worker computes which virtual node.
//! It does not know why it trains. What it learns from comes from [`data`].

#![forbid(unsafe_code)]

mod checkpoint;
pub mod data;
mod error;
mod evaluate;
mod executor;
mod init;
mod nodes;
mod recipe;
mod session;
mod solver;
mod trainer;

pub use error::Error;
pub use evaluate::{Evaluation, Evaluator};
pub use executor::Machine;
pub use recipe::{Data, Recipe, Train};
pub use session::{Epoch, Event, Session, SessionOptions, evaluate_file};
pub use solver::{Schedule, Shape, Solver};
pub use trainer::{StepReport, Trainer, TrainerOptions, Worker};

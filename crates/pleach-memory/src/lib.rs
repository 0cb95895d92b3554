//! What lives where: plans of memory for programs of networks.
//!
//! A plan is data: the instructions of a [`Program`](pleach_graph::Program) in order, each with the
//! ranges of memory that it reads and writes, and where the values are that come from outside or
//! stay from step to step. It is made before the first step, needs exactly [`Plan::len`] floats, and
//! whoever runs it allocates nothing more.

#![forbid(unsafe_code)]

mod keep_all;
mod plan;

pub use keep_all::keep_all;
pub use plan::{Error, Plan, Step};

//! Numbers and devices: operations of networks as CPU kernels with the same bits everywhere.
//!
//! An [`Op`] is built for the shapes of its inputs and becomes a [`Layer`]: the shape of its output,
//! its parameters, and [`Kernel`]s for the forward and the backward pass, each with the values that
//! it reads and writes. Kernels work on memory that their caller laid out, never allocate, and give
//! the same bits for every number of threads, instruction set and workspace. [`OPS`] lists what
//! there is. A [`Device`] has memory and runs kernels on ranges of it; [`Cpu`] is the one there is.
//!
//! Tensors are `f32` throughout, images `[n, height, width, channels]`. Classes and tokens are whole
//! numbers, exact below 2²⁴.
//! How networks are put together and differentiated is the business of `pleach-graph`.
//!
//! ```
//! use pleach_tensor::{Setting, Shape, op};
//!
//! let relu = op("relu", serde_json::json!({}))?;
//! let layer = relu.build(&[Shape::from([8, 100])], Setting::default())?;
//! assert_eq!(layer.output, Shape::from([8, 100]));
//! # Ok::<(), pleach_tensor::Error>(())
//! ```

#![deny(unsafe_code)]
#![expect(
    clippy::inline_always,
    clippy::needless_range_loop,
    reason = "what runs below the entry of an instruction set must be compiled for the set, and registers \
              are counted"
)]

mod arena;
#[cfg(test)]
mod conformance;
mod device;
mod direct;
mod error;
mod geometry;
#[cfg(test)]
mod golden;
mod kernel;
mod math;
mod op;
mod ops;
mod pool;
mod shape;
#[expect(unsafe_code, reason = "instruction sets are entered and memory is read by pointers")]
mod simd;
mod tile;
mod updates;
mod winograd;

pub use arena::Arena;
pub use device::{Cpu, Device, MAX_OPERANDS, Operands};
pub use error::Error;
pub use kernel::{Context, Kernel, Stream};
pub use op::{Action, Array, Call, Init, Layer, Numerics, Op, Parameter, Role, Running, Setting, Slot};
pub use ops::{Entry, Fill, OPS, Sample, op};
pub use pool::Pool;
pub use shape::Shape;
pub use simd::Isa;
pub use updates::{MovingAverage, STEP_FLOATS, SquareSum, UPDATES, Update, UpdateEntry, update};

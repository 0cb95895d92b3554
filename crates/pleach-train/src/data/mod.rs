//! Examples to learn from, and batches of them.
//!
//! [`open`] recognises a format by what it finds at a path and returns a [`Dataset`]; [`FORMATS`] lists
//! what it knows. A [`Loader`] reads, augments and normalises batches ahead of the training. All of it
//! is deterministic: a batch is a function of the data, the options and its place in the training.
//!
//! ```
//! use pleach_train::data::{self, Error, Loader, LoaderOptions};
//!
//! let digits = data::open("digits", &data::Options::default())?;
//! assert_eq!(digits.to_string(), "digits: 1797 examples of 8×8×1, 10 classes");
//! let (train, test) = digits.split(360, 7)?;
//! assert_eq!((train.len(), test.len()), (1437, 360));
//!
//! let options = LoaderOptions { batch: 32, seed: 7, ..LoaderOptions::default() };
//! let mut loader = Loader::start(&train, &options)?;
//! let batch = loader.next_batch()?.expect("a loader goes on for ever by default");
//! assert_eq!((batch.inputs.len(), batch.targets.len()), (32 * 64, 32));
//! # Ok::<(), Error>(())
//! ```

mod augment;
mod classes;
mod dataset;
mod draw;
mod error;
mod files;
mod formats;
mod image;
mod loader;
mod normalize;
mod table;
#[cfg(test)]
mod testing;

pub use augment::Augment;
pub use classes::Classes;
pub use dataset::{Dataset, Target};
pub use error::Error;
pub use formats::{FORMATS, Format, Options, Part, open};
pub use loader::{Batch, Loader, LoaderOptions};
pub use normalize::Normalization;

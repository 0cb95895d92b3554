//! Search for the best point of an expensive function, in a study that survives anything.
//!
//! This crate gathers what a program needs to search: parameters and metrics, a [`Study`] in a
//! file, and [`Study::optimize`], which evaluates a function on several threads. The methods
//! themselves are in [`search`] and everything about stored studies and external commands is in
//! [`study`]. The `pleach` command does the same from an experiment file; a library user who
//! depends on this crate with `default-features = false` does not build it.
//!
//! ```
//! use pleach::{Goal, Metric, Parameter, Spec, StoreOptions, Study};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("study.db");
//! let spec = Spec {
//!     parameters: vec![Parameter::log_float("lr", 1e-5, 1e-1), Parameter::int("layers", 1, 8)],
//!     metrics: vec![Metric::objective("loss", Goal::Min)],
//!     ..Spec::new("training", 7)
//! };
//! let study = Study::create(&path, &spec, &StoreOptions::default())?;
//! // Until the study has 60 trials, 2 at a time; the same call goes on after a stop.
//! let progress = study.optimize(60, 2, |trial| {
//!     let (lr, layers) = (trial.f64("lr")?, trial.i64("layers")?);
//!     Ok((lr.log10() + 3.0).powi(2) + (layers - 5).pow(2) as f64)
//! })?;
//! assert!(progress.best.expect("sixty trials are done").value < 4.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

/// What to try next: the whole of `pleach-search`.
#[doc(no_inline)]
pub use pleach_search as search;
/// Remembering trials: the whole of `pleach-study`.
#[doc(no_inline)]
pub use pleach_study as study;

pub use pleach_search::{
    Domain, FailureClass, Goal, Literal, METHODS, Metric, Optimizer, Options, Outcome, Parameter, Point,
    Problem, Search, Seed, Space,
};
pub use pleach_study::{
    Assignment, BestTrial, Durability, Error, Evaluation, Lease, Progress, Reader, Spec, State, StoreOptions,
    Study, Tell, TrialHandle, TrialRecord,
};

/// The examples of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

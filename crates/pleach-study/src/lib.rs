//! Remembering trials: a study in one file that survives anything.
//!
//! A [`Study`] is a search whose events are written down before they are acknowledged. Its state is
//! a function of the seed and the ordered events, so a study that is opened again, after whatever
//! end, continues as if it had never been closed. Any number of processes may open the same file:
//! one of them owns it and the others talk to it, which [`Study`] arranges by itself.
//! A [`Reader`] looks at a study without taking part.
//!
//! ```
//! use pleach_search::{Goal, Metric, Parameter};
//! use pleach_study::{Evaluation, Spec, StoreOptions, Study, Tell};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("study.db");
//! let spec = Spec {
//!     parameters: vec![Parameter::float("x", -5.0, 10.0)],
//!     metrics: vec![Metric::objective("loss", Goal::Min)],
//!     ..Spec::new("parabola", 7)
//! };
//! let study = Study::create(&path, &spec, &StoreOptions::default())?;
//! while let Some(trial) = study.ask("me", 1, Some(20))?.pop() {
//!     let x = trial.f64("x").expect("x is a float");
//!     study.tell(trial.number, trial.attempt, Tell::Done(Evaluation::from([("loss", x * x)])))?;
//! }
//! assert!(study.progress()?.best.expect("20 trials are done").value < 4.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod error;
mod spec;
mod trial;

mod codec;
mod failpoint;
mod network;
mod place;
mod process;
mod record;
mod schema;
mod store;

mod best;
mod engine;
mod live;
mod replay;

mod link;
mod owner;
mod protocol;
mod socket;

mod doctor;
mod reader;
mod study;

pub mod command;
mod evaluator;
mod optimize;
mod simulated;
mod stop;
mod worker;

pub use doctor::Finding;
pub use error::Error;
pub use evaluator::{Evaluator, TrialContext};
pub use optimize::TrialHandle;
pub use reader::{Filter, Reader, ReportRecord, StudyInfo};
pub use simulated::run_simulated;
pub use spec::Spec;
pub use stop::{Stop, Urgency};
pub use study::{Durability, Lease, StoreOptions, Study};
pub use trial::{Assignment, BestTrial, Evaluation, ImportRow, Progress, State, Tell, TrialRecord};
pub use worker::{Event, Finish, RunOptions, Summary, run_workers};

/// What a panic said.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

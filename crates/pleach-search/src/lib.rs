//! What to try next: search spaces, ask/tell optimisers and test problems.
//!
//! A [`Problem`] is a [`Space`] and its metrics. A [`Search`] joins a problem with one method of
//! [`METHODS`] and a [`Seed`]: it hands out trials ([`Search::ask`]) and learns what they gave
//! ([`Search::tell`]), in any order, with any number of trials pending.
//! Nothing here evaluates an objective, opens a file or starts a thread; `pleach-study` does.
//!
//! ```
//! use pleach_search::{Goal, Measurement, Metric, Outcome, Parameter, Problem, Search, Seed, Space};
//!
//! let space = Space::new(vec![Parameter::float("x", -5.0, 10.0)], &[])?;
//! let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)])?;
//! let mut search = Search::new(problem, "random", &Default::default(), Seed::new(7))?;
//! for _ in 0..20 {
//!     let number = search.ask(1)?[0];
//!     let x = search.history().trial(number).point.values()[0].as_f64().expect("x is a float");
//!     search.tell(number, Outcome::Measured(Measurement::new(vec![x * x])))?;
//! }
//! let best = search.history().best().expect("twenty trials were measured");
//! assert!(best.value < 4.0);
//! # Ok::<(), pleach_search::Error>(())
//! ```

#![forbid(unsafe_code)]

mod descriptor;
mod error;
mod expression;
mod gp;
mod history;
mod layout;
mod linalg;
mod methods;
mod normal;
mod outcome;
mod partition;
mod problem;
pub mod problems;
mod search;
mod seed;
mod space;
pub mod testing;
mod value;

pub use descriptor::Descriptor;
pub use error::Error;
pub use history::{Best, History, Origin, Trial};
pub use methods::{Entry, METHODS, Optimizer, Options, Proposal, auto, method};
pub use outcome::{FailureClass, Measurement, Merit, Outcome};
pub use partition::{Part, Partition, Region, Step};
pub use problem::{Goal, Metric, Problem};
pub use search::{Event, REPLICATES, Search};
pub use seed::{Rng, Seed};
pub use space::{Domain, Key, Parameter, Point, Space};
pub use value::{Literal, Value};

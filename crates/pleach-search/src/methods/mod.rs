//! The methods: one file each, one line each in [`METHODS`].

mod aging_evolution;
pub mod auto;
mod by_size;
mod bytes;
mod cmaes;
mod design;
mod finite;
mod gp;
mod gp_cmaes;
mod grid;
mod la_mcts;
mod lanas;
mod options;
mod random;
mod sobol;
mod tpe;
mod turbo;

use std::collections::BTreeMap;

use crate::{Error, History, Literal, Partition, Point, Region};

/// Every method.
pub const METHODS: &[Entry] = &[
    auto::ENTRY,
    random::ENTRY,
    sobol::ENTRY,
    grid::ENTRY,
    aging_evolution::ENTRY,
    cmaes::ENTRY,
    gp::ENTRY,
    gp_cmaes::ENTRY,
    tpe::ENTRY,
    turbo::ENTRY,
    la_mcts::ENTRY,
    la_mcts::SLICE,
    la_mcts::CMAES,
    la_mcts::GP_CMAES,
    la_mcts::GP,
    la_mcts::TPE,
    la_mcts::TURBO,
    la_mcts::MUTATION,
    lanas::ENTRY,
];

/// The options of a method, by name.
pub type Options = BTreeMap<String, Literal>;

/// A point that a method wants evaluated.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The point.
    pub point: Point,
    /// What the method needs at replay and cannot compute again from the point.
    pub detail: Vec<u8>,
}

impl From<Point> for Proposal {
    fn from(point: Point) -> Self {
        Self { point, detail: Vec::new() }
    }
}

/// A search method: ask, then tell.
///
/// `ask` does not change the state; [`Optimizer::asked`] and [`Optimizer::told`] do, and they are
/// called alike for new trials and for recorded ones.
/// So the state is a function of the events, and a study that is opened again continues as if it
/// had never been closed.
/// A method must draw all randomness for trial `k` from `history.seed().child(purpose, i).rng(k)`.
pub trait Optimizer: Send {
    /// Proposes points for the next `n` trials, which will be numbered from
    /// [`History::next_number`] on; at least one and at most `n`.
    ///
    /// All lie in `region`, which is the whole space unless another method asks on behalf of a leaf of
    /// its partition. A proposal that was made before is replaced by the driver.
    ///
    /// # Errors
    /// What [`History::sample`] returns; [`Error::Exhausted`] if the method knows that nothing is left.
    fn ask(&self, history: &History, region: &Region, n: usize) -> Result<Vec<Proposal>, Error>;

    /// Learns that trial `number`, of this method or not, is now pending; it was asked for `region`.
    fn asked(&mut self, history: &History, region: &Region, number: u64) {
        let _ = (history, region, number);
    }

    /// Learns that trial `number` is told; [`History::merit`] says how its point stands.
    fn told(&mut self, history: &History, number: u64) {
        let _ = (history, number);
    }

    /// Learns that the space of `history` was extended.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] if the method cannot search the new space.
    fn space_changed(&mut self, history: &History) -> Result<(), Error> {
        let _ = history;
        Ok(())
    }

    /// The partition of the space that the method has learned, if it learns one.
    fn partition(&self, history: &History) -> Option<Partition> {
        let _ = history;
        None
    }

    /// The whole state as bytes; empty if it follows from the history alone.
    fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes over the state that [`Optimizer::snapshot`] gave at the same history.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if the bytes are not this method's.
    fn restore(&mut self, history: &History, snapshot: &[u8]) -> Result<(), Error> {
        let _ = history;
        if snapshot.is_empty() { Ok(()) } else { Err(Error::Snapshot) }
    }
}

/// A registered method.
#[derive(Debug)]
pub struct Entry {
    /// Its name in files and on the command line.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// Its options: name, default, meaning. A name that ends in `*` stands for all that begin like it.
    pub options: &'static [(&'static str, &'static str, &'static str)],
    /// Whether outcomes guide it; one that only covers the space need not beat random search.
    pub learns: bool,
    /// Whether an ask takes milliseconds rather than microseconds, since it consults a model.
    pub deliberates: bool,
    /// Builds it for the problem of an empty history.
    pub(crate) build: Build,
}

type Build = fn(&History, &Options) -> Result<Box<dyn Optimizer>, Error>;

impl Entry {
    /// Builds the method after checking the names of `options`.
    ///
    /// # Errors
    /// [`Error::Option`] for an unknown option or a value it cannot take, [`Error::Unsuitable`] if
    /// the method cannot search the space.
    pub fn build(&self, history: &History, options: &Options) -> Result<Box<dyn Optimizer>, Error> {
        let is_known = |key: &str| {
            self.options.iter().any(|(name, ..)| match name.strip_suffix('*') {
                Some(prefix) => key.starts_with(prefix),
                None => *name == key,
            })
        };
        if let Some(option) = options.keys().find(|key| !is_known(key)) {
            let known: Vec<&str> =
                self.options.iter().map(|(name, ..)| *name).chain([crate::REPLICATES]).collect();
            return Err(Error::Option {
                method: self.name.into(),
                option: option.clone(),
                message: format!("no such option; there are {}", known.join(", ")),
            });
        }
        (self.build)(history, options)
    }
}

/// The method of that name.
///
/// # Errors
/// [`Error::Unknown`] names those that exist.
pub fn method(name: &str) -> Result<&'static Entry, Error> {
    METHODS.iter().find(|entry| entry.name == name).ok_or_else(|| Error::Unknown {
        kind: "method",
        name: name.into(),
        known: METHODS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
    })
}

//! Uniform random search.

use super::{Entry, Optimizer, Proposal};
use crate::{Error, History, Region};

pub(super) const ENTRY: Entry = Entry {
    name: "random",
    summary: "uniform draws from the space",
    options: &[],
    learns: false,
    deliberates: false,
    build: |_, _| Ok(Box::new(Random)),
};

/// Draws every point on its own; the stream of a draw is the number of its trial.
#[derive(Debug)]
struct Random;

impl Optimizer for Random {
    fn ask(&self, history: &History, region: &Region, n: usize) -> Result<Vec<Proposal>, Error> {
        let seed = history.seed().child("random", 0);
        (0..n as u64)
            .map(|i| Ok(region.sample(history, &mut seed.rng(history.next_number() + i))?.into()))
            .collect()
    }
}

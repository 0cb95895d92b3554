//! Aging evolution.

use std::cmp::Reverse;
use std::collections::{HashSet, VecDeque};

use super::bytes::{Reader, Writer};
use super::options::Given;
use super::{Entry, Optimizer, Options, Proposal};
use crate::{Error, History, Key, Merit, Point, Rng};

pub(super) const ENTRY: Entry = Entry {
    name: "aging-evolution",
    summary: "mutates the best of a random sample of the newest trials",
    options: &[
        ("population", "100", "how many of the newest trials can be parents"),
        ("sample", "half the population", "how many of them compete to be the next parent"),
        ("warm-up", "10", "random trials before the first mutation"),
    ],
    learns: true,
    build,
};

fn build(history: &History, options: &Options) -> Result<Box<dyn Optimizer>, Error> {
    let given = Given { method: ENTRY.name, options };
    let population = given.count("population", 1..=1_000_000)?.unwrap_or(100);
    let sample = given.count("sample", 1..=1_000_000)?.unwrap_or(population.div_ceil(2));
    let warm_up = given.count("warm-up", 1..=1_000_000)?.unwrap_or(10);
    let _ = history;
    let members = VecDeque::with_capacity(population + 1);
    Ok(Box::new(AgingEvolution { population, sample, warm_up: warm_up as u64, members }))
}

/// Regularized evolution: the population is the trials told last, so that every trial dies of age;
/// the best of a random sample of it is mutated.
///
/// # Source
/// Real, Aggarwal, Huang, Le, *Regularized Evolution for Image Classifier Architecture Search*,
/// AAAI 2019, arXiv:1802.01548, Alg. 1.
/// Deviations, all of which take effect because evaluations are expensive and never repeated:
/// - A child is a point that was never proposed; a parent whose neighbours are used up gives way to
///   the next best of the sample, and only if all are used up are mutations compounded.
/// - The population starts with `warm-up` random trials and grows to its size, and the sample is
///   half of it. The defaults were chosen on NAS-Bench-Macro, two tables of `FCNet` and four of MLPs, where
///   they need about half the queries of population 50, sample 10, warm-up 50.
#[derive(Debug)]
struct AgingEvolution {
    population: usize,
    sample: usize,
    warm_up: u64,
    /// The population, oldest first: how each point stands, and its first trial.
    members: VecDeque<(Merit, Reverse<u64>)>,
}

impl Optimizer for AgingEvolution {
    fn ask(&self, history: &History, n: usize) -> Result<Vec<Proposal>, Error> {
        let seed = history.seed().child(ENTRY.name, 0);
        let mut batch = HashSet::new();
        (0..n as u64)
            .map(|i| {
                let number = history.next_number() + i;
                let mut rng = seed.rng(number);
                let child = if self.members.is_empty() || number < self.warm_up {
                    history.sample(&mut rng)?
                } else {
                    self.child(history, &batch, &mut rng)?
                };
                if n > 1 {
                    batch.insert(history.space().key(&child));
                }
                Ok(child.into())
            })
            .collect()
    }

    fn told(&mut self, history: &History, number: u64) {
        let replicates = history.replicates(number);
        let member = Reverse(replicates[0]);
        // A point that is told once more counts as new.
        if replicates.len() > 1 {
            self.members.retain(|&(_, other)| other != member);
        }
        match history.merit(number) {
            None | Some(Merit::Withdrawn) => {}
            Some(merit) => self.members.push_back((merit, member)),
        }
        if self.members.len() > self.population {
            self.members.pop_front();
        }
    }

    fn snapshot(&self) -> Vec<u8> {
        let mut out = Writer::new(1);
        out.u64(self.members.len() as u64);
        for &(merit, Reverse(number)) in &self.members {
            out.ranking((merit, number));
        }
        out.finish()
    }

    fn restore(&mut self, history: &History, snapshot: &[u8]) -> Result<(), Error> {
        let mut from = Reader::new(1, snapshot)?;
        self.members.clear();
        for _ in 0..from.count()? {
            let (merit, number) = from.ranking()?;
            if number >= history.next_number() {
                return Err(Error::Snapshot);
            }
            self.members.push_back((merit, Reverse(number)));
        }
        from.finish()
    }
}

impl AgingEvolution {
    fn child(&self, history: &History, batch: &HashSet<Key>, rng: &mut Rng) -> Result<Point, Error> {
        // Tries that find the one free neighbour of 20 with probability 0.96, and those of all parents.
        const TRIES: usize = 64;
        const ALL_TRIES: usize = 1024;
        let space = history.space();
        // Among equals the newest comes first, so that plateaus are crossed.
        let mut parents: Vec<(Merit, Reverse<u64>)> =
            (0..self.sample).map(|_| self.members[rng.index(self.members.len())]).collect();
        parents.sort_unstable();
        parents.dedup();
        let mut child = history.trial(parents[0].1.0).point.clone();
        let mut tries = 0;
        // Once every parent has failed, children are mutated twice, and so on.
        for steps in 1.. {
            for (_, Reverse(parent)) in &parents {
                for _ in 0..TRIES {
                    if tries == ALL_TRIES {
                        // The driver replaces it by a point that is new.
                        return Ok(child);
                    }
                    tries += 1;
                    child = history.trial(*parent).point.clone();
                    for _ in 0..steps {
                        child = space.mutate(&child, rng)?;
                    }
                    if history.is_new(&child) && !batch.contains(&space.key(&child)) {
                        return Ok(child);
                    }
                }
            }
        }
        unreachable!("the loop ends after so many tries")
    }
}

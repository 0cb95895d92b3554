//! Runs of the strategy: collecting generations, noticing convergence, restarting.

use std::collections::VecDeque;

use super::draws::Draws;
use super::start::Start;
use super::strategy::Strategy;
use crate::methods::bytes::{Reader, Writer};
use crate::methods::gp_cmaes::Scales;
use crate::{Error, Merit};

/// The settings of every run.
#[derive(Clone, Debug)]
pub(in crate::methods) struct Plan {
    /// Trials a generation, in the first run.
    pub(in crate::methods) population: usize,
    /// First standard deviation.
    pub(in crate::methods) sigma: f64,
    /// Points of a Latin hypercube before the first run.
    pub(in crate::methods) init: u64,
    /// The mean of the first run.
    pub(in crate::methods) first: First,
    /// In a part of the space: draws inside, of which the deepest is tried.
    pub(in crate::methods) deepest_of: usize,
    /// Whether weights of bad samples are negative.
    pub(in crate::methods) active: bool,
    /// What follows when a run has converged.
    pub(in crate::methods) restarts: Restarts,
    /// With [`Restarts::Stall`], trials without progress after which a run ends.
    pub(in crate::methods) stall: u64,
}

/// The mean of the first run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::methods) enum First {
    /// The middle of the space.
    Center,
    /// A random point.
    Random,
    /// Between the best points known.
    Best,
}

/// What follows when a run has converged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::methods) enum Restarts {
    /// Runs of large and of small populations, as [`Run`] says.
    Bipop,
    /// Runs of twice the population each.
    Ipop,
    /// The same run goes on.
    None,
    /// A run also ends when it stalls, and the next begins between the best points known. There may be
    /// several runs, each in its own part of the space.
    Stall,
}

/// One run of the strategy, and what the next one depends on.
///
/// A run ends when its steps vanish, when its values no longer differ or no longer improve, or when
/// the covariance degenerates. The next begins at a random point. Its population is doubled (IPOP:
/// Auger and Hansen, CEC 2005), or, as long as these large runs have used more trials than the
/// small ones, it is between the default and half the largest, with a smaller first deviation and at
/// most half as many trials as the last large one (BIPOP: Hansen, GECCO workshop 2009).
#[derive(Clone, Debug)]
pub(in crate::methods) struct Run {
    pub(in crate::methods) strategy: Strategy,
    /// The first trial that is drawn from the present distribution.
    pub(in crate::methods) since: u64,
    /// The first trial of this run, which tells it from other runs.
    pub(in crate::methods) from: u64,
    /// Draws that a model has ranked, best first, and the scales of that model; without a model there
    /// are none.
    pub(in crate::methods) slate: Vec<Vec<f64>>,
    pub(in crate::methods) scales: Option<Scales>,
    /// Trials that must be told before the distribution is updated.
    pub(in crate::methods) quota: usize,
    /// Trials of this run that are told and wait for their generation to be complete.
    generation: Vec<u64>,
    /// The user's own trials that were told meanwhile, best first.
    guests: Vec<(Merit, u64)>,
    /// The merit of the best point behind the first mean, if that has any.
    start: Option<Merit>,
    /// The best trial of this run.
    best: Option<(Merit, u64)>,
    /// The best merits of the newest generations.
    trace: VecDeque<Merit>,
    /// Trials this run has learned from, and how many they were when the best was found.
    used: u64,
    progress: u64,
    small: bool,
    /// Large runs so far, and the population of the last one.
    large_runs: u64,
    large_population: u64,
    /// Trials of finished large and small runs, and of the last large one.
    used_large: u64,
    used_small: u64,
    last_large: u64,
}

impl Run {
    pub(super) fn first(plan: &Plan, start: Start, draws: &Draws, next: u64) -> Self {
        let strategy = Strategy::new(start.mean, start.sigma, plan.population, plan.active);
        let mut run = Self {
            strategy,
            since: next,
            from: next,
            slate: Vec::new(),
            scales: None,
            quota: plan.population,
            generation: Vec::new(),
            guests: Vec::new(),
            start: start.merit,
            best: None,
            trace: VecDeque::new(),
            used: 0,
            progress: 0,
            small: false,
            large_runs: 1,
            large_population: plan.population as u64,
            used_large: 0,
            used_small: 0,
            last_large: 0,
        };
        draws.stretch(&mut run.strategy);
        run
    }

    /// The best trial of this run.
    pub(super) fn best(&self) -> Option<u64> {
        self.best.map(|(_, number)| number)
    }

    /// What runs are compared by: the best that was found, or as long as nothing was, the best point
    /// behind the first mean.
    pub(super) fn merit(&self) -> Merit {
        self.best.map(|(merit, _)| merit).or(self.start).unwrap_or(Merit::Withdrawn)
    }

    /// Every trial it refers to.
    pub(super) fn trials(&self) -> impl Iterator<Item = u64> {
        let ranked = self.guests.iter().chain(&self.best).map(|&(_, number)| number);
        ranked.chain(self.generation.iter().copied())
    }

    /// Whether a trial of the user's should be the first mean: as long as nothing was learned, the
    /// best known point is.
    pub(super) fn is_better_start(&self, merit: Merit) -> bool {
        let first = self.large_runs == 1 && self.strategy.generation == 0;
        let measured = matches!(merit, Merit::Feasible(_) | Merit::Violating(_));
        first && measured && self.start.is_none_or(|start| merit < start)
    }

    /// Moves the first mean.
    pub(super) fn start_from(&mut self, start: Start, draws: &Draws, next: u64) {
        (self.strategy.mean, self.strategy.sigma) = (start.mean, start.sigma);
        draws.stretch(&mut self.strategy);
        self.since = next;
        self.start = start.merit;
    }

    /// Lets a trial of the user's take part in the next generation.
    pub(super) fn invite(&mut self, merit: Merit, number: u64) {
        let seats = self.strategy.population().div_ceil(5);
        let at = self.guests.partition_point(|&guest| guest <= (merit, number));
        self.guests.insert(at, (merit, number));
        self.guests.truncate(seats);
    }

    /// Takes a told trial; returns how many wait for their generation to be complete.
    pub(super) fn collect(&mut self, number: u64) -> usize {
        self.generation.push(number);
        self.generation.len()
    }

    /// The trials of the complete generation and its guests, with merits to be filled in.
    pub(super) fn take_generation(&mut self) -> Vec<(Merit, u64)> {
        self.used += self.generation.len() as u64;
        let own = std::mem::take(&mut self.generation).into_iter().map(|number| (Merit::Withdrawn, number));
        own.chain(std::mem::take(&mut self.guests)).collect()
    }

    /// Notes the best of a generation; true if the run has converged or stalled.
    pub(super) fn record(&mut self, plan: &Plan, best: (Merit, u64), next: u64) -> bool {
        self.since = next;
        if self.best.is_none_or(|old| best.0 < old.0) {
            self.best = Some(best);
            self.progress = self.used;
        }
        let strategy = &self.strategy;
        let per_dim = 30 * strategy.mean.len() / strategy.population();
        let (flat, long) = (10 + per_dim, 120 + per_dim);
        self.trace.push_back(best.0);
        if self.trace.len() > long {
            self.trace.pop_front();
        }
        let over_budget = self.small && self.used > self.last_large / 2;
        let stalled = plan.restarts == Restarts::Stall && self.used - self.progress > plan.stall;
        over_budget
            || stalled
            || strategy.has_vanished()
            || strategy.is_degenerate()
            || (self.trace.len() >= flat && is_flat(self.trace.range(self.trace.len() - flat..)))
            || (self.trace.len() == long
                && strategy.generation.is_multiple_of(10)
                && is_stagnant(&self.trace))
    }

    /// Begins the next run. `u` and `v` are uniform draws that shape a small run.
    pub(super) fn restart(
        &mut self,
        plan: &Plan,
        mean: Option<Vec<f64>>,
        u: f64,
        v: f64,
        draws: &Draws,
        next: u64,
    ) {
        if self.small {
            self.used_small += self.used;
        } else {
            self.used_large += self.used;
            self.last_large = self.used;
        }
        let default = plan.population as f64;
        let small =
            plan.restarts == Restarts::Bipop && self.used_small < self.used_large && self.large_runs > 1;
        let (population, sigma) = if small {
            let ratio = 0.5 * self.large_population as f64 / default;
            (default * ratio.powf(u * u), plan.sigma * 10_f64.powf(-2.0 * v))
        } else {
            self.large_runs += 1;
            // Beyond this a generation is longer than any budget.
            self.large_population = (2 * self.large_population).min(1 << 20);
            (self.large_population as f64, plan.sigma)
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small positive number"
        )]
        let population = population as usize;
        let mean = mean.unwrap_or_else(|| self.strategy.mean.clone());
        let start = Start { mean, sigma, merit: None };
        let fresh = Run::first(&Plan { population, ..plan.clone() }, start, draws, next);
        *self = Self {
            small,
            large_runs: self.large_runs,
            large_population: self.large_population,
            used_large: self.used_large,
            used_small: self.used_small,
            last_large: self.last_large,
            ..fresh
        };
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.u64(self.strategy.population() as u64);
        self.strategy.write(out);
        for word in [self.since, self.from, self.used, self.progress, u64::from(self.small), self.large_runs]
        {
            out.u64(word);
        }
        for word in [self.large_population, self.used_large, self.used_small, self.last_large] {
            out.u64(word);
        }
        out.u64(self.slate.len() as u64);
        self.slate.iter().for_each(|x| out.floats(x));
        out.u64(u64::from(self.scales.is_some()));
        self.scales.iter().for_each(|scales| {
            out.floats(&[scales.length, scales.nugget, scales.trend, scales.warp]);
        });
        out.u64(self.quota as u64);
        out.numbers(&self.generation);
        out.u64(self.guests.len() as u64);
        self.guests.iter().for_each(|&guest| out.ranking(guest));
        out.u64(u64::from(self.start.is_some()));
        self.start.iter().for_each(|&merit| out.merit(merit));
        out.u64(u64::from(self.best.is_some()));
        self.best.iter().for_each(|&best| out.ranking(best));
        out.u64(self.trace.len() as u64);
        self.trace.iter().for_each(|&merit| out.merit(merit));
    }

    pub(super) fn read(plan: &Plan, dim: usize, draws: &Draws, from: &mut Reader<'_>) -> Result<Self, Error> {
        let population = usize::try_from(from.u64()?).map_err(|_| Error::Snapshot)?;
        if !(3..=1 << 20).contains(&population) {
            return Err(Error::Snapshot);
        }
        let strategy = Strategy::read(from, dim, population, plan.active)?;
        let mut run = Self {
            strategy,
            since: from.u64()?,
            from: from.u64()?,
            used: from.u64()?,
            progress: from.u64()?,
            small: from.u64()? == 1,
            large_runs: from.u64()?,
            large_population: from.u64()?,
            used_large: from.u64()?,
            used_small: from.u64()?,
            last_large: from.u64()?,
            slate: (0..from.count()?).map(|_| from.floats(dim)).collect::<Result<_, _>>()?,
            scales: (0..from.count()?.min(1))
                .map(|_| {
                    let [length, nugget] = [from.f64()?, from.f64()?];
                    Ok(Scales { length, nugget, trend: from.f64()?, warp: from.f64()? })
                })
                .next()
                .transpose()?,
            quota: usize::try_from(from.u64()?).map_err(|_| Error::Snapshot)?,
            generation: from.numbers()?,
            guests: (0..from.count()?).map(|_| from.ranking()).collect::<Result<_, _>>()?,
            start: (0..from.count()?.min(1)).map(|_| from.merit()).next().transpose()?,
            best: (0..from.count()?.min(1)).map(|_| from.ranking()).next().transpose()?,
            trace: (0..from.count()?).map(|_| from.merit()).collect::<Result<_, _>>()?,
        };
        if run.progress > run.used || !(1..=population).contains(&run.quota) {
            return Err(Error::Snapshot);
        }
        draws.stretch(&mut run.strategy);
        Ok(run)
    }
}

/// Whether merits do not differ by more than rounding.
fn is_flat<'a>(trace: impl Iterator<Item = &'a Merit> + Clone) -> bool {
    let (Some(&low), Some(&high)) = (trace.clone().min(), trace.max()) else { return false };
    match (low, high) {
        (Merit::Feasible(a), Merit::Feasible(b)) | (Merit::Violating(a), Merit::Violating(b)) => {
            b - a <= 1e-12 * a.abs().max(b.abs())
        }
        _ => low == high,
    }
}

/// Whether the median of the newest generations is no better than that of the oldest.
fn is_stagnant(trace: &VecDeque<Merit>) -> bool {
    let share = trace.len() * 3 / 10;
    let median = |range: std::ops::Range<usize>| {
        let mut merits: Vec<Merit> = trace.range(range).copied().collect();
        merits.sort_unstable();
        merits[merits.len() / 2]
    };
    median(trace.len() - share..trace.len()) >= median(0..share)
}

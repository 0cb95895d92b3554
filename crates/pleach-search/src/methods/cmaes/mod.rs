//! CMA-ES with restarts, for any space.

mod draws;
mod margin;
mod run;
mod start;
mod strategy;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use super::bytes::{Reader, Writer};
use super::design::latin_hypercube;
use super::gp_cmaes::Screen;
use super::options::Given;
use super::{Entry, Optimizer, Options, Proposal};
use crate::{Error, History, Key, Merit, Origin, Outcome, Region};
pub(super) use draws::{Draws, is_bisected};
pub(super) use run::{First, Plan, Restarts, Run};
use start::{Start, between_best, center, random};
pub(super) use strategy::{Sample, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "cmaes",
    summary: "learns a normal distribution from ranks; for 2 to 200 mostly numeric parameters",
    options: &[
        ("popsize", "4 + 3 ln(n)", "trials a generation in the first run"),
        ("sigma0", "0.25", "first standard deviation, as a share of every range"),
        ("init", "0", "points of a Latin hypercube before the first run"),
        (
            "start",
            "center",
            "first mean: center, random, or best (between the ten best known points, with half their spread); a trial told before moves the first two",
        ),
        (
            "restarts",
            "bipop",
            "what follows when a run has converged: bipop, ipop, none, or stall (between the best points, also without progress)",
        ),
        ("stall", "40", "with restarts = stall: trials without progress that end a run"),
        ("deepest-of", "8", "in a region of a partition: draws inside, of which the deepest is tried"),
        ("active", "true", "whether bad samples shrink the distribution"),
    ],
    learns: true,
    deliberates: false,
    build,
};

fn build(history: &History, options: &Options) -> Result<Box<dyn Optimizer>, Error> {
    let given = Given { method: ENTRY.name, options };
    let dim = history.space().unit_len().max(1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    let default_population = 4 + (3.0 * (dim as f64).ln()) as usize;
    let plan = Plan {
        population: given.count("popsize", 3..=100_000)?.unwrap_or(default_population),
        sigma: given.number("sigma0", 1e-6..=1.0)?.unwrap_or(0.25),
        init: given.count("init", 0..=100_000)?.unwrap_or(0) as u64,
        first: [First::Center, First::Random, First::Best]
            [given.word("start", &["center", "random", "best"])?],
        restarts: [Restarts::Bipop, Restarts::Ipop, Restarts::None, Restarts::Stall]
            [given.word("restarts", &["bipop", "ipop", "none", "stall"])?],
        stall: given.count("stall", 1..=1_000_000)?.unwrap_or(40) as u64,
        deepest_of: given.count("deepest-of", 1..=30)?.unwrap_or(8),
        active: given.flag("active", true)?,
    };
    assemble(ENTRY.name, history, plan, None)
}

/// The method of that name, with or without a model that chooses among draws.
pub(super) fn assemble(
    name: &'static str,
    history: &History,
    plan: Plan,
    screen: Option<Screen>,
) -> Result<Box<dyn Optimizer>, Error> {
    let dim = history.space().unit_len();
    if dim == 0 || dim > MAX_DIM {
        let message = format!("it needs 1 to {MAX_DIM} coordinates, not {dim}; use aging-evolution");
        return Err(Error::Unsuitable { method: name.into(), message });
    }
    let draws = Draws::new(history.space());
    let mut method =
        Cmaes { name, plan, draws, screen, design: 0, runs: Vec::new(), owners: BTreeMap::new() };
    method.begin(history, history.next_number());
    Ok(Box::new(method))
}

/// More coordinates than this make the covariance matrix too slow.
const MAX_DIM: usize = 1000;
/// More runs than this are not kept.
const RUNS: usize = 16;
/// The largest standard deviation of a coordinate.
const WIDEST: f64 = 0.2;

/// The covariance matrix adaptation evolution strategy in the unit cube of any space.
///
/// **Any number of trials may be pending.** A distribution moves on whenever a population of trials
/// of its run has been told. Those drawn from an older distribution, and the best of the user's own,
/// take part with their step clipped (Hansen, arXiv:1110.4181). Trials of a run that has ended are
/// left out.
///
/// **Box.** Coordinates outside `[0, 1]` are moved to the end of the range, and the moved point is
/// what the distribution learns, so optima at an end are reached exactly. The deviation of every
/// coordinate is capped at [`WIDEST`], above which most draws would be moved.
/// **Known constraints.** Draws are repeated; only if none is inside, the segment to the mean, or to
/// the best point inside, is bisected.
/// **Regions** likewise; of several draws inside, the deepest is tried, so that the boundaries around a
/// region also rank what is inside.
///
/// **Discrete parameters** are cells of their coordinate, categorical options in the order they
/// are declared; a margin keeps neighbouring cells within reach. Permutations are random keys.
/// **Repeated points** are avoided by repeating the draw with ever larger steps.
///
/// **Restarts.** See [`Run`].
///
/// **Several runs.** With restarts = stall, a region is searched by the best run whose mean lies in
/// it, or one of the draws that a model has ranked, and if there is none, by a new run between the ten
/// best points inside. A run is not bound to the region it began in, so it lives on when the regions are
/// drawn anew.
struct Cmaes {
    name: &'static str,
    plan: Plan,
    draws: Draws,
    /// What chooses among draws, if anything does.
    screen: Option<Screen>,
    /// The first trial of the present space; the initial design follows it.
    design: u64,
    runs: Vec<Run>,
    /// Pending trials, and the first trial of the run that each belongs to.
    owners: BTreeMap<u64, u64>,
}

impl Optimizer for Cmaes {
    fn ask(&self, history: &History, region: &Region, n: usize) -> Result<Vec<Proposal>, Error> {
        let seed = history.seed().child(self.name, 0);
        let next = history.next_number();
        let run = self.run_for(history, region, next);
        let mut batch = HashSet::new();
        (next..next + n as u64)
            .map(|number| {
                let mut rng = seed.rng(number);
                let proposal = if number - self.design < self.plan.init {
                    latin_hypercube(history, region, self.plan.init, number - self.design, self.design)?
                        .into()
                } else if let Some(run) = &run {
                    if let Some(proposal) = self.screened(history, region, run, &batch) {
                        proposal
                    } else {
                        self.draws.propose(history, region, run, self.plan.deepest_of, &batch, &mut rng)?
                    }
                } else {
                    region.sample(history, &mut rng)?.into()
                };
                if n > 1 {
                    batch.insert(history.space().key(&proposal.point));
                }
                Ok(proposal)
            })
            .collect()
    }

    fn asked(&mut self, history: &History, region: &Region, number: u64) {
        let is_own = matches!(history.trial(number).origin, Origin::Method { .. } | Origin::Fresh);
        if !is_own || number - self.design < self.plan.init {
            return;
        }
        let from = match self.run_for(history, region, number) {
            None => return,
            Some(Cow::Borrowed(run)) => run.from,
            Some(Cow::Owned(run)) => self.add(run),
        };
        self.owners.insert(number, from);
    }

    fn told(&mut self, history: &History, number: u64) {
        let trial = history.trial(number);
        let merit = history.merit(number).expect("it was told just now");
        match trial.origin {
            Origin::Enqueued | Origin::Imported => {
                let Some(run) = self.runs.iter_mut().min_by_key(|run| (run.merit(), run.from)) else {
                    return;
                };
                if trial.outcome == Some(Outcome::Withdrawn) {
                    return;
                }
                if self.plan.first != First::Best && run.is_better_start(merit) {
                    let mean = history.space().encode(&trial.point);
                    let start = Start { mean, sigma: self.plan.sigma, merit: Some(merit) };
                    run.start_from(start, &self.draws, history.next_number());
                } else {
                    run.invite(merit, number);
                }
            }
            Origin::Method { .. } | Origin::Fresh | Origin::Replicate { .. } => {
                let first = history.replicates(number)[0];
                if !history.is_complete(first) {
                    return;
                }
                let Some(from) = self.owners.remove(&first) else { return };
                let Some(index) = self.runs.iter().position(|run| run.from == from) else { return };
                if merit == Merit::Withdrawn {
                    return;
                }
                let run = &mut self.runs[index];
                if run.collect(first) >= run.quota {
                    self.learn(history, index);
                }
            }
        }
    }

    fn space_changed(&mut self, history: &History) -> Result<(), Error> {
        let space = history.space();
        self.draws = Draws::new(space);
        self.runs.clear();
        self.owners.clear();
        self.design = history.next_number();
        match history.best() {
            Some(best) if self.plan.first != First::Best => {
                let mean = space.encode(&history.trial(best.number).point);
                let start = Start { mean, sigma: self.plan.sigma, merit: None };
                let run = self.first(history, start, history.next_number());
                self.add(run);
            }
            _ => self.begin(history, history.next_number()),
        }
        Ok(())
    }

    fn snapshot(&self) -> Vec<u8> {
        let mut out = Writer::new(3);
        out.u64(self.design);
        out.u64(self.runs.len() as u64);
        self.runs.iter().for_each(|run| run.write(&mut out));
        out.u64(self.owners.len() as u64);
        self.owners.iter().for_each(|(&number, &from)| {
            out.u64(number);
            out.u64(from);
        });
        out.finish()
    }

    fn restore(&mut self, history: &History, snapshot: &[u8]) -> Result<(), Error> {
        let mut from = Reader::new(3, snapshot)?;
        self.design = from.u64()?;
        let dim = history.space().unit_len();
        self.runs = (0..from.count()?)
            .map(|_| Run::read(&self.plan, dim, &self.draws, &mut from))
            .collect::<Result<_, _>>()?;
        self.owners =
            (0..from.count()?).map(|_| Ok((from.u64()?, from.u64()?))).collect::<Result<_, Error>>()?;
        from.finish()?;
        let trials = self.runs.iter().flat_map(Run::trials).chain(self.owners.keys().copied());
        let is_beyond = trials.max().is_some_and(|number| number >= history.next_number());
        if is_beyond || self.design > history.next_number() {
            return Err(Error::Snapshot);
        }
        Ok(())
    }
}

impl Cmaes {
    /// The run that searches a region for trial `number`; a new one is not part of the state yet. None
    /// if too little is known to begin one.
    fn run_for(&self, history: &History, region: &Region, number: u64) -> Option<Cow<'_, Run>> {
        let own = if self.plan.restarts == Restarts::Stall {
            let mut runs: Vec<&Run> = self.runs.iter().collect();
            runs.sort_unstable_by_key(|run| (run.merit(), run.from));
            let is_inside = |x: &Vec<f64>| region.contains(&history.space().decode(x));
            runs.into_iter().find(|run| {
                region.is_whole() || is_inside(&run.strategy.mean) || run.slate.iter().any(is_inside)
            })
        } else {
            self.runs.first()
        };
        own.map(Cow::Borrowed).or_else(|| {
            let start = between_best(history, region, self.plan.sigma, number)?;
            Some(Cow::Owned(self.first(history, start, number)))
        })
    }

    /// A run, ready to propose.
    fn first(&self, history: &History, start: Start, number: u64) -> Run {
        let mut run = Run::first(&self.plan, start, &self.draws, number);
        if let Some(screen) = &self.screen {
            screen.fill(history, &self.draws, &mut run);
        }
        run
    }

    /// The most promising draw that the run has left, inside and new.
    fn screened(
        &self,
        history: &History,
        region: &Region,
        run: &Run,
        batch: &HashSet<Key>,
    ) -> Option<Proposal> {
        let space = history.space();
        run.slate.iter().find_map(|x| {
            let point = space.decode(x);
            let is_new = history.is_new(&point) && !batch.contains(&space.key(&point));
            (is_new && region.admits(history, &point)).then(|| self.draws.proposal(point, x, 0))
        })
    }

    /// Keeps a run, and of too many drops the worst other; returns its first trial.
    fn add(&mut self, run: Run) -> u64 {
        if self.runs.len() == RUNS {
            let worst = (0..RUNS).max_by_key(|&i| (self.runs[i].merit(), self.runs[i].from));
            self.runs.remove(worst.expect("there are some"));
        }
        let from = run.from;
        self.runs.push(run);
        from
    }

    /// The first run, if it does not wait for points to begin between.
    fn begin(&mut self, history: &History, number: u64) {
        let mean = match self.plan.first {
            First::Best => return,
            First::Center => center(history),
            First::Random => None,
        };
        let mut rng = history.seed().child("cmaes-start", 0).rng(number);
        let mean = mean.unwrap_or_else(|| random(history, &mut rng));
        let start = Start { mean, sigma: self.plan.sigma, merit: None };
        let run = self.first(history, start, number);
        self.add(run);
    }

    /// A generation is complete: updates the distribution of the run, which restarts or ends if it has
    /// converged.
    fn learn(&mut self, history: &History, index: usize) {
        let run = &mut self.runs[index];
        let population = run.strategy.population();
        let mut ranked: Vec<(Merit, u64)> = run.take_generation();
        for ranking in &mut ranked {
            ranking.0 = history.merit(ranking.1).unwrap_or(Merit::Withdrawn);
        }
        ranked.sort_unstable();
        ranked.truncate(population);
        let samples: Vec<Sample> = if self.screen.is_some() {
            Screen::rank(history, &self.draws, run, &ranked)
        } else {
            let sample = |&(_, number): &(Merit, u64)| self.draws.sample(history, number, run.since);
            ranked.iter().map(sample).collect()
        };
        run.strategy.update(&samples);
        run.strategy.confine(WIDEST);
        self.draws.stretch(&mut run.strategy);
        let next = history.next_number();
        let has_ended = run.record(&self.plan, ranked[0], next);
        if let (Some(screen), false) = (&self.screen, has_ended) {
            screen.fill(history, &self.draws, run);
        }
        match self.plan.restarts {
            Restarts::Stall if has_ended => {
                self.runs.remove(index);
            }
            Restarts::Bipop | Restarts::Ipop if has_ended => {
                let mut rng = history.seed().child("cmaes-restart", 0).rng(next);
                let mean = history.sample(&mut rng).ok().map(|point| history.space().encode(&point));
                run.restart(&self.plan, mean, rng.unit(), rng.unit(), &self.draws, next);
            }
            _ => {}
        }
    }
}

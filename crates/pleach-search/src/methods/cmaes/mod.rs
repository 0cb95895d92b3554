//! CMA-ES with restarts, for any space.

mod margin;
mod run;
mod strategy;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use super::options::Given;
use super::{Entry, Optimizer, Options, Proposal};
use crate::{Domain, Error, History, Key, Merit, Origin, Outcome, Point, Region, Rng, Space};
use margin::Margin;
use run::{Plan, Restarts, Run};
use strategy::Sample;

pub(super) const ENTRY: Entry = Entry {
    name: "cmaes",
    summary: "learns a normal distribution from ranks; for 2 to 200 mostly numeric parameters",
    options: &[
        ("popsize", "4 + 3 ln(n)", "trials a generation in the first run"),
        ("sigma0", "0.25", "first standard deviation, as a share of every range"),
        ("start", "center", "first mean: center or random; a trial told before moves it"),
        ("restarts", "bipop", "what follows when a run has converged: bipop, ipop or none"),
        ("active", "true", "whether bad samples shrink the distribution"),
    ],
    learns: true,
    deliberates: false,
    build,
};

fn build(history: &History, options: &Options) -> Result<Box<dyn Optimizer>, Error> {
    let given = Given { method: ENTRY.name, options };
    let space = history.space();
    let dim = space.unit_len();
    if dim == 0 || dim > MAX_DIM {
        let message = format!("it needs 1 to {MAX_DIM} coordinates, not {dim}; use aging-evolution");
        return Err(Error::Unsuitable { method: ENTRY.name.into(), message });
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    let default_population = 4 + (3.0 * (dim as f64).ln()) as usize;
    let plan = Plan {
        population: given.count("popsize", 3..=100_000)?.unwrap_or(default_population),
        sigma: given.number("sigma0", 1e-6..=1.0)?.unwrap_or(0.25),
        active: given.flag("active", true)?,
        restarts: [Restarts::Bipop, Restarts::Ipop, Restarts::None]
            [given.word("restarts", &["bipop", "ipop", "none"])?],
    };
    let random = given.word("start", &["center", "random"])? == 1;
    let margin = Margin::new(space);
    let mean = start(history, random);
    let run = Run::first(&plan, mean, &margin, history.next_number());
    Ok(Box::new(Cmaes { plan, keep: kept_coordinates(space), margin, run }))
}

/// More coordinates than this make the covariance matrix too slow.
const MAX_DIM: usize = 1000;

/// The first mean; the middle of the space unless it breaks a known constraint.
fn start(history: &History, random: bool) -> Vec<f64> {
    let space = history.space();
    let center = vec![0.5; space.unit_len()];
    if !random && space.admits(&space.decode(&center)) {
        return center;
    }
    let mut rng = history.seed().child("cmaes-start", 0).rng(history.next_number());
    // If no point inside is known yet, the first ask says so.
    history.sample(&mut rng).map_or(center, |point| space.encode(&point))
}

/// The covariance matrix adaptation evolution strategy in the unit cube of any space.
///
/// **Any number of trials may be pending.** The distribution moves on whenever a population of
/// trials of the current run has been told. Those drawn from an older distribution, and the best of
/// the user's own, take part with their step clipped (Hansen, arXiv:1110.4181).
///
/// **Box.** Coordinates outside `[0, 1]` are moved to the end of the range, and the moved point is
/// what the distribution learns, so optima at an end are reached exactly. The deviation of every
/// coordinate is capped at [`WIDEST`], above which most draws would be moved.
/// **Known constraints.** Draws are repeated; then the segment to the mean is bisected.
///
/// **Discrete parameters** are cells of their coordinate, categorical options in the order they
/// are declared; a [`Margin`] keeps neighbouring cells within reach. Permutations are random keys.
/// **Repeated points** are avoided by repeating the draw with ever larger steps.
///
/// **Restarts.** See [`Run`].
struct Cmaes {
    plan: Plan,
    /// The coordinates whose drawn value is stored, because the point does not tell it.
    keep: Vec<usize>,
    margin: Margin,
    run: Run,
}

/// The largest standard deviation of a coordinate.
const WIDEST: f64 = 0.2;
/// Draws for one trial.
const DRAWS: usize = 24;
/// Coordinates with more cells than this are close enough to continuous that the cell says enough.
const MANY_CELLS: u64 = 1 << 16;
/// A flag in the detail of a trial: its step was widened or shortened.
const CLIPPED: u8 = 1;

/// A coordinate of few cells, or the key of an element of a permutation.
fn kept_coordinates(space: &Space) -> Vec<usize> {
    let mut keep = Vec::new();
    let mut coordinate = 0;
    for parameter in space.parameters() {
        let length = if let Domain::Permutation { n } = parameter.domain { n as usize } else { 1 };
        let is_permutation = matches!(parameter.domain, Domain::Permutation { .. });
        if is_permutation || space.unit_cells(coordinate).is_some_and(|cells| cells <= MANY_CELLS) {
            keep.extend(coordinate..coordinate + length);
        }
        coordinate += length;
    }
    keep
}

impl Optimizer for Cmaes {
    fn ask(&self, history: &History, region: &Region, n: usize) -> Result<Vec<Proposal>, Error> {
        let seed = history.seed().child(ENTRY.name, 0);
        let mut batch = HashSet::new();
        (0..n as u64)
            .map(|i| {
                let mut rng = seed.rng(history.next_number() + i);
                let proposal = self.propose(history, region, &batch, &mut rng)?;
                if n > 1 {
                    batch.insert(history.space().key(&proposal.point));
                }
                Ok(proposal)
            })
            .collect()
    }

    fn told(&mut self, history: &History, number: u64) {
        let trial = history.trial(number);
        let merit = history.merit(number).expect("it was told just now");
        match trial.origin {
            Origin::Enqueued | Origin::Imported => {
                if trial.outcome == Some(Outcome::Withdrawn) {
                    return;
                }
                if self.run.is_better_start(merit) {
                    let mean = history.space().encode(&trial.point);
                    self.run.start_from(mean, self.plan.sigma, merit, &self.margin, history.next_number());
                } else {
                    self.run.invite(merit, number);
                }
            }
            Origin::Method { .. } | Origin::Fresh | Origin::Replicate { .. } => {
                let first = history.replicates(number)[0];
                let is_known = history.is_complete(first) && merit != Merit::Withdrawn;
                if is_known && self.run.collect(first) {
                    self.learn(history);
                }
            }
        }
    }

    fn space_changed(&mut self, history: &History) -> Result<(), Error> {
        let space = history.space();
        self.keep = kept_coordinates(space);
        self.margin = Margin::new(space);
        let best = history.best().map(|best| space.encode(&history.trial(best.number).point));
        let mean = best.unwrap_or_else(|| start(history, false));
        self.run = Run::first(&self.plan, mean, &self.margin, history.next_number());
        Ok(())
    }

    fn snapshot(&self) -> Vec<u8> {
        self.run.snapshot()
    }

    fn restore(&mut self, history: &History, snapshot: &[u8]) -> Result<(), Error> {
        let run = Run::restore(&self.plan, history.space().unit_len(), &self.margin, snapshot)?;
        if run.trials().any(|number| number >= history.next_number()) {
            return Err(Error::Snapshot);
        }
        self.run = run;
        Ok(())
    }
}

impl Cmaes {
    /// A draw that is inside and new, if repetition finds one.
    fn propose(
        &self,
        history: &History,
        region: &Region,
        batch: &HashSet<Key>,
        rng: &mut Rng,
    ) -> Result<Proposal, Error> {
        let space = history.space();
        let mut widen = 1.0;
        let mut drawn = Vec::new();
        let mut repeated = None;
        for _ in 0..DRAWS {
            drawn = self.run.strategy.draw(widen, rng);
            self.round(&mut drawn);
            let point = space.decode(&drawn);
            if !region.admits(history, &point) {
                continue;
            }
            if history.is_new(&point) && !batch.contains(&space.key(&point)) {
                return Ok(self.proposal(point, &drawn, widen > 1.0));
            }
            widen *= 1.2;
            repeated = Some(point);
        }
        if let Some(point) = repeated {
            // The driver replaces it by a point that is new.
            return Ok(self.proposal(point, &drawn, true));
        }
        let mean = space.decode(&self.run.strategy.mean);
        let anchor = if region.admits(history, &mean) {
            mean
        } else {
            let best = self.run.best().map(|number| &history.trial(number).point);
            match best.filter(|point| region.admits(history, point)) {
                Some(point) => point.clone(),
                None => return Ok(self.inner(region.sample(history, rng)?, space)),
            }
        };
        Ok(self.inner(region.pull_inside(history, &drawn, &anchor), space))
    }

    /// Values as they are kept: inside the cube, and in single precision where they are stored.
    fn round(&self, x: &mut [f64]) {
        for v in x.iter_mut() {
            *v = v.clamp(0.0, 1.0);
        }
        #[expect(clippy::cast_possible_truncation, reason = "single precision is meant")]
        self.keep.iter().for_each(|&i| x[i] = f64::from(x[i] as f32));
    }

    /// A point that was not drawn as it is.
    fn inner(&self, point: Point, space: &Space) -> Proposal {
        let mut x = space.encode(&point);
        self.round(&mut x);
        self.proposal(point, &x, true)
    }

    fn proposal(&self, point: Point, x: &[f64], clipped: bool) -> Proposal {
        let mut detail = Vec::new();
        if clipped || !self.keep.is_empty() {
            detail.push(if clipped { CLIPPED } else { 0 });
            #[expect(clippy::cast_possible_truncation, reason = "it was rounded to single precision before")]
            self.keep.iter().for_each(|&i| detail.extend_from_slice(&(x[i] as f32).to_le_bytes()));
        }
        Proposal { point, detail }
    }

    /// What the distribution learns of a trial.
    fn sample(&self, history: &History, number: u64) -> Sample {
        let trial = history.trial(number);
        let mut x = history.space().encode(&trial.point);
        let Origin::Method { detail } = &trial.origin else { return Sample { x, own: false } };
        let mut own = number >= self.run.since;
        if let Some((&flags, raw)) = detail.split_first() {
            own &= flags & CLIPPED == 0;
            let (words, _) = raw.as_chunks::<4>();
            for (&i, word) in self.keep.iter().zip(words) {
                let value = f64::from(f32::from_le_bytes(*word));
                // Bytes of an edited study may be anything.
                x[i] = if value.is_finite() { value.clamp(0.0, 1.0) } else { x[i] };
            }
        }
        Sample { x, own }
    }

    /// A generation is complete: updates the distribution, and restarts if it has converged.
    fn learn(&mut self, history: &History) {
        let population = self.run.strategy.population();
        let mut ranked: Vec<(Merit, u64)> = self.run.take_generation();
        for ranking in &mut ranked {
            ranking.0 = history.merit(ranking.1).unwrap_or(Merit::Withdrawn);
        }
        ranked.sort_unstable();
        ranked.truncate(population);
        let samples: Vec<Sample> = ranked.iter().map(|&(_, number)| self.sample(history, number)).collect();
        self.run.strategy.update(&samples);
        self.run.strategy.confine(WIDEST);
        self.run.strategy.stretch = self.margin.stretch(&self.run.strategy);
        let next = history.next_number();
        if self.run.record(ranked[0], next) && self.plan.restarts != Restarts::None {
            let mut rng = history.seed().child("cmaes-restart", 0).rng(next);
            let mean = history.sample(&mut rng).ok().map(|point| history.space().encode(&point));
            self.run.restart(&self.plan, mean, rng.unit(), rng.unit(), &self.margin, next);
        }
    }
}

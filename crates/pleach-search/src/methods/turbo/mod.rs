//! Trust-region Bayesian optimisation.

#[cfg(test)]
mod tests;
mod trust;

use std::collections::HashSet;
use std::sync::Arc;

use super::bytes::{Reader, Writer};
use super::design::latin_hypercube;
use super::options::Given;
use super::{Entry, Optimizer, Options, Proposal};
use crate::gp::targets::{Losses, losses, standardised};
use crate::gp::{Input, Kernel, Path, Posterior, minimise};
use crate::layout::{Block, Layout};
use crate::{Error, History, Merit, Origin, Point, Region, Rng};
use trust::Trust;

pub(super) const ENTRY: Entry = Entry {
    name: "turbo",
    summary: "Gaussian processes in boxes that follow success and failure; for up to some thousand trials",
    options: &[
        ("regions", "1", "boxes at a time, which compete for the trials"),
        ("warm-up", "2 n, from 5 to 100", "trials of the design at the start of each box"),
    ],
    learns: true,
    deliberates: true,
    build,
};

fn build(history: &History, options: &Options) -> Result<Box<dyn Optimizer>, Error> {
    let given = Given { method: ENTRY.name, options };
    let warm_up = given.count("warm-up", 2..=100_000)?;
    let regions = given.count("regions", 1..=1000)?.unwrap_or(1);
    Ok(Box::new(Turbo::new(history, Plan { warm_up, regions })))
}

/// The options.
#[derive(Clone, Copy, Debug)]
struct Plan {
    warm_up: Option<usize>,
    regions: usize,
}

/// Trust-region Bayesian optimisation: in a box around the best point, the candidate is proposed that
/// is best in a random draw of the objective from a local Gaussian process.
///
/// The sides of the box are in proportion to the length scales of the process. Three successes in a
/// row double its length `L`, `max(4, n)` failures halve it; when it is below `2⁻⁷`, a new box begins
/// with a new design. Of several boxes, the one whose draw is lowest proposes.
///
/// **Any number of trials may be pending**; each is a draw of its own. Trials told that the box did not
/// propose are learned from, but count neither as success nor as failure.
/// **Limits and failures.** The process learns losses in the order of [`Merit`], by a logarithm that is
/// learned with it (see [`Losses::warped`]).
/// **Regions.** The box is around the best point in the region; candidates outside are passed over.
///
/// # Source
/// Eriksson, Pearce, Gardner, Turner, Poloczek, *Scalable Global Optimization via Local Bayesian
/// Optimization*, `NeurIPS` 2019, arXiv:1910.01739, §3.
/// Deviations: losses are warped; success and failure are counted by trials, not by batches; draws are
/// [`Path`]s, read at candidates drawn uniformly in the box, and followed downhill from the best of them,
/// since candidates alone lie too far apart to converge; the model has the 400 points that are nearest to
/// the best; length scales have a prior, and are fitted less and less often; options are changed at random
/// with probability `L`, and coordinates of cells can always move to the next cell.
struct Turbo {
    plan: Plan,
    warm_up: u64,
    layout: Arc<Layout>,
    kernel: Arc<Kernel>,
    trusts: Vec<Trust>,
}

/// Candidates for each coordinate, and the largest number.
const CANDIDATES: [usize; 2] = [100, 5000];
/// Candidates that are compared however much work that is.
const FEW_CANDIDATES: usize = 300;
/// Candidates of kernels from which only joint draws are known.
const JOINT_CANDIDATES: usize = 100;
/// Work that is spent on the candidates of one trial: multiplications.
const WORK: usize = 40_000_000;
/// By how much the prior mean of the logarithms of length scales is less than for a process of the whole space.
const LOCAL: f64 = 1.0;
/// Evaluations of a draw on its way downhill from the best candidate.
const STEPS: usize = 30;
/// Coordinates that differ between a candidate and the centre, on average.
const MOVED: f64 = 20.0;

/// What a trial was proposed for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Purpose {
    trust: usize,
    run: u32,
    is_design: bool,
}

impl Purpose {
    fn detail(self) -> Vec<u8> {
        let trust = u16::try_from(self.trust).expect("there are at most 1000");
        [&[u8::from(self.is_design)][..], &trust.to_le_bytes(), &self.run.to_le_bytes()].concat()
    }

    /// `None` for bytes that are not of this method.
    fn of(origin: &Origin) -> Option<Self> {
        let Origin::Method { detail } = origin else { return None };
        let (&[is_design, low, high], run) = detail.split_first_chunk()?;
        let run = u32::from_le_bytes(run.try_into().ok()?);
        Some(Self { trust: u16::from_le_bytes([low, high]).into(), run, is_design: is_design == 1 })
    }
}

impl Turbo {
    fn new(history: &History, plan: Plan) -> Self {
        let layout = Arc::new(Layout::new(history.space()));
        let kernel = Kernel::new(history.problem(), &layout);
        let numbers = kernel.number_coordinates().count();
        let shorter =
            |priors: &mut [(f64, f64)]| priors[..numbers].iter_mut().for_each(|prior| prior.0 -= LOCAL);
        let kernel = Arc::new(kernel.with_priors(shorter));
        let trust = |_| Trust::new(layout.clone(), kernel.clone(), 0);
        Self {
            plan,
            warm_up: plan.warm_up.unwrap_or((2 * layout.len()).clamp(5, 100)) as u64,
            trusts: (0..plan.regions).map(trust).collect(),
            layout,
            kernel,
        }
    }

    /// The trust region that a trial was proposed for, if it still is that, and whether it counts.
    fn owner(&self, history: &History, first: u64) -> Option<(usize, bool)> {
        match Purpose::of(&history.trial(first).origin) {
            Some(purpose) => {
                let trust = self.trusts.get(purpose.trust)?;
                (trust.run == purpose.run).then_some((purpose.trust, !purpose.is_design))
            }
            None => Some((usize::try_from(first).unwrap_or(0) % self.trusts.len(), false)),
        }
    }

    /// A point of the design of a trust region.
    fn designed(&self, history: &History, region: &Region, trust: usize, index: u64) -> Result<Point, Error> {
        let version = (u64::from(self.trusts[trust].run.wrapping_add(1)) << 16) + trust as u64;
        latin_hypercube(history, region, self.warm_up, index, version)
    }

    /// The point of a trust region that is best in a draw; none if no candidate is new and admitted.
    fn choose(
        &self,
        history: &History,
        region: &Region,
        posteriors: &[Option<Local>],
        taken: &HashSet<crate::Key>,
        rng: &mut Rng,
    ) -> Option<(Point, usize)> {
        let n = posteriors.iter().flatten().count();
        // Value, trust region and unit point of each candidate.
        let mut ranked: Vec<(f64, usize, Vec<f64>)> = Vec::new();
        for (index, local) in posteriors.iter().enumerate() {
            let Some(local) = local else { continue };
            let path = Path::draw(&local.posterior, rng);
            let points = local.posterior.model().len();
            let dim = self.layout.len();
            let most = (CANDIDATES[0] * dim).min(CANDIDATES[1]);
            let affordable = WORK / ((points + 256) * (dim + 20));
            let count = match &path {
                Some(_) => affordable.max(FEW_CANDIDATES).min(most),
                None => JOINT_CANDIDATES,
            };
            let centre = history.space().encode(&local.centre);
            let sides = self.sides(history, local, self.trusts[index].length, &centre);
            let mut candidates = self.candidates(index, &centre, &sides, count.div_ceil(n), rng);
            let inputs: Vec<Input> = candidates.iter().map(|u| self.input(history, u)).collect();
            let mut values: Vec<f64> = match &path {
                Some(path) => inputs.iter().map(|input| path.value(input)).collect(),
                None => local.posterior.sample(&inputs, rng),
            };
            if let Some(path) = &path {
                let best = (0..values.len()).min_by(|&a, &b| values[a].total_cmp(&values[b]))?;
                let (lowest, value) = self.descend(path, &sides, &candidates[best], &inputs[best]);
                candidates.push(lowest);
                values.push(value);
            }
            let losses = values.into_iter().map(|value| local.offset + local.scale * value);
            ranked.extend(losses.zip(candidates).map(|(loss, candidate)| (loss, index, candidate)));
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let space = history.space();
        let is_free = |point: &Point| {
            history.is_new(point) && !taken.contains(&space.key(point)) && region.admits(history, point)
        };
        let points = ranked.iter().map(|(_, index, unit_point)| (space.decode(unit_point), *index));
        points.into_iter().find(|(point, _)| is_free(point)).or_else(|| {
            let (_, index, unit_point) = ranked.first()?;
            let centre = &posteriors[*index].as_ref()?.centre;
            let point = region.pull_inside(history, unit_point, centre);
            is_free(&point).then_some((point, *index))
        })
    }

    /// Changes of the centre within the box.
    fn candidates(
        &self,
        index: usize,
        centre: &[f64],
        sides: &[(f64, f64)],
        n: usize,
        rng: &mut Rng,
    ) -> Vec<Vec<f64>> {
        let length = self.trusts[index].length;
        let share = (MOVED / centre.len() as f64).min(1.0);
        let draw = |rng: &mut Rng| {
            let mut candidate = centre.to_vec();
            let one = rng.index(centre.len().max(1));
            for block in self.layout.blocks() {
                let (at, len) = block.place();
                for at in at..at + len {
                    if at != one && rng.unit() >= share {
                        continue;
                    }
                    match *block {
                        Block::Option { count, .. } if at == one || rng.unit() < length => {
                            candidate[at] = (rng.below(count) as f64 + 0.5) / count as f64;
                        }
                        Block::Option { .. } => {}
                        Block::Number { .. } | Block::Permutation { .. } => {
                            let (low, high) = sides[at];
                            candidate[at] = low + (high - low) * rng.unit();
                        }
                    }
                }
            }
            candidate
        };
        (0..n).map(|_| draw(rng)).collect()
    }

    /// Where a draw leads downhill from a candidate, by its numbers and within the box, and its value there.
    fn descend(&self, path: &Path, sides: &[(f64, f64)], start: &[f64], input: &Input) -> (Vec<f64>, f64) {
        let (low, high): (Vec<f64>, Vec<f64>) = self.kernel.number_coordinates().map(|at| sides[at]).unzip();
        let mut moved = input.clone();
        let value = |numbers: &[f64], gradient: &mut [f64]| {
            moved.numbers.copy_from_slice(numbers);
            let (value, slope) = path.slope(&moved);
            gradient.copy_from_slice(&slope);
            value
        };
        let (numbers, value) = minimise(&input.numbers, &low, &high, STEPS, value);
        let mut lowest = start.to_vec();
        self.kernel.number_coordinates().zip(numbers).for_each(|(at, number)| lowest[at] = number);
        (lowest, value)
    }

    /// The box: in proportion to the length scales, whose geometric mean counts as 1.
    fn sides(&self, history: &History, local: &Local, length: f64, centre: &[f64]) -> Vec<(f64, f64)> {
        let space = history.space();
        let rates: Vec<f64> = local.posterior.model().tuned().sensitivities().collect();
        let mean_ln = rates.iter().map(|rate| rate.ln()).sum::<f64>() / rates.len().max(1) as f64;
        let mut half = vec![0.5 * length; centre.len()];
        for (at, rate) in self.kernel.number_coordinates().zip(&rates) {
            half[at] *= (mean_ln - rate.ln()).exp();
        }
        for block in self.layout.blocks() {
            let (at, len) = block.place();
            // One step is always possible.
            let least = match block {
                Block::Permutation { .. } => 1.0 / len as f64,
                _ if space.unit_cells(at).is_some() => {
                    let (low, high) = space.unit_cell(at, centre[at]);
                    high - low
                }
                _ => 0.0,
            };
            half[at..at + len].iter_mut().for_each(|half| *half = half.max(least));
        }
        let side = |(centre, half): (&f64, f64)| ((centre - half).max(0.0), (centre + half).min(1.0));
        centre.iter().zip(half).map(side).collect()
    }

    fn input(&self, history: &History, unit_point: &[f64]) -> Input {
        let space = history.space();
        let is_continuous = (0..unit_point.len()).all(|at| space.unit_cells(at).is_none());
        if is_continuous && self.layout.is_numeric() && self.kernel.is_numeric() {
            return self.kernel.vector(unit_point);
        }
        let point = space.decode(unit_point);
        self.kernel.input(&self.layout.code(&point), &point)
    }

    /// The model of each trust region, told the losses so far.
    fn posteriors(&self, history: &History, region: &Region) -> Vec<Option<Local>> {
        let merits: Vec<Merit> = self.trusts.iter().flat_map(|trust| trust.merits(history)).collect();
        // On one scale, that of the best box, so that draws can be compared.
        let best = self.trusts.iter().filter(|trust| trust.best().is_some()).min_by_key(|trust| trust.best());
        let warp = best.map_or(0.0, |trust| trust.warp);
        let all = Losses::new(&losses(&merits)).warped(warp).values;
        let mut rest = &all[..];
        let mut local = |trust: &Trust| {
            let (own, others) = rest.split_at(trust.modelled().len());
            rest = others;
            let centre = trust.centre(history, region).or_else(|| best_member(history, region))?.clone();
            let (targets, scale) = standardised(own);
            let offset = own.first()? - scale * targets[0];
            Some(Local { posterior: trust.model()?.clone().condition(&targets, &[]), centre, offset, scale })
        };
        self.trusts.iter().map(&mut local).collect()
    }
}

/// A trust region as a trial sees it.
struct Local {
    posterior: Posterior,
    centre: Point,
    /// A loss is `offset + scale · target`.
    offset: f64,
    scale: f64,
}

/// The best point told inside of a region.
fn best_member<'a>(history: &'a History, region: &Region) -> Option<&'a Point> {
    let rank = |&number: &u64| Some((history.merit(number)?, number));
    let best = region.members(history).iter().filter_map(rank).min()?;
    Some(&history.trial(best.1).point)
}

impl Optimizer for Turbo {
    fn ask(&self, history: &History, region: &Region, n: usize) -> Result<Vec<Proposal>, Error> {
        let mut covered: Vec<u64> = self.trusts.iter().map(|trust| trust.covered).collect();
        let mut posteriors = None;
        let mut taken = HashSet::new();
        let mut proposals = Vec::with_capacity(n);
        for number in (history.next_number()..).take(n) {
            let mut rng = history.seed().child(ENTRY.name, 0).rng(number);
            let open = covered.iter().position(|&covered| covered < self.warm_up);
            let (point, trust, is_design) = if let Some(trust) = open {
                covered[trust] += 1;
                (self.designed(history, region, trust, covered[trust] - 1)?, trust, true)
            } else {
                let posteriors = posteriors.get_or_insert_with(|| self.posteriors(history, region));
                match self.choose(history, region, posteriors, &taken, &mut rng) {
                    Some((point, trust)) => (point, trust, false),
                    None => (region.sample(history, &mut rng)?, 0, true),
                }
            };
            taken.insert(history.space().key(&point));
            let detail = Purpose { trust, run: self.trusts[trust].run, is_design }.detail();
            proposals.push(Proposal { point, detail });
        }
        Ok(proposals)
    }

    fn asked(&mut self, history: &History, _region: &Region, number: u64) {
        let Some(purpose) = Purpose::of(&history.trial(number).origin) else { return };
        if let Some(trust) = self.trusts.get_mut(purpose.trust)
            && (trust.run, true) == (purpose.run, purpose.is_design)
        {
            trust.covered += 1;
        }
    }

    fn told(&mut self, history: &History, number: u64) {
        let first = history.replicates(number)[0];
        let merit = history.merit(number).filter(|&merit| merit != Merit::Withdrawn);
        let (Some(merit), Some((trust, counts))) = (merit, self.owner(history, first)) else { return };
        let is_own = Purpose::of(&history.trial(first).origin).is_some();
        let trust = &mut self.trusts[trust];
        if !is_own && number == first {
            trust.covered += 1;
        }
        trust.learn(history, first, merit, counts);
    }

    fn space_changed(&mut self, history: &History) -> Result<(), Error> {
        let runs: Vec<u32> = self.trusts.iter().map(|trust| trust.run).collect();
        *self = Self::new(history, self.plan);
        for (trust, run) in self.trusts.iter_mut().zip(runs) {
            // What is pending was proposed for the old space.
            trust.run = run.wrapping_add(1);
        }
        for &number in history.told() {
            let first = history.replicates(number)[0];
            let Some(merit) = history.merit(first).filter(|&merit| merit != Merit::Withdrawn) else {
                continue;
            };
            let trust = usize::try_from(first).unwrap_or(0) % self.trusts.len();
            self.trusts[trust].covered += u64::from(number == first);
            self.trusts[trust].learn(history, first, merit, false);
        }
        Ok(())
    }

    fn snapshot(&self) -> Vec<u8> {
        let mut out = Writer::new(2);
        self.trusts.iter().for_each(|trust| trust.write(&mut out));
        out.finish()
    }

    fn restore(&mut self, history: &History, snapshot: &[u8]) -> Result<(), Error> {
        let mut from = Reader::new(2, snapshot)?;
        for trust in &mut self.trusts {
            trust.read(history, &mut from)?;
        }
        from.finish()
    }
}

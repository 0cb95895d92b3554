//! The tree-structured Parzen estimator.

mod density;
mod kernels;
mod mallows;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::options::Given;
use super::{Entry, Optimizer, Options, Proposal};
use crate::{Error, History, Merit, Point, Region, Rng};
use density::{Columns, Estimator, OptionKernel, PRIOR};
use kernels::{Class, Kernels, Kind};

pub(super) const ENTRY: Entry = Entry {
    name: "tpe",
    summary: "proposes where good points are dense and others are not; for any space, conditions included",
    options: &[
        ("multivariate", "true", "whether parameters are modelled together rather than one by one"),
        ("candidates", "24", "draws from the density of good points, of which the best is proposed"),
        (
            "gamma",
            "0.1, or 0.2 below 5 coordinates",
            "share of the points that counts as good, 25 points at most",
        ),
        ("warm-up", "10", "random trials before the first model"),
        ("constant-liar", "true", "whether pending trials count as bad ones"),
    ],
    learns: true,
    deliberates: true,
    build,
};

fn build(history: &History, options: &Options) -> Result<Box<dyn Optimizer>, Error> {
    /// Below so many coordinates densities of few points are too coarse: of 0.1 to 0.25, a share of 0.2
    /// served best on five functions of 2, 3 and 4 coordinates that no figure uses, and 0.1 in 10 and 20.
    const FEW: usize = 5;
    let given = Given { method: ENTRY.name, options };
    let gamma = if history.space().unit_len() < FEW { 0.2 } else { 0.1 };
    let plan = Plan {
        multivariate: given.flag("multivariate", true)?,
        candidates: given.count("candidates", 1..=100_000)?.unwrap_or(24),
        gamma: given.number("gamma", 0.0..=1.0)?.unwrap_or(gamma),
        warm_up: given.count("warm-up", 1..=1_000_000)?.unwrap_or(10),
        constant_liar: given.flag("constant-liar", true)?,
    };
    Ok(Box::new(Tpe::new(history, plan)))
}

/// The options.
#[derive(Clone, Copy, Debug)]
struct Plan {
    multivariate: bool,
    candidates: usize,
    gamma: f64,
    warm_up: usize,
    constant_liar: bool,
}

/// The tree-structured Parzen estimator: of candidates drawn from the density `l(x)` of the good
/// points, the one with the largest `l(x) / g(x)` is proposed, where `g(x)` is the density of all others.
///
/// The good points are the `min(⌈γ n⌉, 25)` best of `n` known ones, by [`Merit`]; so points that keep
/// the limits come first, and failures are bad. Densities are mixtures of one kernel a point and
/// one for the prior, in the unit cube; the kernels are described at [`Kernels`].
///
/// **Conditions.** A kernel knows nothing of a parameter that does not exist at its point, and stands
/// for the prior there.
/// **Regions and known constraints.** Draws outside are drawn again. If nearly all are outside, points
/// inside are compared that are random, or mutations of good ones.
///
/// # Source
/// Bergstra, Bardenet, Bengio, Kégl, *Algorithms for Hyper-Parameter Optimization*, NIPS 2011, §4;
/// with the choices of Optuna 5.0 that Watanabe, arXiv:2304.11127, describes (weights, widths,
/// multivariate kernels).
/// Deviations: points that were proposed before are passed over; permutations have [Mallows
/// kernels](mallows); a coordinate of more than 200 cells counts as continuous.
#[derive(Debug)]
struct Tpe {
    plan: Plan,
    kernels: Kernels,
    /// The first trial of each point, in ascending order.
    numbers: Vec<u64>,
    /// How each point stands, once that is known.
    merits: Vec<Option<Merit>>,
    /// The known points, the best first.
    ranked: BTreeSet<(Merit, usize)>,
    /// Those of them that were measured.
    measured: usize,
    /// The good points, in ascending order.
    good: Vec<usize>,
}

/// No more points than this are good.
const MOST_GOOD: usize = 25;
/// Draws for each candidate wanted.
const TRIES: usize = 8;
/// Models are asked as often for a point that is new.
const ROUNDS: u32 = 5;
/// Points compared if draws do not come inside.
const INNER: usize = 8;

impl Optimizer for Tpe {
    /// Proposes one point: each depends on those that are pending.
    fn ask(&self, history: &History, region: &Region, _n: usize) -> Result<Vec<Proposal>, Error> {
        let mut rng = history.seed().child(ENTRY.name, 0).rng(history.next_number());
        if self.ranked.len() < self.plan.warm_up {
            return Ok(vec![region.sample(history, &mut rng)?.into()]);
        }
        let mut repeated = None;
        for round in 0..ROUNDS {
            let points = if self.plan.multivariate {
                self.joint_draws(history, region, &mut rng)
            } else {
                self.separate_draws(history, region, round, &mut rng)
            };
            let found = self.best_new(history, points, &mut repeated);
            if let Some(point) = found {
                return Ok(vec![point.into()]);
            }
        }
        let points = self.inner_points(history, region, &mut rng)?;
        let found = self.best_new(history, points, &mut repeated);
        // The driver replaces a repeated point by one that is new.
        Ok(vec![found.or(repeated).map_or_else(|| region.sample(history, &mut rng), Ok)?.into()])
    }

    fn asked(&mut self, history: &History, _region: &Region, number: u64) {
        if history.replicates(number)[0] == number {
            self.push(history, number);
        }
        // A point that was withdrawn may be pending again.
        self.settle(history, number);
    }

    fn told(&mut self, history: &History, number: u64) {
        self.settle(history, number);
    }

    fn space_changed(&mut self, history: &History) -> Result<(), Error> {
        *self = Self::new(history, self.plan);
        Ok(())
    }

    fn restore(&mut self, history: &History, snapshot: &[u8]) -> Result<(), Error> {
        *self = Self::new(history, self.plan);
        if snapshot.is_empty() { Ok(()) } else { Err(Error::Snapshot) }
    }
}

impl Tpe {
    fn new(history: &History, plan: Plan) -> Self {
        let mut tpe = Self {
            plan,
            kernels: Kernels::new(history.space()),
            numbers: Vec::new(),
            merits: Vec::new(),
            ranked: BTreeSet::new(),
            measured: 0,
            good: Vec::new(),
        };
        for trial in history.trials() {
            if history.replicates(trial.number)[0] == trial.number {
                tpe.push(history, trial.number);
                tpe.rank(history, tpe.numbers.len() - 1);
            }
        }
        tpe.choose_good();
        (0..tpe.numbers.len()).for_each(|index| tpe.classify(history, index));
        tpe
    }

    fn push(&mut self, history: &History, number: u64) {
        self.kernels.push(&history.trial(number).point);
        self.numbers.push(number);
        self.merits.push(None);
    }

    /// Learns how the point of a trial stands now.
    fn settle(&mut self, history: &History, number: u64) {
        let first = history.replicates(number)[0];
        let index = self.numbers.binary_search(&first).expect("it was asked before");
        self.rank(history, index);
        let before = std::mem::take(&mut self.good);
        self.choose_good();
        for changed in before.into_iter().chain(self.good.clone()).chain([index]) {
            self.classify(history, changed);
        }
    }

    fn rank(&mut self, history: &History, index: usize) {
        let is_measured = |merit: &Merit| matches!(merit, Merit::Feasible(_) | Merit::Violating(_));
        let merit = history.merit(self.numbers[index]).filter(|&merit| merit != Merit::Withdrawn);
        if let Some(before) = std::mem::replace(&mut self.merits[index], merit) {
            self.ranked.remove(&(before, index));
            self.measured -= usize::from(is_measured(&before));
        }
        if let Some(merit) = merit {
            self.ranked.insert((merit, index));
            self.measured += usize::from(is_measured(&merit));
        }
    }

    fn choose_good(&mut self) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a number")]
        let share = (self.plan.gamma * self.ranked.len() as f64).ceil() as usize;
        let n = share.min(MOST_GOOD).min(self.measured);
        self.good = self.ranked.iter().take(n).map(|&(_, index)| index).collect();
        self.good.sort_unstable();
    }

    fn classify(&mut self, history: &History, index: usize) {
        let is_pending = || {
            let trials = history.replicates(self.numbers[index]);
            trials.iter().any(|&number| history.trial(number).outcome.is_none())
        };
        let class = if self.good.binary_search(&index).is_ok() {
            Class::Good
        } else if self.merits[index].is_some() || (self.plan.constant_liar && is_pending()) {
            Class::Bad
        } else {
            Class::Out
        };
        self.kernels.classify(index, class);
    }

    /// Draws from the joint density of good points that are inside.
    fn joint_draws(&self, history: &History, region: &Region, rng: &mut Rng) -> Vec<Point> {
        let mut points = Vec::with_capacity(self.plan.candidates);
        for _ in 0..TRIES * self.plan.candidates {
            let kernel = self.good.get(rng.index(self.good.len() + 1)).copied();
            let mut unit_point = Vec::with_capacity(history.space().unit_len());
            for parameter in 0..self.kernels.kinds().len() {
                self.draw(kernel, parameter, rng, &mut unit_point);
            }
            let point = history.space().decode(&unit_point);
            if region.admits(history, &point) {
                points.push(point);
                if points.len() == self.plan.candidates {
                    break;
                }
            }
        }
        points
    }

    /// The point whose parameters are each the best of some draws from their own densities, if it is
    /// inside; the later the round, the fewer draws.
    fn separate_draws(&self, history: &History, region: &Region, round: u32, rng: &mut Rng) -> Vec<Point> {
        let space = history.space();
        let n = (self.plan.candidates >> (2 * round)).max(1);
        let codes: Vec<Vec<f64>> = (0..n)
            .map(|_| {
                let mut unit_point = Vec::with_capacity(space.unit_len());
                for (parameter, &kind) in self.kernels.kinds().iter().enumerate() {
                    let exists = |index: &usize| !self.kernels.code(*index)[density::place(kind).0].is_nan();
                    let known: Vec<usize> = self.good.iter().copied().filter(exists).collect();
                    let kernel = known.get(rng.index(known.len() + 1)).copied();
                    self.draw(kernel, parameter, rng, &mut unit_point);
                }
                // Discrete values are compared at the middle of their cells.
                space.encode(&space.decode(&unit_point))
            })
            .collect();
        let columns = Columns::new(&codes);
        let good = Estimator::new(&self.kernels, Class::Good, &columns);
        let bad = Estimator::new(&self.kernels, Class::Bad, &columns);
        let mut unit_point = Vec::with_capacity(space.unit_len());
        for (parameter, &kind) in self.kernels.kinds().iter().enumerate() {
            let order = by_ratio(&good.ln_marginal(parameter), &bad.ln_marginal(parameter));
            let (at, len) = density::place(kind);
            unit_point.extend_from_slice(&codes[order[0]][at..at + len]);
        }
        let point = space.decode(&unit_point);
        if region.admits(history, &point) { vec![point] } else { Vec::new() }
    }

    /// Points inside, if draws do not come there: mutations of good points, and random ones.
    fn inner_points(&self, history: &History, region: &Region, rng: &mut Rng) -> Result<Vec<Point>, Error> {
        // All at once: walks go on from draw to draw.
        let mut inside = region.draws(history, None, INNER / 2, rng)?.into_iter();
        let mut points = Vec::with_capacity(INNER);
        for i in 0..INNER {
            if i % 2 == 0 && !self.good.is_empty() {
                let good = &history.trial(self.numbers[self.good[rng.index(self.good.len())]]).point;
                let point = history.space().mutate(good, rng)?;
                if region.admits(history, &point) {
                    points.push(point);
                    continue;
                }
            }
            points.push(inside.next().map_or_else(|| region.sample(history, rng), Ok)?);
        }
        Ok(points)
    }

    /// The new point with the largest ratio of densities; else the best of all goes to `repeated`.
    fn best_new(
        &self,
        history: &History,
        mut points: Vec<Point>,
        repeated: &mut Option<Point>,
    ) -> Option<Point> {
        let mut order = vec![0; points.len()];
        if points.len() > 1 {
            let layout = self.kernels.layout();
            let codes: Vec<Vec<f64>> = points.iter().map(|point| layout.code(point)).collect();
            let columns = Columns::new(&codes);
            let density = |class| Estimator::new(&self.kernels, class, &columns).ln_density();
            order = by_ratio(&density(Class::Good), &density(Class::Bad));
        }
        let first = order.iter().position(|&index| history.is_new(&points[index]));
        if let (None, Some(&best)) = (first, order.first()) {
            *repeated = Some(points.swap_remove(best));
            return None;
        }
        first.map(|rank| points.swap_remove(order[rank]))
    }

    /// Draws one parameter from the kernel of a point, or from the prior, and appends its coordinates.
    fn draw(&self, kernel: Option<usize>, parameter: usize, rng: &mut Rng, unit_point: &mut Vec<f64>) {
        let kind = self.kernels.kinds()[parameter];
        let (at, len) = density::place(kind);
        let kernel = kernel.filter(|&index| !self.kernels.code(index)[at].is_nan());
        let n = self.kernels.count(Class::Good, parameter);
        match kind {
            Kind::Smooth { .. } | Kind::Cells { .. } => {
                let (centre, sigma) = kernel.map_or(PRIOR, |index| {
                    (self.kernels.code(index)[at], 1.0 / self.kernels.rates(index)[parameter])
                });
                // At least a third of the draws are inside, since the centre is, and no width is above 1.
                unit_point.push(loop {
                    let u = centre + sigma * rng.normal();
                    if (0.0..=1.0).contains(&u) {
                        break u;
                    }
                });
            }
            Kind::Option { count, .. } => {
                let hit = OptionKernel::new(count, n).hit;
                unit_point.push(match kernel {
                    Some(index) if rng.unit() < hit || count == 1 => self.kernels.code(index)[at],
                    Some(index) => {
                        let here = self.kernels.code(index)[at];
                        let other = (rng.below(count - 1) as f64 + 0.5) / count as f64;
                        if other < here - 0.25 / count as f64 { other } else { other + 1.0 / count as f64 }
                    }
                    None => (rng.below(count) as f64 + 0.5) / count as f64,
                });
            }
            Kind::Permutation { .. } => {
                let q = mallows::dispersion(len, kernel.map(|_| n));
                let identity: Vec<f64> = (0..len).map(|i| i as f64).collect();
                let centre = kernel.map_or(&identity[..], |index| &self.kernels.code(index)[at..at + len]);
                unit_point.extend(mallows::draw(centre, q, rng));
            }
        }
    }
}

/// Indices by descending ratio of densities.
fn by_ratio(good: &[f64], bad: &[f64]) -> Vec<usize> {
    let ratio = |&index: &usize| good[index] - bad[index];
    let mut order: Vec<usize> = (0..good.len()).collect();
    order.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
    order
}

//! Bayesian optimisation with Gaussian processes, for any space.

mod choice;
mod surrogate;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::by_size::BySize;
use super::bytes::{Reader, Writer};
use super::finite::{self, Finite};
use super::options::Given;
use super::sobol::Sequence;
use super::{Entry, Optimizer, Options, Proposal};
use crate::gp::{Acquisition, Input, Inputs, Kernel, Posterior};
use crate::layout::Layout;
use crate::{Error, History, Merit, Outcome, Point, Region, Rng};
use choice::Chooser;
use surrogate::{Surrogate, Told, posterior};

pub(super) const ENTRY: Entry = Entry {
    name: "gp",
    summary: "Bayesian optimisation with Gaussian processes; for up to some hundred trials",
    options: &[
        (
            "warm-up",
            "2 n, at least 5 and at most 20; 5 below 100,000 points",
            "trials of a space-filling design before the first model",
        ),
        ("acquisition", "ei", "what a point is worth: ei (expected improvement) or thompson (a joint draw)"),
    ],
    learns: true,
    deliberates: true,
    build,
};

fn build(history: &History, options: &Options) -> Result<Box<dyn Optimizer>, Error> {
    let given = Given { method: ENTRY.name, options };
    let warm_up = given.count("warm-up", 1..=100_000)?;
    let thompson = given.word("acquisition", &["ei", "thompson"])? == 1;
    let small = move |history: &History| {
        let default = finite::Plan::default();
        let plan = finite::Plan { warm_up: warm_up.unwrap_or(default.warm_up), thompson };
        Ok(Box::new(Finite::new(history, plan)) as Box<dyn Optimizer>)
    };
    let large = move |history: &History| {
        Ok(Box::new(Gp::new(history, Plan { warm_up, thompson })) as Box<dyn Optimizer>)
    };
    Ok(Box::new(BySize::new(history, Box::new(small), Box::new(large))?))
}

/// The options.
#[derive(Clone, Copy, Debug)]
struct Plan {
    warm_up: Option<usize>,
    thompson: bool,
}

/// Points whose factor is kept; with more, every ask builds that of [`LOCAL`] points.
const KEPT: usize = 1000;
/// Points of a local model: half of them the best, half the nearest to the best.
const LOCAL: usize = 500;
/// Pending points that an ask takes account of: the newest.
const PENDING: usize = 100;
/// Points from which those near the best are taken: the best of all.
const NEIGHBOURS: usize = 4000;
/// Points around which candidates lie.
const ANCHORS: usize = 5;
/// Points at the first fit.
const FIRST_FIT: usize = 5;
/// Draws of the values of pending points.
const DRAWS: usize = 32;

/// Gaussian processes for the objective and for every limit, and the point of largest expected
/// improvement under them.
///
/// **Model.** See [`Kernel`] and [`Surrogate`]. Hyper-parameters are fitted again whenever the number
/// of points has grown by a tenth; in between, a point told is a row of the factor.
/// **Choice.** See [`Acquisition`] and [`Chooser`]. Points pending take part by draws of their
/// values, so a batch is chosen jointly.
/// **Limits.** A process for every limited metric; trials that measured nothing teach a process of
/// their own, which says where that happens.
/// **Noise.** Standard errors enter where they are told; the improvement is then over the best mean.
struct Gp {
    plan: Plan,
    warm_up: u64,
    layout: Arc<Layout>,
    kernel: Arc<Kernel>,
    design: Option<Sequence>,
    /// First trials of the points that were told, in the order in which that became so.
    points: Vec<u64>,
    places: HashMap<u64, usize>,
    /// Those of them where nothing was measured.
    invalid: BTreeSet<u64>,
    /// Number of points at the last fit.
    fitted_at: usize,
    objective: Surrogate,
    limits: Vec<Surrogate>,
    /// Where trials measure nothing.
    validity: Surrogate,
}

impl Gp {
    fn new(history: &History, plan: Plan) -> Self {
        let layout = Arc::new(Layout::new(history.space()));
        let kernel = Arc::new(kernel(history, &layout));
        let metrics = history.problem().metrics();
        let limited = (0..metrics.len()).filter(|&metric| metrics[metric].limit.is_some());
        let seeds = (0..layout.len() as u64).map(|i| history.seed().child("gp-design", i).value());
        Self {
            plan,
            warm_up: plan.warm_up.unwrap_or((2 * layout.len()).clamp(5, 20)) as u64,
            design: Sequence::scrambled_by(seeds.collect()),
            objective: Surrogate::new(Told::Objective, &kernel),
            limits: limited.map(|metric| Surrogate::new(Told::Limit(metric), &kernel)).collect(),
            validity: Surrogate::new(Told::Validity, &kernel),
            layout,
            kernel,
            points: Vec::new(),
            places: HashMap::new(),
            invalid: BTreeSet::new(),
            fitted_at: 0,
        }
    }

    /// Every process that has something to learn.
    fn surrogates(&mut self) -> impl Iterator<Item = &mut Surrogate> {
        let validity = (!self.invalid.is_empty()).then_some(&mut self.validity);
        std::iter::once(&mut self.objective).chain(&mut self.limits).chain(validity)
    }

    /// Brings the list of points up to the tell of trial `number`. Returns the place of its point,
    /// unless nothing is known of it.
    fn place(&mut self, history: &History, number: u64) -> Option<usize> {
        let first = history.replicates(number)[0];
        match history.merit(first)? {
            Merit::Withdrawn => return None,
            Merit::Infeasible | Merit::Failed => _ = self.invalid.insert(first),
            Merit::Feasible(_) | Merit::Violating(_) => _ = self.invalid.remove(&first),
        }
        let next = self.points.len();
        let place = *self.places.entry(first).or_insert(next);
        if place == next {
            self.points.push(first);
        }
        Some(place)
    }

    /// Brings the factors up to the list of points.
    fn extend(&mut self, history: &History) {
        if self.points.len() > KEPT {
            self.surrogates().for_each(|surrogate| surrogate.truncate(0));
            return;
        }
        let (points, layout, kernel) = (self.points.clone(), self.layout.clone(), self.kernel.clone());
        let input = |first| read(history, &layout, &kernel, first);
        self.surrogates().for_each(|surrogate| surrogate.extend(history, &points, input));
    }

    fn fit(&mut self, history: &History) {
        self.fitted_at = self.points.len();
        let (points, layout, kernel) = (self.points.clone(), self.layout.clone(), self.kernel.clone());
        let input = |first| read(history, &layout, &kernel, first);
        self.surrogates().for_each(|surrogate| surrogate.fit(history, &points, input));
    }

    /// A point of the design that comes before the first model.
    fn designed(&self, history: &History, region: &Region, number: u64) -> Result<Point, Error> {
        let designed = self.design.as_ref().map(|design| history.space().decode(&design.scrambled(number)));
        match designed.filter(|point| region.admits(history, point)) {
            Some(point) => Ok(point),
            None => region.sample(history, &mut history.seed().child("gp-inside", 0).rng(number)),
        }
    }
}

/// Every parameter with a length of its own. Shorter and more equal lengths than those of the kernel's own
/// prior were better on turned functions of 5, 10 and 20 numbers.
fn kernel(history: &History, layout: &Layout) -> Kernel {
    let kernel = Kernel::new(history.problem(), layout);
    let numbers = kernel.number_coordinates().count();
    let prior = (0.5 * (numbers.max(1) as f64).ln() - 1.0, 0.5);
    kernel.with_priors(|priors| priors[..numbers].fill(prior))
}

/// What a kernel reads of the point of a trial.
fn read(history: &History, layout: &Layout, kernel: &Kernel, number: u64) -> Input {
    let point = &history.trial(number).point;
    kernel.input(&layout.code(point), point)
}

/// Choosing a point.
impl Gp {
    fn choose(
        &self,
        history: &History,
        region: &Region,
        chosen: &[Point],
        number: u64,
    ) -> Result<Point, Error> {
        let local;
        let (points, current) = if self.points.len() <= KEPT {
            (&self.points, self)
        } else {
            local = self.local(history, region);
            (&local.points, &local)
        };
        let pending = self.pending(history, chosen);
        let draws: Vec<Vec<f64>> = {
            let mut rng = history.seed().child("gp-draws", 0).rng(number);
            (0..DRAWS).map(|_| pending.iter().map(|_| rng.normal()).collect()).collect()
        };
        let mut model = current.objective.model().clone();
        if !self.plan.thompson {
            for point in &pending {
                model.push(&self.input(point), 0.0);
            }
        }
        let (objective, targets) = posterior(&current.objective, model, history, points, &draws);
        let limits: Vec<Posterior> = current
            .limits
            .iter()
            .chain((!current.invalid.is_empty()).then_some(&current.validity))
            .map(|limit| posterior(limit, limit.model().clone(), history, points, &[]).0)
            .collect();

        let values =
            if targets.is_noisy { objective.fitted(&targets.values, &targets.noise) } else { targets.values };
        let mut ranked: Vec<(usize, f64)> = (0..points.len())
            .filter(|&i| matches!(history.merit(points[i]), Some(Merit::Feasible(_))))
            .map(|i| (i, values[i]))
            .collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        let best = ranked.first().map(|entry| entry.1);
        let taken = chosen.iter().map(|point| history.space().key(point)).collect();
        let anchors = anchors(history, region, &ranked, points);
        let chooser = Chooser {
            history,
            region,
            layout: &self.layout,
            kernel: &self.kernel,
            anchors: &anchors,
            taken: &taken,
        };
        let mut rng = history.seed().child(ENTRY.name, 0).rng(number);
        let n = points.len() + pending.len();
        let candidates = chooser.candidates(n * (n / 2 + 4 * self.layout.len() + 40), &mut rng)?;
        if self.plan.thompson {
            return drawn(&chooser, &candidates, &objective, &limits, &mut rng);
        }
        let mut acquisition = match best {
            Some(best) => Acquisition::improvement(&objective, best, !targets.is_noisy),
            None => Acquisition { objective: None, with_nugget: false, limits: Vec::new() },
        };
        acquisition.limits = limits.iter().collect();
        let value = |x: &Input, gradient: Option<&mut [f64]>| match gradient {
            Some(gradient) => acquisition.value_and_gradient(x, gradient),
            None => acquisition.value(x),
        };
        chooser.best(candidates, &value, &mut rng)
    }

    fn input(&self, point: &Point) -> Input {
        self.kernel.input(&self.layout.code(point), point)
    }

    /// Points without an outcome so far: of pending trials, then of this batch; the newest.
    fn pending(&self, history: &History, chosen: &[Point]) -> Vec<Point> {
        let mut seen = HashSet::new();
        let mut is_open = |number: &u64| {
            let first = history.replicates(*number)[0];
            !self.places.contains_key(&first) && seen.insert(first)
        };
        let pending = history.pending().iter().copied().filter(&mut is_open);
        let open: Vec<&Point> = pending.map(|number| &history.trial(number).point).chain(chosen).collect();
        open[open.len().saturating_sub(PENDING)..].iter().map(|&point| point.clone()).collect()
    }

    /// The same on some of the points: the best, and of the other good ones the nearest to the best.
    fn local(&self, history: &History, region: &Region) -> Self {
        let mut ranked: Vec<(Merit, u64)> = self
            .points
            .iter()
            .map(|&number| (history.merit(number).unwrap_or(Merit::Withdrawn), number))
            .collect();
        ranked.sort_unstable();
        let centre =
            ranked.iter().map(|entry| entry.1).find(|&number| region.contains(&history.trial(number).point));
        let centre = read(history, &self.layout, &self.kernel, centre.unwrap_or(ranked[0].1));
        let (best, others) = ranked.split_at(LOCAL / 2);
        let mut inputs = Inputs::default();
        let others = &others[..others.len().min(NEIGHBOURS)];
        for entry in others {
            inputs.push(&read(history, &self.layout, &self.kernel, entry.1));
        }
        let nearness = self.objective.model().tuned().row(&inputs, &centre).k;
        let mut order: Vec<usize> = (0..others.len()).collect();
        order.sort_by(|&a, &b| nearness[b].total_cmp(&nearness[a]));
        let near = order.iter().take(LOCAL - LOCAL / 2).map(|&i| others[i].1);
        let points: Vec<u64> = best.iter().map(|entry| entry.1).chain(near).collect();
        let mut local = Self {
            invalid: points.iter().copied().filter(|number| self.invalid.contains(number)).collect(),
            places: HashMap::new(),
            points,
            plan: self.plan,
            warm_up: self.warm_up,
            layout: self.layout.clone(),
            kernel: self.kernel.clone(),
            design: None,
            fitted_at: self.fitted_at,
            objective: self.objective.clone(),
            limits: self.limits.clone(),
            validity: self.validity.clone(),
        };
        local.extend(history);
        local
    }
}

/// Good points around which to look: the best in the region.
fn anchors(history: &History, region: &Region, ranked: &[(usize, f64)], points: &[u64]) -> Vec<Point> {
    let point = |number: u64| &history.trial(number).point;
    let mut inside: Vec<&Point> = ranked
        .iter()
        .map(|&(i, _)| point(points[i]))
        .filter(|point| region.contains(point))
        .take(ANCHORS)
        .collect();
    if inside.is_empty() {
        let mut members: Vec<(Merit, u64)> = region
            .members(history)
            .iter()
            .filter_map(|&number| Some((history.merit(number)?, number)))
            .collect();
        members.sort_unstable();
        inside = members.iter().take(ANCHORS).map(|&(_, number)| point(number)).collect();
    }
    inside.into_iter().cloned().collect()
}

/// The candidate that is best in a joint draw of all candidates: of those within every limit in the
/// draw, the one of smallest loss; if there is none, the one of smallest excess.
fn drawn(
    chooser: &Chooser<'_>,
    candidates: &[Point],
    objective: &Posterior,
    limits: &[Posterior],
    rng: &mut Rng,
) -> Result<Point, Error> {
    let inputs: Vec<Input> = candidates.iter().map(|point| chooser.input(point)).collect();
    let losses = objective.sample(&inputs, rng);
    let mut excess = vec![0.0; inputs.len()];
    for limit in limits {
        for (excess, value) in excess.iter_mut().zip(limit.sample(&inputs, rng)) {
            *excess += f64::max(value, 0.0);
        }
    }
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by(|&a, &b| excess[a].total_cmp(&excess[b]).then(losses[a].total_cmp(&losses[b])));
    chooser.first_free(order.into_iter().map(|i| candidates[i].clone()), rng)
}

impl Optimizer for Gp {
    fn ask(&self, history: &History, region: &Region, n: usize) -> Result<Vec<Proposal>, Error> {
        let mut chosen: Vec<Point> = Vec::with_capacity(n);
        for number in (history.next_number()..).take(n) {
            let is_measured = self.points.len() > self.invalid.len();
            let point = if number < self.warm_up || !is_measured {
                self.designed(history, region, number)?
            } else {
                self.choose(history, region, &chosen, number)?
            };
            chosen.push(point);
        }
        Ok(chosen.into_iter().map(Proposal::from).collect())
    }

    fn told(&mut self, history: &History, number: u64) {
        let known = self.points.len();
        let Some(place) = self.place(history, number) else { return };
        if place < known {
            // The noise of the point has changed, or what is known of it.
            self.objective.truncate(place);
            self.limits.iter_mut().for_each(|limit| limit.truncate(place));
            self.validity.truncate(place);
        }
        let is_due = self.points.len() >= FIRST_FIT.max(self.fitted_at + (self.fitted_at / 10).max(1));
        if is_due {
            self.fit(history);
        }
        self.extend(history);
    }

    fn space_changed(&mut self, history: &History) -> Result<(), Error> {
        let points = std::mem::take(&mut self.points);
        *self = Self::new(history, self.plan);
        for number in points {
            self.place(history, number);
        }
        self.fit(history);
        self.extend(history);
        Ok(())
    }

    fn snapshot(&self) -> Vec<u8> {
        let mut out = Writer::new(1);
        out.u64(self.fitted_at as u64);
        self.objective.write(&mut out);
        self.limits.iter().for_each(|limit| limit.write(&mut out));
        self.validity.write(&mut out);
        out.finish()
    }

    fn restore(&mut self, history: &History, snapshot: &[u8]) -> Result<(), Error> {
        let mut from = Reader::new(1, snapshot)?;
        self.fitted_at = usize::try_from(from.u64()?).map_err(|_| Error::Snapshot)?;
        self.objective.read(&mut from)?;
        for limit in &mut self.limits {
            limit.read(&mut from)?;
        }
        self.validity.read(&mut from)?;
        from.finish()?;
        for &number in history.told() {
            if history.trial(number).outcome != Some(Outcome::Withdrawn) {
                self.place(history, number);
            }
        }
        if self.fitted_at > self.points.len() {
            return Err(Error::Snapshot);
        }
        self.extend(history);
        Ok(())
    }
}

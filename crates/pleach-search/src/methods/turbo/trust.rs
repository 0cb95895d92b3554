//! A trust region: its size, its points, and its model.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::gp::targets::{Losses, losses};
use crate::gp::{Input, Inputs, Kernel, Model, Tuned, fit_warped};
use crate::layout::Layout;
use crate::methods::bytes::{Reader, Writer};
use crate::{Error, History, Merit, Point, Region};

/// Lengths of the side, as a share of the unit cube: the first, the least and the largest.
const FIRST: f64 = 0.8;
const LEAST: f64 = 1.0 / 128.0;
const LARGEST: f64 = 1.6;
/// Successes in a row that double the length.
const SUCCESSES: u64 = 3;
/// A better loss counts as a success if it is by this share of the best.
const BETTER: f64 = 1e-3;
/// Points of a model when it is built: the nearest to the best, and the largest number until it is built anew.
const MODELLED: usize = 400;
const MOST_MODELLED: usize = 500;
/// Points at the first fit.
const FIRST_FIT: usize = 5;
/// A fit of `n` points is followed by the next `n² / 2000` points later, since the first points tell most and
/// their fits are cheap; from 200 points on, a tenth of `n` later.
const PATIENCE: usize = 2000;
/// Evaluations of the density of hyper-parameters by the first fit of a run, and by each after it.
const EVALUATIONS: [usize; 2] = [50, 20];
/// The warp before the first fit.
const FIRST_WARP: f64 = 0.0;

/// A box around the best point of a run, whose length follows success and failure.
#[derive(Debug)]
pub(super) struct Trust {
    layout: Arc<Layout>,
    kernel: Arc<Kernel>,
    /// The number of the run, and its first trial.
    pub(super) run: u32,
    since: u64,
    pub(super) length: f64,
    successes: u64,
    failures: u64,
    /// Trials of the design that were asked, and those of others that take their place.
    pub(super) covered: u64,
    /// The first trial of every known point of the run.
    points: BTreeSet<u64>,
    best: Option<(Merit, u64)>,
    /// Number of points at the last fit.
    fitted_at: usize,
    /// The points of the model, in its order.
    modelled: Vec<u64>,
    model: Model,
    /// By which logarithm losses are told, see [`Losses::warped`].
    pub(super) warp: f64,
}

impl Trust {
    pub(super) fn new(layout: Arc<Layout>, kernel: Arc<Kernel>, next: u64) -> Self {
        let model = Model::new(prior(&kernel));
        Self {
            layout,
            kernel,
            run: 0,
            since: next,
            length: FIRST,
            successes: 0,
            failures: 0,
            covered: 0,
            points: BTreeSet::new(),
            best: None,
            fitted_at: 0,
            modelled: Vec::new(),
            model,
            warp: FIRST_WARP,
        }
    }

    /// The model of the known points; none if nothing is known.
    pub(super) fn model(&self) -> Option<&Model> {
        (!self.modelled.is_empty()).then_some(&self.model)
    }

    /// The best known point of the run, with its trial.
    pub(super) fn best(&self) -> Option<(Merit, u64)> {
        self.best
    }

    /// The points of the model, in its order.
    pub(super) fn modelled(&self) -> &[u64] {
        &self.modelled
    }

    /// The best known point of the run inside `region`.
    pub(super) fn centre<'a>(&self, history: &'a History, region: &Region) -> Option<&'a Point> {
        let point = |number| &history.trial(number).point;
        let best = self.best.map(|(_, number)| point(number))?;
        if region.contains(best) {
            return Some(best);
        }
        let rank = |&number: &u64| (history.merit(number).unwrap_or(Merit::Withdrawn), number);
        let mut ranked: Vec<(Merit, u64)> = self.points.iter().map(rank).collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, number)| point(number)).find(|point| region.contains(point))
    }

    /// Learns how the point of trial `first` stands; `counts` if it was proposed as a success or failure.
    pub(super) fn learn(&mut self, history: &History, first: u64, merit: Merit, counts: bool) {
        if first < self.since {
            return;
        }
        if !self.points.insert(first) {
            // A point told once more is another: its loss is a new mean.
            let rank = |&number: &u64| Some((history.merit(number)?, number));
            self.best = self.points.iter().filter_map(rank).min();
            return;
        }
        let is_success = match (merit, self.best) {
            (Merit::Feasible(loss), Some((Merit::Feasible(best), _))) => loss < best - BETTER * best.abs(),
            (merit, best) => best.is_none_or(|(best, _)| merit < best),
        };
        self.best = self.best.into_iter().chain([(merit, first)]).min();
        if counts {
            self.count(is_success);
        }
        if self.length < LEAST {
            self.restart(history.next_number());
        } else {
            self.model_point(history, first);
        }
    }

    fn count(&mut self, is_success: bool) {
        (self.successes, self.failures) =
            if is_success { (self.successes + 1, 0) } else { (0, self.failures + 1) };
        if self.successes == SUCCESSES {
            self.length = (2.0 * self.length).min(LARGEST);
            self.successes = 0;
        } else if self.failures == (self.layout.len() as u64).max(4) {
            self.length /= 2.0;
            self.failures = 0;
        }
    }

    fn restart(&mut self, next: u64) {
        let run = self.run.wrapping_add(1);
        *self = Self { run, ..Self::new(self.layout.clone(), self.kernel.clone(), next) };
    }

    fn model_point(&mut self, history: &History, first: u64) {
        let n = self.points.len();
        let pause = (self.fitted_at / 10).min(self.fitted_at * self.fitted_at / PATIENCE);
        let is_due = n >= FIRST_FIT && n >= self.fitted_at + pause.max(1);
        if is_due || self.modelled.len() >= MOST_MODELLED {
            self.select(history);
        } else {
            self.modelled.push(first);
        }
        if is_due {
            let (theta, warp) = self.fitted(history);
            self.model = Model::new(self.kernel.tuned(&theta));
            self.warp = warp;
            self.fitted_at = n;
        }
        self.extend(history);
    }

    /// Chooses the points of the model anew.
    fn select(&mut self, history: &History) {
        self.modelled = self.points.iter().copied().collect();
        if let (true, Some((_, best))) = (self.modelled.len() > MODELLED, self.best) {
            let mut inputs = Inputs::default();
            self.modelled.iter().for_each(|&number| inputs.push(&self.input(history, number)));
            let nearness = self.model.tuned().row(&inputs, &self.input(history, best)).k;
            let mut order: Vec<usize> = (0..nearness.len()).collect();
            order.sort_by(|&a, &b| nearness[b].total_cmp(&nearness[a]));
            order.truncate(MODELLED);
            order.sort_unstable();
            self.modelled = order.into_iter().map(|index| self.modelled[index]).collect();
        }
        self.model.truncate(0);
    }

    /// The most likely hyper-parameters and warp.
    fn fitted(&self, history: &History) -> (Vec<f64>, f64) {
        let mut inputs = Inputs::default();
        self.modelled.iter().for_each(|&number| inputs.push(&self.input(history, number)));
        let losses = Losses::new(&losses(&self.merits(history)));
        let start = self.model.tuned().theta();
        let evaluations = EVALUATIONS[usize::from(self.fitted_at > 0)];
        fit_warped(&self.kernel, &inputs, &losses, start, self.warp, evaluations)
    }

    /// Brings the factor up to the list of points.
    fn extend(&mut self, history: &History) {
        for index in self.model.len()..self.modelled.len() {
            let input = self.input(history, self.modelled[index]);
            self.model.push(&input, 0.0);
        }
    }

    /// How the points of the model stand.
    pub(super) fn merits(&self, history: &History) -> Vec<Merit> {
        self.modelled.iter().map(|&number| history.merit(number).unwrap_or(Merit::Withdrawn)).collect()
    }

    fn input(&self, history: &History, number: u64) -> Input {
        let point = &history.trial(number).point;
        self.kernel.input(&self.layout.code(point), point)
    }

    pub(super) fn write(&self, out: &mut Writer) {
        for word in [
            u64::from(self.run),
            self.since,
            self.successes,
            self.failures,
            self.covered,
            self.fitted_at as u64,
        ] {
            out.u64(word);
        }
        out.f64(self.length);
        out.numbers(&self.points.iter().copied().collect::<Vec<_>>());
        out.numbers(&self.modelled);
        out.floats(self.model.tuned().theta());
        out.f64(self.warp);
    }

    pub(super) fn read(&mut self, history: &History, from: &mut Reader<'_>) -> Result<(), Error> {
        self.run = u32::try_from(from.u64()?).map_err(|_| Error::Snapshot)?;
        for word in [&mut self.since, &mut self.successes, &mut self.failures, &mut self.covered] {
            *word = from.u64()?;
        }
        self.fitted_at = usize::try_from(from.u64()?).map_err(|_| Error::Snapshot)?;
        self.length = from.f64()?;
        self.points = from.numbers()?.into_iter().collect();
        self.modelled = from.numbers()?;
        if self.points.iter().chain(&self.modelled).any(|&number| number >= history.next_number()) {
            return Err(Error::Snapshot);
        }
        self.model = Model::new(self.kernel.tuned(&from.floats(self.kernel.priors().len())?));
        self.warp = from.f64()?;
        self.best = self.points.iter().filter_map(|&number| Some((history.merit(number)?, number))).min();
        self.extend(history);
        Ok(())
    }
}

/// The kernel with the most likely hyper-parameters before any data.
fn prior(kernel: &Arc<Kernel>) -> Tuned {
    kernel.tuned(&kernel.priors().iter().map(|prior| prior.0).collect::<Vec<_>>())
}

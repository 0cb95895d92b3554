//! One Gaussian process and what it is told.

use std::sync::Arc;

use super::super::bytes::{Reader, Writer};
use crate::gp::targets::{Losses, quantile_of, standardised};
use crate::gp::{Input, Inputs, Kernel, Model, Posterior, fit, fit_warped};
use crate::{Error, History, Measurement, Outcome};

/// What a process is told of every point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Told {
    /// The signed objective, smaller is better.
    Objective,
    /// By how much a limited metric exceeds its limit.
    Limit(usize),
    /// 1 where no trial measured anything, else −1.
    Validity,
}

/// Points from which hyper-parameters are fitted, at most: the best half, and others at even steps.
const FITTED: usize = 300;
/// Evaluations of the density by the first fit, and by each after it.
const EVALUATIONS: [usize; 2] = [60, 20];
/// The variance, relative to the process, of what was not measured.
const UNKNOWN: f64 = 1e6;

/// A process of one quantity, with hyper-parameters that are fitted now and then and a factor of the
/// points told so far.
#[derive(Clone, Debug)]
pub(super) struct Surrogate {
    told: Told,
    is_fitted: bool,
    /// The standard deviation of the process at the last fit, in the unit of what is told; 0 before.
    unit: f64,
    /// The logarithm by which losses are told (see [`Losses::warped`]); none if they are told as they
    /// are, since their noise would not be understood.
    warp: Option<f64>,
    model: Model,
}

/// What a process is told of a list of points.
#[derive(Clone, Debug)]
pub(super) struct Targets {
    /// Shifted and scaled to a variance near 1; a limit is kept up to 0.
    pub(super) values: Vec<f64>,
    /// Standard errors relative to the unit of the process, squared.
    pub(super) noise: Vec<f64>,
    /// Whether evaluations do not repeat, as far as that is told.
    pub(super) is_noisy: bool,
}

impl Surrogate {
    pub(super) fn new(told: Told, kernel: &Arc<Kernel>) -> Self {
        let theta: Vec<f64> = kernel.priors().iter().map(|prior| prior.0).collect();
        Self { told, is_fitted: false, unit: 0.0, warp: None, model: Model::new(kernel.tuned(&theta)) }
    }

    /// The factor of the first points, in the order in which they were added.
    pub(super) fn model(&self) -> &Model {
        &self.model
    }

    /// Drops what depends on points from `n` on.
    pub(super) fn truncate(&mut self, n: usize) {
        self.model.truncate(n);
    }

    /// Extends the factor to all `points` (their first trials).
    pub(super) fn extend(&mut self, history: &History, points: &[u64], input: impl Fn(u64) -> Input) {
        for &first in &points[self.model.len()..] {
            let noise = self.noise(history, first);
            self.model.push(&input(first), noise);
        }
    }

    /// The variance of the noise of a target in units of the process.
    fn noise(&self, history: &History, first: u64) -> f64 {
        match self.observe(history, first) {
            None => UNKNOWN,
            Some((_, sem)) if sem > 0.0 && self.unit > 0.0 => (sem / self.unit).powi(2).min(UNKNOWN),
            Some(_) => 0.0,
        }
    }

    /// Mean and standard error of what was measured at the point of trial `first`.
    fn observe(&self, history: &History, first: u64) -> Option<(f64, f64)> {
        let trials = history.replicates(first);
        let mean = history.mean_metrics(trials);
        let problem = history.problem();
        match self.told {
            Told::Validity => Some((if mean.is_some() { -1.0 } else { 1.0 }, 0.0)),
            Told::Limit(metric) => Some((problem.metrics()[metric].excess(mean?[metric]), 0.0)),
            Told::Objective => {
                let sems = trials.iter().filter_map(|&k| match &history.trial(k).outcome {
                    Some(Outcome::Measured(measurement)) => Some(measurement.sem.unwrap_or(0.0)),
                    _ => None,
                });
                let (squares, n) = sems.fold((0.0_f64, 0.0), |(sum, n), sem| (sum + sem * sem, n + 1.0));
                Some((problem.loss(&Measurement::new(mean?)), squares.sqrt() / n))
            }
        }
    }

    /// What is told of `points`.
    pub(super) fn targets(&self, history: &History, points: &[u64]) -> Targets {
        self.scaled(history, points).0
    }

    /// What is told of `points`, and its unit.
    fn scaled(&self, history: &History, points: &[u64]) -> (Targets, f64) {
        let observed: Vec<Option<(f64, f64)>> =
            points.iter().map(|&first| self.observe(history, first)).collect();
        let known: Vec<f64> = observed.iter().flatten().map(|(value, _)| *value).collect();
        let (told, unit) = match (self.told, self.warp) {
            (Told::Validity, _) => (known, 1.0),
            (Told::Limit(_), _) => (signed_logarithms(&known), 1.0),
            (Told::Objective, None) => standardised(&known),
            (Told::Objective, Some(warp)) => (Losses::new(&known).warped(warp).values, 1.0),
        };
        let mut told = told.into_iter();
        let values = observed.iter().map(|known| known.and_then(|_| told.next()).unwrap_or(0.0)).collect();
        let noise = points.iter().map(|&first| self.noise(history, first)).collect();
        let is_noisy = observed.iter().flatten().any(|(_, sem)| *sem > 0.0);
        (Targets { values, noise, is_noisy }, unit)
    }

    /// Fits the hyper-parameters to what is told of `points`, and starts the factor anew.
    pub(super) fn fit(&mut self, history: &History, points: &[u64], input: impl Fn(u64) -> Input) {
        let kernel = self.model.tuned().kernel().clone();
        let known: Vec<u64> =
            points.iter().copied().filter(|&first| self.observe(history, first).is_some()).collect();
        let (targets, unit) = self.scaled(history, &known);
        let chosen = fitted(&targets.values);
        let mut inputs = Inputs::default();
        for &i in &chosen {
            inputs.push(&input(known[i]));
        }
        let pick = |values: &[f64]| -> Vec<f64> { chosen.iter().map(|&i| values[i]).collect() };
        let (mut values, noise) = (pick(&targets.values), pick(&targets.noise));
        let start = self.model.tuned().theta();
        let evaluations = EVALUATIONS[usize::from(self.is_fitted)];
        let theta;
        if self.told == Told::Objective && !targets.is_noisy {
            let observed: Vec<f64> = known
                .iter()
                .filter_map(|&first| self.observe(history, first))
                .map(|(loss, _)| loss)
                .collect();
            let losses = Losses::new(&observed).pick(&chosen);
            let (found, warp) =
                fit_warped(&kernel, &inputs, &losses, start, self.warp.unwrap_or(0.0), evaluations);
            (theta, self.warp) = (found, Some(warp));
            values = losses.warped(warp).values;
        } else {
            self.warp = None;
            theta = fit(&kernel, &inputs, &noise, &values, start, evaluations);
        }
        self.is_fitted = true;
        let mut model = Model::new(kernel.tuned(&theta));
        for (i, noise) in noise.iter().enumerate() {
            model.push(&inputs.get(i), *noise);
        }
        self.unit = unit * model.condition(&values, &[]).process_variance().sqrt();
        self.model = Model::new(kernel.tuned(&theta));
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.u64(u64::from(self.is_fitted));
        out.f64(self.unit);
        out.u64(u64::from(self.warp.is_some()));
        out.f64(self.warp.unwrap_or(0.0));
        out.floats(self.model.tuned().theta());
    }

    pub(super) fn read(&mut self, from: &mut Reader<'_>) -> Result<(), Error> {
        self.is_fitted = from.u64()? == 1;
        self.unit = from.f64()?;
        let is_warped = from.u64()? == 1;
        self.warp = Some(from.f64()?).filter(|_| is_warped);
        let kernel = self.model.tuned().kernel().clone();
        self.model = Model::new(kernel.tuned(&from.floats(kernel.priors().len())?));
        Ok(())
    }
}

/// Values told by the sign and the logarithm of their size, scaled to a mean square of 1; so a limit at 0
/// stays there, and what is far from it counts little.
fn signed_logarithms(values: &[f64]) -> Vec<f64> {
    let sizes: Vec<f64> = values.iter().map(|value| value.abs()).collect();
    let unit = quantile_of(&sizes, 0.5);
    if unit <= 0.0 {
        return values.iter().map(|value| if *value > 0.0 { 1.0 } else { -1.0 }).collect();
    }
    let logarithm = |value: &f64| (value.abs() / unit).min(1e9).ln_1p().copysign(*value);
    let mut told: Vec<f64> = values.iter().map(logarithm).collect();
    let square = told.iter().map(|y| y * y).sum::<f64>() / told.len() as f64;
    for y in &mut told {
        *y /= square.sqrt();
    }
    told
}

/// Which of these targets hyper-parameters are fitted to.
fn fitted(values: &[f64]) -> Vec<usize> {
    let n = values.len();
    if n <= FITTED {
        return (0..n).collect();
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let (best, rest) = order.split_at(FITTED / 2);
    let step = rest.len() as f64 / (FITTED - FITTED / 2) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let others = (0..FITTED - FITTED / 2).map(|k| rest[(k as f64 * step) as usize]);
    let mut chosen: Vec<usize> = best.iter().copied().chain(others).collect();
    chosen.sort_unstable();
    chosen
}

/// The posterior of what `surrogate` is told of `points`, whose factor is in `model`; the points of
/// `model` after them are pending.
pub(super) fn posterior(
    surrogate: &Surrogate,
    model: Model,
    history: &History,
    points: &[u64],
    draws: &[Vec<f64>],
) -> (Posterior, Targets) {
    let targets = surrogate.targets(history, points);
    (model.condition(&targets.values, draws), targets)
}

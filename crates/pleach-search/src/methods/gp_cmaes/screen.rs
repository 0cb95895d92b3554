//! Choosing and ranking the draws of a generation.

use super::surrogate::{Scales, Surrogate};
use crate::gp::targets;
use crate::linalg::dot;
use crate::methods::cmaes::{Draws, Run, Sample, Strategy};
use crate::{History, Key, Merit};

/// How a generation is chosen from more draws than are evaluated, and ranked.
///
/// A Gaussian process (Matérn 5/2 of one length scale, and a quadratic trend) is fitted to the known points that are nearest
/// in the coordinates in which draws are standard normal, so that the covariance that was learned is its
/// metric. Draws are tried in the order of mean − `caution` standard deviations. Once enough are
/// told, the process is fitted again, and what it expects of the other draws ranks them beside the told
/// ones.
///
/// # Source
/// Pitra, Hanuš, Koza, Tumpach, Holeňa, *Interaction between Model and Its Evolution Control in
/// Surrogate-Assisted CMA Evolution Strategy*, GECCO 2021, for the doubly trained control.
/// Deviations: values are warped by the logarithm of their distance from the best; few draws are evaluated, and always as many.
#[derive(Clone, Debug)]
pub(in crate::methods) struct Screen {
    /// Draws of a generation.
    pub(super) candidates: usize,
    /// Of these, trials that must be told before it is ranked.
    pub(in crate::methods) evaluated: usize,
    /// Standard deviations below the expectation by which draws are chosen.
    pub(super) caution: f64,
}

/// Points the process is fitted to.
const NEAREST: usize = 200;
/// Among so many told last.
const NEWEST: usize = 2000;
/// Share of the points that is resolved however bad the others are.
const QUANTILE: f64 = 0.25;
/// The variance of the noise of exact values, and of one evaluation where there is noise.
const NUGGETS: [f64; 2] = [1e-3, 1e-1];
/// The first length scale, in the distance of a draw from the mean.
const LENGTH: f64 = 2.0;

impl Screen {
    /// Draws of the present distribution of a run, the most promising first, for the run to propose.
    pub(in crate::methods) fn fill(&self, history: &History, draws: &Draws, run: &mut Run) {
        const TRIES: usize = 30;
        let space = history.space();
        let mut rng = history.seed().child("slate", run.from).rng(run.strategy.generation);
        let inside = |x: &Vec<f64>| space.admits(&space.decode(x));
        let mut slate: Vec<Vec<f64>> = (0..self.candidates)
            .map(|_| {
                let mut x = draws.draw(&run.strategy, 1.0, &mut rng);
                for _ in 1..TRIES {
                    if inside(&x) {
                        break;
                    }
                    x = draws.draw(&run.strategy, 1.0, &mut rng);
                }
                x
            })
            .collect();
        let (known, targets) = known(history, &run.strategy, &[]);
        let codes = known.into_iter().map(|(_, code)| code).collect();
        if let Some(surrogate) = Surrogate::fit(codes, &targets, &choices(history, run)) {
            run.scales = Some(surrogate.scales);
            let mut ranked: Vec<(f64, Vec<f64>)> = slate
                .into_iter()
                .map(|x| {
                    let code = run.strategy.whiten(&space.encode(&space.decode(&x)));
                    let score = if self.caution > 0.0 {
                        let (mean, deviation) = surrogate.predict(&code);
                        mean - self.caution * deviation
                    } else {
                        surrogate.mean(&code)
                    };
                    (score, x)
                })
                .collect();
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
            slate = ranked.into_iter().map(|(_, x)| x).collect();
        }
        run.slate = slate;
    }

    /// The samples of a generation, best first: what was told, and the rest of the slate by expectation.
    pub(in crate::methods) fn rank(
        history: &History,
        draws: &Draws,
        run: &Run,
        told: &[(Merit, u64)],
    ) -> Vec<Sample> {
        let population = run.strategy.population();
        let sample = |&(_, number): &(Merit, u64)| draws.sample(history, number, run.since);
        let own: Vec<Sample> = told.iter().map(sample).collect();
        if own.len() >= population {
            return own.into_iter().take(population).collect();
        }
        let space = history.space();
        // Of equal draws, as many were told as there are trials of them.
        let mut keys: Vec<Key> = told.iter().map(|&(_, number)| history.trial(number).key).collect();
        let rest = run.slate.iter().filter(move |x| {
            let own = space.key(&space.decode(x));
            let at = keys.iter().position(|key| *key == own);
            at.map(|at| keys.swap_remove(at)).is_none()
        });
        let rest = rest.map(|x| Sample { x: x.clone(), own: true });
        let numbers: Vec<u64> = told.iter().map(|&(_, number)| number).collect();
        let (known, targets) = known(history, &run.strategy, &numbers);
        let value =
            |number: u64| known.iter().position(|(k, _)| *k == number).map_or(f64::INFINITY, |i| targets[i]);
        let mut ranked: Vec<(f64, Sample)> = numbers.iter().map(|&number| value(number)).zip(own).collect();
        let codes = known.iter().map(|(_, code)| code.clone()).collect();
        match run.scales.and_then(|scales| Surrogate::fit(codes, &targets, &[scales])) {
            Some(surrogate) => ranked.extend(rest.map(|sample| {
                let code = run.strategy.whiten(&space.encode(&space.decode(&sample.x)));
                (surrogate.mean(&code), sample)
            })),
            None => ranked.extend(rest.map(|sample| (f64::INFINITY, sample))),
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranked.into_iter().take(population).map(|(_, sample)| sample).collect()
    }
}

/// The scales that a fit chooses among: near those of the fit before.
fn choices(history: &History, run: &Run) -> Vec<Scales> {
    let is_noisy = history.best().is_some_and(|best| best.sem.is_some_and(|sem| sem > 0.0));
    let nugget = if is_noisy { NUGGETS[1] / history.evaluations() as f64 } else { NUGGETS[0] };
    let first = LENGTH * (history.space().unit_len() as f64).sqrt();
    let length = run.scales.map_or(first, |scales| scales.length);
    [0.6, 1.0, 1.6].map(|factor| Scales { length: (length * factor).clamp(0.5, 200.0), nugget }).to_vec()
}

/// The first trials of the nearest known points and of `also`, with their codes, and their targets.
fn known(history: &History, strategy: &Strategy, also: &[u64]) -> (Vec<(u64, Vec<f64>)>, Vec<f64>) {
    let told = history.told();
    let newest = told[told.len().saturating_sub(NEWEST)..].iter().copied();
    let mut near: Vec<(f64, u64, Vec<f64>)> = newest
        .filter(|&number| history.replicates(number)[0] == number && !also.contains(&number))
        .filter(|&number| history.merit(number).is_some_and(|merit| merit != Merit::Withdrawn))
        .map(|number| {
            let code = strategy.whiten(&history.space().encode(&history.trial(number).point));
            (dot(&code, &code), number, code)
        })
        .collect();
    near.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    near.truncate(NEAREST);
    let mut known: Vec<(u64, Vec<f64>)> = near.into_iter().map(|(_, number, code)| (number, code)).collect();
    known.extend(
        also.iter()
            .map(|&number| (number, strategy.whiten(&history.space().encode(&history.trial(number).point)))),
    );
    let merits: Vec<Merit> =
        known.iter().map(|&(number, _)| history.merit(number).unwrap_or(Merit::Withdrawn)).collect();
    let targets = targets::log_warped(&targets::losses(&merits), QUANTILE);
    (known, targets)
}

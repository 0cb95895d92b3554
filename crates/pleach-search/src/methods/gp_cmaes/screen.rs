//! Choosing and ranking the draws of a generation.

use std::cmp::Reverse;

use super::surrogate::{Scales, Surrogate};
use crate::gp::targets::{Losses, losses};
use crate::linalg::dot;
use crate::methods::cmaes::{Draws, Run, Sample, Strategy};
use crate::{History, Key, Merit};

/// How a generation is chosen from more draws than are evaluated, and ranked.
///
/// A Gaussian process (Matérn 5/2 of one length scale, and a quadratic trend) is fitted to the known
/// points that are nearest in the coordinates in which draws are standard normal, so that the covariance
/// that was learned is its metric. Draws are tried in the order of mean − `caution` standard deviations. Once enough are
/// told, the process is fitted again, and what it expects of the other draws ranks them beside the told
/// ones. The better the process orders newest trials that it is not told of, the fewer are enough.
///
/// # Source
/// Pitra, Hanuš, Koza, Tumpach, Holeňa, *Interaction between Model and Its Evolution Control in
/// Surrogate-Assisted CMA Evolution Strategy*, GECCO 2021, for the doubly trained control.
/// Deviations: values are told by a logarithm that is learned with the other scales; few draws are
/// evaluated, and how many follows from left-out predictions instead of from how the ranking changed.
#[derive(Clone, Debug)]
pub(in crate::methods) struct Screen {
    /// Draws of a generation.
    pub(super) candidates: usize,
    /// Of these, trials that must be told before it is ranked, at most.
    pub(super) evaluated: usize,
    /// Standard deviations below the expectation by which draws are chosen.
    pub(super) caution: f64,
}

/// Points the process is fitted to.
const NEAREST: usize = 200;
/// Among so many told last.
const NEWEST: usize = 2000;
/// The scales of the first fit; its length is in the distance of a draw from the mean.
const FIRST: Scales = Scales { length: 2.0, nugget: 1e-3, trend: 0.03, warp: -1.0 };
/// The first variance of the noise of one evaluation where there is noise.
const NOISY: f64 = 1e-1;
/// Factors, or for the warp differences, by which scales change between fits.
const STEPS: Scales = Scales { length: 1.6, nugget: 10.0, trend: 3.0, warp: 0.9 };

/// Newest trials whose order is expected without them, and how few of them say nothing.
const JUDGES: usize = 40;
const TOO_FEW: usize = 30;
/// Shares of their pairs in the right order, from which on half and a quarter of the trials are enough.
const GOOD: f64 = 0.82;
const VERY_GOOD: f64 = 0.9;

impl Screen {
    /// Draws of the present distribution of a run, the most promising first, for the run to propose,
    /// and how many of them must be told.
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
        let (numbers, codes, losses) = known(history, &run.strategy, &[]);
        run.quota = self.evaluated;
        if let Some(surrogate) = Surrogate::fit(codes, &losses, &choices(history, run)) {
            run.scales = Some(surrogate.scales);
            if self.evaluated < run.strategy.population() {
                run.quota = self.enough(&numbers, &surrogate);
            }
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

    /// How many trials tell a generation, by how well the process orders the newest it is not told of.
    fn enough(&self, numbers: &[u64], surrogate: &Surrogate) -> usize {
        let mut newest: Vec<usize> = (0..numbers.len()).collect();
        newest.sort_unstable_by_key(|&i| Reverse(numbers[i]));
        newest.truncate(JUDGES);
        if newest.len() < TOO_FEW {
            return self.evaluated;
        }
        let pairs: Vec<(f64, f64)> =
            newest.iter().map(|&i| (surrogate.values[i], surrogate.left_out(i))).collect();
        let share = concordance(&pairs);
        let divisor = if share >= VERY_GOOD { 4 } else { 1 + usize::from(share >= GOOD) };
        (self.evaluated / divisor).max(1)
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
        let own_numbers: Vec<u64> = told.iter().map(|&(_, number)| number).collect();
        let (numbers, codes, losses) = known(history, &run.strategy, &own_numbers);
        let surrogate = run.scales.and_then(|scales| Surrogate::fit(codes, &losses, &[scales]));
        let Some(surrogate) = surrogate else {
            // Told draws come in the order of their merits, and the others in that of the slate.
            return own.into_iter().chain(rest).take(population).collect();
        };
        let value = |number: u64| {
            let at = numbers.iter().position(|known| *known == number);
            at.map_or(f64::INFINITY, |at| surrogate.values[at])
        };
        let mut ranked: Vec<(f64, Sample)> =
            own_numbers.iter().map(|&number| value(number)).zip(own).collect();
        ranked.extend(rest.map(|sample| {
            let code = run.strategy.whiten(&space.encode(&space.decode(&sample.x)));
            (surrogate.mean(&code), sample)
        }));
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranked.into_iter().take(population).map(|(_, sample)| sample).collect()
    }
}

/// The share of pairs whose values are in the order that is expected of them, among those whose values
/// differ.
fn concordance(expected: &[(f64, f64)]) -> f64 {
    let (mut right, mut all) = (0.0, 0.0);
    for (i, a) in expected.iter().enumerate() {
        for b in &expected[..i] {
            let order = a.0.total_cmp(&b.0);
            all += f64::from(u8::from(order.is_ne()));
            right += f64::from(u8::from(order.is_ne() && order == a.1.total_cmp(&b.1)));
        }
    }
    right / f64::max(all, 1.0)
}

/// The scales that a fit chooses among: those of the fit before, and with one of them a step away.
fn choices(history: &History, run: &Run) -> Vec<Scales> {
    let is_noisy = history.best().is_some_and(|best| best.sem.is_some_and(|sem| sem > 0.0));
    let nugget = if is_noisy { NOISY / history.evaluations() as f64 } else { FIRST.nugget };
    let length = FIRST.length * (history.space().unit_len() as f64).sqrt();
    let old = run.scales.unwrap_or(Scales { length, nugget, ..FIRST });
    let steps = [-1.0, 1.0].iter().flat_map(|sign| {
        [
            Scales { length: (old.length * STEPS.length.powf(*sign)).clamp(0.5, 200.0), ..old },
            Scales { nugget: (old.nugget * STEPS.nugget.powf(*sign)).clamp(1e-8, 0.1), ..old },
            Scales { trend: (old.trend * STEPS.trend.powf(*sign)).clamp(1e-4, 1e3), ..old },
            Scales { warp: (old.warp + STEPS.warp * sign).clamp(-5.0, 7.0), ..old },
        ]
    });
    std::iter::once(old).chain(steps).collect()
}

/// The nearest known points and those of `also`: their first trials, their codes and their losses.
fn known(history: &History, strategy: &Strategy, also: &[u64]) -> (Vec<u64>, Vec<Vec<f64>>, Losses) {
    let told = history.told();
    let newest = told[told.len().saturating_sub(NEWEST)..].iter().copied();
    let code = |number: u64| strategy.whiten(&history.space().encode(&history.trial(number).point));
    let mut near: Vec<(f64, u64, Vec<f64>)> = newest
        .filter(|&number| history.replicates(number)[0] == number && !also.contains(&number))
        .filter(|&number| history.merit(number).is_some_and(|merit| merit != Merit::Withdrawn))
        .map(|number| {
            let code = code(number);
            (dot(&code, &code), number, code)
        })
        .collect();
    near.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    near.truncate(NEAREST);
    let also = also.iter().map(|&number| (number, code(number)));
    let near = near.into_iter().map(|(_, number, code)| (number, code));
    let (numbers, codes): (Vec<u64>, Vec<Vec<f64>>) = near.chain(also).unzip();
    let merits: Vec<Merit> =
        numbers.iter().map(|&number| history.merit(number).unwrap_or(Merit::Withdrawn)).collect();
    (numbers, codes, Losses::new(&losses(&merits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concordance_counts_pairs_that_differ() {
        let share = concordance(&[(0.0, 1.0), (1.0, 2.0), (1.0, 0.0), (2.0, 3.0)]);
        assert!(
            (share - 0.8).abs() < 1e-12,
            "of five pairs whose values differ one is expected the other way"
        );
        assert!(concordance(&[(1.0, 1.0), (1.0, 2.0)]).abs() < 1e-12, "equal values have no order");
    }
}

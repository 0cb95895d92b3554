//! The best point of a study, kept up to date as trials end.

use pleach_search::{Best, History, Merit, Outcome};

use crate::live::owned;
use crate::store::Store;
use crate::{BestTrial, Error};

/// The best point so far.
///
/// While every point was measured once and without a standard error, it is updated with each
/// outcome; otherwise [`History::best`] is asked when the answer is needed.
#[derive(Debug)]
pub(crate) struct BestSoFar {
    best: Option<Best>,
    noisy: bool,
    stale: bool,
}

impl BestSoFar {
    pub(crate) fn of(history: &History) -> Self {
        let noisy = history.told().iter().any(|&number| is_noisy(history, number));
        Self { best: None, noisy, stale: true }
    }

    /// Learns that the outcome of a trial was recorded.
    pub(crate) fn told(&mut self, history: &History, number: u64) {
        self.noisy |= is_noisy(history, number);
        self.stale |= self.noisy;
        if self.stale {
            return;
        }
        let Some(Outcome::Measured(measurement)) = &history.trial(number).outcome else { return };
        let Some(merit) = history.merit(number) else { return };
        if self.best.is_none_or(|best| (merit, number) < (best.merit, best.number)) {
            let value = measurement.metrics[history.problem().objective_index()];
            self.best = Some(Best { number, value, sem: None, merit });
        }
    }

    pub(crate) fn get(&mut self, history: &History) -> Option<Best> {
        if self.stale {
            self.best = history.best();
            self.stale = false;
        }
        self.best
    }
}

/// Whether the best point may have to be found by comparing means.
fn is_noisy(history: &History, number: u64) -> bool {
    let measured_with_error =
        matches!(&history.trial(number).outcome, Some(Outcome::Measured(m)) if m.sem.is_some());
    measured_with_error || history.replicates(number).len() > 1
}

/// The best point with what its first trial reported.
pub(crate) fn best_trial(
    store: &Store,
    study: i64,
    history: &History,
    best: Best,
) -> Result<BestTrial, Error> {
    let mut metrics = Vec::new();
    store.each_row(study, best.number..best.number + 1, |number, row| {
        let row = row.map_err(|message| store.damaged(format!("trial {number}: {message}")))?;
        metrics = row.record.named_metrics(history.problem().metrics());
        Ok::<(), Error>(())
    })?;
    Ok(BestTrial {
        number: best.number,
        value: best.value,
        sem: best.sem,
        feasible: matches!(best.merit, Merit::Feasible(_)),
        params: owned(history.space().literals(&history.trial(best.number).point)),
        metrics,
    })
}

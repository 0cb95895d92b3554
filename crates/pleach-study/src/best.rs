//! The best point of a study, with what was reported of it.

use pleach_search::{Best, History, Merit};

use crate::live::owned;
use crate::store::Store;
use crate::{BestTrial, Error};

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

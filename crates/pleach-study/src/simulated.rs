//! Running a study in simulated time: evaluations are looked up, and take as long as was recorded.

use std::collections::BTreeMap;
use std::time::Instant;

use pleach_search::problems::Clock;

use crate::{
    Assignment, Error, Event, Filter, Finish, Reader, RunOptions, State, Study, Summary, Tell, Urgency,
};

/// Evaluates trials of `study` as [`run_workers`](crate::run_workers) does, but in simulated time:
/// a trial lasts as many seconds as its outcome costs (none if it has no cost), and outcomes are
/// told in the order in which so many workers would finish. Returns the simulated seconds, earlier
/// runs included.
///
/// The order depends on nothing but the costs: a run that was stopped at any moment and goes on
/// gives the trials of one that was not. That needs one process at a time, and equal workers.
///
/// # Errors
/// The first error of the study or of `evaluate`.
pub fn run_simulated(
    study: &Study,
    evaluate: &dyn Fn(&Assignment) -> Result<Tell, Error>,
    options: &RunOptions,
    observe: &dyn Fn(&Event<'_>),
) -> Result<(Summary, f64), Error> {
    let started = Instant::now();
    let mut clock = Clock::new(options.workers.max(1));
    let mut past = past(study)?.into_iter().peekable();
    let mut running: BTreeMap<u64, (Assignment, Tell)> = BTreeMap::new();
    let mut counts: BTreeMap<State, u64> = BTreeMap::new();
    let mut next = 0;
    let mut finish = None;
    loop {
        // What runs is given back, not finished: its place in the order is later.
        if options.stop.urgency() > Urgency::None {
            finish = Some(Finish::Stopped);
            break;
        }
        if options.wall.is_some_and(|wall| started.elapsed() >= wall) {
            finish = Some(Finish::Wall);
            break;
        }
        while clock.idle() > 0 {
            // Trials start in order of number, so those that are over tell when the others began.
            if let Some((number, seconds)) = past.next_if(|(number, _)| *number <= next) {
                if let Some(seconds) = seconds {
                    clock.start(number, seconds);
                }
                next = number + 1;
                continue;
            }
            if finish.is_some() {
                break;
            }
            match study.ask(&options.name, 1, options.trials).map(|mut trials| trials.pop()) {
                Ok(Some(assignment)) => {
                    observe(&Event::Started { assignment: &assignment });
                    let tell = evaluate(&assignment)?;
                    clock.start(assignment.number, seconds(&tell));
                    next = next.max(assignment.number + 1);
                    running.insert(assignment.number, (assignment, tell));
                }
                Ok(None) => finish = Some(Finish::Trials),
                Err(Error::Exhausted { .. }) => finish = Some(Finish::Exhausted),
                Err(error) => return Err(error),
            }
        }
        let Some(number) = clock.finish() else { break };
        let Some((assignment, tell)) = running.remove(&number) else { continue };
        let state = match study.tell(number, assignment.attempt, tell.clone()) {
            Ok(state) => state,
            // It was cancelled, or another process has it: not ours any more.
            Err(Error::Superseded { .. } | Error::Over { .. }) => continue,
            Err(error) => return Err(error),
        };
        *counts.entry(state).or_default() += 1;
        observe(&Event::Ended { assignment: &assignment, state, tell: &tell });
        let failures: u64 =
            [State::Failed, State::Timeout].iter().filter_map(|state| counts.get(state)).sum();
        if options.max_failures.is_some_and(|most| failures >= most) {
            finish = finish.or(Some(Finish::Failures));
        }
    }
    let finish = finish.unwrap_or(Finish::Stopped);
    for (number, (assignment, _)) in running {
        match study.tell(number, assignment.attempt, Tell::Retry) {
            Ok(_) | Err(Error::Superseded { .. } | Error::Over { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok((Summary { finish, counts, elapsed: started.elapsed() }, clock.now_s()))
}

fn seconds(tell: &Tell) -> f64 {
    match tell {
        Tell::Done(evaluation) => evaluation.cost.unwrap_or(0.0),
        _ => 0.0,
    }
}

/// The trials of earlier runs that are over, by number, with the time they took; those that were
/// evaluated elsewhere took none of ours.
fn past(study: &Study) -> Result<Vec<(u64, Option<f64>)>, Error> {
    let mut past = Vec::new();
    let reader = Reader::open(study.path())?;
    reader.for_each(Some(study.name()), &Filter::default(), |trial| {
        if trial.state.is_final() {
            past.push((trial.number, (trial.origin != "imported").then(|| trial.cost.unwrap_or(0.0))));
        }
        Ok::<(), Error>(())
    })?;
    Ok(past)
}

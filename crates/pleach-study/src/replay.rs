//! A study rebuilt from its rows.

use std::collections::BTreeMap;

use pleach_search::{Event, Options, Origin, Outcome, Parameter, Search, Value};

use crate::store::{Row, Snapshot, Store, StudyRow};
use crate::{Error, Spec, State};

/// What a study is rebuilt for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To go on.
    Continue,
    /// To look at its history: the state of its method is not rebuilt.
    Look,
    /// To see what its method knew when it was asked for this trial.
    Before(u64),
}

/// A study as its rows tell it.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// With the edits of the space.
    pub(crate) spec: Spec,
    pub(crate) search: Search,
    /// The state of every trial, by number.
    pub(crate) states: Vec<State>,
    /// The trials that are not over.
    pub(crate) open: BTreeMap<u64, Row>,
    /// Number of events.
    pub(crate) seq: u64,
    /// The last event that is part of a stored snapshot; 0 if there is none.
    pub(crate) snapshot_seq: u64,
}

/// Rebuilds a study: its events are the rows merged by their places.
///
/// A snapshot takes the place of the method's part in the events before it, if there is one that
/// fits; the result is the same without.
///
/// # Errors
/// [`Error::Damaged`] names what cannot be right.
pub(crate) fn replay(store: &Store, study: &StudyRow, purpose: Purpose) -> Result<Replayed, Error> {
    if purpose == Purpose::Look {
        // A method without state, so that the history is taken over as it is.
        let plain = Spec {
            method: "random".into(),
            options: Options::new(),
            descriptors: BTreeMap::new(),
            ..study.spec.clone()
        };
        return replay_from(store, study, &plain, Some(Snapshot { seq: END, data: Vec::new() }), None);
    }
    let until = if let Purpose::Before(number) = purpose { Some(number) } else { None };
    let snapshot = store.snapshot(study.id)?;
    match replay_from(store, study, &study.spec, snapshot, until) {
        Err(Error::Search(pleach_search::Error::Snapshot)) => {
            tracing::debug!(study = study.name, "the snapshot does not fit; every event is replayed");
            replay_from(store, study, &study.spec, None, until)
        }
        result => result,
    }
}

/// The place of a snapshot after all events.
const END: u64 = u64::MAX;

/// An event as the rows tell it.
enum Recorded {
    Asked(u64, Vec<Value>, Origin),
    Told(u64, Outcome),
    Edited(Vec<Parameter>),
}

/// `until`: the trial whose ask is left out, and all that came after.
fn replay_from(
    store: &Store,
    study: &StudyRow,
    spec: &Spec,
    snapshot: Option<Snapshot>,
    until: Option<u64>,
) -> Result<Replayed, Error> {
    let wrong = |number: u64, message: &str| store.damaged(format!("trial {number}: {message}"));
    let mut spec_now = study.spec.clone();
    let mut search = spec.search()?;

    let (mut events, mut states, mut open) = (Vec::new(), Vec::new(), BTreeMap::new());
    store.each_row(study.id, 0..u64::MAX, |number, row| {
        let expected = states.len() as u64;
        if number != expected {
            return Err(wrong(
                expected,
                &format!("its row is missing, while that of trial {number} is there"),
            ));
        }
        let mut row = row.map_err(|message| wrong(number, &message))?;
        let outcome = row
            .record
            .outcome(row.state, spec_now.metrics.len())
            .map_err(|message| wrong(number, message))?;
        match (outcome, row.tell_seq) {
            (Some(outcome), Some(seq)) => events.push((seq, Recorded::Told(number, outcome))),
            (None, None) => {}
            _ => {
                return Err(wrong(
                    number,
                    &format!("it is {}, which its place among the tells contradicts", row.state),
                ));
            }
        }
        let values = std::mem::take(&mut row.record.values);
        states.push(row.state);
        if !row.state.is_final() {
            row.record.values.clone_from(&values);
            open.insert(number, row.clone());
        }
        events.push((row.ask_seq, Recorded::Asked(number, values, row.record.origin)));
        Ok(())
    })?;
    let revisions = store.revisions(study.id)?;
    events.extend(revisions.into_iter().map(|(seq, parameters)| (seq, Recorded::Edited(parameters))));
    events.sort_by_key(|(seq, _)| *seq);
    let is_last = |event: &Recorded| matches!(event, Recorded::Asked(number, ..) if Some(*number) == until);
    let end = events.iter().position(|(_, event)| is_last(event)).unwrap_or(events.len());
    events.truncate(end);
    let total = events.len() as u64;
    if let Some(i) = (1..=total).zip(&events).find_map(|(i, (seq, _))| (*seq != i).then_some(i)) {
        return Err(store.damaged(format!("event {i} of study {} is missing", study.name)));
    }

    let restored = match &snapshot {
        None => 0,
        Some(Snapshot { seq: END, .. }) => total,
        // Of a longer history than there is.
        Some(snapshot) if snapshot.seq > total => return Err(Error::Search(pleach_search::Error::Snapshot)),
        Some(snapshot) => snapshot.seq,
    };
    let tail = events.split_off(usize::try_from(restored).expect("as many events are in memory"));
    if let Some(snapshot) = snapshot {
        // The last space before the snapshot holds at once: spaces only grow.
        for (_, event) in &events {
            if let Recorded::Edited(parameters) = event {
                spec_now.parameters.clone_from(parameters);
                search.edit_space(spec_now.space()?)?;
            }
        }
        let space = search.history().space().clone();
        let mut next_number = 0;
        let mut past = Vec::with_capacity(events.len());
        for (_, event) in events {
            match event {
                Recorded::Asked(number, values, origin) => {
                    if number != next_number {
                        return Err(wrong(number, "it was asked for out of order"));
                    }
                    next_number += 1;
                    let point = space.point(values).map_err(|error| wrong(number, &error.to_string()))?;
                    past.push(Event::Asked(point, origin));
                }
                Recorded::Told(number, _) if number >= next_number => {
                    return Err(wrong(number, "it was told before it was asked for"));
                }
                Recorded::Told(number, outcome) => past.push(Event::Told(number, outcome)),
                Recorded::Edited(_) => {}
            }
        }
        search.restore(past, &snapshot.data)?;
    }
    for (_, event) in tail {
        match event {
            Recorded::Asked(number, values, origin) => {
                if number != search.history().next_number() {
                    return Err(wrong(number, "it was asked for out of order"));
                }
                let point = search
                    .history()
                    .space()
                    .point(values)
                    .map_err(|error| wrong(number, &error.to_string()))?;
                search.replay(point, origin);
            }
            Recorded::Told(number, outcome) => {
                search.tell(number, outcome).map_err(|error| wrong(number, &error.to_string()))?;
            }
            Recorded::Edited(parameters) => {
                spec_now.parameters = parameters;
                search.edit_space(spec_now.space()?)?;
            }
        }
    }
    Ok(Replayed { spec: spec_now, search, states, open, seq: total, snapshot_seq: restored })
}

//! One study in memory: what its owner does with each request.
//!
//! A method that succeeds leaves memory and database agreeing. One that refuses has changed
//! nothing, unless it says otherwise; after one that fails for a reason of the file the owner takes
//! the transaction back and rebuilds the study from its rows.

mod ending;
mod holders;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pleach_search::{Best, Literal, Origin, Parameter, Search, method};

use crate::best::best_trial;
use crate::process::Holder;
use crate::record::Record;
use crate::replay::{Purpose, Replayed, replay};
use crate::store::{Row, Snapshot, Store, StudyRow};
use crate::{Assignment, Error, ImportRow, Progress, Spec, State, Tell};

/// For whom and when a request is carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) store: &'a Store,
    pub(crate) caller: Holder,
    pub(crate) now: Instant,
    /// For information in the rows only.
    pub(crate) now_ms: i64,
    pub(crate) max_lost: u32,
}

/// Most trials of one request: nobody else is served meanwhile.
const MAX_ASK: usize = 100_000;

/// A trial that is not over.
#[derive(Debug)]
struct Open {
    row: Row,
    /// Whether the database has its row.
    stored: bool,
    /// When its holder must have given a sign of life, by the monotonic clock of the owner.
    deadline: Option<Instant>,
    /// Its place among those to be handed out, while it is one.
    queued: Option<Place>,
}

/// Trials that were taken from a holder who died come before others, so that an interrupted run
/// goes on with what it was at; then the number decides.
type Place = (Turn, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    TakenBack,
    Other,
}

impl Open {
    fn new(row: Row) -> Self {
        Self { row, stored: false, deadline: None, queued: None }
    }

    fn queue(&mut self, waiting: &mut BTreeSet<Place>) {
        // A waiting trial keeps its holder only if that died.
        let turn = if self.row.record.holder.is_some() { Turn::TakenBack } else { Turn::Other };
        let place = (turn, self.row.number);
        waiting.insert(place);
        self.queued = Some(place);
    }

    fn renew(&mut self, now: Instant) {
        self.deadline =
            self.row.record.holder.and_then(|holder| holder.silence()).map(|silence| now + silence);
    }
}

/// A study in memory.
#[derive(Debug)]
pub(crate) struct Live {
    id: i64,
    /// As it was created.
    original: Spec,
    /// With the edits of the space.
    spec: Spec,
    search: Search,
    /// The state of every trial, by number.
    states: Vec<State>,
    counts: [u64; State::ALL.len()],
    /// Every trial that is not over.
    open: BTreeMap<u64, Open>,
    /// Those to be handed out, in that order.
    waiting: BTreeSet<Place>,
    /// Number of events.
    seq: u64,
    /// Events that are part of the last snapshot.
    snapshot_seq: u64,
    snapshot_bytes: u64,
    /// Whether holders that died while nobody owned the file have been looked for.
    swept: bool,
    /// The best point after so many tells; found again when there are more.
    best: (usize, Option<Best>),
}

impl Live {
    pub(crate) fn load(store: &Store, study: &StudyRow, now: Instant) -> Result<Self, Error> {
        let Replayed { spec, search, states, open, seq, snapshot_seq } =
            replay(store, study, Purpose::Continue)?;
        let mut counts = [0; State::ALL.len()];
        for &state in &states {
            counts[state as usize] += 1;
        }
        let mut waiting = BTreeSet::new();
        let open = open.into_iter().map(|(number, row)| {
            let mut open = Open { stored: true, ..Open::new(row) };
            match open.row.state {
                State::Waiting => open.queue(&mut waiting),
                _ => open.renew(now),
            }
            (number, open)
        });
        let open = open.collect();
        Ok(Self {
            id: study.id,
            original: study.spec.clone(),
            spec,
            best: (0, None),
            search,
            states,
            counts,
            open,
            waiting,
            seq,
            snapshot_seq,
            snapshot_bytes: 0,
            swept: false,
        })
    }

    pub(crate) fn original(&self) -> &Spec {
        &self.original
    }

    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Whether a worker holds a trial.
    pub(crate) fn is_held(&self) -> bool {
        self.counts[State::Running as usize] > 0
    }

    /// Hands out up to `n` trials with numbers below `limit`: waiting ones, then new ones.
    pub(crate) fn ask(
        &mut self,
        context: &Context<'_>,
        worker: &str,
        n: usize,
        limit: u64,
    ) -> Result<Vec<Assignment>, Error> {
        if n > MAX_ASK {
            return Err(Error::refused(format!("at most {MAX_ASK} trials can be asked for at once")));
        }
        if !self.swept {
            self.sweep(context)?;
        }
        let waiting = self.waiting.iter().map(|(_, number)| *number);
        let mut numbers: Vec<u64> = waiting.filter(|&number| number < limit).take(n).collect();
        let first = self.search.history().next_number();
        let room = usize::try_from(limit.saturating_sub(first)).unwrap_or(usize::MAX);
        let wanted = room.min(n - numbers.len());
        if wanted > 0 {
            let asked = self.search.ask(wanted);
            // The method may fail after it gave some; those count.
            for number in first..self.search.history().next_number() {
                self.append(context, number);
                numbers.push(number);
            }
            if numbers.is_empty() {
                asked?;
            }
        }
        numbers.into_iter().map(|number| self.hand_out(context, number, worker)).collect()
    }

    /// Enters a new trial of the search as a waiting one, without writing it yet.
    fn append(&mut self, context: &Context<'_>, number: u64) {
        let trial = self.search.history().trial(number);
        let record = Record::new(trial.point.values(), trial.origin.clone(), context.now_ms);
        self.seq += 1;
        let row = Row { number, state: State::Waiting, ask_seq: self.seq, tell_seq: None, record };
        self.states.push(State::Waiting);
        self.counts[State::Waiting as usize] += 1;
        let mut open = Open::new(row);
        open.queue(&mut self.waiting);
        self.open.insert(number, open);
    }

    fn hand_out(&mut self, context: &Context<'_>, number: u64, worker: &str) -> Result<Assignment, Error> {
        let open = self.open.get_mut(&number).expect("trials to be handed out are open");
        let record = &mut open.row.record;
        record.attempt += 1;
        record.started_ms = Some(context.now_ms);
        record.worker = Some(worker.to_owned());
        record.holder = Some(context.caller);
        let attempt = record.attempt;
        open.renew(context.now);
        self.write(context, number, State::Running)?;
        let history = self.search.history();
        Ok(Assignment {
            number,
            attempt,
            seed: history.seed().child("trial", number).value(),
            params: owned(history.space().literals(&history.trial(number).point)),
        })
    }

    /// Gives an open trial its state, in memory and in its row.
    fn write(&mut self, context: &Context<'_>, number: u64, state: State) -> Result<(), Error> {
        let open = self.open.get_mut(&number).expect("only open trials change");
        if state != State::Running {
            open.deadline = None;
        }
        open.row.state = state;
        if open.stored {
            context.store.update_trial(self.id, &open.row)?;
        } else {
            context.store.insert_trial(self.id, &open.row)?;
            open.stored = true;
        }
        let before = std::mem::replace(&mut self.states[index(number)], state);
        self.counts[before as usize] -= 1;
        self.counts[state as usize] += 1;
        if let Some(place) = open.queued.take() {
            self.waiting.remove(&place);
        }
        if state == State::Waiting {
            open.queue(&mut self.waiting);
        }
        if state.is_final() {
            self.open.remove(&number);
        }
        Ok(())
    }

    fn state(&self, number: u64) -> Result<State, Error> {
        let trials = self.states.len() as u64;
        if number < trials { Ok(self.states[index(number)]) } else { Err(Error::NoTrial { number, trials }) }
    }

    /// Adds a trial at a point of the user's.
    pub(crate) fn enqueue(
        &mut self,
        context: &Context<'_>,
        params: &BTreeMap<String, Literal>,
    ) -> Result<u64, Error> {
        let point = self.search.history().space().point_from_literals(params)?;
        let number = self.search.enqueue(point)?;
        self.append(context, number);
        self.write(context, number, State::Waiting)?;
        Ok(number)
    }

    /// Adds a trial that was evaluated elsewhere. If it is refused, the study must be rebuilt.
    pub(crate) fn import(&mut self, context: &Context<'_>, row: ImportRow) -> Result<(), Error> {
        if matches!(row.tell, Tell::Retry | Tell::Paused) {
            return Err(Error::refused("only finished trials can be imported"));
        }
        let point = self.search.history().space().point_from_literals(&row.params)?;
        let number = self.search.replay(point, Origin::Imported);
        self.append(context, number);
        let record = &mut self.open.get_mut(&number).expect("appended above").row.record;
        record.started_ms = row.started_ms;
        record.ended_ms = row.ended_ms;
        self.finish(context, number, row.tell).map(drop)
    }

    pub(crate) fn cancel(&mut self, context: &Context<'_>, number: u64) -> Result<(), Error> {
        let state = self.state(number)?;
        if state.is_final() {
            return Err(Error::Over { number, state });
        }
        self.finish(context, number, Tell::Cancelled).map(drop)
    }

    /// Has a trial evaluated again and returns its number, a new one if it is over.
    pub(crate) fn retry(&mut self, context: &Context<'_>, number: u64) -> Result<u64, Error> {
        match self.state(number)? {
            State::Waiting => {
                Err(Error::refused(format!("trial {number} is waiting to be evaluated already")))
            }
            State::Running => {
                Err(Error::refused(format!("trial {number} is being evaluated; cancel it first")))
            }
            State::Paused => {
                self.write(context, number, State::Waiting)?;
                Ok(number)
            }
            _ => {
                let point = self.search.history().trial(number).point.clone();
                let again = self.search.enqueue(point)?;
                self.append(context, again);
                self.write(context, again, State::Waiting)?;
                Ok(again)
            }
        }
    }

    /// Extends the space. If it is refused, the study must be rebuilt.
    pub(crate) fn edit_space(
        &mut self,
        context: &Context<'_>,
        parameters: Vec<Parameter>,
    ) -> Result<(), Error> {
        let constraints: Vec<&str> = self.spec.constraints.iter().map(String::as_str).collect();
        let space = self.search.history().space().edited(parameters, &constraints)?;
        let edited = Spec { parameters: space.parameters().to_vec(), ..self.spec.clone() };
        self.search.edit_space(space)?;
        self.seq += 1;
        context.store.add_revision(self.id, self.seq, &edited.parameters)?;
        self.spec = edited;
        Ok(())
    }

    pub(crate) fn progress(&mut self, store: &Store) -> Result<Progress, Error> {
        let counts = State::ALL.into_iter().map(|state| (state, self.counts[state as usize]));
        let mut progress = Progress {
            trials: self.states.len() as u64,
            counts: counts.filter(|(_, count)| *count > 0).collect(),
            best: None,
        };
        let history = self.search.history();
        if self.best.0 != history.told().len() {
            self.best = (history.told().len(), history.best());
        }
        if let Some(best) = self.best.1 {
            progress.best = Some(best_trial(store, self.id, history, best)?);
        }
        Ok(progress)
    }

    /// Stores the state of the method, so that less need be replayed; every so often, such that
    /// snapshots are a small part of all that is written, or now if `now` is set. Where replaying a
    /// trial takes milliseconds, they come sooner.
    pub(crate) fn keep_snapshot(&mut self, store: &Store, now: bool) -> Result<(), Error> {
        let fresh = self.seq - self.snapshot_seq;
        let deliberates = method(self.search.method()).is_ok_and(|entry| entry.deliberates);
        let (share, least) = if deliberates { (1000, 50) } else { (100, 1000) };
        let enough = if now { 1 } else { (self.snapshot_bytes / share).max(least) };
        if fresh < enough {
            return Ok(());
        }
        let snapshot = Snapshot { seq: self.seq, data: self.search.snapshot() };
        store.put_snapshot(self.id, &snapshot)?;
        self.snapshot_seq = self.seq;
        self.snapshot_bytes = snapshot.data.len() as u64;
        Ok(())
    }
}

/// Parameters with names of their own.
pub(crate) fn owned(literals: Vec<(&str, Literal)>) -> Vec<(String, Literal)> {
    literals.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("as many trials are in memory")
}

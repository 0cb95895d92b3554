//! A handle on a study.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pleach_search::{Literal, Parameter};

use crate::link::{Link, unexpected};
use crate::place::Place;
use crate::protocol::{Answer, NextAsk, Request};
use crate::{Assignment, Error, ImportRow, Progress, Spec, State, Tell};

/// When a change is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Acknowledged changes survive the death of any process; a power cut can take back the last
    /// ones (`SQLite`: WAL with `synchronous = NORMAL`).
    #[default]
    Process,
    /// Acknowledged changes survive a power cut; every commit waits for the disk (`synchronous = FULL`).
    Power,
}

/// How long a trial handed out through a handle stays with its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Lease {
    /// As long as the process that asked lives and keeps the study open.
    #[default]
    Process,
    /// For a time that [`Study::renew`] and [`Study::report`] start anew, whoever lives.
    For(Duration),
    /// Until it is told: for trials that people evaluate.
    Forever,
}

/// How a study is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// When a change is on the disk; the setting of the owning process counts.
    pub durability: Durability,
    /// How long trials handed out through this handle stay with their worker.
    pub lease: Lease,
    /// A trial whose worker died that often becomes [`State::Lost`]; the setting of the owning
    /// process counts.
    pub max_lost: u32,
    /// How long to wait for an owner that does not answer.
    pub patience: Duration,
}

impl Default for StoreOptions {
    /// Safe against dying processes, leases of the process, 10 lost workers, 60 s.
    fn default() -> Self {
        Self {
            durability: Durability::Process,
            lease: Lease::Process,
            max_lost: 10,
            patience: Duration::from_mins(1),
        }
    }
}

/// A study in a file, open for taking part.
///
/// This process owns the file, or talks to the process that does; which of the two may change
/// while the study is open and makes no difference to the caller.
/// Clones share one handle. When the last one is dropped, trials handed out through it and not
/// told are given back.
#[derive(Clone, Debug)]
pub struct Study {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    link: Link,
    id: i64,
    name: String,
    created_ms: i64,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = self.link.close(self.id) {
            tracing::debug!(%error, "the study was not closed in order");
        }
    }
}

impl Study {
    /// Opens the study of `spec`, and creates file and study where they do not exist.
    ///
    /// # Errors
    /// [`Error::SpecDiffers`] if there is a study of that name with another spec, what
    /// [`Spec::search`] finds wrong, and what is wrong with the file.
    pub fn create(path: &Path, spec: &Spec, options: &StoreOptions) -> Result<Self, Error> {
        Self::attach(Place::new(path)?, Request::Create(Box::new(spec.clone())), options)
    }

    /// Opens an existing study; its name may be left out if the file holds only one.
    ///
    /// # Errors
    /// [`Error::NoFile`], [`Error::NoStudy`], [`Error::ManyStudies`], and what is wrong with the file.
    pub fn open(path: &Path, name: Option<&str>, options: &StoreOptions) -> Result<Self, Error> {
        Place::existing(path)?;
        Self::attach(Place::new(path)?, Request::Open(name.map(str::to_owned)), options)
    }

    /// Removes a study with all its trials from a file; its folder of trials stays.
    ///
    /// # Errors
    /// [`Error::NoStudy`]; [`Error::Refused`] while a worker holds a trial of it.
    pub fn remove(path: &Path, name: &str) -> Result<(), Error> {
        Place::existing(path)?;
        let mut link = Link::new(Place::new(path)?, &StoreOptions::default())?;
        let removed = link.call(0, Request::Remove(name.to_owned())).map(drop);
        link.close(0).and(removed)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.inner.link.place().file()
    }

    /// The name of the study within its file.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The folder of a trial's files: `<file without .db>.trials/<study>/<number>`. It need not exist.
    pub fn trial_folder(&self, number: u64) -> PathBuf {
        self.inner.link.place().trials(self.name()).join(format!("{number:06}"))
    }

    /// Tells this study from any other that has or had its name and place: made of the time of its
    /// creation, and without spaces.
    pub fn id(&self) -> String {
        format!("{}-{}", self.inner.created_ms, self.inner.id)
    }

    /// What the study searches, edits of the space included.
    ///
    /// # Errors
    /// If the file or its owner cannot be reached.
    pub fn spec(&self) -> Result<Spec, Error> {
        match self.call(Request::Spec)? {
            Answer::Spec(spec) => Ok(*spec),
            other => Err(unexpected(&other)),
        }
    }

    /// Hands out up to `n` trials to `worker`: waiting ones first, then new ones with numbers below
    /// `limit`. None are left below the limit if the answer is empty.
    ///
    /// # Errors
    /// [`Error::Exhausted`] if the space has no new point and no trial waits; errors of the method
    /// and the file.
    pub fn ask(&self, worker: &str, n: usize, limit: Option<u64>) -> Result<Vec<Assignment>, Error> {
        match self.call(Request::Ask { worker: worker.to_owned(), n, limit })? {
            Answer::Trials(trials) => Ok(trials),
            other => Err(unexpected(&other)),
        }
    }

    /// Records how a trial ended and returns the state it got; on return the change is recorded as
    /// [`Durability`] says.
    ///
    /// `attempt` is that of the [`Assignment`]; `None` tells whatever attempt is running, and also a
    /// trial that waits (a person may evaluate one without asking).
    /// A worker whose trial was taken from it may still tell it while nobody else has it. For a
    /// trial that was cancelled meanwhile nothing is recorded, and the answer is [`State::Cancelled`].
    ///
    /// # Errors
    /// [`Error::Over`] for a trial that was told before, [`Error::Superseded`] if a later attempt is
    /// running, [`Error::NoTrial`], [`Error::NotRunning`], [`Error::Refused`] for values that do
    /// not fit, and errors of the file.
    pub fn tell(&self, number: u64, attempt: impl Into<Option<u32>>, tell: Tell) -> Result<State, Error> {
        match self.call(Request::Tell { number, attempt: attempt.into(), tell, ask: None })? {
            Answer::Told { state, .. } => Ok(state),
            other => Err(unexpected(&other)),
        }
    }

    /// [`Study::tell`], then [`Study::ask`] for one trial, in one commit.
    ///
    /// The ask is left out, and `None` returned, when no trial is left below `limit` or in the space.
    ///
    /// # Errors
    /// As [`Study::tell`] (nothing is asked then), and errors of the method.
    pub fn tell_and_ask(
        &self,
        number: u64,
        attempt: impl Into<Option<u32>>,
        tell: Tell,
        worker: &str,
        limit: Option<u64>,
    ) -> Result<(State, Option<Assignment>), Error> {
        let ask = Some(NextAsk { worker: worker.to_owned(), limit });
        match self.call(Request::Tell { number, attempt: attempt.into(), tell, ask })? {
            Answer::Told { state, next } => Ok((state, next)),
            other => Err(unexpected(&other)),
        }
    }

    /// Records intermediate values of a running trial, and renews its lease. Returns whether to go
    /// on: false if the trial was cancelled or handed to another worker meanwhile.
    ///
    /// # Errors
    /// [`Error::NoTrial`], and errors of the file.
    pub fn report(&self, number: u64, step: u64, metrics: BTreeMap<String, f64>) -> Result<bool, Error> {
        match self.call(Request::Report { number, step, metrics })? {
            Answer::GoOn(go_on) => Ok(go_on),
            other => Err(unexpected(&other)),
        }
    }

    /// Renews the leases of trials held by `worker`, and returns those it does not hold any more:
    /// they were cancelled, or handed to another worker.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn renew(&self, worker: &str, numbers: &[u64]) -> Result<Vec<u64>, Error> {
        match self.call(Request::Renew { worker: worker.to_owned(), numbers: numbers.to_vec() })? {
            Answer::Numbers(lost) => Ok(lost),
            other => Err(unexpected(&other)),
        }
    }

    /// Adds a trial at a point of the user's, to be handed out before new ones, and returns its number.
    ///
    /// # Errors
    /// [`Error::Refused`] (or [`Error::Search`]) if the point is not in the space.
    pub fn enqueue(&self, params: BTreeMap<String, Literal>) -> Result<u64, Error> {
        self.number(Request::Enqueue(params))
    }

    /// Adds trials that were evaluated elsewhere, all of them or none, and returns how many.
    ///
    /// # Errors
    /// [`Error::Refused`] names the first row (from 0) that does not fit.
    pub fn import(&self, rows: Vec<ImportRow>) -> Result<u64, Error> {
        self.number(Request::Import(rows))
    }

    /// Calls a trial off. A running one ends when its worker next reports or renews.
    ///
    /// # Errors
    /// [`Error::Over`] if it is over, [`Error::NoTrial`].
    pub fn cancel(&self, number: u64) -> Result<(), Error> {
        self.call(Request::Cancel(number)).map(drop)
    }

    /// Has a trial evaluated again: a paused one goes on under its number, one that is over gets a
    /// new trial at the same point. Returns the number to be handed out.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is waiting or running, [`Error::NoTrial`].
    pub fn retry(&self, number: u64) -> Result<u64, Error> {
        self.number(Request::Retry(number))
    }

    /// Extends the space: ranges may be widened and options appended.
    ///
    /// # Errors
    /// [`Error::Refused`] says what may not change.
    pub fn edit_space(&self, parameters: Vec<Parameter>) -> Result<(), Error> {
        self.call(Request::EditSpace(parameters)).map(drop)
    }

    /// How far the study is; cheap enough to be called at every trial.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn progress(&self) -> Result<Progress, Error> {
        match self.call(Request::Progress)? {
            Answer::Progress(progress) => Ok(*progress),
            other => Err(unexpected(&other)),
        }
    }

    /// Closes this handle and, if it was the last one and owns the file, leaves a snapshot for a
    /// quick start. Dropping does the same and keeps errors to itself.
    ///
    /// # Errors
    /// Errors of the file; every acknowledged change is recorded even then.
    pub fn close(self) -> Result<(), Error> {
        Arc::into_inner(self.inner).map_or(Ok(()), |mut inner| inner.link.close(inner.id))
    }

    fn attach(place: Place, request: Request, options: &StoreOptions) -> Result<Self, Error> {
        let mut link = Link::new(place, options)?;
        match link.call(0, request) {
            Ok(Answer::Study { id, name, created_ms }) => {
                Ok(Self { inner: Arc::new(Inner { link, id, name, created_ms }) })
            }
            other => {
                let closed = link.close(0);
                let answer = other?;
                closed?;
                Err(unexpected(&answer))
            }
        }
    }

    fn call(&self, request: Request) -> Result<Answer, Error> {
        self.inner.link.call(self.inner.id, request)
    }

    fn number(&self, request: Request) -> Result<u64, Error> {
        match self.call(request)? {
            Answer::Number(number) => Ok(number),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends the handle as the death of its process would: nothing is given back, no snapshot is
    /// left. For tests of what comes after.
    #[cfg(any(test, feature = "failpoints"))]
    pub fn crash(self) {
        if let Some(mut inner) = Arc::into_inner(self.inner) {
            // The database closes its log in order, which changes nothing that it holds.
            let _ = inner.link.end(false);
        }
    }
}

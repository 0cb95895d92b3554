//! The core of an owner: the database, the studies in memory, and transactions over both.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::live::{Context, Live};
use crate::process::Holder;
use crate::protocol::{Answer, Envelope, Reply, Request, Ticket};
use crate::store::{Store, StudyRow};
use crate::{Error, Spec, StoreOptions, failpoint};

/// A request with its sender.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) caller: Holder,
    pub(crate) envelope: Envelope,
}

/// The core of an owner.
#[derive(Debug)]
pub(crate) struct Engine {
    store: Store,
    /// Studies that were used; others are loaded when they are.
    live: BTreeMap<i64, Live>,
    /// The last request of each session that has a stored answer; 0 for none.
    sessions: HashMap<u64, u64>,
    /// Changes when another program writes to the file.
    data_version: i64,
    max_lost: u32,
}

impl Engine {
    pub(crate) fn new(store: Store, options: &StoreOptions) -> Result<Self, Error> {
        store.begin()?;
        store.prune_sessions(now_ms())?;
        store.commit()?;
        let data_version = store.data_version()?;
        Ok(Self {
            store,
            live: BTreeMap::new(),
            sessions: HashMap::new(),
            data_version,
            max_lost: options.max_lost.max(1),
        })
    }

    /// Carries out requests in one transaction; when it returns they are recorded.
    ///
    /// If the file fails, nothing of any of them is recorded, and each answer says so.
    pub(crate) fn run(&mut self, jobs: &[Job]) -> Vec<Reply> {
        // A panic is a defect of ours or of a method; the study must survive it.
        let result = catch_unwind(AssertUnwindSafe(|| self.transaction(jobs)));
        let error = match result {
            Ok(Ok(replies)) => return replies,
            Ok(Err(error)) => error,
            Err(panic) => Error::refused(format!(
                "internal error, nothing was recorded: {}",
                crate::panic_text(&*panic)
            )),
        };
        self.store.rollback();
        // What was in memory may be ahead of what is on the disk now.
        self.live.clear();
        self.sessions.clear();
        jobs.iter().map(|_| Err(error.clone())).collect()
    }

    fn transaction(&mut self, jobs: &[Job]) -> Result<Vec<Reply>, Error> {
        let writes = jobs.iter().any(|job| job.envelope.request.writes());
        if writes {
            self.store.begin()?;
        }
        let version = self.store.data_version()?;
        if version != self.data_version {
            tracing::debug!("another program wrote to the file; studies are loaded again");
            self.live.clear();
            self.sessions.clear();
            self.data_version = version;
        }
        let mut replies = Vec::with_capacity(jobs.len());
        for job in jobs {
            match self.once(job) {
                Err(error) if error.is_of_file() && writes => return Err(error),
                reply => replies.push(reply),
            }
        }
        if writes {
            for live in self.live.values_mut() {
                live.keep_snapshot(&self.store, false)?;
            }
            self.store.commit()?;
            failpoint::committed();
        }
        Ok(replies)
    }

    /// Carries out a request, or finds the answer that it got before.
    fn once(&mut self, job: &Job) -> Reply {
        let Some(Ticket { session, request }) =
            job.envelope.ticket.filter(|_| job.envelope.request.counts_once())
        else {
            return self.carry_out(job);
        };
        let last = match self.sessions.get(&session) {
            Some(&last) => last,
            None => self.store.session(session)?.map_or(0, |(last, _)| last),
        };
        if last >= request {
            let (_, answer) = self.store.session(session)?.unwrap_or_default();
            return serde_json::from_str(&answer)
                .map_err(|error| Error::refused(format!("the answer is not known any more ({error})")));
        }
        let answer = self.carry_out(job)?;
        let text = serde_json::to_string(&answer).map_err(|error| Error::refused(error.to_string()))?;
        self.store.put_session(session, request, &text, now_ms())?;
        self.sessions.insert(session, request);
        Ok(answer)
    }

    fn carry_out(&mut self, job: &Job) -> Reply {
        let Envelope { study, request, .. } = &job.envelope;
        let study = *study;
        match request {
            Request::Create(spec) => return self.create(spec),
            Request::Open(name) => return self.open(name.as_deref()),
            Request::Remove(name) => return self.remove(name, job.caller),
            Request::Close { sessions } => return self.close_handle(study, sessions, job.caller),
            _ => {}
        }
        self.load(study)?;
        let context = context(&self.store, job.caller, self.max_lost);
        let live = self.live.get_mut(&study).expect("loaded above");
        Ok(match request.clone() {
            Request::Spec => Answer::Spec(Box::new(live.spec().clone())),
            Request::Ask { worker, n, limit } => {
                Answer::Trials(live.ask(&context, &worker, n, limit.unwrap_or(u64::MAX))?)
            }
            Request::Tell { number, attempt, tell, ask } => {
                let state = live.tell(&context, number, attempt, tell)?;
                let next = match ask {
                    None => None,
                    Some(next) => match live.ask(&context, &next.worker, 1, next.limit.unwrap_or(u64::MAX)) {
                        Ok(mut trials) => trials.pop(),
                        Err(error) if error.is_of_file() => return Err(error),
                        // The tell stands; whoever asks again is told why.
                        Err(_) => None,
                    },
                };
                Answer::Told { state, next }
            }
            Request::Report { number, step, metrics } => {
                Answer::GoOn(live.report(&context, number, step, metrics)?)
            }
            Request::Renew { worker, numbers } => Answer::Numbers(live.renew(&context, &worker, &numbers)),
            Request::Enqueue(params) => Answer::Number(live.enqueue(&context, &params)?),
            Request::Cancel(number) => {
                live.cancel(&context, number)?;
                Answer::Nothing
            }
            Request::Retry(number) => Answer::Number(live.retry(&context, number)?),
            Request::Progress => Answer::Progress(Box::new(live.progress(&self.store)?)),
            Request::Import(rows) => {
                let count = rows.len() as u64;
                let import = |(i, row)| live.import(&context, row).map_err(|error| in_row(i, error));
                let result = self.store.all_or_nothing(|| rows.into_iter().enumerate().try_for_each(import));
                self.or_forget(study, result)?;
                Answer::Number(count)
            }
            Request::EditSpace(parameters) => {
                let result = self.store.all_or_nothing(|| live.edit_space(&context, parameters));
                self.or_forget(study, result)?;
                Answer::Nothing
            }
            Request::Create(_) | Request::Open(_) | Request::Remove(_) | Request::Close { .. } => {
                Answer::Nothing
            }
        })
    }

    /// After a failure that may have changed a study in memory, it is loaded again when needed.
    fn or_forget<T>(&mut self, study: i64, result: Result<T, Error>) -> Result<T, Error> {
        if result.is_err() {
            self.live.remove(&study);
        }
        result
    }

    fn load(&mut self, study: i64) -> Result<(), Error> {
        if !self.live.contains_key(&study) {
            let rows = self.store.studies()?;
            let gone = || Error::refused("the study was removed from its file");
            let row = rows.iter().find(|row| row.id == study).ok_or_else(gone)?;
            self.live.insert(study, Live::load(&self.store, row, Instant::now())?);
        }
        Ok(())
    }

    fn create(&mut self, spec: &Spec) -> Reply {
        let existing = self.store.studies()?.into_iter().find(|row| row.name == spec.name);
        let Some(StudyRow { id, name, created_ms, .. }) = existing else {
            spec.check_name()?;
            spec.search()?;
            let created_ms = now_ms();
            let id = self.store.add_study(spec, created_ms)?;
            return Ok(Answer::Study { id, created_ms, name: spec.name.clone() });
        };
        self.load(id)?;
        let live = &self.live[&id];
        if spec != live.spec() && spec != live.original() {
            return Err(Error::SpecDiffers { name, differences: live.spec().differences(spec) });
        }
        Ok(Answer::Study { id, created_ms, name })
    }

    fn open(&mut self, name: Option<&str>) -> Reply {
        let StudyRow { id, name, created_ms, .. } = pick(&self.store, name)?;
        self.load(id)?;
        Ok(Answer::Study { id, created_ms, name })
    }

    fn remove(&mut self, name: &str, caller: Holder) -> Reply {
        let StudyRow { id, .. } = pick(&self.store, Some(name))?;
        // A study that is damaged can be removed all the same.
        if self.load(id).is_ok() {
            let live = self.live.get_mut(&id).expect("loaded above");
            live.sweep(&context(&self.store, caller, self.max_lost))?;
            if live.is_held() {
                return Err(Error::refused(format!(
                    "trials of study {name} are running; end their workers or cancel them first"
                )));
            }
        }
        self.live.remove(&id);
        self.store.remove_study(id)?;
        Ok(Answer::Nothing)
    }

    fn close_handle(&mut self, study: i64, sessions: &[u64], caller: Holder) -> Reply {
        for &session in sessions {
            self.store.remove_session(session)?;
            self.sessions.remove(&session);
        }
        if let Some(live) = self.live.get_mut(&study) {
            live.release(&context(&self.store, caller, self.max_lost), caller.client)?;
        }
        Ok(Answer::Nothing)
    }

    /// Takes back the trials of workers that are gone.
    pub(crate) fn tick(&mut self, me: Holder) {
        let now = Instant::now();
        if self.live.values().all(|live| live.orphans(now).is_empty()) {
            return;
        }
        let result = self.store.begin().and_then(|()| {
            let context = context(&self.store, me, self.max_lost);
            self.live.values_mut().try_for_each(|live| live.sweep(&context))?;
            self.store.commit()
        });
        if let Err(error) = result {
            tracing::debug!(%error, "trials of lost workers could not be taken back yet");
            self.store.rollback();
            self.live.clear();
        }
    }

    /// Leaves a snapshot of every study, so that it is opened quickly.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        if self.live.is_empty() {
            return Ok(());
        }
        self.store.begin()?;
        // What another program wrote is not in memory, and a snapshot of ours would not fit.
        if self.store.data_version()? == self.data_version {
            self.live.values_mut().try_for_each(|live| live.keep_snapshot(&self.store, true))?;
        }
        self.store.commit()
    }
}

fn context(store: &Store, caller: Holder, max_lost: u32) -> Context<'_> {
    Context { store, caller, now: Instant::now(), now_ms: now_ms(), max_lost }
}

/// The study of that name, or the only one.
pub(crate) fn pick(store: &Store, name: Option<&str>) -> Result<StudyRow, Error> {
    let mut rows = store.studies()?;
    let known = || rows.iter().map(|row| row.name.clone()).collect();
    let path = || store.path().to_owned();
    match name {
        Some(name) => match rows.iter().position(|row| row.name == name) {
            Some(index) => Ok(rows.swap_remove(index)),
            None => Err(Error::NoStudy { path: path(), name: name.to_owned(), known: known() }),
        },
        None if rows.len() > 1 => Err(Error::ManyStudies { path: path(), known: known() }),
        None => rows
            .pop()
            .ok_or_else(|| Error::NotAStudy { path: path(), message: "it holds no study yet".into() }),
    }
}

/// Names the row of an import that was refused.
fn in_row(index: usize, error: Error) -> Error {
    if error.is_of_file() { error } else { Error::refused(format!("row {index}: {error}")) }
}

/// The clock on the wall, in Unix milliseconds.
pub(crate) fn now_ms() -> i64 {
    let millis = |time: std::time::Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(after) => millis(after),
        Err(error) => -millis(error.duration()),
    }
}

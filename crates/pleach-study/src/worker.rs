//! Workers: threads that ask for trials, evaluate them, and tell what came of them.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pleach_search::FailureClass;

use crate::{Assignment, Error, Evaluator, State, Stop, Study, Tell, TrialContext, Urgency, panic_text};

/// How a study is run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Number of trials evaluated at the same time; 1 or more.
    pub workers: usize,
    /// Run until the study has this many trials, those of earlier runs included.
    pub trials: Option<u64>,
    /// Ask for no more trials after this time; those that run are finished.
    pub wall: Option<Duration>,
    /// Ask for no more trials after this many of this run have failed or run out of time.
    pub max_failures: Option<u64>,
    /// What the workers are called in the study, each with a number behind it.
    pub name: String,
    /// Raised to end the run.
    pub stop: Stop,
}

impl Default for RunOptions {
    /// One worker named after this process, and no limits.
    fn default() -> Self {
        Self {
            workers: 1,
            trials: None,
            wall: None,
            max_failures: None,
            name: process::id().to_string(),
            stop: Stop::new(),
        }
    }
}

/// What happens in a run, for whoever shows it.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A worker begins to evaluate a trial.
    Started {
        /// The trial.
        assignment: &'a Assignment,
    },
    /// A trial has reported intermediate values.
    Reported {
        /// Its number.
        number: u64,
        /// The step.
        step: u64,
        /// The values.
        metrics: &'a BTreeMap<String, f64>,
    },
    /// The end of an attempt is recorded.
    Ended {
        /// The trial.
        assignment: &'a Assignment,
        /// Where it stands now; [`State::Waiting`] if it is to be evaluated again.
        state: State,
        /// What was told.
        tell: &'a Tell,
    },
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// The study has as many trials as were wanted.
    Trials,
    /// Every point of the space has been proposed.
    Exhausted,
    /// The time is over.
    Wall,
    /// Too many trials failed.
    Failures,
    /// It was asked to stop.
    Stopped,
}

impl fmt::Display for Finish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Finish::Trials => "all trials are done",
            Finish::Exhausted => "the space is exhausted",
            Finish::Wall => "the time is over",
            Finish::Failures => "too many trials failed",
            Finish::Stopped => "stopped on request",
        })
    }
}

/// What a run did.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Why it ended.
    pub finish: Finish,
    /// Attempts that ended in this run, by the state of the trial after them.
    pub counts: BTreeMap<State, u64>,
    /// How long it took.
    pub elapsed: Duration,
}

/// How often leases are renewed and cancelled trials are noticed.
const RENEW: Duration = Duration::from_secs(1);
/// How often a pause looks for reasons to end.
const LOOK: Duration = Duration::from_millis(200);

/// Evaluates trials of `study` until a limit is reached, the space is exhausted, or `options.stop`
/// is raised. Any number of processes may do so with one study at the same time.
///
/// `observe` is called from the threads of the workers.
///
/// # Errors
/// The first error of the study or of the evaluator; the other workers finish what they evaluate.
/// Outcomes that could not be recorded are not lost where the evaluator keeps them, as commands do.
pub fn run_workers(
    study: &Study,
    evaluator: &dyn Evaluator,
    options: &RunOptions,
    observe: &(dyn Fn(&Event<'_>) + Sync),
) -> Result<Summary, Error> {
    let started = Instant::now();
    let run = Run {
        study,
        evaluator,
        observe,
        stop: &options.stop,
        trials: options.trials,
        deadline: options.wall.and_then(|wall| started.checked_add(wall)),
        max_failures: options.max_failures.unwrap_or(u64::MAX),
        failures: AtomicU64::new(0),
        finish: Mutex::new(None),
        counts: Mutex::default(),
        running: Mutex::default(),
    };
    thread::scope(|scope| {
        let run = &run;
        let (alive, ended) = channel::<()>();
        let mut work: Vec<Box<dyn FnOnce() + Send>> = vec![Box::new(move || run.keep_leases(&ended))];
        // Never more than there can be work for.
        let most = options.trials.map_or(usize::MAX, |trials| usize::try_from(trials).unwrap_or(usize::MAX));
        for k in 0..options.workers.min(most).max(1) {
            let (alive, name) = (alive.clone(), format!("{}-{k}", options.name));
            work.push(Box::new(move || {
                run.work(&name);
                drop(alive);
            }));
        }
        drop(alive);
        for work in work {
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, work) {
                run.end(Err(Error::io("start a thread for", study.path(), error)));
            }
        }
    });
    let finish = into_inner(run.finish).unwrap_or(Ok(Finish::Stopped))?;
    Ok(Summary { finish, counts: into_inner(run.counts), elapsed: started.elapsed() })
}

/// What the workers of one run share.
pub(crate) struct Run<'a> {
    pub(crate) study: &'a Study,
    pub(crate) observe: &'a (dyn Fn(&Event<'_>) + Sync),
    pub(crate) stop: &'a Stop,
    evaluator: &'a dyn Evaluator,
    trials: Option<u64>,
    deadline: Option<Instant>,
    max_failures: u64,
    failures: AtomicU64,
    /// Why the run ends, as far as that is known.
    finish: Mutex<Option<Result<Finish, Error>>>,
    counts: Mutex<BTreeMap<State, u64>>,
    running: Mutex<BTreeMap<u64, Running>>,
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("finish", &self.finish).finish_non_exhaustive()
    }
}

/// A trial under evaluation.
#[derive(Clone, Debug)]
struct Running {
    worker: String,
    since: Instant,
    unwanted: Arc<AtomicBool>,
}

impl Run<'_> {
    /// One worker, to the end of the run.
    fn work(&self, worker: &str) {
        let mut next = None;
        while let Some(assignment) = next.take().or_else(|| self.ask(worker)) {
            match self.step(&assignment, worker) {
                Ok(following) => next = following,
                Err(error) => self.end(Err(error)),
            }
        }
    }

    /// The next trial, unless the run is to end.
    fn ask(&self, worker: &str) -> Option<Assignment> {
        if self.is_ending() {
            return None;
        }
        let finish = match self.study.ask(worker, 1, self.trials) {
            Ok(mut assignments) if !assignments.is_empty() => return assignments.pop(),
            Ok(_) => Ok(Finish::Trials),
            Err(Error::Exhausted { .. }) => Ok(Finish::Exhausted),
            Err(error) => Err(error),
        };
        self.end(finish);
        None
    }

    /// Evaluates a trial and tells what came of it; the next one.
    fn step(&self, assignment: &Assignment, worker: &str) -> Result<Option<Assignment>, Error> {
        let evaluated =
            if self.is_ending_early() { Ok(Tell::Retry) } else { self.evaluate(assignment, worker) };
        let (mut tell, error) = match evaluated {
            Ok(tell) => (tell, None),
            Err(error) => (Tell::Retry, Some(error)),
        };
        let Assignment { number, attempt, .. } = *assignment;
        let send = |tell: Tell| {
            if error.is_some() || self.is_ending() {
                self.study.tell(number, attempt, tell).map(|state| (state, None))
            } else {
                self.study.tell_and_ask(number, attempt, tell, worker, self.trials)
            }
        };
        let mut told = send(tell.clone());
        if let Err(Error::Unusable { message, .. }) = told {
            // Nothing else will ever come of it, and the other trials are as good as before.
            tell = Tell::Failed { class: FailureClass::Crashed, reason: Some(message), peak_rss_bytes: None };
            told = send(tell.clone());
        }
        if let Some(error) = error {
            return Err(error);
        }
        let (state, next) = match told {
            Ok(told) => told,
            // Somebody else has the trial, or has told it: not ours any more.
            Err(error @ (Error::Superseded { .. } | Error::Over { .. })) => {
                tracing::warn!(trial = number, %error, "an outcome came too late");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        *lock(&self.counts).entry(state).or_default() += 1;
        if matches!(state, State::Failed | State::Timeout)
            && self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= self.max_failures
        {
            self.end(Ok(Finish::Failures));
        }
        (self.observe)(&Event::Ended { assignment, state, tell: &tell });
        Ok(next)
    }

    fn evaluate(&self, assignment: &Assignment, worker: &str) -> Result<Tell, Error> {
        let number = assignment.number;
        let unwanted = Arc::new(AtomicBool::new(false));
        let running =
            Running { worker: worker.to_owned(), since: Instant::now(), unwanted: unwanted.clone() };
        lock(&self.running).insert(number, running);
        (self.observe)(&Event::Started { assignment });
        let context = TrialContext::new(self, number, &unwanted);
        let evaluated = catch_unwind(AssertUnwindSafe(|| self.evaluator.evaluate(assignment, &context)));
        lock(&self.running).remove(&number);
        evaluated.unwrap_or_else(|panic| {
            let reason = Some(format!("the evaluation panicked: {}", panic_text(&*panic)));
            Ok(Tell::Failed { class: FailureClass::Crashed, reason, peak_rss_bytes: None })
        })
    }

    /// Notes why the run ends. An error outranks an order to end, and that a worker without work.
    fn end(&self, finish: Result<Finish, Error>) {
        if let Err(error) = &finish {
            tracing::error!(%error, "the run ends, after the trials that are under evaluation");
        }
        let rank = |finish: &Result<Finish, Error>| match finish {
            Ok(Finish::Trials | Finish::Exhausted) => 0,
            Ok(_) => 1,
            Err(_) => 2,
        };
        let mut current = lock(&self.finish);
        if current.as_ref().is_none_or(|current| rank(current) < rank(&finish)) {
            *current = Some(finish);
        }
    }

    /// Whether no more trials are to be started. That one worker found none left does not count:
    /// another may still have to evaluate one again.
    fn is_ending(&self) -> bool {
        if self.stop.urgency() > Urgency::None {
            self.end(Ok(Finish::Stopped));
        } else if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.end(Ok(Finish::Wall));
        }
        !matches!(*lock(&self.finish), None | Some(Ok(Finish::Trials | Finish::Exhausted)))
    }

    /// Whether trials that were handed out are to be given back: not if there are just no more.
    fn is_ending_early(&self) -> bool {
        self.is_ending() && !matches!(*lock(&self.finish), Some(Ok(Finish::Trials | Finish::Exhausted)))
    }

    /// Waits, until `enough` or the run is ending; true if all the time has passed.
    pub(crate) fn wait(&self, time: Duration, enough: &dyn Fn() -> bool) -> bool {
        let started = Instant::now();
        loop {
            let left = time.saturating_sub(started.elapsed());
            if left.is_zero() {
                return true;
            }
            if self.is_ending() || enough() || self.stop.wait(left.min(LOOK)) {
                return false;
            }
        }
    }

    /// Renews the leases of trials that take long, and notices which ones were called off.
    fn keep_leases(&self, ended: &Receiver<()>) {
        while ended.recv_timeout(RENEW) == Err(RecvTimeoutError::Timeout) {
            let running = lock(&self.running).clone();
            for (number, trial) in running.iter().filter(|(_, trial)| trial.since.elapsed() >= RENEW) {
                match self.study.renew(&trial.worker, &[*number]) {
                    Ok(lost) => trial.unwanted.fetch_or(lost.contains(number), Ordering::Relaxed),
                    Err(error) => {
                        tracing::warn!(trial = number, %error, "a lease could not be renewed");
                        false
                    }
                };
            }
        }
    }
}

/// No invariant spans what these locks guard, so a panic elsewhere does not spoil them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

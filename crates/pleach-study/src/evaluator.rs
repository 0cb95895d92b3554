//! What evaluates trials, and what it is told about the run it is part of.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::worker::Run;
use crate::{Assignment, Error, Event, Study, Tell, Urgency};

/// Evaluates trials, several at the same time.
///
/// Closures of the same form are evaluators. A panic is a failed trial.
pub trait Evaluator: Sync {
    /// Evaluates one trial. [`Tell::Retry`] gives it back, to be evaluated again.
    ///
    /// # Errors
    /// What keeps any trial from being evaluated, such as a full disk: the run drains and ends with
    /// this error, and the trial is given back. A trial that fails is no error.
    fn evaluate(&self, assignment: &Assignment, context: &TrialContext<'_>) -> Result<Tell, Error>;
}

impl<F> Evaluator for F
where
    F: Fn(&Assignment, &TrialContext<'_>) -> Result<Tell, Error> + Sync,
{
    fn evaluate(&self, assignment: &Assignment, context: &TrialContext<'_>) -> Result<Tell, Error> {
        self(assignment, context)
    }
}

/// The run around one evaluation.
#[derive(Debug)]
pub struct TrialContext<'a> {
    run: &'a Run<'a>,
    number: u64,
    /// Raised when the trial was cancelled, or handed to another worker.
    unwanted: &'a AtomicBool,
}

impl<'a> TrialContext<'a> {
    pub(crate) fn new(run: &'a Run<'a>, number: u64, unwanted: &'a AtomicBool) -> Self {
        Self { run, number, unwanted }
    }

    /// The study that is run.
    pub fn study(&self) -> &'a Study {
        self.run.study
    }

    /// Records intermediate values; false means that the trial should stop.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn report(&self, step: u64, metrics: BTreeMap<String, f64>) -> Result<bool, Error> {
        (self.run.observe)(&Event::Reported { number: self.number, step, metrics: &metrics });
        if !self.run.study.report(self.number, step, metrics)? {
            self.unwanted.store(true, Ordering::Relaxed);
        }
        Ok(!self.is_unwanted())
    }

    /// Whether the outcome is no longer wanted: the trial was cancelled, or taken away.
    pub fn is_unwanted(&self) -> bool {
        self.unwanted.load(Ordering::Relaxed)
    }

    /// Whether the run was asked to end at once: give the trial back with [`Tell::Retry`].
    pub fn is_killed(&self) -> bool {
        self.run.stop.urgency() == Urgency::Kill
    }

    /// Whether to stop, for either reason.
    pub fn should_stop(&self) -> bool {
        self.is_unwanted() || self.is_killed()
    }

    /// Waits, less long if the run is to end or the trial is unwanted; true if the time has passed.
    pub fn wait(&self, time: Duration) -> bool {
        self.run.wait(time, &|| self.is_unwanted())
    }
}

//! Evaluating trials by a closure of this process.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicBool, Ordering};

use pleach_search::{FailureClass, Literal};

use crate::{Assignment, Error, Evaluation, Progress, RunOptions, Study, Tell, TrialContext, run_workers};

impl Study {
    /// Evaluates `objective` until the study has `trials` trials, on `workers` threads.
    ///
    /// An error or panic of the objective is a failed trial, and the study goes on. The study ends
    /// early if the space is exhausted.
    ///
    /// # Errors
    /// Errors of the method and the file.
    pub fn optimize<F, E>(&self, trials: u64, workers: usize, objective: F) -> Result<Progress, Error>
    where
        F: Fn(&TrialHandle<'_>) -> Result<E, Box<dyn StdError>> + Sync,
        E: Into<Evaluation>,
    {
        let evaluate = |assignment: &Assignment, context: &TrialContext<'_>| {
            let trial = TrialHandle { assignment, context, stopped: AtomicBool::new(false) };
            Ok(match objective(&trial) {
                Ok(evaluation) if !trial.stopped.load(Ordering::Relaxed) => Tell::Done(evaluation.into()),
                Ok(_) if context.is_unwanted() => Tell::Cancelled,
                Ok(_) => Tell::Retry,
                Err(error) => Tell::Failed {
                    class: FailureClass::Crashed,
                    reason: Some(chain(&*error)),
                    peak_rss_bytes: None,
                },
            })
        };
        let options = RunOptions { workers, trials: Some(trials), ..RunOptions::default() };
        run_workers(self, &evaluate, &options, &|_| {})?;
        self.progress()
    }
}

/// A trial under evaluation by [`Study::optimize`].
#[derive(Debug)]
pub struct TrialHandle<'a> {
    assignment: &'a Assignment,
    context: &'a TrialContext<'a>,
    /// Whether the objective was told to stop, so that what it returns is no measurement.
    stopped: AtomicBool,
}

impl TrialHandle<'_> {
    /// The trial as it was handed out.
    pub fn assignment(&self) -> &Assignment {
        self.assignment
    }

    /// The value of a float or int parameter.
    ///
    /// # Errors
    /// If the trial has no such number; it becomes the error of the trial when passed on with `?`.
    pub fn f64(&self, name: &str) -> Result<f64, Error> {
        self.get(name, "a number", Literal::as_f64)
    }

    /// The value of an int parameter.
    ///
    /// # Errors
    /// As [`TrialHandle::f64`].
    pub fn i64(&self, name: &str) -> Result<i64, Error> {
        self.get(name, "an int", |value| match value {
            Literal::Int(k) => Some(*k),
            _ => None,
        })
    }

    /// The value of a bool parameter.
    ///
    /// # Errors
    /// As [`TrialHandle::f64`].
    pub fn bool(&self, name: &str) -> Result<bool, Error> {
        self.get(name, "a bool", |value| match value {
            Literal::Bool(b) => Some(*b),
            _ => None,
        })
    }

    /// The value of a categorical or ordinal parameter whose options are texts.
    ///
    /// # Errors
    /// As [`TrialHandle::f64`].
    pub fn text(&self, name: &str) -> Result<&str, Error> {
        self.get(name, "a text", |value| match value {
            Literal::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Records intermediate values; false asks to stop.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn report(&self, step: u64, evaluation: impl Into<Evaluation>) -> Result<bool, Error> {
        self.context.report(step, evaluation.into().metrics)?;
        Ok(!self.should_stop())
    }

    /// Whether the trial was cancelled or taken away, which makes its outcome worthless.
    pub fn should_stop(&self) -> bool {
        let stop = self.context.should_stop();
        self.stopped.fetch_or(stop, Ordering::Relaxed);
        stop
    }

    fn get<'v, T>(
        &'v self,
        name: &str,
        kind: &str,
        read: impl Fn(&'v Literal) -> Option<T>,
    ) -> Result<T, Error> {
        let Some(value) = self.assignment.param(name) else {
            let known: Vec<&str> = self.assignment.params.iter().map(|(name, _)| name.as_str()).collect();
            let message =
                format!("no parameter {name} is active in this trial; there are {}", known.join(", "));
            return Err(Error::Refused { message });
        };
        read(value)
            .ok_or_else(|| Error::Refused { message: format!("parameter {name} = {value} is not {kind}") })
    }
}

/// An error and its sources in one line.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.extend([": ", &error.to_string()]);
        cause = error.source();
    }
    text
}

//! How trials end, and what they report before.

use std::collections::BTreeMap;

use pleach_search::{FailureClass, Measurement, Outcome};

use super::{Context, Live};
use crate::record::Name;
use crate::{Error, State, Tell};

impl Live {
    /// Records how a trial ended, or that its worker gives it up.
    pub(crate) fn tell(
        &mut self,
        context: &Context<'_>,
        number: u64,
        attempt: Option<u32>,
        tell: Tell,
    ) -> Result<State, Error> {
        let state = self.state(number)?;
        if state == State::Cancelled && attempt.is_some() {
            // Its worker cannot know yet.
            return Ok(state);
        }
        if state.is_final() {
            return Err(Error::Over { number, state });
        }
        let current = self.open[&number].row.record.attempt;
        match attempt {
            Some(attempt) if attempt < current => return Err(Error::Superseded { number, attempt, current }),
            Some(attempt) if attempt > current => return Err(Error::NotRunning { number, state }),
            _ => {}
        }
        match tell {
            Tell::Retry => self.give_back(context, number, State::Waiting),
            Tell::Paused => self.give_back(context, number, State::Paused),
            tell => self.finish(context, number, tell),
        }
    }

    /// Takes an open trial from its holder, who gives it up.
    pub(super) fn give_back(
        &mut self,
        context: &Context<'_>,
        number: u64,
        state: State,
    ) -> Result<State, Error> {
        self.open.get_mut(&number).expect("the trial is open").row.record.holder = None;
        self.write(context, number, state)?;
        Ok(state)
    }

    /// Ends an open trial.
    pub(super) fn finish(&mut self, context: &Context<'_>, number: u64, tell: Tell) -> Result<State, Error> {
        let mut found = self.judge(context, number, tell)?;
        let outcome = self.search.check(number, found.outcome)?;
        if let Outcome::Failed(class) = &outcome
            && found.state == State::Done
        {
            found.state = State::Failed;
            found.failure = Some(*class);
        }
        self.search.tell(number, outcome)?;
        self.seq += 1;
        let open = self.open.get_mut(&number).expect("the trial is open");
        open.row.tell_seq = Some(self.seq);
        let record = &mut open.row.record;
        record.holder = None;
        record.ended_ms.get_or_insert(context.now_ms);
        record.metrics = found.metrics;
        record.sem = found.sem;
        record.cost = found.cost;
        record.features = found.features;
        record.failure = found.failure;
        record.error = found.error;
        record.peak_rss_bytes = found.peak_rss_bytes;
        self.write(context, number, found.state)?;
        Ok(found.state)
    }

    /// What a tell means for this study, and for its method.
    fn judge(&self, context: &Context<'_>, number: u64, tell: Tell) -> Result<Found, Error> {
        let mut found = Found::default();
        match tell {
            Tell::Done(evaluation) => {
                found.metrics = self.resolve(evaluation.metrics);
                found.error = evaluation.note;
                let declared = &self.spec.metrics;
                let given =
                    found.metrics.iter().filter(|(name, _)| matches!(name, Name::Declared(_))).count();
                if given == declared.len() {
                    found.state = State::Done;
                    found.outcome = Outcome::Measured(Measurement {
                        metrics: found.metrics.iter().take(given).map(|(_, value)| *value).collect(),
                        sem: evaluation.sem,
                        cost: evaluation.cost,
                        features: evaluation.features.clone(),
                    });
                } else {
                    let is_missing =
                        |index: &usize| found.metrics.iter().all(|(name, _)| *name != Name::Declared(*index));
                    let missing: Vec<&str> =
                        (0..declared.len()).filter(is_missing).map(|i| declared[i].name.as_str()).collect();
                    found.fail(
                        FailureClass::MetricMissing,
                        Some(format!("not reported: {}", missing.join(", "))),
                    );
                }
                (found.sem, found.cost, found.features) =
                    (evaluation.sem, evaluation.cost, evaluation.features);
            }
            Tell::Infeasible { reason } => {
                found.state = State::Infeasible;
                found.outcome = Outcome::Infeasible;
                found.error = reason;
            }
            Tell::Failed { class: FailureClass::Timeout, reason, peak_rss_bytes } => {
                found = self.judge(context, number, Tell::Timeout)?;
                (found.error, found.peak_rss_bytes) = (reason, peak_rss_bytes);
            }
            Tell::Failed { class, reason, peak_rss_bytes } => {
                found.fail(class, reason);
                found.peak_rss_bytes = peak_rss_bytes;
            }
            Tell::Timeout => {
                found.state = State::Timeout;
                found.outcome = Outcome::Failed(FailureClass::Timeout);
                found.metrics = self.last_report(context, number)?;
            }
            Tell::Pruned => {
                found.state = State::Pruned;
                found.metrics = self.last_report(context, number)?;
            }
            Tell::Lost => found.state = State::Lost,
            Tell::Cancelled => found.state = State::Cancelled,
            Tell::Retry | Tell::Paused => return Err(Error::refused("a finished trial is needed")),
        }
        Ok(found)
    }

    fn last_report(&self, context: &Context<'_>, number: u64) -> Result<Vec<(Name, f64)>, Error> {
        let last = context.store.reports(self.id, number, true)?;
        Ok(last.into_iter().next().map(|(_, metrics)| metrics).unwrap_or_default())
    }

    /// Metrics by index where the study declares them, in its order, then the others by name.
    fn resolve(&self, mut metrics: BTreeMap<String, f64>) -> Vec<(Name, f64)> {
        let problem = self.search.history().problem();
        if let Some(value) = metrics.remove("") {
            metrics.entry(problem.objective().name.clone()).or_insert(value);
        }
        let declared: Vec<_> = problem
            .metrics()
            .iter()
            .enumerate()
            .filter_map(|(i, metric)| Some((Name::Declared(i), metrics.remove(&metric.name)?)))
            .collect();
        declared
            .into_iter()
            .chain(metrics.into_iter().map(|(name, value)| (Name::Other(name), value)))
            .collect()
    }

    /// Records intermediate values; false if the trial is not running (any more).
    pub(crate) fn report(
        &mut self,
        context: &Context<'_>,
        number: u64,
        step: u64,
        metrics: BTreeMap<String, f64>,
    ) -> Result<bool, Error> {
        if self.state(number)? != State::Running {
            return Ok(false);
        }
        context.store.put_report(self.id, number, step, &self.resolve(metrics))?;
        self.open.get_mut(&number).expect("running trials are open").renew(context.now);
        Ok(true)
    }
}

/// What is recorded of a trial that ends.
#[derive(Debug)]
struct Found {
    state: State,
    outcome: Outcome,
    metrics: Vec<(Name, f64)>,
    sem: Option<f64>,
    cost: Option<f64>,
    features: Option<Vec<f64>>,
    failure: Option<FailureClass>,
    error: Option<String>,
    peak_rss_bytes: Option<u64>,
}

impl Default for Found {
    /// Nothing that a method could learn from.
    fn default() -> Self {
        Self {
            state: State::Lost,
            outcome: Outcome::Withdrawn,
            metrics: Vec::new(),
            sem: None,
            cost: None,
            features: None,
            failure: None,
            error: None,
            peak_rss_bytes: None,
        }
    }
}

impl Found {
    fn fail(&mut self, class: FailureClass, reason: Option<String>) {
        self.state = State::Failed;
        self.outcome = Outcome::Failed(class);
        self.failure = Some(class);
        self.error = reason;
    }
}

//! The driver: one problem, one method, one seed.

use crate::{
    Entry, Error, History, Literal, Optimizer, Options, Origin, Outcome, Partition, Point, Problem, Proposal,
    Region, Seed, Space, Trial, method,
};

/// The option of every method that asks for several evaluations of each point.
pub const REPLICATES: &str = "replicates";

/// A search: hands out trials and learns their outcomes.
///
/// Its state is a function of the seed and the ordered events: the same calls of [`Search::ask`],
/// [`Search::enqueue`] and [`Search::tell`] give the same points, and [`Search::replay`] takes the
/// place of an ask whose point is known, so that a recorded run is followed without asking again.
pub struct Search {
    history: History,
    method: &'static str,
    optimizer: Box<dyn Optimizer>,
}

impl std::fmt::Debug for Search {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Search")
            .field("method", &self.method)
            .field("trials", &self.history.next_number())
            .finish_non_exhaustive()
    }
}

impl Search {
    /// A search by the method of that name. `options` are the method's own, and `replicates`: how
    /// often each point is evaluated (1 unless given).
    ///
    /// # Errors
    /// [`Error::Unknown`] for a name that is not registered, [`Error::Option`] for an option the
    /// method does not have, [`Error::Unsuitable`] if it cannot search this space.
    pub fn new(problem: Problem, name: &str, options: &Options, seed: Seed) -> Result<Self, Error> {
        Self::with(method(name)?, problem, options, seed)
    }

    /// As [`Search::new`], by a method that need not be registered.
    ///
    /// # Errors
    /// As [`Search::new`].
    pub fn with(entry: &Entry, problem: Problem, options: &Options, seed: Seed) -> Result<Self, Error> {
        let mut options = options.clone();
        let replicates = match options.remove(REPLICATES) {
            None => 1,
            Some(Literal::Int(n @ 1..=1_000_000)) => usize::try_from(n).unwrap_or(1),
            Some(other) => {
                let message = format!("expected a whole number from 1 on, got {other}");
                return Err(Error::Option { method: entry.name.into(), option: REPLICATES.into(), message });
            }
        };
        let history = History::new(problem, seed, replicates);
        let optimizer = entry.build(&history, &options)?;
        Ok(Self { history, method: entry.name, optimizer })
    }

    /// Everything asked and told so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The registered name of the method.
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// The partition of the space that the method has learned so far, if it learns one.
    pub fn partition(&self) -> Option<Partition> {
        self.optimizer.partition(&self.history)
    }

    /// Hands out `n` new trials and returns their numbers.
    ///
    /// Fewer than `n` come back if the space is exhausted on the way.
    ///
    /// # Errors
    /// [`Error::Exhausted`] if not even one new point is left; what [`History::sample`] returns.
    pub fn ask(&mut self, n: usize) -> Result<Vec<u64>, Error> {
        let mut numbers = Vec::with_capacity(n);
        while numbers.len() < n {
            if let Some(of) = self.open_replicate() {
                let point = self.history.trial(of).point.clone();
                numbers.push(self.add(point, Origin::Replicate { of }));
                continue;
            }
            // With replicates, points are proposed one at a time so that their trials stay together.
            let wanted = if self.history.evaluations() > 1 { 1 } else { n - numbers.len() };
            let proposals = match self.optimizer.ask(&self.history, &Region::whole(), wanted) {
                Ok(proposals) if proposals.is_empty() => {
                    Err(Error::Exhausted { points: self.history.distinct() })
                }
                other => other,
            };
            // An error is for the next call if this one has handed out trials.
            match proposals.and_then(|proposals| self.hand_out(proposals, wanted, &mut numbers)) {
                Err(error) if numbers.is_empty() => return Err(error),
                Err(_) => return Ok(numbers),
                Ok(()) => {}
            }
        }
        Ok(numbers)
    }

    /// Adds trials at the proposals; one that was made before is replaced by a new point.
    fn hand_out(
        &mut self,
        proposals: Vec<Proposal>,
        wanted: usize,
        numbers: &mut Vec<u64>,
    ) -> Result<(), Error> {
        for Proposal { point, detail } in proposals.into_iter().take(wanted) {
            let (point, origin) = if self.history.is_new(&point) && self.history.space().admits(&point) {
                (point, Origin::Method { detail: detail.into() })
            } else {
                let mut rng = self.history.seed().child("fresh", 0).rng(self.history.next_number());
                (self.history.fresh(&mut rng)?, Origin::Fresh)
            };
            numbers.push(self.add(point, origin));
        }
        Ok(())
    }

    /// The first trial of the newest point of the method's if that is to be evaluated again.
    fn open_replicate(&self) -> Option<u64> {
        if self.history.evaluations() == 1 {
            return None;
        }
        let is_foreign = |trial: &&Trial| matches!(trial.origin, Origin::Enqueued | Origin::Imported);
        let newest = self.history.trials().iter().rev().find(|trial| !is_foreign(trial))?;
        let group = self.history.replicates(newest.number);
        (group.len() < self.history.evaluations()).then_some(group[0])
    }

    /// Adds a trial at a point of the user's; a point that was proposed before is evaluated again.
    ///
    /// # Errors
    /// [`Error::Constraint`] if it breaks a known constraint.
    pub fn enqueue(&mut self, point: Point) -> Result<u64, Error> {
        if let Some(constraint) = self.history.space().broken(&point) {
            return Err(Error::Constraint { constraint: constraint.to_owned() });
        }
        Ok(self.add(point, Origin::Enqueued))
    }

    /// Follows an ask whose point and origin are recorded.
    pub fn replay(&mut self, point: Point, origin: Origin) -> u64 {
        self.add(point, origin)
    }

    fn add(&mut self, point: Point, origin: Origin) -> u64 {
        let number = self.history.push(point, origin);
        self.optimizer.asked(&self.history, &Region::whole(), number);
        number
    }

    /// Records what came of a trial; trials may be told in any order.
    ///
    /// A measurement with a value that is not finite becomes [`FailureClass::Diverged`].
    /// Returns the outcome as recorded.
    ///
    /// [`FailureClass::Diverged`]: crate::FailureClass::Diverged
    ///
    /// # Errors
    /// [`Error::Trial`] if there is no such trial, if it was told before, or if the measurement
    /// does not fit the problem.
    #[expect(clippy::missing_panics_doc, reason = "the outcome was settled two lines above")]
    pub fn tell(&mut self, number: u64, outcome: Outcome) -> Result<&Outcome, Error> {
        let outcome = self.check(number, outcome)?;
        self.history.settle(number, outcome);
        self.optimizer.told(&self.history, number);
        Ok(self.history.trial(number).outcome.as_ref().expect("settled above"))
    }

    /// The outcome that [`Search::tell`] would record.
    ///
    /// # Errors
    /// As [`Search::tell`].
    pub fn check(&self, number: u64, outcome: Outcome) -> Result<Outcome, Error> {
        let error = |message: String| Err(Error::Trial { number, message });
        if number >= self.history.next_number() {
            return error(format!(
                "no such trial; the last is {}",
                self.history.next_number().wrapping_sub(1)
            ));
        }
        if self.history.trial(number).outcome.is_some() {
            return error("it has been told before".into());
        }
        let Outcome::Measured(measurement) = &outcome else { return Ok(outcome) };
        let metrics = self.history.problem().metrics();
        if measurement.metrics.len() != metrics.len() {
            return error(format!("{} metrics expected, {} given", metrics.len(), measurement.metrics.len()));
        }
        if measurement.metrics.iter().any(|value| !value.is_finite()) {
            return Ok(Outcome::Failed(crate::FailureClass::Diverged));
        }
        if measurement.sem.is_some_and(|sem| !sem.is_finite() || sem < 0.0) {
            return error("sem must be a finite number from 0 on".into());
        }
        if let Some(features) = &measurement.features {
            if features.iter().any(|value| !value.is_finite()) {
                return error("features must be finite numbers".into());
            }
            if let Some(length) = self.history.features_len().filter(|&length| length != features.len()) {
                return error(format!(
                    "{length} features expected as in earlier trials, {} given",
                    features.len()
                ));
            }
        }
        Ok(outcome)
    }

    /// Replaces the space by an extension of it (see [`Space::edited`]).
    ///
    /// # Errors
    /// [`Error::Expression`] for a descriptor that means nothing in the new space,
    /// [`Error::Unsuitable`] if the method cannot search it.
    pub fn edit_space(&mut self, space: Space) -> Result<(), Error> {
        let problem = self.history.problem().with_space(space)?;
        self.history.set_problem(problem);
        self.optimizer.space_changed(&self.history)
    }

    /// The state of the method. A cache: [`Search::restore`] with it gives the same search as
    /// replaying every event.
    pub fn snapshot(&self) -> Vec<u8> {
        self.optimizer.snapshot()
    }

    /// Takes over recorded trials whose effect on the method is in `snapshot`.
    ///
    /// `events` are the recorded asks and tells before the snapshot, in their order.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if the bytes are not this method's, [`Error::Trial`] if the events do not fit
    /// each other; the search must then be built anew.
    pub fn restore(&mut self, events: impl IntoIterator<Item = Event>, snapshot: &[u8]) -> Result<(), Error> {
        for event in events {
            match event {
                Event::Asked(point, origin) => {
                    self.history.push(point, origin);
                }
                Event::Told(number, outcome) => {
                    let outcome = self.check(number, outcome)?;
                    self.history.settle(number, outcome);
                }
            }
        }
        self.optimizer.restore(&self.history, snapshot)
    }
}

/// A recorded event, for [`Search::restore`].
#[derive(Clone, Debug)]
pub enum Event {
    /// The next trial, with its point.
    Asked(Point, Origin),
    /// The outcome of a trial, as [`Search::tell`] recorded it.
    Told(u64, Outcome),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FailureClass, Goal, Measurement, Metric, Parameter, Value};

    fn search(parameters: Vec<Parameter>, options: &[(&str, i64)]) -> Search {
        let space = Space::new(parameters, &[]).unwrap();
        let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
        let options = options.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
        Search::new(problem, "random", &options, Seed::new(1)).unwrap()
    }

    fn bits(n: usize) -> Vec<Parameter> {
        (0..n).map(|i| Parameter::bool(&format!("b{i}"))).collect()
    }

    fn measured(loss: f64) -> Outcome {
        Outcome::Measured(Measurement::new(vec![loss]))
    }

    #[test]
    fn repeated_proposals_become_fresh_points_until_none_is_left() {
        let mut search = search(bits(3), &[]);
        assert_eq!(search.ask(0), Ok(vec![]));
        assert_eq!(search.ask(5).unwrap().len(), 5);
        assert_eq!(search.ask(5).unwrap().len(), 3, "what is left of eight points");
        assert_eq!(search.ask(1), Err(Error::Exhausted { points: 8 }));
        let keys: std::collections::BTreeSet<_> = search.history().trials().iter().map(|t| t.key).collect();
        assert_eq!(keys.len(), 8);
        assert!(search.history().trials().iter().any(|trial| trial.origin == Origin::Fresh));
    }

    #[test]
    fn replicates_follow_their_point_in_any_batch() {
        for batch in [1, 2, 5] {
            let mut search = search(vec![Parameter::float("x", 0.0, 1.0)], &[(REPLICATES, 3)]);
            while search.history().next_number() < 30 {
                search.ask(batch).unwrap();
            }
            for trial in &search.history().trials()[..30] {
                let first = trial.number / 3 * 3;
                assert_eq!(trial.key, search.history().trial(first).key);
                let is_replicate = trial.origin == Origin::Replicate { of: first };
                assert_eq!(is_replicate, trial.number != first);
            }
        }
    }

    #[test]
    fn replicates_go_on_after_a_trial_of_the_users() {
        let mut search = search(vec![Parameter::float("x", 0.0, 1.0)], &[(REPLICATES, 2)]);
        search.ask(1).unwrap();
        let point = search.history().space().point(vec![Value::Float(0.5)]).unwrap();
        search.enqueue(point).unwrap();
        search.ask(1).unwrap();
        assert_eq!(search.history().trial(2).origin, Origin::Replicate { of: 0 });
    }

    #[test]
    fn values_that_are_not_finite_become_diverged() {
        let mut search = search(vec![Parameter::float("x", 0.0, 1.0)], &[]);
        let numbers = search.ask(3).unwrap();
        for (number, value) in numbers.into_iter().zip([f64::NAN, f64::INFINITY, f64::NEG_INFINITY]) {
            let told = search.tell(number, measured(value));
            assert_eq!(told, Ok(&Outcome::Failed(FailureClass::Diverged)));
        }
        assert_eq!(search.history().best(), None);
    }

    #[test]
    fn trials_are_told_in_any_order_but_once() {
        let mut search = search(vec![Parameter::float("x", 0.0, 1.0)], &[]);
        search.ask(4).unwrap();
        for number in [2, 0, 3] {
            search.tell(number, measured(number as f64)).unwrap();
        }
        assert_eq!(search.history().told(), [2, 0, 3]);
        assert!(search.history().pending().iter().eq(&[1]));
        let message = |result: Result<&Outcome, Error>| result.unwrap_err().to_string();
        assert_eq!(message(search.tell(2, measured(1.0))), "trial 2: it has been told before");
        assert_eq!(message(search.tell(9, measured(1.0))), "trial 9: no such trial; the last is 3");
        let two = Outcome::Measured(Measurement::new(vec![1.0, 2.0]));
        assert_eq!(message(search.tell(1, two)), "trial 1: 1 metrics expected, 2 given");
        let sem = Outcome::Measured(Measurement { sem: Some(-1.0), ..Measurement::new(vec![1.0]) });
        assert_eq!(message(search.tell(1, sem)), "trial 1: sem must be a finite number from 0 on");
    }

    #[test]
    fn features_have_one_length() {
        let mut search = search(vec![Parameter::float("x", 0.0, 1.0)], &[]);
        search.ask(3).unwrap();
        let with = |features: Vec<f64>| {
            Outcome::Measured(Measurement { features: Some(features), ..Measurement::new(vec![1.0]) })
        };
        search.tell(0, measured(1.0)).unwrap();
        search.tell(1, with(vec![1.0, 2.0])).unwrap();
        let error = search.tell(2, with(vec![1.0])).unwrap_err();
        assert_eq!(error.to_string(), "trial 2: 2 features expected as in earlier trials, 1 given");
    }

    #[test]
    fn the_users_points_are_trials_of_their_own() {
        let mut search = search(bits(2), &[(REPLICATES, 2)]);
        let point = search.history().space().point(vec![Value::Bool(true), Value::Bool(false)]).unwrap();
        let first = search.enqueue(point.clone()).unwrap();
        let second = search.enqueue(point.clone()).unwrap();
        assert_eq!(search.history().replicates(second), [first, second]);
        assert_eq!(search.history().trial(second).origin, Origin::Enqueued);
        while search.ask(1).is_ok() {}
        let proposed = search.history().trials().iter().filter(|trial| trial.origin != Origin::Enqueued);
        assert!(proposed.into_iter().all(|trial| trial.point != point), "it is not proposed again");
        assert_eq!(search.history().next_number(), 2 + 3 * 2);
    }

    #[test]
    fn points_that_break_a_constraint_cannot_be_enqueued() {
        let space = Space::new(vec![Parameter::int("k", 0, 9)], &["k < 5"]).unwrap();
        let point = space.point(vec![Value::Int(7)]).unwrap();
        let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
        let mut search = Search::new(problem, "random", &Options::new(), Seed::new(1)).unwrap();
        assert_eq!(search.enqueue(point), Err(Error::Constraint { constraint: "k < 5".into() }));
    }

    #[test]
    fn events_that_do_not_fit_are_an_error() {
        let mut search = search(vec![Parameter::float("x", 0.0, 1.0)], &[]);
        let events = [Event::Told(3, measured(1.0))];
        assert!(matches!(search.restore(events, &[]), Err(Error::Trial { number: 3, .. })));
    }

    #[test]
    fn unknown_methods_and_options_are_named() {
        let space = Space::new(bits(1), &[]).unwrap();
        let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
        let error = |name: &str, options: &[(&str, i64)]| {
            let options = options.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
            Search::new(problem.clone(), name, &options, Seed::new(1)).unwrap_err().to_string()
        };
        assert!(
            error("anneal", &[]).starts_with("no method is called anneal; there are auto, random, sobol")
        );
        assert_eq!(
            error("random", &[("temperature", 3)]),
            "option temperature of random: no such option; there are replicates"
        );
        assert_eq!(
            error("random", &[(REPLICATES, 0)]),
            "option replicates of random: expected a whole number from 1 on, got 0"
        );
    }
}

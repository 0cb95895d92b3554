//! The conformance suite that every registered method passes.
//!
//! A method is driven by scripts: asks in batches, tells in any order with some trials always
//! pending, trials of the user's, failures of every kind.
//! Everything it does is compared with what it does when the script is repeated, when it is stopped
//! and replayed, and when it is restored from a snapshot.

use std::collections::{BTreeSet, HashSet};

use crate::partition::Family;
use crate::{
    Entry, Error, Event, FailureClass, Goal, History, Key, Measurement, Merit, Metric, Options, Origin,
    Outcome, Parameter, Point, Problem, REPLICATES, Region, Search, Seed, Space,
};

/// Checks a method against everything that the documentation of [`crate::Optimizer`] promises.
///
/// Returns the names of the spaces for which the method is [`Error::Unsuitable`], which were left
/// out.
///
/// Methods that learn from outcomes must beat random search on three problems: the median over 15
/// seeds of the best of 150 trials (9 seeds and 60 trials for methods that deliberate). Chance alone
/// fails a method that is better in 9 of 10 runs with probability below 10⁻³.
///
/// # Panics
/// With what is wrong, if anything is.
pub fn check(entry: &Entry) -> Vec<&'static str> {
    let mut left_out = Vec::new();
    for (name, space) in spaces() {
        let problem = problem(space);
        match Search::with(entry, problem.clone(), &Options::new(), Seed::new(0)) {
            Err(Error::Unsuitable { .. }) => left_out.push(name),
            Err(error) => panic!("{} on {name}: {error}", entry.name),
            Ok(_) => {
                let context = format!("{} on {name}", entry.name);
                for mood in [Mood::Mixed, Mood::Constant, Mood::Failing] {
                    repeats_and_resumes(entry, &problem, 1, mood, &format!("{context}, {mood:?}"));
                }
                repeats_and_resumes(entry, &problem, 3, Mood::Mixed, &format!("{context}, 3 replicates"));
                if problem.space().cardinality().is_some_and(|count| count < 1000) {
                    exhausts(entry, &problem, 1, &context);
                    exhausts(entry, &problem, 7, &context);
                }
            }
        }
    }
    follows_an_edit(entry);
    if entry.learns {
        beats_random(entry);
    }
    left_out
}

/// A history of `n` told random points of a space whose objective is a function of their coordinates in
/// the unit cube, smaller for better.
///
/// # Panics
/// If the space has no points to draw.
pub fn told(space: Space, n: u64, seed: u64, loss: impl Fn(&[f64]) -> f64) -> History {
    let problem =
        Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).expect("it has an objective");
    let mut history = History::new(problem, Seed::new(seed), 1);
    for k in 0..n {
        let point = history.sample(&mut Seed::new(seed).rng(k)).expect("the space has points");
        let loss = loss(&history.space().encode(&point));
        let number = history.push(point, Origin::Enqueued);
        history.settle(number, measured(vec![loss]));
    }
    history
}

/// The region between boundaries that are learned one after the other from the told points, each from
/// those on the good side of the boundaries before it; the better half of them is good.
///
/// A boundary is `ridge`, `linear`, `cubic` or `rbf`, or `equal` for the option of the best point in
/// the first parameter that has options.
///
/// # Panics
/// If a boundary is called otherwise.
pub fn region(history: &History, boundaries: &[&str]) -> Region {
    let family = |name: &&str| match *name {
        "ridge" => Some(Family::Ridge),
        "linear" => Some(Family::LinearSvm),
        "cubic" => Some(Family::Cubic),
        "rbf" => Some(Family::Rbf),
        "equal" => None,
        _ => panic!("no boundary is called {name}"),
    };
    Region::learned(history, &boundaries.iter().map(family).collect::<Vec<_>>())
}

/// How the objective behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mood {
    /// A bowl; some trials fail, in every way there is.
    Mixed,
    /// Every trial measures the same.
    Constant,
    /// Every trial fails.
    Failing,
}

fn spaces() -> Vec<(&'static str, Space)> {
    let space = |parameters: Vec<Parameter>, constraints: &[&str]| {
        Space::new(parameters, constraints).expect("the spaces of the suite are valid")
    };
    let floats = || (0..4).map(|i| Parameter::float(&format!("x{i}"), -5.0, 10.0)).collect::<Vec<_>>();
    let mut scales = floats();
    scales.push(Parameter::log_float("rate", 1e-5, 1.0));
    let mixed = vec![
        Parameter::float("x", 0.0, 1.0),
        Parameter::int("k", -3, 12),
        Parameter::log_int("width", 1, 1024),
        Parameter::ordinal("size", [1, 2, 4, 8]),
        Parameter::choice("kind", ["a", "b", "c", "d", "e"]),
        Parameter::bool("flag"),
        Parameter::permutation("order", 4),
    ];
    let conditional = vec![
        Parameter::choice("opt", ["sgd", "adam"]),
        Parameter::float("momentum", 0.0, 1.0).when("opt == 'sgd'"),
        Parameter::int("beta", 1, 9).when("opt == 'adam'"),
        Parameter::bool("amsgrad").when("opt == 'adam' and beta > 3"),
    ];
    let finite = vec![
        Parameter::int("k", 1, 5),
        Parameter::choice("kind", ["a", "b", "c"]),
        Parameter::bool("flag").when("kind != 'a'"),
    ];
    let bits = (0..20).map(|i| Parameter::bool(&format!("b{i}"))).collect();
    let one = vec![Parameter::int("k", 3, 3), Parameter::choice("kind", ["only"])];
    vec![
        ("numbers", space(scales, &[])),
        ("mixed", space(mixed, &[])),
        ("conditional", space(conditional, &[])),
        ("constrained", space(floats(), &["x0 + x1 <= 0", "x2 > x3"])),
        ("permutation", space(vec![Parameter::permutation("order", 6)], &[])),
        ("bits", space(bits, &[])),
        ("finite", space(finite, &["k != 2 or kind == 'a'"])),
        ("one-point", space(one, &[])),
    ]
}

/// An objective and a constraint.
fn problem(space: Space) -> Problem {
    let metrics = vec![Metric::objective("score", Goal::Max), Metric::constraint("size", Goal::Min, 2.5)];
    Problem::new(space, metrics).expect("the metrics of the suite are valid")
}

fn measured(metrics: Vec<f64>) -> Outcome {
    Outcome::Measured(Measurement::new(metrics))
}

fn outcome(problem: &Problem, number: u64, point: &Point, mood: Mood) -> Outcome {
    let unit_point = problem.space().encode(point);
    let score = -unit_point.iter().map(|u| (u - 0.3).powi(2)).sum::<f64>();
    match (mood, number % 11) {
        (Mood::Constant, _) => measured(vec![1.0, 1.0]),
        (Mood::Failing, 0..4) => measured(vec![f64::NAN, 1.0]),
        (Mood::Mixed, 1) => measured(vec![f64::INFINITY, 1.0]),
        (Mood::Failing, 4..7) | (Mood::Mixed, 2) => Outcome::Infeasible,
        (Mood::Failing, _) | (Mood::Mixed, 0) => Outcome::Failed(FailureClass::Crashed),
        (Mood::Mixed, 3) => Outcome::Withdrawn,
        (Mood::Mixed, _) => measured(vec![score, unit_point.iter().sum()]),
    }
}

/// A search with the record of its events.
struct Recorded {
    search: Search,
    events: Vec<Event>,
    /// Asking again would change nothing.
    exhausted: bool,
}

impl Recorded {
    fn new(entry: &Entry, problem: &Problem, replicates: i64, seed: u64) -> Self {
        let options = Options::from([(REPLICATES.to_owned(), replicates.into())]);
        let search =
            Search::with(entry, problem.clone(), &options, Seed::new(seed)).expect("it was built before");
        Self { search, events: Vec::new(), exhausted: false }
    }

    fn record(&mut self, number: u64) {
        let trial = self.search.history().trial(number);
        self.events.push(Event::Asked(trial.point.clone(), trial.origin.clone()));
    }

    /// One step of the script, which depends on `step` and the pending trials alone.
    fn step(&mut self, step: u64, mood: Mood, context: &str) {
        let mut rng = Seed::new(17).child("script", 0).rng(step);
        let pending: Vec<u64> = self.search.history().pending().iter().copied().collect();
        match rng.below(20) {
            0 => {
                let history = self.search.history();
                let point = history.sample(&mut rng).expect("the spaces of the suite have points");
                let number = self.search.enqueue(point).expect("the point is inside");
                self.record(number);
            }
            1..9 if self.exhausted => {}
            1..9 if pending.len() < 9 => {
                let wanted = 1 + rng.index(4);
                match self.search.ask(wanted) {
                    Ok(numbers) => {
                        assert!(
                            !numbers.is_empty() && numbers.len() <= wanted,
                            "{context}: number of trials"
                        );
                        for number in numbers {
                            self.record(number);
                        }
                    }
                    Err(Error::Exhausted { .. }) => self.exhausted = true,
                    Err(error) => panic!("{context}: {error}"),
                }
            }
            _ if pending.is_empty() => {}
            _ => {
                let number = pending[rng.index(pending.len())];
                let history = self.search.history();
                let told = outcome(history.problem(), number, &history.trial(number).point, mood);
                let told = self.search.tell(number, told).expect("the trial is pending").clone();
                self.events.push(Event::Told(number, told));
            }
        }
    }

    fn run(&mut self, steps: std::ops::Range<u64>, mood: Mood, context: &str) {
        steps.for_each(|step| self.step(step, mood, context));
    }

    /// Everything that must be equal for equal searches.
    fn table(&self) -> Vec<(Key, Origin, Option<Outcome>)> {
        let trials = self.search.history().trials().iter();
        trials.map(|trial| (trial.key, trial.origin.clone(), trial.outcome.clone())).collect()
    }

    fn assert_same(&self, other: &Self, context: &str) {
        assert!(self.table() == other.table(), "{context}: the trials differ");
        assert!(self.search.snapshot() == other.search.snapshot(), "{context}: the snapshots differ");
        assert_eq!(
            self.search.history().best(),
            other.search.history().best(),
            "{context}: the best differs"
        );
    }
}

/// The number of steps of a script: about 350 trials where the space has as many points, and 90 for
/// methods that deliberate.
fn n_steps(entry: &Entry) -> u64 {
    if entry.deliberates { 150 } else { 600 }
}

fn repeats_and_resumes(entry: &Entry, problem: &Problem, replicates: i64, mood: Mood, context: &str) {
    let steps = n_steps(entry);
    let stops: Vec<u64> = {
        let mut rng = Seed::new(23).child(context, 0).rng(0);
        let mut stops: Vec<u64> =
            (0..if entry.deliberates { 2 } else { 5 }).map(|_| rng.below(steps)).collect();
        stops.sort_unstable();
        stops
    };
    // At every stop: the number of events and the snapshot.
    let mut marks = Vec::new();
    let mut whole = Recorded::new(entry, problem, replicates, 5);
    for step in 0..steps {
        if stops.contains(&step) {
            marks.push((step, whole.events.len(), whole.search.snapshot()));
        }
        whole.step(step, mood, context);
    }
    check_trials(&whole.search, mood, context);

    let mut again = Recorded::new(entry, problem, replicates, 5);
    again.run(0..steps, mood, context);
    whole.assert_same(&again, &format!("{context}, repeated"));

    let mut other = Recorded::new(entry, problem, replicates, 6);
    other.run(0..steps, mood, context);
    let points = |run: &Recorded| run.table().iter().map(|(key, ..)| *key).collect::<Vec<_>>();
    let one_point = problem.space().cardinality() == Some(1);
    assert!(one_point || points(&whole) != points(&other), "{context}: another seed gives the same run");

    for (step, events, snapshot) in marks {
        let events = &whole.events[..events];
        let mut replayed = Recorded::new(entry, problem, replicates, 5);
        for event in events {
            match event.clone() {
                Event::Asked(point, origin) => {
                    replayed.search.replay(point, origin);
                }
                Event::Told(number, told) => {
                    replayed.search.tell(number, told).expect("it was told before");
                }
            }
        }
        replayed.run(step..steps, mood, context);
        whole.assert_same(&replayed, &format!("{context}, replayed from step {step}"));

        let mut restored = Recorded::new(entry, problem, replicates, 5);
        let result = restored.search.restore(events.to_vec(), &snapshot);
        result.unwrap_or_else(|error| panic!("{context}, restored at step {step}: {error}"));
        restored.run(step..steps, mood, context);
        whole.assert_same(&restored, &format!("{context}, restored at step {step}"));

        for damaged in damage(&snapshot) {
            let mut broken = Recorded::new(entry, problem, replicates, 5);
            let result = broken.search.restore(events.to_vec(), &damaged);
            assert_eq!(result, Err(Error::Snapshot), "{context}: a damaged snapshot is taken");
        }
    }
}

/// Snapshots of another version, cut short, or with something behind.
fn damage(snapshot: &[u8]) -> Vec<Vec<u8>> {
    let longer = [snapshot, &[1]].concat();
    let Some((&version, rest)) = snapshot.split_first() else { return vec![longer] };
    let other_version = [&[version.wrapping_add(1)], rest].concat();
    vec![longer, other_version, snapshot[..snapshot.len() / 2].to_vec()]
}

/// Points lie in the space and keep its constraints; no point is proposed twice.
fn check_trials(search: &Search, mood: Mood, context: &str) {
    let history = search.history();
    let space = history.space();
    let mut proposed = HashSet::new();
    for trial in history.trials() {
        let values = trial.point.values().to_vec();
        assert_eq!(space.point(values).as_ref(), Ok(&trial.point), "{context}: trial {}", trial.number);
        assert!(space.admits(&trial.point), "{context}: trial {} breaks a known constraint", trial.number);
        let is_new = proposed.insert(trial.key);
        if matches!(trial.origin, Origin::Method { .. } | Origin::Fresh) {
            assert!(is_new, "{context}: trial {} repeats a point", trial.number);
        }
    }
    let best = history.best();
    assert_eq!(best.is_none(), mood == Mood::Failing, "{context}: {best:?}");
}

/// A finite space is searched to its end, without a repeated point.
fn exhausts(entry: &Entry, problem: &Problem, batch: usize, context: &str) {
    let mut run = Recorded::new(entry, problem, 1, 9);
    let space = problem.space();
    let count = space.cardinality().expect("the space is finite");
    let all: BTreeSet<Key> =
        (0..count).map(|i| space.nth(i)).filter(|point| space.admits(point)).map(|p| space.key(&p)).collect();
    loop {
        match run.search.ask(batch) {
            Ok(numbers) => {
                for number in numbers {
                    let history = run.search.history();
                    let told = outcome(problem, number, &history.trial(number).point, Mood::Mixed);
                    run.search.tell(number, told).expect("the trial is pending");
                }
            }
            Err(error) => {
                let points = all.len() as u64;
                assert_eq!(error, Error::Exhausted { points }, "{context}: the end of a finite space");
                break;
            }
        }
    }
    let seen: BTreeSet<Key> = run.search.history().trials().iter().map(|trial| trial.key).collect();
    assert!(
        seen == all && run.search.history().next_number() == all.len() as u64,
        "{context}: every point once"
    );
}

/// A wider space is searched in its new part.
fn follows_an_edit(entry: &Entry) {
    let context = format!("{} after an edit of the space", entry.name);
    let space = |high| {
        let parameters = vec![Parameter::float("x", 0.0, high), Parameter::float("y", 0.0, high)];
        Space::new(parameters, &[]).expect("the range is valid")
    };
    let Ok(search) = Search::with(entry, problem(space(1.0)), &Options::new(), Seed::new(0)) else { return };
    let mut run = Recorded { search, events: Vec::new(), exhausted: false };
    run.run(0..120, Mood::Mixed, &context);
    let before = run.search.history().next_number();
    run.search.edit_space(space(8.0)).expect("the method was suitable before");
    run.run(120..if entry.deliberates { 240 } else { 900 }, Mood::Mixed, &context);
    check_trials(&run.search, Mood::Mixed, &context);
    let is_beyond = |point: &Point| point.values().iter().any(|value| value.as_f64() > Some(1.0));
    let trials = run.search.history().trials().iter().filter(|trial| trial.number >= before);
    let proposed = trials.filter(|trial| matches!(trial.origin, Origin::Method { .. }));
    assert!(proposed.into_iter().any(|trial| is_beyond(&trial.point)), "{context}: nothing in the new part");
}

/// A name, a space, and the loss of a point.
type Contest = (&'static str, Space, fn(&Space, &Point) -> f64);

fn beats_random(entry: &Entry) {
    let (seeds, trials) = if entry.deliberates { (9, 60) } else { (15, 150) };
    let random = crate::method("random").expect("it is registered");
    let bowl = |space: &Space, point: &Point| {
        space.encode(point).iter().zip(1..).map(|(u, i)| f64::from(i) * (u - 0.7).powi(2)).sum::<f64>()
    };
    let all = spaces();
    let space = |name: &str| all.iter().find(|(other, _)| *other == name).expect("listed above").1.clone();
    let contests: [Contest; 3] = [
        ("numbers", space("numbers"), bowl),
        ("constrained", space("constrained"), bowl),
        ("bits", space("bits"), |space, point| {
            space.encode(point).iter().zip([1.0, 2.0].iter().cycle()).map(|(u, weight)| u * weight).sum()
        }),
    ];
    for (name, space, loss) in contests {
        let median = |entry: &Entry| {
            let mut best: Vec<f64> =
                (0..seeds).map(|seed| contest(entry, &space, loss, seed, trials)).collect();
            best.sort_unstable_by(f64::total_cmp);
            best[best.len() / 2]
        };
        let problem = Problem::new(space.clone(), vec![Metric::objective("loss", Goal::Min)]);
        let problem = problem.expect("the metric is valid");
        if Search::with(entry, problem, &Options::new(), Seed::new(0)).is_ok() {
            let (own, bar) = (median(entry), median(random));
            assert!(own < bar, "{} on {name}: {own} against {bar} of random search", entry.name);
        }
    }
}

/// The best loss of a run.
fn contest(entry: &Entry, space: &Space, loss: fn(&Space, &Point) -> f64, seed: u64, trials: u64) -> f64 {
    let problem = Problem::new(space.clone(), vec![Metric::objective("loss", Goal::Min)]);
    let problem = problem.expect("the metric is valid");
    let mut search =
        Search::with(entry, problem, &Options::new(), Seed::new(seed)).expect("it was built before");
    for _ in 0..trials {
        let number = search.ask(1).expect("the space has more points")[0];
        let value = loss(space, &search.history().trial(number).point);
        search.tell(number, measured(vec![value])).expect("the trial is pending");
    }
    match search.history().best().map(|best| best.merit) {
        Some(Merit::Feasible(loss)) => loss,
        other => panic!("{}: {other:?} is the best", entry.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method;

    fn passes(name: &str) {
        assert_eq!(check(method(name).unwrap()), Vec::<&str>::new());
    }

    #[test]
    fn auto_conforms() {
        passes("auto");
    }

    #[test]
    fn random_conforms() {
        passes("random");
    }

    #[test]
    fn sobol_conforms() {
        passes("sobol");
    }

    #[test]
    fn grid_conforms() {
        passes("grid");
    }

    #[test]
    fn aging_evolution_conforms() {
        passes("aging-evolution");
    }

    #[test]
    fn cmaes_conforms() {
        passes("cmaes");
    }

    #[test]
    #[ignore = "slow: 20 s"]
    fn gp_conforms() {
        passes("gp");
    }

    #[test]
    fn gp_cmaes_conforms() {
        passes("gp-cmaes");
    }

    #[test]
    #[ignore = "slow: 6 s"]
    fn tpe_conforms() {
        passes("tpe");
    }

    #[test]
    #[ignore = "slow: 20 s"]
    fn turbo_conforms() {
        passes("turbo");
    }

    #[test]
    fn la_mcts_conforms() {
        passes("la-mcts");
    }

    #[test]
    #[ignore = "slow: 25 s"]
    fn la_mcts_with_slice_conforms() {
        passes("la-mcts+slice");
    }

    #[test]
    #[ignore = "slow: 10 s"]
    fn la_mcts_with_cmaes_conforms() {
        passes("la-mcts+cmaes");
    }

    #[test]
    #[ignore = "slow: 10 s"]
    fn la_mcts_with_gp_cmaes_conforms() {
        passes("la-mcts+gp-cmaes");
    }

    #[test]
    #[ignore = "slow: 20 s"]
    fn la_mcts_with_gp_conforms() {
        passes("la-mcts+gp");
    }

    #[test]
    #[ignore = "slow: 10 s"]
    fn la_mcts_with_tpe_conforms() {
        passes("la-mcts+tpe");
    }

    #[test]
    #[ignore = "slow: 30 s"]
    fn la_mcts_with_turbo_conforms() {
        passes("la-mcts+turbo");
    }

    #[test]
    #[ignore = "slow: 10 s"]
    fn la_mcts_with_mutation_conforms() {
        passes("la-mcts+mutation");
    }

    #[test]
    #[ignore = "slow: 8 s"]
    fn lanas_conforms() {
        passes("lanas");
    }

    #[test]
    fn every_method_is_tested_here() {
        let tested = [
            "auto",
            "random",
            "sobol",
            "grid",
            "aging-evolution",
            "cmaes",
            "gp",
            "gp-cmaes",
            "tpe",
            "turbo",
            "la-mcts",
            "la-mcts+slice",
            "la-mcts+cmaes",
            "la-mcts+gp-cmaes",
            "la-mcts+gp",
            "la-mcts+tpe",
            "la-mcts+turbo",
            "la-mcts+mutation",
            "lanas",
        ];
        assert!(crate::METHODS.iter().map(|entry| entry.name).eq(tested), "add its test above");
    }
}

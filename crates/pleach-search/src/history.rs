//! Every trial of a search, as methods see it.

use std::collections::{BTreeSet, HashMap};

use crate::space::Scan;
use crate::{Error, Key, Measurement, Merit, Outcome, Point, Problem, Rng, Seed, Space};

/// Where the point of a trial came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The method; `detail` is what it needs at replay and cannot compute again from the point.
    Method {
        /// Opaque to all but the method.
        detail: Box<[u8]>,
    },
    /// The driver, because the method only had points that were proposed before.
    Fresh,
    /// The user.
    Enqueued,
    /// Evaluation of the point of an earlier trial once more, to average out noise.
    Replicate {
        /// The first trial of that point.
        of: u64,
    },
    /// Another study; imported together with its outcome.
    Imported,
}

/// One trial.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Its number; numbers count from 0 without gaps.
    pub number: u64,
    /// Its point.
    pub point: Point,
    /// The identity of its point.
    pub key: Key,
    /// Where the point came from.
    pub origin: Origin,
    /// What came of it, once told.
    pub outcome: Option<Outcome>,
}

/// The best point of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// The first trial of the point.
    pub number: u64,
    /// The objective in the user's direction: the mean over replicates, or the posterior mean when
    /// the noise is known.
    pub value: f64,
    /// Standard error of `value`, if the noise is known.
    pub sem: Option<f64>,
    /// How the point stands: [`Merit::Feasible`], or [`Merit::Violating`] if no point keeps every limit.
    pub merit: Merit,
}

/// The trials of one point.
#[derive(Clone, Debug)]
struct Group {
    /// In order of number.
    trials: Vec<u64>,
    /// The joint merit of those that were told.
    merit: Merit,
}

/// Every trial of a search: points, outcomes, the order of tells, what is pending.
#[derive(Clone, Debug)]
pub struct History {
    problem: Problem,
    seed: Seed,
    trials: Vec<Trial>,
    told: Vec<u64>,
    pending: BTreeSet<u64>,
    groups: HashMap<Key, Group>,
    /// How often each point is evaluated.
    evaluations: usize,
    /// The best point by merit alone, and whether noise makes that too simple.
    leader: Option<(Merit, u64)>,
    noisy: bool,
    /// The length of the features of every measurement, once one has some.
    features_len: Option<usize>,
}

impl History {
    pub(crate) fn new(problem: Problem, seed: Seed, evaluations: usize) -> Self {
        Self {
            problem,
            seed,
            trials: Vec::new(),
            told: Vec::new(),
            pending: BTreeSet::new(),
            groups: HashMap::new(),
            evaluations,
            leader: None,
            noisy: false,
            features_len: None,
        }
    }

    /// What is searched.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The space that is searched.
    pub fn space(&self) -> &Space {
        self.problem.space()
    }

    /// The seed of the search.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// The number of the next trial.
    pub fn next_number(&self) -> u64 {
        self.trials.len() as u64
    }

    /// All trials, by number.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// The trial of that number.
    ///
    /// # Panics
    /// If there is none; numbers come from this history.
    pub fn trial(&self, number: u64) -> &Trial {
        &self.trials[usize::try_from(number).expect("trial numbers fit in memory")]
    }

    /// Numbers of the trials whose outcome is known, in the order in which they were told.
    pub fn told(&self) -> &[u64] {
        &self.told
    }

    /// Numbers of the trials whose outcome is not known yet.
    pub fn pending(&self) -> &BTreeSet<u64> {
        &self.pending
    }

    /// Whether no trial has this point yet.
    pub fn is_new(&self, point: &Point) -> bool {
        !self.groups.contains_key(&self.space().key(point))
    }

    /// Number of distinct points.
    pub fn distinct(&self) -> u64 {
        self.groups.len() as u64
    }

    /// The trials of the same point as trial `number`, itself included, by number.
    pub fn replicates(&self, number: u64) -> &[u64] {
        &self.groups[&self.trial(number).key].trials
    }

    /// How the point of trial `number` stands, over all its replicates told so far; `None` while
    /// none is told.
    pub fn merit(&self, number: u64) -> Option<Merit> {
        let group = &self.groups[&self.trial(number).key];
        group.trials.iter().any(|&k| self.trial(k).outcome.is_some()).then_some(group.merit)
    }

    /// What was known after the first `told` tells: the first trial of every point that had an
    /// outcome other than [`Outcome::Withdrawn`], by number, with the merit of the point at that time.
    ///
    /// # Panics
    /// If there were not as many tells.
    pub fn known_after(&self, told: usize) -> Vec<(u64, Merit)> {
        let mut known: Vec<u64> = self.told[..told].to_vec();
        known.sort_unstable();
        let mut points = Vec::with_capacity(told);
        for &number in &known {
            let group = &self.groups[&self.trial(number).key];
            let trials = group.trials.iter().copied().filter(|k| known.binary_search(k).is_ok());
            // A group is entered at its first trial that was told.
            if trials.clone().next() == Some(number) {
                let is_whole = group.trials.iter().filter(|&&k| self.trial(k).outcome.is_some()).count()
                    == trials.clone().count();
                let merit =
                    if is_whole { group.merit } else { self.joint_merit(&trials.collect::<Vec<_>>()) };
                if merit != Merit::Withdrawn {
                    points.push((group.trials[0], merit));
                }
            }
        }
        points
    }

    /// The tells after the first `told`, in their order: each trial with the merit that its point had
    /// right after it.
    ///
    /// # Panics
    /// If there were not as many tells.
    pub fn tells_after(&self, told: usize) -> Vec<(u64, Merit)> {
        let tail = &self.told[told..];
        let place: HashMap<u64, usize> = tail.iter().copied().zip(0..).collect();
        let merit = |now: usize, number: u64| {
            let known =
                |k: &u64| self.trial(*k).outcome.is_some() && place.get(k).is_none_or(|&then| then <= now);
            let trials: Vec<u64> = self.replicates(number).iter().copied().filter(known).collect();
            self.joint_merit(&trials)
        };
        tail.iter().enumerate().map(|(now, &number)| (number, merit(now, number))).collect()
    }

    /// How often each point that a method proposes is evaluated.
    pub fn evaluations(&self) -> usize {
        self.evaluations
    }

    /// Whether the point of trial `number` has been evaluated as often as wanted, with no
    /// evaluation pending.
    pub fn is_complete(&self, number: u64) -> bool {
        let trials = self.replicates(number);
        trials.len() >= self.evaluations && trials.iter().all(|&k| self.trial(k).outcome.is_some())
    }

    /// The length of the features of every measurement; `None` as long as none has features.
    pub fn features_len(&self) -> Option<usize> {
        self.features_len
    }

    pub(crate) fn push(&mut self, point: Point, origin: Origin) -> u64 {
        let number = self.next_number();
        let key = self.space().key(&point);
        let group = self.groups.entry(key).or_insert(Group { trials: Vec::new(), merit: Merit::Withdrawn });
        group.trials.push(number);
        self.trials.push(Trial { number, point, key, origin, outcome: None });
        self.pending.insert(number);
        number
    }

    /// Records an outcome and the merit of its point.
    pub(crate) fn settle(&mut self, number: u64, outcome: Outcome) {
        let index = usize::try_from(number).expect("trial numbers fit in memory");
        self.trials[index].outcome = Some(outcome);
        self.pending.remove(&number);
        self.told.push(number);
        let key = self.trials[index].key;
        let trials = &self.groups[&key].trials;
        let (merit, first) = (self.joint_merit(trials), trials[0]);
        let measured = trials.iter().filter_map(|&k| self.measurement(k));
        let noisy =
            measured.clone().count() > 1 || measured.clone().any(|m| m.sem.is_some_and(|sem| sem > 0.0));
        let features_len = self.measurement(number).and_then(|m| m.features.as_ref()).map(Vec::len);
        self.noisy |= noisy;
        self.features_len = self.features_len.or(features_len);
        self.groups.get_mut(&key).expect("every trial is in the group of its key").merit = merit;
        let is_better = self.leader.is_none_or(|leader| (merit, first) < leader);
        if is_better && matches!(merit, Merit::Feasible(_) | Merit::Violating(_)) {
            self.leader = Some((merit, first));
        }
    }

    fn measurement(&self, number: u64) -> Option<&Measurement> {
        match &self.trial(number).outcome {
            Some(Outcome::Measured(measurement)) => Some(measurement),
            _ => None,
        }
    }

    /// Replicates are judged by the means of their metrics; those that failed are never averaged
    /// in, and if none was measured the best of the other outcomes stands.
    fn joint_merit(&self, numbers: &[u64]) -> Merit {
        let outcomes = || numbers.iter().filter_map(|&k| self.trial(k).outcome.as_ref());
        let n_measured = numbers.iter().filter(|&&k| self.measurement(k).is_some()).count();
        if n_measured < 2 {
            return outcomes().map(|outcome| self.problem.merit(outcome)).min().unwrap_or(Merit::Withdrawn);
        }
        let mean = self.mean_metrics(numbers).expect("two were measured");
        self.problem.merit(&Outcome::Measured(Measurement::new(mean)))
    }

    /// The mean of each metric over those of these trials that were measured; `None` if none was.
    pub(crate) fn mean_metrics(&self, numbers: &[u64]) -> Option<Vec<f64>> {
        let measured = || numbers.iter().filter_map(|&k| self.measurement(k));
        let n = measured().count();
        let mut mean = vec![0.0; self.problem.metrics().len()];
        for measurement in measured() {
            // Divided before it is added, so that the sum does not overflow.
            mean.iter_mut().zip(&measurement.metrics).for_each(|(mean, value)| *mean += value / n as f64);
        }
        (n > 0).then_some(mean)
    }

    /// The best point so far: feasible first, then the smallest violation; `None` if nothing was
    /// measured.
    ///
    /// If the noise is known (from `sem` or from replicates), points are compared by the posterior
    /// mean of a normal model, so that a lucky draw does not win: points have values
    /// `N(μ, τ²)`, their means `N(value, s²)`. `μ` is the median over all points and `τ²` follows
    /// from the better half of them, so that a few huge losses do not hide the noise.
    ///
    /// Without noise this takes no time; else it looks at every trial.
    pub fn best(&self) -> Option<Best> {
        let (merit, number) = self.leader?;
        if !self.noisy {
            let measurement = self
                .measurement(number)
                .or_else(|| self.replicates(number).iter().find_map(|&k| self.measurement(k)))?;
            let value = measurement.metrics[self.problem.objective_index()];
            return Some(Best { number, value, sem: measurement.sem, merit });
        }
        let mut points = self.summaries();
        // The leader may have lost its place to further evaluations of its point.
        if points.iter().any(|point| matches!(point.merit, Merit::Feasible(_))) {
            points.retain(|point| matches!(point.merit, Merit::Feasible(_)));
            shrink(&mut points);
            for point in &mut points {
                point.merit = Merit::Feasible(point.loss);
            }
        }
        let best = points.iter().min_by_key(|point| (point.merit, point.number))?;
        let value = self.problem.value(best.loss);
        Some(Best { number: best.number, value, sem: best.sem, merit: best.merit })
    }

    /// One entry a point that was measured at least once.
    fn summaries(&self) -> Vec<Summary> {
        // Noise of one evaluation, pooled over the points that were measured more than once.
        let (mut squares, mut freedom) = (0.0, 0.0);
        let mut points = Vec::new();
        for trial in &self.trials {
            let group = &self.groups[&trial.key];
            if group.trials[0] != trial.number {
                continue;
            }
            let measured: Vec<&Measurement> =
                group.trials.iter().filter_map(|&k| self.measurement(k)).collect();
            if measured.is_empty() {
                continue;
            }
            let n = measured.len() as f64;
            let loss = measured.iter().map(|m| self.problem.loss(m) / n).sum::<f64>();
            squares += measured.iter().map(|m| (self.problem.loss(m) - loss).powi(2)).sum::<f64>();
            freedom += n - 1.0;
            let known: f64 = measured.iter().filter_map(|m| m.sem).map(|sem| sem * sem).sum();
            let sem = measured.iter().all(|m| m.sem.is_some()).then(|| known.sqrt() / n);
            points.push(Summary { number: trial.number, merit: group.merit, loss, sem, n });
        }
        if freedom > 0.0 {
            let one = (squares / freedom).sqrt();
            for point in points.iter_mut().filter(|point| point.sem.is_none()) {
                point.sem = Some(one / point.n.sqrt());
            }
        }
        points
    }

    /// A random point that no trial has yet: random draws first, then, in a finite space, whatever
    /// is left.
    ///
    /// # Errors
    /// [`Error::Exhausted`] if every point has been proposed; [`Error::NoNewPoint`] if none was found
    /// that has not been; [`Error::NoStart`] if no point that keeps the known constraints is known.
    pub fn fresh(&self, rng: &mut Rng) -> Result<Point, Error> {
        const DRAWS: usize = 32;
        // Above this many combinations a scan takes too long, and 32 repeated draws are no accident.
        const SCAN: u64 = 1 << 22;
        let space = self.space();
        for _ in 0..DRAWS {
            let point = self.sample(rng)?;
            if self.is_new(&point) {
                return Ok(point);
            }
        }
        let Some(count) = space.cardinality().filter(|&count| count <= SCAN) else {
            // Neighbours of known points reach what a narrow feasible region leaves to plain draws.
            for _ in 0..DRAWS {
                let near = &self.trials[rng.index(self.trials.len())].point;
                let point = space.mutate(near, rng)?;
                if space.admits(&point) && self.is_new(&point) {
                    return Ok(point);
                }
            }
            return match space.scan(|point| self.is_new(point)) {
                Scan::Found(point) => Ok(point),
                Scan::Nothing => Err(Error::Exhausted { points: self.distinct() }),
                Scan::GaveUp => Err(Error::NoNewPoint { points: self.distinct() }),
            };
        };
        let start = rng.below(count);
        (0..count)
            .map(|i| space.nth((start + i) % count))
            .find(|point| space.admits(point) && self.is_new(point))
            .ok_or(Error::Exhausted { points: self.distinct() })
    }

    /// A random point that keeps the known constraints, new or not.
    ///
    /// # Errors
    /// [`Error::NoStart`] if no point that keeps the known constraints is known.
    pub fn sample(&self, rng: &mut Rng) -> Result<Point, Error> {
        const STARTS: usize = 4;
        let mut starts: Vec<&Point> = Vec::new();
        if self.space().constraints().next().is_some() && !self.trials.is_empty() {
            starts = (0..STARTS).map(|_| &self.trials[rng.index(self.trials.len())].point).collect();
        }
        self.space().sample(rng, &starts)
    }

    pub(crate) fn set_problem(&mut self, problem: Problem) {
        self.problem = problem;
    }
}

/// A point as [`History::best`] compares it.
#[derive(Debug)]
struct Summary {
    number: u64,
    merit: Merit,
    loss: f64,
    sem: Option<f64>,
    n: f64,
}

/// Replaces losses by their posterior means where the noise of every point is known.
fn shrink(points: &mut [Summary]) {
    points.sort_unstable_by(|a, b| a.loss.total_cmp(&b.loss).then(a.number.cmp(&b.number)));
    let sems: Option<Vec<f64>> = points.iter().map(|point| point.sem).collect();
    let Some(sems) = sems.filter(|sems| sems.len() > 1 && sems.iter().any(|&sem| sem > 0.0)) else { return };
    let half = points.len() / 2;
    let median = 0.5 * points[(points.len() - 1) / 2].loss + 0.5 * points[half].loss;
    let better = points.len() - half;
    let mean = |squares: f64| squares / better as f64;
    let spread = mean(points[..better].iter().map(|point| (point.loss - median).powi(2)).sum());
    let noise = mean(sems[..better].iter().map(|sem| sem * sem).sum());
    if !spread.is_finite() || !noise.is_finite() {
        // Squares of huge losses overflow.
        return;
    }
    // Where noise explains everything, a small rest still ranks points by value and precision.
    let between = (spread - noise).max(0.01 * noise);
    for (point, sem) in points.iter_mut().zip(sems) {
        let total = between + sem * sem;
        if total > 0.0 {
            let trust = between / total;
            point.loss = median + trust * (point.loss - median);
            point.sem = Some(trust.sqrt() * sem);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FailureClass, Goal, Metric, Parameter};

    /// A space of points `x` and a history to fill.
    fn history(evaluations: usize) -> History {
        let space = Space::new(vec![Parameter::float("x", 0.0, 100.0)], &[]).unwrap();
        let metrics = vec![Metric::objective("loss", Goal::Min), Metric::constraint("size", Goal::Min, 2.0)];
        History::new(Problem::new(space, metrics).unwrap(), Seed::new(1), evaluations)
    }

    fn point(history: &History, x: f64) -> Point {
        history.space().point(vec![crate::Value::Float(x)]).unwrap()
    }

    /// Adds a trial at `x` with this outcome.
    fn add(history: &mut History, x: f64, outcome: Outcome) -> u64 {
        let number = history.push(point(history, x), Origin::Enqueued);
        history.settle(number, outcome);
        number
    }

    #[test]
    fn best_survives_replicates_that_break_a_limit() {
        let mut history = history(2);
        add(&mut history, 1.0, measured(5.0, 1.0, None));
        add(&mut history, 1.0, measured(5.0, 9.0, None));
        let best = history.best().expect("two evaluations were measured");
        assert_eq!((best.number, best.merit), (0, Merit::Violating(1.5)));
    }

    fn measured(loss: f64, size: f64, sem: Option<f64>) -> Outcome {
        Outcome::Measured(Measurement { sem, ..Measurement::new(vec![loss, size]) })
    }

    #[test]
    fn best_is_feasible_first_then_the_smallest_violation() {
        let mut history = history(1);
        assert_eq!(history.best(), None);
        add(&mut history, 0.0, Outcome::Failed(FailureClass::Crashed));
        add(&mut history, 1.0, Outcome::Infeasible);
        assert_eq!(history.best(), None);
        add(&mut history, 2.0, measured(0.0, 4.0, None));
        add(&mut history, 3.0, measured(9.0, 3.0, None));
        let best = history.best().unwrap();
        assert_eq!((best.number, best.value, best.merit), (3, 9.0, Merit::Violating(0.5)));
        add(&mut history, 4.0, measured(50.0, 2.0, None));
        add(&mut history, 5.0, measured(50.0, 1.0, None));
        let best = history.best().unwrap();
        assert_eq!((best.number, best.value, best.merit), (4, 50.0, Merit::Feasible(50.0)));
    }

    #[test]
    fn merits_are_in_the_stated_order() {
        let order = [
            Merit::Feasible(-1.0),
            Merit::Feasible(2.0),
            Merit::Violating(0.1),
            Merit::Violating(7.0),
            Merit::Infeasible,
            Merit::Failed,
            Merit::Withdrawn,
        ];
        assert!(order.is_sorted() && order.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_lucky_draw_does_not_win() {
        let mut history = history(1);
        // Ten points without noise to speak of, around 10; one lucky draw; one that was checked.
        for i in 0..10 {
            add(&mut history, f64::from(i), measured(10.0 + 0.1 * f64::from(i), 1.0, Some(0.01)));
        }
        let lucky = add(&mut history, 20.0, measured(7.0, 1.0, Some(5.0)));
        let sure = add(&mut history, 21.0, measured(9.0, 1.0, Some(0.01)));
        let best = history.best().unwrap();
        assert_eq!(best.number, sure, "not {lucky}: {best:?}");
        assert!((best.value - 9.0).abs() < 0.1, "{best:?}");
    }

    #[test]
    fn replicates_are_compared_by_their_mean() {
        let mut history = history(1);
        let first = add(&mut history, 1.0, measured(5.0, 1.0, None));
        let noisy = add(&mut history, 2.0, measured(1.0, 1.0, None));
        for (x, loss) in [(2.0, 9.0), (2.0, 11.0), (1.0, 5.2), (1.0, 4.8)] {
            add(&mut history, x, measured(loss, 1.0, None));
        }
        assert_eq!(history.merit(noisy), Some(Merit::Feasible(7.0)));
        assert_eq!(history.replicates(noisy), [1, 2, 3]);
        let best = history.best().unwrap();
        assert_eq!(best.number, first, "{best:?}");
        assert!(best.sem.is_some_and(|sem| sem > 0.0), "the noise is estimated: {best:?}");
    }

    #[test]
    fn failed_replicates_are_not_averaged() {
        let mut history = history(1);
        let number = add(&mut history, 1.0, measured(5.0, 1.0, None));
        add(&mut history, 1.0, Outcome::Failed(FailureClass::Diverged));
        add(&mut history, 1.0, Outcome::Withdrawn);
        assert_eq!(history.merit(number), Some(Merit::Feasible(5.0)));
        assert_eq!(history.best().map(|best| best.value), Some(5.0));
    }

    #[test]
    fn huge_losses_neither_overflow_nor_hide_the_noise() {
        let mut history = history(1);
        for (x, loss) in [(1.0, 1e300), (2.0, -1e300), (2.0, -1.5e300), (3.0, f64::MAX), (3.0, f64::MAX)] {
            add(&mut history, x, measured(loss, 1.0, None));
        }
        let best = history.best().unwrap();
        assert!(best.number == 1 && best.value.is_finite(), "{best:?}");

        let mut history = self::history(1);
        for i in 0..10 {
            add(&mut history, f64::from(i), measured(10.0 + 0.1 * f64::from(i), 1.0, Some(0.01)));
        }
        add(&mut history, 30.0, measured(1e9, 1.0, Some(1.0)));
        add(&mut history, 20.0, measured(7.0, 1.0, Some(5.0)));
        let sure = add(&mut history, 21.0, measured(9.0, 1.0, Some(0.01)));
        assert_eq!(history.best().unwrap().number, sure);
    }

    #[test]
    fn best_without_noise_equals_a_scan() {
        let mut rng = Seed::new(3).rng(0);
        let mut history = history(1);
        for i in 0..300 {
            let loss = (rng.unit() * 20.0).floor();
            let outcome = match rng.below(4) {
                0 => Outcome::Failed(FailureClass::Timeout),
                1 => measured(loss, 1.0 + 2.0 * rng.unit(), None),
                _ => measured(loss, 1.0, None),
            };
            add(&mut history, f64::from(i) / 4.0, outcome);
            let fast = history.best();
            history.noisy = true;
            assert_eq!(history.best(), fast);
            history.noisy = false;
        }
    }

    #[test]
    fn a_point_is_complete_when_all_its_evaluations_are_told() {
        let mut history = history(2);
        let number = history.push(point(&history, 1.0), Origin::Method { detail: [].into() });
        assert!(!history.is_complete(number) && history.merit(number).is_none());
        history.settle(number, measured(1.0, 1.0, None));
        assert!(!history.is_complete(number));
        let second = history.push(point(&history, 1.0), Origin::Replicate { of: number });
        assert!(!history.is_complete(number) && history.pending().contains(&second));
        history.settle(second, Outcome::Withdrawn);
        assert!(history.is_complete(number) && history.pending().is_empty());
        assert_eq!((history.told(), history.distinct()), (&[0, 1][..], 1));
    }

    #[test]
    fn fresh_points_use_up_a_finite_space() {
        let space = Space::new(vec![Parameter::int("k", 0, 99)], &["k != 7"]).unwrap();
        let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
        let mut history = History::new(problem, Seed::new(1), 1);
        for i in 0..99 {
            let fresh = history.fresh(&mut Seed::new(5).rng(i)).unwrap();
            assert!(history.is_new(&fresh) && history.space().admits(&fresh));
            history.push(fresh, Origin::Fresh);
        }
        assert_eq!(history.fresh(&mut Seed::new(5).rng(99)), Err(Error::Exhausted { points: 99 }));
    }
}

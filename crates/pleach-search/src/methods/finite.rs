//! Gaussian process search of a small finite space: every point is scored for every trial.

use std::cell::RefCell;

use super::bytes::{Reader, Writer};
use super::{Optimizer, Proposal};
use crate::gp::field::{Field, Hyperparameters, Known};
use crate::gp::pool::{Axis, Pool};
use crate::gp::targets;
use crate::normal;
use crate::{Error, Goal, History, Measurement, Merit, Metric, Region};

/// The least number of known points for a model.
const FIRST_FIT: usize = 5;

/// Every so many trials is at the best point of a draw from the posterior, if nothing is known of a
/// point but options without order: expected improvement alone may sit in the wrong basin for hundreds
/// of trials.
const DRAW_EVERY: u64 = 4;

/// With more known points than this the hyper-parameters hardly move.
const MAX_FITTED: usize = 300;

/// The points of a pool that have trials.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) pool: Pool,
    /// Which points have a trial.
    taken: Vec<bool>,
    pub(super) known: Known,
    /// The first trial of each known point.
    numbers: Vec<u64>,
}

impl Ledger {
    /// For a space that [`suits`]; learns all of `history`.
    pub(super) fn new(history: &History) -> Self {
        let pool = Pool::new(history.problem());
        let (taken, known) = (vec![false; pool.len() as usize], Known::new(&pool));
        let mut ledger = Self { pool, taken, known, numbers: Vec::new() };
        (0..history.next_number()).for_each(|number| ledger.asked(history, number));
        history.told().iter().for_each(|&number| ledger.told(history, number));
        ledger
    }

    fn find(&self, history: &History, number: u64) -> Option<u32> {
        self.pool.find(history.trial(number).key)
    }

    pub(super) fn asked(&mut self, history: &History, number: u64) {
        if let Some(point) = self.find(history, number) {
            self.taken[point as usize] = true;
        }
    }

    /// Takes in the point of a trial if it was not known before.
    pub(super) fn told(&mut self, history: &History, number: u64) {
        let first = history.replicates(number)[0];
        let is_known = history.merit(number).is_some_and(|merit| merit != Merit::Withdrawn);
        if let Some(point) = self.find(history, number).filter(|_| is_known && !self.numbers.contains(&first))
        {
            if self.numbers.len() >= self.max_known() {
                self.thin(history);
            }
            self.push(point, first);
        }
    }

    fn push(&mut self, point: u32, first: u64) {
        self.known.push(&self.pool, point);
        self.numbers.push(first);
    }

    /// As many known points as a matrix of all points has room for.
    fn max_known(&self) -> usize {
        const MAX_ENTRIES: usize = 1 << 25;
        (MAX_ENTRIES / self.taken.len().max(1)).clamp(256, 1024)
    }

    /// Forgets half of the known points: the best quarter stays, and every third of the others.
    fn thin(&mut self, history: &History) {
        let mut order: Vec<usize> = (0..self.numbers.len()).collect();
        order.sort_by_key(|&row| (history.merit(self.numbers[row]), self.numbers[row]));
        let quarter = order.len() / 4;
        let others = order[quarter..].iter().step_by(3);
        let mut kept: Vec<usize> = order[..quarter].iter().chain(others).copied().collect();
        kept.sort_unstable();
        let kept: Vec<(u32, u64)> =
            kept.into_iter().map(|row| (self.known.rows()[row], self.numbers[row])).collect();
        self.known = Known::new(&self.pool);
        self.numbers.clear();
        for (point, first) in kept {
            self.push(point, first);
        }
    }

    /// Points without a trial that are not among those `chosen` for the next.
    pub(super) fn left(&self, chosen: &[u32]) -> Vec<u32> {
        let free = |point: &u32| !self.taken[*point as usize] && !chosen.contains(point);
        (0..self.pool.len()).filter(free).collect()
    }

    /// The candidate of the highest score that `region` admits; of equals the first.
    pub(super) fn pick(
        &self,
        history: &History,
        region: &Region,
        candidates: &[u32],
        scores: &[f64],
    ) -> Option<u32> {
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        let better = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
        if region.is_whole() {
            return order.into_iter().min_by(better).map(|i| candidates[i]);
        }
        order.sort_unstable_by(better);
        order
            .into_iter()
            .map(|i| candidates[i])
            .find(|&point| region.admits(history, &self.pool.point(point)))
    }

    /// Points that are not known but have a pending trial, or are `chosen` for the next.
    pub(super) fn pending(&self, history: &History, chosen: &[u32]) -> Vec<u32> {
        let pending = history.pending().iter().filter_map(|&number| self.find(history, number));
        let mut points: Vec<u32> = Vec::new();
        for point in pending.chain(chosen.iter().copied()) {
            if !self.known.rows().contains(&point) && !points.contains(&point) {
                points.push(point);
            }
        }
        points
    }

    /// The first trials of the known points.
    pub(super) fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// How each known point stands.
    pub(super) fn merits<'a>(&'a self, history: &'a History) -> impl Iterator<Item = Merit> + 'a {
        self.numbers.iter().map(|&number| history.merit(number).unwrap_or(Merit::Withdrawn))
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.numbers(&self.numbers);
    }

    /// Takes over what [`Ledger::write`] wrote at the same history.
    pub(super) fn read(&mut self, history: &History, from: &mut Reader<'_>) -> Result<(), Error> {
        (0..history.next_number()).for_each(|number| self.asked(history, number));
        self.known = Known::new(&self.pool);
        self.numbers.clear();
        for _ in 0..from.count()? {
            let first = from.u64()?;
            let is_trial = first < history.next_number();
            let point = is_trial.then(|| self.find(history, first)).flatten().ok_or(Error::Snapshot)?;
            self.push(point, first);
        }
        Ok(())
    }
}

/// The options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Trials at random points before the first that a model chooses.
    pub(super) warm_up: usize,
    /// Whether every trial is at the best point of a draw, where one can be made.
    pub(super) thompson: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self { warm_up: FIRST_FIT, thompson: false }
    }
}

/// Search of a space of at most 10⁵ points by expected improvement over all that are left.
///
/// The objective and every metric with a limit have a process each ([`Hyperparameters`]). Of the objective,
/// normal scores of ranks and half-rank warped values count half each ([`targets`]). Expected
/// improvement is that of a new observation, nugget included: without it, tables of noisy runs are
/// searched too greedily. It is multiplied by the probability that every limit is kept.
///
/// # Source
/// Jones, Schonlau, Welch, *Efficient Global Optimization of Expensive Black-Box Functions*, 1998, for
/// expected improvement; Gardner et al., *Bayesian Optimization with Inequality Constraints*, ICML
/// 2014, for limits. Constants were chosen on NAS-Bench-Macro and tables of `FCNet`.
#[derive(Debug)]
pub(super) struct Finite {
    plan: Plan,
    pub(super) ledger: Ledger,
    /// Of the objective, then of each metric with a limit.
    processes: Vec<Hyperparameters>,
    /// The number of known points at the last fit; 0 before the first.
    fitted: usize,
    fields: RefCell<Vec<Field>>,
}

impl Finite {
    /// For a space that [`suits`]; learns all of `history`.
    pub(super) fn new(history: &History, plan: Plan) -> Self {
        let ledger = Ledger::new(history);
        let n_models = 1 + limits(history).count();
        let processes = vec![Hyperparameters::new(&ledger.known); n_models];
        let fields = RefCell::new((0..n_models).map(|_| Field::default()).collect());
        let mut finite = Self { plan, ledger, processes, fitted: 0, fields };
        finite.fit_when_due(history);
        finite
    }

    fn fit_when_due(&mut self, history: &History) {
        const FIRST_PASSES: usize = 3;
        let n = self.ledger.numbers.len();
        let is_due = n >= self.fitted + (n / 10).max(1) || n < self.fitted;
        if (FIRST_FIT..=MAX_FITTED).contains(&n) && is_due {
            let passes = if self.fitted == 0 { FIRST_PASSES } else { 1 };
            for (process, targets) in self.processes.iter_mut().zip(self.ledger.targets(history)) {
                process.fit(&self.ledger.known, &targets, passes);
            }
            self.fitted = n;
        }
    }

    /// The best of `candidates` for trial `number`, given that the points `chosen` will have trials
    /// before.
    pub(super) fn choose(
        &self,
        history: &History,
        region: &Region,
        number: u64,
        candidates: &[u32],
        chosen: &[u32],
    ) -> Option<u32> {
        let ledger = &self.ledger;
        let mut rng = history.seed().child("finite", 0).rng(number);
        let n = ledger.known.rows().len();
        if n < self.plan.warm_up.max(FIRST_FIT) {
            let scores: Vec<f64> = candidates.iter().map(|_| rng.unit()).collect();
            return ledger.pick(history, region, candidates, &scores);
        }
        let rows = [ledger.known.rows(), &ledger.pending(history, chosen)].concat();
        let mut fields = self.fields.borrow_mut();
        let targets = ledger.targets(history);
        for (field, process) in fields.iter_mut().zip(&self.processes) {
            field.update(&ledger.pool, &ledger.known, process, &rows);
        }
        let has_order = ledger.pool.axes().iter().any(Axis::is_ordered);
        if self.plan.thompson || !has_order && number % DRAW_EVERY == DRAW_EVERY - 1 {
            let draws = fields.iter().zip(&targets).map(|(field, y)| field.draw(&ledger.pool, y, &mut rng));
            if let Some(draws) = draws.collect::<Option<Vec<_>>>() {
                let scores: Vec<f64> = candidates.iter().map(|&point| drawn_score(&draws, point)).collect();
                return ledger.pick(history, region, candidates, &scores);
            }
        }
        let mut posteriors = fields.iter().zip(&targets).map(|(field, y)| field.posterior(&ledger.pool, y));
        let objective = posteriors.next().expect("there is an objective");
        let limits: Vec<_> = posteriors.collect();
        let feasible = ledger.merits(history).zip(&targets[0]).filter(|(merit, _)| merit.loss().is_some());
        let best = feasible.map(|(_, y)| *y).min_by(f64::total_cmp);
        // Without limits, a best that is not feasible is as good as any other.
        let best = best.or_else(|| limits.is_empty().then_some(0.0));
        // Of two points the one with the larger deviation and the larger relative improvement is better, so
        // that most points need no special functions.
        let only_the_best = region.is_whole() && limits.is_empty();
        let mut leader: Option<(f64, f64, f64)> = None;
        let score = |&point: &u32| {
            let mut score = 0.0;
            if let Some(best) = best {
                let deviation = objective.deviation(point);
                let u = (best - objective.mean(point)) / deviation;
                if only_the_best && leader.is_some_and(|(d, v, _)| deviation <= d && u <= v) {
                    return f64::NEG_INFINITY;
                }
                score = deviation.ln() + normal::ln_improvement(u).0;
                if leader.is_none_or(|(.., most)| score > most) {
                    leader = Some((deviation, u, score));
                }
            }
            let kept = limits.iter().map(|limit| normal::ln_cdf(-limit.mean(point) / limit.deviation(point)));
            score + kept.sum::<f64>()
        };
        let scores: Vec<f64> = candidates.iter().map(score).collect();
        ledger.pick(history, region, candidates, &scores)
    }
}

/// How good a point is if the draws are the truth: by objective if every limit is kept, else by how far
/// the worst is exceeded.
fn drawn_score(draws: &[Vec<f64>], point: u32) -> f64 {
    /// Below every objective of a draw of unit variance.
    const BROKEN: f64 = -1e6;
    let at = |draw: &Vec<f64>| draw[point as usize];
    let excess = draws[1..].iter().map(at).fold(0.0, f64::max);
    if excess > 0.0 { BROKEN - excess } else { -at(&draws[0]) }
}

/// The metrics with a limit, with their places.
fn limits(history: &History) -> impl Iterator<Item = (usize, &Metric, f64)> {
    let all = history.problem().metrics().iter().enumerate();
    all.filter_map(|(place, metric)| Some((place, metric, metric.limit?)))
}

impl Ledger {
    /// What the processes are told of the known points: of the objective, smaller is better, then of
    /// each metric with a limit, kept below 0.
    fn targets(&self, history: &History) -> Vec<Vec<f64>> {
        let metrics: Vec<Option<Vec<f64>>> =
            self.numbers.iter().map(|&number| history.mean_metrics(history.replicates(number))).collect();
        let loss = |metrics: &Vec<f64>| history.problem().loss(&Measurement::new(metrics.clone()));
        let merits = metrics.iter().zip(self.merits(history));
        let merits =
            merits.map(|(metrics, merit)| metrics.as_ref().map_or(merit, |m| Merit::Feasible(loss(m))));
        let losses = targets::losses(&merits.collect::<Vec<_>>());
        let warped = targets::normal_scores(&losses).into_iter().zip(targets::half_ranked(&losses));
        let warped: Vec<f64> = warped.map(|(score, half)| 0.5 * score + 0.5 * half).collect();
        let objective = targets::standardised(&warped).0;
        let excesses =
            limits(history).map(|(place, metric, limit)| excesses(&metrics, place, metric.goal, limit));
        std::iter::once(objective).chain(excesses).collect()
    }
}

/// By how much each point exceeds a limit, in units of the median distance from it; what was not
/// measured exceeds it as much as a point can.
fn excesses(metrics: &[Option<Vec<f64>>], place: usize, goal: Goal, limit: f64) -> Vec<f64> {
    const LARGEST: f64 = 3.0;
    let excess = |metrics: &Vec<f64>| {
        // Halves keep the difference of the largest numbers from overflowing.
        let difference = 0.5 * metrics[place] - 0.5 * limit;
        if goal == Goal::Min { difference } else { -difference }
    };
    let excesses: Vec<Option<f64>> = metrics.iter().map(|metrics| metrics.as_ref().map(excess)).collect();
    let distances: Vec<f64> =
        excesses.iter().flatten().map(|excess| excess.abs()).filter(|&d| d > 0.0).collect();
    let unit = targets::quantile_of(&distances, 0.5).max(f64::MIN_POSITIVE);
    excesses.iter().map(|excess| excess.map_or(LARGEST, |e| (e / unit).clamp(-LARGEST, LARGEST))).collect()
}

impl Finite {
    /// Proposals for the next `n` trials: `choose` gets the number of each, what is left for it and what
    /// was chosen before.
    pub(super) fn propose(
        &self,
        history: &History,
        region: &Region,
        n: usize,
        choose: impl Fn(u64, &[u32], &[u32]) -> Option<u32>,
    ) -> Result<Vec<Proposal>, Error> {
        let mut chosen = Vec::new();
        let mut proposals: Vec<Proposal> = Vec::new();
        for i in 0..n as u64 {
            let number = history.next_number() + i;
            let left = self.ledger.left(&chosen);
            if left.is_empty() {
                break;
            }
            let Some(point) = choose(number, &left, &chosen) else {
                // Nothing is left inside; a point of another trial is replaced by the driver.
                let mut rng = history.seed().child("finite", 1).rng(number);
                proposals.push(region.sample(history, &mut rng)?.into());
                continue;
            };
            chosen.push(point);
            proposals.push(self.ledger.pool.point(point).into());
        }
        if proposals.is_empty() {
            Err(Error::Exhausted { points: history.distinct() })
        } else {
            Ok(proposals)
        }
    }
}

impl Optimizer for Finite {
    fn ask(&self, history: &History, region: &Region, n: usize) -> Result<Vec<Proposal>, Error> {
        self.propose(history, region, n, |number, left, chosen| {
            self.choose(history, region, number, left, chosen)
        })
    }

    fn asked(&mut self, history: &History, _: &Region, number: u64) {
        self.ledger.asked(history, number);
    }

    fn told(&mut self, history: &History, number: u64) {
        self.ledger.told(history, number);
        self.fit_when_due(history);
    }

    fn snapshot(&self) -> Vec<u8> {
        let mut out = Writer::new(1);
        self.ledger.write(&mut out);
        out.u64(self.fitted as u64);
        for process in &self.processes {
            out.floats(&process.logarithms);
            out.floats(&process.steps);
        }
        out.finish()
    }

    fn restore(&mut self, history: &History, snapshot: &[u8]) -> Result<(), Error> {
        let mut from = Reader::new(1, snapshot)?;
        self.ledger.read(history, &mut from)?;
        self.fitted = usize::try_from(from.u64()?).map_err(|_| Error::Snapshot)?;
        for process in &mut self.processes {
            for value in process.logarithms.iter_mut().chain(&mut process.steps) {
                *value = from.f64()?;
            }
        }
        from.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Entry;
    use super::*;
    use crate::gp::pool::suits;
    use crate::{Options, Outcome, Parameter, Problem, Search, Seed, Space};

    const ENTRY: Entry = Entry {
        name: "finite",
        summary: "",
        options: &[],
        learns: true,
        deliberates: true,
        build: |history, _| {
            if suits(history.space()) {
                return Ok(Box::new(Finite::new(history, Plan::default())));
            }
            Err(Error::Unsuitable { method: "finite".into(), message: String::new() })
        },
    };

    #[test]
    fn it_conforms_on_small_spaces() {
        let left_out = crate::testing::check(&ENTRY);
        assert_eq!(left_out, ["numbers", "mixed", "conditional", "constrained", "bits"]);
    }

    fn space(n_options: i64) -> Space {
        let parameter = |i| Parameter::ordinal(&format!("x{i}"), (0..n_options).collect::<Vec<i64>>());
        Space::new((0..4).map(parameter).collect(), &[]).unwrap()
    }

    fn run(problem: Problem, seed: u64, trials: usize, metrics: impl Fn(&[f64]) -> Vec<f64>) -> Search {
        let mut search = Search::with(&ENTRY, problem, &Options::new(), Seed::new(seed)).unwrap();
        for _ in 0..trials {
            let number = search.ask(1).unwrap()[0];
            let history = search.history();
            let unit_point = history.space().encode(&history.trial(number).point);
            search.tell(number, Outcome::Measured(Measurement::new(metrics(&unit_point)))).unwrap();
        }
        search
    }

    /// The optimum is one of 2,401 points, half of which break the limit, of which nothing is known
    /// before; 60 random points find it with probability 0.025.
    #[test]
    fn limits_are_learned() {
        let metrics = vec![Metric::objective("loss", Goal::Min), Metric::constraint("cost", Goal::Max, -2.0)];
        let problem = Problem::new(space(7), metrics).unwrap();
        let loss = |u: &[f64]| u.iter().map(|u| (u - 0.8) * (u - 0.8)).sum::<f64>();
        let cost = |u: &[f64]| u.iter().sum::<f64>();
        let best = (0..2401)
            .map(|k| problem.space().encode(&problem.space().nth(k)))
            .filter(|u| cost(u) <= 2.0)
            .map(|u| loss(&u))
            .min_by(f64::total_cmp);
        for seed in 0..3 {
            let search = run(problem.clone(), seed, 60, |u| vec![loss(u), -cost(u)]);
            assert_eq!(search.history().best().map(|found| found.value), best);
        }
    }

    #[test]
    fn losses_of_any_scale_give_the_same_search() {
        let problem = Problem::new(space(5), vec![Metric::objective("loss", Goal::Min)]).unwrap();
        let points = |scale: f64| -> Vec<_> {
            // Powers of two, so that nothing is rounded.
            let search = run(problem.clone(), 1, 30, |u| vec![scale * u.iter().map(|u| u * u).sum::<f64>()]);
            search.history().trials().iter().map(|trial| trial.key).collect()
        };
        let want = points(1.0);
        assert!([2.0_f64.powi(-900), 2.0_f64.powi(1000)].map(points).iter().all(|keys| *keys == want));
    }

    #[test]
    fn many_known_points_are_thinned_and_the_best_stays() {
        let problem = Problem::new(space(6), vec![Metric::objective("loss", Goal::Min)]).unwrap();
        let mut search = Search::new(problem, "random", &Options::new(), Seed::new(4)).unwrap();
        let mut ledger = Ledger::new(search.history());
        for _ in 0..1100 {
            let number = search.ask(1).unwrap()[0];
            ledger.asked(search.history(), number);
            let loss = (number % 700) as f64;
            search.tell(number, Outcome::Measured(Measurement::new(vec![loss]))).unwrap();
            ledger.told(search.history(), number);
        }
        // 1,024 become 512, and 76 more follow.
        assert_eq!(ledger.numbers.len(), 588);
        assert!((0..100).all(|number| ledger.numbers.contains(&number)));
        assert_eq!(ledger.left(&[]).len(), 1296 - 1100);
    }
}

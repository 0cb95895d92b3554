//! LA-MCTS: a learned partition that tells another method where to search.

#[cfg(test)]
mod tests;

use super::bytes::{Reader, Writer};
use super::cmaes::is_bisected;
use super::design::latin_hypercube;
use super::options::Given;
use super::{Entry, Optimizer, Options, Proposal, method};
use crate::partition::{Asks, Family, Label, Partition, Plan, Tree, Value};
use crate::{Error, History, Literal, Origin, Region};

/// A row of the registry: a partition with a solver in its leaves.
macro_rules! row {
    ($name:literal, $solver:literal, deliberates: $deliberates:literal, $does:literal) => {
        Entry {
            name: $name,
            summary: concat!("learns a tree of regions, and ", $does, " in the most promising leaf"),
            options: OPTIONS,
            learns: true,
            deliberates: $deliberates,
            build: |history, options| build($name, $solver, history, options),
        }
    };
}

pub(super) const ENTRY: Entry = row!("la-mcts", "gp-cmaes", deliberates: true, "lets gp-cmaes search");
pub(super) const SLICE: Entry = row!("la-mcts+slice", "random", deliberates: false, "draws uniformly");
pub(super) const CMAES: Entry = row!("la-mcts+cmaes", "cmaes", deliberates: false, "lets cmaes search");
pub(super) const GP_CMAES: Entry =
    row!("la-mcts+gp-cmaes", "gp-cmaes", deliberates: true, "lets gp-cmaes search");
pub(super) const GP: Entry = row!("la-mcts+gp", "gp", deliberates: true, "lets gp search");
pub(super) const TPE: Entry = row!("la-mcts+tpe", "tpe", deliberates: true, "lets tpe search");
pub(super) const TURBO: Entry = row!("la-mcts+turbo", "turbo", deliberates: true, "lets turbo search");
pub(super) const MUTATION: Entry =
    row!("la-mcts+mutation", "aging-evolution", deliberates: false, "mutates good points");

const OPTIONS: &[(&str, &str, &str)] = &[
    ("leaf", "10 + n / 2, at most 100", "a region with more points is split"),
    ("cp", "0", "how much regions with few visits are favoured; values are ranks from 0 to 1"),
    ("growth", "1.25", "the tree is built anew when it has so many times the points; 0 for every time"),
    ("depth", "40, or 1 with gp-cmaes", "the most boundaries around a region; 0 for no partition"),
    ("label", "median", "which points are good: median, two-means (of x and rank) or ridge (predictions)"),
    ("boundary", "rbf", "what separates good from bad: rbf, cubic, linear (machines) or ridge (regression)"),
    ("value", "mean", "how good a region is, by the ranks of its points: mean, max or quantile (0.8)"),
    (
        "margin",
        "0, or 1 with gp, turbo and gp-cmaes",
        "how far a region reaches beyond its boundaries, in decision values: 1 is the margin of a machine",
    ),
    ("init", "2 n, from 10 to 40 (20 with gp-cmaes)", "trials of the first design, a Latin hypercube"),
    ("features", "false", "whether boundaries are drawn in the features that evaluations measure"),
    (SOLVER, "the solver's", "any option of the solver, such as solver-popsize of cmaes"),
];

/// How options of the solver begin.
const SOLVER: &str = "solver-*";

fn build(
    name: &'static str,
    solver: &str,
    history: &History,
    options: &Options,
) -> Result<Box<dyn Optimizer>, Error> {
    let given = Given { method: name, options };
    let plan = plan(&given, &suited(solver, history.space().unit_len()))?;
    // A process learns more from draws of its own than from a long design.
    let most = if solver == "gp-cmaes" { 20 } else { 40 };
    let default_init = (2 * history.space().unit_len()).clamp(10, most);
    let init = given.count("init", 1..=100_000)?.unwrap_or(default_init) as u64;
    let mut solver_options = serving(solver, init);
    let prefix = SOLVER.trim_end_matches('*');
    let own = |(key, value): (&String, _)| Some((key.strip_prefix(prefix)?.to_owned(), Clone::clone(value)));
    solver_options.extend(options.iter().filter_map(own));
    Ok(Box::new(LaMcts::new(history, plan, init, solver, &solver_options)?))
}

/// Options of a solver that serves leaves, where they are not its defaults.
fn serving(solver: &str, init: u64) -> Options {
    // The trials of the design are not steps of a distribution.
    let init = ("init", Literal::Int(init.cast_signed()));
    let options = match solver {
        // Runs are short, and begin where the leaf is best.
        "cmaes" => {
            vec![init, ("popsize", Literal::Int(8)), ("start", "best".into()), ("restarts", "stall".into())]
        }
        "gp-cmaes" => vec![init],
        // Boxes begin among points that are known.
        "turbo" => vec![("warm-up", Literal::Int(5))],
        _ => Vec::new(),
    };
    options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The partition that serves a solver best in a space of so many coordinates, by experiments in 20 and
/// in 100 dimensions on functions that no figure uses.
fn suited(solver: &str, dim: usize) -> Plan {
    let plan = Plan { leaf: (10 + dim / 2).min(100), ..Plan::default() };
    match solver {
        // A process knows better than a boundary what lies near it.
        "gp-cmaes" => Plan { margin: 1.0, depth: 1, ..plan },
        "gp" | "turbo" => Plan { margin: 1.0, ..plan },
        _ => plan,
    }
}

fn plan(given: &Given, default: &Plan) -> Result<Plan, Error> {
    let label = given.word("label", &["median", "two-means", "ridge"])?;
    let family = given.word("boundary", &["rbf", "cubic", "linear", "ridge"])?;
    let value = given.word("value", &["mean", "max", "quantile"])?;
    Ok(Plan {
        measured: given.flag("features", default.measured)?,
        label: [Label::Median, Label::TwoMeans, Label::Ridge][label],
        family: [Family::Rbf, Family::Cubic, Family::LinearSvm, Family::Ridge][family],
        value: [Value::Mean, Value::Max, Value::Quantile][value],
        cp: given.number("cp", 0.0..=1000.0)?.unwrap_or(default.cp),
        leaf: given.count("leaf", 6..=1_000_000)?.unwrap_or(default.leaf),
        growth: given.number("growth", 0.0..=1000.0)?.unwrap_or(default.growth),
        margin: given.number("margin", 0.0..=1000.0)?.unwrap_or(default.margin),
        depth: given.count("depth", 0..=1000)?.unwrap_or(default.depth),
    })
}

/// Latent action Monte Carlo tree search over a learned partition, with any method in its leaves.
///
/// The first trials, and those after a change of the space, are a Latin hypercube. After that the policy goes down the [`Tree`] from the
/// root to a leaf, and the solver proposes a point in the region of that leaf. Trials are proposed
/// one at a time, so that those that are pending count as visits for the next one.
///
/// The solver learns of all trials, those of a design included, and for which region they were asked.
///
/// # Source
/// Wang, Fonseca, Tian, *Learning Search Space Partition for Black-box Optimization using Monte
/// Carlo Tree Search*, `NeurIPS` 2020, arXiv:2007.00708.
/// Deviations: values are ranks, and the bonus has `ln n` as in `LaNAS`, so that one `Cp` fits all
/// objectives; children have the points on their side of the boundary; a boundary must hold on
/// points it was not learned from; the solver proposes inside the region.
pub(super) struct LaMcts {
    plan: Plan,
    tree: Tree,
    /// Trials of a design.
    init: u64,
    /// The first trial of the newest design.
    since: u64,
    solver: Box<dyn Optimizer>,
    asks: Asks,
}

impl LaMcts {
    /// A partition with the method `solver`, of some options, in its leaves.
    pub(super) fn new(
        history: &History,
        plan: Plan,
        init: u64,
        solver: &str,
        options: &Options,
    ) -> Result<Self, Error> {
        let tree = Tree::new(history.space(), plan.clone());
        let asks =
            Asks { bisections: matches!(solver, "cmaes" | "gp-cmaes").then_some(0), ..Asks::default() };
        let solver = method(solver)?.build(history, options)?;
        Ok(Self { plan, tree, init, since: history.next_number(), solver, asks })
    }

    /// The index of a trial in the newest design.
    fn design(&self, number: u64) -> Option<u64> {
        number.checked_sub(self.since).filter(|&index| index < self.init)
    }
}

const VERSION: u8 = 2;

impl Optimizer for LaMcts {
    fn ask(&self, history: &History, region: &Region, n: usize) -> Result<Vec<Proposal>, Error> {
        if !region.is_whole() {
            return self.solver.ask(history, region, n);
        }
        let number = history.next_number();
        if let Some(index) = self.design(number) {
            return Ok(vec![latin_hypercube(history, region, self.init, index, self.since)?.into()]);
        }
        self.solver.ask(history, &self.tree.region(), 1)
    }

    fn asked(&mut self, history: &History, region: &Region, number: u64) {
        let is_own = matches!(history.trial(number).origin, Origin::Method { .. } | Origin::Fresh);
        let is_design = is_own && region.is_whole() && self.design(number).is_some();
        let selects = is_own && region.is_whole() && !is_design;
        let asked_for = if selects { self.tree.region() } else { region.clone() };
        if is_own {
            self.asks.all += 1;
            self.asks.below_root += u64::from(!asked_for.is_whole());
        }
        if let (Some(bisections), Origin::Method { detail }) =
            (&mut self.asks.bisections, &history.trial(number).origin)
        {
            *bisections += u64::from(is_bisected(detail));
        }
        self.solver.asked(history, &asked_for, number);
        self.tree.asked(history, number);
    }

    fn told(&mut self, history: &History, number: u64) {
        self.solver.told(history, number);
        self.tree.told(history, number);
    }

    fn space_changed(&mut self, history: &History) -> Result<(), Error> {
        self.since = history.next_number();
        self.tree.space_changed(history);
        self.solver.space_changed(history)
    }

    fn partition(&self, _: &History) -> Option<Partition> {
        Some(Partition::new(&self.tree, self.asks))
    }

    fn snapshot(&self) -> Vec<u8> {
        let mut out = Writer::new(VERSION);
        let Asks { all, below_root, bisections } = self.asks;
        for word in [self.tree.built_at() as u64, self.since, all, below_root, bisections.unwrap_or(0)] {
            out.u64(word);
        }
        out.bytes(&self.solver.snapshot());
        out.finish()
    }

    fn restore(&mut self, history: &History, snapshot: &[u8]) -> Result<(), Error> {
        let mut from = Reader::new(VERSION, snapshot)?;
        let built_at = usize::try_from(from.u64()?).map_err(|_| Error::Snapshot)?;
        self.since = from.u64()?;
        (self.asks.all, self.asks.below_root) = (from.u64()?, from.u64()?);
        let bisections = from.u64()?;
        self.asks.bisections = self.asks.bisections.map(|_| bisections);
        self.solver.restore(history, from.bytes()?)?;
        from.finish()?;
        self.tree = Tree::restore(self.plan.clone(), history, built_at)?;
        Ok(())
    }
}

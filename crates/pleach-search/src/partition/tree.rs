//! A tree of regions that is learned from the outcomes of trials.

use std::collections::HashMap;
use std::sync::Arc;

use super::coding::{Coding, Measured};
use super::policy::{Ranks, Scores, ucb};
use super::split::Rule;
use super::{Boundary, Family, Label, Region, Side, Value};
use crate::{Error, History, Merit, Space};

/// The choices that make a method of a tree.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Whether boundaries are drawn in the features that evaluations measure, not in the parameters.
    pub(crate) measured: bool,
    /// Which points of a node are good.
    pub(crate) label: Label,
    /// What separates them from the bad ones.
    pub(crate) family: Family,
    /// What the scores of a node amount to.
    pub(crate) value: Value,
    /// The weight of the bonus for children with few visits.
    pub(crate) cp: f64,
    /// A node with more points is split.
    pub(crate) leaf: usize,
    /// The tree is built anew whenever the number of points has grown by this factor; 0 for at every tell.
    pub(crate) growth: f64,
    /// How far a region reaches beyond its boundaries, in decision values: 1 is the margin of a machine.
    pub(crate) margin: f64,
    /// No node is deeper; 0 for no partition at all.
    pub(crate) depth: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            measured: false,
            label: Label::Median,
            family: Family::Rbf,
            value: Value::Mean,
            cp: 0.0,
            leaf: 20,
            growth: 1.25,
            margin: 0.0,
            depth: 40,
        }
    }
}

/// A tree of regions; see [`Tree::told`] for when it changes.
///
/// The points of a node are split by a [`Rule`], and children have the points on their side of the
/// boundary, so that every point lies in the region of its leaf.
/// The score of a point is its rank among the points that were known when the tree was built.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    plan: Plan,
    coding: Coding,
    /// Every known point, once.
    points: Vec<Known>,
    /// Where the point with this first trial is in `points`.
    places: HashMap<u64, usize>,
    /// The root is the first; children come after their parents.
    nodes: Vec<Node>,
    ranks: Ranks,
    /// Number of tells when the tree was built.
    built_at: usize,
    /// The number of points at which it is built anew.
    next_build: usize,
}

#[derive(Clone, Debug)]
struct Known {
    /// Its first trial.
    number: u64,
    code: Vec<f64>,
    merit: Merit,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) parent: Option<usize>,
    pub(super) depth: usize,
    /// With the child of its positive side and that of the other.
    pub(super) split: Option<(Arc<Boundary>, [usize; 2])>,
    /// The side of the boundary above that the regions inside are on.
    side: Option<Side>,
    scores: Scores,
    /// Pending trials inside.
    pub(super) pending: usize,
    /// In a leaf: its points, as indices.
    members: Vec<usize>,
    /// In a leaf: its pending trials.
    waiting: Vec<u64>,
    /// In a leaf: the number of points at which a split is tried next.
    due: usize,
}

impl Node {
    /// Told points and pending trials.
    pub(super) fn visits(&self) -> usize {
        self.scores.len() + self.pending
    }

    /// Number of told points.
    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }
}

impl Tree {
    pub(crate) fn new(space: &Space, plan: Plan) -> Self {
        let coding =
            if plan.measured { Coding::Measured(Measured::default()) } else { Coding::points(space) };
        let mut tree = Self {
            plan,
            coding,
            points: Vec::new(),
            places: HashMap::new(),
            nodes: Vec::new(),
            ranks: Ranks::default(),
            built_at: 0,
            next_build: 0,
        };
        tree.plant(Vec::new(), Vec::new());
        tree.next_build = tree.after(0);
        tree
    }

    /// The tree after all of `history`, if it was last built after `built_at` tells.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if there were fewer tells.
    pub(crate) fn restore(plan: Plan, history: &History, built_at: usize) -> Result<Self, Error> {
        if built_at > history.told().len() {
            return Err(Error::Snapshot);
        }
        let mut tree = Self::new(history.space(), plan);
        tree.build(history, built_at);
        for (number, merit) in history.tells_after(built_at) {
            tree.learn(history, number, merit);
        }
        tree.wait_for(history);
        Ok(tree)
    }

    /// Number of tells when the tree was last built.
    pub(crate) fn built_at(&self) -> usize {
        self.built_at
    }

    /// Learns that a trial is pending.
    ///
    /// If its place is known only after the evaluation, it counts nowhere.
    pub(crate) fn asked(&mut self, history: &History, number: u64) {
        if self.coding.is_checkable()
            && let Some(code) = self.coding.code(history, number)
        {
            let path = self.path(&code);
            for &node in &path {
                self.nodes[node].pending += 1;
            }
            self.nodes[path[path.len() - 1]].waiting.push(number);
        }
    }

    /// Learns the outcome of a trial.
    ///
    /// The tree is built anew when the number of points reaches the next `⌈growth^k · leaf⌉`, from the
    /// points in the order of their trials. In between a point goes down to its leaf, which is split
    /// when it has grown by a quarter since that was last tried.
    /// So the tree follows from the number of tells at which it was built, and the tells after that.
    pub(crate) fn told(&mut self, history: &History, number: u64) {
        if self.coding.is_checkable()
            && let Some(code) = self.coding.code(history, number)
        {
            let path = self.path(&code);
            let waiting = &mut self.nodes[path[path.len() - 1]].waiting;
            if let Some(at) = waiting.iter().position(|&other| other == number) {
                waiting.swap_remove(at);
                for &node in &path {
                    self.nodes[node].pending -= 1;
                }
            }
        }
        let Some(merit) = history.merit(number) else { return };
        self.learn(history, number, merit);
        let n = self.coding.measured().unwrap_or(self.points.len());
        if n >= self.next_build || self.plan.growth == 0.0 {
            self.build(history, history.told().len());
            self.wait_for(history);
        }
    }

    /// Builds the tree anew for a space that was changed.
    pub(crate) fn space_changed(&mut self, history: &History) {
        self.build(history, history.told().len());
        self.wait_for(history);
    }

    /// The region that the next trial is asked for.
    pub(crate) fn region(&self) -> Region {
        let leaf = *self.selection().last().expect("a path begins at the root");
        let Some(layout) = self.coding.layout().filter(|_| leaf > 0) else { return Region::whole() };
        let members = self.nodes[leaf].members.iter().map(|&i| self.points[i].number).collect();
        let mut sides = Vec::with_capacity(self.nodes[leaf].depth);
        let mut node = leaf;
        while let Some(parent) = self.nodes[node].parent {
            sides.extend(self.nodes[node].side.clone());
            node = parent;
        }
        sides.reverse();
        Region::part(layout.clone(), sides, members, self.coding.is_checkable())
    }

    /// The nodes from the root to the leaf that the policy chooses.
    pub(super) fn selection(&self) -> Vec<usize> {
        let mut path = vec![0];
        while let Some((_, [a, b])) = self.nodes[path[path.len() - 1]].split {
            path.push(if self.bound(a) >= self.bound(b) { a } else { b });
        }
        path
    }

    pub(super) fn coding(&self) -> &Coding {
        &self.coding
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The value of a node.
    pub(super) fn value(&self, node: usize) -> f64 {
        self.nodes[node].scores.value(self.plan.value)
    }

    /// What the policy compares; infinite for the root.
    pub(super) fn bound(&self, node: usize) -> f64 {
        match self.nodes[node].parent {
            None => f64::INFINITY,
            Some(parent) => {
                let visits = self.nodes[node].visits();
                ucb(self.value(node), visits, self.nodes[parent].visits(), self.plan.cp)
            }
        }
    }

    /// The first trials of the points of a leaf, with their merits.
    pub(super) fn members(&self, node: usize) -> impl Iterator<Item = (Merit, u64)> {
        self.nodes[node].members.iter().map(|&i| (self.points[i].merit, self.points[i].number))
    }

    /// The nodes from the root to the leaf that holds a code.
    fn path(&self, code: &[f64]) -> Vec<usize> {
        let mut path = vec![0];
        while let (Some((boundary, children)), Some(layout)) =
            (&self.nodes[path[path.len() - 1]].split, self.coding.layout())
        {
            path.push(children[usize::from(boundary.decision(layout, code) <= 0.0)]);
        }
        path
    }

    fn learn(&mut self, history: &History, number: u64, merit: Merit) {
        if merit == Merit::Withdrawn {
            return;
        }
        self.coding.told(history, number);
        let first = history.replicates(number)[0];
        if let Some(&at) = self.places.get(&first) {
            let old = std::mem::replace(&mut self.points[at].merit, merit);
            let (old, new) = (self.ranks.score(old), self.ranks.score(merit));
            for node in self.path(&self.points[at].code) {
                self.nodes[node].scores.replace(old, new);
            }
        } else if let Some(code) = self.coding.code(history, first) {
            let path = self.path(&code);
            let score = self.ranks.score(merit);
            for &node in &path {
                self.nodes[node].scores.insert(score);
            }
            let leaf = path[path.len() - 1];
            self.nodes[leaf].members.push(self.points.len());
            self.places.insert(first, self.points.len());
            self.points.push(Known { number: first, code, merit });
            self.grow(history, leaf);
        }
    }

    /// Builds the tree from what was known after the first `told` tells.
    fn build(&mut self, history: &History, told: usize) {
        self.coding.rebuild(history, told);
        let known = history.known_after(told);
        let merits = known.iter().map(|(_, merit)| *merit).collect();
        let point =
            |(number, merit)| self.coding.code(history, number).map(|code| Known { number, code, merit });
        let points = known.into_iter().filter_map(point).collect();
        self.built_at = told;
        self.plant(points, merits);
        self.next_build = self.after(self.points.len());
        self.grow(history, 0);
    }

    /// A root with all points.
    fn plant(&mut self, points: Vec<Known>, merits: Vec<Merit>) {
        self.ranks = Ranks::new(merits);
        self.places = points.iter().map(|point| point.number).zip(0..).collect();
        self.points = points;
        let members = (0..self.points.len()).collect();
        self.nodes = vec![self.node(None, members)];
    }

    fn node(&self, parent: Option<usize>, members: Vec<usize>) -> Node {
        let scores = members.iter().map(|&i| self.ranks.score(self.points[i].merit)).collect();
        Node {
            parent,
            depth: parent.map_or(0, |parent| self.nodes[parent].depth + 1),
            split: None,
            side: None,
            scores: Scores::new(scores),
            pending: 0,
            members,
            waiting: Vec::new(),
            due: self.plan.leaf + 1,
        }
    }

    /// Splits a leaf, and its parts, where that is due.
    fn grow(&mut self, history: &History, leaf: usize) {
        let mut open = vec![leaf];
        while let Some(at) = open.pop() {
            let node = &self.nodes[at];
            let n = node.members.len();
            if n < node.due || node.depth >= self.plan.depth {
                continue;
            }
            self.nodes[at].due = n + n.div_ceil(4);
            let Some(split) = self.split(at) else { continue };
            let node = &mut self.nodes[at];
            let (members, waiting) = (std::mem::take(&mut node.members), std::mem::take(&mut node.waiting));
            let side = |good: bool| {
                members.iter().zip(&split.sides).filter(|(_, side)| **side == good).map(|(i, _)| *i).collect()
            };
            let children = [self.nodes.len(), self.nodes.len() + 1];
            for good in [true, false] {
                let child = self.node(Some(at), side(good));
                self.nodes.push(child);
            }
            let boundary = Arc::new(split.boundary);
            for (child, good) in children.into_iter().zip([true, false]) {
                let margin = if good { self.plan.margin } else { -self.plan.margin };
                let boundary =
                    if margin == 0.0 { boundary.clone() } else { Arc::new(boundary.raised(margin)) };
                self.nodes[child].side = Some(Side { boundary, good });
            }
            for number in waiting {
                if let (Some(code), Some(layout)) = (self.coding.code(history, number), self.coding.layout())
                {
                    let child = children[usize::from(boundary.decision(layout, &code) <= 0.0)];
                    self.nodes[child].pending += 1;
                    self.nodes[child].waiting.push(number);
                }
            }
            self.nodes[at].split = Some((boundary, children));
            open.extend(children);
        }
    }

    fn split(&self, node: usize) -> Option<super::split::Split> {
        // Trees of many points have small machines, so that the time to build grows with n ln n.
        let most = (1_000_000 / self.points.len().max(1)).clamp(250, 1000);
        let rule =
            Rule { label: self.plan.label, family: self.plan.family, least: (self.plan.leaf / 4).max(3) };
        let members = &self.nodes[node].members;
        let codes: Vec<&[f64]> = members.iter().map(|&i| self.points[i].code.as_slice()).collect();
        let merits: Vec<Merit> = members.iter().map(|&i| self.points[i].merit).collect();
        rule.split(self.coding.layout()?, &codes, &merits, most)
    }

    /// Counts all pending trials.
    fn wait_for(&mut self, history: &History) {
        for &number in history.pending() {
            self.asked(history, number);
        }
    }

    /// The smallest `⌈growth^k · leaf⌉` above `n`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of points")]
    fn after(&self, n: usize) -> usize {
        let growth = self.plan.growth.max(1.01);
        let mut size = self.plan.leaf as f64;
        while size.ceil() as usize <= n {
            size *= growth;
        }
        size.ceil() as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{FailureClass, Goal, Measurement, Metric, Origin, Outcome, Parameter, Point, Problem, Seed};

    /// A history of numbers and options, and trees that follow it.
    struct World {
        history: History,
        plan: Plan,
        tree: Tree,
    }

    /// Parent, points, pending trials and value of a node, and the members if it is a leaf.
    type Row = (Option<usize>, usize, usize, f64, Vec<(Merit, u64)>);

    impl World {
        fn new(plan: Plan) -> Self {
            let mut parameters: Vec<Parameter> =
                (0..3).map(|i| Parameter::float(&format!("x{i}"), -1.0, 1.0)).collect();
            parameters.push(Parameter::choice("kind", ["a", "b", "c"]));
            let space = Space::new(parameters, &[]).unwrap();
            let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
            let history = History::new(problem, Seed::new(1), 1);
            let tree = Tree::new(history.space(), plan.clone());
            Self { history, plan, tree }
        }

        fn ask(&mut self, point: Point) -> u64 {
            let number = self.history.push(point, Origin::Enqueued);
            self.tree.asked(&self.history, number);
            number
        }

        fn tell(&mut self, number: u64, outcome: Outcome) {
            self.history.settle(number, outcome);
            self.tree.told(&self.history, number);
        }

        /// A bowl; some points are evaluated twice, some trials fail or are withdrawn.
        fn run(&mut self, n: u64, seed: u64) {
            let seed = Seed::new(seed);
            for k in 0..n {
                let mut rng = seed.rng(k);
                let point = match self.history.trials() {
                    [.., trial] if rng.below(9) == 0 => trial.point.clone(),
                    _ => self.history.sample(&mut rng).unwrap(),
                };
                self.ask(point);
                while self.history.pending().len() > 4 {
                    let waiting: Vec<u64> = self.history.pending().iter().copied().collect();
                    let number = waiting[rng.index(waiting.len())];
                    let code = self.history.space().encode(&self.history.trial(number).point);
                    let loss = code.iter().map(|u| (u - 0.3).powi(2)).sum::<f64>() + 0.1 * rng.unit();
                    let outcome = match rng.below(12) {
                        0 => Outcome::Failed(FailureClass::Crashed),
                        1 => Outcome::Withdrawn,
                        _ => Outcome::Measured(Measurement {
                            features: Some(code[..2].to_vec()),
                            ..Measurement::new(vec![loss])
                        }),
                    };
                    self.tell(number, outcome);
                }
            }
        }

        /// What every node is.
        fn table(tree: &Tree) -> Vec<Row> {
            let row = |at: usize| {
                let node = &tree.nodes[at];
                (node.parent, node.len(), node.pending, tree.value(at), tree.members(at).collect())
            };
            (0..tree.nodes.len()).map(row).collect()
        }
    }

    fn plan(leaf: usize, growth: f64) -> Plan {
        Plan { leaf, growth, ..Plan::default() }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn a_tree_without_growth_equals_one_built_at_once(
            seed in 0..1000_u64, n in 10..120_u64, measured: bool, leaf in 6..20_usize,
        ) {
            let mut world = World::new(Plan { measured, ..plan(leaf, 0.0) });
            world.run(n, seed);
            let told = world.history.told().len();
            let once = Tree::restore(world.plan.clone(), &world.history, told).unwrap();
            prop_assert_eq!(World::table(&world.tree), World::table(&once));
            for trial in world.history.trials() {
                let Some(code) = once.coding.code(&world.history, trial.number) else { continue };
                for (a, b) in world.tree.nodes.iter().zip(&once.nodes) {
                    let decision = |tree: &Tree, node: &Node| {
                        let layout = tree.coding.layout()?;
                        Some(node.split.as_ref()?.0.decision(layout, &code))
                    };
                    match (decision(&world.tree, a), decision(&once, b)) {
                        (Some(a), Some(b)) => prop_assert!((a - b).abs() < 1e-9),
                        (a, b) => prop_assert_eq!(a, b),
                    }
                }
            }
        }

        #[test]
        fn a_restored_tree_is_the_tree(seed in 0..1000_u64, n in 10..200_u64, measured: bool, leaf in 6..20_usize) {
            let mut world = World::new(Plan { measured, ..plan(leaf, 1.25) });
            world.run(n, seed);
            let restored = Tree::restore(world.plan.clone(), &world.history, world.tree.built_at()).unwrap();
            prop_assert_eq!(World::table(&world.tree), World::table(&restored));
        }
    }

    #[test]
    fn every_point_is_in_the_region_of_its_leaf_and_every_trial_counts() {
        let mut world = World::new(plan(10, 1.25));
        world.run(300, 3);
        let (tree, history) = (&world.tree, &world.history);
        assert!(tree.nodes.len() > 10, "{} nodes", tree.nodes.len());
        let mut seen = 0;
        for (at, node) in tree.nodes.iter().enumerate() {
            let members: Vec<u64> = tree.members(at).map(|(_, number)| number).collect();
            seen += members.len();
            for number in members {
                let path = tree.path(&tree.coding.code(history, number).unwrap());
                assert_eq!(path.last(), Some(&at));
            }
            if let Some((_, [a, b])) = node.split {
                let (a, b) = (&tree.nodes[a], &tree.nodes[b]);
                assert_eq!((node.len(), node.pending), (a.len() + b.len(), a.pending + b.pending));
                assert!(a.len().min(b.len()) >= 3);
            }
        }
        let known = history.known_after(history.told().len());
        assert_eq!((seen, tree.nodes[0].len()), (known.len(), known.len()));
        assert_eq!(tree.nodes[0].pending, history.pending().len());

        let region = tree.region();
        assert!(!region.is_whole() && !region.members(history).is_empty());
        assert!(region.members(history).iter().all(|&number| region.contains(&history.trial(number).point)));
    }

    #[test]
    fn a_margin_widens_every_region() {
        let [narrow, wide] = [0.0, 1.0].map(|margin| {
            let mut world = World::new(Plan { margin, ..plan(10, 1.25) });
            world.run(300, 3);
            world
        });
        let history = &narrow.history;
        assert_eq!(World::table(&narrow.tree), World::table(&wide.tree));
        let (inner, outer) = (narrow.tree.region(), wide.tree.region());
        assert_eq!(inner.members(history), outer.members(history));
        let points = (0..500).map(|k| history.sample(&mut Seed::new(9).rng(k)).unwrap());
        let (mut inside, mut around) = (0, 0);
        for point in points {
            inside += usize::from(inner.contains(&point));
            around += usize::from(outer.contains(&point));
            assert!(outer.contains(&point) || !inner.contains(&point));
        }
        assert!(around > inside, "{inside} of {around}");
    }

    #[test]
    fn pending_trials_send_the_next_one_elsewhere() {
        let mut world = World::new(Plan { cp: 0.5, ..plan(10, 1.25) });
        world.run(100, 4);
        let first = world.tree.selection();
        let leaf = *first.last().unwrap();
        let (_, number) = world.tree.members(leaf).next().unwrap();
        let point = world.history.trial(number).point.clone();
        let moved = (0..200).any(|_| {
            world.ask(point.clone());
            world.tree.selection() != first
        });
        assert!(moved && world.tree.nodes[leaf].pending > 0);
    }

    #[test]
    fn nothing_is_split_where_nothing_differs_or_nothing_can_be_learned() {
        for outcome in [
            |_: &mut crate::Rng| Outcome::Measured(Measurement::new(vec![1e300])),
            |_: &mut crate::Rng| Outcome::Infeasible,
        ] {
            let mut world = World::new(plan(10, 1.25));
            for k in 0..100 {
                let mut rng = Seed::new(6).rng(k);
                let number = world.ask(world.history.sample(&mut rng).unwrap());
                world.tell(number, outcome(&mut rng));
            }
            assert_eq!(world.tree.nodes.len(), 1);
            assert!(world.tree.region().is_whole());
        }
        // Noise: a boundary of 400 points passes the check by chance with probability below 10⁻⁴.
        let mut world = World::new(plan(399, 1.25));
        for k in 0..400 {
            let mut rng = Seed::new(7).rng(k);
            let number = world.ask(world.history.sample(&mut rng).unwrap());
            world.tell(number, Outcome::Measured(Measurement::new(vec![rng.unit()])));
        }
        assert_eq!(world.tree.nodes.len(), 1);
    }

    #[test]
    fn an_option_that_decides_is_split_by_equality() {
        let mut world = World::new(plan(40, 1.25));
        for k in 0..120 {
            let mut rng = Seed::new(8).rng(k);
            let number = world.ask(world.history.sample(&mut rng).unwrap());
            let kind = world.history.trial(number).point.values()[3].as_choice();
            let loss = if kind == Some(1) { 0.0 } else { 1.0 } + 1e-3 * rng.unit();
            world.tell(number, Outcome::Measured(Measurement::new(vec![loss])));
        }
        let view = super::super::Partition::new(&world.tree, super::super::Asks::default());
        assert_eq!(view.nodes[0].split.as_deref(), Some("kind == 'b'"));
        let best = view.nodes[0].best.unwrap();
        let path = view.path(&world.history, best);
        assert_eq!(path[0].decision, Some(1.0));
        assert!(view.nodes[path[1].node].best == Some(best) && view.nodes[1].selected);
    }

    #[test]
    fn trees_are_built_at_sizes_that_grow_by_a_factor() {
        let tree = World::new(plan(40, 1.25)).tree;
        let sizes = [(0, 40), (39, 40), (40, 50), (50, 63), (63, 79), (100_000, 123_260)];
        assert!(
            sizes.iter().all(|&(n, next)| tree.after(n) == next),
            "{:?}",
            sizes.map(|(n, _)| tree.after(n))
        );
    }
}

//! The tree over all points of a small finite space.

use std::cell::RefCell;

use super::super::bytes::{Reader, Writer};
use super::super::finite::{Finite, Ledger};
use super::super::{Optimizer, Proposal};
use super::{Design, Leaf};
use crate::linalg::Triangle;
use crate::partition::{Asks, Part, Partition, Rule, ranks, ucb};
use crate::{Error, History, Key, Merit, Origin, Region, Rng};

/// A node with fewer known points is not split.
const MIN_POINTS: usize = 6;

/// The share of the parameters in the similarity of two points, if there are descriptors; these have equal
/// shares of the rest.
const PARAMETERS_SHARE: f64 = 0.4;

/// Known points that a regression is of.
const MOST: usize = 300;

/// The penalty of ridge regression, in units of the similarity of a point to itself.
const PENALTY: f64 = 0.1;

/// Search of at most 10⁵ points by a tree that is built anew for every trial, along the selected path
/// alone.
///
/// The similarity of two points is fixed: `exp(-2/d Σ_j d_j)` over the `d` parameters and `exp(-D_v)` over
/// the descriptors `v`, in shares.
pub(super) struct Cells {
    finite: Finite,
    leaf: Leaf,
    height: usize,
    cp: f64,
    /// Similarities of known points to all: a cache.
    rows: RefCell<Vec<(u32, Vec<f32>)>>,
    asks: Asks,
}

impl Cells {
    pub(super) fn new(history: &History, design: &Design) -> Self {
        Self {
            finite: Finite::new(history, super::super::finite::Plan::default()),
            leaf: design.leaf.unwrap_or(Leaf::Improvement),
            height: design.height,
            cp: design.cp,
            rows: RefCell::default(),
            asks: Asks::default(),
        }
    }

    /// The divisions on the way from the root to the leaf that the policy chooses, and the candidates in
    /// that leaf.
    fn descend(&self, history: &History, candidates: Vec<u32>, chosen: &[u32]) -> (Vec<Level>, Vec<u32>) {
        let ledger = &self.finite.ledger;
        let known = ledger.known.rows();
        let ranks = ranks(&ledger.merits(history).collect::<Vec<_>>());
        let mut rows = self.rows.borrow_mut();
        self.update(&mut rows);
        let pending = ledger.pending(history, chosen);
        let mut node = Node::new((0..known.len()).collect(), candidates, pending, &ranks);
        let mut levels = Vec::new();
        for _ in 1..self.height {
            if node.members.len() < MIN_POINTS {
                break;
            }
            let Some(model) = regress(&node.members, |i, k| f64::from(rows[i].1[known[k] as usize]), &ranks)
            else {
                break;
            };
            let predict = |points: &[u32]| model.predict(&rows, points);
            let points: Vec<u32> = node.members.iter().map(|&i| known[i]).collect();
            let predictions = predict(&points);
            let threshold = predictions.iter().sum::<f64>() / predictions.len() as f64;
            let sides = [&predictions, &predict(&node.candidates), &predict(&node.pending)]
                .map(|predictions| predictions.iter().map(|&p| p > threshold).collect::<Vec<bool>>());
            let children = [true, false].map(|side| {
                Node::new(
                    part(&node.members, &sides[0], side),
                    part(&node.candidates, &sides[1], side),
                    part(&node.pending, &sides[2], side),
                    &ranks,
                )
            });
            if children.iter().any(|child| child.members.is_empty()) {
                break;
            }
            let bounds =
                children.each_ref().map(|child| ucb(child.value, child.visits(), node.visits(), self.cp));
            let [good, bad] = &children;
            // A child in which nothing is left is no choice.
            let takes_good =
                bad.candidates.is_empty() || !good.candidates.is_empty() && bounds[0] >= bounds[1];
            let taken = usize::from(!takes_good);
            node = children[taken].clone();
            levels.push(Level { model, threshold, children, bounds, taken });
        }
        (levels, node.candidates)
    }

    /// Brings the rows to the known points.
    fn update(&self, rows: &mut Vec<(u32, Vec<f32>)>) {
        let Ledger { pool, known, .. } = &self.finite.ledger;
        let kept = rows.iter().zip(known.rows()).take_while(|((a, _), b)| a == *b).count();
        rows.truncate(kept);
        let n_axes = pool.axes().len().max(1);
        let decays = vec![2.0 / n_axes as f64; n_axes];
        let n_views = pool.n_views();
        let share = if n_views == 0 { 1.0 } else { PARAMETERS_SHARE };
        for &point in &known.rows()[kept..] {
            let mut row = pool.product_row(point, share, &decays);
            for view in 0..n_views {
                pool.add_view_row(view, point, (1.0 - share) / n_views as f64, 1.0, &mut row);
            }
            rows.push((point, row));
        }
    }

    fn choose(
        &self,
        history: &History,
        region: &Region,
        number: u64,
        candidates: &[u32],
        chosen: &[u32],
    ) -> Option<u32> {
        let mut rng = history.seed().child("lanas", 0).rng(number);
        let ledger = &self.finite.ledger;
        let scores: Vec<f64> = match self.leaf {
            Leaf::Improvement => return self.finite.choose(history, region, number, candidates, chosen),
            Leaf::Mutation => {
                let parent = parent(ledger, history, &mut rng);
                let near =
                    |&point: &u32| -f64::from(parent.map_or(0, |parent| ledger.pool.n_apart(parent, point)));
                candidates.iter().map(|point| near(point) + 0.5 * rng.unit()).collect()
            }
            Leaf::Uniform => candidates.iter().map(|_| rng.unit()).collect(),
        };
        ledger.pick(history, region, candidates, &scores)
    }
}

/// What lies in a node.
#[derive(Clone, Debug)]
struct Node {
    /// Indices of known points.
    members: Vec<usize>,
    candidates: Vec<u32>,
    pending: Vec<u32>,
    /// The mean rank of the members; ½ without any.
    value: f64,
}

impl Node {
    fn new(members: Vec<usize>, candidates: Vec<u32>, pending: Vec<u32>, ranks: &[f64]) -> Self {
        let sum: f64 = members.iter().map(|&i| ranks[i]).sum();
        let value = if members.is_empty() { 0.5 } else { sum / members.len() as f64 };
        Self { members, candidates, pending, value }
    }

    fn visits(&self) -> usize {
        self.members.len() + self.pending.len()
    }
}

/// A division of a node on the selected path.
#[derive(Debug)]
struct Level {
    model: Model,
    /// Points of larger predictions go to the first child.
    threshold: f64,
    children: [Node; 2],
    bounds: [f64; 2],
    /// The child that the policy takes.
    taken: usize,
}

/// A prediction of ranks, less their mean.
#[derive(Debug)]
struct Model {
    /// Indices of known points, each with the weight of the similarity to it.
    weights: Vec<(usize, f64)>,
    /// The mean that was taken off.
    mean: f64,
}

impl Model {
    fn predict(&self, rows: &[(u32, Vec<f32>)], points: &[u32]) -> Vec<f64> {
        let mut sums = vec![0.0; points.len()];
        for &(i, weight) in &self.weights {
            let row = &rows[i].1;
            sums.iter_mut()
                .zip(points)
                .for_each(|(sum, &point)| *sum += weight * f64::from(row[point as usize]));
        }
        sums
    }
}

fn part<T: Copy>(items: &[T], sides: &[bool], side: bool) -> Vec<T> {
    items.iter().zip(sides).filter(|(_, own)| **own == side).map(|(item, _)| *item).collect()
}

/// One of the five best known points.
fn parent(ledger: &Ledger, history: &History, rng: &mut Rng) -> Option<u32> {
    const PARENTS: usize = 5;
    let mut ranked: Vec<(Merit, u32)> =
        ledger.merits(history).zip(ledger.known.rows().iter().copied()).collect();
    ranked.sort_unstable();
    ranked.truncate(PARENTS);
    (!ranked.is_empty()).then(|| ranked[rng.index(ranked.len())].1)
}

/// Kernel ridge regression of the ranks of some known points, less their mean; of more than [`MOST`], of so
/// many that are spread evenly over the ranks, since it takes cubic time.
fn regress(members: &[usize], similarity: impl Fn(usize, usize) -> f64, ranks: &[f64]) -> Option<Model> {
    let mut chosen = members.to_vec();
    if chosen.len() > MOST {
        chosen.sort_by(|&a, &b| ranks[a].total_cmp(&ranks[b]).then(a.cmp(&b)));
        chosen = (0..MOST).map(|k| chosen[k * chosen.len() / MOST]).collect();
        chosen.sort_unstable();
    }
    let mut factor = Triangle::default();
    for (at, &i) in chosen.iter().enumerate() {
        let mut row: Vec<f64> = chosen[..=at].iter().map(|&k| similarity(k, i)).collect();
        row[at] += PENALTY;
        factor.push(&row).then_some(())?;
    }
    let mean = chosen.iter().map(|&i| ranks[i]).sum::<f64>() / chosen.len() as f64;
    let targets: Vec<f64> = chosen.iter().map(|&i| ranks[i] - mean).collect();
    let weights = factor.solve_transposed(&factor.solve(&targets));
    Some(Model { weights: chosen.into_iter().zip(weights).collect(), mean })
}

/// The detail of a trial that was asked for a region below the root.
const BELOW_ROOT: &[u8] = &[1];

impl Optimizer for Cells {
    fn ask(&self, history: &History, region: &Region, n: usize) -> Result<Vec<Proposal>, Error> {
        let below_root = RefCell::new(Vec::new());
        let mut proposals = self.finite.propose(history, region, n, |number, left, chosen| {
            let (levels, leaf) = self.descend(history, left.to_vec(), chosen);
            let inside = self.choose(history, region, number, &leaf, chosen);
            below_root.borrow_mut().push(inside.is_some() && !levels.is_empty());
            inside.or_else(|| self.choose(history, region, number, left, chosen))
        })?;
        for (proposal, below_root) in proposals.iter_mut().zip(below_root.into_inner()) {
            if below_root {
                proposal.detail = BELOW_ROOT.to_vec();
            }
        }
        Ok(proposals)
    }

    fn asked(&mut self, history: &History, region: &Region, number: u64) {
        self.finite.asked(history, region, number);
        if let Origin::Method { detail } = &history.trial(number).origin {
            self.asks.all += 1;
            self.asks.below_root += u64::from(detail[..] == *BELOW_ROOT);
        }
    }

    fn told(&mut self, history: &History, number: u64) {
        if self.leaf == Leaf::Improvement {
            self.finite.told(history, number);
        } else {
            self.finite.ledger.told(history, number);
        }
    }

    fn partition(&self, history: &History) -> Option<Partition> {
        let ledger = &self.finite.ledger;
        let (levels, _) = self.descend(history, ledger.left(&[]), &[]);
        let everything: Vec<u32> = (0..ledger.pool.len()).collect();
        let keys: Vec<Key> =
            everything.iter().map(|&point| history.space().key(&ledger.pool.point(point))).collect();
        let merits: Vec<Merit> = ledger.merits(history).collect();
        let ranks = ranks(&merits);
        let part = |parent: Option<usize>, depth: usize, node: &Node, bound: f64, selected: bool| Part {
            parent,
            children: None,
            depth,
            split: None,
            value: node.value,
            bound,
            points: node.members.len(),
            pending: node.pending.len(),
            best: node.members.iter().min_by_key(|&&i| merits[i]).map(|&i| ledger.numbers()[i]),
            selected,
            rule: None,
        };
        let root = Node::new((0..ranks.len()).collect(), Vec::new(), ledger.pending(history, &[]), &ranks);
        let mut nodes = vec![part(None, 0, &root, f64::INFINITY, true)];
        let mut at = 0;
        for (depth, level) in levels.into_iter().enumerate() {
            let decisions = level.model.predict(&self.rows.borrow(), &everything);
            let decisions = keys.iter().zip(decisions).map(|(key, p)| (*key, p - level.threshold)).collect();
            let first = nodes.len();
            nodes[at].children = Some([first, first + 1]);
            nodes[at].split = Some(format!("predicted rank above {:.2}", level.threshold + level.model.mean));
            nodes[at].rule = Some(Rule::Table(decisions));
            for (side, child) in level.children.iter().enumerate() {
                nodes.push(part(Some(at), depth + 1, child, level.bounds[side], side == level.taken));
            }
            at = first + level.taken;
        }
        Some(Partition::of_pool(nodes, self.asks, history))
    }

    fn snapshot(&self) -> Vec<u8> {
        let mut out = Writer::new(VERSION);
        out.u64(self.asks.all);
        out.u64(self.asks.below_root);
        out.bytes(&self.finite.snapshot());
        out.finish()
    }

    fn restore(&mut self, history: &History, snapshot: &[u8]) -> Result<(), Error> {
        let mut from = Reader::new(VERSION, snapshot)?;
        let (all, below_root) = (from.u64()?, from.u64()?);
        self.finite.restore(history, from.bytes()?)?;
        from.finish()?;
        self.asks = Asks { all, below_root, bisections: None };
        Ok(())
    }
}

const VERSION: u8 = 1;

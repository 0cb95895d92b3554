//! The tree over all points of a small finite space.

use std::cell::RefCell;

use super::super::finite::{Finite, Ledger};
use super::super::{Optimizer, Proposal};
use super::{Design, Leaf};
use crate::linalg::Triangle;
use crate::partition::{ranks, ucb};
use crate::{Error, History, Merit, Region, Rng};

/// A node with fewer known points is not split.
const MIN_POINTS: usize = 6;

/// The share of the parameters in the similarity of two points, if there are descriptors; these have equal
/// shares of the rest.
const PARAMETERS_SHARE: f64 = 0.4;

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
}

impl Cells {
    pub(super) fn new(history: &History, design: &Design) -> Self {
        Self {
            finite: Finite::new(history, super::super::finite::Plan::default()),
            leaf: design.leaf.unwrap_or(Leaf::Improvement),
            height: design.height,
            cp: design.cp,
            rows: RefCell::default(),
        }
    }

    /// The candidates in the leaf that the policy chooses.
    fn region(&self, history: &History, mut candidates: Vec<u32>, chosen: &[u32]) -> Vec<u32> {
        let ledger = &self.finite.ledger;
        let known = ledger.known.rows();
        let ranks = ranks(&ledger.merits(history).collect::<Vec<_>>());
        let mut rows = self.rows.borrow_mut();
        self.update(&mut rows);
        let mut members: Vec<usize> = (0..known.len()).collect();
        let mut pending = ledger.pending(history, chosen);
        for _ in 1..self.height {
            if members.len() < MIN_POINTS {
                break;
            }
            let similarity = |i: usize, point: u32| f64::from(rows[i].1[point as usize]);
            let Some(weights) = regress(&members, |i, k| similarity(i, known[k]), &ranks) else { break };
            let predict = |points: &[u32]| -> Vec<f64> {
                let mut sums = vec![0.0; points.len()];
                for (weight, &i) in weights.iter().zip(&members) {
                    let row = &rows[i].1;
                    sums.iter_mut()
                        .zip(points)
                        .for_each(|(sum, &point)| *sum += weight * f64::from(row[point as usize]));
                }
                sums
            };
            let points: Vec<u32> = members.iter().map(|&i| known[i]).collect();
            let predictions = predict(&points);
            let threshold = predictions.iter().sum::<f64>() / predictions.len() as f64;
            let sides = [&predictions, &predict(&candidates), &predict(&pending)]
                .map(|predictions| predictions.iter().map(|&p| p > threshold).collect::<Vec<bool>>());
            let visits = members.len() + pending.len();
            let children = [true, false].map(|side| Child {
                members: part(&members, &sides[0], side),
                candidates: part(&candidates, &sides[1], side),
                pending: part(&pending, &sides[2], side),
            });
            if children.iter().any(|child| child.members.is_empty()) {
                break;
            }
            let [a, b] = children.each_ref().map(|child| {
                let mean = child.members.iter().map(|&i| ranks[i]).sum::<f64>() / child.members.len() as f64;
                ucb(mean, child.members.len() + child.pending.len(), visits, self.cp)
            });
            let [good, bad] = children;
            // A child in which nothing is left is no choice.
            let takes_good = bad.candidates.is_empty() || !good.candidates.is_empty() && a >= b;
            let Child { members: m, candidates: c, pending: p } = if takes_good { good } else { bad };
            (members, candidates, pending) = (m, c, p);
        }
        candidates
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

/// What goes to one side of a boundary.
struct Child {
    members: Vec<usize>,
    candidates: Vec<u32>,
    pending: Vec<u32>,
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

/// The weights of kernel ridge regression of the ranks of some known points, less their mean.
fn regress(members: &[usize], similarity: impl Fn(usize, usize) -> f64, ranks: &[f64]) -> Option<Vec<f64>> {
    let mut factor = Triangle::default();
    for (at, &i) in members.iter().enumerate() {
        let mut row: Vec<f64> = members[..=at].iter().map(|&k| similarity(k, i)).collect();
        row[at] += PENALTY;
        factor.push(&row).then_some(())?;
    }
    let mean = members.iter().map(|&i| ranks[i]).sum::<f64>() / members.len() as f64;
    let targets: Vec<f64> = members.iter().map(|&i| ranks[i] - mean).collect();
    Some(factor.solve_transposed(&factor.solve(&targets)))
}

impl Optimizer for Cells {
    fn ask(&self, history: &History, region: &Region, n: usize) -> Result<Vec<Proposal>, Error> {
        self.finite.propose(history, region, n, |number, left, chosen| {
            let leaf = self.region(history, left.to_vec(), chosen);
            let inside = self.choose(history, region, number, &leaf, chosen);
            inside.or_else(|| self.choose(history, region, number, left, chosen))
        })
    }

    fn asked(&mut self, history: &History, region: &Region, number: u64) {
        self.finite.asked(history, region, number);
    }

    fn told(&mut self, history: &History, number: u64) {
        if self.leaf == Leaf::Improvement {
            self.finite.told(history, number);
        } else {
            self.finite.ledger.told(history, number);
        }
    }

    fn snapshot(&self) -> Vec<u8> {
        self.finite.snapshot()
    }

    fn restore(&mut self, history: &History, snapshot: &[u8]) -> Result<(), Error> {
        self.finite.restore(history, snapshot)
    }
}

//! How the points of a node are split in two.

use super::label::ranks;
use super::{Boundary, Family, Label};
use crate::Merit;
use crate::layout::{Block, Layout};

/// A boundary is used if it is right about this share of the points it was not learned from; less is
/// noise, or bubbles around single points.
const HELD_OUT: f64 = 0.6;
const FOLDS: usize = 3;

/// How boundaries are chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// Which points are good.
    pub(crate) label: Label,
    /// What separates them from the bad ones.
    pub(crate) family: Family,
    /// Points on each side, at least.
    pub(crate) least: usize,
}

/// A boundary with the side of every point: true where its decision is positive.
pub(super) struct Split {
    pub(super) boundary: Boundary,
    pub(super) sides: Vec<bool>,
}

impl Rule {
    /// The best boundary between the good and the bad points, or `None` if none is good enough.
    ///
    /// A learned boundary competes with the equality of an option (`kind == 'a'`); the one that is
    /// more often right about held-out points wins. Of more than `most` points, evenly spaced ones
    /// are learned from.
    pub(super) fn split(
        &self,
        layout: &Layout,
        codes: &[&[f64]],
        merits: &[Merit],
        most: usize,
    ) -> Option<Split> {
        let count = codes.len().min(most);
        let chosen = || (0..count).map(|i| i * codes.len() / count);
        let some: Vec<&[f64]> = chosen().map(|i| codes[i]).collect();
        let merits: Vec<Merit> = chosen().map(|i| merits[i]).collect();
        let ranks = ranks(&merits);
        let good = self.label.good(layout, &some, &ranks)?;
        let data = Data { layout, codes: &some, good: &good, ranks: &ranks };
        let learned: &Fit = &|data| Boundary::fit(self.family, layout, data.codes, data.good, data.ranks);
        let equal: &Fit = &|data| data.best_equality(self.least);
        let mut rivals = vec![(data.held_out(learned), learned)];
        if layout.blocks().iter().any(|block| matches!(block, Block::Option { count: 2.., .. })) {
            rivals.push((data.held_out(equal), equal));
        }
        // The sort is stable: among equals a learned boundary comes first.
        rivals.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut passing = rivals.into_iter().filter(|(accuracy, _)| *accuracy >= HELD_OUT);
        passing.find_map(|(_, fit)| self.divide(layout, codes, fit(&data)?))
    }

    fn divide(&self, layout: &Layout, codes: &[&[f64]], boundary: Boundary) -> Option<Split> {
        let sides: Vec<bool> = codes.iter().map(|code| boundary.decision(layout, code) > 0.0).collect();
        let n_good = sides.iter().filter(|&&side| side).count();
        (n_good.min(sides.len() - n_good) >= self.least).then_some(Split { boundary, sides })
    }
}

/// How a boundary is chosen for some points.
type Fit<'a> = dyn Fn(&Data) -> Option<Boundary> + 'a;

/// The points of a node.
struct Data<'a> {
    layout: &'a Layout,
    codes: &'a [&'a [f64]],
    good: &'a [bool],
    ranks: &'a [f64],
}

impl Data<'_> {
    /// The share of points on their side of a boundary that was learned without them.
    fn held_out(&self, fit: &Fit) -> f64 {
        let n = self.codes.len();
        let mut right = 0;
        for fold in 0..FOLDS {
            let is_out = |i: &usize| i % FOLDS == fold;
            let rest: Vec<usize> = (0..n).filter(|i| !is_out(i)).collect();
            let codes: Vec<&[f64]> = rest.iter().map(|&i| self.codes[i]).collect();
            let good: Vec<bool> = rest.iter().map(|&i| self.good[i]).collect();
            let ranks: Vec<f64> = rest.iter().map(|&i| self.ranks[i]).collect();
            let Some(boundary) =
                fit(&Data { layout: self.layout, codes: &codes, good: &good, ranks: &ranks })
            else {
                continue;
            };
            // The positive side of an equality may be the bad one.
            let agrees = |i: &usize| (boundary.decision(self.layout, self.codes[*i]) > 0.0) == self.good[*i];
            let mine = (0..n).filter(is_out).filter(agrees).count();
            right += match boundary {
                Boundary::Equal { .. } if 2 * rest.iter().filter(|i| agrees(i)).count() < rest.len() => {
                    (0..n).filter(is_out).count() - mine
                }
                _ => mine,
            };
        }
        right as f64 / n as f64
    }

    /// The equality that is right about the most points, whichever side is the good one, with at
    /// least `least` of a node's points on both sides.
    fn best_equality(&self, least: usize) -> Option<Boundary> {
        let n = self.codes.len();
        let mut best: Option<(usize, Boundary)> = None;
        for block in self.layout.blocks() {
            let Block::Option { at, count: count @ 2.. } = *block else { continue };
            // By option: points, and good points.
            let mut table = vec![(0_usize, 0_usize); usize::try_from(count).unwrap_or(0)];
            for (code, &good) in self.codes.iter().zip(self.good) {
                if let Some(option) = super::kernel::option_of(code[at], count) {
                    table[option].0 += 1;
                    table[option].1 += usize::from(good);
                }
            }
            let all_good = self.good.iter().filter(|&&good| good).count();
            for (option, (points, good)) in table.into_iter().enumerate() {
                // Training sets of the check are two thirds of a node.
                if points.min(n - points) * FOLDS < least * (FOLDS - 1) {
                    continue;
                }
                let right = good + (n - points) - (all_good - good);
                let right = right.max(n - right);
                if best.as_ref().is_none_or(|(most, _)| right > *most) {
                    let value = (option as f64 + 0.5) / count as f64;
                    best = Some((right, Boundary::Equal { at, value }));
                }
            }
        }
        best.map(|(_, boundary)| boundary)
    }
}

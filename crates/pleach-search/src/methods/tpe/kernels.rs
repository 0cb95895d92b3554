//! The kernels of the two Parzen estimators, kept up to date point by point.

use std::collections::BTreeSet;

use crate::layout::{Block, Layout};
use crate::normal;
use crate::{Point, Space};

/// The estimator that a point belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Of the best points.
    Good,
    /// Of all others.
    Bad,
    /// Of none.
    Out,
}

/// How a parameter is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A normal density on `[0, 1]`.
    Smooth {
        /// Its place in a code.
        at: usize,
    },
    /// The mass of such a density over each cell.
    Cells {
        /// Its place in a code.
        at: usize,
    },
    /// One option is more likely than the others.
    Option {
        /// Its place in a code.
        at: usize,
        /// Number of options.
        count: u64,
    },
    /// Orders are the less likely the more pairs they exchange.
    Permutation {
        /// Where it begins in a code.
        at: usize,
        /// Number of elements.
        len: usize,
    },
}

/// A coordinate of more cells than this is smooth: two cells lie within the narrowest kernel.
const FEW_CELLS: u64 = 200;
/// The narrowest kernel of an estimator of many points.
pub(super) const NARROWEST: f64 = 0.01;
/// `ln √(2π)`.
pub(super) const LN_SQRT_TAU: f64 = 0.918_938_533_204_672_8;

/// One kernel a point: a product over the parameters, centred at the point.
///
/// The width `σ` of a number is the larger of its distances to the next numbers of the estimator,
/// at least `1 / min(100, n + 2)`, at most 1. Everything here is a function of the codes and classes
/// of the points, whatever the order in which they came.
#[derive(Debug)]
pub(super) struct Kernels {
    layout: Layout,
    kinds: Vec<Kind>,
    codes: Vec<f64>,
    classes: Vec<Class>,
    /// `1 / σ` for each point and parameter.
    rates: Vec<f64>,
    /// For each point and parameter, `ln` of what makes the density integrate to 1.
    norms: Vec<f64>,
    /// The sum of `norms` over [`Kernels::is_plain`] parameters, for each point.
    totals: Vec<f64>,
    good: Sorted,
    bad: Sorted,
}

/// For each parameter: the coordinates of the points of an estimator where it exists, as ordered bits.
type Sorted = Vec<BTreeSet<(u64, u32)>>;

impl Kernels {
    pub(super) fn new(space: &Space) -> Self {
        let layout = Layout::new(space);
        let kind = |block: &Block| match *block {
            Block::Number { at } if space.unit_cells(at).is_some_and(|cells| cells <= FEW_CELLS) => {
                Kind::Cells { at }
            }
            Block::Number { at } => Kind::Smooth { at },
            Block::Option { at, count } => Kind::Option { at, count },
            Block::Permutation { at, len } => Kind::Permutation { at, len },
        };
        let kinds: Vec<Kind> = layout.blocks().iter().map(kind).collect();
        Self {
            kinds,
            codes: Vec::new(),
            classes: Vec::new(),
            rates: Vec::new(),
            norms: Vec::new(),
            totals: Vec::new(),
            good: vec![BTreeSet::new(); layout.blocks().len()],
            bad: vec![BTreeSet::new(); layout.blocks().len()],
            layout,
        }
    }

    /// Adds a point, of no class yet.
    pub(super) fn push(&mut self, point: &Point) {
        // Bits of numbers from 0 on are in their order; NaN, for what does not exist, stays.
        self.codes.extend(self.layout.code(point).iter().map(|u| u.clamp(0.0, 1.0) + 0.0));
        self.classes.push(Class::Out);
        self.totals.push(0.0);
        self.rates.resize(self.classes.len() * self.kinds.len(), 0.0);
        self.norms.resize(self.classes.len() * self.kinds.len(), 0.0);
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// One kind a parameter.
    pub(super) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Whether a parameter is smooth and exists at every point.
    pub(super) fn is_plain(&self, parameter: usize) -> bool {
        matches!(self.kinds[parameter], Kind::Smooth { .. })
            && self.layout.space().parameters()[parameter].when.is_none()
    }

    /// The code of a point.
    pub(super) fn code(&self, index: usize) -> &[f64] {
        &self.codes[index * self.layout.len()..][..self.layout.len()]
    }

    /// `1 / σ` for each parameter of a point.
    pub(super) fn rates(&self, index: usize) -> &[f64] {
        &self.rates[index * self.kinds.len()..][..self.kinds.len()]
    }

    /// `ln` of the normalising constant for each parameter of a point.
    pub(super) fn norms(&self, index: usize) -> &[f64] {
        &self.norms[index * self.kinds.len()..][..self.kinds.len()]
    }

    /// The sum of [`Kernels::norms`] over plain parameters.
    pub(super) fn total_norm(&self, index: usize) -> f64 {
        self.totals[index]
    }

    /// The points of a class, in their order.
    pub(super) fn members(&self, class: Class) -> Vec<usize> {
        (0..self.classes.len()).filter(|&index| self.classes[index] == class).collect()
    }

    /// The number of points of a class at which a parameter exists.
    pub(super) fn count(&self, class: Class, parameter: usize) -> usize {
        match class {
            Class::Good => self.good[parameter].len(),
            Class::Bad => self.bad[parameter].len(),
            Class::Out => 0,
        }
    }

    /// Moves a point to a class.
    pub(super) fn classify(&mut self, index: usize, class: Class) {
        let before = std::mem::replace(&mut self.classes[index], class);
        if before != class {
            self.update(before, index, false);
            self.update(class, index, true);
        }
    }

    /// Adds a point to its class, or removes it, and renews the widths that depend on it.
    fn update(&mut self, class: Class, index: usize, enters: bool) {
        let members = match class {
            Class::Good => &mut self.good,
            Class::Bad => &mut self.bad,
            Class::Out => return,
        };
        let name = u32::try_from(index).expect("points fit in memory");
        let code = &self.codes[index * self.layout.len()..][..self.layout.len()];
        let mut changed = Vec::new();
        for (parameter, kind) in self.kinds.iter().enumerate() {
            let (Kind::Smooth { at }
            | Kind::Cells { at }
            | Kind::Option { at, .. }
            | Kind::Permutation { at, .. }) = *kind;
            if code[at].is_nan() {
                continue;
            }
            let sorted = &mut members[parameter];
            let key = (code[at].to_bits(), name);
            if enters {
                sorted.insert(key);
            } else {
                sorted.remove(&key);
            }
            if !matches!(kind, Kind::Smooth { .. } | Kind::Cells { .. }) {
                continue;
            }
            let least = 1.0 / (1.0 / NARROWEST).min(sorted.len() as f64 + 2.0);
            let mut renew = |key: (u64, u32)| {
                let sigma = width(sorted, key).clamp(least, 1.0);
                let at = key.1 as usize * self.kinds.len() + parameter;
                self.rates[at] = 1.0 / sigma;
                self.norms[at] = ln_norm(f64::from_bits(key.0), sigma);
                changed.push(key.1);
            };
            // Only among few points does the least width depend on their number.
            if sorted.len() as f64 + 2.0 <= 1.0 / NARROWEST {
                sorted.iter().copied().for_each(&mut renew);
            } else {
                let before = sorted.range(..key).next_back().copied();
                let after = sorted.range(key..).find(|&&other| other != key).copied();
                before.into_iter().chain(enters.then_some(key)).chain(after).for_each(&mut renew);
            }
        }
        changed.sort_unstable();
        changed.dedup();
        for index in changed {
            let plain = (0..self.kinds.len()).filter(|&parameter| self.is_plain(parameter));
            self.totals[index as usize] = plain.map(|parameter| self.norms(index as usize)[parameter]).sum();
        }
    }
}

/// The larger of the distances to the next numbers; those of the first and last number are to their
/// one neighbour, that of a single number is to the farther end.
fn width(sorted: &BTreeSet<(u64, u32)>, key: (u64, u32)) -> f64 {
    let here = f64::from_bits(key.0);
    let below = sorted.range(..key).next_back().map(|&(bits, _)| here - f64::from_bits(bits));
    let above = sorted.range(key..).nth(1).map(|&(bits, _)| f64::from_bits(bits) - here);
    match (below, above) {
        (Some(below), Some(above)) => below.max(above),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => here.max(1.0 - here),
    }
}

/// `−ln(σ √(2π) Z)`, where `Z` is the mass of the normal distribution inside `[0, 1]`.
pub(super) fn ln_norm(centre: f64, sigma: f64) -> f64 {
    -(sigma * normal::mass(-centre / sigma, (1.0 - centre) / sigma)).ln() - LN_SQRT_TAU
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parameter, Seed};

    #[test]
    fn kernels_do_not_depend_on_the_order_of_events() {
        let parameters = vec![
            Parameter::float("x", 0.0, 1.0),
            Parameter::int("k", 0, 9),
            Parameter::float("y", 0.0, 1.0).when("k > 3"),
        ];
        let space = Space::new(parameters, &[]).unwrap();
        let mut rng = Seed::new(1).rng(0);
        let (mut kernels, mut last) = (Kernels::new(&space), Vec::new());
        for step in 0..3_000 {
            if step % 10 == 0 {
                kernels.push(&space.sample(&mut rng, &[]).unwrap());
                last.push(Class::Out);
            }
            let index = rng.index(last.len());
            last[index] = [Class::Good, Class::Bad, Class::Bad, Class::Out][rng.index(4)];
            kernels.classify(index, last[index]);
        }
        let mut direct = Kernels::new(&space);
        for index in 0..last.len() {
            direct.codes.extend_from_slice(kernels.code(index));
        }
        direct.classes = vec![Class::Out; last.len()];
        direct.rates = vec![0.0; kernels.rates.len()];
        direct.norms = vec![0.0; kernels.norms.len()];
        direct.totals = vec![0.0; last.len()];
        (0..last.len()).rev().for_each(|index| direct.classify(index, last[index]));
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        for index in (0..last.len()).filter(|&index| last[index] != Class::Out) {
            let active = if kernels.code(index)[2].is_nan() { 2 } else { 3 };
            for of in [Kernels::rates, Kernels::norms] {
                assert_eq!(bits(&of(&kernels, index)[..active]), bits(&of(&direct, index)[..active]));
            }
            assert_eq!(kernels.total_norm(index).to_bits(), direct.total_norm(index).to_bits());
        }
    }
}

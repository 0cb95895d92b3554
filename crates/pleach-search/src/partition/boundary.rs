//! What separates the good from the bad points of a node.

use std::borrow::Cow;
use std::sync::Arc;

use super::kernel::{Columns, Kernel, LANES, features};
use super::ridge::ridge;
use super::svm::{self, C};
use crate::layout::{Block, Layout};
use crate::linalg::{axpy, dot, squared_distance};

/// Points that a support vector machine is trained on at most.
const MOST_TRAINED: usize = 1000;
/// Pairs of points that the median distances are taken over.
const PAIRS: usize = 2000;

/// Ways to learn a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Ridge regression on the targets; the good side is where the prediction exceeds its mean
    /// (Wang et al. 2019, arXiv:1906.06832, Alg. 1).
    Ridge,
    /// A support vector machine with a Gaussian kernel (and its kin for options and orders).
    Rbf,
    /// A support vector machine with a cubic kernel.
    Cubic,
    /// A support vector machine without kernel.
    LinearSvm,
}

/// A boundary in the space of codes (see [`Layout`]).
#[derive(Clone, Debug)]
pub(crate) enum Boundary {
    /// `weights · φ + offset` of the features of a code.
    Linear {
        /// One weight a feature.
        weights: Vec<f64>,
        /// The offset.
        offset: f64,
    },
    /// `Σ cᵢ k(vᵢ, ·) + offset`.
    Expansion(Expansion),
    /// The option at one coordinate against all others: 1 on it, −1 elsewhere.
    Equal {
        /// The coordinate.
        at: usize,
        /// Its value on the good side.
        value: f64,
    },
}

/// A sum of kernels around support vectors.
#[derive(Clone, Debug)]
pub(crate) struct Expansion {
    pub(super) kernel: Kernel,
    /// As [`Kernel::vector`] makes them of codes.
    pub(super) vectors: Arc<Columns>,
    /// One a vector, zeros for those that fill the last lanes.
    pub(super) coefficients: Vec<f64>,
    pub(super) offset: f64,
}

impl Boundary {
    /// Learns to separate the good codes from the others; `None` if these or the codes leave
    /// nothing to learn.
    ///
    /// Support vector machines are trained on the labels `good`, ridge regression on `targets`,
    /// larger for better.
    pub(crate) fn fit(
        family: Family,
        layout: &Layout,
        codes: &[&[f64]],
        good: &[bool],
        targets: &[f64],
    ) -> Option<Self> {
        if family == Family::Ridge {
            let rows: Vec<Vec<f64>> = codes.iter().map(|code| features(layout, code)).collect();
            return Self::linear(&rows, targets);
        }
        let n_good = good.iter().filter(|&&good| good).count();
        if n_good == 0 || n_good == good.len() {
            return None;
        }
        let chosen = trained_on(good.len());
        let labels: Vec<bool> = chosen.iter().map(|&i| good[i]).collect();
        let codes: Vec<&[f64]> = chosen.iter().map(|&i| codes[i]).collect();
        if family == Family::Rbf {
            let kernel = mixed(layout, &codes)?;
            let rows: Vec<Cow<'_, [f64]>> = codes.iter().map(|code| kernel.vector(layout, code)).collect();
            let rows: Vec<&[f64]> = rows.iter().map(|row| &**row).collect();
            return Some(Self::machine(kernel, layout, &rows, &labels));
        }
        let rows: Vec<Vec<f64>> = codes.iter().map(|code| features(layout, code)).collect();
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let variance = variance(&rows);
        (variance > 1e-12).then_some(())?;
        Some(match family {
            Family::Cubic => Self::machine(Kernel::Cubic { gamma: 1.0 / variance }, layout, &rows, &labels),
            _ => Self::linear_machine(&rows, &labels, 1.0 / variance),
        })
    }

    /// Positive on the good side.
    pub(crate) fn decision(&self, layout: &Layout, code: &[f64]) -> f64 {
        match self {
            Boundary::Linear { weights, offset } if layout.is_numbers() => {
                let term = |(weight, u): (&f64, &f64)| if u.is_nan() { 0.0 } else { weight * (u - 0.5) };
                weights.iter().zip(code).map(term).sum::<f64>() + offset
            }
            Boundary::Linear { weights, offset } => dot(weights, &features(layout, code)) + offset,
            Boundary::Expansion(expansion) => expansion.value(layout, code),
            #[expect(clippy::float_cmp, reason = "options are coded as the exact middles of their cells")]
            Boundary::Equal { at, value } => {
                if code[*at] == *value {
                    1.0
                } else {
                    -1.0
                }
            }
        }
    }

    /// The same boundary with decision values larger by `by`; an equality stays as it is.
    pub(super) fn raised(&self, by: f64) -> Self {
        let mut raised = self.clone();
        match &mut raised {
            Boundary::Linear { offset, .. } | Boundary::Expansion(Expansion { offset, .. }) => *offset += by,
            Boundary::Equal { .. } => {}
        }
        raised
    }

    /// A ridge boundary, scaled so that the points it was learned from are 1 away on average.
    fn linear(rows: &[Vec<f64>], targets: &[f64]) -> Option<Self> {
        let model = ridge(rows, targets)?;
        let offset = -dot(&model.weights, &model.means);
        let distance = |row: &Vec<f64>| (dot(&model.weights, row) + offset).abs();
        let scale = rows.iter().map(distance).sum::<f64>() / rows.len() as f64;
        (scale > 1e-9).then_some(())?;
        let weights = model.weights.iter().map(|weight| weight / scale).collect();
        Some(Boundary::Linear { weights, offset: offset / scale })
    }

    fn linear_machine(rows: &[&[f64]], good: &[bool], gamma: f64) -> Self {
        let n = rows.len();
        let mut gram = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                gram[i * n + j] = gamma * dot(rows[i], rows[j]);
                gram[j * n + i] = gram[i * n + j];
            }
        }
        let solution = svm::solve(&gram, good, C);
        let mut weights = vec![0.0; rows[0].len()];
        for (row, coefficient) in rows.iter().zip(&solution.coefficients) {
            axpy(gamma * coefficient, row, &mut weights);
        }
        Boundary::Linear { weights, offset: solution.offset }
    }

    fn machine(kernel: Kernel, layout: &Layout, vectors: &[&[f64]], good: &[bool]) -> Self {
        let n = vectors.len();
        let columns = Columns::new(vectors.iter().copied());
        let mut gram = vec![0.0; n * n];
        for i in 0..n {
            for start in (0..=i).step_by(LANES) {
                let values = kernel.lanes(layout, vectors[i], &columns, start);
                for j in start..(start + LANES).min(i + 1) {
                    gram[i * n + j] = values[j - start];
                    gram[j * n + i] = values[j - start];
                }
            }
        }
        let solution = svm::solve(&gram, good, C);
        let supports: Vec<usize> = (0..n).filter(|&i| solution.coefficients[i] != 0.0).collect();
        let vectors = Arc::new(Columns::new(supports.iter().map(|&i| vectors[i])));
        let mut coefficients: Vec<f64> = supports.iter().map(|&i| solution.coefficients[i]).collect();
        coefficients.resize(vectors.stride(), 0.0);
        Boundary::Expansion(Expansion { kernel, vectors, coefficients, offset: solution.offset })
    }
}

impl Expansion {
    fn value(&self, layout: &Layout, code: &[f64]) -> f64 {
        let vector = self.kernel.vector(layout, code);
        let mut sums = [0.0; LANES];
        for start in (0..self.vectors.stride()).step_by(LANES) {
            let values = self.kernel.lanes(layout, &vector, &self.vectors, start);
            for k in 0..LANES {
                sums[k] += self.coefficients[start + k] * values[k];
            }
        }
        ((sums[0] + sums[4]) + (sums[1] + sums[5]))
            + ((sums[2] + sums[6]) + (sums[3] + sums[7]))
            + self.offset
    }
}

/// Mean squared distance from the mean.
fn variance(rows: &[&[f64]]) -> f64 {
    let mut mean = vec![0.0; rows[0].len()];
    for row in rows {
        axpy(1.0 / rows.len() as f64, row, &mut mean);
    }
    rows.iter().map(|row| squared_distance(row, &mean)).sum::<f64>() / rows.len() as f64
}

/// The indices to train on: all, or evenly spaced ones.
fn trained_on(n: usize) -> Vec<usize> {
    let count = n.min(MOST_TRAINED);
    (0..count).map(|i| i * n / count).collect()
}

/// The mixed kernel of the median heuristic: each kind of parameter has the same share in the
/// exponent, which is 1 for a pair of points at the median distances. `None` if all codes are the same.
fn mixed(layout: &Layout, codes: &[&[f64]]) -> Option<Kernel> {
    let n = codes.len();
    let step = (n * (n - 1) / 2).div_ceil(PAIRS).max(1);
    // Distances over numbers, options, orders.
    let mut parts: [Vec<f64>; 3] = Default::default();
    let mut count = 0_usize;
    let vector = |code| Kernel::Mixed { gamma: 1.0, theta: 1.0, lambda: 1.0 }.vector(layout, code);
    for i in 0..n {
        let pairs = (0..i).filter(|_| {
            count += 1;
            count.is_multiple_of(step)
        });
        for j in pairs {
            let (one, other) = (vector(codes[i]), vector(codes[j]));
            let other = Columns::new(std::iter::once(&*other));
            let mut sums = [0.0; 3];
            for block in layout.blocks() {
                let kind = match block {
                    Block::Number { .. } => 0,
                    Block::Option { .. } => 1,
                    Block::Permutation { .. } => 2,
                };
                sums[kind] += super::kernel::distances(*block, &one, &other, 0)[0];
            }
            (0..3).for_each(|kind| parts[kind].push(sums[kind]));
        }
    }
    let scales = parts.map(|mut distances| {
        distances.sort_by(f64::total_cmp);
        let median = distances.get(distances.len() / 2).copied().unwrap_or(0.0);
        // Where most pairs are equal, the mean still tells the scale.
        let mean = distances.iter().sum::<f64>() / distances.len().max(1) as f64;
        if median > 1e-12 { median } else { mean }
    });
    let kinds = scales.iter().filter(|&&scale| scale > 1e-12).count() as f64;
    let [gamma, theta, lambda] = scales.map(|scale| if scale > 1e-12 { 1.0 / (kinds * scale) } else { 0.0 });
    (kinds > 0.0).then_some(Kernel::Mixed { gamma, theta, lambda })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parameter, Seed, Space};

    /// A layout, codes of random points, and which of them are good.
    fn node(
        parameters: Vec<Parameter>,
        n: u64,
        is_good: impl Fn(&[f64]) -> bool,
    ) -> (Layout, Vec<Vec<f64>>, Vec<bool>) {
        let layout = Layout::new(&Space::new(parameters, &[]).unwrap());
        let draw = |k| layout.code(&layout.space().sample(&mut Seed::new(5).rng(k), &[]).unwrap());
        let codes: Vec<Vec<f64>> = (0..n).map(draw).collect();
        let good = codes.iter().map(|code| is_good(code)).collect();
        (layout, codes, good)
    }

    /// The part of fresh points that a boundary places rightly.
    fn accuracy(family: Family, parameters: Vec<Parameter>, is_good: impl Fn(&[f64]) -> bool) -> f64 {
        let (layout, codes, good) = node(parameters, 600, is_good);
        let codes: Vec<&[f64]> = codes.iter().map(Vec::as_slice).collect();
        let targets: Vec<f64> = good.iter().map(|&good| f64::from(u8::from(good))).collect();
        let boundary = Boundary::fit(family, &layout, &codes[..300], &good[..300], &targets[..300]).unwrap();
        let right = (300..600).filter(|&i| (boundary.decision(&layout, codes[i]) > 0.0) == good[i]);
        right.count() as f64 / 300.0
    }

    fn floats(d: usize) -> Vec<Parameter> {
        (0..d).map(|i| Parameter::float(&format!("x{i}"), 0.0, 1.0)).collect()
    }

    #[test]
    fn every_family_learns_what_it_can_express() {
        let ball = |code: &[f64]| code.iter().map(|u| (u - 0.5).powi(2)).sum::<f64>() < 0.25;
        let half = |code: &[f64]| code[0] + 0.5 * code[1] > code[2] + 0.2;
        let check = |family, want: f64, got: f64| assert!(got > want, "{family:?}: {got}");
        for family in [Family::Ridge, Family::LinearSvm, Family::Cubic, Family::Rbf] {
            check(family, 0.93, accuracy(family, floats(3), half));
        }
        for family in [Family::Cubic, Family::Rbf] {
            check(family, 0.9, accuracy(family, floats(3), ball));
        }
        let mixed = || {
            let when = Parameter::float("m", 0.0, 1.0).when("c == 'b'");
            vec![Parameter::choice("c", ["a", "b", "c"]), when, Parameter::permutation("p", 5)]
        };
        // b with a large m, or any with element 0 before element 4.
        let rule = |code: &[f64]| code[1] > 0.4 || code[2] < code[6];
        for family in [Family::Ridge, Family::LinearSvm, Family::Cubic, Family::Rbf] {
            check(family, 0.8, accuracy(family, mixed(), rule));
        }
    }

    #[test]
    fn nothing_to_learn_is_no_boundary() {
        let (layout, codes, good) = node(floats(2), 20, |code| code[0] > 0.5);
        let all: Vec<&[f64]> = codes.iter().map(Vec::as_slice).collect();
        let same = vec![all[0]; 20];
        for family in [Family::Ridge, Family::LinearSvm, Family::Cubic, Family::Rbf] {
            let fit = |codes: &[&[f64]], good: &[bool]| {
                let targets: Vec<f64> = good.iter().map(|&good| f64::from(u8::from(good))).collect();
                Boundary::fit(family, &layout, codes, good, &targets)
            };
            assert!(fit(&all, &good).is_some());
            assert!(fit(&all, &[true; 20]).is_none(), "{family:?}");
            assert!(fit(&same, &good).is_none(), "{family:?}");
            assert!(fit(&[], &[]).is_none(), "{family:?}");
        }
    }
}

//! A boundary followed along a walk: what it says of the next points costs less than a decision.

use super::boundary::{Boundary, Expansion};
use super::kernel::{Columns, Kernel, LANES, distances, exp, features_of, push_features};
use super::line::Pieces;
use super::region::Side;
use crate::layout::{Block, Layout};

/// Terms of the series of a Gaussian kernel along a line.
const TERMS: usize = 24;
/// What is left out of the series, in units of the sum of the coefficients.
const REST: f64 = 1e-12;
/// Values this close to the boundary, in units of the sum of the coefficients, count as outside:
/// more than what rounding adds up to between two calls of [`Follower::reset`].
const GUARD: f64 = 1e-9;

/// A direction of steps in which only numbers change.
#[derive(Clone, Debug, Default)]
pub(super) struct Direction {
    /// Coordinate, feature, and change per unit of the step.
    pub(super) entries: Vec<(usize, usize, f64)>,
}

/// A side of a boundary with all that a step changes little.
#[derive(Debug)]
pub(super) struct Follower<'a> {
    layout: &'a Layout,
    boundary: &'a Boundary,
    /// +1 if the good side is inside, else −1.
    sign: f64,
    guard: f64,
    /// The decision value.
    value: f64,
    /// Of every support vector: coefficient times kernel, or for a cubic kernel the inner product.
    state: Vec<f64>,
    /// How far the current point is from every support vector along the line, or the change of the
    /// inner product per unit.
    along: Vec<f64>,
    /// Whether no kernel underflows, so that what is known at one point is enough for the next.
    is_tame: bool,
    /// `value` and `state` if a block changes.
    tried: (f64, Vec<f64>),
}

/// The decision value along a line.
#[derive(Clone, Debug)]
pub(super) enum Line {
    /// `Σ coefficients[k] t^k`.
    Cubic([f64; 4]),
    /// `offset + e^(-rate t² - drift t) Σ moments[m] t^m`.
    Series { offset: f64, rate: f64, drift: f64, moments: [f64; TERMS], terms: usize },
    /// Every support vector for itself, with its exponent at 0.
    Sum { rate: f64, exponents: Vec<f64> },
}

impl<'a> Follower<'a> {
    pub(super) fn new(layout: &'a Layout, side: &'a Side) -> Self {
        let scale = match &*side.boundary {
            Boundary::Linear { weights, offset } => {
                1e-3 * (weights.iter().map(|weight| weight.abs()).sum::<f64>() + offset.abs())
            }
            Boundary::Expansion(expansion) => expansion.coefficients.iter().map(|c| c.abs()).sum(),
            Boundary::Equal { .. } => 0.0,
        };
        let sign = if side.good { 1.0 } else { -1.0 };
        Self {
            layout,
            boundary: &side.boundary,
            sign,
            guard: GUARD * scale,
            value: 0.0,
            state: Vec::new(),
            along: Vec::new(),
            is_tame: is_tame(&side.boundary, layout),
            tried: (0.0, Vec::new()),
        }
    }

    /// How far inside a decision value is.
    fn depth_of(&self, value: f64) -> f64 {
        self.sign * value - self.guard
    }

    /// How far inside the current point is, in units of decision values; inside is what is above 0.
    pub(super) fn depth(&self) -> f64 {
        self.depth_of(self.value)
    }

    /// How far inside another point is.
    pub(super) fn depth_at(&self, code: &[f64]) -> f64 {
        self.depth_of(self.boundary.decision(self.layout, code))
    }

    /// Goes to a point.
    pub(super) fn reset(&mut self, code: &[f64]) {
        self.value = self.boundary.decision(self.layout, code);
        let Boundary::Expansion(expansion) = self.boundary else { return };
        let vector = expansion.kernel.vector(self.layout, code);
        self.state.clear();
        if let Kernel::Cubic { .. } = expansion.kernel {
            self.state.resize(expansion.vectors.stride(), 0.0);
            for (j, x) in vector.iter().enumerate() {
                crate::linalg::axpy(*x, expansion.vectors.column(j), &mut self.state);
            }
        } else {
            for start in (0..expansion.vectors.stride()).step_by(LANES) {
                let values = expansion.kernel.lanes(self.layout, &vector, &expansion.vectors, start);
                self.state.extend((0..LANES).map(|k| expansion.coefficients[start + k] * values[k]));
            }
        }
    }

    /// The decision value along a direction from the current point, for steps from `ends.0` to `ends.1`.
    pub(super) fn line(&mut self, code: &[f64], direction: &Direction, ends: (f64, f64)) -> Line {
        match self.boundary {
            Boundary::Equal { .. } => Line::Cubic([self.value, 0.0, 0.0, 0.0]),
            Boundary::Linear { weights, .. } => {
                let slope = direction.entries.iter().map(|(_, feature, change)| change * weights[*feature]);
                Line::Cubic([self.value, slope.sum(), 0.0, 0.0])
            }
            Boundary::Expansion(expansion) => match expansion.kernel {
                Kernel::Cubic { gamma } => {
                    self.along.clear();
                    self.along.resize(expansion.vectors.stride(), 0.0);
                    for (_, feature, change) in &direction.entries {
                        crate::linalg::axpy(*change, expansion.vectors.column(*feature), &mut self.along);
                    }
                    let mut sums = [0.0; 4];
                    for ((c, product), slope) in
                        expansion.coefficients.iter().zip(&self.state).zip(&self.along)
                    {
                        let (base, slope) = (gamma * product + 1.0, gamma * slope);
                        let (square, slope_square) = (c * base * base, c * slope * slope);
                        sums[0] += square * base;
                        sums[1] += 3.0 * square * slope;
                        sums[2] += 3.0 * base * slope_square;
                        sums[3] += slope_square * slope;
                    }
                    sums[0] += expansion.offset;
                    Line::Cubic(sums)
                }
                Kernel::Mixed { gamma, .. } => {
                    distances_along(&expansion.vectors, code, direction, &mut self.along);
                    let square: f64 = direction.entries.iter().map(|(_, _, change)| change * change).sum();
                    let rate = gamma * square;
                    if self.is_tame
                        && let Some((drift, moments, terms)) =
                            series(&self.state, &self.along, expansion.vectors.len(), 2.0 * gamma, ends)
                    {
                        return Line::Series { offset: expansion.offset, rate, drift, moments, terms };
                    }
                    let vector = expansion.kernel.vector(self.layout, code);
                    let starts = (0..expansion.vectors.stride()).step_by(LANES);
                    let exponents = starts.flat_map(|start| {
                        expansion.kernel.exponents(self.layout, &vector, &expansion.vectors, start)
                    });
                    Line::Sum { rate, exponents: exponents.collect() }
                }
            },
        }
    }

    /// Cuts the pieces of a line to those inside, as far as they are known in closed form.
    pub(super) fn clip(&self, line: &Line, pieces: &mut Pieces) {
        if let Line::Cubic(coefficients) = line {
            let mut signed = coefficients.map(|coefficient| self.sign * coefficient);
            signed[0] -= self.guard;
            pieces.clip_cubic(signed);
        }
    }

    /// Whether the step `t` along a line leads to a point inside.
    pub(super) fn accepts(&self, line: &Line, t: f64) -> bool {
        let value = match line {
            Line::Cubic([a, b, c, d]) => ((d * t + c) * t + b) * t + a,
            Line::Series { offset, rate, drift, moments, terms } => {
                let sum = moments[..*terms].iter().rev().fold(0.0, |sum, moment| sum * t + moment);
                offset + (-(rate * t + drift) * t).exp() * sum
            }
            Line::Sum { rate, exponents } => {
                let Boundary::Expansion(expansion) = self.boundary else { unreachable!("it has vectors") };
                let kernels = kernels_after(expansion, &self.along, *rate, exponents, t);
                let terms = expansion.coefficients.iter().zip(kernels);
                terms.map(|(coefficient, kernel)| coefficient * kernel).sum::<f64>() + expansion.offset
            }
        };
        self.depth_of(value) > 0.0
    }

    /// Takes the step `t` along the line that was last asked for.
    pub(super) fn step(&mut self, line: &Line, t: f64) {
        match (self.boundary, line) {
            (Boundary::Expansion(expansion), Line::Cubic(_)) => {
                crate::linalg::axpy(t, &self.along, &mut self.state);
                self.value =
                    value_of(expansion.kernel, &expansion.coefficients, &self.state, expansion.offset);
            }
            (Boundary::Expansion(expansion), Line::Series { rate, .. }) => {
                let scale = 2.0 * expansion.kernel.gamma();
                for (state, along) in self.state.iter_mut().zip(&self.along) {
                    *state *= exp(-(rate * t + scale * along) * t);
                }
                self.value =
                    value_of(expansion.kernel, &expansion.coefficients, &self.state, expansion.offset);
            }
            (Boundary::Expansion(expansion), Line::Sum { rate, exponents }) => {
                let kernels = kernels_after(expansion, &self.along, *rate, exponents, t);
                let terms = expansion.coefficients.iter().zip(kernels);
                self.state = terms.map(|(coefficient, kernel)| coefficient * kernel).collect();
                self.value =
                    value_of(expansion.kernel, &expansion.coefficients, &self.state, expansion.offset);
            }
            (_, Line::Cubic([value, slope, ..])) => self.value = value + slope * t,
            _ => {}
        }
    }

    /// Whether the point at which one block has other coordinates is inside; `feature` is the first of
    /// the block. [`Follower::take`] goes there.
    pub(super) fn tries(&mut self, index: usize, feature: usize, code: &[f64], changed: &[f64]) -> bool {
        let block = self.layout.blocks()[index];
        let (value, state) = &mut self.tried;
        state.clear();
        *value = match self.boundary {
            Boundary::Equal { .. } => self.boundary.decision(self.layout, changed),
            Boundary::Linear { weights, .. } => {
                let weights = &weights[feature..feature + features_of(block)];
                let (mut before, mut after) = (Vec::new(), Vec::new());
                push_features(block, code, &mut before);
                push_features(block, changed, &mut after);
                self.value + crate::linalg::dot(weights, &after) - crate::linalg::dot(weights, &before)
            }
            Boundary::Expansion(expansion) => {
                if let Kernel::Mixed { .. } = expansion.kernel {
                    let rate = expansion.kernel.weight(block);
                    let vector = expansion.kernel.vector(self.layout, changed);
                    for start in (0..expansion.vectors.stride()).step_by(LANES) {
                        if !self.is_tame {
                            let values =
                                expansion.kernel.lanes(self.layout, &vector, &expansion.vectors, start);
                            state.extend((0..LANES).map(|k| expansion.coefficients[start + k] * values[k]));
                            continue;
                        }
                        let before = distances(block, code, &expansion.vectors, start);
                        let after = distances(block, changed, &expansion.vectors, start);
                        let held = &self.state[start..start + LANES];
                        state.extend((0..LANES).map(|k| held[k] * exp(rate * (before[k] - after[k]))));
                    }
                } else {
                    state.extend_from_slice(&self.state);
                    let (mut before, mut after) = (Vec::new(), Vec::new());
                    push_features(block, code, &mut before);
                    push_features(block, changed, &mut after);
                    for (j, (before, after)) in before.iter().zip(&after).enumerate() {
                        crate::linalg::axpy(after - before, expansion.vectors.column(feature + j), state);
                    }
                }
                value_of(expansion.kernel, &expansion.coefficients, state, expansion.offset)
            }
        };
        let value = *value;
        self.depth_of(value) > 0.0
    }

    /// Goes to the point that was last tried.
    pub(super) fn take(&mut self) {
        self.value = self.tried.0;
        std::mem::swap(&mut self.state, &mut self.tried.1);
    }
}

/// Whether all kernels are well above the smallest number, wherever in the cube.
fn is_tame(boundary: &Boundary, layout: &Layout) -> bool {
    const MOST: f64 = 600.0;
    let Boundary::Expansion(Expansion { kernel, .. }) = boundary else { return true };
    layout.blocks().iter().map(|block| kernel.weight(*block)).sum::<f64>() < MOST
}

/// The kernel of every support vector after the step `t` along a line.
fn kernels_after(
    expansion: &Expansion,
    along: &[f64],
    rate: f64,
    exponents: &[f64],
    t: f64,
) -> impl Iterator<Item = f64> {
    let scale = 2.0 * expansion.kernel.gamma();
    exponents.iter().zip(along).map(move |(e, along)| exp(-(e + (rate * t + scale * along) * t)))
}

/// The decision value of a state.
fn value_of(kernel: Kernel, coefficients: &[f64], state: &[f64], offset: f64) -> f64 {
    let mut sums = [0.0; LANES];
    let chunks = state.as_chunks::<LANES>().0.iter().zip(coefficients.as_chunks::<LANES>().0);
    match kernel {
        Kernel::Mixed { .. } => {
            for (state, _) in chunks {
                for k in 0..LANES {
                    sums[k] += state[k];
                }
            }
        }
        Kernel::Cubic { gamma } => {
            for (state, coefficients) in chunks {
                for k in 0..LANES {
                    let base = gamma * state[k] + 1.0;
                    sums[k] += coefficients[k] * base * base * base;
                }
            }
        }
    }
    sums.iter().sum::<f64>() + offset
}

/// `direction · (x - vᵢ)` of every vector.
fn distances_along(vectors: &Columns, code: &[f64], direction: &Direction, along: &mut Vec<f64>) {
    along.clear();
    along.resize(vectors.stride(), 0.0);
    for &(at, _, change) in &direction.entries {
        let here = code[at];
        for (sum, there) in along.iter_mut().zip(vectors.column(at)) {
            *sum += change * (here - there);
        }
    }
}

/// The series of `Σ stateᵢ e^(-scale · alongᵢ · t)` around the middle of `along`: `e^(-drift t)` times
/// a polynomial, of which the moments and the number of terms are given. `None` if it takes too many.
fn series(
    state: &[f64],
    along: &[f64],
    len: usize,
    scale: f64,
    ends: (f64, f64),
) -> Option<(f64, [f64; TERMS], usize)> {
    let (low, high) = along[..len]
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &b| (low.min(b), high.max(b)));
    let (middle, half) = (0.5 * (low + high), 0.5 * (high - low));
    let reach = scale * half * ends.1.max(-ends.0);
    let mut terms = 1;
    let mut size = 1.0;
    while size > REST {
        size *= reach / terms as f64;
        terms += 1;
        if terms > TERMS {
            return None;
        }
    }
    // Four terms at a time, so that each vector is loaded once for them.
    let mut moments = [0.0; TERMS];
    let mut powers = state.to_vec();
    let mut factor = 1.0;
    for first in (0..terms).step_by(4) {
        let mut sums = [[0.0; 4]; 4];
        for (powers, along) in powers.as_chunks_mut::<4>().0.iter_mut().zip(along.as_chunks::<4>().0) {
            for k in 0..4 {
                let step = along[k] - middle;
                let one = powers[k] * step;
                let two = one * step;
                let three = two * step;
                sums[0][k] += powers[k];
                sums[1][k] += one;
                sums[2][k] += two;
                sums[3][k] += three;
                powers[k] = three * step;
            }
        }
        for (k, sum) in sums.iter().enumerate() {
            moments[first + k] = ((sum[0] + sum[2]) + (sum[1] + sum[3])) * factor;
            factor *= -scale / (first + k + 1) as f64;
        }
    }
    Some((scale * middle, moments, terms))
}

//! A boundary followed along a walk: what it says of the next points costs less than a decision.

use super::boundary::{Boundary, Expansion};
use super::kernel::{Columns, Kernel, LANES, distances, exp, features_of, push_features, range};
use super::line::Pieces;
use super::region::Side;
use crate::layout::Layout;
use crate::linalg::{axpy, dot};

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
    /// How far the current point is from every support vector along the line, less the middle of all;
    /// or the change of the inner product per unit.
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
    /// `offset + e^(-rate t² - drift t) Σ moments[m] t^m`; beside the drift, no vector changes by a
    /// larger rate than `half`.
    Series { offset: f64, rate: f64, drift: f64, half: f64, moments: [f64; TERMS], terms: usize },
    /// Every support vector for itself, with its exponent at 0.
    Sum { rate: f64, drift: f64, exponents: Vec<f64> },
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

    /// Whether a line takes a sum over Gaussian kernels.
    pub(super) fn is_gaussian(&self) -> bool {
        matches!(self.boundary, Boundary::Expansion(Expansion { kernel: Kernel::Mixed { .. }, .. }))
    }

    /// How far inside a decision value is.
    fn depth_of(&self, value: f64) -> f64 {
        self.sign * value - self.guard
    }

    /// How far inside another point is, in units of decision values; inside is what is above 0.
    pub(super) fn depth_at(&self, code: &[f64]) -> f64 {
        self.depth_of(self.boundary.decision(self.layout, code))
    }

    /// Goes to a point.
    pub(super) fn reset(&mut self, code: &[f64]) {
        let Boundary::Expansion(expansion) = self.boundary else {
            self.value = self.boundary.decision(self.layout, code);
            return;
        };
        let vector = expansion.kernel.vector(self.layout, code);
        self.state.clear();
        if let Kernel::Cubic { .. } = expansion.kernel {
            self.state.resize(expansion.vectors.stride(), 0.0);
            for (j, x) in vector.iter().enumerate() {
                axpy(*x, expansion.vectors.column(j), &mut self.state);
            }
        } else {
            for start in (0..expansion.vectors.stride()).step_by(LANES) {
                let values = expansion.kernel.lanes(self.layout, &vector, &expansion.vectors, start);
                self.state.extend((0..LANES).map(|k| expansion.coefficients[start + k] * values[k]));
            }
        }
        self.value = value_of(expansion, &self.state);
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
                        axpy(*change, expansion.vectors.column(*feature), &mut self.along);
                    }
                    let mut sums = cubic(gamma, &expansion.coefficients, &self.state, &self.along);
                    sums[0] += expansion.offset;
                    Line::Cubic(sums)
                }
                Kernel::Mixed { gamma, .. } => {
                    let (middle, half) =
                        distances_along(&expansion.vectors, code, direction, &mut self.along);
                    let square: f64 = direction.entries.iter().map(|(_, _, change)| change * change).sum();
                    let (offset, rate, scale) = (expansion.offset, gamma * square, 2.0 * gamma);
                    let reach = scale * half * ends.1.max(-ends.0);
                    let (drift, half) = (scale * middle, scale * half);
                    if self.is_tame
                        && let Some(terms) = terms(reach, REST)
                    {
                        let moments = moments(&self.state, &self.along, scale, terms);
                        return Line::Series { offset, rate, drift, half, moments, terms };
                    }
                    let vector = expansion.kernel.vector(self.layout, code);
                    let starts = (0..expansion.vectors.stride()).step_by(LANES);
                    let exponents = starts.flat_map(|start| {
                        expansion.kernel.exponents(self.layout, &vector, &expansion.vectors, start)
                    });
                    Line::Sum { rate, drift, exponents: exponents.collect() }
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
            Line::Series { offset, rate, drift, moments, terms, .. } => {
                let sum = moments[..*terms].iter().rev().fold(0.0, |sum, moment| sum * t + moment);
                offset + (-(rate * t + drift) * t).exp() * sum
            }
            Line::Sum { rate, drift, exponents } => {
                let Boundary::Expansion(expansion) = self.boundary else { unreachable!("it has vectors") };
                let kernels = kernels_after(expansion, &self.along, (*rate, *drift), exponents, t);
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
                axpy(t, &self.along, &mut self.state);
                self.value = value_of(expansion, &self.state);
            }
            (Boundary::Expansion(expansion), Line::Series { rate, drift, half, .. }) => {
                let common = exp(-(rate * t + drift) * t);
                let scale = 2.0 * expansion.kernel.gamma();
                match terms(half * t.abs(), f64::EPSILON / 8.0) {
                    Some(terms) => multiply(&mut self.state, &self.along, -scale * t, common, terms),
                    None => {
                        for (state, along) in self.state.iter_mut().zip(&self.along) {
                            *state *= common * exp(-scale * t * along);
                        }
                    }
                }
                self.value = value_of(expansion, &self.state);
            }
            (Boundary::Expansion(expansion), Line::Sum { rate, drift, exponents }) => {
                let kernels = kernels_after(expansion, &self.along, (*rate, *drift), exponents, t);
                let terms = expansion.coefficients.iter().zip(kernels);
                self.state = terms.map(|(coefficient, kernel)| coefficient * kernel).collect();
                self.value = value_of(expansion, &self.state);
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
                self.value + dot(weights, &after) - dot(weights, &before)
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
                        axpy(after - before, expansion.vectors.column(feature + j), state);
                    }
                }
                value_of(expansion, state)
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
    (rate, drift): (f64, f64),
    exponents: &[f64],
    t: f64,
) -> impl Iterator<Item = f64> {
    let scale = 2.0 * expansion.kernel.gamma();
    exponents.iter().zip(along).map(move |(e, along)| exp(-(e + (rate * t + drift + scale * along) * t)))
}

/// The decision value of a state.
fn value_of(expansion: &Expansion, state: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let chunks = state.as_chunks::<LANES>().0.iter().zip(expansion.coefficients.as_chunks::<LANES>().0);
    match expansion.kernel {
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
    sums.iter().sum::<f64>() + expansion.offset
}

/// The coefficients in `t` of `Σ cᵢ (γ (stateᵢ + t alongᵢ) + 1)³`.
fn cubic(gamma: f64, coefficients: &[f64], state: &[f64], along: &[f64]) -> [f64; 4] {
    let mut sums = [[0.0; 4]; 4];
    let (coefficients, state) = (coefficients.as_chunks::<4>().0, state.as_chunks::<4>().0);
    for ((coefficients, state), along) in coefficients.iter().zip(state).zip(along.as_chunks::<4>().0) {
        for k in 0..4 {
            let (base, slope) = (gamma * state[k] + 1.0, gamma * along[k]);
            let (one, two) = (coefficients[k] * base, coefficients[k] * slope);
            sums[0][k] += one * base * base;
            sums[1][k] += one * base * slope;
            sums[2][k] += one * slope * slope;
            sums[3][k] += two * slope * slope;
        }
    }
    let [a, b, c, d] = sums.map(|sum| (sum[0] + sum[2]) + (sum[1] + sum[3]));
    [a, 3.0 * b, 3.0 * c, d]
}

/// `direction · (x - vᵢ)` of every vector, less the middle of all; the middle and half of the range.
fn distances_along(
    vectors: &Columns,
    code: &[f64],
    direction: &Direction,
    along: &mut Vec<f64>,
) -> (f64, f64) {
    along.clear();
    if let [(at, _, change)] = direction.entries[..] {
        let (low, high) = vectors.range(at);
        let middle = 0.5 * (low + high);
        along.extend(vectors.column(at).iter().map(|there| change * (middle - there)));
        return (change * (code[at] - middle), 0.5 * (high - low) * change.abs());
    }
    along.resize(vectors.stride(), 0.0);
    for &(at, _, change) in &direction.entries {
        let here = code[at];
        for (sum, there) in along.iter_mut().zip(vectors.column(at)) {
            *sum += change * (here - there);
        }
    }
    let (low, high) = range(&along[..vectors.len()]);
    let middle = 0.5 * (low + high);
    for along in along.iter_mut() {
        *along -= middle;
    }
    (middle, 0.5 * (high - low))
}

/// Coefficients of the exponential series in `t` up to where `t^m / m!` is below `rest` for `t` up to
/// `reach`; `None` if there are more than [`TERMS`].
fn terms(reach: f64, rest: f64) -> Option<usize> {
    let (mut terms, mut size) = (1, 1.0);
    while size > rest {
        size *= reach / terms as f64;
        terms += 1;
        if terms > TERMS {
            return None;
        }
    }
    Some(terms)
}

/// The first moments of `Σ stateᵢ e^(-scale · alongᵢ · t)` as a polynomial in `t`.
fn moments(state: &[f64], along: &[f64], scale: f64, terms: usize) -> [f64; TERMS] {
    // Four terms at a time, so that each vector is loaded once for them.
    let mut moments = [0.0; TERMS];
    let mut powers = state.to_vec();
    let mut factor = 1.0;
    for first in (0..terms).step_by(4) {
        let mut sums = [[0.0; 4]; 4];
        for (powers, along) in powers.as_chunks_mut::<4>().0.iter_mut().zip(along.as_chunks::<4>().0) {
            for k in 0..4 {
                let one = powers[k] * along[k];
                let two = one * along[k];
                let three = two * along[k];
                sums[0][k] += powers[k];
                sums[1][k] += one;
                sums[2][k] += two;
                sums[3][k] += three;
                powers[k] = three * along[k];
            }
        }
        for (k, sum) in sums.iter().enumerate() {
            moments[first + k] = ((sum[0] + sum[2]) + (sum[1] + sum[3])) * factor;
            factor *= -scale / (first + k + 1) as f64;
        }
    }
    moments
}

/// Multiplies every state by `common · e^(rate · alongᵢ)`, by a series of this many terms.
fn multiply(state: &mut [f64], along: &[f64], rate: f64, common: f64, terms: usize) {
    for (state, along) in state.as_chunks_mut::<LANES>().0.iter_mut().zip(along.as_chunks::<LANES>().0) {
        let mut sums = [1.0; LANES];
        // Horner's scheme: 1 + z (1 + z / 2 (1 + z / 3 (…))).
        for m in (1..terms).rev() {
            let step = rate / m as f64;
            for k in 0..LANES {
                sums[k] = sums[k] * (step * along[k]) + 1.0;
            }
        }
        for k in 0..LANES {
            state[k] *= common * sums[k];
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::partition::Family;
    use crate::{Parameter, Rng, Seed, Space};

    fn layout() -> Layout {
        let parameters = vec![
            Parameter::float("x", 0.0, 1.0),
            Parameter::float("y", 0.0, 1.0),
            Parameter::choice("c", ["a", "b", "c"]),
            Parameter::permutation("p", 4),
        ];
        Layout::new(&Space::new(parameters, &[]).unwrap())
    }

    fn draw(layout: &Layout, rng: &mut Rng) -> Vec<f64> {
        layout.code(&layout.space().sample(rng, &[]).unwrap())
    }

    /// Boundaries of all families on the same points; the last one has a kernel that underflows.
    fn sides(layout: &Layout) -> Vec<Side> {
        let mut rng = Seed::new(4).rng(0);
        let codes: Vec<Vec<f64>> = (0..80).map(|_| draw(layout, &mut rng)).collect();
        let codes: Vec<&[f64]> = codes.iter().map(Vec::as_slice).collect();
        let targets: Vec<f64> =
            codes.iter().map(|c| c[2] - (c[0] - 0.4).powi(2) - 0.3 * c[1] * c[4]).collect();
        let good: Vec<bool> = targets.iter().map(|&target| target > 0.4).collect();
        let fit = |family| Boundary::fit(family, layout, &codes, &good, &targets).unwrap();
        let mut boundaries: Vec<Boundary> =
            [Family::Ridge, Family::LinearSvm, Family::Cubic, Family::Rbf].map(fit).into();
        let Boundary::Expansion(narrow) = fit(Family::Rbf) else { unreachable!("it is one of a kernel") };
        let kernel = Kernel::Mixed { gamma: 2000.0, theta: 1.0, lambda: 1.0 };
        boundaries.push(Boundary::Expansion(Expansion { kernel, offset: -1e-9, ..narrow }));
        let side = |(i, boundary)| Side { boundary: Arc::new(boundary), good: i % 2 == 0 };
        boundaries.into_iter().enumerate().map(side).collect()
    }

    #[test]
    fn a_followed_boundary_is_the_boundary() {
        let layout = layout();
        for side in &sides(&layout) {
            let mut rng = Seed::new(5).rng(0);
            let mut code = draw(&layout, &mut rng);
            let mut follower = Follower::new(&layout, side);
            follower.reset(&code);
            for step in 0..60 {
                let entry = |at| (at, at, rng.normal());
                let direction = Direction { entries: (0..=step % 2).map(entry).collect() };
                let line = follower.line(&code, &direction, (-0.3, 0.3));
                let at = |t: f64| {
                    let mut code = code.clone();
                    direction.entries.iter().for_each(|entry| code[entry.0] += t * entry.2);
                    code
                };
                for i in -10..=10 {
                    let t = 0.03 * f64::from(i);
                    let depth = follower.depth_at(&at(t));
                    assert!(follower.accepts(&line, t) == (depth > 0.0) || depth.abs() < 1e-8, "{t} {depth}");
                }
                let t = 0.1 * rng.normal().clamp(-3.0, 3.0);
                code = at(t);
                follower.step(&line, t);

                // Another option, or another order.
                let parameter = 2 + step % 2;
                let (start, len) = layout.blocks()[parameter].place();
                let mut changed = code.clone();
                changed[start..start + len].copy_from_slice(&draw(&layout, &mut rng)[start..start + len]);
                let feature = if parameter == 2 { 2 } else { 5 };
                let depth = follower.depth_at(&changed);
                assert!(
                    follower.tries(parameter, feature, &code, &changed) == (depth > 0.0)
                        || depth.abs() < 1e-8
                );
                follower.take();
                code = changed;
                // Rounding, and what series leave out.
                let followed = follower.depth_of(follower.value);
                assert!((followed - depth).abs() < 1e-8, "{followed} {depth}");
            }
        }
    }
}

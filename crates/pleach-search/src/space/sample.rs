//! Random points and random changes of points, inside the known constraints.

use super::axis::clamp_unit;
use super::{Axis, Point, Space};
use crate::{Error, Rng, Value};

/// Membership tests a draw or a change may take.
const TESTS: usize = 64;
/// Of those of a change, for changes of a single parameter where there are constraints.
const SINGLE_TESTS: usize = 40;
/// How far the parameters may move that change together, one try after the other.
const RADII: [f64; 3] = [0.1, 0.3, 1.0];
/// Tests of [`Space::pull_inside`] after the first.
const BISECTIONS: usize = 23;
/// Standard deviation of a local step in the unit interval.
const SIGMA: f64 = 0.1;
/// Its factor after a step that led outside.
const SHRINK: f64 = 0.85;

impl Space {
    /// A random point that keeps the known constraints, with at most 64 membership tests.
    ///
    /// Plain draws come first, uniform over the unit cube. Where little of the space is inside, they
    /// come from boxes that cover the inside, and if they miss, boxes are split down to a point
    /// inside (2048 splits at most). If all this misses, a random walk starts from a point known to be
    /// inside: one of `starts` (stored trials), or one found when the space was built.
    ///
    /// # Errors
    /// [`Error::NoStart`] if no point inside is found or known.
    pub fn sample(&self, rng: &mut Rng, starts: &[&Point]) -> Result<Point, Error> {
        let Some(guard) = &self.inner.guard else { return Ok(self.inner.draw(rng)) };
        let mut tests = TESTS;
        if let Some(point) = guard.sample(&self.inner, &mut tests, rng) {
            return Ok(point);
        }
        let known = starts.len() + guard.starts.len();
        if known > 0 {
            let pick = rng.index(known);
            if let Some(start) = pick.checked_sub(starts.len()).map(|own| &guard.starts[own]) {
                return Ok(self.walk(start, tests, rng));
            }
            // A stored trial may be outside if constraints were added since.
            for start in starts[pick..].iter().chain(&starts[..pick]).take(tests) {
                tests -= 1;
                if self.admits(start) {
                    return Ok(self.walk(start, tests, rng));
                }
            }
        }
        Err(Error::NoStart { constraint: self.inner.constraints[guard.tightest].text().to_owned() })
    }

    /// A random walk from a point inside: coordinates are redrawn one at a time, from a bracket that
    /// shrinks towards the current value after each miss (Neal 2003, slice sampling, §4.1), which
    /// leaves the uniform distribution over the points inside as it is.
    fn walk(&self, start: &Point, mut tests: usize, rng: &mut Rng) -> Point {
        let mut unit_point = self.encode(start);
        let mut current = start.clone();
        while tests > 0 {
            let coordinate = rng.index(unit_point.len());
            let here = unit_point[coordinate];
            let (mut low, mut high) = (0.0, 1.0);
            while tests > 0 {
                let there = low + rng.unit() * (high - low);
                unit_point[coordinate] = there;
                let candidate = self.decode(&unit_point);
                tests -= 1;
                if self.admits(&candidate) {
                    current = candidate;
                    break;
                }
                if there < here {
                    low = there;
                } else {
                    high = there;
                }
                unit_point[coordinate] = here;
            }
        }
        current
    }

    /// A copy with one active parameter changed, which is chosen uniformly among those with more
    /// than one value: a categorical to another option, a bool flipped, a permutation with two
    /// elements exchanged or one moved, a number by a normal step of 0.1 in the unit interval,
    /// reflected at its ends, and by at least one value if it is discrete. Steps become smaller after
    /// each that led outside.
    ///
    /// The copy keeps the known constraints, and at most 64 membership tests are made. If no change
    /// of one parameter is found that keeps them (`a + b == 10`), several change together; if none
    /// is found at all, the point itself comes back.
    ///
    /// # Errors
    /// None so far; callers treat one as the end of the search.
    pub fn mutate(&self, point: &Point, rng: &mut Rng) -> Result<Point, Error> {
        let movable = |index: &usize| point.is_active(*index) && !self.inner.axes[*index].is_fixed();
        let movable: Vec<usize> = (0..point.values.len()).filter(movable).collect();
        if movable.is_empty() {
            return Ok(point.clone());
        }
        let mut sigma = SIGMA;
        for _ in 0..SINGLE_TESTS {
            let index = movable[rng.index(movable.len())];
            let mut values = point.values.to_vec();
            values[index] = self.inner.axes[index].step(&values[index], sigma, rng);
            let changed = self.inner.assemble(values);
            if self.admits(&changed) {
                return Ok(changed);
            }
            sigma *= SHRINK;
        }
        if let Some(guard) = &self.inner.guard {
            for radius in RADII {
                let mut tests = (TESTS - SINGLE_TESTS) / RADII.len();
                if let Some(changed) = guard.neighbour(&self.inner, point, radius, &mut tests, rng) {
                    return Ok(changed);
                }
            }
        }
        Ok(point.clone())
    }

    /// The point at `unit_point` if it keeps the known constraints, else the farthest point found on
    /// the segment towards it from `inside`, which must keep them; at most 24 membership tests.
    ///
    /// # Panics
    /// If there are not [`Space::unit_len`] coordinates.
    pub fn pull_inside(&self, unit_point: &[f64], inside: &Point) -> Point {
        self.pull_inside_where(unit_point, inside, |point| self.admits(point))
    }

    /// As [`Space::pull_inside`], where the inside is what `admits` says.
    pub(crate) fn pull_inside_where(
        &self,
        unit_point: &[f64],
        inside: &Point,
        admits: impl Fn(&Point) -> bool,
    ) -> Point {
        let wanted = self.decode(unit_point);
        if admits(&wanted) {
            return wanted;
        }
        let origin = self.encode(inside);
        let mut best = inside.clone();
        let (mut near, mut far) = (0.0, 1.0);
        for _ in 0..BISECTIONS {
            let t = 0.5 * (near + far);
            let between: Vec<f64> =
                origin.iter().zip(unit_point).map(|(a, b)| a + t * (clamp_unit(*b) - a)).collect();
            let candidate = self.decode(&between);
            if admits(&candidate) {
                (near, best) = (t, candidate);
            } else {
                far = t;
            }
        }
        best
    }
}

impl Axis {
    /// A local change of a value; never the value itself, unless it is the only one.
    fn step(&self, value: &Value, sigma: f64, rng: &mut Rng) -> Value {
        match (self, value) {
            (_, Value::Bool(b)) => Value::Bool(!b),
            (Axis::Options { ordered: false, index }, Value::Choice(here)) => {
                let other = rng.below(index.len() as u64 - 1);
                self.value_at(other + u64::from(other >= u64::from(*here)))
            }
            (Axis::Permutation { n }, Value::Permutation(order)) => {
                let from = rng.index(*n as usize);
                let to = (from + 1 + rng.index(*n as usize - 1)) % *n as usize;
                let mut order = order.clone();
                if rng.unit() < 0.5 {
                    order.swap(from, to);
                } else if from < to {
                    order[from..=to].rotate_left(1);
                } else {
                    order[to..=from].rotate_right(1);
                }
                Value::Permutation(order)
            }
            _ => match self.cells() {
                None => self.decode(reflect(self.encode(value) + sigma * rng.normal())),
                Some(cells) => {
                    let here = self.cell_of(value);
                    let there = self.cell_at(reflect(self.encode(value) + sigma * rng.normal()));
                    let up = rng.unit() < 0.5;
                    self.value_at(match there {
                        there if there != here => there,
                        _ if here == 0 => 1,
                        _ if up && here + 1 < cells => here + 1,
                        _ => here - 1,
                    })
                }
            },
        }
    }
}

/// Folds a number at 0 and 1 until it lies between them.
pub(super) fn reflect(u: f64) -> f64 {
    let folded = u.rem_euclid(2.0);
    if folded > 1.0 { 2.0 - folded } else { folded }
}

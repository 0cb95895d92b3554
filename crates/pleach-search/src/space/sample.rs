//! Random points and random changes of points, inside the known constraints.

use super::{Axis, Point, Space};
use crate::expression::Expression;
use crate::{Error, Rng, Value};

/// Membership tests a draw may take.
const TESTS: usize = 64;
/// Of these, for plain draws before the walk from a known point begins.
const PLAIN: usize = 32;
/// Tests of [`Space::pull_inside`].
const BISECTIONS: usize = 23;
/// Standard deviation of a local step in the unit interval.
const SIGMA: f64 = 0.1;

impl Space {
    /// A random point that keeps the known constraints, with at most 64 membership tests: uniform
    /// draws first, then a random walk from a point that is known to be inside. `starts` are such
    /// points (stored trials).
    ///
    /// # Errors
    /// [`Error::NoStart`] if plain draws miss and no point inside is known.
    pub fn sample(&self, rng: &mut Rng, starts: &[&Point]) -> Result<Point, Error> {
        if self.inner.constraints.is_empty() {
            return Ok(self.draw(rng));
        }
        let mut tests = TESTS;
        for _ in 0..PLAIN {
            tests -= 1;
            let point = self.draw(rng);
            if self.admits(&point) {
                return Ok(point);
            }
        }
        if !starts.is_empty() {
            tests -= 1;
            let start = starts[rng.index(starts.len())];
            if self.admits(start) {
                return Ok(self.walk(start, tests, rng));
            }
        }
        let constraint =
            self.inner.constraints.first().map_or_else(String::new, |c| Expression::text(c).to_owned());
        Err(Error::NoStart { constraint })
    }

    /// A uniform point of the cube, inside or not.
    fn draw(&self, rng: &mut Rng) -> Point {
        let mut values = Vec::with_capacity(self.inner.axes.len());
        values.extend(self.inner.axes.iter().map(|axis| axis.draw(rng)));
        self.assemble(values)
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
                    low = there
                } else {
                    high = there
                }
                unit_point[coordinate] = here;
            }
        }
        current
    }

    /// A copy with one active parameter changed, which is chosen uniformly among those with more
    /// than one value: a categorical to another option, a bool flipped, a permutation with two
    /// elements exchanged or one moved, a number by a normal step of 0.1 in the unit interval,
    /// reflected at its ends, and by at least one value if it is discrete.
    ///
    /// The copy keeps the known constraints if the point does: changes are drawn up to 64 times, and
    /// if none is inside the point itself comes back.
    ///
    /// # Errors
    /// None so far; callers treat one as the end of the search.
    pub fn mutate(&self, point: &Point, rng: &mut Rng) -> Result<Point, Error> {
        let movable = |index: &usize| point.is_active(*index) && !self.inner.axes[*index].is_fixed();
        let count = (0..point.values.len()).filter(movable).count();
        if count == 0 {
            return Ok(point.clone());
        }
        for _ in 0..TESTS {
            let index = (0..point.values.len()).filter(movable).nth(rng.index(count)).expect("counted above");
            let mut values = point.values.to_vec();
            values[index] = self.inner.axes[index].step(&values[index], rng);
            let changed = self.assemble(values);
            if self.admits(&changed) {
                return Ok(changed);
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
        let wanted = self.decode(unit_point);
        if self.admits(&wanted) {
            return wanted;
        }
        let origin = self.encode(inside);
        let mut best = inside.clone();
        let (mut near, mut far) = (0.0, 1.0);
        for _ in 0..BISECTIONS {
            let t = 0.5 * (near + far);
            let between: Vec<f64> =
                origin.iter().zip(unit_point).map(|(a, b)| a + t * (b.clamp(0.0, 1.0) - a)).collect();
            let candidate = self.decode(&between);
            if self.admits(&candidate) {
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
    fn step(&self, value: &Value, rng: &mut Rng) -> Value {
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
                None => self.decode(reflect(self.encode(value) + SIGMA * rng.normal())),
                Some(cells) => {
                    let here = self.cell_of(value);
                    let there = self.cell_at(reflect(self.encode(value) + SIGMA * rng.normal()));
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
fn reflect(u: f64) -> f64 {
    let folded = u.rem_euclid(2.0);
    if folded > 1.0 { 2.0 - folded } else { folded }
}

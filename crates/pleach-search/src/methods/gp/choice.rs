//! The point of largest value under a model.

use std::collections::HashSet;

use crate::gp::{Input, Kernel, minimise};
use crate::layout::Layout;
use crate::{Error, History, Key, Point, Region, Rng};

/// Candidates of one choice and evaluations spent on improving the best of them, for models of few
/// points; those of many points cost more, and get fewer.
const CANDIDATES: [usize; 2] = [160, 300];
/// Work that is spent on the candidates of one choice: multiplications.
const WORK: usize = 1 << 24;
/// The best candidates, which are improved by their numbers.
const POLISHED: usize = 4;
/// Evaluations for each of them.
const STEPS: usize = 30;
/// Rounds of neighbours of the best candidates where a parameter is discrete, and their number.
const ROUNDS: [usize; 2] = [3, 24];
/// Numbers of a candidate near a good point that are moved, on average.
const MOVED: f64 = 20.0;
/// How far a candidate may be outside a region, in units of decision values, before it is left out.
const MARGIN: f64 = 1.0;

/// Looks for the point of largest value in a region.
pub(super) struct Chooser<'a> {
    pub(super) history: &'a History,
    pub(super) region: &'a Region,
    pub(super) layout: &'a Layout,
    pub(super) kernel: &'a Kernel,
    /// Good points, the best first.
    pub(super) anchors: &'a [Point],
    /// Points that were chosen for this batch already.
    pub(super) taken: &'a HashSet<Key>,
}

/// A point and what it is worth.
struct Candidate {
    point: Point,
    value: f64,
}

/// A function of inputs that fills the gradient by the numbers if there is room for it.
pub(super) type Value<'a> = dyn Fn(&Input, Option<&mut [f64]>) -> f64 + 'a;

impl Chooser<'_> {
    /// Random points of the region and points around the anchors; `work` is that of one evaluation.
    ///
    /// # Errors
    /// As [`Region::sample`].
    pub(super) fn candidates(&self, work: usize, rng: &mut Rng) -> Result<Vec<Point>, Error> {
        let n = (WORK / work.max(1)).clamp(CANDIDATES[0], CANDIDATES[1]);
        let space = self.history.space();
        // Of a region all at once: walks go on from draw to draw.
        let n_inside = if self.anchors.is_empty() { n } else { n.div_ceil(2) };
        let mut inside = if self.region.is_whole() {
            Vec::new().into_iter()
        } else {
            self.region.draws(self.history, None, n_inside, rng)?.into_iter()
        };
        let mut found = Vec::with_capacity(n);
        for i in 0..n {
            let point = if i % 2 == 0 || self.anchors.is_empty() {
                inside.next().map_or_else(|| self.region.sample(self.history, rng), Ok)?
            } else {
                self.near(&self.anchors[(i / 2) % self.anchors.len()], rng)?
            };
            if space.admits(&point) && self.region.is_within(&point, MARGIN) {
                found.push(point);
            }
        }
        Ok(found)
    }

    /// A random change of a point: some numbers moved by steps of one size, which is drawn from three
    /// orders of magnitude, and where there is something else that too.
    fn near(&self, anchor: &Point, rng: &mut Rng) -> Result<Point, Error> {
        let space = self.history.space();
        let mut point = anchor.clone();
        if !self.layout.is_numeric() {
            for _ in 0..=rng.index(3) {
                point = space.mutate(&point, rng)?;
            }
        }
        let numbers = self.kernel.number_coordinates().count();
        if numbers == 0 {
            return Ok(point);
        }
        let share = (MOVED / numbers as f64).min(1.0);
        let size = 0.3 * 10_f64.powf(-3.0 * rng.unit());
        let mut unit_point = space.encode(&point);
        for at in self.kernel.number_coordinates() {
            if rng.unit() < share {
                unit_point[at] = (unit_point[at] + size * rng.normal()).clamp(0.0, 1.0);
            }
        }
        Ok(space.decode(&unit_point))
    }

    /// The best of `candidates` and of what follows from them; a point that is new and admitted, if
    /// any is found.
    ///
    /// # Errors
    /// As [`Region::sample`].
    pub(super) fn best(
        &self,
        candidates: Vec<Point>,
        value: &Value<'_>,
        rng: &mut Rng,
    ) -> Result<Point, Error> {
        let space = self.history.space();
        let mut ranked: Vec<Candidate> = candidates
            .into_iter()
            .map(|point| Candidate { value: value(&self.input(&point), None), point })
            .collect();
        sort(&mut ranked);
        let is_discrete = (0..space.unit_len()).any(|i| space.unit_cells(i).is_some())
            || self.kernel.number_coordinates().count() < space.unit_len();
        if is_discrete {
            for _ in 0..ROUNDS[0] {
                let parents: Vec<Point> =
                    ranked.iter().take(POLISHED).map(|candidate| candidate.point.clone()).collect();
                for i in 0..if parents.is_empty() { 0 } else { ROUNDS[1] } {
                    let point = space.mutate(&parents[i % parents.len()], rng)?;
                    let seen = ranked.iter().take(ROUNDS[1]).any(|other| other.point == point);
                    if !seen && self.region.is_within(&point, MARGIN) {
                        ranked.push(Candidate { value: value(&self.input(&point), None), point });
                    }
                }
                sort(&mut ranked);
            }
        }
        let polished: Vec<Candidate> =
            ranked.iter().take(POLISHED).filter_map(|start| self.polished(start, value)).collect();
        ranked.extend(polished);
        sort(&mut ranked);
        self.first_free(ranked.into_iter().map(|candidate| candidate.point), rng)
    }

    /// The first of `points` that is new and admitted; a random one of the region if there is none.
    ///
    /// # Errors
    /// As [`Region::sample`].
    pub(super) fn first_free(
        &self,
        mut points: impl Iterator<Item = Point>,
        rng: &mut Rng,
    ) -> Result<Point, Error> {
        let free = points.find(|point| {
            self.history.is_new(point)
                && self.region.admits(self.history, point)
                && !self.taken.contains(&self.history.space().key(point))
        });
        free.map_or_else(|| self.region.sample(self.history, rng), Ok)
    }

    /// A candidate after ascent along its numbers.
    fn polished(&self, start: &Candidate, value: &Value<'_>) -> Option<Candidate> {
        let space = self.history.space();
        let mut input = self.input(&start.point);
        let n = input.numbers.len();
        if n == 0 {
            return None;
        }
        let origin = space.encode(&start.point);
        let code = self.layout.code(&start.point);
        // Numbers that do not exist stay where they are.
        let (mut lower, mut upper) = (vec![0.0; n], vec![1.0; n]);
        for (i, at) in self.kernel.number_coordinates().enumerate().filter(|&(_, at)| code[at].is_nan()) {
            (lower[i], upper[i]) = (input.numbers[i], input.numbers[i]);
            debug_assert!(origin[at].is_finite());
        }
        let start_numbers = input.numbers.clone();
        let found = minimise(&start_numbers, &lower, &upper, STEPS, |numbers, gradient| {
            input.numbers.copy_from_slice(numbers);
            let value = value(&input, Some(&mut *gradient));
            for slope in gradient {
                *slope = -*slope;
            }
            -value
        });
        let mut unit_point = origin;
        for (at, number) in self.kernel.number_coordinates().zip(&found.0) {
            if !code[at].is_nan() {
                unit_point[at] = *number;
            }
        }
        let point = self.region.pull_inside(self.history, &unit_point, &start.point);
        Some(Candidate { value: value(&self.input(&point), None), point })
    }

    /// What the model reads of a point.
    pub(super) fn input(&self, point: &Point) -> Input {
        self.kernel.input(&self.layout.code(point), point)
    }
}

/// The best first; equal ones stay in order.
fn sort(ranked: &mut [Candidate]) {
    ranked.sort_by(|a, b| b.value.total_cmp(&a.value));
}

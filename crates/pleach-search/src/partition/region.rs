//! A part of a space that a method is to stay in.

use std::sync::Arc;

use super::walk::{Place, Walk};
use super::{Boundary, Family};
use crate::layout::{Block, Layout};
use crate::{Error, History, Point, Rng};

/// Walks that draws come from, at most.
const WALKS: usize = 8;
/// Members that are looked at for starts, at most.
const LOOKED_AT: usize = 512;

/// One boundary on the way to a region, with the side that is inside.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) boundary: Arc<Boundary>,
    pub(crate) good: bool,
}

/// The part of a space in which a method is asked to propose: the whole, or a leaf of a partition.
///
/// Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Region {
    /// `None` for the whole space.
    part: Option<Arc<Part>>,
}

#[derive(Debug)]
struct Part {
    layout: Arc<Layout>,
    sides: Vec<Side>,
    /// Told trials inside, by number.
    members: Vec<u64>,
    /// Whether a point can be placed before it is evaluated.
    checkable: bool,
}

impl Region {
    /// The whole space.
    pub fn whole() -> Self {
        Self { part: None }
    }

    /// The points on the given side of every boundary; `members` are told trials inside.
    ///
    /// If the boundaries are drawn in features that are known only after the evaluation, the region
    /// is not checkable: it has members, and holds every point.
    pub(crate) fn part(layout: Arc<Layout>, sides: Vec<Side>, members: Vec<u64>, checkable: bool) -> Self {
        Self { part: Some(Arc::new(Part { layout, sides, members, checkable })) }
    }

    /// Whether nothing is outside.
    pub fn is_whole(&self) -> bool {
        self.part.as_ref().is_none_or(|part| part.sides.is_empty())
    }

    /// Told trials inside; of a point with several trials, the first.
    pub fn members<'a>(&'a self, history: &'a History) -> &'a [u64] {
        self.part.as_ref().map_or(history.told(), |part| &part.members)
    }

    /// Whether a point is inside and keeps the known constraints.
    pub fn admits(&self, history: &History, point: &Point) -> bool {
        history.space().admits(point) && self.contains(point)
    }

    /// Whether a point is inside.
    pub fn contains(&self, point: &Point) -> bool {
        self.is_within(point, 0.0)
    }

    /// Whether a point is inside or no farther outside than `margin`, in units of decision values (1
    /// is the distance from a kernel boundary to its margin).
    pub fn is_within(&self, point: &Point, margin: f64) -> bool {
        let Some(part) = self.part.as_ref().filter(|part| part.checkable && !part.sides.is_empty()) else {
            return true;
        };
        let code = part.layout.code(point);
        part.sides.iter().all(|side| {
            let decision = side.boundary.decision(&part.layout, &code);
            if side.good { decision > -margin } else { decision <= margin }
        })
    }

    /// How deep inside a point is: the sum of its decision values over the boundaries, each counted
    /// towards its inner side; None if it is outside.
    pub(crate) fn depth(&self, point: &Point) -> Option<f64> {
        let Some(part) = self.part.as_ref().filter(|part| part.checkable) else { return Some(0.0) };
        let code = part.layout.code(point);
        let mut depth = 0.0;
        for side in &part.sides {
            let decision = side.boundary.decision(&part.layout, &code);
            if (decision > 0.0) != side.good {
                return None;
            }
            depth += decision.abs();
        }
        Some(depth)
    }

    /// A random point that is inside and keeps the known constraints.
    ///
    /// It is where a walk ends that leaves the uniform law as it is and began at a told trial inside. So
    /// every part of a region that is not connected gets the share of the told trials in it.
    ///
    /// # Errors
    /// As [`History::sample`].
    pub fn sample(&self, history: &History, rng: &mut Rng) -> Result<Point, Error> {
        Ok(self.draws(history, None, 1, rng)?.swap_remove(0))
    }

    /// Random points as of [`Region::sample`], each of which costs less; if `bounds` are given, the
    /// numbers of every point are between these ends of their coordinates of the unit cube (their cells
    /// overlap them if they are discrete).
    ///
    /// The points come from up to 8 walks in turn, which begin at told trials inside and go on from
    /// draw to draw.
    ///
    /// # Errors
    /// As [`History::sample`].
    ///
    /// # Panics
    /// If `bounds` are not one for each coordinate.
    pub fn draws(
        &self,
        history: &History,
        bounds: Option<&[(f64, f64)]>,
        n: usize,
        rng: &mut Rng,
    ) -> Result<Vec<Point>, Error> {
        let part = self.part.as_ref().filter(|part| part.checkable && !part.sides.is_empty());
        if part.is_none() && bounds.is_none() {
            return (0..n).map(|_| history.sample(rng)).collect();
        }
        let whole = part.is_none().then(|| Layout::new(history.space()));
        let layout = whole.as_ref().or(part.map(|part| &*part.layout)).expect("one of them is there");
        let sides = part.map_or(&[][..], |part| &part.sides);
        if let Some(bounds) = bounds {
            assert_eq!(bounds.len(), layout.len(), "one pair of ends for each coordinate");
        }
        let place = Place { layout, sides, bounds };
        let mut walks = Vec::with_capacity(WALKS);
        for start in self.starts(history, bounds, n.min(WALKS), rng)? {
            let mut walk = Walk::new(place, &start, rng);
            walk.advance(if n == 1 { walk.sweep() } else { 2 * walk.sweep() }, rng);
            walks.push(walk);
        }
        let mut points = Vec::with_capacity(n);
        for i in 0..n {
            let turn = i % walks.len();
            let walk = &mut walks[turn];
            if i > turn {
                walk.advance(walk.stride(), rng);
            }
            points.push(walk.point());
        }
        Ok(points)
    }

    /// Where walks begin: told trials inside, evenly over all of them.
    fn starts(
        &self,
        history: &History,
        bounds: Option<&[(f64, f64)]>,
        n: usize,
        rng: &mut Rng,
    ) -> Result<Vec<Point>, Error> {
        let is_bound = |number: &u64| {
            let Some(bounds) = bounds else { return true };
            let unit_point = history.space().encode(&history.trial(*number).point);
            unit_point.iter().zip(bounds).all(|(u, ends)| ends.0 <= *u && *u <= ends.1)
        };
        let all = self.members(history);
        let some = (0..all.len().min(LOOKED_AT)).map(|i| all[i * all.len() / all.len().min(LOOKED_AT)]);
        let mut members: Vec<u64> = some.clone().filter(is_bound).collect();
        if members.is_empty() {
            // A walk begins at the nearest point of the bounds.
            members = some.collect();
        }
        if members.is_empty() {
            return (0..n).map(|_| history.sample(rng)).collect();
        }
        let n = n.min(members.len());
        let first = rng.index(members.len());
        let pick = |i: usize| members[(first + i * members.len() / n) % members.len()];
        Ok((0..n).map(|i| history.trial(pick(i)).point.clone()).collect())
    }

    /// The point on the segment from `inside` to the point at `unit_point` that is as far from
    /// `inside` as bisection finds to be admitted.
    pub fn pull_inside(&self, history: &History, unit_point: &[f64], inside: &Point) -> Point {
        history.space().pull_inside_where(unit_point, inside, |point| self.admits(history, point))
    }

    /// The region on the good side of boundaries, each learned from the told points that are on the good
    /// sides of those before it, the better half of them being good. Boundaries that the points do
    /// not give are left out.
    ///
    /// A family that is `None` stands for the option of the best point in the first parameter that has
    /// options.
    pub(crate) fn learned(history: &History, families: &[Option<Family>]) -> Self {
        let layout = Layout::new(history.space());
        let mut known = history.known_after(history.told().len());
        known.sort_by_key(|&(number, merit)| (merit, number));
        let code = |number: u64| layout.code(&history.trial(number).point);
        let mut members: Vec<(u64, Vec<f64>)> =
            known.iter().map(|&(number, _)| (number, code(number))).collect();
        let mut sides = Vec::new();
        for family in families {
            let codes: Vec<&[f64]> = members.iter().map(|(_, code)| code.as_slice()).collect();
            let good: Vec<bool> = (0..codes.len()).map(|i| 2 * i < codes.len()).collect();
            let targets: Vec<f64> =
                (0..codes.len()).rev().map(|rank| rank as f64 / codes.len() as f64).collect();
            let equal = layout.blocks().iter().find_map(|block| match *block {
                Block::Option { at, .. } => Some(Boundary::Equal { at, value: codes.first()?[at] }),
                _ => None,
            });
            let boundary = match family {
                Some(family) => Boundary::fit(*family, &layout, &codes, &good, &targets),
                None => equal,
            };
            let Some(boundary) = boundary else { continue };
            members.retain(|(_, code)| boundary.decision(&layout, code) > 0.0);
            sides.push(Side { boundary: Arc::new(boundary), good: true });
        }
        let mut members: Vec<u64> = members.into_iter().map(|(number, _)| number).collect();
        members.sort_unstable();
        Self::part(Arc::new(layout), sides, members, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::told;
    use crate::{Parameter, Seed, Space};

    const FAMILIES: [Option<Family>; 5] =
        [Some(Family::Rbf), Some(Family::Cubic), Some(Family::LinearSvm), Some(Family::Ridge), None];

    /// Parameters of every kind; `m` and `n` do not always exist.
    fn parameters() -> Vec<Parameter> {
        vec![
            Parameter::float("x", 0.0, 1.0),
            Parameter::log_float("y", 1e-3, 1e3),
            Parameter::int("k", 0, 6),
            Parameter::log_int("l", 1, 100),
            Parameter::choice("c", ["a", "b", "c"]),
            Parameter::float("m", 0.0, 1.0).when("c == 'b'"),
            Parameter::int("n", 0, 3).when("x > 0.4"),
            Parameter::permutation("p", 4),
        ]
    }

    fn loss(u: &[f64]) -> f64 {
        (u[0] - 0.3).abs() + (u[1] - 0.6).powi(2) + (u[2] - u[3]).abs() + u[5] * u[4] + u[7] - 0.5 * u[10]
    }

    #[test]
    fn every_draw_is_inside() {
        for constraints in [&[][..], &["x * k <= 3", "x + l < 90"]] {
            let history = told(Space::new(parameters(), constraints).unwrap(), 200, 1, loss);
            let bounds: Vec<(f64, f64)> = (0..history.space().unit_len()).map(|_| (0.1, 0.8)).collect();
            for first in FAMILIES {
                let region = Region::learned(&history, &[first, Some(Family::Rbf)]);
                assert!(!region.is_whole() && !region.members(&history).is_empty());
                for bounds in [None, Some(&bounds[..])] {
                    let draws = region.draws(&history, bounds, 100, &mut Seed::new(7).rng(0)).unwrap();
                    for point in &draws {
                        assert!(region.admits(&history, point), "{first:?}");
                        let u = history.space().encode(point)[0];
                        assert!(bounds.is_none_or(|bounds| bounds[0].0 <= u && u <= bounds[0].1), "{u}");
                    }
                    let new = draws.iter().filter(|point| history.is_new(point)).count();
                    assert!(new >= 99, "{new} of 100 are new");
                }
                let again = region.draws(&history, None, 100, &mut Seed::new(7).rng(0)).unwrap();
                assert_eq!(again, region.draws(&history, None, 100, &mut Seed::new(7).rng(0)).unwrap());
            }
        }
    }

    #[test]
    fn draws_are_uniform() {
        // Of 6,000 draws, of which at least a fifth count as independent, and 40,000 draws of the space
        // that are kept if they are inside; a cell is 7 standard errors off with probability below 1e-11.
        let parameters = vec![
            Parameter::float("x", -1.0, 1.0),
            Parameter::int("k", 1, 4),
            Parameter::choice("c", ["a", "b", "c"]),
            Parameter::permutation("p", 3),
        ];
        let ring = |u: &[f64]| ((u[0] - 0.5).powi(2) + (u[1] - 0.5).powi(2) - 0.1).abs() + 0.2 * u[2] * u[3];
        let history = told(Space::new(parameters, &["x < 0.7"]).unwrap(), 300, 1, ring);
        let cell = |point: &Point| {
            let u = history.space().encode(point);
            [u[0] * 4.0, u[1] * 4.0, u[2] * 3.0, f64::from(u8::from(u[3] < u[4]))]
                .map(|x| x.floor().to_bits())
        };
        let count = |points: &[Point]| {
            let mut counts = std::collections::BTreeMap::new();
            for point in points {
                *counts.entry(cell(point)).or_insert(0.0) += 1.0 / points.len() as f64;
            }
            counts
        };
        let mut rng = Seed::new(2).rng(0);
        let all: Vec<Point> = (0..40_000).map(|_| history.sample(&mut rng).unwrap()).collect();
        for family in FAMILIES {
            let region = Region::learned(&history, &[family]);
            let inside: Vec<Point> = all.iter().filter(|point| region.contains(point)).cloned().collect();
            let got = count(&region.draws(&history, None, 6000, &mut rng).unwrap());
            let want = count(&inside);
            for cell in got.keys().chain(want.keys()) {
                let (got, want) = (got.get(cell).unwrap_or(&0.0), want.get(cell).unwrap_or(&0.0));
                let variance = want.max(1e-3) * (5.0 / 6000.0 + 1.0 / inside.len() as f64);
                assert!((got - want).abs() < 7.0 * variance.sqrt(), "{family:?} {cell:?}: {got} {want}");
            }
        }
    }

    #[test]
    fn a_start_outside_is_brought_inside() {
        let history = told(Space::new(parameters(), &[]).unwrap(), 200, 1, loss);
        let region = Region::learned(&history, &[Some(Family::Rbf), Some(Family::Ridge)]);
        let part = region.part.as_ref().unwrap();
        let outside = (0..200).filter(|&number| !region.contains(&history.trial(number).point));
        let wrong = Region::part(part.layout.clone(), part.sides.clone(), outside.collect(), true);
        for point in wrong.draws(&history, None, 50, &mut Seed::new(1).rng(0)).unwrap() {
            assert!(region.admits(&history, &point));
        }
    }
}

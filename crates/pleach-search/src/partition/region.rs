//! A part of a space that a method is to stay in.

use std::sync::Arc;

use super::Boundary;
use crate::layout::Layout;
use crate::{Error, History, Point, Rng};

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

    /// A random point that is inside and keeps the known constraints: uniform, or near that after a
    /// walk from a member.
    ///
    /// # Errors
    /// As [`History::sample`].
    pub fn sample(&self, history: &History, rng: &mut Rng) -> Result<Point, Error> {
        const DRAWS: usize = 32;
        const STEPS: usize = 16;
        let members = self.members(history);
        if self.is_whole() || members.is_empty() {
            return history.sample(rng);
        }
        for _ in 0..DRAWS {
            let point = history.sample(rng)?;
            if self.contains(&point) {
                return Ok(point);
            }
        }
        let mut point = history.trial(members[rng.index(members.len())]).point.clone();
        for _ in 0..STEPS {
            let next = history.space().mutate(&point, rng)?;
            if self.admits(history, &next) {
                point = next;
            }
        }
        Ok(point)
    }

    /// The point on the segment from `inside` to the point at `unit_point` that is as far from
    /// `inside` as bisection finds to be admitted.
    pub fn pull_inside(&self, history: &History, unit_point: &[f64], inside: &Point) -> Point {
        history.space().pull_inside_where(unit_point, inside, |point| self.admits(history, point))
    }
}

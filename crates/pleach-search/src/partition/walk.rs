//! Random walks inside a region that leave the uniform law on it as it is.

use super::follow::{Direction, Follower, Line};
use super::kernel::features_of;
use super::line::Pieces;
use super::region::Side;
use crate::expression::Halfspace;
use crate::layout::{Block, Layout};
use crate::space::Walls;
use crate::{Point, Rng, Space};

/// All values of an option are weighed against each other, up to so many.
const MOST_WEIGHED: usize = 64;
/// Options that are tried in turn where there are more.
const OPTION_TRIES: usize = 8;
/// Points that are tried to bring a start inside.
const REPAIRS: usize = 400;
/// Constraints this close to being broken, in units of their terms, count as broken: more than rounding.
const SLACK: f64 = 1e-12;

/// What a walk stays in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) layout: &'a Layout,
    pub(super) sides: &'a [Side],
    /// The ends of every coordinate of the unit cube; the whole cube if `None`. Only numbers are bound.
    pub(super) bounds: Option<&'a [(f64, f64)]>,
}

/// A walk through the points of a [`Place`] that keep the known constraints.
///
/// It moves one parameter at a time, in an order that is drawn for each sweep, and at the beginning of
/// a sweep all numbers that are always free together along a random direction (hit-and-run, Smith 1984).
/// Every move draws from the uniform law on what is inside, given what it does not change:
/// - numbers: the piece of the line inside is exact for linear and cubic boundaries and for linear
///   constraints; for others a bracket shrinks after each miss ([`Pieces::draw`]);
/// - options: all are weighed (Gibbs), or some are tried if there are more than 64 (Metropolis);
/// - orders: exchanges and insertions are tried, as many as there are elements.
///
/// Values of parameters that do not exist move as well, since they may come to exist.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    place: Place<'a>,
    walls: Walls,
    switches: Vec<bool>,
    followers: Vec<Follower<'a>>,
    /// The first feature of each parameter.
    features: Vec<usize>,
    /// The current point: in the unit cube, and its code.
    unit_point: Vec<f64>,
    code: Vec<f64>,
    /// What is left of the sweep.
    order: Vec<usize>,
}

impl<'a> Walk<'a> {
    /// A walk from a point; if that is outside, from a point near it that is inside. What is found
    /// is as near to the inside as some hundred tries came.
    pub(super) fn new(place: Place<'a>, start: &Point, rng: &mut Rng) -> Self {
        let space = place.layout.space();
        let mut feature = 0;
        let features = place.layout.blocks().iter().map(|block| {
            feature += features_of(*block);
            feature - features_of(*block)
        });
        let mut walk = Self {
            place,
            walls: space.walls(),
            switches: space.switches(),
            followers: place.sides.iter().map(|side| Follower::new(place.layout, side)).collect(),
            features: features.collect(),
            unit_point: space.encode(start),
            code: Vec::new(),
            order: Vec::new(),
        };
        for block in place.layout.blocks() {
            if let Block::Number { at } = *block {
                let (low, high) = walk.ends(at);
                walk.unit_point[at] = walk.unit_point[at].clamp(low, high);
            }
        }
        walk.repair(rng);
        walk.reset();
        walk
    }

    /// Number of moves of a sweep.
    pub(super) fn sweep(&self) -> usize {
        self.place.layout.blocks().len() + 1
    }

    /// Number of moves from one draw to the next: three fifths of a sweep where a move is dear, after which
    /// draws in 20 dimensions count for more than a fifth of independent ones.
    pub(super) fn stride(&self) -> usize {
        let is_dear = self.followers.iter().any(Follower::is_gaussian);
        if is_dear { (3 * self.sweep()).div_ceil(5) } else { self.sweep() }
    }

    /// The current point.
    pub(super) fn point(&self) -> Point {
        self.space().decode(&self.unit_point)
    }

    /// Makes moves; what was rounded on the way is computed anew at the end.
    pub(super) fn advance(&mut self, moves: usize, rng: &mut Rng) {
        const MOVES_BETWEEN: usize = 64;
        for made in 1..=moves {
            if let Some(parameter) = self.order.pop() {
                self.renew(parameter, rng);
            } else {
                self.order = (0..self.place.layout.blocks().len()).collect();
                rng.shuffle(&mut self.order);
                self.run(rng);
            }
            if made % MOVES_BETWEEN == 0 || made == moves {
                self.reset();
            }
        }
    }

    fn space(&self) -> &'a Space {
        self.place.layout.space()
    }

    fn ends(&self, coordinate: usize) -> (f64, f64) {
        self.place.bounds.map_or((0.0, 1.0), |bounds| bounds[coordinate])
    }

    /// Follows every boundary to the current point.
    fn reset(&mut self) {
        let point = self.point();
        let encoded = self.space().encode(&point);
        for block in self.place.layout.blocks() {
            if let Block::Permutation { at, len } = *block {
                self.unit_point[at..at + len].copy_from_slice(&encoded[at..at + len]);
            }
        }
        self.code = self.place.layout.code(&point);
        for follower in &mut self.followers {
            follower.reset(&self.code);
        }
    }

    /// How far inside another point is: the worst over everything, inside if above 0.
    fn depth_at(&self, unit_point: &[f64]) -> f64 {
        let point = self.space().decode(unit_point);
        if !self.space().admits(&point) {
            return f64::NEG_INFINITY;
        }
        let code = self.place.layout.code(&point);
        self.followers.iter().map(|follower| follower.depth_at(&code)).fold(f64::INFINITY, f64::min)
    }

    /// Brings the start inside, one parameter at a time and never away from it.
    fn repair(&mut self, rng: &mut Rng) {
        let mut depth = self.depth_at(&self.unit_point);
        for _ in 0..REPAIRS {
            if depth > 0.0 {
                return;
            }
            let mut tried = self.unit_point.clone();
            let index = rng.index(self.features.len());
            match self.place.layout.blocks()[index] {
                Block::Number { at } => {
                    let (low, high) = self.ends(at);
                    // Steps of all sizes, since nobody knows how narrow the way is.
                    let size = (high - low) * (-7.0 * rng.unit()).exp();
                    tried[at] = (tried[at] + size * rng.normal()).clamp(low, high);
                }
                Block::Option { at, .. } => tried[at] = rng.unit(),
                Block::Permutation { at, len } => exchange(&mut tried[at..at + len], rng),
            }
            let reached = self.depth_at(&tried);
            if reached >= depth {
                (self.unit_point, depth) = (tried, reached);
            }
        }
    }

    /// Moves all free numbers along a random direction.
    fn run(&mut self, rng: &mut Rng) {
        let blocks = self.place.layout.blocks();
        let mut direction = Direction::default();
        for (index, block) in blocks.iter().enumerate() {
            if let Block::Number { at } = *block
                && !self.switches[index]
                && !self.code[at].is_nan()
                && self.space().unit_cells(at).is_none()
            {
                direction.entries.push((at, self.features[index], rng.normal()));
            }
        }
        if direction.entries.len() < 2 {
            return;
        }
        let length = direction.entries.iter().map(|(_, _, change)| change * change).sum::<f64>().sqrt();
        direction.entries.iter_mut().for_each(|entry| entry.2 /= length);
        let is_checked = self.walls.checked.contains(&true);
        self.slide(&direction, is_checked, rng);
    }

    /// Draws a parameter anew, given the others.
    fn renew(&mut self, parameter: usize, rng: &mut Rng) {
        let block = self.place.layout.blocks()[parameter];
        let (at, len) = block.place();
        if self.code[at].is_nan() {
            // It does not exist, so that every value is as good.
            match block {
                Block::Permutation { .. } => rng.shuffle(&mut self.unit_point[at..at + len]),
                _ => self.unit_point[at] = self.uniform(at, rng),
            }
            return;
        }
        match block {
            Block::Number { at } if self.switches[parameter] => self.switch_number(at, rng),
            Block::Number { at } if self.space().unit_cells(at).is_some() => {
                self.renew_cell(parameter, at, rng);
            }
            Block::Number { at } => {
                let direction = Direction { entries: vec![(at, self.features[parameter], 1.0)] };
                self.slide(&direction, self.walls.checked[parameter], rng);
            }
            Block::Option { at, count } => self.renew_option(parameter, at, features_of(block), count, rng),
            Block::Permutation { .. } => {
                for _ in 0..len {
                    let mut tried = self.unit_point.clone();
                    if rng.below(2) == 0 {
                        exchange(&mut tried[at..at + len], rng);
                    } else {
                        insert(&mut tried[at..at + len], rng);
                    }
                    self.try_change(parameter, tried);
                }
            }
        }
    }

    fn uniform(&self, coordinate: usize, rng: &mut Rng) -> f64 {
        let (low, high) = self.ends(coordinate);
        low + rng.unit() * (high - low)
    }

    /// Moves along a direction, uniformly over the pieces of the line that are inside.
    fn slide(&mut self, direction: &Direction, is_checked: bool, rng: &mut Rng) {
        let mut pieces = Pieces::new(f64::NEG_INFINITY, f64::INFINITY);
        for &(at, _, change) in &direction.entries {
            let (low, high) = self.ends(at);
            let here = self.unit_point[at];
            pieces.clip(here - low, change);
            pieces.clip(high - here, -change);
        }
        for halfspace in &self.walls.halfspaces {
            let (room, slope) = self.room(halfspace, direction);
            pieces.clip(room, -slope);
        }
        let ends = pieces.ends();
        let mut lines: Vec<Line> = Vec::with_capacity(self.followers.len());
        for follower in &mut self.followers {
            let line = follower.line(&self.code, direction, ends);
            follower.clip(&line, &mut pieces);
            lines.push(line);
        }
        let chosen = pieces.draw(rng, |t| {
            let is_inside =
                |(follower, line): (&Follower<'_>, &Line)| line.is_cubic() || follower.accepts(line, t);
            self.followers.iter().zip(&lines).all(is_inside)
                && (!is_checked || self.admits_along(direction, t))
        });
        let Some(t) = chosen else { return };
        for &(at, _, change) in &direction.entries {
            let (low, high) = self.ends(at);
            self.unit_point[at] = (self.unit_point[at] + t * change).clamp(low, high);
            self.code[at] = self.unit_point[at];
        }
        for (follower, line) in self.followers.iter_mut().zip(&lines) {
            follower.step(line, t);
        }
    }

    /// How far a linear constraint is from being broken, and how fast that comes nearer.
    fn room(&self, halfspace: &Halfspace, direction: &Direction) -> (f64, f64) {
        let (mut sum, mut size, mut slope) = (0.0, halfspace.bound.abs(), 0.0);
        for &(parameter, weight) in &halfspace.weights {
            let (at, _) = self.place.layout.blocks()[parameter].place();
            sum += weight * self.unit_point[at];
            size += weight.abs();
            // Directions are of one coordinate, or of ascending ones.
            if let Ok(entry) = direction.entries.binary_search_by_key(&at, |entry| entry.0) {
                slope += weight * direction.entries[entry].2;
            }
        }
        (halfspace.bound - sum - SLACK * size, slope)
    }

    fn admits_along(&self, direction: &Direction, t: f64) -> bool {
        let mut unit_point = self.unit_point.clone();
        for &(at, _, change) in &direction.entries {
            unit_point[at] += t * change;
        }
        self.space().admits(&self.space().decode(&unit_point))
    }

    /// Draws a number with cells anew.
    fn renew_cell(&mut self, parameter: usize, at: usize, rng: &mut Rng) {
        let direction = Direction { entries: vec![(at, self.features[parameter], 1.0)] };
        let (low, high) = self.ends(at);
        let (here, from) = (self.unit_point[at], self.code[at]);
        let space = self.space();
        // Up to half a cell more than the bounds.
        let ends = (space.snap(parameter, low) - from, space.snap(parameter, high) - from);
        let code = &self.code;
        let lines: Vec<Line> =
            self.followers.iter_mut().map(|follower| follower.line(code, &direction, ends)).collect();
        let chosen = Pieces::new(low - here, high - here).draw(rng, |t| {
            let step = space.snap(parameter, here + t) - from;
            let is_inside = |(follower, line): (&Follower<'_>, &Line)| follower.accepts(line, step);
            self.followers.iter().zip(&lines).all(is_inside)
                && (!self.walls.checked[parameter] || self.admits_along(&direction, t))
        });
        let Some(t) = chosen else { return };
        self.unit_point[at] = (here + t).clamp(low, high);
        let to = space.snap(parameter, self.unit_point[at]);
        for (follower, line) in self.followers.iter_mut().zip(&lines) {
            follower.step(line, to - from);
        }
        self.code[at] = to;
    }

    /// Draws an option anew: from all that are inside, or by some tries.
    fn renew_option(&mut self, parameter: usize, at: usize, options: usize, count: u64, rng: &mut Rng) {
        let with = |unit_point: &[f64], option: usize| {
            let mut changed = unit_point.to_vec();
            changed[at] = (option as f64 + 0.5) / count as f64;
            changed
        };
        if options > MOST_WEIGHED {
            for _ in 0..OPTION_TRIES {
                let changed = with(&self.unit_point, rng.index(options));
                self.try_change(parameter, changed);
            }
            return;
        }
        let changes: Vec<Vec<f64>> = (0..options).map(|option| with(&self.unit_point, option)).collect();
        let inside: Vec<Vec<f64>> =
            changes.into_iter().filter(|changed| self.is_inside(parameter, changed)).collect();
        if !inside.is_empty() {
            let chosen = inside[rng.index(inside.len())].clone();
            self.try_change(parameter, chosen);
        }
    }

    /// Whether the point at which one option or order has changed is inside.
    fn is_inside(&mut self, parameter: usize, changed: &[f64]) -> bool {
        if self.switches[parameter] {
            return self.depth_at(changed) > 0.0;
        }
        let (at, len) = self.place.layout.blocks()[parameter].place();
        if self.walls.checked[parameter] && !self.space().admits(&self.space().decode(changed)) {
            return false;
        }
        let mut code = self.code.clone();
        code[at..at + len].copy_from_slice(&changed[at..at + len]);
        let feature = self.features[parameter];
        self.followers.iter_mut().all(|follower| follower.tries(parameter, feature, &self.code, &code))
    }

    /// Goes to the point at which one option or order has changed if that is inside.
    fn try_change(&mut self, parameter: usize, changed: Vec<f64>) {
        if !self.is_inside(parameter, &changed) {
            return;
        }
        self.unit_point = changed;
        if self.switches[parameter] {
            self.reset();
        } else {
            let (at, len) = self.place.layout.blocks()[parameter].place();
            self.code[at..at + len].copy_from_slice(&self.unit_point[at..at + len]);
            self.followers.iter_mut().for_each(Follower::take);
        }
    }

    /// Draws a number anew on which other parameters depend.
    fn switch_number(&mut self, at: usize, rng: &mut Rng) {
        let (low, high) = self.ends(at);
        let here = self.unit_point[at];
        let mut changed = self.unit_point.clone();
        let chosen = Pieces::new(low - here, high - here).draw(rng, |t| {
            changed[at] = (here + t).clamp(low, high);
            self.depth_at(&changed) > 0.0
        });
        if let Some(t) = chosen {
            self.unit_point[at] = (here + t).clamp(low, high);
            self.reset();
        }
    }
}

impl Line {
    fn is_cubic(&self) -> bool {
        matches!(self, Line::Cubic(_))
    }
}

/// Exchanges two ranks.
fn exchange(ranks: &mut [f64], rng: &mut Rng) {
    let (a, b) = (rng.index(ranks.len()), rng.index(ranks.len()));
    ranks.swap(a, b);
}

/// Moves one element to another rank; those between make room.
fn insert(ranks: &mut [f64], rng: &mut Rng) {
    let n = ranks.len() as f64;
    let (from, to) = (ranks[rng.index(ranks.len())], (rng.index(ranks.len()) as f64 + 0.5) / n);
    for rank in ranks.iter_mut() {
        #[expect(clippy::float_cmp, reason = "one rank is the one that was picked")]
        let is_moved = *rank == from;
        if is_moved {
            *rank = to;
        } else if from < *rank && *rank <= to + 0.25 / n {
            *rank -= 1.0 / n;
        } else if to - 0.25 / n <= *rank && *rank < from {
            *rank += 1.0 / n;
        }
    }
}

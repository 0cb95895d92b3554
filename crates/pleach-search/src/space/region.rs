//! Boxes of the parameters that decide whether a point is inside the known constraints.

use super::{Axis, Inner, Point};
use crate::expression::{Expression, Region, Side, Truth, Truths};
use crate::{Rng, Value};

/// A box, with a side for each parameter of its [`Frame`].
#[derive(Clone, Debug)]
pub(super) struct Part {
    sides: Vec<Side>,
    /// The constraints that may not hold everywhere in it.
    pub(super) open: Vec<usize>,
    /// Its part of the unit cube.
    pub(super) volume: f64,
}

/// The parameters that constraints depend on, through conditions too.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) parameters: Vec<usize>,
    /// The place in `parameters` of each parameter of the space; one past the end for others.
    slots: Vec<usize>,
    /// The places of the parameters that each constraint depends on.
    needed: Vec<Vec<usize>>,
}

impl Frame {
    /// The frame of the parameters that constraints depend on.
    pub(super) fn new(inner: &Inner) -> Self {
        let closures: Vec<Vec<bool>> = inner.constraints.iter().map(|c| closure(inner, c)).collect();
        Self::of(inner, (0..inner.axes.len()).filter(|&i| closures.iter().any(|closure| closure[i])))
    }

    /// A frame of some parameters, among them all that constraints depend on.
    pub(super) fn of(inner: &Inner, parameters: impl Iterator<Item = usize>) -> Self {
        let parameters: Vec<usize> = parameters.collect();
        let mut slots = vec![parameters.len(); inner.axes.len()];
        for (slot, &parameter) in parameters.iter().enumerate() {
            slots[parameter] = slot;
        }
        let needed = inner.constraints.iter().map(|constraint| {
            let closure = closure(inner, constraint);
            (0..closure.len()).filter(|&i| closure[i]).map(|i| slots[i]).collect()
        });
        Self { needed: needed.collect(), parameters, slots }
    }

    /// The whole space; the number of a constraint if that is kept nowhere.
    pub(super) fn whole(&self, inner: &Inner) -> Result<Part, usize> {
        let sides = self.parameters.iter().map(|&parameter| inner.axes[parameter].whole()).collect();
        self.examine(inner, Part { sides, open: (0..inner.constraints.len()).collect(), volume: 1.0 })
    }

    /// The box of the points that differ from `point` by at most `radius` in each coordinate, or by
    /// one value.
    pub(super) fn around(&self, inner: &Inner, point: &Point, radius: f64) -> Result<Part, usize> {
        let near = |&parameter: &usize| inner.axes[parameter].near(&point.values[parameter], radius);
        let sides = self.parameters.iter().map(near).collect();
        self.examine(inner, Part { sides, open: (0..inner.constraints.len()).collect(), volume: 1.0 })
    }

    /// Takes the constraints that a box keeps everywhere off its open ones; the number of a
    /// constraint if that is kept nowhere.
    pub(super) fn examine(&self, inner: &Inner, mut part: Part) -> Result<Part, usize> {
        let exists = self.exists(inner, &part.sides);
        let region = self.region(inner, &part.sides, &exists);
        let mut broken = None;
        part.open.retain(|&constraint| {
            let truths = inner.constraints[constraint].over(&region);
            if truths.never_kept() {
                broken = broken.or(Some(constraint));
            }
            !truths.always_kept()
        });
        broken.map_or(Ok(part), Err)
    }

    /// Halves a box along the widest side that its open constraints depend on; `None` if each of
    /// these is down to one value.
    pub(super) fn split(&self, inner: &Inner, part: &Part) -> Option<[Part; 2]> {
        let exists = self.exists(inner, &part.sides);
        let mut widest: Option<(f64, usize, [Side; 2])> = None;
        for &slot in part.open.iter().flat_map(|&constraint| &self.needed[constraint]) {
            if !exists[slot].contains(Truth::True) {
                continue;
            }
            let axis = &inner.axes[self.parameters[slot]];
            let width = axis.width(part.sides[slot]);
            if widest.is_none_or(|(most, ..)| width > most)
                && let Some(halves) = axis.halves(part.sides[slot])
            {
                widest = Some((width, slot, halves));
            }
        }
        let (width, slot, halves) = widest?;
        Some(halves.map(|half| {
            let mut child = part.clone();
            child.sides[slot] = half;
            child.volume *= inner.axes[self.parameters[slot]].width(half) / width;
            child
        }))
    }

    /// Halves a box along the widest side of several cells whose parameter exists there; if there is
    /// none, whose parameter may exist.
    pub(super) fn split_cells(&self, inner: &Inner, part: &Part) -> Option<[Part; 2]> {
        let exists = self.exists(inner, &part.sides);
        let width = |slot: usize| inner.axes[self.parameters[slot]].width(part.sides[slot]);
        let several = |slot: &usize| matches!(part.sides[*slot], Side::Cells { first, last } if first < last);
        let possible =
            (0..part.sides.len()).filter(several).filter(|&slot| exists[slot].contains(Truth::True));
        let is_certain = |slot: usize| exists[slot] == Truths::only(Truth::True);
        let slot = possible
            .max_by(|&a, &b| is_certain(a).cmp(&is_certain(b)).then(width(a).total_cmp(&width(b))))?;
        let halves = inner.axes[self.parameters[slot]].halves(part.sides[slot])?;
        Some(halves.map(|half| {
            let mut child = part.clone();
            child.sides[slot] = half;
            child
        }))
    }

    /// Whether a parameter that may exist in a box is continuous there.
    pub(super) fn is_continuous(&self, inner: &Inner, part: &Part) -> bool {
        let exists = self.exists(inner, &part.sides);
        let sides = part.sides.iter().zip(&exists);
        sides
            .into_iter()
            .any(|(side, exists)| matches!(side, Side::Reals { .. }) && exists.contains(Truth::True))
    }

    /// Whether any point of a box decides for all of it: the sides that its open constraints depend
    /// on are down to one value, and none is continuous.
    pub(super) fn is_decided(&self, part: &Part) -> bool {
        let mut slots = part.open.iter().flat_map(|&constraint| &self.needed[constraint]);
        slots.all(|&slot| matches!(part.sides[slot], Side::Cells { first, last } if first == last))
    }

    /// A uniform point of a box; parameters outside the frame are drawn from all their values.
    pub(super) fn draw(&self, inner: &Inner, part: &Part, rng: &mut Rng) -> Point {
        let draw = |(axis, &slot): (&Axis, &usize)| match part.sides.get(slot) {
            Some(side) => axis.draw_in(*side, rng),
            None => axis.draw(rng),
        };
        inner.assemble(inner.axes.iter().zip(&self.slots).map(draw).collect())
    }

    /// `point` with the values that `source` has for the parameters of the frame.
    pub(super) fn graft(&self, inner: &Inner, point: &Point, source: &Point) -> Point {
        let mut values = point.values.to_vec();
        for &parameter in &self.parameters {
            values[parameter] = source.values[parameter].clone();
        }
        inner.assemble(values)
    }

    fn exists(&self, inner: &Inner, sides: &[Side]) -> Vec<Truths> {
        let mut exists = vec![Truths::only(Truth::True); self.parameters.len()];
        for (parameter, condition) in &inner.conditions {
            let slot = self.slots[*parameter];
            if slot < exists.len() {
                exists[slot] = condition.over(&self.region(inner, sides, &exists));
            }
        }
        exists
    }

    fn region<'a>(&'a self, inner: &'a Inner, sides: &'a [Side], exists: &'a [Truths]) -> Region<'a> {
        Region { axes: &inner.axes, slots: &self.slots, sides, exists }
    }
}

/// The parameters that a constraint depends on.
fn closure(inner: &Inner, constraint: &Expression) -> Vec<bool> {
    let mut found = vec![false; inner.axes.len()];
    let note = |expression: &Expression, found: &mut Vec<bool>| {
        for &parameter in expression.parameters() {
            found[parameter] = true;
        }
    };
    note(constraint, &mut found);
    // A condition comes after those that it depends on, so going backwards meets all.
    for (parameter, condition) in inner.conditions.iter().rev() {
        if found[*parameter] {
            note(condition, &mut found);
        }
    }
    found
}

impl Axis {
    fn whole(&self) -> Side {
        match self {
            Axis::Linear { low, high } | Axis::Log { low, high, .. } => {
                Side::Reals { low: *low, high: *high }
            }
            _ => Side::Cells { first: 0, last: self.cells().map_or(0, |cells| cells - 1) },
        }
    }

    /// The values that differ from `value` by at most `radius` in the unit interval, or by one cell;
    /// all of them if they have no order.
    fn near(&self, value: &Value, radius: f64) -> Side {
        let u = self.encode(value);
        let (below, above) = ((u - radius).max(0.0), (u + radius).min(1.0));
        match (self.whole(), self) {
            (whole, Axis::Options { ordered: false, .. }) => whole,
            (Side::Cells { last, .. }, _) => {
                let here = self.cell_of(value);
                Side::Cells {
                    first: self.cell_at(below).min(here.saturating_sub(1)),
                    last: self.cell_at(above).max((here + 1).min(last)),
                }
            }
            (Side::Reals { .. }, _) => {
                let number = |u| self.decode(u).as_f64().expect("a continuous axis has numbers");
                let here = value.as_f64().expect("a continuous axis has numbers");
                Side::Reals { low: number(below).min(here), high: number(above).max(here) }
            }
        }
    }

    /// Its part of the unit interval.
    fn width(&self, side: Side) -> f64 {
        match (side, self) {
            (Side::Cells { first, last }, _) => self.edge(last + 1) - self.edge(first),
            (Side::Reals { low, high }, Axis::Log { ln_width, .. }) => {
                ((high - low) / low).ln_1p() / ln_width
            }
            (Side::Reals { low, high }, Axis::Linear { low: least, high: most }) => {
                (high - low) / (most - least)
            }
            (Side::Reals { .. }, _) => unreachable!("the side is one of a continuous axis"),
        }
    }

    /// Two sides that make up this one, equally wide as nearly as possible.
    fn halves(&self, side: Side) -> Option<[Side; 2]> {
        match side {
            Side::Cells { first, last } if first == last => None,
            Side::Cells { first, last } => {
                let middle =
                    self.cell_at(0.5 * (self.edge(first) + self.edge(last + 1))).clamp(first, last - 1);
                Some([Side::Cells { first, last: middle }, Side::Cells { first: middle + 1, last }])
            }
            Side::Reals { low, high } => {
                let middle = if let Axis::Log { .. } = self {
                    low.sqrt() * high.sqrt()
                } else {
                    low + 0.5 * (high - low)
                };
                // Neighbouring floats have nothing between them, and below 2⁻⁶⁰ of the range nothing matters.
                let splits = low < middle && middle < high && self.width(side) > 2.0_f64.powi(-60);
                splits.then_some([Side::Reals { low, high: middle }, Side::Reals { low: middle, high }])
            }
        }
    }

    fn draw_in(&self, side: Side, rng: &mut Rng) -> Value {
        let u = rng.unit();
        match side {
            Side::Cells { first, last } => {
                let (low, high) = (self.edge(first), self.edge(last + 1));
                self.value_at(self.cell_at(u.mul_add(high - low, low)).clamp(first, last))
            }
            Side::Reals { low, high } => {
                let x = if let Axis::Log { .. } = self {
                    low * (u * ((high - low) / low).ln_1p()).exp()
                } else {
                    u.mul_add(high - low, low)
                };
                Value::Float(x.clamp(low, high))
            }
        }
    }
}

//! Points moved inside the known constraints by lowering how far they are broken.

use super::region::Frame;
use super::sample::reflect;
use super::{Inner, Point};
use crate::Rng;

/// Points examined on the way of one point to the inside.
const MOVES: usize = 4000;

/// Moves a point inside, one parameter at a time and never away from it, if that succeeds.
///
/// This reaches what halving boxes does not: constraints on many parameters at once, of whose
/// boxes nearly all are undecided.
pub(super) fn repair(inner: &Inner, frame: &Frame, point: Point, rng: &mut Rng) -> Option<Point> {
    let mut current = point;
    let mut worst = violation(inner, &current);
    for _ in 0..MOVES {
        if worst <= 0.0 {
            return Some(current).filter(|point| inner.admits(point));
        }
        let parameter = frame.parameters[rng.index(frame.parameters.len())];
        let axis = &inner.axes[parameter];
        // Steps of all sizes, since nobody knows how narrow the way is.
        let size = (-7.0 * rng.unit()).exp();
        let u = reflect(axis.encode(&current.values[parameter]) + size * rng.normal());
        let mut values = current.values.to_vec();
        values[parameter] = axis.decode(u);
        let moved = inner.assemble(values);
        let broken = violation(inner, &moved);
        if broken <= worst {
            (current, worst) = (moved, broken);
        }
    }
    None
}

fn violation(inner: &Inner, point: &Point) -> f64 {
    let view = point.view();
    inner.constraints.iter().map(|constraint| constraint.violation(view)).sum()
}

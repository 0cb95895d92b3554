//! Going through every point inside the known constraints, box by box.

use super::region::Frame;
use super::{Axis, Inner, Point, Space};
use crate::Seed;

/// Boxes and points examined before a scan gives up.
const WORK: u64 = 1 << 20;
/// Draws from a box with continuous sides: if none is wanted, the box may still hold one that is.
const DRAWS: usize = 64;

/// What a scan came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scan {
    /// A point that was wanted.
    Found(Point),
    /// No point inside is wanted.
    Nothing,
    /// Too many points to go through.
    GaveUp,
}

impl Space {
    /// A point inside that is wanted. Boxes that constraints rule out are skipped whole, and
    /// parameters that do not exist are not varied, so that few points are found among however many
    /// combinations.
    pub(crate) fn scan(&self, mut wanted: impl FnMut(&Point) -> bool) -> Scan {
        let inner = &*self.inner;
        let frame = Frame::of(
            inner,
            (0..inner.axes.len()).filter(|&i| !matches!(inner.axes[i], Axis::Permutation { .. })),
        );
        let Ok(whole) = frame.whole(inner) else { return Scan::Nothing };
        let mut rng = Seed::new(0).child("scan", 0).rng(0);
        let mut wanted = |point: &Point| inner.admits(point) && wanted(point);
        let mut stack = vec![whole];
        let mut work = WORK;
        let mut is_certain = true;
        while let Some(part) = stack.pop() {
            if work == 0 {
                return Scan::GaveUp;
            }
            work -= 1;
            if let Some(children) = frame.split_cells(inner, &part) {
                stack.extend(children.into_iter().filter_map(|child| frame.examine(inner, child).ok()));
                continue;
            }
            let sample = frame.draw(inner, &part, &mut rng);
            if frame.is_continuous(inner, &part) {
                is_certain = false;
                let found = (0..DRAWS).map(|_| frame.draw(inner, &part, &mut rng)).find(&mut wanted);
                if let Some(point) = found {
                    return Scan::Found(point);
                }
            } else if let Some(orders) = orders(inner, &sample) {
                if orders > work {
                    return Scan::GaveUp;
                }
                work -= orders;
                if let Some(point) =
                    (0..orders).map(|index| with_order(inner, &sample, index)).find(&mut wanted)
                {
                    return Scan::Found(point);
                }
            } else {
                return Scan::GaveUp;
            }
        }
        if is_certain { Scan::Nothing } else { Scan::GaveUp }
    }
}

/// In how many ways the active permutations of a point can be ordered.
fn orders(inner: &Inner, point: &Point) -> Option<u64> {
    permutations(inner, point)
        .try_fold(1_u64, |product, axis| product.checked_mul(inner.axes[axis].cardinality()?))
}

/// The point with the `index`-th order of its active permutations.
fn with_order(inner: &Inner, point: &Point, mut index: u64) -> Point {
    let mut values = point.values.to_vec();
    for parameter in permutations(inner, point) {
        let count = inner.axes[parameter].cardinality().expect("counted before");
        values[parameter] = inner.axes[parameter].nth(index % count);
        index /= count;
    }
    inner.assemble(values)
}

fn permutations<'a>(inner: &'a Inner, point: &'a Point) -> impl Iterator<Item = usize> + 'a {
    (0..inner.axes.len()).filter(|&i| matches!(inner.axes[i], Axis::Permutation { .. }) && point.is_active(i))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Key, Parameter, Value};

    /// Scans until nothing new is left; how many points there were, or `None` if it gave up.
    fn count(parameters: Vec<Parameter>, constraints: &[&str]) -> Option<usize> {
        let space = Space::new(parameters, constraints).unwrap();
        let mut seen: BTreeSet<Key> = BTreeSet::new();
        loop {
            match space.scan(|point| !seen.contains(&space.key(point))) {
                Scan::Found(point) => assert!(space.admits(&point) && seen.insert(space.key(&point))),
                Scan::Nothing => return Some(seen.len()),
                Scan::GaveUp => return None,
            }
        }
    }

    #[test]
    fn every_point_is_found_once() {
        let wide = |name: &str| Parameter::int(name, 0, 1_000_000_000);
        assert_eq!(count(vec![wide("a"), wide("b")], &["a + b == 10"]), Some(11));
        assert_eq!(
            count(
                vec![Parameter::int("a", 1, 1 << 40), Parameter::int("b", 1, 1 << 40)],
                &["a * b == 60", "a < b"]
            ),
            Some(6)
        );
        assert_eq!(count(vec![Parameter::bool("f"), wide("a").when("f")], &["a < 3"]), Some(4));
        assert_eq!(
            count(
                vec![Parameter::bool("f"), wide("a").when("f"), Parameter::permutation("p", 3).when("not f")],
                &["a < 3"]
            ),
            Some(3 + 6)
        );
        assert_eq!(count(vec![wide("a").when("f"), Parameter::bool("f")], &["not f"]), Some(1));
        assert_eq!(count(vec![Parameter::choice("c", ["x"]), Parameter::float("y", 2.0, 2.0)], &[]), Some(1));
    }

    #[test]
    fn what_is_too_large_is_not_called_exhausted() {
        let space = Space::new(vec![Parameter::int("a", 0, 1 << 40)], &[]).unwrap();
        assert_eq!(space.scan(|_| false), Scan::GaveUp);
        let space =
            Space::new(vec![Parameter::bool("f"), Parameter::float("x", 0.0, 1.0).when("f")], &[]).unwrap();
        assert_eq!(space.scan(|_| false), Scan::GaveUp);
        assert!(matches!(space.scan(|point| point.values()[0] == Value::Bool(true)), Scan::Found(_)));
        let space = Space::new(vec![Parameter::permutation("p", 30)], &[]).unwrap();
        assert_eq!(space.scan(|_| false), Scan::GaveUp);
    }
}

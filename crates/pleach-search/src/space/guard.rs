//! What is known of the points inside the known constraints: boxes that hold them all, found by
//! branch and prune with interval arithmetic, and some of the points themselves.
//!
//! All work is counted, not timed, so that it is the same on every machine.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::region::{Frame, Part};
use super::repair::repair;
use super::{Inner, Point};
use crate::{Error, Rng, Seed};

/// Draws that tell how much of the space is inside.
const EXAMINED: usize = 256;
/// With fewer of them inside, boxes are worth their cost.
const ENOUGH: usize = 32;
/// Boxes examined to cover the inside, and boxes kept.
const COVER_NODES: usize = 16_384;
const COVER_BOXES: usize = 4096;
/// A cover is fine enough when this part of its volume is inside for certain.
const FINE: f64 = 0.5;
/// Boxes examined on the way down to points: in all when a space is built, and at each draw.
const START_NODES: usize = 65_536;
const DESCENT_NODES: usize = 2048;
/// A descent draws a point in every so many boxes on its way.
const TRY_EVERY: usize = 8;
/// Points inside that are kept.
const STARTS: usize = 16;
/// Draws that are moved inside if descents find too few points, and how many may fail.
const REPAIRS: usize = 4;
/// Membership tests of a draw: by draws from the boxes where most of the space is inside, and where
/// it is not; by descents. The rest is for a walk.
const PLAIN_TESTS: usize = 48;
const BOX_TESTS: usize = 16;
const DESCENT_TESTS: usize = 24;

#[derive(Debug)]
pub(super) struct Guard {
    frame: Frame,
    /// Boxes that hold every point inside: the whole space alone, if most of it is inside.
    parts: Vec<Part>,
    /// The volume of the parts up to each.
    cumulative: Vec<f64>,
    /// Points inside.
    pub(super) starts: Vec<Point>,
    /// The constraint that the fewest examined draws kept.
    pub(super) tightest: usize,
    /// Membership tests of a draw to be spent on the boxes and on descents; 0 where these found
    /// nothing when the space was built.
    box_tests: usize,
    descent_tests: usize,
}

impl Guard {
    /// # Errors
    /// [`Error::EmptySpace`] if it is proven that no point keeps the constraints.
    pub(super) fn new(inner: &Inner) -> Result<Self, Error> {
        let mut rng = Seed::new(0).child("known constraints", 0).rng(0);
        let mut kept = vec![0_usize; inner.constraints.len()];
        let mut inside = Vec::new();
        for _ in 0..EXAMINED {
            let point = inner.draw(&mut rng);
            let view = point.view();
            let mut all = true;
            for (count, constraint) in kept.iter_mut().zip(&inner.constraints) {
                let holds = constraint.truth(view).is_kept();
                *count += usize::from(holds);
                all &= holds;
            }
            if all {
                inside.push(point);
            }
        }
        let tightest = (0..kept.len()).min_by_key(|&i| kept[i]).unwrap_or(0);
        let is_tight = inside.len() < ENOUGH;
        inside.truncate(STARTS);

        let empty = |constraint: usize| Error::EmptySpace {
            constraint: inner.constraints[constraint].text().to_owned(),
        };
        let frame = Frame::new(inner);
        let whole = frame.whole(inner).map_err(empty)?;
        let parts =
            if is_tight { cover(inner, &frame, whole, &mut rng).map_err(empty)? } else { vec![whole] };
        let sums = parts.iter().scan(0.0, |sum, part| {
            *sum += part.volume;
            Some(*sum)
        });
        let cumulative = sums.collect();
        let box_tests = if is_tight { 0 } else { PLAIN_TESTS };
        let mut guard =
            Self { frame, parts, cumulative, starts: inside, tightest, box_tests, descent_tests: 0 };
        if is_tight {
            guard.find_starts(inner, &mut rng);
        }
        Ok(guard)
    }

    /// Finds points inside, and out by which means they are found.
    fn find_starts(&mut self, inner: &Inner, rng: &mut Rng) {
        for _ in 0..4 * BOX_TESTS {
            let point = self.frame.draw(inner, self.part(rng), rng);
            if inner.admits(&point) {
                self.box_tests = BOX_TESTS;
                self.starts.push(point);
            }
        }
        let mut nodes = START_NODES;
        while self.starts.len() < STARTS && nodes > 0 {
            let mut round = DESCENT_NODES.min(nodes);
            nodes -= round;
            if let Some(point) = self.search(inner, &mut round, &mut usize::MAX.clone(), rng) {
                self.descent_tests = DESCENT_TESTS;
                self.starts.push(point);
            }
            nodes += round;
        }
        let mut failures = 0;
        while self.starts.len() < STARTS && failures < REPAIRS {
            let point = self.frame.draw(inner, self.part(rng), rng);
            match repair(inner, &self.frame, point, rng) {
                Some(point) => self.starts.push(point),
                None => failures += 1,
            }
        }
        self.starts.truncate(STARTS);
    }

    /// A box of the cover, drawn by volume.
    fn part(&self, rng: &mut Rng) -> &Part {
        let at = rng.unit() * self.cumulative[self.cumulative.len() - 1];
        &self.parts[self.cumulative.partition_point(|&sum| sum <= at).min(self.parts.len() - 1)]
    }

    /// A point inside, if draws from the boxes or a descent into one of them find it. `tests` are
    /// the membership tests that may still be made.
    pub(super) fn sample(&self, inner: &Inner, tests: &mut usize, rng: &mut Rng) -> Option<Point> {
        for _ in 0..self.box_tests {
            *tests -= 1;
            let point = self.frame.draw(inner, self.part(rng), rng);
            if inner.admits(&point) {
                return Some(point);
            }
        }
        let mut left = self.descent_tests;
        let found = self.search(inner, &mut DESCENT_NODES.clone(), &mut left, rng);
        *tests -= self.descent_tests - left;
        found
    }

    /// A point inside, by descents into one box after the other.
    fn search(&self, inner: &Inner, nodes: &mut usize, tests: &mut usize, rng: &mut Rng) -> Option<Point> {
        while *nodes > 0 && *tests > 0 {
            let found = descend(inner, &self.frame, self.part(rng), nodes, tests, rng);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// A point inside that differs from `point`, in several parameters at once and as little as
    /// `radius` allows, if a descent finds one.
    pub(super) fn neighbour(
        &self,
        inner: &Inner,
        point: &Point,
        radius: f64,
        tests: &mut usize,
        rng: &mut Rng,
    ) -> Option<Point> {
        let near = self.frame.around(inner, point, radius).ok()?;
        let found = descend(inner, &self.frame, &near, &mut DESCENT_NODES.clone(), tests, rng)?;
        Some(self.frame.graft(inner, point, &found)).filter(|found| found.key() != point.key())
    }
}

/// A box in a heap: the largest comes first, of equal ones the oldest.
struct Largest {
    part: Part,
    age: usize,
}

impl Ord for Largest {
    fn cmp(&self, other: &Self) -> Ordering {
        self.part.volume.total_cmp(&other.part.volume).then(other.age.cmp(&self.age))
    }
}

impl PartialOrd for Largest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Largest {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Largest {}

/// Boxes that hold every point inside: splits the largest, drops those that are outside. The number
/// of the constraint that removed the last of them if none is left.
fn cover(inner: &Inner, frame: &Frame, whole: Part, rng: &mut Rng) -> Result<Vec<Part>, usize> {
    // Boxes that need no more splitting, and those that do.
    let mut done: Vec<Part> = Vec::new();
    let mut open = BinaryHeap::from([Largest { part: whole, age: 0 }]);
    let mut removed_by = 0;
    for age in (1..COVER_NODES).step_by(2) {
        let Some(Largest { part, .. }) = open.pop() else { break };
        let Some(children) = frame.split(inner, &part) else {
            // A box of a few floats stays undecided.
            if !frame.is_decided(&part) || inner.admits(&frame.draw(inner, &part, rng)) {
                done.push(part);
            } else {
                removed_by = part.open.first().copied().unwrap_or(removed_by);
            }
            continue;
        };
        for (child, age) in children.into_iter().zip(age..) {
            match frame.examine(inner, child) {
                Ok(part) if part.open.is_empty() => done.push(part),
                Ok(part) => open.push(Largest { part, age }),
                Err(constraint) => removed_by = constraint,
            }
        }
        if done.len() + open.len() >= COVER_BOXES || (age % 256 == 1 && is_fine(&done, &open)) {
            break;
        }
    }
    done.extend(open.into_sorted_vec().into_iter().map(|largest| largest.part));
    if done.is_empty() { Err(removed_by) } else { Ok(done) }
}

fn is_fine(done: &[Part], open: &BinaryHeap<Largest>) -> bool {
    let certain: f64 = done.iter().map(|part| part.volume).sum();
    let undecided: f64 = open.iter().map(|largest| largest.part.volume).sum();
    certain >= FINE * (certain + undecided)
}

/// Splits a box down to a point inside: into a random half first, into the other if that leads
/// nowhere. `nodes` are the boxes and `tests` the points that may still be examined.
fn descend(
    inner: &Inner,
    frame: &Frame,
    from: &Part,
    nodes: &mut usize,
    tests: &mut usize,
    rng: &mut Rng,
) -> Option<Point> {
    let reserve = *tests / 2;
    let mut stack = vec![from.clone()];
    for level in 1.. {
        let part = stack.pop()?;
        let children = frame.split(inner, &part);
        // Half of the tests are kept for boxes that cannot be split.
        if children.is_none() || (level % TRY_EVERY == 0 && *tests > reserve) {
            *tests = tests.checked_sub(1)?;
            let point = frame.draw(inner, &part, rng);
            if inner.admits(&point) {
                return Some(point);
            }
        }
        let Some([mut first, mut second]) = children else { continue };
        if rng.unit() * (first.volume + second.volume) >= first.volume {
            std::mem::swap(&mut first, &mut second);
        }
        *nodes = nodes.saturating_sub(2);
        if *nodes == 0 {
            return None;
        }
        stack.extend([second, first].into_iter().filter_map(|child| frame.examine(inner, child).ok()));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::{Key, MEMBERSHIP_TESTS, Parameter, Space};
    use crate::{Domain, Error, Seed, Value};

    const TWENTY: [&str; 20] =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"];

    fn ints(names: &[&str], low: i64, high: i64) -> Vec<Parameter> {
        names.iter().map(|name| Parameter::int(name, low, high)).collect()
    }

    fn floats(names: &[&str], low: f64, high: f64) -> Vec<Parameter> {
        names.iter().map(|name| Parameter::float(name, low, high)).collect()
    }

    /// Draws and changes points, all of which must be inside; the number of distinct ones.
    fn explore(space: &Space, draws: u64) -> usize {
        let mut seen: BTreeSet<Key> = BTreeSet::new();
        for draw in 0..draws {
            let mut rng = Seed::new(7).rng(draw);
            MEMBERSHIP_TESTS.set(0);
            let point = space.sample(&mut rng, &[]).unwrap();
            assert!(MEMBERSHIP_TESTS.get() <= 64, "{} tests", MEMBERSHIP_TESTS.get());
            assert!(space.admits(&point), "{point:?}");
            MEMBERSHIP_TESTS.set(0);
            let changed = space.mutate(&point, &mut rng).unwrap();
            assert!(MEMBERSHIP_TESTS.get() <= 64, "{} tests", MEMBERSHIP_TESTS.get());
            assert!(space.admits(&changed), "{changed:?}");
            seen.extend([space.key(&point), space.key(&changed)]);
        }
        seen.len()
    }

    #[test]
    fn tight_constraints_are_met_with_variety() {
        let band = |width: &str| format!("abs(a + b + c - 1) <= {width}");
        let cases: Vec<(&str, Vec<Parameter>, Vec<String>, usize)> = vec![
            ("sum of ints", ints(&["a", "b"], 0, 1_000_000), vec!["a + b == 10".into()], 11),
            (
                "sum of many ints",
                ints(&["a", "b", "c", "d", "e"], 0, 1000),
                vec!["a + b + c + d + e == 1000".into()],
                350,
            ),
            (
                "weights",
                ints(&["a", "b", "c"], 0, 1_000_000),
                vec!["2 * a + 3 * b + 5 * c == 1000000".into()],
                350,
            ),
            ("product", ints(&["a", "b"], 1, 31_623), vec!["a * b <= 64".into()], 150),
            ("exact product", ints(&["a", "b", "c"], 1, 1000), vec!["a * b * c == 30030".into()], 60),
            (
                "corner",
                floats(&["a", "b", "c"], 0.0, 1.0),
                vec!["a < 0.01 and b < 0.01".into(), "c < 0.01".into()],
                380,
            ),
            ("band", floats(&["a", "b", "c"], 0.0, 1.0), vec![band("1e-6")], 380),
            ("equality of floats", floats(&["a", "b", "c"], 0.0, 1.0), vec![band("0")], 300),
            ("circle", floats(&["a", "b"], -1.0, 1.0), vec!["abs(a * a + b * b - 0.5) <= 1e-7".into()], 380),
            (
                "log",
                vec![Parameter::log_float("a", 1e-9, 1.0), Parameter::log_int("b", 1, 1 << 30)],
                vec!["1 <= a * b <= 1.001".into()],
                350,
            ),
            ("simplex", floats(&TWENTY, 0.0, 1.0), vec![format!("{} <= 1", TWENTY.join(" + "))], 380),
            (
                "narrow simplex",
                floats(&TWENTY, 0.0, 1.0),
                vec![format!("0.999 <= {} <= 1", TWENTY.join(" + "))],
                380,
            ),
            (
                "large product",
                TWENTY.iter().map(|name| Parameter::log_float(name, 1e-5, 1.0)).collect(),
                vec![format!("{} >= 1e-10", TWENTY.join(" * "))],
                380,
            ),
            (
                "stepped",
                (0..4)
                    .map(|i| {
                        Parameter::new(
                            ["a", "b", "c", "d"][i],
                            Domain::Float { low: 0.0, high: 1.0, log: false, step: Some(0.01) },
                        )
                    })
                    .collect(),
                vec!["a + b + c + d == 1".into()],
                300,
            ),
        ];
        for (name, parameters, constraints, distinct) in cases {
            let constraints: Vec<&str> = constraints.iter().map(String::as_str).collect();
            let space =
                Space::new(parameters, &constraints).unwrap_or_else(|error| panic!("{name}: {error}"));
            let got = explore(&space, 200);
            assert!(got >= distinct, "{name}: {got} distinct points");
        }
    }

    #[test]
    fn constraints_see_through_conditions() {
        let parameters = vec![
            Parameter::choice("opt", ["sgd", "adamw", "lion"]),
            Parameter::int("a", 0, 1_000_000).when("opt == 'adamw'"),
            Parameter::int("b", 0, 1_000_000).when("a < 5"),
        ];
        let space = Space::new(parameters, &["opt != 'sgd' and opt != 'lion'", "a + b == 7"]).unwrap();
        // b exists for a in 0..5, and is then 7 - a; elsewhere the sum is absent.
        assert!(explore(&space, 100) > 150);
        let parameters = vec![
            Parameter::choice("opt", ["sgd", "adamw"]),
            Parameter::int("a", 0, 1_000_000).when("opt == 'adamw'"),
        ];
        let space = Space::new(parameters, &["opt == 'adamw'", "a in [3, 999]"]).unwrap();
        assert_eq!(explore(&space, 100), 2);
    }

    #[test]
    fn empty_spaces_are_proven_empty() {
        let check = |parameters: Vec<Parameter>, constraints: &[&str], expected: &str| {
            let got = Space::new(parameters, constraints).map(|_| ());
            assert_eq!(got, Err(Error::EmptySpace { constraint: expected.into() }), "{constraints:?}");
        };
        check(ints(&["a", "b"], 0, 9), &["a < 5", "a + b > 18"], "a + b > 18");
        check(ints(&["a", "b"], 0, 1_000_000), &["a * b == -1"], "a * b == -1");
        check(ints(&["a", "b"], 0, 9), &["a > b", "b > a"], "b > a");
        check(floats(&["a"], 0.0, 1.0), &["sqrt(a - 2) > 0"], "sqrt(a - 2) > 0");
        check(vec![Parameter::choice("c", ["u", "v"])], &["c == 'u'", "c == 'v'"], "c == 'u'");
        check(vec![], &["1 > 2"], "1 > 2");
        check(vec![Parameter::bool("f"), Parameter::int("n", 1, 3).when("f")], &["f", "n > 3"], "n > 3");
    }

    #[test]
    fn what_cannot_be_decided_names_the_tightest() {
        // Interval arithmetic cannot see that a - a is 0, and no box is inside for certain.
        let space =
            Space::new(floats(&["a", "b"], 0.0, 1.0), &["b < 0.9", "(a - a) * 1e30 + b * 0 == 1"]).unwrap();
        let error = space.sample(&mut Seed::new(1).rng(0), &[]).unwrap_err();
        assert_eq!(error, Error::NoStart { constraint: "(a - a) * 1e30 + b * 0 == 1".into() });
    }

    #[test]
    fn a_stored_trial_is_a_start_where_no_search_finds_one() {
        // One combination in a million is inside, and intervals learn nothing of a remainder.
        let known = [5_i64, 77, 123, 999];
        let sum: i64 =
            known.iter().zip([7919, 104_729, 1_299_709, 15_485_863]).map(|(x, prime)| x * prime).sum();
        let needle =
            format!("(a * 7919 + b * 104729 + c * 1299709 + d * 15485863) % 1000003 == {}", sum % 1_000_003);
        let space = Space::new(ints(&["a", "b", "c", "d"], 0, 1000), &[&needle]).unwrap();
        assert!(space.inner.guard.as_ref().unwrap().starts.is_empty());
        let known = space.point(known.map(Value::Int).to_vec()).unwrap();
        let mut rng = Seed::new(1).rng(0);
        MEMBERSHIP_TESTS.set(0);
        let point = space.sample(&mut rng, &[&known]).unwrap();
        assert!(MEMBERSHIP_TESTS.get() <= 64 && space.admits(&point));
    }

    #[test]
    fn draws_from_boxes_are_uniform_over_the_inside() {
        // A triangle of 55 of 1,000,000 combinations; 11,000 draws expect 200 each, with a standard
        // deviation of 14, so that 5 of them on one of 55 cells has probability 3e-5.
        let space = Space::new(ints(&["a", "b"], 0, 999), &["a + b <= 9"]).unwrap();
        let mut counts = std::collections::BTreeMap::new();
        for draw in 0..11_000 {
            let point = space.sample(&mut Seed::new(3).rng(draw), &[]).unwrap();
            *counts.entry(space.key(&point)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 55);
        assert!(counts.values().all(|count| (130..270).contains(count)), "{counts:?}");
    }

    #[test]
    fn pulling_stops_at_the_border() {
        let space = Space::new(floats(&["a", "b"], 0.0, 1.0), &["a + b <= 1"]).unwrap();
        let inside = space.point(vec![Value::Float(0.25), Value::Float(0.25)]).unwrap();
        MEMBERSHIP_TESTS.set(0);
        let pulled = space.pull_inside(&[1.0, 1.0], &inside);
        assert!(MEMBERSHIP_TESTS.get() <= 24 && space.admits(&pulled));
        let sum: f64 = pulled.values().iter().filter_map(Value::as_f64).sum();
        assert!(sum > 1.0 - 1e-6);
        assert_eq!(space.encode(&space.pull_inside(&[0.5, 0.25], &inside)), [0.5, 0.25]);
    }

    proptest! {
        #[test]
        fn proposals_are_inside_random_constraints(
            sums in prop::collection::vec((-3..4_i64, -3..4_i64, -3..4_i64, 0..40_i64, prop::sample::select(vec!["<=", "==", ">="])), 1..4),
            seed in any::<u64>(),
        ) {
            let texts: Vec<String> = sums.iter().map(|(a, b, c, rest, op)| format!("{a} * a + {b} * b + {c} * c {op} {rest}")).collect();
            let constraints: Vec<&str> = texts.iter().map(String::as_str).collect();
            let inside = |a: i64, b: i64, c: i64| sums.iter().all(|(x, y, z, rest, op)| {
                let sum = x * a + y * b + z * c;
                match *op { "<=" => sum <= *rest, "==" => sum == *rest, _ => sum >= *rest }
            });
            let any = (0..20).any(|a| (0..20).any(|b| (0..20).any(|c| inside(a, b, c))));
            match Space::new(ints(&["a", "b", "c"], 0, 19), &constraints) {
                Err(error) => prop_assert!(!any, "{}", error),
                Ok(space) => {
                    prop_assert!(any);
                    let mut rng = Seed::new(seed).rng(0);
                    for _ in 0..10 {
                        let point = space.sample(&mut rng, &[]).unwrap();
                        let changed = space.mutate(&point, &mut rng).unwrap();
                        prop_assert!(space.admits(&point) && space.admits(&changed));
                    }
                }
            }
        }
    }
}

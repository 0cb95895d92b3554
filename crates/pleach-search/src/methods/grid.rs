//! Every combination once.

use std::collections::HashSet;

use super::bytes::{Reader, Writer};
use super::options::Given;
use super::{Entry, Optimizer, Options, Proposal};
use crate::{Domain, Error, History, Origin, Parameter, Point, Region, Seed, Space, Value};

pub(super) const ENTRY: Entry = Entry {
    name: "grid",
    summary: "every combination of a finite space, or of some levels of its numbers, once",
    options: &[(
        "resolution",
        "10 for floats without step, all values else",
        "levels of a float or int that has more values than this",
    )],
    learns: false,
    deliberates: false,
    build,
};

fn build(history: &History, options: &Options) -> Result<Box<dyn Optimizer>, Error> {
    let resolution = Given { method: ENTRY.name, options }.count("resolution", 1..=1_000_000)?;
    Ok(Box::new(Grid::new(history, resolution)?))
}

/// All combinations of levels, each once, then [`Error::Exhausted`].
///
/// Levels are evenly spaced on the scale of the parameter, both ends of its range included.
/// The order is a pseudo-random permutation that depends on the seed, so that a grid that is
/// stopped early has not left out one end of the first parameter.
/// Combinations that break a known constraint, differ only in inactive parameters, or were
/// evaluated before are skipped.
#[derive(Debug)]
struct Grid {
    resolution: Option<usize>,
    /// For each parameter the number of its levels.
    levels: Vec<u64>,
    order: Shuffle,
    /// Place in the order of the next combination.
    next: u64,
}

/// Levels of a continuous parameter.
const DEFAULT_RESOLUTION: u64 = 10;
/// Combinations that are looked at for one trial.
const LOOKS: u64 = 1 << 20;

impl Grid {
    fn new(history: &History, resolution: Option<usize>) -> Result<Self, Error> {
        let space = history.space();
        let levels = levels(space, resolution).filter(|levels| count(levels).is_some());
        let Some(levels) = levels else {
            let message = "the grid has more than 2^62 points; lower resolution, or use sobol";
            return Err(Error::Unsuitable { method: ENTRY.name.into(), message: message.into() });
        };
        let count = count(&levels).expect("checked above");
        let order = Shuffle::new(count, history.seed().child(ENTRY.name, 0));
        Ok(Self { resolution, levels, order, next: 0 })
    }

    /// The combination at a place of the order.
    fn point(&self, space: &Space, place: u64) -> Result<Point, Error> {
        let mut index = self.order.at(place);
        let mut values: Vec<Value> = Vec::with_capacity(self.levels.len());
        for (parameter, &count) in self.levels.iter().enumerate().rev() {
            values.push(level(space, parameter, index % count, count));
            index /= count;
        }
        values.reverse();
        space.point(values)
    }
}

impl Optimizer for Grid {
    fn ask(&self, history: &History, region: &Region, n: usize) -> Result<Vec<Proposal>, Error> {
        let space = history.space();
        let mut proposals: Vec<Proposal> = Vec::new();
        let mut batch = HashSet::new();
        for place in self.next..self.order.count {
            if proposals.len() == n {
                return Ok(proposals);
            }
            if place - self.next >= LOOKS {
                break;
            }
            let point = self.point(space, place)?;
            if region.admits(history, &point) && history.is_new(&point) && batch.insert(space.key(&point)) {
                proposals.push(Proposal { point, detail: (place + 1).to_le_bytes().to_vec() });
            }
        }
        if !proposals.is_empty() {
            Ok(proposals)
        } else if self.order.count - self.next > LOOKS {
            let message =
                format!("none of {LOOKS} points of the grid is new and keeps the constraints; use random");
            Err(Error::Unsuitable { method: ENTRY.name.into(), message })
        } else {
            Err(Error::Exhausted { points: history.distinct() })
        }
    }

    fn asked(&mut self, history: &History, _: &Region, number: u64) {
        if let Origin::Method { detail } = &history.trial(number).origin
            && let Some(place) = detail.first_chunk::<8>()
        {
            self.next = u64::from_le_bytes(*place).min(self.order.count);
        }
    }

    fn space_changed(&mut self, history: &History) -> Result<(), Error> {
        *self = Self::new(history, self.resolution)?;
        Ok(())
    }

    fn snapshot(&self) -> Vec<u8> {
        let mut out = Writer::new(1);
        out.u64(self.next);
        out.finish()
    }

    fn restore(&mut self, _: &History, snapshot: &[u8]) -> Result<(), Error> {
        let mut from = Reader::new(1, snapshot)?;
        self.next = from.u64()?.min(self.order.count);
        from.finish()
    }
}

/// The number of combinations, if it is at most 2^62.
fn count(levels: &[u64]) -> Option<u64> {
    levels.iter().try_fold(1_u64, |product, &count| product.checked_mul(count)).filter(|&n| n <= 1 << 62)
}

/// The number of levels of each parameter; `None` for permutations with more than 2^64.
fn levels(space: &Space, resolution: Option<usize>) -> Option<Vec<u64>> {
    let limit = resolution.map(|resolution| resolution as u64);
    let count = |(index, parameter): (usize, &Parameter)| match (&parameter.domain, space.values_of(index)) {
        (Domain::Float { .. }, None) => Some(limit.unwrap_or(DEFAULT_RESOLUTION)),
        (Domain::Float { .. } | Domain::Int { .. }, Some(values)) => {
            Some(limit.map_or(values, |limit| values.min(limit)))
        }
        (_, values) => values,
    };
    space.parameters().iter().enumerate().map(count).collect()
}

/// The value of level `digit` of `count`.
fn level(space: &Space, parameter: usize, digit: u64, count: u64) -> Value {
    if space.values_of(parameter) == Some(count) {
        space.nth_value(parameter, digit)
    } else if count == 1 {
        space.value_at(parameter, 0.5)
    } else {
        space.value_at(parameter, digit as f64 / (count - 1) as f64)
    }
}

/// A pseudo-random permutation of `0..count` that takes no memory.
///
/// Four rounds of a balanced Feistel network on the smallest even number of bits that holds
/// `count`, repeated until the result is below it (Black and Rogaway 2002, cycle walking).
#[derive(Debug)]
struct Shuffle {
    count: u64,
    half_bits: u32,
    seed: Seed,
}

impl Shuffle {
    fn new(count: u64, seed: Seed) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Self { count, half_bits: bits.div_ceil(2).max(1), seed }
    }

    /// What is at `place`, which must be below the count.
    fn at(&self, place: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let mut x = place;
        loop {
            let (mut left, mut right) = (x >> self.half_bits, x & mask);
            for round in 0..4 {
                let hash = self.seed.child("round", round << 32 | right).value();
                (left, right) = (right, left ^ (hash & mask));
            }
            x = left << self.half_bits | right;
            if x < self.count {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Goal, Metric, Problem, Search};

    fn run(space: Space, options: &[(&str, i64)]) -> Vec<String> {
        let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
        let options = options.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
        let mut search = Search::new(problem, "grid", &options, Seed::new(3)).unwrap();
        let mut seen = Vec::new();
        loop {
            match search.ask(1) {
                Ok(numbers) => {
                    let history = search.history();
                    let literals = history.space().literals(&history.trial(numbers[0]).point);
                    seen.push(
                        literals.iter().map(|(_, value)| value.to_string()).collect::<Vec<_>>().join(" "),
                    );
                }
                Err(error) => {
                    assert_eq!(error, Error::Exhausted { points: seen.len() as u64 });
                    return seen;
                }
            }
        }
    }

    #[test]
    fn shuffle_is_a_permutation() {
        for count in [1, 2, 3, 5, 16, 17, 1000] {
            let shuffle = Shuffle::new(count, Seed::new(1));
            let all: BTreeSet<u64> = (0..count).map(|place| shuffle.at(place)).collect();
            assert_eq!(all, (0..count).collect());
        }
    }

    #[test]
    fn levels_reach_both_ends() {
        let space = Space::new(
            vec![Parameter::float("x", 0.0, 1.0), Parameter::log_int("k", 1, 100), Parameter::bool("b")],
            &[],
        )
        .unwrap();
        let seen: BTreeSet<String> = run(space, &[("resolution", 3)]).into_iter().collect();
        let mut want = BTreeSet::new();
        for x in ["0.0", "0.5", "1.0"] {
            for k in ["1", "7", "100"] {
                want.extend(["true", "false"].map(|b| format!("{x} {k} {b}")));
            }
        }
        assert_eq!(seen, want);
    }

    #[test]
    fn conditions_and_constraints_leave_each_point_once() {
        let space = Space::new(
            vec![
                Parameter::choice("opt", ["sgd", "adam"]),
                Parameter::int("beta", 0, 9).when("opt == 'adam'"),
                Parameter::permutation("order", 3),
                Parameter::log_int("width", 1, 4),
            ],
            &["width != 3"],
        )
        .unwrap();
        let seen = run(space, &[]);
        assert_eq!(seen.len(), (1 + 10) * 6 * 3);
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len());
    }

    #[test]
    fn grids_beyond_counting_are_refused() {
        let parameters = (0..30).map(|i| Parameter::float(&format!("x{i}"), 0.0, 1.0)).collect();
        let problem =
            Problem::new(Space::new(parameters, &[]).unwrap(), vec![Metric::objective("y", Goal::Max)]);
        let error = Search::new(problem.unwrap(), "grid", &Options::new(), Seed::new(0)).unwrap_err();
        assert!(matches!(error, Error::Unsuitable { .. }), "{error}");
    }
}

//! Points to begin with.

use crate::{Error, History, Point, Region};

/// Point `index` of a Latin hypercube of `count` points: in every coordinate, each of `count` equal
/// slices holds one point (`McKay`, Beckman, Conover, Technometrics 1979). There is one for every
/// `version`.
///
/// A point outside of the region is replaced by a random one inside.
///
/// # Errors
/// As [`Region::sample`].
pub(super) fn latin_hypercube(
    history: &History,
    region: &Region,
    count: u64,
    index: u64,
    version: u64,
) -> Result<Point, Error> {
    let seed = history.seed().child("latin-hypercube", version);
    let (mut slices, mut rng) = (seed.rng(0), seed.rng(1 + index));
    let mut order: Vec<u64> = (0..count).collect();
    let mut coordinate = || {
        slices.shuffle(&mut order);
        let slice = order[usize::try_from(index).expect("less than count, which is a length")];
        (slice as f64 + rng.unit()) / count as f64
    };
    let x: Vec<f64> = (0..history.space().unit_len()).map(|_| coordinate()).collect();
    let point = history.space().decode(&x);
    if region.admits(history, &point) { Ok(point) } else { region.sample(history, &mut rng) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Goal, Metric, Parameter, Problem, Seed, Space};

    #[test]
    fn every_slice_of_every_coordinate_holds_one_point() {
        let space = Space::new((0..3).map(|i| Parameter::float(&format!("x{i}"), 0.0, 1.0)).collect(), &[]);
        let problem = Problem::new(space.unwrap(), vec![Metric::objective("y", Goal::Min)]).unwrap();
        let history = History::new(problem, Seed::new(5), 1);
        let points = |version: u64| -> Vec<Vec<f64>> {
            let point = |i| latin_hypercube(&history, &Region::whole(), 8, i, version).unwrap();
            (0..8).map(|i| history.space().encode(&point(i))).collect()
        };
        let first = points(0);
        for coordinate in 0..3 {
            let mut slices: Vec<f64> = first.iter().map(|x| (8.0 * x[coordinate]).floor()).collect();
            slices.sort_by(f64::total_cmp);
            assert_eq!(slices, (0..8).map(f64::from).collect::<Vec<_>>());
        }
        assert_ne!(first, points(1));
    }
}

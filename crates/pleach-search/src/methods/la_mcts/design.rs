//! The first trials.

use crate::{Error, History, Point};

/// Point `index` of the Latin hypercube of `count` points that begins at trial `since`: along every coordinate of the unit cube, each of
/// `count` equal parts has one of them. One that breaks a known constraint gives way to a random one.
///
/// # Source
/// `McKay`, Beckman, Conover, Technometrics 21 (1979).
pub(super) fn point(history: &History, since: u64, count: u64, index: u64) -> Result<Point, Error> {
    let space = history.space();
    let seed = history.seed().child("design", since);
    let mut rng = seed.rng(index);
    let parts = usize::try_from(count).expect("a design fits in memory");
    let this = usize::try_from(index).expect("a design fits in memory");
    let unit_point: Vec<f64> = (0..space.unit_len() as u64)
        .map(|coordinate| {
            let mut order: Vec<usize> = (0..parts).collect();
            seed.child("order", coordinate).rng(0).shuffle(&mut order);
            (order[this] as f64 + rng.unit()) / count as f64
        })
        .collect();
    let point = space.decode(&unit_point);
    if space.admits(&point) { Ok(point) } else { history.sample(&mut rng) }
}

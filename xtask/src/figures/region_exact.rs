//! Draws from learned regions against rejection from the whole space.

use std::collections::BTreeMap;
use std::time::Instant;

use pleach_search::{History, Parameter, Point, Region, Rng, Seed, Space, testing};

use super::record::{Log, Record, Row};
use super::statistics::{chi_squared_tail, median};
use super::{Figure, version};
use crate::Result;

pub(super) const FIGURE: Figure = Figure {
    name: "region-exact",
    about: "draws from regions of every kind of boundary and parameter: are they inside, uniform, independent",
    minutes: 12,
    run,
    summarise,
    picture: None,
};

/// Draws that are compared, and every how many-th of those made they are, so that they count as
/// independent; odd, so that they come from all walks in turn.
const DRAWS: usize = 100_000;
const EVERY: usize = 9;
/// Draws of the whole space, of which those inside are the truth.
const TRUTH: usize = 2_000_000;
/// Expected draws in a cell, at least; smaller cells are taken together.
const LEAST: f64 = 20.0;
/// Deep trees, and draws from each.
const TREES: u64 = 5;
const TREE_DRAWS: usize = 40_000;
/// Draws a batch, of which the variance of the mean tells how many count as independent.
const BATCH: usize = 160;

/// Parameters, objective, constraints, and the boundaries of each region.
type Kind = (
    &'static str,
    fn() -> Vec<Parameter>,
    fn(&[f64]) -> f64,
    &'static [&'static str],
    &'static [&'static [&'static str]],
);

const CONNECTED: &[Kind] = &[
    (
        "plane",
        plane,
        bowl,
        &[],
        &[&["ridge"], &["linear"], &["cubic"], &["rbf"], &["rbf", "rbf"], &["ridge", "cubic", "rbf"]],
    ),
    ("plane, x + y <= 1.2", plane, bowl, &["x + y <= 1.2"], &[&["linear"], &["cubic"], &["rbf"]]),
    ("plane, x * y <= 0.3", plane, bowl, &["x * y <= 0.3"], &[&["ridge"], &["rbf"]]),
    ("cube", cube, bowl, &[], &[&["cubic"], &["rbf"], &["rbf", "rbf", "rbf"]]),
    ("integers", integers, bowl, &[], &[&["ridge"], &["cubic"], &["rbf"]]),
    ("options", options, bowl, &[], &[&["equal"], &["equal", "rbf"], &["cubic"], &["rbf"]]),
    ("orders", orders, bowl, &[], &[&["ridge"], &["cubic"], &["rbf"]]),
    (
        "all kinds",
        all_kinds,
        bowl,
        &[],
        &[&["ridge"], &["cubic"], &["rbf"], &["equal", "rbf"], &["rbf", "rbf"]],
    ),
];
const OF_TWO_PARTS: &[Kind] = &[
    ("plane", plane, wells, &[], &[&["rbf", "rbf"], &["rbf", "rbf", "rbf"]]),
    ("cube", cube, wells, &[], &[&["rbf", "rbf"]]),
];

fn plane() -> Vec<Parameter> {
    vec![Parameter::float("x", 0.0, 1.0), Parameter::float("y", 0.0, 1.0)]
}

fn cube() -> Vec<Parameter> {
    vec![
        Parameter::float("x", 0.0, 1.0),
        Parameter::float("y", 0.0, 1.0),
        Parameter::log_float("z", 1e-3, 1e2),
    ]
}

fn integers() -> Vec<Parameter> {
    vec![Parameter::float("x", 0.0, 1.0), Parameter::int("k", 0, 6), Parameter::log_int("l", 1, 50)]
}

fn options() -> Vec<Parameter> {
    let letters = Parameter::choice("c", ["a", "b", "c", "d"]);
    vec![Parameter::float("x", 0.0, 1.0), Parameter::float("y", 0.0, 1.0), letters, Parameter::bool("f")]
}

fn orders() -> Vec<Parameter> {
    vec![Parameter::float("x", 0.0, 1.0), Parameter::permutation("p", 4)]
}

fn all_kinds() -> Vec<Parameter> {
    vec![
        Parameter::float("x", 0.0, 1.0),
        Parameter::int("k", 0, 4),
        Parameter::choice("c", ["a", "b", "c"]),
        Parameter::float("m", 0.0, 1.0).when("c == 'b'"),
        Parameter::int("n", 0, 3).when("x > 0.4"),
        Parameter::permutation("p", 3),
    ]
}

/// One well near the middle.
fn bowl(u: &[f64]) -> f64 {
    (0..).zip(u).map(|(i, u)| (u - 0.4 - 0.1 * f64::from(i % 3)).powi(2)).sum()
}

/// A well on either side of x = ½, on two parameters; the others lie in a bowl.
fn wells(u: &[f64]) -> f64 {
    let well = |x: f64, y: f64| (u[0] - x).powi(2) + (u[1] - y).powi(2);
    well(0.18, 0.3).min(well(0.82, 0.7)) + 0.1 * bowl(&u[2..])
}

fn run(log: &mut Log) -> Result<()> {
    for (kinds, n_parts) in [(CONNECTED, 1), (OF_TWO_PARTS, 2)] {
        for &(name, parameters, loss, constraints, regions) in kinds {
            let seed = Seed::new(log.seed_base).child(name, n_parts);
            let history = testing::told(Space::new(parameters(), constraints)?, 400, seed.value(), loss);
            for boundaries in regions {
                let problem = format!("{name}: {}", boundaries.join(", "));
                if log.has(METHODS[0], &problem, seed.value(), n_parts) {
                    continue;
                }
                let start = Instant::now();
                let region = testing::region(&history, boundaries);
                let mut rng = seed.child(&problem, 0).rng(0);
                let parts = if name.starts_with("plane") { parts(&history, &region) } else { n_parts };
                let (inside, p) = against_rejection(&history, &region, n_parts, &mut rng)?;
                for (method, value) in METHODS.iter().zip([p, inside, parts as f64]) {
                    log.push(&record(method, &problem, seed, n_parts, value, start))?;
                }
            }
        }
    }
    for tree in 0..TREES {
        let seed = Seed::new(log.seed_base).child("deep trees", tree);
        let problem = "20 floats: 5 x rbf";
        if !log.has(TREE_METHODS[0], problem, seed.value(), TREE_DRAWS as u64) {
            let start = Instant::now();
            for (method, value) in TREE_METHODS.iter().zip(deep_tree(seed)?) {
                log.push(&record(method, problem, seed, TREE_DRAWS as u64, value, start))?;
            }
        }
    }
    Ok(())
}

const METHODS: [&str; 3] = ["p of chi squared", "share inside", "parts"];
const TREE_METHODS: [&str; 5] =
    ["share inside", "share new", "least independent draws", "median independent draws", "us a draw"];

fn record(method: &str, problem: &str, seed: Seed, n: u64, value: f64, start: Instant) -> Record {
    Record {
        method: method.into(),
        version: version(),
        problem: problem.into(),
        seed: seed.value(),
        n,
        value,
        seconds: start.elapsed().as_secs_f64(),
    }
}

/// The share of draws inside, and the probability that uniform draws are as far from those of rejection:
/// over all cells, or the smallest over the two sides of x = ½.
fn against_rejection(history: &History, region: &Region, n_parts: u64, rng: &mut Rng) -> Result<(f64, f64)> {
    let space = history.space();
    let draws = region.draws(history, None, DRAWS * EVERY, rng)?;
    let draws: Vec<&Point> = draws.iter().step_by(EVERY).collect();
    let inside = draws.iter().filter(|point| region.admits(history, point)).count() as f64 / DRAWS as f64;
    let mut tables = vec![BTreeMap::<Vec<u8>, (f64, f64)>::new(); usize::try_from(n_parts)?];
    let mut count = |point: &Point, is_draw: bool| {
        let unit_point = space.encode(point);
        let part = usize::from(n_parts == 2 && unit_point[0] > 0.5);
        let cell = tables[part].entry(cell(space, point, &unit_point)).or_default();
        if is_draw { cell.0 += 1.0 } else { cell.1 += 1.0 }
    };
    for point in draws {
        count(point, true);
    }
    for _ in 0..TRUTH {
        let point = history.sample(rng)?;
        if region.contains(&point) {
            count(&point, false);
        }
    }
    Ok((inside, tables.iter().map(|table| p_value(table.values())).fold(1.0, f64::min)))
}

/// The cell of a point: of each number one of a few bins, of an option its value, of an order all ranks.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bins are few")]
fn cell(space: &Space, point: &Point, unit_point: &[f64]) -> Vec<u8> {
    let bins = if space.parameters().len() <= 3 { 8.0 } else { 4.0 };
    // Orders come last, so that the coordinates before them are those of the parameters.
    let is_absent = |i: usize| i < space.parameters().len() && !point.is_active(i);
    let bin = |(i, u): (usize, &f64)| if is_absent(i) { u8::MAX } else { (u * bins).min(bins - 1.0) as u8 };
    unit_point.iter().enumerate().map(bin).collect()
}

/// The two-sample test of Pearson over pairs of counts of draws and of the truth.
fn p_value<'a>(counts: impl Iterator<Item = &'a (f64, f64)>) -> f64 {
    let counts: Vec<(f64, f64)> = counts.copied().collect();
    let total = counts.iter().fold((0.0, 0.0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    let ratio: f64 = total.0 / total.1;
    let (mut statistic, mut cells, mut rest) = (0.0, 0_u32, (0.0, 0.0));
    let mut add = |(draws, truth): (f64, f64)| {
        let difference = draws / ratio.sqrt() - truth * ratio.sqrt();
        statistic += difference * difference / (draws + truth);
        cells += 1;
    };
    for (draws, truth) in counts {
        if (draws + truth) * total.0 / (total.0 + total.1) < LEAST {
            rest = (rest.0 + draws, rest.1 + truth);
        } else {
            add((draws, truth));
        }
    }
    if rest.0 + rest.1 > 0.0 {
        add(rest);
    }
    chi_squared_tail(statistic, f64::from(cells.max(2) - 1))
}

/// Number of connected parts of a region of the plane, on a grid.
fn parts(history: &History, region: &Region) -> u64 {
    const SIDE: usize = 300;
    let middle = |i: usize| (i as f64 + 0.5) / SIDE as f64;
    let admits =
        |i: usize| region.admits(history, &history.space().decode(&[middle(i / SIDE), middle(i % SIDE)]));
    let mut open: Vec<bool> = (0..SIDE * SIDE).map(admits).collect();
    let mut parts = 0;
    for start in 0..open.len() {
        let mut stack = vec![start];
        parts += u64::from(open[start]);
        while let Some(at) = stack.pop() {
            if std::mem::replace(&mut open[at], false) {
                let (row, column) = (at / SIDE, at % SIDE);
                stack.extend(
                    [(row > 0, at.wrapping_sub(SIDE)), (row + 1 < SIDE, at + SIDE)].iter().filter_map(keep),
                );
                stack.extend(
                    [(column > 0, at.wrapping_sub(1)), (column + 1 < SIDE, at + 1)].iter().filter_map(keep),
                );
            }
        }
    }
    parts
}

fn keep(&(is_there, at): &(bool, usize)) -> Option<usize> {
    is_there.then_some(at)
}

/// The values of [`TREE_METHODS`] for a path of five Gaussian boundaries in 20 dimensions.
fn deep_tree(seed: Seed) -> Result<[f64; 5]> {
    let parameters = (0..20).map(|i| Parameter::float(&format!("x{i}"), 0.0, 1.0)).collect();
    let mut rng = seed.rng(0);
    let centre: Vec<f64> = (0..20).map(|_| 0.1 + 0.8 * rng.unit()).collect();
    // Rotated enough that no coordinate stands alone.
    let loss = |u: &[f64]| {
        let z: Vec<f64> = u.iter().zip(&centre).map(|(u, c)| u - c).collect();
        (0..20).map(|i| (1 + i) as f64 * (z[i] + 0.5 * z[(i + 7) % 20]).powi(2)).sum()
    };
    let history = testing::told(Space::new(parameters, &[])?, 1000, seed.value(), loss);
    let region = testing::region(&history, &["rbf"; 5]);
    let start = Instant::now();
    let draws = region.draws(&history, None, TREE_DRAWS, &mut rng)?;
    let us = start.elapsed().as_secs_f64() * 1e6 / TREE_DRAWS as f64;
    let share = |count: usize| count as f64 / TREE_DRAWS as f64;
    let inside = share(draws.iter().filter(|point| region.admits(&history, point)).count());
    let mut keys: Vec<_> =
        draws.iter().filter(|point| history.is_new(point)).map(|p| history.space().key(p)).collect();
    keys.sort_unstable();
    keys.dedup();
    let unit_points: Vec<Vec<f64>> = draws.iter().map(|point| history.space().encode(point)).collect();
    let independent: Vec<f64> = (0..20).map(|j| independent(&unit_points, j)).collect();
    let least = independent.iter().copied().fold(f64::INFINITY, f64::min);
    Ok([inside, share(keys.len()), least, median(&independent), us])
}

/// The share of draws that would tell the mean of a coordinate as well if they were independent, by
/// the variance of the means of batches.
fn independent(unit_points: &[Vec<f64>], coordinate: usize) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let variance = |values: &[f64]| {
        let mean = mean(values);
        values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
    };
    let values: Vec<f64> = unit_points.iter().map(|u| u[coordinate]).collect();
    let means: Vec<f64> = values.chunks_exact(BATCH).map(mean).collect();
    variance(&values) / (BATCH as f64 * variance(&means))
}

fn summarise(records: &[Record]) -> Vec<Row> {
    let of = |method: &str, is_tree: bool, parts: Option<u64>| -> Vec<f64> {
        let wanted = |r: &&Record| {
            r.method == method && r.problem.contains("20 floats") == is_tree && parts.is_none_or(|n| r.n == n)
        };
        records.iter().filter(wanted).map(|r| r.value).collect()
    };
    let least = |values: &[f64]| values.iter().copied().fold(f64::NAN, f64::min);
    let most = |values: &[f64]| values.iter().copied().fold(f64::NAN, f64::max);
    let mut rows = Vec::new();
    let (connected, two) = (of(METHODS[0], false, Some(1)), of(METHODS[0], false, Some(2)));
    rows.push(Row::new("connected regions", connected.len() as f64));
    rows.push(Row::new("connected regions, smallest p", least(&connected)));
    rows.push(Row::new("connected regions of the plane, most parts", most(&of(METHODS[2], false, Some(1)))));
    rows.push(Row::new("regions of two parts", two.len() as f64));
    rows.push(Row::new("regions of two parts, smallest p within a part", least(&two)));
    rows.push(Row::new("regions of two parts, fewest parts", least(&of(METHODS[2], false, Some(2)))));
    rows.push(Row::new("all regions, least share inside", least(&of(METHODS[1], false, None))));
    rows.push(Row::new("deep trees", of(TREE_METHODS[0], true, None).len() as f64));
    rows.push(Row::new("deep trees, least share inside", least(&of(TREE_METHODS[0], true, None))));
    rows.push(Row::new("deep trees, least share of new points", least(&of(TREE_METHODS[1], true, None))));
    rows.push(Row::new(
        "deep trees, least share of independent draws",
        least(&of(TREE_METHODS[2], true, None)),
    ));
    rows.push(Row::new(
        "deep trees, median share of independent draws",
        median(&of(TREE_METHODS[3], true, None)),
    ));
    rows.push(Row::new("deep trees, us a draw", median(&of(TREE_METHODS[4], true, None))));
    rows
}

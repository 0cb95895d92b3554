//! Where runs begin.

use crate::linalg::{axpy, squared_distance};
use crate::{History, Merit, Point, Region, Rng};

/// A first mean, the first deviation, and how good the best point behind it is.
#[derive(Clone, Debug)]
pub(in crate::methods) struct Start {
    pub(in crate::methods) mean: Vec<f64>,
    pub(in crate::methods) sigma: f64,
    pub(in crate::methods) merit: Option<Merit>,
}

/// Points that a start is made of.
const BEST: usize = 10;
/// The first deviation, in root mean squared deviations of these points (0.5 beside 1 and 0.25: see
/// `la-mcts`).
const SHARE: f64 = 0.5;
/// Points that lie closer together than this have converged, and nothing is to be gained near them.
const CONVERGED: f64 = 1e-7;

/// A mean between the ten best points known in a region, weighted like the parents of CMA-ES, with a
/// deviation after how far they lie apart; `None` as long as fewer are measured there.
///
/// The mean lies in the region: if it does not by itself, it is pulled towards the best of the points.
/// Once they have converged, it is a random point, with deviation `sigma`, keyed by `number`.
pub(in crate::methods) fn between_best(
    history: &History,
    region: &Region,
    sigma: f64,
    number: u64,
) -> Option<Start> {
    let space = history.space();
    let mut ranked: Vec<(Merit, u64)> = region
        .members(history)
        .iter()
        .filter(|&&number| history.replicates(number)[0] == number)
        .filter_map(|&number| Some((history.merit(number)?, number)))
        .filter(|(merit, _)| matches!(merit, Merit::Feasible(_) | Merit::Violating(_)))
        .collect();
    if ranked.len() < BEST {
        return None;
    }
    ranked.select_nth_unstable(BEST - 1);
    ranked.truncate(BEST);
    ranked.sort_unstable();
    let points: Vec<&Point> = ranked.iter().map(|&(_, number)| &history.trial(number).point).collect();
    let codes: Vec<Vec<f64>> = points.iter().map(|point| space.encode(point)).collect();
    let weights: Vec<f64> = (1..=BEST).map(|i| ((BEST + 1) as f64).ln() - (i as f64).ln()).collect();
    let total: f64 = weights.iter().sum();
    let dim = space.unit_len();
    let mut mean = vec![0.0; dim];
    for (code, weight) in codes.iter().zip(&weights) {
        axpy(weight / total, code, &mut mean);
    }
    let squares: f64 = codes.iter().map(|code| squared_distance(code, &mean)).sum();
    let spread = (squares / (BEST * dim) as f64).sqrt();
    if spread < CONVERGED {
        let mut rng = history.seed().child("restart", 0).rng(number);
        let mean = space.encode(&region.sample(history, &mut rng).ok()?);
        return Some(Start { mean, sigma, merit: None });
    }
    if !region.admits(history, &space.decode(&mean)) {
        mean = space.encode(&region.pull_inside(history, &mean, points[0]));
    }
    Some(Start { mean, sigma: SHARE * spread, merit: Some(ranked[0].0) })
}

/// The middle of the space, unless it breaks a known constraint.
pub(in crate::methods) fn center(history: &History) -> Option<Vec<f64>> {
    let space = history.space();
    let center = vec![0.5; space.unit_len()];
    space.admits(&space.decode(&center)).then_some(center)
}

/// A random point; the middle if no point that keeps the known constraints is known yet, so that the
/// first ask says so.
pub(in crate::methods) fn random(history: &History, rng: &mut Rng) -> Vec<f64> {
    let space = history.space();
    history.sample(rng).map_or_else(|_| vec![0.5; space.unit_len()], |point| space.encode(&point))
}

//! From draws of a distribution to proposals, and from trials back to samples.

use std::collections::HashSet;

use super::margin::Margin;
use super::run::Run;
use super::strategy::{Sample, Strategy};
use crate::methods::Proposal;
use crate::{Domain, Error, History, Key, Merit, Origin, Point, Region, Rng, Space};

/// How the coordinates of a distribution and the points of a space stand for each other.
#[derive(Clone, Debug)]
pub(in crate::methods) struct Draws {
    /// The coordinates whose drawn value is stored, because the point does not tell it.
    keep: Vec<usize>,
    margin: Margin,
}

/// Draws for one trial; with a third of the draws inside, one in 10⁵ trials finds none.
const DRAWS: usize = 30;
/// Coordinates with more cells than this are close enough to continuous that the cell says enough.
const MANY_CELLS: u64 = 1 << 16;
/// A flag in the detail of a trial: its step was widened or shortened.
const CLIPPED: u8 = 1;
/// A flag in the detail of a trial: no draw was inside, and a step was bisected.
const BISECTED: u8 = 2;

/// Whether the point of a trial with this detail was pulled inside since no draw was.
pub(in crate::methods) fn is_bisected(detail: &[u8]) -> bool {
    detail.first().is_some_and(|flags| flags & BISECTED != 0)
}

impl Draws {
    pub(in crate::methods) fn new(space: &Space) -> Self {
        Self { keep: kept_coordinates(space), margin: Margin::new(space) }
    }

    /// Lets every discrete coordinate reach its neighbouring cells.
    pub(in crate::methods) fn stretch(&self, strategy: &mut Strategy) {
        strategy.stretch = self.margin.stretch(strategy);
    }

    /// A draw that is inside and new, if repetition finds one. In a part of the space it is the deepest of
    /// `candidates` draws inside, for where the boundaries see the good side, the best of it is deep.
    ///
    /// `best` is a trial to pull others towards if no draw and not even the mean is inside.
    pub(in crate::methods) fn propose(
        &self,
        history: &History,
        region: &Region,
        run: &Run,
        candidates: usize,
        batch: &HashSet<Key>,
        rng: &mut Rng,
    ) -> Result<Proposal, Error> {
        let space = history.space();
        let wanted = if region.is_whole() { 1 } else { candidates };
        let mut widen = 1.0;
        let mut drawn = Vec::new();
        let mut repeated = None;
        let mut inside = 0;
        let mut deepest: Option<(f64, Point, Vec<f64>)> = None;
        for _ in 0..DRAWS {
            drawn = self.draw(&run.strategy, widen, rng);
            let point = space.decode(&drawn);
            let Some(depth) = region.depth(&point).filter(|_| space.admits(&point)) else { continue };
            if history.is_new(&point) && !batch.contains(&space.key(&point)) {
                if deepest.as_ref().is_none_or(|(other, ..)| depth > *other) {
                    deepest = Some((depth, point, drawn.clone()));
                }
                inside += 1;
                if inside == wanted {
                    break;
                }
            } else {
                if deepest.is_none() {
                    widen *= 1.2;
                }
                repeated = Some(point);
            }
        }
        if let Some((_, point, drawn)) = deepest {
            return Ok(self.proposal(point, &drawn, if widen > 1.0 { CLIPPED } else { 0 }));
        }
        if let Some(point) = repeated {
            // The driver replaces it by a point that is new.
            return Ok(self.proposal(point, &drawn, CLIPPED));
        }
        let best = run.best().map(|number| point_of(history, number));
        let anchor = [Some(space.decode(&run.strategy.mean)), best]
            .into_iter()
            .chain(std::iter::once_with(|| best_member(history, region)))
            .flatten()
            .find(|point| region.admits(history, point));
        let point = match anchor {
            Some(anchor) => region.pull_inside(history, &drawn, &anchor),
            None => region.sample(history, rng)?,
        };
        let mut x = space.encode(&point);
        self.round(&mut x);
        Ok(self.proposal(point, &x, CLIPPED | BISECTED))
    }

    /// A draw as it is kept.
    pub(in crate::methods) fn draw(&self, strategy: &Strategy, widen: f64, rng: &mut Rng) -> Vec<f64> {
        let mut x = strategy.draw(widen, rng);
        self.round(&mut x);
        x
    }

    /// Values as they are kept: inside the cube, and in single precision where they are stored.
    fn round(&self, x: &mut [f64]) {
        for v in x.iter_mut() {
            *v = v.clamp(0.0, 1.0);
        }
        #[expect(clippy::cast_possible_truncation, reason = "single precision is meant")]
        self.keep.iter().for_each(|&i| x[i] = f64::from(x[i] as f32));
    }

    /// The proposal of a draw.
    pub(super) fn proposal(&self, point: Point, x: &[f64], flags: u8) -> Proposal {
        let mut detail = Vec::new();
        if flags != 0 || !self.keep.is_empty() {
            detail.push(flags);
            #[expect(clippy::cast_possible_truncation, reason = "it was rounded to single precision before")]
            self.keep.iter().for_each(|&i| detail.extend_from_slice(&(x[i] as f32).to_le_bytes()));
        }
        Proposal { point, detail }
    }

    /// What a distribution learns of a trial, which is its own if it was asked after trial `since`.
    pub(in crate::methods) fn sample(&self, history: &History, number: u64, since: u64) -> Sample {
        let trial = history.trial(number);
        let mut x = history.space().encode(&trial.point);
        let Origin::Method { detail } = &trial.origin else { return Sample { x, own: false } };
        let mut own = number >= since;
        if let Some((&flags, raw)) = detail.split_first() {
            own &= flags & CLIPPED == 0;
            let (words, _) = raw.as_chunks::<4>();
            for (&i, word) in self.keep.iter().zip(words) {
                let value = f64::from(f32::from_le_bytes(*word));
                // Bytes of an edited study may be anything.
                x[i] = if value.is_finite() { value.clamp(0.0, 1.0) } else { x[i] };
            }
        }
        Sample { x, own }
    }
}

/// A coordinate of few cells, or the key of an element of a permutation.
fn kept_coordinates(space: &Space) -> Vec<usize> {
    let mut keep = Vec::new();
    let mut coordinate = 0;
    for parameter in space.parameters() {
        let length = if let Domain::Permutation { n } = parameter.domain { n as usize } else { 1 };
        let is_permutation = matches!(parameter.domain, Domain::Permutation { .. });
        if is_permutation || space.unit_cells(coordinate).is_some_and(|cells| cells <= MANY_CELLS) {
            keep.extend(coordinate..coordinate + length);
        }
        coordinate += length;
    }
    keep
}

fn point_of(history: &History, number: u64) -> Point {
    history.trial(number).point.clone()
}

fn best_member(history: &History, region: &Region) -> Option<Point> {
    let rank = |&number: &u64| (history.merit(number).unwrap_or(Merit::Withdrawn), number);
    region.members(history).iter().copied().min_by_key(rank).map(|number| point_of(history, number))
}

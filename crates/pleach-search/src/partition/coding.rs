//! What a partition is drawn in.

use std::collections::HashMap;
use std::sync::Arc;

use crate::layout::Layout;
use crate::{History, Outcome, Parameter, Space};

/// How trials are coded for the boundaries of a tree.
#[derive(Clone, Debug)]
pub(super) enum Coding {
    /// By the code of the point, which is known before it is evaluated.
    Points(Arc<Layout>),
    /// By the features that the evaluation measured.
    Measured(Measured),
}

/// The features that evaluations measured (`LaP3`: Yang et al., `NeurIPS` 2021), scaled to `[0, 1]`.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Numbers without bounds; `None` until a measurement has features.
    layout: Option<Arc<Layout>>,
    /// The smallest value of each feature and the width of its range, when the tree was built.
    scale: Vec<(f64, f64)>,
    /// For the first trial of a point: which of its trials has the features; the one told first.
    sources: HashMap<u64, u64>,
}

impl Coding {
    pub(super) fn points(space: &Space) -> Self {
        Coding::Points(Arc::new(Layout::new(space)))
    }

    /// Whether a point can be placed before it is evaluated.
    pub(super) fn is_checkable(&self) -> bool {
        matches!(self, Coding::Points(_))
    }

    /// Number of points with features, of which none has a code before the first build; `None` if
    /// features do not matter.
    pub(super) fn measured(&self) -> Option<usize> {
        match self {
            Coding::Points(_) => None,
            Coding::Measured(measured) => Some(measured.sources.len()),
        }
    }

    /// The layout of the codes; `None` as long as nothing can be coded.
    pub(super) fn layout(&self) -> Option<&Arc<Layout>> {
        match self {
            Coding::Points(layout) => Some(layout),
            Coding::Measured(measured) => measured.layout.as_ref(),
        }
    }

    /// The code of the point of a trial; `None` if it has no features.
    pub(super) fn code(&self, history: &History, number: u64) -> Option<Vec<f64>> {
        match self {
            Coding::Points(layout) => Some(layout.code(&history.trial(number).point)),
            Coding::Measured(measured) => measured.code(history, number),
        }
    }

    /// Learns that a trial is told.
    pub(super) fn told(&mut self, history: &History, number: u64) {
        if let Coding::Measured(measured) = self
            && features(history, number).is_some()
        {
            measured.sources.entry(history.replicates(number)[0]).or_insert(number);
        }
    }

    /// Scales anew after the first `told` tells, as if nothing had been learned before.
    pub(super) fn rebuild(&mut self, history: &History, told: usize) {
        match self {
            Coding::Points(_) => *self = Self::points(history.space()),
            Coding::Measured(measured) => {
                measured.sources.clear();
                history.told()[..told].iter().for_each(|&number| self.told(history, number));
                self.rescale(history);
            }
        }
    }

    fn rescale(&mut self, history: &History) {
        let Coding::Measured(measured) = self else { return };
        let all = || measured.sources.values().filter_map(|&number| features(history, number));
        let Some(len) = all().next().map(<[f64]>::len) else {
            *measured = Measured::default();
            return;
        };
        let range = |j: usize| {
            let (low, high) = all().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), features| {
                (low.min(features[j]), high.max(features[j]))
            });
            // Halved, so that the width of any range is finite.
            (low / 2.0, (high / 2.0 - low / 2.0).max(f64::MIN_POSITIVE))
        };
        measured.scale = (0..len).map(range).collect();
        if measured.layout.as_ref().is_none_or(|layout| layout.len() != len) {
            let parameter = |j: usize| Parameter::float(&format!("feature{j}"), 0.0, 1.0);
            let space =
                Space::new((0..len).map(parameter).collect(), &[]).expect("plain numbers are a space");
            measured.layout = Some(Arc::new(Layout::new(&space)));
        }
    }
}

impl Measured {
    fn code(&self, history: &History, number: u64) -> Option<Vec<f64>> {
        let source = *self.sources.get(&history.replicates(number)[0])?;
        let features = features(history, source)?;
        // Later trials may lie outside the range, but no code is so far out that its distance overflows.
        let scaled =
            |(feature, (low, width)): (&f64, &(f64, f64))| ((feature / 2.0 - low) / width).clamp(-9.0, 9.0);
        (features.len() == self.scale.len()).then(|| features.iter().zip(&self.scale).map(scaled).collect())
    }
}

fn features(history: &History, number: u64) -> Option<&[f64]> {
    match &history.trial(number).outcome {
        Some(Outcome::Measured(measurement)) => measurement.features.as_deref(),
        _ => None,
    }
}

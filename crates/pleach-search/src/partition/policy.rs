//! How good a node is, and which child is visited next.

use crate::Merit;

/// What the scores of the points in a node amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Their mean.
    Mean,
    /// Their largest.
    Max,
    /// Their 0.8-quantile.
    Quantile,
}

/// The scores of the points in a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Scores {
    ascending: Vec<f64>,
    sum: f64,
}

impl Scores {
    pub(super) fn new(mut scores: Vec<f64>) -> Self {
        let sum = scores.iter().sum();
        scores.sort_unstable_by(f64::total_cmp);
        Self { ascending: scores, sum }
    }

    pub(super) fn len(&self) -> usize {
        self.ascending.len()
    }

    pub(super) fn insert(&mut self, score: f64) {
        self.sum += score;
        self.ascending.insert(self.ascending.partition_point(|&other| other < score), score);
    }

    /// Replaces a score that is there.
    pub(super) fn replace(&mut self, old: f64, new: f64) {
        self.ascending.remove(self.ascending.partition_point(|&other| other < old));
        self.sum -= old;
        self.insert(new);
    }

    /// From 0 to 1, larger is better; ½ for a node without points.
    pub(super) fn value(&self, value: Value) -> f64 {
        let n = self.len();
        match value {
            _ if n == 0 => 0.5,
            Value::Mean => self.sum / n as f64,
            Value::Max => self.ascending[n - 1],
            Value::Quantile => self.ascending[(n * 4 / 5).min(n - 1)],
        }
    }
}

/// Ranks of merits scaled to `[0, 1]`, so that no choice depends on the scale of the objective.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranks {
    /// Best first.
    merits: Vec<Merit>,
}

impl Ranks {
    pub(super) fn new(mut merits: Vec<Merit>) -> Self {
        merits.sort_unstable();
        Self { merits }
    }

    /// The share of the ranked points that are worse, with half of those that are equal; ½ if none
    /// is ranked.
    pub(super) fn score(&self, merit: Merit) -> f64 {
        let n = self.merits.len();
        if n == 0 {
            return 0.5;
        }
        let better = self.merits.partition_point(|other| *other < merit);
        let equal = self.merits[better..].partition_point(|other| *other == merit);
        1.0 - (better as f64 + 0.5 * equal as f64) / n as f64
    }
}

/// The upper confidence bound of a child: `value + 2 Cp √(2 ln n_parent / n)`.
///
/// Counts are of told and of pending trials, so that the next ask of a batch goes elsewhere once a
/// child has its share.
///
/// # Source
/// Kocsis and Szepesvári, *Bandit based Monte-Carlo planning*, ECML 2006, with the constant of
/// Wang et al., *`LaNAS`*, arXiv:1906.06832, Eq. 4. Values are ranks, so that one `Cp` fits all objectives.
pub(crate) fn ucb(value: f64, visits: usize, parent_visits: usize, cp: f64) -> f64 {
    let parent = (parent_visits.max(1) as f64).ln();
    value + 2.0 * cp * (2.0 * parent / visits.max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_ranks_whatever_the_scale() {
        let merits = [Merit::Feasible(-1e300), Merit::Feasible(0.0), Merit::Feasible(0.0), Merit::Failed];
        let ranks = Ranks::new(merits.to_vec());
        let scores: Vec<f64> = merits.iter().map(|merit| ranks.score(*merit)).collect();
        assert_eq!(scores, [0.875, 0.5, 0.5, 0.125]);
        let unseen = vec![ranks.score(Merit::Feasible(-f64::MAX)), Ranks::default().score(Merit::Failed)];
        assert_eq!(unseen, [1.0, 0.5]);
    }

    #[test]
    fn scores_that_come_one_by_one_have_the_values_of_all_at_once() {
        let all = [0.5, 0.25, 0.75, 0.25, 1.0];
        let mut grown = Scores::default();
        let mut values = vec![grown.value(Value::Mean)];
        for score in all {
            grown.insert(score);
            values.push(grown.value(Value::Max));
        }
        assert_eq!(values, [0.5, 0.5, 0.5, 0.75, 0.75, 1.0]);
        let whole = Scores::new(all.to_vec());
        for (value, want) in [(Value::Mean, 0.55), (Value::Max, 1.0), (Value::Quantile, 1.0)] {
            assert_eq!((grown.value(value), whole.value(value)), (want, want));
        }
        grown.replace(1.0, 0.0);
        assert_eq!((grown.value(Value::Max), grown.len()), (0.75, 5));
        assert!((grown.value(Value::Mean) - 0.35).abs() < 1e-15);
    }

    #[test]
    fn a_child_with_fewer_visits_has_the_larger_bonus() {
        assert!(ucb(0.5, 10, 100, 0.02) > ucb(0.5, 90, 100, 0.02));
        assert!((ucb(0.5, 0, 0, 1.0) - 0.5).abs() < 1e-15);
    }
}

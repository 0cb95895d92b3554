//! Which points of a node count as good.

use super::kernel::features;
use super::{Boundary, Family};
use crate::Merit;
use crate::layout::Layout;
use crate::linalg::{axpy, squared_distance};

/// How the points of a node are divided into good and bad ones, from which a boundary is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    /// Better than the median of the node.
    Median,
    /// In the better cluster of 2-means on (x, rank of y), with as much variance in the rank as in x
    /// (Wang, Fonseca, Tian, *LA-MCTS*, `NeurIPS` 2020, §3.2; there without scaling).
    TwoMeans,
    /// Predicted by ridge regression to be above the mean of the node (Wang et al., *`LaNAS`*,
    /// arXiv:1906.06832, §3.2).
    Ridge,
}

impl Label {
    /// True for good points; `None` if the points do not differ.
    ///
    /// # Shapes
    /// - `codes`: `[n, layout.len()]`
    /// - `ranks`: `[n]`, in `[0, 1]`, larger is better
    pub(super) fn good(self, layout: &Layout, codes: &[&[f64]], ranks: &[f64]) -> Option<Vec<bool>> {
        let good = match self {
            Label::Median => above_the_median(ranks),
            Label::TwoMeans => two_means(layout, codes, ranks)?,
            Label::Ridge => {
                let model = Boundary::fit(Family::Ridge, layout, codes, &[], ranks)?;
                codes.iter().map(|code| model.decision(layout, code) > 0.0).collect()
            }
        };
        (good.contains(&true) && good.contains(&false)).then_some(good)
    }
}

/// Ranks within a node from 0 for the worst to 1 for the best; equal merits share the mean of their ranks.
pub(crate) fn ranks(merits: &[Merit]) -> Vec<f64> {
    let n = merits.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(merits[i]));
    let mut ranks = vec![0.5; n];
    let mut start = 0;
    while start < n {
        let equal = order[start..].partition_point(|&i| merits[i] == merits[order[start]]);
        let rank = (2 * start + equal - 1) as f64 / (2 * (n - 1).max(1)) as f64;
        order[start..start + equal].iter().for_each(|&i| ranks[i] = rank);
        start += equal;
    }
    ranks
}

/// Half of the points, or as near to half as ties leave.
fn above_the_median(ranks: &[f64]) -> Vec<bool> {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    let median = sorted[n / 2];
    let below = sorted.partition_point(|&rank| rank < median);
    let up_to = sorted.partition_point(|&rank| rank <= median);
    // The ties go to the side that makes the halves more alike.
    let with_ties = up_to == n || below.abs_diff(n - below) <= up_to.abs_diff(n - up_to);
    ranks.iter().map(|&rank| if with_ties { rank >= median } else { rank > median }).collect()
}

/// Lloyd's algorithm from the best point and the one farthest from it.
fn two_means(layout: &Layout, codes: &[&[f64]], ranks: &[f64]) -> Option<Vec<bool>> {
    const STEPS: usize = 30;
    let n = codes.len();
    let mut rows: Vec<Vec<f64>> = codes.iter().map(|code| features(layout, code)).collect();
    let mean_of = |rows: &[Vec<f64>], which: &dyn Fn(usize) -> bool| {
        let chosen: Vec<&Vec<f64>> = (0..n).filter(|&i| which(i)).map(|i| &rows[i]).collect();
        let mut mean = vec![0.0; rows[0].len()];
        for row in &chosen {
            axpy(1.0 / chosen.len() as f64, row, &mut mean);
        }
        mean
    };
    let mean = mean_of(&rows, &|_| true);
    let spread: f64 = rows.iter().map(|row| squared_distance(row, &mean)).sum();
    let mean_rank = ranks.iter().sum::<f64>() / n as f64;
    let rank_spread: f64 = ranks.iter().map(|rank| (rank - mean_rank).powi(2)).sum();
    if rank_spread == 0.0 {
        return None;
    }
    let weight = if spread > 0.0 { (spread / rank_spread).sqrt() } else { 1.0 };
    rows.iter_mut().zip(ranks).for_each(|(row, rank)| row.push(weight * rank));

    let first = |score: &dyn Fn(usize) -> f64| {
        (0..n).max_by(|&a, &b| score(a).total_cmp(&score(b)).then(b.cmp(&a))).expect("a node has points")
    };
    let best = first(&|i| ranks[i]);
    let far = first(&|i| squared_distance(&rows[i], &rows[best]));
    let mut centres = [rows[best].clone(), rows[far].clone()];
    let mut near_first = Vec::new();
    for _ in 0..STEPS {
        let near: Vec<bool> = rows
            .iter()
            .map(|row| squared_distance(row, &centres[0]) < squared_distance(row, &centres[1]))
            .collect();
        if near == near_first || !near.contains(&true) || !near.contains(&false) {
            break;
        }
        centres = [mean_of(&rows, &|i| near[i]), mean_of(&rows, &|i| !near[i])];
        near_first = near;
    }
    // The rank is the last coordinate.
    let first_is_better = centres[0].last() > centres[1].last();
    (!near_first.is_empty()).then(|| near_first.iter().map(|&near| near == first_is_better).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parameter, Space};

    #[test]
    fn ranks_of_a_node_share_ties() {
        let feasible = [3.0, 1.0, 1.0, 2.0].map(Merit::Feasible);
        assert_eq!(ranks(&feasible), [0.0, 2.5 / 3.0, 2.5 / 3.0, 1.0 / 3.0]);
        assert_eq!(ranks(&[Merit::Failed; 5]), [0.5; 5]);
        assert_eq!(ranks(&[Merit::Failed]), [0.0]);
    }

    #[test]
    fn the_median_divides_as_evenly_as_ties_allow() {
        let check = |ranks: &[f64], good: &[u8]| {
            let layout = layout();
            let want = good.iter().map(|&good| good == 1).collect::<Vec<_>>();
            let codes = vec![&[0.5, 0.5][..]; ranks.len()];
            let got = Label::Median.good(&layout, &codes, ranks);
            assert_eq!(got, want.contains(&true).then_some(want), "{ranks:?}");
        };
        check(&[0.0, 0.4, 0.6, 1.0], &[0, 0, 1, 1]);
        check(&[0.0, 0.7, 0.7, 0.7], &[0, 1, 1, 1]);
        check(&[0.3, 0.3, 0.3, 1.0], &[0, 0, 0, 1]);
        check(&[0.5, 0.5, 0.5], &[0, 0, 0]);
    }

    fn layout() -> Layout {
        Layout::new(
            &Space::new(vec![Parameter::float("x", 0.0, 1.0), Parameter::float("y", 0.0, 1.0)], &[]).unwrap(),
        )
    }

    #[test]
    fn clusters_and_predictions_find_the_good_corner() {
        let layout = layout();
        let codes: Vec<Vec<f64>> =
            (0..36).map(|i| vec![f64::from(i % 6) / 5.0, f64::from(i / 6) / 5.0]).collect();
        let merits: Vec<Merit> = codes.iter().map(|code| Merit::Feasible(code[0])).collect();
        let codes: Vec<&[f64]> = codes.iter().map(Vec::as_slice).collect();
        for label in [Label::Median, Label::TwoMeans, Label::Ridge] {
            let good = label.good(&layout, &codes, &ranks(&merits)).unwrap();
            assert!(codes.iter().zip(&good).all(|(code, &good)| good == (code[0] < 0.5)), "{label:?}");
            assert_eq!(label.good(&layout, &codes, &[0.5; 36]), None, "{label:?}");
        }
    }
}

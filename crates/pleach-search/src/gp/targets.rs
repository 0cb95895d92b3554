//! What a Gaussian process is told of outcomes: losses made fit for a normal model.

use crate::Merit;
use crate::normal::quantile;

/// Losses that order points as their merits do: from 0 (the best feasible loss) to 1 (the worst), then
/// what breaks a limit, by its violation, then what is infeasible, then what failed.
///
/// Without a feasible point, those that break a limit take the place of the feasible.
pub(crate) fn losses(merits: &[Merit]) -> Vec<f64> {
    let feasible: Vec<f64> = merits.iter().filter_map(|merit| merit.loss()).collect();
    let violation = |merit: &Merit| if let Merit::Violating(v) = merit { Some(*v) } else { None };
    let violations: Vec<f64> = merits.iter().filter_map(violation).collect();
    let (loss_range, violation_range) = (Range::of(&feasible), Range::of(&violations));
    let behind = if feasible.is_empty() { 0.0 } else { 1.25 };
    let place = |merit: &Merit| match *merit {
        Merit::Feasible(loss) => loss_range.share(loss),
        Merit::Violating(violation) => behind + 0.5 * violation_range.share(violation),
        Merit::Infeasible => 2.0,
        Merit::Failed | Merit::Withdrawn => 2.25,
    };
    merits.iter().map(place).collect()
}

/// The least and the largest of some finite numbers.
#[derive(Clone, Copy, Debug)]
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    fn of(values: &[f64]) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        Self { low, high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max) }
    }

    /// Where a value lies, from 0 to 1. Halves keep the largest numbers from overflowing.
    fn share(self, value: f64) -> f64 {
        let width = 0.5 * self.high - 0.5 * self.low;
        if width > 0.0 { ((0.5 * value - 0.5 * self.low) / width).min(1.0) } else { 0.0 }
    }
}

/// Values shifted and scaled to mean 0 and variance 1, with the scale: what a difference of 1 was.
///
/// Equal values become 0, of scale 1.
pub(crate) fn standardised(values: &[f64]) -> (Vec<f64>, f64) {
    let range = Range::of(values);
    let width = range.high - range.low;
    if !(width > 0.0 && width.is_finite()) {
        return (vec![0.0; values.len()], 1.0);
    }
    let n = values.len() as f64;
    let shares: Vec<f64> = values.iter().map(|&value| range.share(value)).collect();
    let mean = shares.iter().sum::<f64>() / n;
    let sd = (shares.iter().map(|u| (u - mean).powi(2)).sum::<f64>() / n).sqrt();
    (shares.iter().map(|u| (u - mean) / sd).collect(), width * sd)
}

/// `ln(1 + (y − min) / (q − min))`, where `q` is the `share`-quantile of the values: differences among
/// the best count for more.
pub(crate) fn log_warped(values: &[f64], share: f64) -> Vec<f64> {
    let range = Range::of(values);
    let mut shares: Vec<f64> = values.iter().map(|&value| range.share(value)).collect();
    let offset = quantile_of(&shares, share).max(1e-12);
    for u in &mut shares {
        *u = (*u / offset).ln_1p();
    }
    shares
}

/// The value that a `share` of the values is below (nearest rank).
pub(crate) fn quantile_of(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let index = (share * sorted.len() as f64) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// Normal scores: the quantiles of the normal distribution at the ranks; equal values share one.
pub(crate) fn normal_scores(values: &[f64]) -> Vec<f64> {
    let n = values.len() as f64;
    ranks(values).iter().map(|rank| quantile((rank + 0.5) / n)).collect()
}

/// The better half as it is, in units of its spread about the median; the worse half by normal scores.
///
/// # Source
/// The half-rank warping of Song et al., *The Vizier Gaussian Process Bandit Algorithm*,
/// arXiv:2408.11527, §3.2.
pub(crate) fn half_ranked(values: &[f64]) -> Vec<f64> {
    let range = Range::of(values);
    let shares: Vec<f64> = values.iter().map(|&value| range.share(value)).collect();
    let median = quantile_of(&shares, 0.5);
    let better = shares.iter().filter(|&&u| u <= median);
    let (sum, count) = better.fold((0.0, 0.0), |(sum, n), u| (sum + (u - median).powi(2), n + 1.0));
    let spread = if sum > 0.0 { (sum / count).sqrt() } else { 1.0 };
    let scores = normal_scores(&shares);
    let warp = |(u, score): (&f64, f64)| if *u <= median { (u - median) / spread } else { score.max(0.0) };
    shares.iter().zip(scores).map(warp).collect()
}

/// Ranks from 0 on; equal values have the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0.0;
    for group in order.chunk_by(|&a, &b| values[a].total_cmp(&values[b]).is_eq()) {
        let size = group.len() as f64;
        for &index in group {
            ranks[index] = before + 0.5 * (size - 1.0);
        }
        before += size;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_keep_the_order_of_merits_at_any_scale() {
        let merits = |scale: f64| {
            vec![
                Merit::Feasible(-scale),
                Merit::Feasible(0.0),
                Merit::Feasible(scale),
                Merit::Violating(0.5 * scale),
                Merit::Violating(scale),
                Merit::Infeasible,
                Merit::Failed,
            ]
        };
        for scale in [1e-300, 1.0, f64::MAX] {
            let all = losses(&merits(scale));
            assert!(all.is_sorted() && all.iter().all(|u| (0.0..=2.25).contains(u)), "{scale:e}: {all:?}");
            assert!(losses(&merits(scale)[3..]).is_sorted());
            for warped in
                [standardised(&all).0, log_warped(&all, 0.25), normal_scores(&all), half_ranked(&all)]
            {
                assert!(warped.is_sorted() && warped.iter().all(|y| y.is_finite()), "{scale:e}: {warped:?}");
            }
        }
        assert!(losses(&[]).is_empty() && half_ranked(&[]).is_empty());
        for constant in [standardised(&[3.0; 4]).0, log_warped(&[3.0; 4], 0.25), normal_scores(&[3.0; 4])] {
            assert!(constant.iter().all(|y| y.abs() < 1e-12), "{constant:?}");
        }
    }

    #[test]
    fn standard_values_have_mean_0_and_variance_1() {
        let (values, scale) = standardised(&[1.0, 2.0, 3.0, 6.0]);
        let (mean, variance) =
            (values.iter().sum::<f64>() / 4.0, values.iter().map(|y| y * y).sum::<f64>() / 4.0);
        assert!(mean.abs() < 1e-12 && (variance - 1.0).abs() < 1e-12);
        assert!(((values[3] - values[0]) * scale - 5.0).abs() < 1e-12);
    }

    #[test]
    fn equal_values_have_equal_scores() {
        assert_eq!(ranks(&[2.0, 1.0, 2.0, 5.0]), [1.5, 0.0, 1.5, 3.0]);
        let scores = normal_scores(&[2.0, 1.0, 2.0]);
        assert_eq!(scores[0].total_cmp(&scores[2]), std::cmp::Ordering::Equal);
    }
}

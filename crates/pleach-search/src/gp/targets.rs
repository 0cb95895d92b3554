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

/// Losses that may be told by a logarithm.
#[derive(Clone, Debug)]
pub(crate) struct Losses {
    /// From 0 (the best) to 1 (the worst).
    shares: Vec<f64>,
    middle: f64,
}

/// Losses told by a logarithm.
#[derive(Clone, Debug)]
pub(crate) struct Warped {
    /// Of mean 0 and variance 1.
    pub(crate) values: Vec<f64>,
    /// Their derivatives by the warp.
    pub(crate) slopes: Vec<f64>,
    /// The negative logarithm of the density of losses relative to that of the values, and its
    /// derivative by the warp.
    pub(crate) cost: f64,
    pub(crate) cost_slope: f64,
}

impl Losses {
    pub(crate) fn new(values: &[f64]) -> Self {
        let range = Range::of(values);
        let shares: Vec<f64> = values.iter().map(|&value| range.share(value)).collect();
        let middle = quantile_of(&shares, 0.5).max(1e-12);
        Self { shares, middle }
    }

    /// Some of them, told as if all were there.
    pub(crate) fn pick(&self, chosen: &[usize]) -> Self {
        Self { shares: chosen.iter().map(|&i| self.shares[i]).collect(), middle: self.middle }
    }

    pub(crate) fn len(&self) -> usize {
        self.shares.len()
    }

    /// The losses `u` as `ln(1 + u / (m e^t))`, standardised, where `m` is the median loss above the best
    /// and `t` the warp: for a large `t` as they are, for a small one by their logarithms.
    pub(crate) fn warped(&self, warp: f64) -> Warped {
        let n = self.shares.len() as f64;
        let offset = self.middle * warp.exp();
        let mut values: Vec<f64> = self.shares.iter().map(|u| (u / offset).ln_1p()).collect();
        let mut slopes: Vec<f64> = self.shares.iter().map(|u| -u / (offset + u)).collect();
        let mean = values.iter().sum::<f64>() / n;
        let sd = (values.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / n).sqrt();
        if sd.is_nan() || sd <= 0.0 {
            let zeros = vec![0.0; self.shares.len()];
            return Warped { values: zeros.clone(), slopes: zeros, cost: 0.0, cost_slope: 0.0 };
        }
        let mean_slope = slopes.iter().sum::<f64>() / n;
        for (z, slope) in values.iter_mut().zip(&mut slopes) {
            (*z, *slope) = ((*z - mean) / sd, (*slope - mean_slope) / sd);
        }
        let sd_slope = values.iter().zip(&slopes).map(|(z, slope)| z * slope).sum::<f64>() / n;
        for (z, slope) in values.iter().zip(&mut slopes) {
            *slope -= z * sd_slope;
        }
        let cost = self.shares.iter().map(|u| (offset + u).ln()).sum::<f64>() + n * sd.ln();
        let cost_slope = self.shares.iter().map(|u| offset / (offset + u)).sum::<f64>() + n * sd_slope;
        Warped { values, slopes, cost, cost_slope }
    }
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
            for warped in [
                standardised(&all).0,
                Losses::new(&all).warped(0.0).values,
                normal_scores(&all),
                half_ranked(&all),
            ] {
                assert!(warped.is_sorted() && warped.iter().all(|y| y.is_finite()), "{scale:e}: {warped:?}");
            }
        }
        assert!(losses(&[]).is_empty() && half_ranked(&[]).is_empty());
        for constant in
            [standardised(&[3.0; 4]).0, Losses::new(&[3.0; 4]).warped(0.0).values, normal_scores(&[3.0; 4])]
        {
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
    fn slopes_of_warped_losses_are_those_of_differences() {
        let losses = Losses::new(&[3.0, 1.0, 1.5, 9.0, 2.0, 100.0]);
        for warp in [-3.0, 0.0, 2.5] {
            let (at, above, below) =
                (losses.warped(warp), losses.warped(warp + 1e-5), losses.warped(warp - 1e-5));
            let close = |got: f64, up: f64, down: f64| {
                let want = (up - down) / 2e-5;
                assert!((got - want).abs() < 1e-7 * (1.0 + want.abs()), "{warp}: {got} against {want}");
            };
            close(at.cost_slope, above.cost, below.cost);
            for i in 0..6 {
                close(at.slopes[i], above.values[i], below.values[i]);
            }
            assert!((at.values.iter().map(|z| z * z).sum::<f64>() / 6.0 - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn equal_values_have_equal_scores() {
        assert_eq!(ranks(&[2.0, 1.0, 2.0, 5.0]), [1.5, 0.0, 1.5, 3.0]);
        let scores = normal_scores(&[2.0, 1.0, 2.0]);
        assert_eq!(scores[0].total_cmp(&scores[2]), std::cmp::Ordering::Equal);
    }
}

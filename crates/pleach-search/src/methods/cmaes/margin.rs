//! The margin of discrete coordinates.

use super::strategy::Strategy;
use crate::{Domain, Space};

/// Keeps every neighbouring cell of a discrete coordinate within reach, however far the
/// distribution has shrunk.
///
/// Let `δ` be the distance from the mean to the farther of the two edges of its cell beyond which
/// there is another cell. The standard deviation of the coordinate is stretched to at least `δ / q`
/// with `Φ(-q) ≥ α = 1 / (λ n)`, so each neighbouring cell is drawn with probability `α` or more.
///
/// # Source
/// Hamano, Saito, Nomura, Shirakawa, *CMA-ES with Margin*, GECCO 2022, arXiv:2205.13482.
/// Deviation: the mean stays where it is, and the stretched distribution is also the one that
/// learns, so the diagonal follows from the mean alone and need not be stored.
#[derive(Clone, Debug)]
pub(super) struct Margin {
    space: Space,
    /// The discrete coordinates with more than one cell.
    cells: Vec<usize>,
    /// Keys of permutations, with the distance between two ranks.
    keys: Vec<(usize, f64)>,
}

impl Margin {
    pub(super) fn new(space: &Space) -> Self {
        let (mut cells, mut keys, mut coordinate) = (Vec::new(), Vec::new(), 0);
        for parameter in space.parameters() {
            if let Domain::Permutation { n } = parameter.domain {
                keys.extend((coordinate..coordinate + n as usize).map(|i| (i, 1.0 / f64::from(n))));
                coordinate += n as usize;
            } else {
                cells.extend(
                    space.unit_cells(coordinate).is_some_and(|count| count > 1).then_some(coordinate),
                );
                coordinate += 1;
            }
        }
        Self { space: space.clone(), cells, keys }
    }

    /// The factors by which the deviations of the strategy are to be stretched, each at least 1.
    pub(super) fn stretch(&self, strategy: &Strategy) -> Vec<f64> {
        let n = strategy.mean.len();
        let q = reach(1.0 / (strategy.population() * n) as f64);
        let mut stretch = vec![1.0; n];
        let cells = self.cells.iter().map(|&i| {
            let mean = strategy.mean[i];
            let (low, high) = self.space.unit_cell(i, mean);
            let below = if low > 0.0 { mean - low } else { 0.0 };
            let above = if high < 1.0 { high - mean } else { 0.0 };
            (i, below.max(above))
        });
        for (i, distance) in cells.chain(self.keys.iter().copied()) {
            stretch[i] = (distance / q / strategy.deviation(i)).max(1.0);
        }
        stretch
    }
}

/// A `q` with `Φ(-q) ≥ α` for `α` of at most ½: the leading terms of the expansion of the normal quantile.
fn reach(alpha: f64) -> f64 {
    let square = 2.0 * (1.0 / alpha).ln();
    (square - (std::f64::consts::TAU * square).ln()).max(0.09).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_reached_with_the_promised_probability() {
        // scipy 1.17: scipy.stats.norm.isf([0.25, 0.1, 0.025, 0.01, 1e-3, 1e-4, 1e-6])
        let quantiles = [
            (0.25, 0.674_489_750),
            (0.1, 1.281_551_566),
            (0.025, 1.959_963_985),
            (0.01, 2.326_347_874),
            (1e-3, 3.090_232_306),
            (1e-4, 3.719_016_485),
            (1e-6, 4.753_424_309),
        ];
        for (alpha, quantile) in quantiles {
            let q = reach(alpha);
            assert!(q <= quantile && q > 0.4 * quantile, "alpha {alpha}: {q} against {quantile}");
        }
    }
}

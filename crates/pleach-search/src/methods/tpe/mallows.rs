//! The Mallows model of permutations: `p(π) ∝ q^d(π, centre)`, with the number of pairs in different
//! order (Kendall's distance) for `d`.
//!
//! # Source
//! Mallows, *Non-null ranking models*, Biometrika 44, 1957; the draws are repeated insertions
//! (Doignon, Pekeč, Regenwetter, Psychometrika 69, 2004).

use crate::Rng;

/// The `q` of one of `n` kernels over orders of `len` elements, about `1 / n` but so that another order
/// than the centre remains likely; 1, the uniform distribution, for the prior.
pub(super) fn dispersion(len: usize, n: Option<usize>) -> f64 {
    n.map_or(1.0, |n| 1.0 / (1.0 + n.min(len) as f64))
}

/// `ln` of the normalising constant, `−Σ ln((1 − q^i) / (1 − q))` over `i = 1…len`.
pub(super) fn ln_norm(len: usize, q: f64) -> f64 {
    let (mut power, mut series, mut ln) = (1.0, 0.0_f64, 0.0);
    for _ in 0..len {
        series += power;
        power *= q;
        ln -= series.ln();
    }
    ln
}

/// The number of pairs of elements whose order differs between two lists of ranks.
pub(super) fn exchanged_pairs(a: &[f64], b: &[f64]) -> u64 {
    let mut by_a: Vec<usize> = (0..a.len()).collect();
    by_a.sort_unstable_by(|&i, &j| a[i].total_cmp(&a[j]));
    let mut ranks: Vec<f64> = by_a.into_iter().map(|element| b[element]).collect();
    let mut spare = ranks.clone();
    inversions(&mut ranks, &mut spare)
}

/// Sorts by merging, and counts the pairs that were in the wrong order.
fn inversions(items: &mut [f64], spare: &mut [f64]) -> u64 {
    if items.len() < 2 {
        return 0;
    }
    let half = items.len() / 2;
    let (left, right) = items.split_at_mut(half);
    let (spare_left, spare_right) = spare.split_at_mut(half);
    let mut count = inversions(left, spare_left) + inversions(right, spare_right);
    let (mut i, mut j) = (0, 0);
    for place in spare.iter_mut() {
        if j == right.len() || (i < left.len() && left[i] <= right[j]) {
            *place = left[i];
            i += 1;
        } else {
            *place = right[j];
            j += 1;
            count += (left.len() - i) as u64;
        }
    }
    items.copy_from_slice(spare);
    count
}

/// A draw, as coordinates of the elements in the unit cube; `centre` is given likewise.
pub(super) fn draw(centre: &[f64], q: f64, rng: &mut Rng) -> Vec<f64> {
    let mut elements: Vec<usize> = (0..centre.len()).collect();
    elements.sort_unstable_by(|&i, &j| centre[i].total_cmp(&centre[j]));
    let mut order: Vec<usize> = Vec::with_capacity(centre.len());
    for element in elements {
        // Each step back from the end exchanges one more pair, so it is q times as likely.
        let mut back = 0;
        let mut left = rng.unit() * (0..=order.len()).fold(0.0, |sum, _| sum * q + 1.0);
        let mut weight = 1.0;
        while back < order.len() && left >= weight {
            left -= weight;
            weight *= q;
            back += 1;
        }
        order.insert(order.len() - back, element);
    }
    let mut ranks = vec![0.0; centre.len()];
    for (rank, element) in order.iter().enumerate() {
        ranks[*element] = (rank as f64 + 0.5) / order.len() as f64;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    #[test]
    fn draws_have_the_stated_probabilities() {
        // 24,000 draws over 24 orders: the largest of the z-scores is above 5 with probability 1e-5.
        let centre = [0.625, 0.125, 0.875, 0.375];
        let mut counts = std::collections::BTreeMap::new();
        let mut rng = Seed::new(4).rng(0);
        let (n, q) = (24_000, 0.6);
        for _ in 0..n {
            let ranks = draw(&centre, q, &mut rng);
            let distance = exchanged_pairs(&centre, &ranks);
            counts.entry(ranks.iter().map(|u| u.to_bits()).collect::<Vec<_>>()).or_insert((0, distance)).0 +=
                1;
        }
        assert_eq!(counts.len(), 24);
        let mut total = 0.0;
        for (count, distance) in counts.values() {
            let p = (*distance as f64 * f64::ln(q) + ln_norm(4, q)).exp();
            total += p;
            let z = (f64::from(*count) - f64::from(n) * p) / (f64::from(n) * p * (1.0 - p)).sqrt();
            assert!(z.abs() < 5.0, "{count} of {n} at distance {distance}");
        }
        assert!((total - 1.0).abs() < 1e-12, "{total}");
    }

    #[test]
    fn inversions_equal_a_count_of_pairs() {
        let mut rng = Seed::new(5).rng(0);
        for len in 1..20 {
            let mut draw = || (0..len).map(|_| rng.unit()).collect::<Vec<_>>();
            let (a, b) = (draw(), draw());
            let pairs = (0..len).flat_map(|i| (0..i).map(move |j| (i, j)));
            let count = pairs.filter(|&(i, j)| (a[i] < a[j]) != (b[i] < b[j])).count();
            assert_eq!(exchanged_pairs(&a, &b), count as u64);
        }
    }
}

//! The few statistics that summaries use.

/// The `q`-quantile by linear interpolation; NaN of nothing.
pub(super) fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let position = q * last as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position in the slice")]
    let below = (position.floor() as usize).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (position - below as f64) * (sorted[above] - sorted[below])
}

/// The median; NaN of nothing.
pub(super) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The probability that a chi-squared variable with `freedom` degrees of freedom exceeds `x`: the
/// regularised upper incomplete gamma function at half of both (Abramowitz and Stegun 6.5.29, 6.5.31).
pub(super) fn chi_squared_tail(x: f64, freedom: f64) -> f64 {
    let (a, x) = (0.5 * freedom, 0.5 * x);
    if x <= 0.0 {
        return 1.0;
    }
    let scale = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > 1e-15 * sum {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return (1.0 - scale * sum).max(0.0);
    }
    // The continued fraction, from its far end.
    let fraction =
        (1..2000).rev().map(f64::from).fold(0.0, |rest, k| k * (k - a) / (x + 2.0 * k + 1.0 - a - rest));
    scale / (x + 1.0 - a - fraction)
}

/// The logarithm of the gamma function for positive arguments, by Stirling's series.
fn ln_gamma(x: f64) -> f64 {
    let (mut shift, mut z) = (0.0, x);
    while z < 12.0 {
        shift += z.ln();
        z += 1.0;
    }
    let series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * z * z)) / (z * z)) / z;
    (z - 0.5) * z.ln() - z + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "these are exact")]
    fn quantiles_interpolate() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(quantile(&[1.0, 2.0], 1.0), 2.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn tails_of_chi_squared_are_those_of_scipy() {
        // scipy 1.17: scipy.stats.chi2.sf(x, freedom)
        for (x, freedom, want) in [
            (3.841_458_820_694_124, 1.0, 0.05),
            (0.5, 2.0, 0.778_800_783_071_404_9),
            (124.342_113_403_999_7, 100.0, 0.050_000_000_000_027_59),
            (1143.0, 1000.0, 0.001_065_036_340_170_278),
            (40.0, 10.0, 1.694_474_393_006_737e-5),
        ] {
            let got = chi_squared_tail(x, freedom);
            assert!((got / want - 1.0).abs() < 1e-6, "{got} {want}");
        }
    }
}

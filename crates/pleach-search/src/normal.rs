//! The standard normal distribution, to full precision in both tails.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI, SQRT_2};

/// `ln √(2π)`.
const LN_SQRT_TAU: f64 = 0.918_938_533_204_672_8;

/// `exp(x²) erfc(x)` for `x ≥ 0.46875`.
///
/// # Source
/// Cody, *Rational Chebyshev Approximations for the Error Function*, Math. Comp. 23 (1969), with the
/// coefficients of his routine CALERF.
fn scaled_erfc(x: f64) -> f64 {
    const C: [f64; 9] = [
        2.153_115_354_744_038_3e-8,
        5.641_884_969_886_701e-1,
        8.883_149_794_388_377,
        6.611_919_063_714_163e1,
        2.986_351_381_974_001e2,
        8.819_522_212_417_69e2,
        1.712_047_612_634_070_7e3,
        2.051_078_377_826_071_6e3,
        1.230_339_354_797_997_2e3,
    ];
    const D: [f64; 9] = [
        1.0,
        1.574_492_611_070_983_5e1,
        1.176_939_508_913_125e2,
        5.371_811_018_620_099e2,
        1.621_389_574_566_690_3e3,
        3.290_799_235_733_459_7e3,
        4.362_619_090_143_247e3,
        3.439_367_674_143_721_6e3,
        1.230_339_354_803_749_5e3,
    ];
    const P: [f64; 6] = [
        1.631_538_713_730_209_7e-2,
        3.053_266_349_612_323_6e-1,
        3.603_448_999_498_044_5e-1,
        1.257_817_261_112_292_6e-1,
        1.608_378_514_874_227_5e-2,
        6.587_491_615_298_378e-4,
    ];
    const Q: [f64; 6] = [
        1.0,
        2.568_520_192_289_822,
        1.872_952_849_923_467_3,
        5.279_051_029_514_285e-1,
        6.051_834_131_244_132e-2,
        2.335_204_976_268_691_8e-3,
    ];
    if x <= 4.0 {
        polynomial(&C, x) / polynomial(&D, x)
    } else {
        let t = 1.0 / (x * x);
        (1.0 / PI.sqrt() - t * polynomial(&P, t) / polynomial(&Q, t)) / x
    }
}

/// `erfc(x)`, the complement of the error function.
fn erfc(x: f64) -> f64 {
    const A: [f64; 5] = [
        1.857_777_061_846_031_5e-1,
        3.161_123_743_870_565_5,
        1.138_641_541_510_501_6e2,
        3.774_852_376_853_02e2,
        3.209_377_589_138_469_4e3,
    ];
    const B: [f64; 5] = [
        1.0,
        2.360_129_095_234_412_2e1,
        2.440_246_379_344_441_7e2,
        1.282_616_526_077_372_3e3,
        2.844_236_833_439_171e3,
    ];
    if x.abs() < 0.46875 {
        let t = x * x;
        return 1.0 - x * polynomial(&A, t) / polynomial(&B, t);
    }
    let tail = (-x * x).exp() * scaled_erfc(x.abs());
    if x < 0.0 { 2.0 - tail } else { tail }
}

/// Horner's scheme; the coefficient of the highest power first.
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

/// The density at `x`.
pub(crate) fn pdf(x: f64) -> f64 {
    (-0.5 * x * x - LN_SQRT_TAU).exp()
}

/// `Φ(x)`, the probability of a draw below `x`.
pub(crate) fn cdf(x: f64) -> f64 {
    0.5 * erfc(-x * FRAC_1_SQRT_2)
}

/// `Φ(b) − Φ(a)` for `a ≤ b`, as precise in the upper tail as in the lower.
pub(crate) fn mass(a: f64, b: f64) -> f64 {
    if a > 0.0 { cdf(-a) - cdf(-b) } else { cdf(b) - cdf(a) }
}

/// `ln Φ(x)`.
pub(crate) fn ln_cdf(x: f64) -> f64 {
    if x > -1.0 {
        (-0.5 * erfc(x * FRAC_1_SQRT_2)).ln_1p()
    } else {
        -0.5 * x * x + scaled_erfc(-x * FRAC_1_SQRT_2).ln() - LN_2
    }
}

/// `φ(x) / Φ(x)`, the derivative of [`ln_cdf`].
pub(crate) fn ln_cdf_slope(x: f64) -> f64 {
    if x > -1.0 { pdf(x) / cdf(x) } else { (2.0 / PI).sqrt() / scaled_erfc(-x * FRAC_1_SQRT_2) }
}

/// The value below which a draw lies with probability `p`, for `0 < p < 1`.
///
/// # Source
/// Acklam's rational approximation (relative error 1e-9), then one step of Halley's method.
pub(crate) fn quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    // The lower half is enough, and keeps small probabilities exact.
    if p > 0.5 {
        return -quantile(1.0 - p);
    }
    let x = if p < 0.02425 {
        let q = (-2.0 * p.ln()).sqrt();
        polynomial(&C, q) / polynomial(&D, q)
    } else {
        let q = p - 0.5;
        q * polynomial(&A, q * q) / polynomial(&B, q * q)
    };
    let error = (cdf(x) - p) / pdf(x);
    x - error / (1.0 + 0.5 * x * error)
}

/// `ln h(u)` and its derivative, where `h(u) = φ(u) + u Φ(u)` is the expected improvement of a
/// normal value whose mean is `u` standard deviations better than the best.
///
/// # Source
/// Ament et al., *Unexpected Improvements to Expected Improvement for Bayesian Optimization*,
/// `NeurIPS` 2023, Eq. 9. Deviation: the asymptotic series takes over at `u = −50`, so that the
/// derivative keeps its precision too.
pub(crate) fn ln_improvement(u: f64) -> (f64, f64) {
    if u > -1.0 {
        let h = pdf(u) + u * cdf(u);
        return (h.ln(), cdf(u) / h);
    }
    let t = 1.0 / (u * u);
    if u < -50.0 {
        // h = φ t (1 − 3t + 15t² − 105t³ + …), Φ = φ / |u| (1 − t + 3t² − 15t³ + …).
        let h = 1.0 + t * (-3.0 + t * (15.0 + t * (-105.0 + t * 945.0)));
        let tail = 1.0 + t * (-1.0 + t * (3.0 + t * (-15.0 + t * 105.0)));
        return (-0.5 * u * u - LN_SQRT_TAU + (t * h).ln(), -u * tail / h);
    }
    // Mills' ratio Φ/φ, so that h = φ (1 + u Φ/φ).
    let mills = (0.5 * PI).sqrt() * scaled_erfc(-u / SQRT_2);
    let h = 1.0 + u * mills;
    (-0.5 * u * u - LN_SQRT_TAU + h.ln(), mills / h)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, want: f64, rel: f64) {
        assert!((got - want).abs() <= rel * want.abs(), "{got:e}, expected {want:e}");
    }

    #[test]
    fn probabilities_equal_scipy() {
        // scipy 1.17.1: special.ndtr, special.log_ndtr
        for (x, want, ln_want) in [
            (-37.0, 5.725_571_222_523_926_6e-300, -689.030_585_576_890_8),
            (-8.5, 9.479_534_822_203_25e-18, -39.197_396_428_217_68),
            (-3.0, 0.001_349_898_031_630_093_3, -6.607_726_221_510_35),
            (-1.2, 0.115_069_670_221_708_22, -2.162_217_506_043_739_4),
            (-0.3, 0.382_088_577_811_047_4, -0.962_102_818_168_850_5),
            (0.0, 0.5, -LN_2),
            (0.7, 0.758_036_347_776_927, -0.277_023_942_277_131_3),
            (2.5, 0.993_790_334_674_223_8, -0.006_229_025_485_86),
            (6.0, 0.999_999_999_013_412_3, -9.865_876_455_243_72e-10),
        ] {
            // The exponential multiplies the rounding of x² by x².
            close(cdf(x), want, 1e-15 * (4.0 + x * x));
            close(ln_cdf(x), ln_want, 4e-15);
            close(ln_cdf_slope(x), pdf(x) / want, 1e-15 * (4.0 + x * x));
        }
        close(mass(5.0, 6.0), cdf(-5.0) - cdf(-6.0), 1e-14);
        close(mass(-1.0, 2.0), 0.818_594_614_120_36, 1e-13);
        let limits = (cdf(f64::NEG_INFINITY), cdf(f64::INFINITY), mass(1.0, 1.0));
        assert_eq!(limits, (0.0, 1.0, 0.0));
        close(ln_cdf(-300.0), -45_006.622_732_118_66, 1e-15);
        close(ln_cdf(-2e4), -200_000_010.822_426_1, 1e-15);
        close(ln_cdf_slope(-2e4), 2e4, 1e-8);
    }

    #[test]
    fn quantiles_equal_scipy() {
        // scipy 1.17.1: special.ndtri
        for (p, want) in [
            (1e-300, -37.047_096_299_361_2),
            (1e-10, -6.361_340_902_404_056),
            (0.01, -2.326_347_874_040_840_8),
            (0.3, -0.524_400_512_708_040_9),
            (0.7, 0.524_400_512_708_040_7),
            (0.999, 3.090_232_306_167_813),
        ] {
            close(quantile(p), want, 1e-14);
        }
        assert!(quantile(0.5).abs() < 1e-16);
    }

    #[test]
    fn improvements_equal_arithmetic_of_many_digits() {
        // mpmath 1.3 with 60 digits: ln(φ(u) + u Φ(u)) and Φ(u) / (φ(u) + u Φ(u)).
        for (u, want, slope) in [
            (-1e6, -500_000_000_028.55, 1_000_000.000_002),
            (-200.0, -20_011.515_648_259_739, 200.009_999_250_131_22),
            (-50.5, -1_283.889_059_950_725, 50.539_557_499_454_01),
            (-49.5, -1_233.849_106_492_973_5, 49.540_354_711_877_41),
            (-7.0, -29.368_107_183_141_277, 7.270_315_472_389_873),
            (-1.01, -2.504_199_857_480_257, 1.911_497_172_860_613_4),
            (-0.99, -2.466_114_391_669_049_3, 1.897_057_637_186_351),
            (0.0, -0.918_938_533_204_672_8, 1.253_314_137_315_500_3),
            (3.0, 1.098_739_665_327_707_7, 0.332_840_968_451_795_2),
            (20.0, 2.995_732_273_553_991, 0.05),
        ] {
            let (value, derivative) = ln_improvement(u);
            close(value, want, 1e-12);
            // The cancellation in 1 + u Φ/φ costs u² units in the last place.
            close(derivative, slope, 1e-11);
        }
    }
}

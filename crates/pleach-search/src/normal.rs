//! The standard normal distribution.

#![expect(clippy::excessive_precision, reason = "coefficients are given as printed")]

/// `Φ(z)`, with a relative error below 1e-12, in the lower tail too.
pub(crate) fn cdf(z: f64) -> f64 {
    let half = 0.5 * erfc(z.abs() * std::f64::consts::FRAC_1_SQRT_2);
    if z > 0.0 { 1.0 - half } else { half }
}

/// `Φ(b) − Φ(a)` for `a ≤ b`, as precise in the upper tail as in the lower.
pub(crate) fn mass(a: f64, b: f64) -> f64 {
    if a > 0.0 { cdf(-a) - cdf(-b) } else { cdf(b) - cdf(a) }
}

/// `2 / √π ∫ exp(−t²)` from `x ≥ 0` to infinity.
///
/// # Source
/// Cody, *Rational Chebyshev approximations for the error function*, Math. Comp. 23, 1969.
fn erfc(x: f64) -> f64 {
    let ratio = |y: f64, upper: &[f64], lower: &[f64]| {
        let horner = |coefficients: &[f64]| coefficients.iter().fold(0.0, |sum, c| sum * y + c);
        horner(upper) / horner(lower)
    };
    if x <= 0.468_75 {
        1.0 - x * ratio(x * x, &CENTRE.0, &CENTRE.1)
    } else if x <= 4.0 {
        (-x * x).exp() * ratio(x, &FLANK.0, &FLANK.1)
    } else {
        let y = 1.0 / (x * x);
        let rest = y * ratio(y, &TAIL.0, &TAIL.1);
        (-x * x).exp() * (1.0 / std::f64::consts::PI.sqrt() - rest) / x
    }
}

/// Numerators and denominators, highest power first.
const CENTRE: ([f64; 5], [f64; 5]) = (
    [
        1.857_777_061_846_031_53e-1,
        3.161_123_743_870_565_60,
        1.138_641_541_510_501_56e2,
        3.774_852_376_853_020_21e2,
        3.209_377_589_138_469_47e3,
    ],
    [
        1.0,
        2.360_129_095_234_412_09e1,
        2.440_246_379_344_441_73e2,
        1.282_616_526_077_372_28e3,
        2.844_236_833_439_170_62e3,
    ],
);
const FLANK: ([f64; 9], [f64; 9]) = (
    [
        2.153_115_354_744_038_46e-8,
        5.641_884_969_886_700_89e-1,
        8.883_149_794_388_375_94,
        6.611_919_063_714_162_95e1,
        2.986_351_381_974_001_31e2,
        8.819_522_212_417_690_90e2,
        1.712_047_612_634_070_58e3,
        2.051_078_377_826_071_47e3,
        1.230_339_354_797_997_25e3,
    ],
    [
        1.0,
        1.574_492_611_070_983_47e1,
        1.176_939_508_913_124_99e2,
        5.371_811_018_620_098_58e2,
        1.621_389_574_566_690_19e3,
        3.290_799_235_733_459_63e3,
        4.362_619_090_143_247_16e3,
        3.439_367_674_143_721_64e3,
        1.230_339_354_803_749_42e3,
    ],
);
const TAIL: ([f64; 6], [f64; 6]) = (
    [
        1.631_538_713_730_209_78e-2,
        3.053_266_349_612_323_44e-1,
        3.603_448_999_498_044_39e-1,
        1.257_817_261_112_292_46e-1,
        1.608_378_514_874_227_66e-2,
        6.587_491_615_298_378_03e-4,
    ],
    [
        1.0,
        2.568_520_192_289_822_42,
        1.872_952_849_923_467_25,
        5.279_051_029_514_284_12e-1,
        6.051_834_131_244_131_91e-2,
        2.335_204_976_268_691_85e-3,
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_equal_those_of_libm() {
        // Python 3.11: 0.5 * math.erfc(-z / math.sqrt(2)).
        for (z, want) in [
            (-37.0, 5.725_571_222_525_139e-300),
            (-8.0, 6.220_960_574_271_819e-16),
            (-5.7, 5.990_371_401_063_533e-9),
            (-3.0, 0.001_349_898_031_630_095_7),
            (-1.0, 0.158_655_253_931_457_07),
            (-0.5, 0.308_537_538_725_986_9),
            (0.0, 0.5),
            (0.3, 0.617_911_422_188_952_6),
            (0.7, 0.758_036_347_776_927),
            (2.0, 0.977_249_868_051_820_8),
            (6.0, 0.999_999_999_013_412_3),
        ] {
            assert!((cdf(z) / want - 1.0_f64).abs() < 1e-12, "{z}: {} against {want}", cdf(z));
        }
        assert!((mass(5.0, 6.0) / (cdf(-5.0) - cdf(-6.0)) - 1.0).abs() < 1e-14);
        assert!((mass(-1.0, 2.0) - 0.818_594_614_120_36).abs() < 1e-13);
        assert_eq!((cdf(f64::NEG_INFINITY), cdf(f64::INFINITY), mass(1.0, 1.0)), (0.0, 1.0, 0.0));
    }
}

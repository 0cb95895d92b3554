//! Functions beyond arithmetic: our own polynomials, with the same bits on every instruction set.
//!
//! The coefficients are least-maximum fits made by `tools/polynomials.py`. Errors are in units of
//! the last place of the exact result, as the test below measures them over all magnitudes. NaN
//! stays NaN, and infinities give the limits.

use crate::simd::Simd;

/// ln 2 in two parts; the first has so few digits that its products with exponents are exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

/// A polynomial, the constant coefficient first.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(s: S, x: S::V, coefficients: [f32; N]) -> S::V {
    let mut sum = s.splat(coefficients[N - 1]);
    for i in (0..N - 1).rev() {
        sum = s.fma(sum, x, s.splat(coefficients[i]));
    }
    sum
}

#[inline(always)]
fn negate<S: Simd>(s: S, x: S::V) -> S::V {
    s.sub(s.splat(0.0), x)
}

#[inline(always)]
fn absolute<S: Simd>(s: S, x: S::V) -> S::V {
    s.max(x, negate(s, x))
}

/// `e^x`, at most 1.1 units off; too large gives infinity, too small 0, by way of subnormals.
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::V) -> S::V {
    // Beyond these bounds nothing changes any more. `x` comes second, so that NaN passes.
    let x = s.min(s.splat(89.0), s.max(s.splat(-104.0), x));
    let n = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let r = s.fma(n, s.splat(-LN_2[1]), s.fma(n, s.splat(-LN_2[0]), x));
    let p = polynomial(s, r, [0.5, 1.666_651_8e-1, 4.166_620_6e-2, 8.368_954e-3, 1.395_060_2e-3]);
    let e = s.add(s.fma(p, s.mul(r, r), r), s.splat(1.0));
    // In two steps, since 2^n may be beyond what a float holds while the result is not.
    let half = s.round(s.mul(n, s.splat(0.5)));
    s.mul(s.mul(e, s.exp2_whole(half)), s.exp2_whole(s.sub(n, half)))
}

/// The natural logarithm, at most 0.8 units off; −∞ for 0, NaN below.
#[inline(always)]
pub(crate) fn ln<S: Simd>(s: S, x: S::V) -> S::V {
    const SCALE: f32 = 8_388_608.0; // 2^23
    let (zero, one, infinity) = (s.splat(0.0), s.splat(1.0), s.splat(f32::INFINITY));
    let subnormal = s.lt(x, s.splat(f32::MIN_POSITIVE));
    let (e, m) = s.split(s.select(subnormal, s.mul(x, s.splat(SCALE)), x));
    let e = s.select(subnormal, s.sub(e, s.splat(23.0)), e);
    // With m in √½…√2 the argument of the polynomial is small on both sides.
    let upper = s.lt(s.splat(std::f32::consts::SQRT_2), m);
    let e = s.select(upper, s.add(e, one), e);
    let f = s.sub(s.select(upper, s.mul(m, s.splat(0.5)), m), one);
    let p = polynomial(
        s,
        f,
        [
            3.333_331_6e-1,
            -2.500_081e-1,
            2.000_228_6e-1,
            -1.662_455_4e-1,
            1.418_119e-1,
            -1.312_875_4e-1,
            1.288_165_6e-1,
            -7.859_620_5e-2,
        ],
    );
    let square = s.mul(f, f);
    let rest = s.fma(s.mul(square, f), p, s.mul(e, s.splat(LN_2[1])));
    let sum = s.add(f, s.fma(square, s.splat(-0.5), rest));
    let result = s.fma(e, s.splat(LN_2[0]), sum);
    let result = s.select(s.eq(x, infinity), infinity, result);
    let at_most_zero = s.select(s.eq(x, zero), s.splat(f32::NEG_INFINITY), s.splat(f32::NAN));
    s.select(s.lt(zero, x), result, at_most_zero)
}

/// `1 / (1 + e^−x)`, at most 2.2 units off.
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(s: S, x: S::V) -> S::V {
    let one = s.splat(1.0);
    let t = exp(s, negate(s, absolute(s, x)));
    s.div(s.select(s.lt(x, s.splat(0.0)), t, one), s.add(one, t))
}

/// The hyperbolic tangent, at most 1.3 units off.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(s: S, x: S::V) -> S::V {
    let z = s.mul(x, x);
    let p =
        polynomial(s, z, [-3.333_328_4e-1, 1.333_149_1e-1, -5.374_349_7e-2, 2.065_058_6e-2, -5.717_043_3e-3]);
    let small = s.fma(s.mul(x, z), p, x);
    let size = absolute(s, x);
    let e = exp(s, s.add(size, size));
    let large = s.sub(s.splat(1.0), s.div(s.splat(2.0), s.add(e, s.splat(1.0))));
    let large = s.select(s.lt(x, s.splat(0.0)), negate(s, large), large);
    s.select(s.lt(size, s.splat(0.625)), small, large)
}

/// The error function, at most 1.2 units off.
#[inline(always)]
pub(crate) fn erf<S: Simd>(s: S, x: S::V) -> S::V {
    let z = s.mul(x, x);
    let p = polynomial(
        s,
        z,
        [
            1.283_791_7e-1,
            -3.761_262_6e-1,
            1.128_36e-1,
            -2.685_444_4e-2,
            5.189_535_7e-3,
            -8.020_842e-4,
            7.889_123e-5,
        ],
    );
    let small = s.fma(x, p, x);
    // From 4 on the result is 1; the size comes second, so that NaN passes.
    let size = absolute(s, x);
    let log = polynomial(
        s,
        s.min(s.splat(4.0), size),
        [
            1.880_366_9e-4,
            -1.129_578_4,
            -6.332_199e-1,
            -1.084_185_5e-1,
            2.520_823_9e-2,
            -4.204_556e-3,
            4.413_352e-4,
            -2.168_675_4e-5,
        ],
    );
    let large = s.sub(s.splat(1.0), exp(s, log));
    let large = s.select(s.lt(x, s.splat(0.0)), negate(s, large), large);
    s.select(s.lt(size, s.splat(1.0)), small, large)
}

/// The error function in `f64`, for definitions: `2/√π e^−x² Σ 2ⁿ x²ⁿ⁺¹ / (1·3·…·(2n+1))`, whose
/// terms all have one sign.
pub(crate) fn erf_f64(x: f64) -> f64 {
    if x.is_nan() || x.abs() > 6.0 {
        return if x.is_nan() { x } else { x.signum() };
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > 1e-17 * sum.abs() {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::simd::{Body, LANES};

    #[derive(Clone, Copy, Debug)]
    enum Function {
        Exp,
        Ln,
        Sigmoid,
        Tanh,
        Erf,
    }

    struct All<'a> {
        function: Function,
        x: &'a [f32],
        y: &'a mut [f32],
    }

    impl Body for All<'_> {
        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            for (x, y) in self.x.chunks_exact(LANES).zip(self.y.chunks_exact_mut(LANES)) {
                // SAFETY: both chunks have 16 floats.
                #[expect(unsafe_code, reason = "vectors are loaded by pointers")]
                unsafe {
                    let x = s.load(x.as_ptr());
                    let value = match self.function {
                        Function::Exp => exp(s, x),
                        Function::Ln => ln(s, x),
                        Function::Sigmoid => sigmoid(s, x),
                        Function::Tanh => tanh(s, x),
                        Function::Erf => erf(s, x),
                    };
                    s.store(y.as_mut_ptr(), value);
                }
            }
        }
    }

    fn values(isa: Isa, function: Function, x: &[f32]) -> Vec<f32> {
        let mut y = vec![0.0; x.len()];
        isa.run(All { function, x, y: &mut y });
        y
    }

    fn exact(function: Function, x: f64) -> f64 {
        match function {
            Function::Exp => x.exp(),
            Function::Ln => x.ln(),
            // Of the smaller side, so that nothing cancels.
            Function::Sigmoid if x < 0.0 => x.exp() / (1.0 + x.exp()),
            Function::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Function::Tanh => x.tanh(),
            Function::Erf => erf_f64(x),
        }
    }

    /// The distance to the exact value in units of its last place as a float.
    fn units(got: f32, want: f64) -> f64 {
        #[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
        let rounded = want as f32;
        if rounded.to_bits() == got.to_bits() && !rounded.is_finite() || rounded.is_nan() && got.is_nan() {
            return 0.0;
        }
        (f64::from(got) - want).abs() / unit(want)
    }

    fn unit(want: f64) -> f64 {
        want.abs().log2().floor().clamp(-126.0, 127.0).exp2() * f64::from(f32::EPSILON)
    }

    /// All magnitudes and signs, and densely what lies around one.
    fn sweep() -> Vec<f32> {
        let mut x: Vec<f32> = (0..=u32::MAX / 4099).map(|i| f32::from_bits(i * 4099)).collect();
        x.extend((-400_000..400_000).map(|i: i32| i as f32 * 2.617e-4));
        x.extend([0.0, -0.0, 1.0, f32::MIN_POSITIVE, f32::MAX, f32::MIN]);
        x.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
        x.resize(x.len().next_multiple_of(LANES), 0.5);
        x
    }

    #[test]
    fn errors_are_as_stated() {
        let x = sweep();
        for (function, bound) in [
            (Function::Exp, 1.1),
            (Function::Ln, 0.8),
            (Function::Sigmoid, 2.2),
            (Function::Tanh, 1.3),
            (Function::Erf, 1.2),
        ] {
            let y = values(Isa::best(), function, &x);
            let worst = x
                .iter()
                .zip(&y)
                .map(|(&x, &y)| (units(y, exact(function, f64::from(x))), x))
                .max_by(|a, b| a.0.total_cmp(&b.0))
                .unwrap();
            assert!(worst.0 <= bound, "{function:?}: {} units off at {}", worst.0, worst.1);
        }
    }

    #[test]
    fn every_set_gives_the_same_bits() {
        let x = sweep();
        for function in [Function::Exp, Function::Ln, Function::Sigmoid, Function::Tanh, Function::Erf] {
            let want = values(Isa::Scalar, function, &x);
            for isa in Isa::available() {
                let got = values(isa, function, &x);
                let differ = x.iter().zip(&got).zip(&want).find(|((_, got), want)| {
                    got.to_bits() != want.to_bits() && !(got.is_nan() && want.is_nan())
                });
                assert_eq!(differ, None, "{function:?} on {isa}");
            }
        }
    }

    #[test]
    fn limits_and_nan() {
        let mut x = [f32::NAN; LANES];
        x[..3].copy_from_slice(&[f32::INFINITY, f32::NEG_INFINITY, 0.0]);
        for (function, limits) in [
            (Function::Exp, [f32::INFINITY, 0.0, 1.0]),
            (Function::Ln, [f32::INFINITY, f32::NAN, f32::NEG_INFINITY]),
            (Function::Sigmoid, [1.0, 0.0, 0.5]),
            (Function::Tanh, [1.0, -1.0, 0.0]),
            (Function::Erf, [1.0, -1.0, 0.0]),
        ] {
            let y = values(Isa::best(), function, &x);
            for (got, want) in y.iter().zip(limits) {
                assert!(
                    got.total_cmp(&want).is_eq() || got.is_nan() && want.is_nan(),
                    "{function:?}: {got} for {want}"
                );
            }
            assert!(y[3..].iter().all(|y| y.is_nan()), "{function:?} hides NaN");
        }
        let y = values(Isa::best(), Function::Exp, &[88.8, -103.9, -104.5, -87.5].repeat(4));
        assert_eq!((y[0], y[2]), (f32::INFINITY, 0.0));
        assert!(y[1] > 0.0 && y[1] < f32::MIN_POSITIVE && y[3] > 0.0 && y[3] < f32::MIN_POSITIVE);
    }
}

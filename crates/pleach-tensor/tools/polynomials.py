"""Fits the polynomials of src/math.rs: least largest weighted error, by Lawson's algorithm.

Prints the coefficients, the constant one first, and the largest weighted error before rounding to
float32. Needs numpy and mpmath.
"""

import mpmath
import numpy as np

mpmath.mp.dps = 40


def fit(name, low, high, degree, f, weight):
    """p with the least largest |weight(x) (p(x) - f(x))| for x in low..high."""
    angles = np.linspace(0, np.pi, 3001)
    x = (low + high) / 2 - (high - low) / 2 * np.cos(angles)
    want = np.array([float(f(mpmath.mpf(v))) for v in x])
    scale = np.array([float(weight(mpmath.mpf(v))) for v in x])
    # A basis of Chebyshev polynomials, so that the systems are well conditioned.
    unit = (2 * x - low - high) / (high - low)
    basis = np.polynomial.chebyshev.chebvander(unit, degree)
    share = np.ones_like(x) / len(x)
    for _ in range(400):
        root = np.sqrt(share) * scale
        solution = np.linalg.lstsq(basis * root[:, None], want * root, rcond=None)[0]
        error = np.abs(scale * (basis @ solution - want))
        share = share * error
        share /= share.sum()
    series = np.polynomial.Chebyshev(solution, domain=[low, high])
    coefficients = series.convert(kind=np.polynomial.Polynomial).coef
    print(name, f"error {error.max():.1e}")
    print("   ", ", ".join(f"{np.float32(c):.9e}" for c in coefficients))


half = float(mpmath.log(2) / 2)
# exp(x) = 1 + x + x² p(x)
fit("exp", -half * 1.001, half * 1.001, 4,
    lambda x: (mpmath.expm1(x) - x) / x**2 if x else mpmath.mpf(1) / 2, lambda x: x**2)
# ln(1 + x) = x - x²/2 + x³ p(x)
fit("ln", float(mpmath.sqrt(0.5) - 1), float(mpmath.sqrt(2) - 1), 7,
    lambda x: (mpmath.log1p(x) - x + x**2 / 2) / x**3 if abs(x) > 1e-9 else mpmath.mpf(1) / 3,
    lambda x: x**2)
# tanh(x) = x + x z p(z) with z = x²
fit("tanh", 0.0, 0.625**2, 4,
    lambda z: (mpmath.tanh(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z if z > 1e-12 else -mpmath.mpf(1) / 3,
    lambda z: z)
# erf(x) = x + x p(z) with z = x²
fit("erf, small", 0.0, 1.0, 6,
    lambda z: mpmath.erf(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1 if z > 1e-20 else 2 / mpmath.sqrt(mpmath.pi) - 1,
    lambda z: 1)
# erf(x) = 1 - exp(p(x))
fit("erf, large", 1.0, 4.0, 7, lambda x: mpmath.log(mpmath.erfc(x)), lambda x: mpmath.erfc(x))

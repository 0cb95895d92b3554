//! The support vector machine: sequential minimal optimisation of its dual.

/// The bound on the multipliers.
pub(super) const C: f64 = 10.0;
/// The largest violation of the optimality conditions that is left.
const TOLERANCE: f64 = 1e-3;
/// Curvature of a direction in which the kernel has none.
const TAU: f64 = 1e-12;

/// A solution of the dual: `f(x) = Σ αᵢ yᵢ k(xᵢ, x) + offset`.
#[derive(Clone, Debug)]
pub(super) struct Solution {
    /// `αᵢ yᵢ` of every point; zero for those that are no support vectors.
    pub(super) coefficients: Vec<f64>,
    pub(super) offset: f64,
}

/// Minimises `½ Σ αᵢ αⱼ yᵢ yⱼ kᵢⱼ - Σ αᵢ` over `0 ≤ αᵢ ≤ c`, `Σ αᵢ yᵢ = 0`.
///
/// # Shapes
/// - `gram`: `[n, n]`, the kernel of every pair of points, row after row
/// - `good`: `[n]`, the label of every point: +1 if true, −1 if not
///
/// # Source
/// Fan, Chen, Lin, *Working set selection using second order information for training SVM*,
/// JMLR 6 (2005), Algorithm 2; ties go to the point that comes first. Steps are bounded by
/// `100 n + 10 000`; the best solution by then is as good as a boundary needs.
pub(super) fn solve(gram: &[f64], good: &[bool], c: f64) -> Solution {
    let n = good.len();
    let y: Vec<f64> = good.iter().map(|&good| if good { 1.0 } else { -1.0 }).collect();
    let mut alphas = vec![0.0; n];
    // -y times the gradient; the optimality conditions compare its entries.
    let mut slopes = y.clone();
    let is_up = |y: f64, alpha: f64| if y > 0.0 { alpha < c } else { alpha > 0.0 };
    let is_down = |y: f64, alpha: f64| if y > 0.0 { alpha > 0.0 } else { alpha < c };
    for _ in 0..100 * n + 10_000 {
        let mut first: Option<usize> = None;
        for t in 0..n {
            if is_up(y[t], alphas[t]) && first.is_none_or(|i| slopes[t] > slopes[i]) {
                first = Some(t);
            }
        }
        let Some(i) = first else { break };
        let row = &gram[i * n..(i + 1) * n];
        let (mut second, mut best, mut least) = (None, f64::INFINITY, f64::INFINITY);
        for t in 0..n {
            if is_down(y[t], alphas[t]) {
                least = least.min(slopes[t]);
                let gap = slopes[i] - slopes[t];
                if gap > 0.0 {
                    let curvature = row[i] + gram[t * n + t] - 2.0 * row[t];
                    let gain = -gap * gap / if curvature > 0.0 { curvature } else { TAU };
                    if gain < best {
                        (best, second) = (gain, Some(t));
                    }
                }
            }
        }
        let Some(j) = second.filter(|_| slopes[i] - least >= TOLERANCE) else { break };
        let curvature = row[i] + gram[j * n + j] - 2.0 * row[j];
        let mut step = (slopes[i] - slopes[j]) / if curvature > 0.0 { curvature } else { TAU };
        // The room of αᵢ upwards along y, and of αⱼ downwards.
        let room_i = if y[i] > 0.0 { c - alphas[i] } else { alphas[i] };
        let room_j = if y[j] > 0.0 { alphas[j] } else { c - alphas[j] };
        step = step.min(room_i).min(room_j);
        alphas[i] = moved(alphas[i], y[i] * step, step >= room_i, c);
        alphas[j] = moved(alphas[j], -y[j] * step, step >= room_j, c);
        let other = &gram[j * n..(j + 1) * n];
        for t in 0..n {
            slopes[t] -= step * (row[t] - other[t]);
        }
    }
    let offset = offset(&slopes, &alphas, c, &y, is_up, is_down);
    Solution { coefficients: alphas.iter().zip(&y).map(|(alpha, y)| alpha * y).collect(), offset }
}

/// A multiplier after a step; exactly at a bound if the step was as long as the room.
fn moved(alpha: f64, step: f64, to_bound: bool, c: f64) -> f64 {
    match (to_bound, step > 0.0) {
        (true, true) => c,
        (true, false) => 0.0,
        (false, _) => (alpha + step).clamp(0.0, c),
    }
}

/// The offset for which the free multipliers are on the margin, or the middle of what is allowed.
fn offset(
    slopes: &[f64],
    alphas: &[f64],
    c: f64,
    y: &[f64],
    is_up: impl Fn(f64, f64) -> bool,
    is_down: impl Fn(f64, f64) -> bool,
) -> f64 {
    let (mut sum, mut count) = (0.0, 0_usize);
    let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
    for t in 0..alphas.len() {
        if alphas[t] > 0.0 && alphas[t] < c {
            sum += slopes[t];
            count += 1;
        }
        if is_up(y[t], alphas[t]) {
            low = low.max(slopes[t]);
        }
        if is_down(y[t], alphas[t]) {
            high = high.min(slopes[t]);
        }
    }
    if count > 0 { sum / count as f64 } else { 0.5 * (low + high) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::{dot, squared_distance};

    /// The points and labels of `data/make_svm_golden.py`.
    fn golden() -> (Vec<[f64; 3]>, Vec<bool>) {
        let coordinate = |i: u32, j: u32| f64::from((i * 37 + j * 61 + i * i * (j + 3)) % 101) / 101.0;
        let points: Vec<[f64; 3]> = (0..60).map(|i| [0, 1, 2].map(|j| coordinate(i, j))).collect();
        let is_good = |(i, p): (usize, &[f64; 3])| (p[0] + p[1] * p[1] > 0.8) != i.is_multiple_of(7);
        let good = points.iter().enumerate().map(is_good).collect();
        (points, good)
    }

    #[test]
    fn solutions_are_those_of_scikit_learn() {
        // data/make_svm_golden.py with scikit-learn 1.9.1: objective of the dual, support vectors, and
        // decision values.
        let check = |kernel: fn(&[f64], &[f64]) -> f64, objective: f64, supports: usize, values: [f64; 4]| {
            let (points, good) = golden();
            let gram: Vec<f64> =
                points.iter().flat_map(|a| points.iter().map(move |b| kernel(a, b))).collect();
            let solution = solve(&gram, &good, C);
            let c = &solution.coefficients;
            let quadratic: f64 = (0..60).map(|i| c[i] * dot(&gram[i * 60..(i + 1) * 60], c)).sum();
            let got = 0.5 * quadratic - c.iter().map(|c| c.abs()).sum::<f64>();
            assert!((got / objective - 1.0).abs() < 1e-6, "{got} {objective}");
            let n = c.iter().filter(|c| c.abs() > 0.0).count();
            assert!(n.abs_diff(supports) <= 1, "{n} {supports}");
            let fresh = [[0.1, 0.2, 0.3], [0.5, 0.5, 0.5], [0.9, 0.1, 0.4], [0.3, 0.9, 0.6]];
            for (point, want) in fresh.iter().zip(values) {
                let terms = points.iter().zip(c).map(|(v, c)| c * kernel(v, point));
                let got = terms.sum::<f64>() + solution.offset;
                // The tolerance of the solver.
                assert!((got - want).abs() < 2e-3, "{got} {want}");
            }
        };
        check(
            |a, b| (-2.0 * squared_distance(a, b)).exp(),
            -271.671_916_746,
            35,
            [-1.488_062_632, 0.303_087_635, 1.067_007_264, 0.984_584_483],
        );
        check(
            |a, b| (1.5 * dot(a, b) + 1.0).powi(3),
            -289.968_305_422,
            38,
            [-1.804_571_866, 0.159_055_603, 1.185_678_051, 0.990_623_754],
        );
        check(dot, -387.428_954_261, 41, [-1.331_911_363, 0.357_977_359, 0.085_991_699, 1.073_544_028]);
    }

    #[test]
    fn multipliers_keep_their_bounds_and_their_balance() {
        let (points, good) = golden();
        let gram: Vec<f64> = points
            .iter()
            .flat_map(|a| points.iter().map(|b| (-9.0 * squared_distance(a, b)).exp()))
            .collect();
        let solution = solve(&gram, &good, C);
        let sign = |good: bool| if good { 1.0 } else { -1.0 };
        for (c, good) in solution.coefficients.iter().zip(&good) {
            assert!((0.0..=C).contains(&(c * sign(*good))));
        }
        assert!(solution.coefficients.iter().sum::<f64>().abs() < 1e-9);
    }
}

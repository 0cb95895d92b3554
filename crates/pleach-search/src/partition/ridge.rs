//! Ridge regression.

use crate::linalg::{Triangle, axpy, dot};

/// The penalty, in units of the mean square of a feature.
const PENALTY: f64 = 0.1;

/// A linear model: the prediction is `weights · (φ - means) + mean target`.
#[derive(Clone, Debug)]
pub(super) struct Ridge {
    pub(super) weights: Vec<f64>,
    pub(super) means: Vec<f64>,
}

/// Least squares with a penalty on the weights, by the normal equations of the smaller side.
/// `None` if all rows of features are the same.
///
/// # Shapes
/// - `features`: `[n, p]`
/// - `targets`: `[n]`
pub(super) fn ridge(features: &[Vec<f64>], targets: &[f64]) -> Option<Ridge> {
    let n = features.len();
    let p = features.first()?.len();
    let mut means = vec![0.0; p];
    for row in features {
        axpy(1.0 / n as f64, row, &mut means);
    }
    let mean_target = targets.iter().sum::<f64>() / n as f64;
    let rows: Vec<Vec<f64>> =
        features.iter().map(|row| row.iter().zip(&means).map(|(x, mean)| x - mean).collect()).collect();
    let residuals: Vec<f64> = targets.iter().map(|target| target - mean_target).collect();
    let trace: f64 = rows.iter().map(|row| dot(row, row)).sum();
    let penalty = PENALTY * trace / p as f64;
    // Written so that a number that is not one ends here too.
    (trace > 1e-12 * n as f64).then_some(())?;
    let weights = if p <= n {
        let mut products = vec![0.0; p * p];
        let mut sums = vec![0.0; p];
        for (row, residual) in rows.iter().zip(&residuals) {
            for i in 0..p {
                axpy(row[i], &row[..=i], &mut products[i * p..=i * p + i]);
            }
            axpy(*residual, row, &mut sums);
        }
        (0..p).for_each(|i| products[i * p + i] += penalty);
        let factor = Triangle::cholesky(&products, p)?;
        factor.solve_transposed(&factor.solve(&sums))
    } else {
        let mut products = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                products[i * n + j] = dot(&rows[i], &rows[j]);
            }
            products[i * n + i] += penalty;
        }
        let factor = Triangle::cholesky(&products, n)?;
        let dual = factor.solve_transposed(&factor.solve(&residuals));
        let mut weights = vec![0.0; p];
        rows.iter().zip(&dual).for_each(|(row, dual)| axpy(*dual, row, &mut weights));
        weights
    };
    Some(Ridge { weights, means })
}

//! Hartmann's function in six dimensions.

use super::Entry;
use super::function::{self, Function};

pub(super) const ENTRY: Entry = Entry {
    name: "hartmann-6",
    summary: "four Gaussian wells, on [0, 1]^6; minimum -3.322368",
    options: function::FIXED_OPTIONS,
    metrics: function::METRICS,
    build: |request| function::build(request, function()),
};

const ALPHA: [f64; 4] = [1.0, 1.2, 3.0, 3.2];

const A: [[f64; 6]; 4] = [
    [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
    [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
    [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
    [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
];

/// The wells.
const P: [[f64; 6]; 4] = [
    [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
    [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
    [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
    [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
];

/// The published minimiser to six digits, improved by Newton's method to all of them.
const MINIMISER: [f64; 6] = [
    0.201_689_511_006_705_43,
    0.150_010_691_823_457_97,
    0.476_873_974_221_897_03,
    0.275_332_430_494_056_1,
    0.311_651_616_600_113_3,
    0.657_300_534_065_620_4,
];

/// `f(x) = −Σᵢ αᵢ exp(−Σⱼ Aᵢⱼ (xⱼ − Pᵢⱼ)²)`, i = 1…4, j = 1…6; minimum −3.322368011415515 at
/// (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573).
///
/// # Source
/// L. C. W. Dixon, G. P. Szegő, *The global optimization problem: an introduction*, in Towards
/// Global Optimization 2, 1978, after J. K. Hartman, 1973.
pub(super) fn function() -> Function {
    let value = |x: &[f64]| {
        let depth = |i: usize| {
            let distance: f64 = (0..6).map(|j| A[i][j] * (x[j] - P[i][j]).powi(2)).sum();
            ALPHA[i] * (-distance).exp()
        };
        -(0..4).map(depth).sum::<f64>()
    };
    Function::new(vec![(0.0, 1.0); 6], MINIMISER.to_vec(), value(&MINIMISER), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_is_the_published_one_and_stationary() {
        let f = function();
        // scikit-optimize 0.7 documentation, hart6: −3.32237.
        assert!((f.minimum() + 3.322_37).abs() < 5e-6);
        for j in 0..6 {
            for step in [-1e-4, 1e-4] {
                let mut x = f.minimiser().to_vec();
                x[j] += step;
                assert!(f.value(&x) > f.minimum());
            }
        }
    }
}

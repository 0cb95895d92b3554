//! What separates the good from the bad points of a node.

use crate::layout::Layout;
use crate::linalg::dot;

/// A boundary in the space of codes (see [`Layout`]).
#[derive(Clone, Debug)]
pub(crate) enum Boundary {
    /// `weights · φ + offset`, where `φ` is the code with zeros for parameters that do not exist.
    Linear {
        /// One weight a coordinate.
        weights: Vec<f64>,
        /// The offset.
        offset: f64,
    },
    /// The option at one coordinate against all others: 1 on it, −1 elsewhere.
    Equal {
        /// The coordinate.
        at: usize,
        /// Its value on the good side.
        value: f64,
    },
}

impl Boundary {
    /// Positive on the good side.
    pub(crate) fn decision(&self, _layout: &Layout, code: &[f64]) -> f64 {
        match self {
            Boundary::Linear { weights, offset } => {
                let known: Vec<f64> = code.iter().map(|u| if u.is_nan() { 0.0 } else { *u }).collect();
                dot(weights, &known) + offset
            }
            #[expect(clippy::float_cmp, reason = "options are coded as the exact middles of their cells")]
            Boundary::Equal { at, value } => {
                if code[*at] == *value {
                    1.0
                } else {
                    -1.0
                }
            }
        }
    }
}

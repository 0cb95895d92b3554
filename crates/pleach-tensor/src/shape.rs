//! Sizes of tensors.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The sizes of a tensor along its axes; the first is the batch, the last is contiguous.
///
/// Images are `[n, height, width, channels]` (NHWC), sequences `[n, length, features]`.
/// Prints as `32×28×28×1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// A shape of these sizes.
    pub fn new(sizes: impl Into<Vec<usize>>) -> Shape {
        Shape(sizes.into())
    }

    /// The sizes.
    pub fn sizes(&self) -> &[usize] {
        &self.0
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The size of the first axis, 1 for a scalar.
    pub fn batch(&self) -> usize {
        self.0.first().copied().unwrap_or(1)
    }

    /// The size of the last axis, 1 for a scalar.
    pub fn features(&self) -> usize {
        self.0.last().copied().unwrap_or(1)
    }

    /// The number of elements.
    ///
    /// # Panics
    /// If it overflows; [`checked_len`](Shape::checked_len) says so instead, and whoever makes a
    /// shape from a user's numbers calls it once.
    pub fn len(&self) -> usize {
        self.checked_len("a tensor").expect("the size was checked when the shape was made")
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.0.contains(&0)
    }

    /// The number of elements, where that many floats can be addressed.
    ///
    /// # Errors
    /// [`Error::TooLarge`] with `what` in it.
    pub fn checked_len(&self, what: &str) -> Result<usize, Error> {
        let bytes = self.0.iter().try_fold(size_of::<f32>(), |len, &size| len.checked_mul(size));
        match bytes {
            Some(bytes) if isize::try_from(bytes).is_ok() => Ok(bytes / size_of::<f32>()),
            _ => Err(Error::TooLarge { what: format!("{what} of {self}") }),
        }
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(sizes: [usize; N]) -> Shape {
        Shape(sizes.to_vec())
    }
}

impl From<Vec<usize>> for Shape {
    fn from(sizes: Vec<usize>) -> Shape {
        Shape(sizes)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("a scalar");
        }
        for (axis, size) in self.0.iter().enumerate() {
            write!(f, "{}{size}", if axis > 0 { "×" } else { "" })?;
        }
        Ok(())
    }
}

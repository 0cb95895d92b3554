//! Learned partitions of a space: boundaries between good and bad points, regions, and trees of them.

mod boundary;
mod kernel;
mod region;
mod ridge;
mod svm;

pub(crate) use boundary::{Boundary, Family};
pub use region::Region;
pub(crate) use region::Side;

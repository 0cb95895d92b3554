//! Learned partitions of a space: boundaries between good and bad points, regions, and trees of them.

mod boundary;
mod region;

pub(crate) use boundary::Boundary;
pub use region::Region;
pub(crate) use region::Side;

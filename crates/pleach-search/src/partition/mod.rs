//! Learned partitions of a space: boundaries between good and bad points, regions, and trees of them.

mod boundary;
mod coding;
mod follow;
mod kernel;
mod label;
mod line;
mod policy;
mod region;
mod ridge;
mod split;
mod svm;
mod tree;
mod view;
mod walk;

pub(crate) use boundary::{Boundary, Family};
pub(crate) use label::{Label, ranks};
pub(crate) use policy::{Value, ucb};
pub use region::Region;
pub(crate) use region::Side;
pub(crate) use tree::{Plan, Tree};
pub(crate) use view::{Asks, Rule};
pub use view::{Part, Partition, Step};

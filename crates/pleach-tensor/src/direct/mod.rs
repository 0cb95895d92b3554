//! Convolutions as sums of products over gathered pixels, for any filter, stride, dilation and
//! padding; matrix products are those with a filter of one pixel.

mod depthwise;
mod gather;
mod taps;
mod weight_grad;

pub(crate) use depthwise::{Depthwise, DepthwiseWeightGrad};
pub(crate) use gather::Gather;
pub(crate) use weight_grad::{BiasGrad, WeightGrad};

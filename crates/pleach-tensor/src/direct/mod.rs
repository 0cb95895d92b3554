//! Convolutions as sums of products over gathered pixels, for any filter, stride, dilation and
//! padding; matrix products are those with a filter of one pixel.

mod bias_grad;
mod depthwise;
mod fold;
mod gather;
mod sliced_grad;
mod taps;
mod weight_grad;

pub(crate) use bias_grad::BiasGrad;
pub(crate) use depthwise::{Depthwise, DepthwiseWeightGrad};
pub(crate) use gather::Gather;

use std::sync::Arc;

use sliced_grad::SlicedGrad;
use weight_grad::WeightGrad;

use crate::Kernel;
use crate::geometry::Geometry;

/// The kernel that reads `(x, dy)` and writes `dw`.
pub(crate) fn weight_grad(g: &Geometry) -> Arc<dyn Kernel> {
    if SlicedGrad::suits(g) { Arc::new(SlicedGrad::new(g)) } else { Arc::new(WeightGrad::new(g)) }
}

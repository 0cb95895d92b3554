//! Convolutions as sums of products over gathered pixels, for any filter, stride, dilation and
//! padding; matrix products are those with a filter of one pixel.

mod bias_grad;
mod depthwise;
mod fold;
mod gather;
mod sliced_grad;
mod stretched;
mod taps;
mod weight_grad;

pub(crate) use bias_grad::BiasGrad;
pub(crate) use depthwise::{Depthwise, DepthwiseWeightGrad};
pub(crate) use gather::Gather;

use std::sync::Arc;

use sliced_grad::SlicedGrad;
use stretched::Stretched;
use weight_grad::WeightGrad;

use crate::Kernel;
use crate::geometry::Geometry;

/// The kernel that reads `(dy, w)` and writes `dx`.
pub(crate) fn input_grad(g: &Geometry) -> Arc<dyn Kernel> {
    match Stretched::new(g) {
        Some(kernel) => Arc::new(kernel),
        None => Arc::new(Gather::input_grad(g, false)),
    }
}

/// The kernel that reads `(x, dy)` and writes `dw`.
pub(crate) fn weight_grad(g: &Geometry) -> Arc<dyn Kernel> {
    if SlicedGrad::suits(g) { Arc::new(SlicedGrad::new(g)) } else { Arc::new(WeightGrad::new(g)) }
}

//! Residual networks for CIFAR, of 6n + 2 layers.

use serde::Deserialize;
use serde_json::json;

use super::{Described, Layers, Window, small_image, ten};
use crate::{Error, Graph};

/// ResNet-20 to ResNet-2504: three stages of 16, 32 and 64 channels, shortcuts without parameters.
///
/// Where a stage begins, the shortcut takes every other pixel and new channels are zero (option A).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CifarResNet {
    #[serde(default = "twenty")]
    depth: usize,
    #[serde(default = "small_image")]
    input: [usize; 3],
    #[serde(default = "ten")]
    classes: usize,
    #[serde(default = "sixteen")]
    width: usize,
}

fn twenty() -> usize {
    20
}

fn sixteen() -> usize {
    16
}

impl Described for CifarResNet {
    const NAME: &'static str = "resnet-cifar";
    const SUMMARY: &'static str = "He et al. 2016, §4.2: 6n + 2 layers, 20 to 2504 and beyond";
    const PARAMETERS: &'static str = "depth = 20, input = [32, 32, 3], classes = 10, width = 16";

    fn graph(&self) -> Result<Graph, Error> {
        if self.depth < 8 || !(self.depth - 2).is_multiple_of(6) {
            return Err(Self::refuse(format!("depth is 6n + 2, as 20, 56 or 110, not {}", self.depth)));
        }
        let (mut layers, x) = Layers::image(self.input)?;
        let x = layers.conv("conv1", x, self.width, Window::square(3, 1))?;
        let mut x = layers.norm_relu("bn1", x)?;
        for stage in 0..3 {
            let width = self.width << stage;
            for index in 0..(self.depth - 2) / 6 {
                let name = format!("layer{}.{index}", stage + 1);
                let stride = if stage > 0 && index == 0 { 2 } else { 1 };
                let y = layers.conv(&format!("{name}.conv1"), x, width, Window::square(3, stride))?;
                let y = layers.norm_relu(&format!("{name}.bn1"), y)?;
                let y = layers.conv(&format!("{name}.conv2"), y, width, Window::square(3, 1))?;
                let y = layers.norm(&format!("{name}.bn2"), y)?;
                let shortcut = if stride == 1 {
                    x
                } else {
                    let attributes = json!({"stride": stride, "channels": width});
                    layers.layer(&format!("{name}.shortcut"), "subsample", attributes, &[x])?
                };
                x = layers.layer(&format!("{name}.add"), "add", json!({"relu": true}), &[y, shortcut])?;
            }
        }
        layers.pooled_classifier(x, self.classes)
    }
}

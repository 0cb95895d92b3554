//! Pre-activation ResNet of 9n + 2 layers.

use serde::Deserialize;
use serde_json::json;

use super::{Described, Layers, Window, small_image, ten};
use crate::{Error, Graph};

/// Pre-activation bottleneck ResNet for CIFAR: ResNet-164, ResNet-1001.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PreActResNet {
    #[serde(default = "deep")]
    depth: usize,
    #[serde(default = "small_image")]
    input: [usize; 3],
    #[serde(default = "ten")]
    classes: usize,
}

fn deep() -> usize {
    1001
}

impl Described for PreActResNet {
    const NAME: &'static str = "resnet-preact";
    const SUMMARY: &'static str = "He et al. 2016, identity mappings: 9n + 2 layers, as 164 and 1001";
    const PARAMETERS: &'static str = "depth = 1001, input = [32, 32, 3], classes = 10";

    fn graph(&self) -> Result<Graph, Error> {
        if self.depth < 11 || !(self.depth - 2).is_multiple_of(9) {
            return Err(Self::refuse(format!("depth is 9n + 2, as 164 or 1001, not {}", self.depth)));
        }
        let (mut layers, x) = Layers::image(self.input)?;
        let mut x = layers.conv("conv1", x, 16, Window::square(3, 1))?;
        for stage in 0..3 {
            let width = 16 << stage;
            for index in 0..(self.depth - 2) / 9 {
                let name = format!("layer{}.{index}", stage + 1);
                let stride = if stage > 0 && index == 0 { 2 } else { 1 };
                let before = layers.norm_relu(&format!("{name}.bn1"), x)?;
                let y = layers.conv(&format!("{name}.conv1"), before, width, Window::square(1, 1))?;
                let y = layers.norm_relu(&format!("{name}.bn2"), y)?;
                let y = layers.conv(&format!("{name}.conv2"), y, width, Window::square(3, stride))?;
                let y = layers.norm_relu(&format!("{name}.bn3"), y)?;
                let y = layers.conv(&format!("{name}.conv3"), y, 4 * width, Window::square(1, 1))?;
                let shortcut = if index > 0 {
                    x
                } else {
                    let window = Window::square(1, stride);
                    layers.conv(&format!("{name}.shortcut"), before, 4 * width, window)?
                };
                x = layers.layer(&format!("{name}.add"), "add", json!({}), &[y, shortcut])?;
            }
        }
        let x = layers.norm_relu("bn", x)?;
        layers.pooled_classifier(x, self.classes)
    }
}

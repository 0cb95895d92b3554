//! DenseNet-121.

use serde::Deserialize;
use serde_json::json;

use super::{Described, Layers, Window, large_image, thousand};
use crate::{Error, Graph};

/// Densely connected networks: every layer reads all before it in its block.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DenseNet {
    #[serde(default = "large_image")]
    input: [usize; 3],
    #[serde(default = "thousand")]
    classes: usize,
    #[serde(default = "growth")]
    growth: usize,
    #[serde(default = "blocks")]
    blocks: Vec<usize>,
}

fn growth() -> usize {
    32
}

fn blocks() -> Vec<usize> {
    vec![6, 12, 24, 16]
}

impl Described for DenseNet {
    const NAME: &'static str = "densenet";
    const SUMMARY: &'static str = "Huang et al. 2017: DenseNet-121 by default";
    const PARAMETERS: &'static str =
        "input = [224, 224, 3], classes = 1000, growth = 32, blocks = [6, 12, 24, 16]";

    fn graph(&self) -> Result<Graph, Error> {
        if self.blocks.is_empty() || self.growth == 0 {
            return Err(Self::refuse("it needs at least one block and a growth of at least 1"));
        }
        let (mut layers, mut x) = Layers::image(self.input)?;
        let mut channels = 2 * self.growth;
        if self.input[0] < 64 {
            x = layers.conv("conv0", x, channels, Window::square(3, 1))?;
        } else {
            x = layers.conv("conv0", x, channels, Window::square(7, 2))?;
            x = layers.norm_relu("norm0", x)?;
            x = layers.max_pool("pool0", x, 3, 2, 1)?;
        }
        for (block, &count) in self.blocks.iter().enumerate() {
            for index in 0..count {
                let name = format!("denseblock{}.{index}", block + 1);
                let y = layers.norm_relu(&format!("{name}.norm1"), x)?;
                let y = layers.conv(&format!("{name}.conv1"), y, 4 * self.growth, Window::square(1, 1))?;
                let y = layers.norm_relu(&format!("{name}.norm2"), y)?;
                let y = layers.conv(&format!("{name}.conv2"), y, self.growth, Window::square(3, 1))?;
                x = layers.layer(&format!("{name}.concat"), "concat", json!({}), &[x, y])?;
                channels += self.growth;
            }
            if block + 1 < self.blocks.len() {
                let name = format!("transition{}", block + 1);
                channels /= 2;
                x = layers.norm_relu(&format!("{name}.norm"), x)?;
                x = layers.conv(&format!("{name}.conv"), x, channels, Window::square(1, 1))?;
                x = layers.average_pool(&format!("{name}.pool"), x, 2, 2, 0)?;
            }
        }
        let x = layers.norm_relu("norm5", x)?;
        layers.pooled_classifier(x, self.classes)
    }
}

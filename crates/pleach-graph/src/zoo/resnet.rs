//! ResNet-18 to ResNet-200.

use serde::Deserialize;
use serde_json::json;

use super::{Described, Layers, Window, large_image, thousand};
use crate::{Error, Graph, NodeId};

/// Residual networks for large images; for images below 64 pixels the first layer is a 3 × 3
/// convolution without pooling, as is usual for CIFAR.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResNet {
    #[serde(default = "eighteen")]
    depth: usize,
    #[serde(default = "large_image")]
    input: [usize; 3],
    #[serde(default = "thousand")]
    classes: usize,
}

fn eighteen() -> usize {
    18
}

impl Described for ResNet {
    const NAME: &'static str = "resnet";
    const SUMMARY: &'static str = "He et al. 2016: depths 18, 34, 50, 101, 152, 200";
    const PARAMETERS: &'static str = "depth = 18, input = [224, 224, 3], classes = 1000";

    fn graph(&self) -> Result<Graph, Error> {
        let (blocks, bottleneck) = match self.depth {
            18 => ([2, 2, 2, 2], false),
            34 => ([3, 4, 6, 3], false),
            50 => ([3, 4, 6, 3], true),
            101 => ([3, 4, 23, 3], true),
            152 => ([3, 8, 36, 3], true),
            200 => ([3, 24, 36, 3], true),
            depth => {
                return Err(Self::refuse(format!("depth is 18, 34, 50, 101, 152 or 200, not {depth}")));
            }
        };
        let (mut layers, mut x) = Layers::image(self.input)?;
        if self.input[0] < 64 {
            x = layers.conv("conv1", x, 64, Window::square(3, 1))?;
            x = layers.norm_relu("bn1", x)?;
        } else {
            x = layers.conv("conv1", x, 64, Window::square(7, 2))?;
            x = layers.norm_relu("bn1", x)?;
            x = layers.max_pool("maxpool", x, 3, 2, 1)?;
        }
        for (stage, &count) in blocks.iter().enumerate() {
            let width = 64 << stage;
            for index in 0..count {
                let name = format!("layer{}.{index}", stage + 1);
                let stride = if stage > 0 && index == 0 { 2 } else { 1 };
                let project = index == 0 && (stage > 0 || bottleneck);
                x = if bottleneck {
                    deep_block(&mut layers, &name, x, width, stride, project)?
                } else {
                    basic_block(&mut layers, &name, x, width, stride, project)?
                };
            }
        }
        layers.pooled_classifier(x, self.classes)
    }
}

/// Two 3 × 3 convolutions and a shortcut.
pub(super) fn basic_block(
    layers: &mut Layers,
    name: &str,
    x: NodeId,
    width: usize,
    stride: usize,
    project: bool,
) -> Result<NodeId, Error> {
    let y = layers.conv(&format!("{name}.conv1"), x, width, Window::square(3, stride))?;
    let y = layers.norm_relu(&format!("{name}.bn1"), y)?;
    let y = layers.conv(&format!("{name}.conv2"), y, width, Window::square(3, 1))?;
    let y = layers.norm(&format!("{name}.bn2"), y)?;
    join(layers, name, x, y, project.then_some((width, stride)))
}

/// 1 × 1, 3 × 3 and 1 × 1 convolutions, the last with four times the channels, and a shortcut.
fn deep_block(
    layers: &mut Layers,
    name: &str,
    x: NodeId,
    width: usize,
    stride: usize,
    project: bool,
) -> Result<NodeId, Error> {
    let y = layers.conv(&format!("{name}.conv1"), x, width, Window::square(1, 1))?;
    let y = layers.norm_relu(&format!("{name}.bn1"), y)?;
    let y = layers.conv(&format!("{name}.conv2"), y, width, Window::square(3, stride))?;
    let y = layers.norm_relu(&format!("{name}.bn2"), y)?;
    let y = layers.conv(&format!("{name}.conv3"), y, 4 * width, Window::square(1, 1))?;
    let y = layers.norm(&format!("{name}.bn3"), y)?;
    join(layers, name, x, y, project.then_some((4 * width, stride)))
}

/// Adds a shortcut, projected where shapes differ, and takes the ReLU of the sum.
fn join(
    layers: &mut Layers,
    name: &str,
    x: NodeId,
    y: NodeId,
    project: Option<(usize, usize)>,
) -> Result<NodeId, Error> {
    let shortcut = match project {
        None => x,
        Some((channels, stride)) => {
            let window = Window::square(1, stride);
            let x = layers.conv(&format!("{name}.downsample.0"), x, channels, window)?;
            layers.norm(&format!("{name}.downsample.1"), x)?
        }
    };
    layers.layer(&format!("{name}.add"), "add", json!({"relu": true}), &[y, shortcut])
}

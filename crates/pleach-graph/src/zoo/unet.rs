//! U-Net.

use serde::Deserialize;
use serde_json::json;

use super::{Described, Layers, Window};
use crate::{Error, Graph, NodeId};

/// An encoder and a decoder with connections between equal resolutions; labels every pixel.
///
/// Convolutions are padded, so that the output has the size of the input.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UNet {
    #[serde(default = "image")]
    input: [usize; 3],
    #[serde(default = "two")]
    classes: usize,
    #[serde(default = "width")]
    width: usize,
    #[serde(default = "levels")]
    levels: usize,
}

fn image() -> [usize; 3] {
    [256, 256, 1]
}

fn two() -> usize {
    2
}

fn width() -> usize {
    64
}

fn levels() -> usize {
    4
}

impl Described for UNet {
    const NAME: &'static str = "unet";
    const SUMMARY: &'static str = "Ronneberger et al. 2015, with padding: labels every pixel";
    const PARAMETERS: &'static str = "input = [256, 256, 1], classes = 2, width = 64, levels = 4";

    fn graph(&self) -> Result<Graph, Error> {
        let [height, columns, _] = self.input;
        let side = 1usize.checked_shl(u32::try_from(self.levels).unwrap_or(u32::MAX)).unwrap_or(0);
        if side == 0 || !height.is_multiple_of(side) || !columns.is_multiple_of(side) {
            let reason = format!("an image of {height} × {columns} cannot be halved {} times", self.levels);
            return Err(Self::refuse(reason));
        }
        let (mut layers, mut x) = Layers::image(self.input)?;
        let mut skipped = Vec::new();
        for level in 0..self.levels {
            x = twice(&mut layers, &format!("down{level}"), x, self.width << level)?;
            skipped.push(x);
            x = layers.max_pool(&format!("down{level}.pool"), x, 2, 2, 0)?;
        }
        x = twice(&mut layers, "bottom", x, self.width << self.levels)?;
        for level in (0..self.levels).rev() {
            let channels = self.width << level;
            let attributes = json!({"channels": channels, "kernel": [2, 2], "stride": [2, 2]});
            x = layers.layer(&format!("up{level}.conv"), "conv-transpose", attributes, &[x])?;
            x = layers.layer(&format!("up{level}.concat"), "concat", json!({}), &[skipped[level], x])?;
            x = twice(&mut layers, &format!("up{level}"), x, channels)?;
        }
        let attributes = json!({"channels": self.classes, "kernel": [1, 1]});
        let logits = layers.layer("head", "conv", attributes, &[x])?;
        layers.loss(logits, &[height, columns])
    }
}

/// Two 3 × 3 convolutions with normalisation and ReLU.
fn twice(layers: &mut Layers, name: &str, x: NodeId, channels: usize) -> Result<NodeId, Error> {
    let x = layers.conv_norm_relu(&format!("{name}.0"), x, channels, Window::square(3, 1))?;
    layers.conv_norm_relu(&format!("{name}.1"), x, channels, Window::square(3, 1))
}

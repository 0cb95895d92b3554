//! Wide residual networks.

use serde::Deserialize;
use serde_json::json;

use super::{Described, Layers, Window, small_image, ten};
use crate::{Error, Graph};

/// WRN-depth-widen, as WRN-28-10.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WideResNet {
    #[serde(default = "depth")]
    depth: usize,
    #[serde(default = "ten")]
    widen: usize,
    #[serde(default = "small_image")]
    input: [usize; 3],
    #[serde(default = "ten")]
    classes: usize,
    #[serde(default)]
    dropout: f64,
}

fn depth() -> usize {
    28
}

impl Described for WideResNet {
    const NAME: &'static str = "wide-resnet";
    const SUMMARY: &'static str = "Zagoruyko and Komodakis 2016: WRN-28-10 and others of 6n + 4 layers";
    const PARAMETERS: &'static str =
        "depth = 28, widen = 10, input = [32, 32, 3], classes = 10, dropout = 0.0";

    fn graph(&self) -> Result<Graph, Error> {
        if self.depth < 10 || !(self.depth - 4).is_multiple_of(6) {
            return Err(Self::refuse(format!("depth is 6n + 4, as 16, 28 or 40, not {}", self.depth)));
        }
        let (mut layers, x) = Layers::image(self.input)?;
        let mut x = layers.conv("conv1", x, 16, Window::square(3, 1))?;
        for stage in 0..3 {
            let width = (16 * self.widen) << stage;
            for index in 0..(self.depth - 4) / 6 {
                let name = format!("block{}.{index}", stage + 1);
                let stride = if stage > 0 && index == 0 { 2 } else { 1 };
                let before = layers.norm_relu(&format!("{name}.bn1"), x)?;
                let y = layers.conv(&format!("{name}.conv1"), before, width, Window::square(3, stride))?;
                let y = layers.norm_relu(&format!("{name}.bn2"), y)?;
                let y = layers.dropout(&format!("{name}.dropout"), y, self.dropout)?;
                let y = layers.conv(&format!("{name}.conv2"), y, width, Window::square(3, 1))?;
                let shortcut = if index > 0 {
                    x
                } else {
                    let window = Window::square(1, stride);
                    layers.conv(&format!("{name}.shortcut"), before, width, window)?
                };
                x = layers.layer(&format!("{name}.add"), "add", json!({}), &[y, shortcut])?;
            }
        }
        let x = layers.norm_relu("bn", x)?;
        layers.pooled_classifier(x, self.classes)
    }
}

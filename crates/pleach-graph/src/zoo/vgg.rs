//! VGG-16.

use serde::Deserialize;
use serde_json::json;

use super::{Described, Layers, Window, large_image, thousand};
use crate::{Error, Graph};

/// VGG with 16 layers (configuration D), with batch normalisation where asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Vgg {
    #[serde(default = "large_image")]
    input: [usize; 3],
    #[serde(default = "thousand")]
    classes: usize,
    #[serde(default)]
    norm: bool,
    #[serde(default = "half")]
    dropout: f64,
    #[serde(default = "wide")]
    hidden: usize,
}

fn half() -> f64 {
    0.5
}

fn wide() -> usize {
    4096
}

/// Channels of the convolutions between two poolings.
const STAGES: [&[usize]; 5] = [&[64, 64], &[128, 128], &[256; 3], &[512; 3], &[512; 3]];

impl Described for Vgg {
    const NAME: &'static str = "vgg-16";
    const SUMMARY: &'static str = "Simonyan and Zisserman 2015, configuration D";
    const PARAMETERS: &'static str =
        "input = [224, 224, 3], classes = 1000, norm = false, dropout = 0.5, hidden = 4096";

    fn graph(&self) -> Result<Graph, Error> {
        let (mut layers, mut x) = Layers::image(self.input)?;
        for (stage, channels) in STAGES.iter().enumerate() {
            for (index, &channels) in channels.iter().enumerate() {
                let name = format!("stage{stage}.{index}");
                if self.norm {
                    x = layers.conv_norm_relu(&name, x, channels, Window::square(3, 1))?;
                } else {
                    let attributes = json!({"channels": channels, "kernel": [3, 3], "padding": [1, 1]});
                    x = layers.layer(&format!("{name}.conv"), "conv", attributes, &[x])?;
                    x = layers.layer(&format!("{name}.relu"), "relu", json!({}), &[x])?;
                }
            }
            x = layers.max_pool(&format!("stage{stage}.pool"), x, 2, 2, 0)?;
        }
        x = layers.layer("flatten", "flatten", json!({}), &[x])?;
        for index in 0..2 {
            x = layers.linear(&format!("hidden{index}"), x, self.hidden)?;
            x = layers.layer(&format!("relu{index}"), "relu", json!({}), &[x])?;
            x = layers.dropout(&format!("dropout{index}"), x, self.dropout)?;
        }
        layers.classifier(x, self.classes)
    }
}

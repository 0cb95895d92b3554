//! MobileNetV3.

use serde::Deserialize;
use serde_json::json;

use super::{Described, Layers, large_image, same, thousand};
use crate::{Error, Graph, NodeId};

/// Inverted residuals with squeeze-and-excitation and hard swish, large or small.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MobileNetV3 {
    #[serde(default)]
    size: Size,
    #[serde(default = "large_image")]
    input: [usize; 3],
    #[serde(default = "thousand")]
    classes: usize,
    #[serde(default)]
    dropout: f64,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Size {
    #[default]
    Large,
    Small,
}

/// Kernel, expanded channels, output channels, squeeze-and-excitation, hard swish, stride.
type Row = (usize, usize, usize, bool, bool, usize);

/// Howard et al. 2019, Table 1.
const LARGE: [Row; 15] = [
    (3, 16, 16, false, false, 1),
    (3, 64, 24, false, false, 2),
    (3, 72, 24, false, false, 1),
    (5, 72, 40, true, false, 2),
    (5, 120, 40, true, false, 1),
    (5, 120, 40, true, false, 1),
    (3, 240, 80, false, true, 2),
    (3, 200, 80, false, true, 1),
    (3, 184, 80, false, true, 1),
    (3, 184, 80, false, true, 1),
    (3, 480, 112, true, true, 1),
    (3, 672, 112, true, true, 1),
    (5, 672, 160, true, true, 2),
    (5, 960, 160, true, true, 1),
    (5, 960, 160, true, true, 1),
];

/// Howard et al. 2019, Table 2.
const SMALL: [Row; 11] = [
    (3, 16, 16, true, false, 2),
    (3, 72, 24, false, false, 2),
    (3, 88, 24, false, false, 1),
    (5, 96, 40, true, true, 2),
    (5, 240, 40, true, true, 1),
    (5, 240, 40, true, true, 1),
    (5, 120, 48, true, true, 1),
    (5, 144, 48, true, true, 1),
    (5, 288, 96, true, true, 2),
    (5, 576, 96, true, true, 1),
    (5, 576, 96, true, true, 1),
];

impl Described for MobileNetV3 {
    const NAME: &'static str = "mobilenet-v3";
    const SUMMARY: &'static str = "Howard et al. 2019: large and small";
    const PARAMETERS: &'static str = "size = \"large\", input = [224, 224, 3], classes = 1000, dropout = 0.0";

    fn graph(&self) -> Result<Graph, Error> {
        let (rows, hidden): (&[Row], usize) = match self.size {
            Size::Large => (&LARGE, 1280),
            Size::Small => (&SMALL, 1024),
        };
        let (mut layers, mut x) = Layers::image(self.input)?;
        let mut channels = 16;
        x = piece(&mut layers, "features.0", x, (3, 2, 1), channels, Some("hard-swish"))?;
        for (index, &row) in rows.iter().enumerate() {
            x = block(&mut layers, &format!("features.{}", index + 1), x, channels, row)?;
            channels = row.2;
        }
        let name = format!("features.{}", rows.len() + 1);
        x = piece(&mut layers, &name, x, (1, 1, 1), 6 * channels, Some("hard-swish"))?;
        x = layers.layer("pool", "global-average-pool", json!({}), &[x])?;
        x = layers.linear("classifier.0", x, hidden)?;
        x = layers.layer("classifier.1", "hard-swish", json!({}), &[x])?;
        x = layers.dropout("classifier.2", x, self.dropout)?;
        layers.classifier(x, self.classes)
    }
}

/// Convolution (kernel, stride, groups), normalisation, and an activation where there is one.
fn piece(
    layers: &mut Layers,
    name: &str,
    x: NodeId,
    (kernel, stride, groups): (usize, usize, usize),
    channels: usize,
    activation: Option<&str>,
) -> Result<NodeId, Error> {
    let attributes = json!({
        "channels": channels, "kernel": [kernel, kernel], "stride": [stride, stride],
        "padding": same([kernel; 2]), "groups": groups, "bias": false,
    });
    let x = layers.layer(&format!("{name}.conv"), "conv", attributes, &[x])?;
    match activation {
        None => layers.norm(&format!("{name}.bn"), x),
        Some("relu") => layers.norm_relu(&format!("{name}.bn"), x),
        Some(activation) => {
            let x = layers.norm(&format!("{name}.bn"), x)?;
            layers.layer(&format!("{name}.act"), activation, json!({}), &[x])
        }
    }
}

fn block(layers: &mut Layers, name: &str, x: NodeId, channels: usize, row: Row) -> Result<NodeId, Error> {
    let (kernel, expanded, out, squeeze, swish, stride) = row;
    let activation = Some(if swish { "hard-swish" } else { "relu" });
    let mut y = x;
    if expanded != channels {
        y = piece(layers, &format!("{name}.expand"), y, (1, 1, 1), expanded, activation)?;
    }
    y = piece(layers, &format!("{name}.depthwise"), y, (kernel, stride, expanded), expanded, activation)?;
    if squeeze {
        y = excite(layers, &format!("{name}.se"), y, divisible(expanded / 4), expanded)?;
    }
    y = piece(layers, &format!("{name}.project"), y, (1, 1, 1), out, None)?;
    if stride == 1 && channels == out {
        y = layers.layer(&format!("{name}.add"), "add", json!({}), &[x, y])?;
    }
    Ok(y)
}

/// Squeeze-and-excitation: scales channels by what their means say.
fn excite(
    layers: &mut Layers,
    name: &str,
    x: NodeId,
    squeezed: usize,
    channels: usize,
) -> Result<NodeId, Error> {
    let s = layers.layer(&format!("{name}.pool"), "global-average-pool", json!({}), &[x])?;
    let s = layers.linear(&format!("{name}.fc1"), s, squeezed)?;
    let s = layers.layer(&format!("{name}.relu"), "relu", json!({}), &[s])?;
    let s = layers.linear(&format!("{name}.fc2"), s, channels)?;
    let s = layers.layer(&format!("{name}.gate"), "hard-sigmoid", json!({}), &[s])?;
    layers.layer(&format!("{name}.scale"), "scale", json!({}), &[x, s])
}

/// The multiple of 8 next to `channels`, and not below nine tenths of it.
fn divisible(channels: usize) -> usize {
    let rounded = ((channels + 4) / 8 * 8).max(8);
    if rounded * 10 < channels * 9 { rounded + 8 } else { rounded }
}

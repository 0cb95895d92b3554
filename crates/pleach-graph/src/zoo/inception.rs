//! Inception-V3.

use serde::Deserialize;
use serde_json::json;

use super::{Described, Layers, Window, thousand};
use crate::{Error, Graph, NodeId};

/// Inception-V3 without the auxiliary classifier.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InceptionV3 {
    #[serde(default = "image")]
    input: [usize; 3],
    #[serde(default = "thousand")]
    classes: usize,
    #[serde(default)]
    dropout: f64,
}

pub(super) fn image() -> [usize; 3] {
    [299, 299, 3]
}

/// Convolutions one behind the other, each with normalisation and ReLU.
pub(super) fn chain(
    layers: &mut Layers,
    name: &str,
    mut x: NodeId,
    pieces: &[(usize, Window)],
) -> Result<NodeId, Error> {
    for (index, &(channels, window)) in pieces.iter().enumerate() {
        x = layers.conv_norm_relu(&format!("{name}.{index}"), x, channels, window)?;
    }
    Ok(x)
}

pub(super) fn concat(layers: &mut Layers, name: &str, parts: &[NodeId]) -> Result<NodeId, Error> {
    layers.layer(&format!("{name}.concat"), "concat", json!({}), parts)
}

impl Described for InceptionV3 {
    const NAME: &'static str = "inception-v3";
    const SUMMARY: &'static str = "Szegedy et al. 2016, without the auxiliary classifier";
    const PARAMETERS: &'static str = "input = [299, 299, 3], classes = 1000, dropout = 0.0";

    fn graph(&self) -> Result<Graph, Error> {
        let (mut layers, x) = Layers::image(self.input)?;
        let w = &mut layers;
        let mut x = chain(
            w,
            "stem0",
            x,
            &[(32, Window::valid(3, 2)), (32, Window::valid(3, 1)), (64, Window::square(3, 1))],
        )?;
        x = w.max_pool("stem0.pool", x, 3, 2, 0)?;
        x = chain(w, "stem1", x, &[(80, Window::valid(1, 1)), (192, Window::valid(3, 1))])?;
        x = w.max_pool("stem1.pool", x, 3, 2, 0)?;
        for (index, pooled) in [32, 64, 64].into_iter().enumerate() {
            x = module_a(w, &format!("mixed5.{index}"), x, pooled)?;
        }
        x = reduce_a(w, "mixed6.0", x)?;
        for (index, width) in [128, 160, 160, 192].into_iter().enumerate() {
            x = module_c(w, &format!("mixed6.{}", index + 1), x, width)?;
        }
        x = reduce_d(w, "mixed7.0", x)?;
        for index in 1..3 {
            x = module_e(w, &format!("mixed7.{index}"), x)?;
        }
        let x = layers.layer("pool", "global-average-pool", json!({}), &[x])?;
        let x = layers.dropout("dropout", x, self.dropout)?;
        layers.classifier(x, self.classes)
    }
}

fn one(channels: usize) -> (usize, Window) {
    (channels, Window::square(1, 1))
}

fn module_a(w: &mut Layers, name: &str, x: NodeId, pooled: usize) -> Result<NodeId, Error> {
    let a = chain(w, &format!("{name}.a"), x, &[one(64)])?;
    let b = chain(w, &format!("{name}.b"), x, &[one(48), (64, Window::square(5, 1))])?;
    let three = Window::square(3, 1);
    let c = chain(w, &format!("{name}.c"), x, &[one(64), (96, three), (96, three)])?;
    let d = w.average_pool(&format!("{name}.pool"), x, 3, 1, 1)?;
    let d = chain(w, &format!("{name}.d"), d, &[one(pooled)])?;
    concat(w, name, &[a, b, c, d])
}

fn reduce_a(w: &mut Layers, name: &str, x: NodeId) -> Result<NodeId, Error> {
    let a = chain(w, &format!("{name}.a"), x, &[(384, Window::valid(3, 2))])?;
    let pieces = [one(64), (96, Window::square(3, 1)), (96, Window::valid(3, 2))];
    let b = chain(w, &format!("{name}.b"), x, &pieces)?;
    let c = w.max_pool(&format!("{name}.pool"), x, 3, 2, 0)?;
    concat(w, name, &[a, b, c])
}

fn module_c(w: &mut Layers, name: &str, x: NodeId, width: usize) -> Result<NodeId, Error> {
    let (row, column) = (Window::sides(1, 7), Window::sides(7, 1));
    let a = chain(w, &format!("{name}.a"), x, &[one(192)])?;
    let b = chain(w, &format!("{name}.b"), x, &[one(width), (width, row), (192, column)])?;
    let pieces = [one(width), (width, column), (width, row), (width, column), (192, row)];
    let c = chain(w, &format!("{name}.c"), x, &pieces)?;
    let d = w.average_pool(&format!("{name}.pool"), x, 3, 1, 1)?;
    let d = chain(w, &format!("{name}.d"), d, &[one(192)])?;
    concat(w, name, &[a, b, c, d])
}

fn reduce_d(w: &mut Layers, name: &str, x: NodeId) -> Result<NodeId, Error> {
    let a = chain(w, &format!("{name}.a"), x, &[one(192), (320, Window::valid(3, 2))])?;
    let pieces =
        [one(192), (192, Window::sides(1, 7)), (192, Window::sides(7, 1)), (192, Window::valid(3, 2))];
    let b = chain(w, &format!("{name}.b"), x, &pieces)?;
    let c = w.max_pool(&format!("{name}.pool"), x, 3, 2, 0)?;
    concat(w, name, &[a, b, c])
}

fn module_e(w: &mut Layers, name: &str, x: NodeId) -> Result<NodeId, Error> {
    let (row, column) = (Window::sides(1, 3), Window::sides(3, 1));
    let a = chain(w, &format!("{name}.a"), x, &[one(320)])?;
    let b = chain(w, &format!("{name}.b"), x, &[one(384)])?;
    let b1 = chain(w, &format!("{name}.b1"), b, &[(384, row)])?;
    let b2 = chain(w, &format!("{name}.b2"), b, &[(384, column)])?;
    let c = chain(w, &format!("{name}.c"), x, &[one(448), (384, Window::square(3, 1))])?;
    let c1 = chain(w, &format!("{name}.c1"), c, &[(384, row)])?;
    let c2 = chain(w, &format!("{name}.c2"), c, &[(384, column)])?;
    let d = w.average_pool(&format!("{name}.pool"), x, 3, 1, 1)?;
    let d = chain(w, &format!("{name}.d"), d, &[one(192)])?;
    concat(w, name, &[a, b1, b2, c1, c2, d])
}

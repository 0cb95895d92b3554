//! Inception-V4.

use serde::Deserialize;
use serde_json::json;

use super::inception::{chain, concat, image};
use super::{Described, Layers, Window, thousand};
use crate::{Error, Graph, NodeId};

/// Inception-V4.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InceptionV4 {
    #[serde(default = "image")]
    input: [usize; 3],
    #[serde(default = "thousand")]
    classes: usize,
    #[serde(default)]
    dropout: f64,
}

impl Described for InceptionV4 {
    const NAME: &'static str = "inception-v4";
    const SUMMARY: &'static str = "Szegedy et al. 2017, Fig. 9";
    const PARAMETERS: &'static str = "input = [299, 299, 3], classes = 1000, dropout = 0.0";

    fn graph(&self) -> Result<Graph, Error> {
        let (mut layers, x) = Layers::image(self.input)?;
        let w = &mut layers;
        let mut x = stem(w, x)?;
        for index in 0..4 {
            x = module_a(w, &format!("a.{index}"), x)?;
        }
        x = reduce_a(w, "reduce_a", x)?;
        for index in 0..7 {
            x = module_b(w, &format!("b.{index}"), x)?;
        }
        x = reduce_b(w, "reduce_b", x)?;
        for index in 0..3 {
            x = module_c(w, &format!("c.{index}"), x)?;
        }
        let x = layers.layer("pool", "global-average-pool", json!({}), &[x])?;
        let x = layers.dropout("dropout", x, self.dropout)?;
        layers.classifier(x, self.classes)
    }
}

fn one(channels: usize) -> (usize, Window) {
    (channels, Window::square(1, 1))
}

/// Fig. 3.
fn stem(w: &mut Layers, x: NodeId) -> Result<NodeId, Error> {
    let pieces = [(32, Window::valid(3, 2)), (32, Window::valid(3, 1)), (64, Window::square(3, 1))];
    let x = chain(w, "stem0", x, &pieces)?;
    let a = w.max_pool("stem1.pool", x, 3, 2, 0)?;
    let b = chain(w, "stem1.b", x, &[(96, Window::valid(3, 2))])?;
    let x = concat(w, "stem1", &[a, b])?;
    let a = chain(w, "stem2.a", x, &[one(64), (96, Window::valid(3, 1))])?;
    let pieces = [one(64), (64, Window::sides(7, 1)), (64, Window::sides(1, 7)), (96, Window::valid(3, 1))];
    let b = chain(w, "stem2.b", x, &pieces)?;
    let x = concat(w, "stem2", &[a, b])?;
    let a = chain(w, "stem3.a", x, &[(192, Window::valid(3, 2))])?;
    let b = w.max_pool("stem3.pool", x, 3, 2, 0)?;
    concat(w, "stem3", &[a, b])
}

/// Fig. 4.
fn module_a(w: &mut Layers, name: &str, x: NodeId) -> Result<NodeId, Error> {
    let three = Window::square(3, 1);
    let a = w.average_pool(&format!("{name}.pool"), x, 3, 1, 1)?;
    let a = chain(w, &format!("{name}.a"), a, &[one(96)])?;
    let b = chain(w, &format!("{name}.b"), x, &[one(96)])?;
    let c = chain(w, &format!("{name}.c"), x, &[one(64), (96, three)])?;
    let d = chain(w, &format!("{name}.d"), x, &[one(64), (96, three), (96, three)])?;
    concat(w, name, &[a, b, c, d])
}

/// Fig. 7 with k = 192, l = 224, m = 256, n = 384.
fn reduce_a(w: &mut Layers, name: &str, x: NodeId) -> Result<NodeId, Error> {
    let a = w.max_pool(&format!("{name}.pool"), x, 3, 2, 0)?;
    let b = chain(w, &format!("{name}.b"), x, &[(384, Window::valid(3, 2))])?;
    let pieces = [one(192), (224, Window::square(3, 1)), (256, Window::valid(3, 2))];
    let c = chain(w, &format!("{name}.c"), x, &pieces)?;
    concat(w, name, &[a, b, c])
}

/// Fig. 5.
fn module_b(w: &mut Layers, name: &str, x: NodeId) -> Result<NodeId, Error> {
    let (row, column) = (Window::sides(1, 7), Window::sides(7, 1));
    let a = w.average_pool(&format!("{name}.pool"), x, 3, 1, 1)?;
    let a = chain(w, &format!("{name}.a"), a, &[one(128)])?;
    let b = chain(w, &format!("{name}.b"), x, &[one(384)])?;
    let c = chain(w, &format!("{name}.c"), x, &[one(192), (224, row), (256, column)])?;
    let pieces = [one(192), (192, row), (224, column), (224, row), (256, column)];
    let d = chain(w, &format!("{name}.d"), x, &pieces)?;
    concat(w, name, &[a, b, c, d])
}

/// Fig. 8.
fn reduce_b(w: &mut Layers, name: &str, x: NodeId) -> Result<NodeId, Error> {
    let a = w.max_pool(&format!("{name}.pool"), x, 3, 2, 0)?;
    let b = chain(w, &format!("{name}.b"), x, &[one(192), (192, Window::valid(3, 2))])?;
    let pieces =
        [one(256), (256, Window::sides(1, 7)), (320, Window::sides(7, 1)), (320, Window::valid(3, 2))];
    let c = chain(w, &format!("{name}.c"), x, &pieces)?;
    concat(w, name, &[a, b, c])
}

/// Fig. 6.
fn module_c(w: &mut Layers, name: &str, x: NodeId) -> Result<NodeId, Error> {
    let (row, column) = (Window::sides(1, 3), Window::sides(3, 1));
    let a = w.average_pool(&format!("{name}.pool"), x, 3, 1, 1)?;
    let a = chain(w, &format!("{name}.a"), a, &[one(256)])?;
    let b = chain(w, &format!("{name}.b"), x, &[one(256)])?;
    let c = chain(w, &format!("{name}.c"), x, &[one(384)])?;
    let c1 = chain(w, &format!("{name}.c1"), c, &[(256, row)])?;
    let c2 = chain(w, &format!("{name}.c2"), c, &[(256, column)])?;
    let d = chain(w, &format!("{name}.d"), x, &[one(384), (448, row), (512, column)])?;
    let d1 = chain(w, &format!("{name}.d1"), d, &[(256, column)])?;
    let d2 = chain(w, &format!("{name}.d2"), d, &[(256, row)])?;
    concat(w, name, &[a, b, c1, c2, d1, d2])
}

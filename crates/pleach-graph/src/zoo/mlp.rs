//! Fully connected layers.

use serde::Deserialize;
use serde_json::json;

use super::{Described, Layers, ten};
use crate::{Error, Graph};

/// Linear layers with ReLU between them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mlp {
    input: Vec<usize>,
    #[serde(default = "one_layer")]
    hidden: Vec<usize>,
    #[serde(default = "ten")]
    classes: usize,
    #[serde(default)]
    dropout: f64,
}

fn one_layer() -> Vec<usize> {
    vec![128]
}

impl Described for Mlp {
    const NAME: &'static str = "mlp";
    const SUMMARY: &'static str = "fully connected layers with ReLU";
    const PARAMETERS: &'static str = "input = [8, 8, 1], hidden = [128], classes = 10, dropout = 0.0";

    fn graph(&self) -> Result<Graph, Error> {
        let mut graph = Graph::new();
        let image = graph.input("image", self.input.clone())?;
        let mut layers = Layers { graph };
        let mut x = image;
        if self.input.len() > 1 {
            x = layers.layer("flatten", "flatten", json!({}), &[x])?;
        }
        for (index, &features) in self.hidden.iter().enumerate() {
            x = layers.linear(&format!("hidden{index}"), x, features)?;
            x = layers.layer(&format!("relu{index}"), "relu", json!({}), &[x])?;
            x = layers.dropout(&format!("dropout{index}"), x, self.dropout)?;
        }
        layers.classifier(x, self.classes)
    }
}

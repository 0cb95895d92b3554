//! A classifier of sequences.

use serde::Deserialize;
use serde_json::json;

use super::{Described, Layers, ten};
use crate::{Error, Graph};

/// LSTM layers over a series; the last state is classified.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lstm {
    input: [usize; 2],
    #[serde(default = "width")]
    width: usize,
    #[serde(default = "one")]
    layers: usize,
    #[serde(default = "ten")]
    classes: usize,
    #[serde(default)]
    dropout: f64,
}

fn width() -> usize {
    128
}

fn one() -> usize {
    1
}

impl Described for Lstm {
    const NAME: &'static str = "lstm";
    const SUMMARY: &'static str = "Hochreiter and Schmidhuber 1997, with forget gates: classifies series";
    const PARAMETERS: &'static str =
        "input = [length, features], width = 128, layers = 1, classes = 10, dropout = 0.0";

    fn graph(&self) -> Result<Graph, Error> {
        let [length, _] = self.input;
        if self.layers == 0 || length == 0 {
            return Err(Self::refuse("it needs at least one layer and a series of at least one step"));
        }
        let mut graph = Graph::new();
        let series = graph.input("series", self.input)?;
        let mut layers = Layers { graph };
        let mut x = series;
        for index in 0..self.layers {
            x = layers.layer(&format!("lstm{index}"), "lstm", json!({"width": self.width}), &[x])?;
            x = layers.dropout(&format!("dropout{index}"), x, self.dropout)?;
        }
        let attributes = json!({"axis": 1, "from": length - 1, "to": length});
        x = layers.layer("last", "slice", attributes, &[x])?;
        x = layers.layer("flatten", "flatten", json!({}), &[x])?;
        layers.classifier(x, self.classes)
    }
}

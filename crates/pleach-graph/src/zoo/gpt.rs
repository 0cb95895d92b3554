//! A decoder-only transformer.

use serde::Deserialize;
use serde_json::json;

use super::{Described, Layers};
use crate::{Error, Graph, NodeId};

/// Predicts the next token of a text: pre-normalised blocks of causal attention and a perceptron.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gpt {
    #[serde(default = "layers")]
    layers: usize,
    #[serde(default = "width")]
    width: usize,
    #[serde(default = "heads")]
    heads: usize,
    #[serde(default = "length")]
    length: usize,
    #[serde(alias = "classes")]
    tokens: usize,
    #[serde(default)]
    dropout: f64,
}

fn layers() -> usize {
    6
}

fn width() -> usize {
    256
}

fn heads() -> usize {
    8
}

fn length() -> usize {
    256
}

impl Described for Gpt {
    const NAME: &'static str = "gpt";
    const SUMMARY: &'static str = "Radford et al. 2019: a transformer that predicts the next token";
    const PARAMETERS: &'static str =
        "tokens = 65, layers = 6, width = 256, heads = 8, length = 256, dropout = 0.0";

    fn graph(&self) -> Result<Graph, Error> {
        if self.heads == 0 || !self.width.is_multiple_of(self.heads) {
            return Err(Self::refuse(format!(
                "{} heads do not divide a width of {}",
                self.heads, self.width
            )));
        }
        let mut graph = Graph::new();
        let tokens = graph.input("tokens", [self.length])?;
        let mut layers = Layers { graph };
        let attributes = json!({"entries": self.tokens, "width": self.width});
        let x = layers.layer("wte", "embedding", attributes, &[tokens])?;
        let x = layers.layer("wpe", "position", json!({}), &[x])?;
        let mut x = layers.dropout("drop", x, self.dropout)?;
        for index in 0..self.layers {
            x = self.block(&mut layers, &format!("h.{index}"), x)?;
        }
        let x = layers.layer("ln_f", "layer-norm", json!({}), &[x])?;
        let attributes = json!({"features": self.tokens, "bias": false});
        let logits = layers.layer("lm_head", "linear", attributes, &[x])?;
        layers.loss(logits, &[self.length])
    }
}

impl Gpt {
    fn block(&self, layers: &mut Layers, name: &str, x: NodeId) -> Result<NodeId, Error> {
        let y = layers.layer(&format!("{name}.ln_1"), "layer-norm", json!({}), &[x])?;
        let y = layers.linear(&format!("{name}.attn.c_attn"), y, 3 * self.width)?;
        let attributes = json!({"heads": self.heads, "causal": true});
        let y = layers.layer(&format!("{name}.attn"), "attention", attributes, &[y])?;
        let y = layers.linear(&format!("{name}.attn.c_proj"), y, self.width)?;
        let y = layers.dropout(&format!("{name}.attn.drop"), y, self.dropout)?;
        let x = layers.layer(&format!("{name}.add_1"), "add", json!({}), &[x, y])?;
        let y = layers.layer(&format!("{name}.ln_2"), "layer-norm", json!({}), &[x])?;
        let y = layers.linear(&format!("{name}.mlp.c_fc"), y, 4 * self.width)?;
        let y = layers.layer(&format!("{name}.mlp.gelu"), "gelu", json!({}), &[y])?;
        let y = layers.linear(&format!("{name}.mlp.c_proj"), y, self.width)?;
        let y = layers.dropout(&format!("{name}.mlp.drop"), y, self.dropout)?;
        layers.layer(&format!("{name}.add_2"), "add", json!({}), &[x, y])
    }
}

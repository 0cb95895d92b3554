//! Graphs as JSON.
//!
//! ```json
//! {
//!   "version": 1,
//!   "inputs": { "image": [28, 28, 1], "target": [] },
//!   "layers": [
//!     { "name": "flatten", "op": "flatten", "inputs": ["image"] },
//!     { "name": "fc", "op": "linear", "inputs": ["flatten"], "features": 10 },
//!     { "name": "loss", "op": "cross-entropy", "inputs": ["fc", "target"] }
//!   ],
//!   "loss": "loss",
//!   "outputs": { "logits": "fc" }
//! }
//! ```
//! `inputs` gives the shape of one example, without the batch. What a layer has beside `name`, `op`
//! and `inputs` are the attributes of its operation.

use pleach_tensor::Shape;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::graph::NodeKind;
use crate::{Error, Graph, NodeId};

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    inputs: Map<String, Value>,
    layers: Vec<Line>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loss: Option<String>,
    #[serde(default)]
    outputs: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    name: String,
    op: String,
    inputs: Vec<String>,
    #[serde(flatten)]
    attributes: Map<String, Value>,
}

impl Graph {
    /// Reads a graph from its JSON text.
    ///
    /// # Errors
    /// [`Error::Syntax`], [`Error::Duplicate`], [`Error::Unknown`], [`Error::Layer`].
    pub fn from_json(text: &str) -> Result<Graph, Error> {
        let syntax = |reason: String| Error::Syntax { reason };
        let file: File = serde_json::from_str(text).map_err(|error| syntax(error.to_string()))?;
        if file.version != VERSION {
            let reason = format!("its version is {}, and this program reads {VERSION}", file.version);
            return Err(syntax(reason));
        }
        let mut graph = Graph::new();
        for (name, shape) in file.inputs {
            let shape: Shape = serde_json::from_value(shape)
                .map_err(|error| syntax(format!("shape of input {name:?}: {error}")))?;
            graph.input(&name, shape)?;
        }
        let find = |graph: &Graph, reader: &str, name: &str| {
            graph.node(name).ok_or_else(|| Error::Unknown { reader: reader.into(), name: name.into() })
        };
        for line in file.layers {
            let reader = format!("layer {}", line.name);
            let inputs: Vec<NodeId> =
                line.inputs.iter().map(|name| find(&graph, &reader, name)).collect::<Result<_, _>>()?;
            graph.layer(&line.name, &line.op, Value::Object(line.attributes), &inputs)?;
        }
        if let Some(name) = file.loss {
            let loss = find(&graph, "the loss", &name)?;
            graph.set_loss(loss);
        }
        for (output, name) in file.outputs {
            let Value::String(name) = name else {
                return Err(syntax(format!("output {output:?} must name a layer")));
            };
            let node = find(&graph, &format!("output {output}"), &name)?;
            graph.set_output(&output, node);
        }
        Ok(graph)
    }

    /// The graph as JSON text.
    ///
    /// # Panics
    /// Never: attributes of operations are plain data.
    pub fn to_json(&self) -> String {
        let name = |node: NodeId| self.nodes()[node.index()].name.clone();
        let mut file = File {
            version: VERSION,
            inputs: Map::new(),
            layers: Vec::new(),
            loss: self.loss().map(name),
            outputs: Map::new(),
        };
        for node in self.nodes() {
            match &node.kind {
                NodeKind::Input(shape) => {
                    let sizes = serde_json::to_value(shape).expect("numbers are JSON");
                    file.inputs.insert(node.name.clone(), sizes);
                }
                NodeKind::Layer(op) => {
                    let Value::Object(attributes) = op.attributes() else {
                        unreachable!("attributes are an object")
                    };
                    file.layers.push(Line {
                        name: node.name.clone(),
                        op: op.name().into(),
                        inputs: node.inputs.iter().map(|&input| name(input)).collect(),
                        attributes,
                    });
                }
            }
        }
        for (output, node) in self.outputs() {
            file.outputs.insert(output.clone(), Value::String(name(*node)));
        }
        serde_json::to_string_pretty(&file).expect("a graph is plain data")
    }
}

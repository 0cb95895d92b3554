//! Networks as graphs of operations.

use std::collections::HashMap;
use std::sync::Arc;

use pleach_tensor::{Layer, Numerics, Op, Setting, Shape};
use serde_json::Value;

use crate::Error;

/// A network: inputs and layers, each layer after what it reads.
///
/// ```
/// use pleach_graph::Graph;
/// use serde_json::json;
///
/// let mut graph = Graph::new();
/// let x = graph.input("image", [28, 28, 1])?;
/// let target = graph.input("target", [])?;
/// let x = graph.layer("flatten", "flatten", json!({}), &[x])?;
/// let logits = graph.layer("fc", "linear", json!({"features": 10}), &[x])?;
/// let loss = graph.layer("loss", "cross-entropy", json!({}), &[logits, target])?;
/// graph.set_loss(loss);
/// graph.set_output("logits", logits);
/// assert_eq!(graph.parameter_count()?, 7850);
/// # Ok::<(), pleach_graph::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    names: HashMap<String, usize>,
    loss: Option<NodeId>,
    outputs: Vec<(String, NodeId)>,
}

/// An input or a layer of a graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name; parameters are called `NAME.weight` and so on.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// The nodes it reads, all before it.
    pub inputs: Vec<NodeId>,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// Values from outside, of this shape for one example.
    Input(Shape),
    /// An operation on other nodes.
    Layer(Arc<dyn Op>),
}

/// The place of a node in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) usize);

impl NodeId {
    /// The place as a number.
    pub fn index(self) -> usize {
        self.0
    }
}

impl Graph {
    /// A graph without nodes.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// Adds an input; `example` is the shape of one example, without the batch.
    ///
    /// # Errors
    /// [`Error::Duplicate`].
    pub fn input(&mut self, name: &str, example: impl Into<Shape>) -> Result<NodeId, Error> {
        self.push(Node { name: name.into(), kind: NodeKind::Input(example.into()), inputs: vec![] })
    }

    /// Adds a layer: the operation `op` of [`pleach_tensor::OPS`] with its attributes.
    ///
    /// # Errors
    /// [`Error::Duplicate`]; [`Error::Layer`] if there is no such operation or attribute. Whether
    /// shapes fit is found out by [`layers`](Graph::layers).
    pub fn layer(
        &mut self,
        name: &str,
        op: &str,
        attributes: Value,
        inputs: &[NodeId],
    ) -> Result<NodeId, Error> {
        let op = pleach_tensor::op(op, attributes)
            .map_err(|source| Error::Layer { layer: name.into(), source })?;
        self.push(Node { name: name.into(), kind: NodeKind::Layer(op), inputs: inputs.to_vec() })
    }

    fn push(&mut self, node: Node) -> Result<NodeId, Error> {
        let id = self.nodes.len();
        assert!(node.inputs.iter().all(|input| input.0 < id), "nodes are of this graph");
        if self.names.insert(node.name.clone(), id).is_some() {
            return Err(Error::Duplicate { name: node.name });
        }
        self.nodes.push(node);
        Ok(NodeId(id))
    }

    /// Training makes the mean of this node's values small.
    pub fn set_loss(&mut self, loss: NodeId) {
        self.loss = Some(loss);
    }

    /// Gives a node a name under which its values can be read after a pass.
    pub fn set_output(&mut self, name: &str, node: NodeId) {
        self.outputs.retain(|(other, _)| other != name);
        self.outputs.push((name.into(), node));
    }

    /// The nodes, each after what it reads.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.names.get(name).map(|&id| NodeId(id))
    }

    /// The node whose mean is made small.
    pub fn loss(&self) -> Option<NodeId> {
        self.loss
    }

    /// The nodes whose values can be read, by name.
    pub fn outputs(&self) -> &[(String, NodeId)] {
        &self.outputs
    }

    /// Infers the shapes of all nodes and chooses their kernels for a batch, to be trained or for
    /// `inference` only. An input has no layer.
    ///
    /// # Errors
    /// [`Error::Layer`] for the first layer that its inputs do not suit.
    pub fn layers(&self, batch: usize, numerics: Numerics, inference: bool) -> Result<Built, Error> {
        let mut shapes: Vec<Shape> = Vec::with_capacity(self.nodes.len());
        let mut layers = Vec::with_capacity(self.nodes.len());
        for (place, node) in self.nodes.iter().enumerate() {
            let wrong = |source| Error::Layer { layer: node.name.clone(), source };
            let (shape, layer) = match &node.kind {
                NodeKind::Input(example) => {
                    let mut sizes = vec![batch];
                    sizes.extend(example.sizes());
                    let shape = Shape::new(sizes);
                    shape.checked_len(&node.name).map_err(wrong)?;
                    (shape, None)
                }
                NodeKind::Layer(op) => {
                    let inputs: Vec<Shape> =
                        node.inputs.iter().map(|input| shapes[input.0].clone()).collect();
                    let setting = Setting { numerics, place: place as u64, inference };
                    let layer = op.build(&inputs, setting).map_err(wrong)?;
                    (layer.output.clone(), Some(layer))
                }
            };
            shapes.push(shape);
            layers.push(layer);
        }
        Ok(Built { shapes, layers })
    }

    /// The number of values that are learned.
    ///
    /// # Errors
    /// As [`layers`](Graph::layers).
    pub fn parameter_count(&self) -> Result<usize, Error> {
        let built = self.layers(1, Numerics::Direct, true)?;
        let parameters = built.layers.iter().flatten().flat_map(|layer| &layer.parameters);
        Ok(parameters
            .filter(|parameter| parameter.role != pleach_tensor::Role::Average)
            .map(|parameter| parameter.shape.len())
            .sum())
    }

    /// The multiply-adds of a forward pass over one example.
    ///
    /// # Errors
    /// As [`layers`](Graph::layers).
    pub fn macs(&self) -> Result<u64, Error> {
        let built = self.layers(1, Numerics::Direct, true)?;
        Ok(built.layers.iter().flatten().map(|layer| layer.macs).sum())
    }
}

/// The nodes of a graph for a certain batch.
#[derive(Clone, Debug)]
pub struct Built {
    /// The shape of every node's values.
    pub shapes: Vec<Shape>,
    /// The layer of every node; `None` for inputs.
    pub layers: Vec<Option<Layer>>,
}

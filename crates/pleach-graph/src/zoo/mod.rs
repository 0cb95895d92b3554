//! Models by name: one file and one line of [`MODELS`] each.
//!
//! Every model takes the shape of an example and the number of classes, reads the inputs `image` (or
//! `tokens`, or `series`) and `target`, and ends in a loss; `logits` and `accuracy` are its outputs.
//! Layers are called as in the papers' best-known code where that has names.

mod densenet;
mod gpt;
mod inception;
mod inception_v4;
mod lstm;
mod mlp;
mod mobilenet;
mod resnet;
mod resnet_cifar;
mod resnet_preact;
mod unet;
mod vgg;
mod wide_resnet;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{Error, Graph, NodeId, TARGET};

/// All models, by name.
pub const MODELS: &[Model] = &[
    Model::of::<mlp::Mlp>(),
    Model::of::<vgg::Vgg>(),
    Model::of::<resnet::ResNet>(),
    Model::of::<resnet_cifar::CifarResNet>(),
    Model::of::<resnet_preact::PreActResNet>(),
    Model::of::<wide_resnet::WideResNet>(),
    Model::of::<densenet::DenseNet>(),
    Model::of::<inception::InceptionV3>(),
    Model::of::<inception_v4::InceptionV4>(),
    Model::of::<unet::UNet>(),
    Model::of::<mobilenet::MobileNetV3>(),
    Model::of::<gpt::Gpt>(),
    Model::of::<lstm::Lstm>(),
];

/// A line of the zoo.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// The parameters it takes, as a TOML line.
    pub parameters: &'static str,
    build: fn(Value) -> Result<Graph, Error>,
}

/// What a type gives the zoo.
trait Described: DeserializeOwned {
    const NAME: &'static str;
    const SUMMARY: &'static str;
    const PARAMETERS: &'static str;

    /// The network.
    fn graph(&self) -> Result<Graph, Error>;

    /// The error for parameters that do not make a network.
    fn refuse(reason: impl Into<String>) -> Error {
        Error::Model { model: Self::NAME, reason: reason.into() }
    }
}

impl Model {
    const fn of<T: Described>() -> Model {
        Model {
            name: T::NAME,
            summary: T::SUMMARY,
            parameters: T::PARAMETERS,
            build: |parameters| match serde_json::from_value::<T>(parameters) {
                Ok(model) => model.graph(),
                Err(error) => Err(T::refuse(format!("{error}; it takes {}", T::PARAMETERS))),
            },
        }
    }
}

/// The model `name` with its parameters, a JSON object.
///
/// # Errors
/// [`Error::UnknownModel`], [`Error::Model`] for parameters it does not take, and what
/// [`Graph::layer`] says.
pub fn model(name: &str, parameters: Value) -> Result<Graph, Error> {
    match MODELS.iter().find(|model| model.name == name) {
        Some(model) => (model.build)(parameters),
        None => Err(Error::UnknownModel {
            name: name.into(),
            known: MODELS.iter().map(|model| model.name).collect(),
        }),
    }
}

/// An image of 32 × 32 pixels in colour, as in CIFAR.
fn small_image() -> [usize; 3] {
    [32, 32, 3]
}

/// An image of 224 × 224 pixels in colour, as in ImageNet.
fn large_image() -> [usize; 3] {
    [224, 224, 3]
}

fn ten() -> usize {
    10
}

fn thousand() -> usize {
    1000
}

/// The pieces that networks for images are made of; a piece is called by the name of its layers.
struct Layers {
    graph: Graph,
}

/// Where an image is padded so that a stride of 1 keeps its size.
fn same(kernel: [usize; 2]) -> [usize; 2] {
    [kernel[0] / 2, kernel[1] / 2]
}

/// What a convolution is beside its channels.
#[derive(Clone, Copy)]
struct Window {
    kernel: [usize; 2],
    stride: usize,
    padding: [usize; 2],
}

impl Window {
    /// A square window that keeps the size of the image at stride 1.
    fn square(kernel: usize, stride: usize) -> Window {
        Window { kernel: [kernel; 2], stride, padding: same([kernel; 2]) }
    }

    /// A window of any sides that keeps the size of the image.
    fn sides(rows: usize, columns: usize) -> Window {
        Window { kernel: [rows, columns], stride: 1, padding: same([rows, columns]) }
    }

    /// A square window without padding.
    fn valid(kernel: usize, stride: usize) -> Window {
        Window { kernel: [kernel; 2], stride, padding: [0, 0] }
    }
}

impl Layers {
    /// A graph with the input `image`.
    fn image(shape: [usize; 3]) -> Result<(Layers, NodeId), Error> {
        let mut graph = Graph::new();
        let image = graph.input("image", shape)?;
        Ok((Layers { graph }, image))
    }

    fn layer(&mut self, name: &str, op: &str, attributes: Value, inputs: &[NodeId]) -> Result<NodeId, Error> {
        self.graph.layer(name, op, attributes, inputs)
    }

    /// A convolution without bias, for a normalisation to follow.
    fn conv(&mut self, name: &str, x: NodeId, channels: usize, window: Window) -> Result<NodeId, Error> {
        let Window { kernel, stride, padding } = window;
        let attributes = json!({
            "channels": channels, "kernel": kernel, "stride": [stride, stride], "padding": padding, "bias": false,
        });
        self.layer(name, "conv", attributes, &[x])
    }

    fn norm(&mut self, name: &str, x: NodeId) -> Result<NodeId, Error> {
        self.layer(name, "batch-norm", json!({}), &[x])
    }

    /// Normalisation and ReLU.
    fn norm_relu(&mut self, name: &str, x: NodeId) -> Result<NodeId, Error> {
        self.layer(name, "batch-norm", json!({"relu": true}), &[x])
    }

    /// Convolution `NAME.conv`, normalisation and ReLU `NAME.bn`.
    fn conv_norm_relu(
        &mut self,
        name: &str,
        x: NodeId,
        channels: usize,
        window: Window,
    ) -> Result<NodeId, Error> {
        let x = self.conv(&format!("{name}.conv"), x, channels, window)?;
        self.norm_relu(&format!("{name}.bn"), x)
    }

    fn max_pool(
        &mut self,
        name: &str,
        x: NodeId,
        size: usize,
        stride: usize,
        padding: usize,
    ) -> Result<NodeId, Error> {
        let attributes =
            json!({"size": [size, size], "stride": [stride, stride], "padding": [padding, padding]});
        self.layer(name, "max-pool", attributes, &[x])
    }

    fn average_pool(
        &mut self,
        name: &str,
        x: NodeId,
        size: usize,
        stride: usize,
        padding: usize,
    ) -> Result<NodeId, Error> {
        let attributes = json!({
            "size": [size, size], "stride": [stride, stride], "padding": [padding, padding], "count-padding": false,
        });
        self.layer(name, "average-pool", attributes, &[x])
    }

    fn linear(&mut self, name: &str, x: NodeId, features: usize) -> Result<NodeId, Error> {
        self.layer(name, "linear", json!({"features": features}), &[x])
    }

    fn dropout(&mut self, name: &str, x: NodeId, rate: f64) -> Result<NodeId, Error> {
        if rate > 0.0 { self.layer(name, "dropout", json!({"rate": rate}), &[x]) } else { Ok(x) }
    }

    /// Mean over the pixels, then a linear classifier `fc`.
    fn pooled_classifier(mut self, x: NodeId, classes: usize) -> Result<Graph, Error> {
        let x = self.layer("pool", "global-average-pool", json!({}), &[x])?;
        self.classifier(x, classes)
    }

    /// A linear classifier `fc` and its loss.
    fn classifier(mut self, x: NodeId, classes: usize) -> Result<Graph, Error> {
        let logits = self.linear("fc", x, classes)?;
        self.loss(logits, &[])
    }

    /// Cross-entropy between `logits` and the input `target`, which has the shape `rows` for an
    /// example.
    fn loss(mut self, logits: NodeId, rows: &[usize]) -> Result<Graph, Error> {
        let target = self.graph.input(TARGET, rows.to_vec())?;
        let loss = self.layer("loss", "cross-entropy", json!({}), &[logits, target])?;
        let accuracy = self.layer("accuracy", "accuracy", json!({}), &[logits, target])?;
        self.graph.set_loss(loss);
        self.graph.set_output("logits", logits);
        self.graph.set_output("accuracy", accuracy);
        Ok(self.graph)
    }
}

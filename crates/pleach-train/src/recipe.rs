//! Recipes: what a user writes to have a network trained.
//!
//! ```toml
//! [model]                      # a model of the zoo with its parameters, or graph = "net.json"
//! name = "resnet-cifar"
//! depth = 20
//!
//! [solver]
//! name = "sgd"
//! rate = 0.1
//! momentum = 0.9
//! weight-decay = 5e-4
//! schedule = { warmup = 100, shape = "cosine" }
//!
//! [train]
//! epochs = 20
//! batch = 128
//!
//! [data]
//! augment = { crop-padding = 4, flip = true }
//! ```
//! The shape of examples and the number of classes come from the data where the model leaves them
//! out.

use std::path::{Path, PathBuf};

use pleach_graph::Graph;
use pleach_tensor::Numerics;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::data::{self, Augment, Dataset, Part, Target};
use crate::{Error, Solver};

/// How a network is trained, from its model to its data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// A model of the zoo by its `name`, with its parameters; or the JSON file of a `graph`.
    pub model: Map<String, Value>,
    /// How parameters follow gradients.
    pub solver: Solver,
    /// How long, in which portions, and with what arithmetic.
    #[serde(default)]
    pub train: Train,
    /// What is done with the data.
    #[serde(default)]
    pub data: Data,
}

/// How long a network is trained, in which portions, and with what arithmetic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Train {
    /// How often every example is seen.
    pub epochs: u64,
    /// Examples of a step.
    pub batch: usize,
    /// Into how many virtual nodes a batch is cut.
    pub virtual_nodes: usize,
    /// The seed of initial values, dropout, and the order and changes of examples.
    pub seed: u64,
    /// The arithmetic of convolutions.
    pub numerics: Numerics,
    /// Parameters whose names begin with one of these are not learned.
    pub frozen: Vec<String>,
}

impl Default for Train {
    fn default() -> Train {
        Train {
            epochs: 10,
            batch: 64,
            virtual_nodes: 1,
            seed: 0,
            numerics: Numerics::default(),
            frozen: Vec::new(),
        }
    }
}

/// What is done with the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Data {
    /// Examples that are kept for evaluation where the data has no test part: a share below 1, or a
    /// number.
    pub held_out: f64,
    /// Whether inputs are brought to mean 0 and deviation 1, feature by feature.
    pub normalize: bool,
    /// Random changes of images.
    pub augment: Augment,
    /// How files are read.
    #[serde(flatten)]
    pub options: Map<String, Value>,
}

impl Default for Data {
    fn default() -> Data {
        Data { held_out: 0.1, normalize: true, augment: Augment::default(), options: Map::new() }
    }
}

impl Data {
    /// What files are read with.
    fn options(&self, part: Part) -> Result<data::Options, Error> {
        let options: data::Options = serde_json::from_value(Value::Object(self.options.clone()))
            .map_err(|error| Error::Options { reason: format!("data: {error}") })?;
        Ok(data::Options { part, ..options })
    }

    /// The examples to learn from and those to judge by.
    ///
    /// # Errors
    /// [`Error::Data`], [`Error::Options`].
    pub fn open(&self, path: &Path, seed: u64) -> Result<(Dataset, Dataset), Error> {
        let train = data::open(path, &self.options(Part::Train)?)?;
        match data::open(path, &self.options(Part::Test)?) {
            Ok(test) => Ok((train, test)),
            Err(data::Error::NoPart { .. }) => {
                let all = train.len() as f64;
                let count = if self.held_out < 1.0 { all * self.held_out } else { self.held_out };
                if count.is_nan() || count < 1.0 || count >= all {
                    let reason = format!(
                        "held-out is {}: of {all} examples, some must be kept and some be left",
                        self.held_out
                    );
                    return Err(Error::Options { reason });
                }
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "between 1 and the number of examples"
                )]
                let count = count.round() as usize;
                Ok(train.split(count, seed)?)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Recipe {
    /// The network for examples like those of `dataset`. A graph's file is looked for in `folder`.
    ///
    /// # Errors
    /// [`Error::Graph`]; [`Error::Options`] if the model is named in neither way or in both;
    /// [`Error::Read`] for a graph that cannot be read.
    pub fn graph(&self, dataset: &Dataset, folder: &Path) -> Result<Graph, Error> {
        let mut parameters = self.model.clone();
        let (name, file) = (parameters.remove("name"), parameters.remove("graph"));
        match (name, file) {
            (Some(Value::String(name)), None) => {
                fill(&name, &mut parameters, dataset);
                Ok(pleach_graph::model(&name, Value::Object(parameters))?)
            }
            (None, Some(Value::String(file))) if parameters.is_empty() => {
                let path: PathBuf = folder.join(file);
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| Error::Read { path: path.clone(), reason: error.to_string() })?;
                Ok(Graph::from_json(&text)?)
            }
            _ => Err(Error::Options {
                reason: "model needs a name and its parameters, or the file of a graph and nothing else"
                    .into(),
            }),
        }
    }
}

/// Gives a model what it does not say of the data.
fn fill(name: &str, parameters: &mut Map<String, Value>, dataset: &Dataset) {
    let mut give = |key: &str, value: Value| {
        if !parameters.contains_key(key) {
            parameters.insert(key.into(), value);
        }
    };
    match dataset.target() {
        Target::Classes(classes) => {
            give("input", json!(dataset.input_shape()));
            give("classes", json!(classes.len()));
        }
        Target::Tokens(symbols) if name == "gpt" => {
            give("tokens", json!(symbols.len()));
            give("length", json!(dataset.input_len()));
        }
        _ => give("input", json!(dataset.input_shape())),
    }
}

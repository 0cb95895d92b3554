//! What can go wrong.

/// What can go wrong when a network is put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation does not suit its place.
    #[error("layer {layer}: {source}")]
    Layer {
        /// The name of the layer.
        layer: String,
        /// What its operation says.
        source: pleach_tensor::Error,
    },
    /// A name is used twice.
    #[error("two layers are called {name:?}; names must differ")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A layer reads something that does not exist before it.
    #[error("{reader} reads {name:?}, but no layer or input before it has this name")]
    Unknown {
        /// Who reads.
        reader: String,
        /// What is read.
        name: String,
    },
    /// The text of a graph cannot be read.
    #[error("this is not a graph: {reason}")]
    Syntax {
        /// What is wrong, and where.
        reason: String,
    },
    /// The graph cannot be trained or evaluated as it stands.
    #[error("{reason}")]
    Graph {
        /// What is wrong.
        reason: String,
    },
    /// There is no such model.
    #[error("there is no model {name:?}; the models are {}", known.join(", "))]
    UnknownModel {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// A parameter of a model is unknown or out of range.
    #[error("model {model}: {reason}")]
    Model {
        /// The model.
        model: &'static str,
        /// What is wrong.
        reason: String,
    },
}

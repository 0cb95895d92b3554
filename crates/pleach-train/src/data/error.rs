//! What can go wrong with data.

use std::io;
use std::path::{Path, PathBuf};

use super::Part;

/// What can go wrong with data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A file or folder is not what its name says, or it is damaged.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// One record of a file is damaged or does not fit the others.
    #[error("{}, {record}: {reason}", path.display())]
    Record {
        /// The file or folder.
        path: PathBuf,
        /// The record: `image 17`, `line 3, column age` or `train/cat/1.jpg`.
        record: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Nothing here looks like a data set.
    #[error("{} is no data set of a known format: {looked_for}", path.display())]
    Unrecognized {
        /// The file or folder.
        path: PathBuf,
        /// What it could have been.
        looked_for: String,
    },
    /// A data set has examples, but not those for training or not those for testing.
    #[error("{} has no {part} part; split the other part, or give the path of one", path.display())]
    NoPart {
        /// The file or folder.
        path: PathBuf,
        /// The part that was asked for.
        part: Part,
    },
    /// There are fewer examples than are asked for.
    #[error("{} has {examples} examples, and {wanted} are needed for {what}; ask for fewer", path.display())]
    TooFew {
        /// The file or folder.
        path: PathBuf,
        /// How many there are.
        examples: usize,
        /// How many are asked for.
        wanted: usize,
        /// What for.
        what: &'static str,
    },
    /// An option does not suit the data.
    #[error("{option}: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The system does not give a thread.
    #[error("the system does not start the thread that loads data")]
    Thread(#[source] io::Error),
}

impl Error {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Read { path: path.to_owned(), source }
    }

    pub(crate) fn format(path: &Path, reason: impl Into<String>) -> Error {
        Error::Format { path: path.to_owned(), reason: reason.into() }
    }

    pub(crate) fn record(path: &Path, record: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Record { path: path.to_owned(), record: record.into(), reason: reason.into() }
    }
}

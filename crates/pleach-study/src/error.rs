//! The errors of this crate.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::State;

/// What can go wrong with a study.
///
/// Every error travels from the owner of a file to its clients, so these are plain values.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Error {
    /// A space, point, option or measurement is wrong.
    #[error(transparent)]
    #[serde(skip)]
    Search(pleach_search::Error),
    /// The owner of the file refused a request.
    #[error("{message}")]
    Refused {
        /// What is wrong with it.
        message: String,
    },
    /// A command cannot be run as it is written.
    #[error("{message}")]
    Command {
        /// What is wrong with it and what to write instead.
        message: String,
    },
    /// Every point of a finite space has been proposed.
    #[error("the space is exhausted: all {points} points have been proposed")]
    Exhausted {
        /// Number of distinct points proposed.
        points: u64,
    },
    /// The study has no trial of that number.
    #[error("there is no trial {number}; the study has {trials} trials, counted from 0")]
    NoTrial {
        /// The number asked for.
        number: u64,
        /// Number of trials.
        trials: u64,
    },
    /// The trial is over.
    #[error("trial {number} is {state} already; its outcome does not change any more")]
    Over {
        /// The trial.
        number: u64,
        /// How it ended.
        state: State,
    },
    /// The trial was not handed out, so there is nothing to tell.
    #[error("trial {number} is {state}, so nobody can tell its outcome; ask for it first")]
    NotRunning {
        /// The trial.
        number: u64,
        /// Where it stands.
        state: State,
    },
    /// What was measured cannot be used; the trial may be told again.
    #[error("trial {number}: {message}")]
    Unusable {
        /// The trial.
        number: u64,
        /// What is wrong with it.
        message: String,
    },
    /// The trial was taken from this worker and handed out to another.
    #[error(
        "trial {number} was handed out again: attempt {current} is running, and attempt {attempt} comes too late"
    )]
    Superseded {
        /// The trial.
        number: u64,
        /// The attempt that tells.
        attempt: u32,
        /// The attempt that runs.
        current: u32,
    },
    /// A study of that name exists and searches something else.
    #[error("study {name} exists and differs: {}; give the new one another name, or edit the space of the old one", differences.join("; "))]
    SpecDiffers {
        /// The study.
        name: String,
        /// What differs, one entry each.
        differences: Vec<String>,
    },
    /// The file has no study of that name.
    #[error("{path} has no study called {name}; {}", known_studies(known))]
    NoStudy {
        /// The file.
        path: PathBuf,
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// The file has several studies, and none was named.
    #[error("{path} has several studies, name one: {}", known.join(", "))]
    ManyStudies {
        /// The file.
        path: PathBuf,
        /// Their names.
        known: Vec<String>,
    },
    /// There is no such file.
    #[error("there is no study file {path}")]
    NoFile {
        /// The file.
        path: PathBuf,
    },
    /// The file is something else than a study.
    #[error("{path} is not a study: {message}")]
    NotAStudy {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// The file was written by a later version.
    #[error("{path} has format {found}, and this version of Pleach reads up to {known}; update Pleach")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The latest format known here.
        known: i64,
    },
    /// The file is damaged, or was edited by hand in a way that cannot be right.
    #[error(
        "{path} is damaged: {message}; put back a copy, or save what can be read with an export and start anew"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found, with the trial where it is one.
        message: String,
    },
    /// The file lies on a network file system, whose locks cannot be trusted.
    #[error(
        "{path} lies on a network file system ({filesystem}), where locks and shared memory cannot be trusted; put the study on a local disk, and let other machines send their results to the process that owns it"
    )]
    NetworkFolder {
        /// The file.
        path: PathBuf,
        /// The kind of file system.
        filesystem: String,
    },
    /// The folder or file cannot be written.
    #[error(
        "{path} cannot be written ({message}); reading works, and to go on, copy the study to a folder that can be written"
    )]
    ReadOnly {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        message: String,
    },
    /// The disk is full; nothing of the request was recorded.
    #[error(
        "the disk of {path} is full, and nothing of this request was recorded; free some space and try again"
    )]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// Another program holds a lock on the database.
    #[error("another program is writing to {path}; close it and try again")]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The process that owns the file does not answer.
    #[error("{path} is owned by process {pid}, which has not answered for {seconds} s; continue or end it")]
    Silent {
        /// The file.
        path: PathBuf,
        /// The owner.
        pid: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The process that owns the file speaks another protocol.
    #[error("{path} is owned by another version of Pleach ({owner}); end it, or use that version here too")]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// The version of the owner.
        owner: String,
    },
    /// The database failed in another way.
    #[error("{path}: {message}")]
    Database {
        /// The file.
        path: PathBuf,
        /// What the database said.
        message: String,
    },
    /// The system refused an operation.
    #[error("cannot {action} {path}")]
    Io {
        /// What was tried, such as `create`.
        action: String,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        #[serde(with = "io_text")]
        source: Arc<io::Error>,
    },
    /// The study was closed, or its file can no longer be used after an earlier error.
    #[error("the study is closed")]
    Closed,
}

fn known_studies(known: &[String]) -> String {
    if known.is_empty() { "it has none".into() } else { format!("it has {}", known.join(", ")) }
}

impl From<pleach_search::Error> for Error {
    fn from(error: pleach_search::Error) -> Self {
        match error {
            pleach_search::Error::Exhausted { points } => Error::Exhausted { points },
            pleach_search::Error::Trial { number, message } => Error::Unusable { number, message },
            other => Error::Search(other),
        }
    }
}

impl Error {
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Error::Refused { message: message.into() }
    }

    /// Whether the file failed, rather than the request being refused.
    pub(crate) fn is_of_file(&self) -> bool {
        matches!(
            self,
            Error::Damaged { .. }
                | Error::ReadOnly { .. }
                | Error::DiskFull { .. }
                | Error::Busy { .. }
                | Error::Database { .. }
                | Error::Io { .. }
        )
    }

    /// The error as a client can read it: one of the search becomes its text.
    pub(crate) fn for_wire(self) -> Self {
        match self {
            Error::Search(error) => Error::refused(error.to_string()),
            other => other,
        }
    }

    pub(crate) fn io(action: &str, path: &Path, source: io::Error) -> Self {
        Error::Io { action: action.to_owned(), path: path.to_owned(), source: Arc::new(source) }
    }
}

/// System errors as text.
mod io_text {
    use std::io;

    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(error: &Arc<io::Error>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&error.to_string())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<io::Error>, D::Error> {
        Ok(Arc::new(io::Error::other(String::deserialize(deserializer)?)))
    }
}

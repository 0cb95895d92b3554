//! Looking at studies without taking part.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{BestTrial, Error, Progress, Spec, State, TrialRecord};

/// One study of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyInfo {
    /// Its name.
    pub name: String,
    /// The registered name of its method.
    pub method: String,
    /// When it was created, in Unix milliseconds.
    pub created_ms: i64,
    /// Number of trials, whatever their state.
    pub trials: u64,
}

/// Which trials to list; the default lists all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only these states; none means all.
    pub states: Vec<State>,
    /// Only numbers from here on.
    pub from: u64,
    /// At most so many.
    pub limit: Option<usize>,
    /// The last ones instead of the first, still in order of number.
    pub newest: bool,
}

/// An intermediate report of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportRecord {
    /// The step it belongs to.
    pub step: u64,
    /// Its values: declared metrics in their order, then others by name.
    #[serde(with = "crate::trial::pairs")]
    pub metrics: Vec<(String, f64)>,
}

/// What [`Reader::doctor`] found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What was examined, such as `integrity` or `leases`.
    pub check: String,
    /// Whether all is well.
    pub ok: bool,
    /// What was found, and what to do about it.
    pub message: String,
}

/// Read-only access to a file of studies, also while another process owns it, and in folders that
/// cannot be written. Every call sees the file as of then.
#[derive(Debug)]
pub struct Reader {}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::NoFile`], [`Error::NotAStudy`], [`Error::Newer`], [`Error::Damaged`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        todo!("{path:?}")
    }

    /// The file.
    pub fn path(&self) -> &Path {
        todo!()
    }

    /// All studies, by age.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn studies(&self) -> Result<Vec<StudyInfo>, Error> {
        todo!()
    }

    /// What a study searches, edits of the space included. Here and below the name may be left out
    /// if the file holds one study.
    ///
    /// # Errors
    /// [`Error::NoStudy`], [`Error::ManyStudies`], errors of the file.
    pub fn spec(&self, name: Option<&str>) -> Result<Spec, Error> {
        todo!("{name:?}")
    }

    /// The trials that pass `filter`, by number.
    ///
    /// # Errors
    /// As [`Reader::spec`]; [`Error::Damaged`] for a trial that cannot be read.
    pub fn trials(&self, name: Option<&str>, filter: &Filter) -> Result<Vec<TrialRecord>, Error> {
        todo!("{name:?} {filter:?}")
    }

    /// Calls `visit` with each trial that passes `filter`, by number, without holding all at once.
    ///
    /// # Errors
    /// As [`Reader::trials`], and what `visit` returns.
    pub fn for_each<E: From<Error>>(
        &self,
        name: Option<&str>,
        filter: &Filter,
        visit: impl FnMut(TrialRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let _ = visit;
        todo!("{name:?} {filter:?}")
    }

    /// One trial.
    ///
    /// # Errors
    /// [`Error::NoTrial`]; as [`Reader::trials`].
    pub fn trial(&self, name: Option<&str>, number: u64) -> Result<TrialRecord, Error> {
        todo!("{name:?} {number}")
    }

    /// The intermediate reports of a trial, by step.
    ///
    /// # Errors
    /// [`Error::NoTrial`]; as [`Reader::trials`].
    pub fn reports(&self, name: Option<&str>, number: u64) -> Result<Vec<ReportRecord>, Error> {
        todo!("{name:?} {number}")
    }

    /// The best point of a study, once one was measured.
    ///
    /// # Errors
    /// As [`Reader::trials`].
    pub fn best(&self, name: Option<&str>) -> Result<Option<BestTrial>, Error> {
        todo!("{name:?}")
    }

    /// How far a study is.
    ///
    /// # Errors
    /// As [`Reader::trials`].
    pub fn progress(&self, name: Option<&str>) -> Result<Progress, Error> {
        todo!("{name:?}")
    }

    /// Examines a file, also one that cannot be opened: the database, gaps and unreadable trials,
    /// leases, lock and socket, file system, clock.
    pub fn doctor(path: &Path) -> Vec<Finding> {
        todo!("{path:?}")
    }
}

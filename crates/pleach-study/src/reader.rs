//! Looking at studies without taking part.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use pleach_search::{History, Search, Space};
use serde::{Deserialize, Serialize};

use crate::best::best_trial;
use crate::engine::pick;
use crate::live::owned;
use crate::place::Place;
use crate::record::{Name, origin_text, spell};
use crate::replay::{Purpose, replay};
use crate::store::{Row, Store, StudyRow};
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

/// Read-only access to a file of studies, also while another process owns it, and in folders that
/// cannot be written. Every call sees the file as of then.
#[derive(Debug)]
pub struct Reader {
    store: Store,
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::NoFile`], [`Error::NotAStudy`], [`Error::Newer`], [`Error::Damaged`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { store: Store::read(&Place::existing(path)?)? })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.store.path()
    }

    /// All studies, by age.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn studies(&self) -> Result<Vec<StudyInfo>, Error> {
        let rows = self.store.studies()?;
        let info = |row: StudyRow| {
            let trials = self.store.counts(row.id)?.into_iter().map(|(_, count)| count).sum();
            Ok(StudyInfo { name: row.name, method: row.spec.method, created_ms: row.created_ms, trials })
        };
        rows.into_iter().map(info).collect()
    }

    /// What a study searches, edits of the space included. Here and below the name may be left out
    /// if the file holds one study.
    ///
    /// # Errors
    /// [`Error::NoStudy`], [`Error::ManyStudies`], errors of the file.
    pub fn spec(&self, name: Option<&str>) -> Result<Spec, Error> {
        Ok(self.study(name)?.1)
    }

    /// What a study searched when it was created, before any edit of its space.
    ///
    /// # Errors
    /// As [`Reader::spec`].
    pub fn first_spec(&self, name: Option<&str>) -> Result<Spec, Error> {
        Ok(pick(&self.store, name)?.spec)
    }

    /// The trials that pass `filter`, by number.
    ///
    /// # Errors
    /// As [`Reader::spec`]; [`Error::Damaged`] for a trial that cannot be read.
    pub fn trials(&self, name: Option<&str>, filter: &Filter) -> Result<Vec<TrialRecord>, Error> {
        let mut trials = Vec::new();
        self.for_each(name, filter, |trial| {
            trials.push(trial);
            Ok::<(), Error>(())
        })?;
        Ok(trials)
    }

    /// Calls `visit` with each trial that passes `filter`, by number, without holding all at once.
    ///
    /// Trials that cannot be read are left out, so that all others can be saved from a damaged file.
    ///
    /// # Errors
    /// What `visit` returns; as [`Reader::trials`], once all that can be read was visited.
    pub fn for_each<E: From<Error>>(
        &self,
        name: Option<&str>,
        filter: &Filter,
        mut visit: impl FnMut(TrialRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let (id, spec) = self.study(name)?;
        let space = spec.space().map_err(Error::from)?;
        let limit = filter.limit.unwrap_or(usize::MAX);
        let passes = |state: State| filter.states.is_empty() || filter.states.contains(&state);
        let from = if filter.newest { self.newest(id, filter, limit)? } else { filter.from };
        let mut left = limit;
        // Reading ends early by an error that is none.
        let mut failure = None;
        let (mut unreadable, mut first_fault) = (0_u64, String::new());
        let read = self.store.each_row(id, from..u64::MAX, |number, row| {
            if left == 0 {
                return Err(Stop::Enough);
            }
            let passing = match row {
                Ok(row) if !passes(row.state) => return Ok(()),
                Ok(row) => Self::record(&spec, &space, row),
                Err(message) => Err(message),
            };
            let record = match passing {
                Ok(record) => record,
                Err(message) => {
                    if unreadable == 0 {
                        first_fault = format!("trial {number}: {message}");
                    }
                    unreadable += 1;
                    return Ok(());
                }
            };
            left -= 1;
            visit(record).map_err(|error| {
                failure = Some(error);
                Stop::Enough
            })
        });
        match (failure, read) {
            (Some(error), _) => Err(error),
            (None, Err(Stop::Error(error))) => Err(error.into()),
            (None, Ok(()) | Err(Stop::Enough)) if unreadable == 0 => Ok(()),
            (None, Ok(()) | Err(Stop::Enough)) => {
                if unreadable > 1 {
                    first_fault =
                        format!("{unreadable} trials cannot be read, the first of them {first_fault}");
                }
                Err(self.store.damaged(first_fault).into())
            }
        }
    }

    /// One trial.
    ///
    /// # Errors
    /// [`Error::NoTrial`]; as [`Reader::trials`].
    pub fn trial(&self, name: Option<&str>, number: u64) -> Result<TrialRecord, Error> {
        let (id, spec) = self.study(name)?;
        let space = spec.space()?;
        let mut found = None;
        self.store.each_row(id, number..number.saturating_add(1), |number, row| {
            let row = row.map_err(|message| self.damaged(number, &message))?;
            found = Some(Self::record(&spec, &space, row).map_err(|message| self.damaged(number, &message))?);
            Ok::<(), Error>(())
        })?;
        match found {
            Some(record) => Ok(record),
            None => Err(Error::NoTrial { number, trials: self.store.next_number(id)? }),
        }
    }

    /// The intermediate reports of a trial, by step.
    ///
    /// # Errors
    /// [`Error::NoTrial`]; as [`Reader::trials`].
    pub fn reports(&self, name: Option<&str>, number: u64) -> Result<Vec<ReportRecord>, Error> {
        let (id, spec) = self.study(name)?;
        let trials = self.store.next_number(id)?;
        if number >= trials {
            return Err(Error::NoTrial { number, trials });
        }
        let named = |metrics: Vec<(Name, f64)>| {
            metrics.iter().map(|(name, value)| (spell(name, &spec.metrics), *value)).collect()
        };
        let reports = self.store.reports(id, number, false)?;
        Ok(reports
            .into_iter()
            .map(|(step, metrics)| ReportRecord { step, metrics: named(metrics) })
            .collect())
    }

    /// The best point of a study, once one was measured.
    ///
    /// # Errors
    /// As [`Reader::trials`].
    pub fn best(&self, name: Option<&str>) -> Result<Option<BestTrial>, Error> {
        let study = pick(&self.store, name)?;
        let replayed = replay(&self.store, &study, Purpose::Look)?;
        let history = replayed.search.history();
        history.best().map(|best| best_trial(&self.store, study.id, history, best)).transpose()
    }

    /// Every trial of a study as methods see it.
    ///
    /// # Errors
    /// As [`Reader::trials`].
    pub fn history(&self, name: Option<&str>) -> Result<History, Error> {
        let replayed = replay(&self.store, &pick(&self.store, name)?, Purpose::Look)?;
        Ok(replayed.search.history().clone())
    }

    /// The search of a study: as it is now, or as it was when it was about to be asked for trial
    /// `before`. It is a copy; what is asked of it changes nothing in the file.
    ///
    /// This replays what came after the last snapshot, or all of it.
    ///
    /// # Errors
    /// [`Error::NoTrial`]; as [`Reader::trials`].
    pub fn search(&self, name: Option<&str>, before: Option<u64>) -> Result<Search, Error> {
        let study = pick(&self.store, name)?;
        let Some(number) = before else { return Ok(replay(&self.store, &study, Purpose::Continue)?.search) };
        let trials = self.store.next_number(study.id)?;
        if number >= trials {
            return Err(Error::NoTrial { number, trials });
        }
        Ok(replay(&self.store, &study, Purpose::Before(number))?.search)
    }

    /// How far a study is.
    ///
    /// # Errors
    /// As [`Reader::trials`].
    pub fn progress(&self, name: Option<&str>) -> Result<Progress, Error> {
        let study = pick(&self.store, name)?;
        let counts: BTreeMap<State, u64> = self.store.counts(study.id)?.into_iter().collect();
        Ok(Progress { trials: counts.values().sum(), counts, best: self.best(Some(&study.name))? })
    }

    /// The id of a study, and what it searches now.
    fn study(&self, name: Option<&str>) -> Result<(i64, Spec), Error> {
        let StudyRow { id, mut spec, .. } = pick(&self.store, name)?;
        if let Some((_, parameters)) = self.store.revisions(id)?.pop() {
            spec.parameters = parameters;
        }
        Ok((id, spec))
    }

    /// The number from which on `limit` trials pass.
    fn newest(&self, study: i64, filter: &Filter, limit: usize) -> Result<u64, Error> {
        let mut last = VecDeque::new();
        self.store.each_row(study, filter.from..u64::MAX, |number, row| {
            if row.is_ok_and(|row| filter.states.is_empty() || filter.states.contains(&row.state)) {
                last.push_back(number);
                if last.len() > limit {
                    last.pop_front();
                }
            }
            Ok::<(), Error>(())
        })?;
        Ok(last.front().copied().unwrap_or(u64::MAX))
    }

    /// The trial of a row, or what is wrong with it.
    fn record(spec: &Spec, space: &Space, row: Row) -> Result<TrialRecord, String> {
        let Row { number, state, mut record, .. } = row;
        let values = std::mem::take(&mut record.values);
        let point = space.point(values).map_err(|error| error.to_string())?;
        Ok(TrialRecord {
            number,
            state,
            params: owned(space.literals(&point)),
            metrics: record.named_metrics(&spec.metrics),
            sem: record.sem,
            cost: record.cost,
            features: record.features,
            failure: record.failure,
            origin: origin_text(&record.origin),
            attempt: record.attempt,
            worker: record.worker,
            created_ms: record.created_ms,
            started_ms: record.started_ms,
            ended_ms: record.ended_ms,
            error: record.error,
            peak_rss_bytes: record.peak_rss_bytes,
        })
    }

    fn damaged(&self, number: u64, message: &str) -> Error {
        self.store.damaged(format!("trial {number}: {message}"))
    }
}

/// Why reading stopped.
enum Stop {
    Enough,
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Error(error)
    }
}

//! Examining a file of studies, also one that cannot be opened.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::engine::now_ms;
use crate::network;
use crate::place::{Lock, Place};
use crate::process::{Holder, Life, Term};
use crate::replay::{Purpose, replay};
use crate::store::{Store, StudyRow};
use crate::{Error, Reader, State, socket};

/// What [`Reader::doctor`] found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What was examined, such as `database` or `leases`.
    pub check: String,
    /// Whether all is well.
    pub ok: bool,
    /// What was found, and what to do about it.
    pub message: String,
}

impl Finding {
    fn new(check: &str, ok: bool, message: impl Into<String>) -> Self {
        Self { check: check.to_owned(), ok, message: message.into() }
    }
}

impl Reader {
    /// Examines a file, also one that cannot be opened: file system, owner, database, gaps and
    /// unreadable trials, leases, clock. Nothing is changed.
    pub fn doctor(path: &Path) -> Vec<Finding> {
        let place = match Place::existing(path) {
            Ok(place) => place,
            Err(error) => return vec![Finding::new("file", false, error.to_string())],
        };
        let mut findings = vec![filesystem(&place), owner(&place)];
        match Store::read(&place) {
            Err(error) => findings.push(Finding::new("database", false, error.to_string())),
            Ok(store) => {
                findings.push(database(&store));
                match store.studies() {
                    Err(error) => findings.push(Finding::new("studies", false, error.to_string())),
                    Ok(studies) => {
                        for study in &studies {
                            findings.push(trials(&store, study));
                            findings.push(leases(&store, study));
                            findings.extend(clock(&store, study));
                        }
                    }
                }
            }
        }
        findings
    }
}

fn filesystem(place: &Place) -> Finding {
    match network::filesystem_of(place.file()) {
        None => Finding::new("file system", true, "the file is on a local file system"),
        Some(filesystem) => {
            let error = Error::NetworkFolder { path: place.file().to_owned(), filesystem };
            Finding::new("file system", false, error.to_string())
        }
    }
}

fn owner(place: &Place) -> Finding {
    let leftover = place.socket().exists();
    let owned = place.lock_file().exists().then(|| Lock::try_take(place));
    match owned {
        Some(Ok(None)) if socket::answers(place, socket::SLOW) => {
            Finding::new("owner", true, format!("process {} owns the file and answers", Lock::holder(place)))
        }
        Some(Ok(None)) => {
            let message = format!(
                "process {} owns the file and does not answer; if it is neither starting nor ending, continue or end it",
                Lock::holder(place)
            );
            Finding::new("owner", false, message)
        }
        Some(Err(error)) => Finding::new("owner", false, error.to_string()),
        Some(Ok(Some(_))) | None if leftover => {
            let message = "nobody owns the file; the socket of a process that died is left, and the next owner replaces it";
            Finding::new("owner", true, message)
        }
        Some(Ok(Some(_))) | None => Finding::new("owner", true, "nobody owns the file"),
    }
}

fn database(store: &Store) -> Finding {
    match store.integrity() {
        Ok(faults) if faults.is_empty() => Finding::new("database", true, "it is sound"),
        Ok(faults) => {
            let message =
                format!("put back a copy, or save what can be read with an export: {}", faults.join("; "));
            Finding::new("database", false, message)
        }
        Err(error) => Finding::new("database", false, error.to_string()),
    }
}

/// Every row reads, none is missing, and the events follow each other.
fn trials(store: &Store, study: &StudyRow) -> Finding {
    let check = format!("trials of {}", study.name);
    let mut faults = Vec::new();
    let mut next = 0;
    let read = store.each_row::<Error>(study.id, 0..u64::MAX, |number, row| {
        if number > next {
            faults.push(format!("trials {next} to {} are missing", number - 1));
        }
        next = number + 1;
        if let Err(message) = row {
            faults.push(format!("trial {number}: {message}"));
        }
        Ok(())
    });
    if faults.is_empty()
        && let Err(error) = read.and_then(|()| replay(store, study, Purpose::Look).map(drop))
    {
        faults.push(error.to_string());
    }
    if faults.is_empty() {
        return Finding::new(&check, true, format!("all {next} can be read"));
    }
    let more = faults.len().saturating_sub(5);
    faults.truncate(5);
    if more > 0 {
        faults.push(format!("and {more} more"));
    }
    Finding::new(&check, false, faults.join("; "))
}

fn leases(store: &Store, study: &StudyRow) -> Finding {
    let check = format!("leases of {}", study.name);
    let (mut held, mut gone) = (0, Vec::new());
    let read = store.each_row::<Error>(study.id, 0..u64::MAX, |number, row| {
        let Ok(row) = row else { return Ok(()) };
        match row.record.holder {
            Some(Holder { process, term: Term::Process, .. })
                if row.state == State::Running && process.life() == Life::Dead =>
            {
                gone.push(number);
            }
            _ if row.state == State::Running => held += 1,
            _ => {}
        }
        Ok(())
    });
    if let Err(error) = read {
        return Finding::new(&check, false, error.to_string());
    }
    let message = if gone.is_empty() {
        format!("{held} trials are running, none of a worker that died")
    } else {
        let gone: Vec<String> = gone.iter().map(u64::to_string).collect();
        format!(
            "{held} trials are running; those of workers that died are handed out again by the next run: {}",
            gone.join(", ")
        )
    };
    Finding::new(&check, true, message)
}

/// Times are for information only, so a clock that was set back does no harm but is worth knowing.
fn clock(store: &Store, study: &StudyRow) -> Option<Finding> {
    let (mut latest, mut backwards, mut last) = (study.created_ms, 0, i64::MIN);
    let read = store.each_row::<Error>(study.id, 0..u64::MAX, |_, row| {
        if let Ok(row) = row {
            let created = row.record.created_ms;
            backwards += u64::from(created < last);
            last = created;
            latest = latest.max(created);
        }
        Ok(())
    });
    read.ok()?;
    let check = format!("clock of {}", study.name);
    if latest > now_ms() {
        let message =
            format!("some times lie {} s in the future; check the clock", (latest - now_ms()) / 1000);
        return Some(Finding::new(&check, false, message));
    }
    if backwards > 0 {
        let message =
            format!("the clock went backwards {backwards} times; only the times that are shown suffer");
        return Some(Finding::new(&check, true, message));
    }
    None
}

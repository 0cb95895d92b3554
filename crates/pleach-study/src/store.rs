//! Statements on the database: rows in, rows out.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pleach_search::Parameter;
use rusqlite::{Connection, OptionalExtension, Params, named_params, params};

use crate::codec::Take;
use crate::place::Place;
use crate::record::{Name, Record, put_metrics, take_metrics};
use crate::{Durability, Error, Spec, State, schema};

/// Bits of a trial's id that hold its number.
const NUMBER_BITS: u32 = 40;

/// The row of a study.
#[derive(Debug)]
pub(crate) struct StudyRow {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) created_ms: i64,
    /// As it was created; see [`Store::revisions`].
    pub(crate) spec: Spec,
}

/// The row of a trial.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) number: u64,
    pub(crate) state: State,
    /// Place of its ask among the events of the study, from 1.
    pub(crate) ask_seq: u64,
    /// Place of its tell, once it is over.
    pub(crate) tell_seq: Option<u64>,
    pub(crate) record: Record,
}

/// The state of a method at some event.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) seq: u64,
    pub(crate) data: Vec<u8>,
}

/// The step of an intermediate report, and its values.
pub(crate) type StoredReport = (u64, Vec<(Name, f64)>);

/// An open file of studies.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Connection,
    path: PathBuf,
    /// Device and inode of the file when it was opened.
    identity: Option<(u64, u64)>,
}

impl Store {
    /// Opens the file as its owner.
    pub(crate) fn open(place: &Place, durability: Durability) -> Result<Self, Error> {
        let mut connection = schema::open_to_write(place, durability)?;
        crate::failpoint::install(&mut connection);
        Ok(Self::of(connection, place))
    }

    /// Opens the file for reading.
    pub(crate) fn read(place: &Place) -> Result<Self, Error> {
        Ok(Self::of(schema::open_to_read(place)?, place))
    }

    fn of(connection: Connection, place: &Place) -> Self {
        let path = place.file().to_owned();
        Self { connection, identity: identity(&path), path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// An error about what the file holds.
    pub(crate) fn damaged(&self, message: impl Into<String>) -> Error {
        Error::Damaged { path: self.path.clone(), message: message.into() }
    }

    fn wrap(&self, error: &rusqlite::Error) -> Error {
        schema::database_error(&self.path, error)
    }

    fn execute(&self, sql: &str, params: impl Params) -> Result<usize, Error> {
        let mut statement = self.connection.prepare_cached(sql).map_err(|error| self.wrap(&error))?;
        statement.execute(params).map_err(|error| self.wrap(&error))
    }

    fn query<T>(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Error> {
        let mut statement = self.connection.prepare_cached(sql).map_err(|error| self.wrap(&error))?;
        let rows = statement.query_map(params, |row| read(row)).map_err(|error| self.wrap(&error))?;
        rows.collect::<Result<_, _>>().map_err(|error| self.wrap(&error))
    }

    /// Starts a transaction that writes.
    ///
    /// What is written to a file that was moved or removed meanwhile would be lost with it, so that
    /// is an error.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        if identity(&self.path) != self.identity {
            let message = "it was moved, replaced or removed while it was in use, and nothing of this request was recorded; put it back and run again".into();
            return Err(Error::Database { path: self.path.clone(), message });
        }
        self.execute("BEGIN IMMEDIATE", []).map(drop)
    }

    /// Ends it: what it wrote is recorded.
    pub(crate) fn commit(&self) -> Result<(), Error> {
        self.execute("COMMIT", []).map(drop)
    }

    /// Takes everything back that the open transaction wrote.
    pub(crate) fn rollback(&self) {
        // After some errors the database has rolled back by itself, and this one fails.
        let _ = self.execute("ROLLBACK", []);
    }

    /// Runs `f`; if it fails, what it wrote is taken back and the transaction goes on.
    pub(crate) fn all_or_nothing<T>(&self, f: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.execute("SAVEPOINT step", [])?;
        let result = f();
        if result.is_err() {
            self.execute("ROLLBACK TO step", [])?;
        }
        self.execute("RELEASE step", [])?;
        result
    }

    /// A number that changes when another connection writes to the file.
    pub(crate) fn data_version(&self) -> Result<i64, Error> {
        let rows = self.query("PRAGMA data_version", [], |row| row.get(0))?;
        Ok(rows[0])
    }

    /// Every study, by age.
    pub(crate) fn studies(&self) -> Result<Vec<StudyRow>, Error> {
        let rows = self.query("SELECT id, name, created_ms, spec FROM study ORDER BY id", [], |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?, row.get::<_, String>(3)?))
        })?;
        rows.into_iter()
            .map(|(id, name, created_ms, spec)| match serde_json::from_str(&spec) {
                Ok(spec) => Ok(StudyRow { id, name, created_ms, spec }),
                Err(error) => Err(self.damaged(format!("the spec of study {name} cannot be read ({error})"))),
            })
            .collect()
    }

    pub(crate) fn add_study(&self, spec: &Spec, created_ms: i64) -> Result<i64, Error> {
        let text = serde_json::to_string(spec).map_err(|error| Error::refused(error.to_string()))?;
        self.execute(
            "INSERT INTO study (name, created_ms, spec) VALUES (?1, ?2, ?3)",
            params![spec.name, created_ms, text],
        )?;
        Ok(self.connection.last_insert_rowid())
    }

    pub(crate) fn remove_study(&self, study: i64) -> Result<(), Error> {
        let (first, end) = (trial_id(study, 0), trial_id(study + 1, 0));
        self.execute("DELETE FROM trial WHERE id >= ?1 AND id < ?2", [first, end])?;
        self.execute("DELETE FROM report WHERE trial >= ?1 AND trial < ?2", [first, end])?;
        self.execute("DELETE FROM revision WHERE study = ?1", [study])?;
        self.execute("DELETE FROM snapshot WHERE study = ?1", [study])?;
        self.execute("DELETE FROM study WHERE id = ?1", [study])?;
        Ok(())
    }

    /// The edits of a study's space: each with its place among the events.
    pub(crate) fn revisions(&self, study: i64) -> Result<Vec<(u64, Vec<Parameter>)>, Error> {
        let sql = "SELECT seq, parameters FROM revision WHERE study = ?1 ORDER BY seq";
        let rows = self.query(sql, [study], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
        rows.into_iter()
            .map(|(seq, text)| match (u64::try_from(seq), serde_json::from_str(&text)) {
                (Ok(seq), Ok(parameters)) => Ok((seq, parameters)),
                _ => Err(self.damaged(format!("edit {seq} of the space cannot be read"))),
            })
            .collect()
    }

    pub(crate) fn add_revision(&self, study: i64, seq: u64, parameters: &[Parameter]) -> Result<(), Error> {
        let text = serde_json::to_string(parameters).map_err(|error| Error::refused(error.to_string()))?;
        let sql = "INSERT INTO revision (study, seq, parameters) VALUES (?1, ?2, ?3)";
        self.execute(sql, params![study, seq.cast_signed(), text]).map(drop)
    }

    pub(crate) fn insert_trial(&self, study: i64, row: &Row) -> Result<(), Error> {
        let sql =
            "INSERT INTO trial (id, state, ask_seq, tell_seq, data) VALUES (:id, :state, :ask, :tell, :data)";
        self.write_trial(sql, study, row).map(drop)
    }

    pub(crate) fn update_trial(&self, study: i64, row: &Row) -> Result<(), Error> {
        let sql =
            "UPDATE trial SET state = :state, ask_seq = :ask, tell_seq = :tell, data = :data WHERE id = :id";
        match self.write_trial(sql, study, row)? {
            1 => Ok(()),
            _ => Err(self.damaged(format!("trial {} is missing", row.number))),
        }
    }

    fn write_trial(&self, sql: &str, study: i64, row: &Row) -> Result<usize, Error> {
        let mut data = Vec::with_capacity(512);
        row.record.encode(&mut data);
        self.execute(
            sql,
            named_params! {
                ":id": trial_id(study, row.number),
                ":state": state_code(row.state),
                ":ask": row.ask_seq.cast_signed(),
                ":tell": row.tell_seq.map(u64::cast_signed),
                ":data": data,
            },
        )
    }

    /// Number of trials by state.
    pub(crate) fn counts(&self, study: i64) -> Result<Vec<(State, u64)>, Error> {
        let sql = "SELECT state, count(*) FROM trial WHERE id >= ?1 AND id < ?2 GROUP BY state";
        let bounds = [trial_id(study, 0), trial_id(study + 1, 0)];
        let rows = self.query(sql, bounds, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        rows.into_iter()
            .map(|(code, count)| match state_of(code) {
                Some(state) => Ok((state, count.cast_unsigned())),
                None => {
                    Err(self.damaged(format!("{count} trials are in a state that does not exist, {code}")))
                }
            })
            .collect()
    }

    /// Calls `visit` with the number of each row with a number in `range`, in order, and the row,
    /// or what is wrong with it.
    pub(crate) fn each_row<E: From<Error>>(
        &self,
        study: i64,
        range: std::ops::Range<u64>,
        mut visit: impl FnMut(u64, Result<Row, String>) -> Result<(), E>,
    ) -> Result<(), E> {
        let wrap = |error| E::from(self.wrap(&error));
        let sql =
            "SELECT id, state, ask_seq, tell_seq, data FROM trial WHERE id >= ?1 AND id < ?2 ORDER BY id";
        let mut statement = self.connection.prepare_cached(sql).map_err(wrap)?;
        let end = range.end.min(1 << NUMBER_BITS);
        let mut rows =
            statement.query([trial_id(study, range.start.min(end)), trial_id(study, end)]).map_err(wrap)?;
        while let Some(row) = rows.next().map_err(wrap)? {
            let number = (row.get::<_, i64>(0).map_err(wrap)? - trial_id(study, 0)).cast_unsigned();
            visit(number, read_row(row, number))?;
        }
        Ok(())
    }

    /// Number of rows of a study up to the last one, as far as its numbers tell.
    pub(crate) fn next_number(&self, study: i64) -> Result<u64, Error> {
        let sql = "SELECT max(id) FROM trial WHERE id >= ?1 AND id < ?2";
        let bounds = [trial_id(study, 0), trial_id(study + 1, 0)];
        let last: Option<i64> = self.query(sql, bounds, |row| row.get(0))?[0];
        Ok(last.map_or(0, |id| (id - trial_id(study, 0)).cast_unsigned() + 1))
    }

    pub(crate) fn put_report(
        &self,
        study: i64,
        number: u64,
        step: u64,
        metrics: &[(Name, f64)],
    ) -> Result<(), Error> {
        let mut data = Vec::new();
        put_metrics(&mut data, metrics);
        let sql = "INSERT OR REPLACE INTO report (trial, step, data) VALUES (?1, ?2, ?3)";
        self.execute(sql, params![trial_id(study, number), step.cast_signed(), data]).map(drop)
    }

    /// The reports of a trial by step; with `last` only the last one.
    pub(crate) fn reports(&self, study: i64, number: u64, last: bool) -> Result<Vec<StoredReport>, Error> {
        let sql = if last {
            "SELECT step, data FROM report WHERE trial = ?1 ORDER BY step DESC LIMIT 1"
        } else {
            "SELECT step, data FROM report WHERE trial = ?1 ORDER BY step"
        };
        let rows = self.query(sql, [trial_id(study, number)], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
        })?;
        rows.into_iter()
            .map(|(step, data)| match take_metrics(&mut Take::new(&data)) {
                Ok(metrics) => Ok((step.cast_unsigned(), metrics)),
                Err(message) => Err(self.damaged(format!("report {step} of trial {number}: {message}"))),
            })
            .collect()
    }

    /// The snapshot of a study, if there is one of this version.
    pub(crate) fn snapshot(&self, study: i64) -> Result<Option<Snapshot>, Error> {
        let sql = "SELECT seq, data FROM snapshot WHERE study = ?1 AND version = ?2";
        let rows = self.query(sql, params![study, VERSION], |row| {
            Ok(Snapshot { seq: row.get::<_, i64>(0)?.cast_unsigned(), data: row.get(1)? })
        })?;
        Ok(rows.into_iter().next())
    }

    pub(crate) fn put_snapshot(&self, study: i64, snapshot: &Snapshot) -> Result<(), Error> {
        let sql = "INSERT OR REPLACE INTO snapshot (study, seq, version, data) VALUES (?1, ?2, ?3, ?4)";
        self.execute(sql, params![study, snapshot.seq.cast_signed(), VERSION, snapshot.data]).map(drop)
    }

    /// The last request of a session that was answered, and its answer.
    pub(crate) fn session(&self, id: u64) -> Result<Option<(u64, String)>, Error> {
        let sql = "SELECT request, answer FROM session WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(|error| self.wrap(&error))?;
        statement
            .query_row([id.cast_signed()], |row| Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?)))
            .optional()
            .map_err(|error| self.wrap(&error))
    }

    pub(crate) fn put_session(&self, id: u64, request: u64, answer: &str, now_ms: i64) -> Result<(), Error> {
        let sql = "INSERT OR REPLACE INTO session (id, request, answer, used_ms) VALUES (?1, ?2, ?3, ?4)";
        self.execute(sql, params![id.cast_signed(), request.cast_signed(), answer, now_ms]).map(drop)
    }

    pub(crate) fn remove_session(&self, id: u64) -> Result<(), Error> {
        self.execute("DELETE FROM session WHERE id = ?1", [id.cast_signed()]).map(drop)
    }

    /// Forgets sessions that ended without a word long ago, or are of a clock that ran ahead.
    pub(crate) fn prune_sessions(&self, now_ms: i64) -> Result<(), Error> {
        const DAY_MS: i64 = 86_400_000;
        let sql = "DELETE FROM session WHERE used_ms < ?1 OR used_ms > ?2";
        self.execute(sql, [now_ms - DAY_MS, now_ms + DAY_MS]).map(drop)
    }

    /// What `PRAGMA integrity_check` finds; empty if all is well.
    pub(crate) fn integrity(&self) -> Result<Vec<String>, Error> {
        let mut lines: Vec<String> = self.query("PRAGMA integrity_check(20)", [], |row| row.get(0))?;
        lines.retain(|line| line != "ok");
        Ok(lines)
    }
}

/// Device and inode of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// Snapshots are read only by the version that wrote them.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The id of a trial; the id after the last trial of a study is the first of the next study.
fn trial_id(study: i64, number: u64) -> i64 {
    (study << NUMBER_BITS) + number.cast_signed()
}

fn state_code(state: State) -> i64 {
    state as i64
}

fn state_of(code: i64) -> Option<State> {
    usize::try_from(code).ok().and_then(|code| State::ALL.get(code).copied())
}

fn read_row(row: &rusqlite::Row<'_>, number: u64) -> Result<Row, String> {
    let text = |error: rusqlite::Error| error.to_string();
    let seq = |seq: i64| u64::try_from(seq).map_err(|_| "its place among the events is negative".to_owned());
    let code: i64 = row.get(1).map_err(text)?;
    let data = row.get_ref(4).map_err(text)?.as_blob().map_err(|_| "its data are no blob")?;
    Ok(Row {
        number,
        state: state_of(code).ok_or_else(|| format!("its state does not exist, {code}"))?,
        ask_seq: seq(row.get(2).map_err(text)?)?,
        tell_seq: row.get::<_, Option<i64>>(3).map_err(text)?.map(seq).transpose()?,
        record: Record::decode(data)?,
    })
}

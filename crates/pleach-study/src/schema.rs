//! The database file: its tables, how it is opened, and what its errors mean.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::place::Place;
use crate::{Durability, Error};

/// Marks the file as ours (`PRAGMA application_id`): "Plch".
const APPLICATION: i64 = 0x506c_6368;

/// Steps from one format to the next; `PRAGMA user_version` counts those that were taken.
///
/// Never change a step that was released: append one.
const MIGRATIONS: &[&str] = &[
    // 1: studies, edits of their spaces, trials, reports, snapshots, sessions.
    //
    // The id of a trial is study << 40 | number, so that the rows of a study lie together, in
    // order, without another index. Spec, revision and trial are the truth; a snapshot is a cache;
    // a session remembers its last answer for a request that is sent again.
    "CREATE TABLE study (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        created_ms INTEGER NOT NULL,
        spec TEXT NOT NULL
    ) STRICT;
    CREATE TABLE revision (
        study INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        parameters TEXT NOT NULL,
        PRIMARY KEY (study, seq)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE trial (
        id INTEGER PRIMARY KEY,
        state INTEGER NOT NULL,
        ask_seq INTEGER NOT NULL,
        tell_seq INTEGER,
        data BLOB NOT NULL
    ) STRICT;
    CREATE TABLE report (
        trial INTEGER NOT NULL,
        step INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (trial, step)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE snapshot (
        study INTEGER PRIMARY KEY,
        seq INTEGER NOT NULL,
        version TEXT NOT NULL,
        data BLOB NOT NULL
    ) STRICT;
    CREATE TABLE session (
        id INTEGER PRIMARY KEY,
        request INTEGER NOT NULL,
        answer TEXT NOT NULL,
        used_ms INTEGER NOT NULL
    ) STRICT;",
];

/// The format that this version writes, and the latest it reads.
const FORMAT: i64 = 1;

const _: () = assert!(MIGRATIONS.len() as u64 == FORMAT.cast_unsigned(), "there is a step to every format");

/// How long to wait for another program that writes to the file.
const BUSY: Duration = Duration::from_secs(10);

/// Opens a file for its owner, creates it if it does not exist, and brings it to the current format.
pub(crate) fn open_to_write(place: &Place, durability: Durability) -> Result<Connection, Error> {
    let path = place.file();
    let wrap = |error| database_error(path, &error);
    check_length(place)?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(wrap)?;
    connection.busy_timeout(BUSY).map_err(wrap)?;
    let found = format_of(path, &connection)?;
    let mode: String =
        connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(wrap)?;
    if mode != "wal" {
        let message = format!(
            "the write-ahead log cannot be used on this file system (journal mode {mode}); put the study on a local disk"
        );
        return Err(Error::Database { path: path.to_owned(), message });
    }
    let synchronous = match durability {
        Durability::Process => "NORMAL",
        Durability::Power => "FULL",
    };
    // Checkpoints copy the log back every 2,000 pages (8 MB), so that their fsync is shared by
    // several hundred trials.
    connection
        .execute_batch(&format!("PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 2000"))
        .map_err(wrap)?;
    connection.set_prepared_statement_cache_capacity(64);
    if found < FORMAT {
        let steps =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(wrap)?;
        for step in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
            steps.execute_batch(step).map_err(wrap)?;
        }
        steps
            .execute_batch(&format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}"))
            .map_err(wrap)?;
        steps.commit().map_err(wrap)?;
    }
    Ok(connection)
}

/// Opens a file for reading, whoever owns it.
pub(crate) fn open_to_read(place: &Place) -> Result<Connection, Error> {
    let path = place.file();
    let wrap = |error| database_error(path, &error);
    check_length(place)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(wrap)?;
    connection.busy_timeout(BUSY).map_err(wrap)?;
    // In a folder that cannot be written, the index of the log cannot be made; without a log, the
    // file is all there is, and nobody changes it.
    let probe = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
    if probe.is_err() && fs::metadata(place.wal()).map_or(true, |log| log.len() == 0) {
        let uri = format!("file:{}?immutable=1", escape(path));
        if let Ok(immutable) = Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI) {
            connection = immutable;
        }
    }
    let found = format_of(path, &connection)?;
    if found < FORMAT {
        let message = if found == 0 {
            "it is empty".into()
        } else {
            format!("format {found} must be brought up to date first: open the study once with `run`")
        };
        return Err(Error::NotAStudy { path: path.to_owned(), message });
    }
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// The format of a file, 0 for an empty one.
fn format_of(path: &Path, connection: &Connection) -> Result<i64, Error> {
    let pragma = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    let tables = "SELECT count(*) FROM sqlite_schema";
    let tables = connection
        .query_row(tables, [], |row| row.get::<_, i64>(0))
        .map_err(|error| database_error(path, &error))?;
    let application = pragma("application_id").map_err(|error| database_error(path, &error))?;
    let format = pragma("user_version").map_err(|error| database_error(path, &error))?;
    match (application, format) {
        (0, 0) if tables == 0 => Ok(0),
        (APPLICATION, 1..=FORMAT) => Ok(format),
        (APPLICATION, FORMAT..) => Err(Error::Newer { path: path.to_owned(), found: format, known: FORMAT }),
        (APPLICATION, _) => {
            Err(Error::Damaged { path: path.to_owned(), message: format!("its format is {format}") })
        }
        _ => Err(Error::NotAStudy {
            path: path.to_owned(),
            message: "it is the database of another program".into(),
        }),
    }
}

/// Compares the length of the file with the one its header states; with a log at hand the pages
/// may still be there.
fn check_length(place: &Place) -> Result<(), Error> {
    let path = place.file();
    let Ok(mut file) = File::open(path) else { return Ok(()) };
    let length = file.metadata().map_or(0, |file| file.len());
    if length == 0 || fs::metadata(place.wal()).is_ok_and(|log| log.len() > 0) {
        return Ok(());
    }
    // Database header: the magic string, the page size at 16, the number of pages at 28
    // (SQLite, "Database File Format", section 1.3).
    let mut header = [0; 32];
    if file.read_exact(&mut header).is_err() || header[..16] != *b"SQLite format 3\0" {
        let message = "it is no SQLite database".into();
        return Err(Error::NotAStudy { path: path.to_owned(), message });
    }
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        bytes => u64::from(bytes),
    };
    let pages = u64::from(u32::from_be_bytes([header[28], header[29], header[30], header[31]]));
    if length < page * pages {
        let message = format!("it is cut short, {length} of {} bytes are left", page * pages);
        return Err(Error::Damaged { path: path.to_owned(), message });
    }
    Ok(())
}

/// A path within a `file:` URI.
fn escape(path: &Path) -> String {
    use std::fmt::Write;
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().iter().fold(String::new(), |mut text, &byte| {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            text.push(byte.into());
        } else {
            write!(text, "%{byte:02x}").expect("texts can be written");
        }
        text
    })
}

/// What an error of the database means to the user of a study.
pub(crate) fn database_error(path: &Path, error: &rusqlite::Error) -> Error {
    let path = path.to_owned();
    let message = error.to_string();
    let rusqlite::Error::SqliteFailure(failure, _) = error else { return Error::Database { path, message } };
    match failure.code {
        ErrorCode::DiskFull => Error::DiskFull { path },
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Error::Busy { path },
        // A table or column of ours that is gone.
        ErrorCode::Unknown if message.contains("no such ") => Error::Damaged { path, message },
        ErrorCode::DatabaseCorrupt => Error::Damaged { path, message },
        ErrorCode::NotADatabase => Error::NotAStudy { path, message: "it is no SQLite database".into() },
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => Error::ReadOnly { path, message },
        ErrorCode::CannotOpen => {
            let message = format!("{message}; check that the file and its folder can be read and written");
            Error::Database { path, message }
        }
        // The index of the log is made by growing a file, which a full disk refuses in its own way.
        ErrorCode::SystemIoFailure if failure.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE => {
            Error::DiskFull { path }
        }
        _ => Error::Database { path, message },
    }
}

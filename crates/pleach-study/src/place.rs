//! Where a study lies: its file and the files beside it.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::{Error, network};

/// A file of studies, by its real path, so that links to it lead to the same lock and socket.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    file: PathBuf,
}

impl Place {
    /// A file that exists or could be created, on a local file system.
    pub(crate) fn new(path: &Path) -> Result<Self, Error> {
        let file = real_path(path)?;
        check_file(&file)?;
        if let Some(filesystem) = network::filesystem_of(&file) {
            return Err(Error::NetworkFolder { path: file, filesystem });
        }
        Ok(Self { file })
    }

    /// A file that exists, on whatever file system.
    pub(crate) fn existing(path: &Path) -> Result<Self, Error> {
        if !path.exists() {
            return Err(Error::NoFile { path: path.to_owned() });
        }
        let file = real_path(path)?;
        check_file(&file)?;
        Ok(Self { file })
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn lock_file(&self) -> PathBuf {
        self.beside(".lock")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.beside(".sock")
    }

    /// The write-ahead log of the database.
    pub(crate) fn wal(&self) -> PathBuf {
        self.beside("-wal")
    }

    /// The folder of the trials of a study.
    pub(crate) fn trials(&self, study: &str) -> PathBuf {
        // `a` and `a.db` are two files, so their trials must not lie in one folder.
        let folder = match self.file.extension() {
            Some(extension) if extension == "db" => self.file.with_extension("trials"),
            Some(_) => self.beside(".trials"),
            None => self.beside("-trials"),
        };
        folder.join(study)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        append(self.file.clone(), suffix)
    }
}

fn append(path: PathBuf, suffix: &str) -> PathBuf {
    let mut name: OsString = path.into();
    name.push(suffix);
    name.into()
}

/// Most bytes of a path that `SQLite` opens, with room for the names of the files beside it
/// (`MAX_PATHNAME` of its Unix file system is 512).
const MAX_PATH_BYTES: usize = 500;

/// Refuses what could never be a study: opening a pipe, say, would wait for ever.
fn check_file(path: &Path) -> Result<(), Error> {
    if path.as_os_str().len() > MAX_PATH_BYTES {
        let name = path.file_name().unwrap_or_default().display();
        return Err(Error::refused(format!(
            "the path of {name} is longer than {MAX_PATH_BYTES} bytes; put the study in a folder with a shorter one"
        )));
    }
    if path.is_file() || !path.exists() {
        return Ok(());
    }
    let what = if path.is_dir() { "it is a folder" } else { "it is no regular file" };
    Err(Error::NotAStudy { path: path.to_owned(), message: what.into() })
}

/// The path without links; of a file that does not exist yet, its folder must exist.
fn real_path(path: &Path) -> Result<PathBuf, Error> {
    match fs::canonicalize(path) {
        Ok(real) => return Ok(real),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::io("open", path, error)),
    }
    let name = path.file_name().ok_or_else(|| {
        let message = "a path to a file is needed, such as study.db";
        Error::io("open", path, io::Error::new(io::ErrorKind::InvalidInput, message))
    })?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let real = fs::canonicalize(folder).map_err(|error| Error::io("open the folder", folder, error))?;
    Ok(real.join(name))
}

/// The lock that makes this process the owner of a file; it ends with the process, whatever
/// happens, and is not inherited by its children.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock; `None` if another process has it.
    pub(crate) fn try_take(place: &Place) -> Result<Option<Self>, Error> {
        let path = place.lock_file();
        let open = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                let folder = path.parent().unwrap_or(&path).to_owned();
                Error::ReadOnly { path: folder, message: error.to_string() }
            }
            io::ErrorKind::StorageFull => Error::DiskFull { path: place.file.clone() },
            _ => Error::io("create", &path, error),
        })?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path, error)),
        }
        if !is_at(&file, &path) {
            // Somebody removed the file between its opening and the lock.
            return Ok(None);
        }
        // For people and messages only; a full disk must not keep the study from being opened.
        let _ = file
            .set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| writeln!(file, "{}", std::process::id()));
        Ok(Some(Self { _file: file }))
    }

    /// The number of the process that holds the lock, as it wrote it.
    pub(crate) fn holder(place: &Place) -> String {
        let mut text = String::new();
        let read = File::open(place.lock_file()).and_then(|file| file.take(20).read_to_string(&mut text));
        match text.trim() {
            pid if read.is_ok() && !pid.is_empty() => pid.to_owned(),
            _ => "unknown".to_owned(),
        }
    }
}

/// Whether the open file is the one that the path leads to.
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lock_at_a_time_and_links_share_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("study.db");
        fs::write(&path, "").expect("writable");
        let link = folder.path().join("link.db");
        std::os::unix::fs::symlink(&path, &link).expect("writable");
        let place = Place::new(&path).expect("local");
        let lock = Lock::try_take(&place).expect("writable").expect("free");
        assert!(Lock::try_take(&Place::new(&link).expect("local")).expect("writable").is_none());
        assert_eq!(Lock::holder(&place), std::process::id().to_string());
        drop(lock);
        assert!(Lock::try_take(&place).expect("writable").is_some());
    }

    #[test]
    fn the_folder_of_trials_is_named_after_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("it exists");
        for (file, trials) in [("a.db", "a.trials"), ("b.sqlite", "b.sqlite.trials"), ("a", "a-trials")] {
            let place = Place::new(&folder.path().join(file)).expect("local");
            assert_eq!(place.trials("s"), real.join(trials).join("s"));
        }
    }

    #[test]
    fn a_pipe_or_a_folder_is_refused_instead_of_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe.db");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo exists");
        assert!(made.success());
        for (path, what) in [(pipe.as_path(), "no regular file"), (folder.path(), "a folder")] {
            for place in [Place::new(path), Place::existing(path)] {
                let error = place.expect_err("it cannot be a study").to_string();
                assert!(error.contains(what), "{error}");
            }
        }
    }

    #[test]
    fn a_path_that_is_too_long_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().expect("a folder");
        let deep = folder.path().join("a".repeat(200)).join("b".repeat(200)).join("c".repeat(200));
        fs::create_dir_all(&deep).expect("writable");
        let error = Place::new(&deep.join("study.db")).expect_err("SQLite could not open it");
        assert!(error.to_string().contains("shorter"), "{error}");
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = Place::new(Path::new("/nowhere/at/all/study.db")).expect_err("there is no such folder");
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }
}

//! The folder of one trial: what a run leaves there, and what a later process can make of it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::process::{Stat, Supervisor, kill_runs};

const CONFIG: &str = "config.json";
const STDOUT: &str = "stdout.log";
const STDERR: &str = "stderr.log";
const REPORT: &str = "report.jsonl";
const CHECKPOINTS: &str = "ckpt";
/// `<token> <line of /proc/self/stat>`, then `<token> exit <status>`: who the supervisor is and how
/// the command ended. One file for both, since making files costs more than writing them.
const RUN: &str = "run";
/// `<token> <reason>`, written by us before a command is stopped.
const STOP: &str = "stop";

/// How long a run that is killed, or just starting, may take to show it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The folder of one trial.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Names the trial of this very study; files with another token are not ours.
    token: String,
}

/// What an earlier process left of the current attempt.
#[derive(Debug)]
pub(super) enum Found {
    /// Nothing: the command is to be started, with this log, whose lock tells that it lives.
    Nothing(File),
    /// The command has ended.
    Finished,
    /// The command runs.
    Alive(Supervisor),
}

impl Folder {
    pub(super) fn new(path: PathBuf, token: String) -> Self {
        Self { path, token }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    pub(super) fn config(&self) -> PathBuf {
        self.path.join(CONFIG)
    }

    pub(super) fn stdout(&self) -> PathBuf {
        self.path.join(STDOUT)
    }

    pub(super) fn stderr(&self) -> PathBuf {
        self.path.join(STDERR)
    }

    pub(super) fn report(&self) -> PathBuf {
        self.path.join(REPORT)
    }

    pub(super) fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }

    /// Makes the folder, or finds out what an earlier process left in it.
    ///
    /// `is_reported` says whether the reports of the current attempt are complete.
    pub(super) fn enter(&self, config: &[u8], is_reported: &dyn Fn() -> bool) -> io::Result<Found> {
        if self.create()? {
            return self.prepare(config).map(Found::Nothing);
        }
        match fs::read(self.config()) {
            Ok(found) if found == config && !self.is_foreign() => self.look(is_reported),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.prepare(config).map(Found::Nothing),
            Ok(_) => {
                if !self.is_free()? {
                    kill_runs(&self.path, None);
                }
                set_aside(&self.path)?;
                self.create()?;
                self.prepare(config).map(Found::Nothing)
            }
            Err(error) => Err(error),
        }
    }

    /// The status of the command, once it has ended and its supervisor said so.
    pub(super) fn status(&self) -> Option<i32> {
        self.status_in(RUN)
    }

    /// Why an earlier process had begun to stop the command.
    pub(super) fn stop_reason(&self) -> Option<String> {
        self.lines(STOP).pop()
    }

    /// Notes why the command is stopped, before it is, so that whoever adopts the rest knows.
    pub(super) fn set_stop_reason(&self, reason: &str) -> io::Result<()> {
        fs::write(self.path.join(STOP), format!("{} {reason}\n", self.token))
    }

    /// Closes the current attempt: its files get a number, so that the next one starts afresh and
    /// no result is taken twice. `status` stands in where the supervisor left none.
    pub(super) fn close_attempt(&self, status: Option<i32>) -> io::Result<()> {
        if let Some(status) = status
            && self.status().is_none()
        {
            append(&self.path.join(RUN))?.write_all(format!("{} exit {status}\n", self.token).as_bytes())?;
        }
        let number = 1 + self.closed_attempts().count();
        for name in [RUN, REPORT, STDERR, STDOUT] {
            absent_is_fine(fs::rename(self.path.join(name), self.path.join(format!("{name}.{number}"))))?;
        }
        absent_is_fine(fs::remove_file(self.path.join(STOP)))
    }

    /// Closes the current attempt as one that never ran to its end: it does not count as a retry.
    pub(super) fn forget_attempt(&self) -> io::Result<()> {
        absent_is_fine(fs::remove_file(self.path.join(RUN)))?;
        self.close_attempt(None)
    }

    /// The exit status of every closed attempt; `None` for one that was cut off.
    pub(super) fn closed_attempts(&self) -> impl Iterator<Item = Option<i32>> {
        let closed = |number: &u32| {
            [RUN, STDOUT].iter().any(|name| self.path.join(format!("{name}.{number}")).exists())
        };
        (1..).take_while(closed).map(|number| self.status_in(&format!("{RUN}.{number}")))
    }

    /// True if the folder is new.
    fn create(&self) -> io::Result<bool> {
        match fs::create_dir(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&self.path)?;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    fn prepare(&self, config: &[u8]) -> io::Result<File> {
        fs::write(self.config(), config)?;
        self.open_log()
    }

    /// A new, locked log. Every descendant of the command that keeps it open holds the lock.
    fn open_log(&self) -> io::Result<File> {
        match fs::create_dir(self.checkpoints()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let log = append(&self.stdout())?;
        log.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                io::Error::other(format!("another process runs in {}", self.path.display()))
            }
            TryLockError::Error(error) => error,
        })?;
        Ok(log)
    }

    /// Looks for a run of ours until its state is known.
    fn look(&self, is_reported: &dyn Fn() -> bool) -> io::Result<Found> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // A lock that is free says that the command is over, so the result is looked for after it.
            let free = self.is_free()?;
            if self.status().is_some() {
                return Ok(Found::Finished);
            }
            // Without a supervisor nobody knows the status, but a complete report is not asked for twice.
            if free && self.stdout().exists() && is_reported() {
                return Ok(Found::Finished);
            }
            if free {
                if self.stdout().exists() {
                    self.close_attempt(None)?;
                }
                return self.open_log().map(Found::Nothing);
            }
            let leader = self.lines(RUN).first().and_then(|line| Stat::parse(line));
            if let Some(supervisor) = leader.as_ref().and_then(Supervisor::adopt) {
                return Ok(Found::Alive(supervisor));
            }
            let late = Instant::now() > deadline;
            if leader.is_some() || late {
                kill_runs(&self.path, None);
            }
            if late && !self.is_free()? {
                return Err(io::Error::other(format!(
                    "a process of an earlier run still writes to {}; end it first",
                    self.path.display()
                )));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether no process holds the log of the current attempt open.
    fn is_free(&self) -> io::Result<bool> {
        match File::open(self.stdout()) {
            Ok(log) => match log.try_lock() {
                // Let go by name: a child that another thread is just starting shares the descriptor.
                Ok(()) => log.unlock().map(|()| true),
                Err(TryLockError::WouldBlock) => Ok(false),
                Err(TryLockError::Error(error)) => Err(error),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Whether a run here was that of another study, which had the same name and place.
    fn is_foreign(&self) -> bool {
        let text = fs::read_to_string(self.path.join(RUN)).unwrap_or_default();
        text.contains('\n') && self.lines(RUN).is_empty()
    }

    fn status_in(&self, name: &str) -> Option<i32> {
        self.lines(name).iter().rev().find_map(|line| line.strip_prefix("exit ")?.parse().ok())
    }

    /// What stands behind our token in the complete lines of a file.
    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path.join(name)).unwrap_or_default();
        let complete = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        complete
            .filter_map(|line| Some(line.strip_prefix(&self.token)?.strip_prefix(' ')?.to_owned()))
            .collect()
    }
}

/// Moves a folder that is not ours away; nothing that a user may want is deleted.
pub(super) fn set_aside(folder: &Path) -> io::Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let numbered = |k: u64| folder.with_file_name(format!("{name}.old-{k}"));
    let mut k = 1;
    while numbered(k).exists() {
        k += 1;
    }
    fs::rename(folder, numbered(k))
}

/// Opens a file that several processes append to.
pub(super) fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

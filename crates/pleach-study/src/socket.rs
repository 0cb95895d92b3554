//! The socket beside a file, at which its owner listens.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::Error;
use crate::place::Place;

/// Longest path that fits in the address of a socket on every system (the least is 104 bytes with
/// the closing zero).
const MAX_PATH_BYTES: usize = 100;

/// The listening end.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Takes the place of whatever socket a dead owner left. Only for the holder of the lock.
    pub(crate) fn bind(place: &Place) -> Result<Self, Error> {
        let path = place.socket();
        // Nobody can connect before the permissions are set: it gets its name afterwards.
        let fresh = path.with_extension("new");
        let bind = || -> io::Result<UnixListener> {
            // Of an owner that was killed right here.
            let _ = fs::remove_file(&fresh);
            let listener = with_short(&fresh, |path| UnixListener::bind(path))?;
            fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))?;
            fs::rename(&fresh, &path)?;
            Ok(listener)
        };
        match bind() {
            Ok(listener) => Ok(Self { listener, path }),
            Err(error) => {
                let _ = fs::remove_file(&fresh);
                if error.kind() == io::ErrorKind::StorageFull {
                    return Err(Error::DiskFull { path: place.file().to_owned() });
                }
                Err(Error::io("listen at", &path, error))
            }
        }
    }

    /// The next client; `None` after [`Listener::wake`].
    pub(crate) fn accept(&self) -> Option<UnixStream> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => return Some(stream),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The socket was shut down.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return None,
                // Out of file descriptors, most likely; clients wait in the queue meanwhile.
                Err(error) => {
                    tracing::debug!(%error, "a client could not be accepted");
                    std::thread::sleep(std::time::Duration::from_millis(50));
                }
            }
        }
    }

    /// Makes [`Listener::accept`] return.
    pub(crate) fn wake(&self) {
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        let _ = with_short(&self.path, |path| UnixStream::connect(path));
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Connects to the owner of a file.
pub(crate) fn connect(place: &Place) -> io::Result<UnixStream> {
    with_short(&place.socket(), |path| UnixStream::connect(path))
}

/// Whether the owner of a file answers within `time`. One that is stopped is connected to all the
/// same, by the queue of its socket.
pub(crate) fn answers(place: &Place, time: Timespec) -> bool {
    let greet = || -> io::Result<bool> {
        let mut stream = connect(place)?;
        // Any line is answered by who the owner is.
        stream.write_all(b"\n")?;
        is_readable_within(&stream, time)
    };
    greet().unwrap_or(false)
}

/// After this time without an answer a user wants to know why.
pub(crate) const SLOW: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Waits at most `time` for something to read, or for the end of the connection.
pub(crate) fn is_readable_within(stream: &UnixStream, time: Timespec) -> io::Result<bool> {
    Ok(poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&time))? > 0)
}

/// Calls `f` with a path to the same file that fits in the address of a socket: for a long one, it
/// leads through an open descriptor of its folder.
fn with_short<T>(path: &Path, f: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= MAX_PATH_BYTES {
        return f(path);
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return f(path) };
    let folder = File::open(folder)?;
    let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    if short.as_os_str().len() > MAX_PATH_BYTES || !cfg!(target_os = "linux") {
        let message = "its path is too long for a socket; use a shorter one";
        return Err(io::Error::new(io::ErrorKind::InvalidFilename, message));
    }
    f(&short)
}

/// A value as a line of JSON.
pub(crate) fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_is_stopped_does_not_answer() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::new(&folder.path().join("study.db")).expect("local");
        let soon = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        assert!(!answers(&place, soon), "there is no owner");
        let _listener = Listener::bind(&place).expect("writable");
        assert!(connect(&place).is_ok() && !answers(&place, soon));
    }
}

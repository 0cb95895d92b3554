//! Who holds a trial, and whether that process still lives.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;
use std::{fs, process};

use serde::{Deserialize, Serialize};

use crate::Lease;

/// A process, told apart from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Process {
    /// The running system (since its last boot) and its numbering of processes.
    pub(crate) host: u64,
    /// Its number there.
    pub(crate) pid: u32,
    /// When it started, in ticks since the boot.
    pub(crate) start: u64,
}

/// What is known about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It lives.
    Alive,
    /// It is gone.
    Dead,
    /// It is of another host or container, and cannot be seen from here.
    Unseen,
}

impl Process {
    /// This process.
    pub(crate) fn current() -> Self {
        static CURRENT: LazyLock<Process> = LazyLock::new(|| {
            let pid = process::id();
            Process { host: host(), pid, start: start_of(pid).unwrap_or(0) }
        });
        *CURRENT
    }

    pub(crate) fn life(self) -> Life {
        if self.host != Self::current().host {
            return Life::Unseen;
        }
        match start_of(self.pid) {
            Some(start) if start == self.start => Life::Alive,
            _ => Life::Dead,
        }
    }
}

/// When a process started, `None` if it is gone; a process that waits to be reaped counts as gone.
#[cfg(target_os = "linux")]
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything; after it come the state and 18 numbers
    // before the start time (proc_pid_stat(5), field 22).
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

/// Without `/proc` a process is told apart by its number alone.
#[cfg(not(target_os = "linux"))]
fn start_of(pid: u32) -> Option<u64> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    match rustix::process::test_kill_process(pid) {
        Err(rustix::io::Errno::SRCH) => None,
        _ => Some(0),
    }
}

/// The boot and the process numbering of this system (FNV-1a, 64 bits).
fn host() -> u64 {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let numbering = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let text = format!("{boot}{}", numbering.display());
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// How long a holder keeps its trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Term {
    /// As long as its process lives.
    Process,
    /// Until it is told.
    Forever,
    /// For a time after the last sign of life.
    Millis(u64),
}

impl From<Lease> for Term {
    fn from(lease: Lease) -> Self {
        match lease {
            Lease::Process => Term::Process,
            Lease::Forever => Term::Forever,
            Lease::For(time) => Term::Millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX - 2)),
        }
    }
}

/// The holder of a running trial: a handle of a process, and its terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// The handle, a random number.
    pub(crate) client: u64,
    /// The process of the handle.
    pub(crate) process: Process,
    /// How long it keeps the trial.
    pub(crate) term: Term,
}

/// A process that cannot be seen must give a sign of life within this time.
const UNSEEN: Duration = Duration::from_secs(30);

impl Holder {
    /// A holder for a new handle of this process; [`Holder::retire`] ends it.
    pub(crate) fn register(lease: Lease) -> Self {
        let client = random();
        clients().insert(client);
        Self { client, process: Process::current(), term: lease.into() }
    }

    /// Marks the handle as closed: what it holds is lost, unless it was given back before.
    pub(crate) fn retire(&self) {
        clients().remove(&self.client);
    }

    /// How long it may be silent; `None` where its process is watched, or for ever.
    pub(crate) fn silence(&self) -> Option<Duration> {
        match self.term {
            Term::Forever => None,
            Term::Millis(millis) => Some(Duration::from_millis(millis)),
            Term::Process => (self.process.host != Process::current().host).then_some(UNSEEN),
        }
    }

    /// Whether its trials are given back when its handle is closed.
    pub(crate) fn ends_with_handle(&self) -> bool {
        self.term == Term::Process
    }

    /// Whether its process, or its handle within this process, is known to be gone.
    pub(crate) fn is_gone(&self) -> bool {
        match self.term {
            Term::Forever | Term::Millis(_) => false,
            Term::Process if self.process == Process::current() => !clients().contains(&self.client),
            Term::Process => self.process.life() == Life::Dead,
        }
    }
}

/// Open handles of this process.
fn clients() -> std::sync::MutexGuard<'static, BTreeSet<u64>> {
    static CLIENTS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
    CLIENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that no other handle or session has.
pub(crate) fn random() -> u64 {
    // Each `RandomState` of a process differs, and the first is seeded by the system.
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(process::id());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_alive_until_they_end() {
        assert_eq!(Process::current().life(), Life::Alive);
        let mut child = process::Command::new("sleep").arg("60").spawn().expect("sleep exists");
        let pid = child.id();
        let start = start_of(pid).expect("it lives");
        let its = Process { pid, start, ..Process::current() };
        assert_eq!(its.life(), Life::Alive);
        assert_eq!(Process { host: its.host ^ 1, ..its }.life(), Life::Unseen);
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        assert_eq!(its.life(), Life::Dead);
        if cfg!(target_os = "linux") {
            let earlier = Process { start: Process::current().start - 1, ..Process::current() };
            assert_eq!(earlier.life(), Life::Dead, "an earlier process with the number of this one");
        }
    }

    #[test]
    fn a_holder_is_gone_with_its_handle() {
        let holder = Holder::register(Lease::Process);
        assert!(!holder.is_gone());
        holder.retire();
        assert!(holder.is_gone());
        assert!(!Holder { term: Term::Forever, ..holder }.is_gone());
    }
}

//! One running command: a small supervisor in `/bin/sh`, the leader of a process group.
//!
//! The supervisor writes who it is, runs the command, and writes how it ended, so that the result
//! outlives the process that started it. The command is its argument list; the shell never parses it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process, kill_process_group, pidfd_open,
    waitid,
};
use wait4::Wait4 as _;

use super::folder::Folder;

/// What `/bin/sh` runs: `$1` names the run, `$2` is the trial's folder, the rest is the command.
///
/// The traps let the supervisor outlive a request to stop, so that it can write how the command
/// ended; they do not pass on to the command. The subshell's `exec` keeps shell builtins out.
const SUPERVISOR: &str = r#"trap : HUP INT TERM
t=$1 d=$2
shift 2
read -r s </proc/self/stat
echo "$t $s" >>"$d/run"
(exec "$@")
s=$?
echo "$t exit $s" >>"$d/run"
exit $s"#;

/// A process as `/proc/<pid>/stat` shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stat {
    pub(super) pid: i32,
    pub(super) dead: bool,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// Clock ticks from boot to its start; with the pid it names a process for good.
    pub(super) start: u64,
    pub(super) rss_pages: u64,
}

impl Stat {
    /// Parses a line of `/proc/<pid>/stat`; the second field may hold any character.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (pid, rest) = line.split_once(' ')?;
        let mut fields = rest.get(rest.rfind(')')? + 1..)?.split_ascii_whitespace();
        Some(Self {
            pid: pid.parse().ok()?,
            dead: matches!(fields.next()?, "Z" | "X"),
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
            start: fields.nth(16)?.parse().ok()?,
            rss_pages: fields.nth(1)?.parse().ok()?,
        })
    }

    fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Every process that can be seen.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        pids.filter_map(|entry| Self::of(entry.file_name().to_str()?.parse().ok()?))
    }
}

/// A supervisor that this process started, or found alive.
#[derive(Debug)]
pub(super) struct Supervisor {
    pid: Pid,
    /// Readable once the process has ended; `None` where the kernel has no such descriptors.
    pidfd: Option<OwnedFd>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Child(Child),
    Adopted { start: u64 },
}

/// How a supervisor that this process started has ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// The command's exit status (128 + n for signal n), unless the supervisor itself was killed.
    pub(super) status: ExitStatus,
    /// The largest resident set of the command or of a process that it waited for. It also covers
    /// this process at the moment of the start, so it means nothing below our own peak.
    pub(super) peak_rss_bytes: u64,
}

/// The files that a command starts with.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) stdin: File,
    pub(super) stdout: File,
    pub(super) stderr: File,
}

impl Supervisor {
    /// Starts `argv` under a supervisor that writes to `files`.
    pub(super) fn launch(
        files: &Folder,
        argv: &[String],
        env: &[(&str, &OsStr)],
        cwd: Option<&Path>,
        streams: Streams,
    ) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SUPERVISOR, "pleach", files.token()]).arg(files.path()).args(argv);
        command.envs(env.iter().copied()).process_group(0);
        command.stdin(streams.stdin).stdout(streams.stdout).stderr(streams.stderr);
        if let Some(cwd) = cwd {
            command.current_dir(cwd);
        }
        let child = command.spawn()?;
        let pid = Pid::from_child(&child);
        Ok(Self { pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).ok(), kind: Kind::Child(child) })
    }

    /// Takes over the supervisor that `stat` described at its start, if it still lives.
    pub(super) fn adopt(stat: &Stat) -> Option<Self> {
        let pid = Pid::from_raw(stat.pid)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok();
        // Looked at after the descriptor is open, which pins the process.
        lives(stat.pid, stat.start).then_some(Self { pid, pidfd, kind: Kind::Adopted { start: stat.start } })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// How long ago the process started, as far as that is known.
    pub(super) fn age(&self) -> Duration {
        match self.kind {
            Kind::Child(_) => Duration::ZERO,
            Kind::Adopted { start } => {
                let uptime = fs::read_to_string("/proc/uptime").ok();
                let uptime: f64 = uptime.and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(0.0);
                let start = start as f64 / rustix::param::clock_ticks_per_second() as f64;
                Duration::try_from_secs_f64(uptime - start).unwrap_or_default()
            }
        }
    }

    /// Waits until the process has ended, at most `timeout`; true when it has. It is not reaped.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let until = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match self.pidfd.as_ref().map(|pidfd| poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&until))) {
            Some(Ok(n)) => n > 0,
            Some(Err(Errno::INTR)) => false,
            // An old kernel: look now and then.
            None | Some(Err(_)) => {
                self.ended() || {
                    thread::sleep(timeout.min(Duration::from_millis(20)));
                    self.ended()
                }
            }
        }
    }

    fn ended(&self) -> bool {
        match self.kind {
            Kind::Child(_) => {
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
                !matches!(waitid(WaitId::Pid(self.pid), options), Ok(None))
            }
            Kind::Adopted { start } => !lives(self.pid(), start),
        }
    }

    /// Sends `signal` to the whole group of a supervisor that has not been reaped.
    pub(super) fn signal(&self, signal: Signal) {
        // The only error is that nobody is left, which is what a signal is sent for.
        let _ = kill_process_group(self.pid, signal);
    }

    /// Ends what an ended supervisor left in its group, and reaps it; `None` for an adopted one.
    pub(super) fn finish(self, folder: &Path) -> io::Result<Option<Ended>> {
        match self.kind {
            Kind::Child(child) => {
                // The unreaped leader keeps its number, so this cannot meet a stranger.
                let _ = kill_process_group(self.pid, Signal::KILL);
                let used = child.wait4()?;
                Ok(Some(Ended { status: used.status, peak_rss_bytes: used.rusage.maxrss }))
            }
            Kind::Adopted { .. } => {
                kill_runs(folder, Some(self.pid()));
                Ok(None)
            }
        }
    }
}

fn lives(pid: i32, start: u64) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.start == start && !stat.dead)
}

/// Kills every process whose environment says that it reports to a file in `folder`, in `group` if
/// given.
///
/// This finds the rest of a run whose supervisor is gone, and never a stranger.
pub(super) fn kill_runs(folder: &Path, group: Option<i32>) {
    let mark = [b"PLEACH_REPORT=", folder.as_os_str().as_encoded_bytes(), b"/"].concat();
    let own = getpid().as_raw_nonzero().get();
    for stat in Stat::all() {
        if stat.pid == own || stat.dead || group.is_some_and(|group| stat.group != group) {
            continue;
        }
        let environ = fs::read(format!("/proc/{}/environ", stat.pid)).unwrap_or_default();
        if environ.split(|&byte| byte == 0).any(|entry| entry.starts_with(&mark))
            && let Some(pid) = Pid::from_raw(stat.pid)
        {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_are_read_past_any_name() {
        let line =
            "42 (a) b) c) S 7 42 5794 0 -1 4194304 65 0 0 0 0 0 0 0 20 0 1 0 127828 2654208 358 1844 9 9\n";
        let expected = Stat { pid: 42, dead: false, parent: 7, group: 42, start: 127_828, rss_pages: 358 };
        assert_eq!(Stat::parse(line), Some(expected));
        assert_eq!(Stat::parse("42 (a"), None);
        let own = Stat::of(getpid().as_raw_nonzero().get()).unwrap();
        assert!(own.rss_pages > 0 && !own.dead);
    }
}

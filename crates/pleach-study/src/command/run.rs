//! One attempt of one command, from start or adoption to its end.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pleach_search::Literal;
use rustix::process::Signal;

use super::folder::{Folder, Found, append};
use super::process::{Streams, Supervisor};
use super::report::{Report, Reports, shorten};
use super::tail::Tail;
use super::{Command, Stdin, config_json, memory};

/// A trial that a command is to evaluate.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The name of the study.
    pub study: &'a str,
    /// Tells this study from any other of its name: its time of creation, say.
    pub study_id: &'a str,
    /// The number of the trial.
    pub number: u64,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// For random choices of the command.
    pub seed: u64,
    /// The active parameters.
    pub params: &'a [(String, Literal)],
    /// The folder of the trial's files, an absolute path.
    pub folder: &'a Path,
}

impl Job<'_> {
    pub(super) fn files(&self) -> Folder {
        Folder::new(self.folder.to_owned(), format!("{}.{}", self.study_id, self.number))
    }

    /// The text that stands for `{name}`; `None` for an inactive parameter.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        if let Some((_, value)) = self.params.iter().find(|(other, _)| other == name) {
            return Some(value.to_string());
        }
        let path = |path: PathBuf| Some(path.to_string_lossy().into_owned());
        match name {
            "study" => Some(self.study.to_owned()),
            "trial" => Some(self.number.to_string()),
            "seed" => Some(self.seed.to_string()),
            "config_json_path" => path(self.files().config()),
            "report_path" => path(self.files().report()),
            "ckpt_dir" => path(self.files().checkpoints()),
            _ => None,
        }
    }
}

/// What to do with a running command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// Let it run.
    On,
    /// Ask it to stop, and kill it after its grace: its result is no longer wanted.
    Stop,
    /// Kill it at once; the trial is to be run again at another time.
    Kill,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit status; 128 + n stands for signal n.
    Exited(i32),
    /// It ran into the time limit.
    TimedOut,
    /// It ran into the memory limit.
    OverMemory,
    /// It was asked to stop by [`Go::Stop`].
    Stopped,
    /// It was killed by [`Go::Kill`].
    Killed,
    /// Its supervisor was killed from outside, so its exit status is not known.
    Lost,
}

/// What came of an attempt.
#[derive(Clone, Debug)]
pub struct Run {
    /// How it ended.
    pub end: End,
    /// All that it reported.
    pub reports: Reports,
    /// The last line that it wrote to standard error.
    pub complaint: Option<String>,
    /// The most memory it held, as far as that is known.
    pub peak_rss_bytes: Option<u64>,
    /// Whether the kernel killed for want of memory while it ran.
    pub oom_killed: bool,
    /// Whether an earlier process had started it.
    pub adopted: bool,
}

/// Time between two looks at a running command: short at first, then this.
const LOOK: Duration = Duration::from_millis(200);
/// Time between two looks at its memory.
const LOOK_MEMORY: Duration = Duration::from_millis(100);
/// The exit status of a command that SIGKILL ended.
pub(super) const SIGKILLED: i32 = 128 + 9;
/// What marks a report on standard output.
const MARK: &[u8] = b"::pleach ";

impl Command {
    /// Runs one attempt to its end, or takes over what an earlier process left of it.
    ///
    /// `watch` is called with the new intermediate reports at every look, and says how to go on.
    ///
    /// # Errors
    /// What the system refuses: creating the files, starting the program.
    pub fn run(&self, job: &Job<'_>, watch: &mut dyn FnMut(&[Report]) -> Go) -> io::Result<Run> {
        let files = job.files();
        let oom_kills = memory::oom_kills();
        let mut sources = Sources::new(&files);
        let is_reported = || {
            let mut sources = Sources::new(&files);
            sources.finish();
            sources.reports.is_complete
        };
        let (supervisor, adopted) = match files.enter(&config_json(job.params), &is_reported)? {
            Found::Nothing(log) => (Some(self.launch(job, &files, log)?), false),
            Found::Alive(supervisor) => (Some(supervisor), true),
            Found::Finished => (None, true),
        };
        let mut run = Run {
            end: End::Lost,
            reports: Reports::default(),
            complaint: None,
            peak_rss_bytes: None,
            oom_killed: false,
            adopted,
        };
        let stopped = match &supervisor {
            Some(supervisor) => self.attend(supervisor, &files, &mut sources, &mut run.peak_rss_bytes, watch),
            None => files.stop_reason().and_then(|reason| stop_end(&reason)),
        };
        let ended = supervisor.map(|supervisor| supervisor.finish(files.path())).transpose()?.flatten();
        sources.finish();
        watch(&std::mem::take(&mut sources.fresh));
        run.reports = sources.reports;
        run.end = match (stopped, files.status().or_else(|| ended.as_ref()?.status.code())) {
            // It was over before the signal came.
            (None | Some(End::Killed), Some(status)) if stopped.is_none() || status != SIGKILLED => {
                End::Exited(status)
            }
            (Some(end), _) => end,
            (None, _) => End::Lost,
        };
        if run.end == End::Exited(0) {
            return Ok(run);
        }
        run.complaint = last_line(&files.stderr());
        run.oom_killed = oom_kills.is_some() && memory::oom_kills() > oom_kills;
        if let Some(ended) = ended
            && memory::own_peak_bytes().is_some_and(|own| ended.peak_rss_bytes > own)
        {
            run.peak_rss_bytes = run.peak_rss_bytes.max(Some(ended.peak_rss_bytes));
        }
        Ok(run)
    }

    fn launch(&self, job: &Job<'_>, files: &Folder, stdout: File) -> io::Result<Supervisor> {
        let text = |number: u64| number.to_string();
        let (trial, attempt, seed) = (text(job.number), text(job.attempt.into()), text(job.seed));
        let (config, report, checkpoints) = (files.config(), files.report(), files.checkpoints());
        let mut env: Vec<(&str, &OsStr)> =
            self.spec.env.iter().map(|(name, value)| (name.as_str(), value.as_ref())).collect();
        env.extend([
            ("PLEACH_STUDY", job.study.as_ref()),
            ("PLEACH_TRIAL", trial.as_ref()),
            ("PLEACH_ATTEMPT", attempt.as_ref()),
            ("PLEACH_SEED", seed.as_ref()),
            ("PLEACH_CONFIG", config.as_ref()),
            ("PLEACH_REPORT", report.as_ref()),
            ("PLEACH_CKPT_DIR", checkpoints.as_ref()),
        ] as [(&str, &OsStr); 7]);
        let stdin = match self.spec.stdin {
            Stdin::Null => File::open("/dev/null")?,
            Stdin::Config => File::open(&config)?,
        };
        let streams = Streams { stdin, stdout, stderr: append(&files.stderr())? };
        Supervisor::launch(files, &self.arguments(job), &env, self.spec.cwd.as_deref(), streams)
    }

    /// Watches a command until its supervisor has ended; the reason, if it was stopped.
    fn attend(
        &self,
        supervisor: &Supervisor,
        files: &Folder,
        sources: &mut Sources,
        peak: &mut Option<u64>,
        watch: &mut dyn FnMut(&[Report]) -> Go,
    ) -> Option<End> {
        let now = Instant::now();
        let started = now.checked_sub(supervisor.age()).unwrap_or(now);
        let limit = self.spec.timeout.and_then(|timeout| started.checked_add(timeout));
        let mut stopping = Stopping { supervisor, files, end: None, kill_at: None };
        if let Some(end) = files.stop_reason().and_then(|reason| stop_end(&reason)) {
            stopping.begin(end, self.spec.grace);
        }
        let longest = if self.spec.memory.is_some() { LOOK_MEMORY } else { LOOK };
        let mut pause = Duration::from_millis(10);
        let mut read_all = true;
        loop {
            let deadline = if stopping.end.is_none() { limit } else { stopping.kill_at };
            let left = deadline.map_or(pause, |deadline| deadline.saturating_duration_since(Instant::now()));
            if supervisor.wait(if read_all { left.min(pause) } else { Duration::ZERO }) {
                return stopping.end;
            }
            pause = (pause * 2).min(longest);
            read_all = sources.look();
            match watch(&std::mem::take(&mut sources.fresh)) {
                Go::On => {}
                Go::Stop => stopping.begin(End::Stopped, self.spec.grace),
                Go::Kill => stopping.kill(End::Killed),
            }
            if let Some(limit) = self.spec.memory {
                let held = memory::resident_bytes(supervisor.pid(), limit);
                *peak = (*peak).max(Some(held));
                if held > limit {
                    stopping.kill(End::OverMemory);
                }
            }
            let now = Instant::now();
            if limit.is_some_and(|limit| now >= limit) {
                stopping.begin(End::TimedOut, self.spec.grace);
            }
            if stopping.kill_at.is_some_and(|at| now >= at) {
                stopping.kill(End::Killed);
            }
        }
    }
}

/// A command on its way out; the first reason stands.
#[derive(Debug)]
struct Stopping<'a> {
    supervisor: &'a Supervisor,
    files: &'a Folder,
    end: Option<End>,
    kill_at: Option<Instant>,
}

impl Stopping<'_> {
    /// Asks the command to stop, once.
    fn begin(&mut self, end: End, grace: Duration) {
        if self.note(end) {
            self.kill_at = Instant::now().checked_add(grace);
            self.supervisor.signal(Signal::TERM);
            // A stopped process takes the signal only once it goes on.
            self.supervisor.signal(Signal::CONT);
        }
    }

    /// Kills what is left, and again a little later: members may just have been made.
    fn kill(&mut self, end: End) {
        self.note(end);
        self.kill_at = Instant::now().checked_add(LOOK_MEMORY);
        self.supervisor.signal(Signal::KILL);
    }

    /// True for the first reason, which is left for whoever adopts the rest.
    fn note(&mut self, end: End) -> bool {
        let first = self.end.is_none();
        if first {
            self.end = Some(end);
            if let Some((_, reason)) = REASONS.iter().find(|(other, _)| *other == end)
                && let Err(error) = self.files.set_stop_reason(reason)
            {
                tracing::warn!(%error, "cannot note why a command is stopped");
            }
        }
        first
    }
}

/// The reasons to stop a command that outlive us, as the folder spells them.
const REASONS: [(End, &str); 3] =
    [(End::TimedOut, "timeout"), (End::OverMemory, "memory"), (End::Stopped, "stopped")];

fn stop_end(reason: &str) -> Option<End> {
    REASONS.iter().find(|(_, other)| *other == reason).map(|(end, _)| *end)
}

/// Where reports come from, and what came.
#[derive(Debug)]
struct Sources {
    tails: [Tail; 2],
    reports: Reports,
    /// Intermediate reports that were not handed on yet.
    fresh: Vec<Report>,
}

impl Sources {
    fn new(files: &Folder) -> Self {
        let tails = [Tail::new(files.report(), b""), Tail::new(files.stdout(), MARK)];
        Self { tails, reports: Reports::default(), fresh: Vec::new() }
    }

    /// Reads on; true when all that is written was read.
    fn look(&mut self) -> bool {
        let (reports, fresh) = (&mut self.reports, &mut self.fresh);
        let mut read_all = true;
        for tail in &mut self.tails {
            let look = tail.look(|line| fresh.extend(reports.take(line)));
            read_all &= look.unwrap_or_else(|error| reports.warn(format!("reports cannot be read: {error}")));
        }
        read_all
    }

    fn finish(&mut self) {
        while !self.look() {}
        for tail in &mut self.tails {
            tail.finish(|line| self.fresh.extend(self.reports.take(line)));
        }
    }
}

/// The last line of a file that says something, without control characters and of bounded length.
fn last_line(path: &Path) -> Option<String> {
    const TAIL: u64 = 4096;
    if fs::metadata(path).ok()?.len() == 0 {
        return None;
    }
    let mut file = File::open(path).ok()?;
    let start = file.metadata().ok()?.len().saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let clean = |line: &str| line.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned();
    let line = text.split(['\n', '\r']).rev().map(clean).find(|line| !line.is_empty())?;
    Some(shorten(&line, 300))
}

//! Trials evaluated by commands: what the end of a command means for its trial.

use std::fs::{self, File};
use std::io;
use std::path::{Path, absolute};

use pleach_search::{FailureClass, Metric};

use super::folder::set_aside;
use super::process::kill_runs;
use super::run::SIGKILLED;
use super::{BACKOFF_MAX, Command, End, Go, Job, RESERVED, Reports, Run};
use crate::{Assignment, Error, Evaluation, Evaluator, Study, Tell, TrialContext};

/// The exit status of a command whose point cannot be evaluated (`EX_USAGE`).
pub const INFEASIBLE: i32 = 64;
/// The exit status of a command that failed for a reason that will pass (`EX_TEMPFAIL`).
pub const TEMPORARY: i32 = 75;

/// Evaluates the trials of one study by a command.
#[derive(Debug)]
pub struct CommandEvaluator {
    command: Command,
    study: String,
    study_id: String,
    metrics: Vec<Metric>,
}

impl CommandEvaluator {
    /// For the trials of `study`, whose folder is made if it does not exist.
    ///
    /// # Errors
    /// If the folder cannot be written, the study cannot be read, or a metric has a name that
    /// reports use otherwise.
    pub fn new(study: &Study, command: Command) -> Result<Self, Error> {
        let spec = study.spec()?;
        if let Some(metric) = spec.metrics.iter().find(|metric| RESERVED.contains(&metric.name.as_str())) {
            let message =
                format!("a metric cannot be called {}, which means something else in reports", metric.name);
            return Err(Error::Command { message });
        }
        let study_id = study.id();
        let folder = study.trial_folder(0).parent().map(Path::to_path_buf).unwrap_or_default();
        claim(&folder, &study_id).map_err(|error| Error::io("prepare", &folder, error))?;
        Ok(Self { command, study: spec.name, study_id, metrics: spec.metrics })
    }
}

impl Evaluator for CommandEvaluator {
    fn evaluate(&self, assignment: &Assignment, context: &TrialContext<'_>) -> Result<Tell, Error> {
        let folder = absolute(context.study().trial_folder(assignment.number))
            .map_err(|error| Error::io("resolve the folder of", context.study().path(), error))?;
        let job = self.job(assignment, &folder);
        let run = self.command.run(&job, &mut |reports| {
            for report in reports {
                let step = report.step.expect("an intermediate report has a step");
                if let Err(error) = context.report(step, report.metrics.clone()) {
                    tracing::warn!(trial = job.number, %error, "an intermediate report was not recorded");
                }
            }
            match (context.is_killed(), context.is_unwanted()) {
                (true, _) => Go::Kill,
                (_, true) => Go::Stop,
                _ => Go::On,
            }
        });
        match run {
            Ok(run) => {
                let tell = self.judge(run, &job, context)?;
                // Its point is not to blame for a command that could not write.
                if matches!(tell, Tell::Failed { .. }) && is_on_full_disk(&folder) {
                    job.files()
                        .forget_attempt()
                        .map_err(|error| Error::io("number the logs in", &folder, error))?;
                    return Err(Error::DiskFull { path: folder });
                }
                Ok(tell)
            }
            Err(error) if is_of_this_trial(&error) => {
                Ok(failed(FailureClass::Crashed, format!("the command cannot be started: {error}"), None))
            }
            Err(error) => Err(Error::io("run the command in", &folder, error)),
        }
    }
}

impl CommandEvaluator {
    fn job<'a>(&'a self, assignment: &'a Assignment, folder: &'a Path) -> Job<'a> {
        Job {
            study: &self.study,
            study_id: &self.study_id,
            number: assignment.number,
            attempt: assignment.attempt,
            seed: assignment.seed,
            params: &assignment.params,
            folder,
        }
    }

    /// What the end of an attempt means for the trial.
    fn judge(&self, run: Run, job: &Job<'_>, context: &TrialContext<'_>) -> Result<Tell, Error> {
        let reason = |what: String| {
            let words = [Some(what), run.complaint.clone()]
                .into_iter()
                .flatten()
                .chain(run.reports.warnings.iter().cloned());
            words.collect::<Vec<_>>().join("; ")
        };
        let out_of_memory =
            |what: String| failed(FailureClass::OutOfMemory, reason(what), run.peak_rss_bytes);
        Ok(match run.end {
            End::Exited(0) => self.measured(run),
            End::Exited(INFEASIBLE) => Tell::Infeasible { reason: run.complaint },
            End::Exited(SIGKILLED) if run.oom_killed => {
                out_of_memory("the system ran out of memory and killed it".into())
            }
            End::OverMemory => {
                let limit = self.command.spec().memory.unwrap_or_default();
                out_of_memory(format!("it held more than its limit of {limit} bytes"))
            }
            End::Exited(status) => return self.crashed(status, &reason(describe(status)), job, context),
            // Its supervisor died, but it had said all it had to say.
            End::Lost if run.adopted && run.reports.is_complete => self.measured(run),
            // It died with the process that had started it.
            End::Lost if run.adopted => Tell::Retry,
            End::Lost => {
                let what = "the process that watched over it was killed".to_owned();
                return self.crashed(SIGKILLED, &reason(what), job, context);
            }
            End::TimedOut => Tell::Timeout,
            End::Stopped if context.is_unwanted() => Tell::Cancelled,
            End::Stopped | End::Killed => Tell::Retry,
        })
    }

    /// A command that ended well.
    fn measured(&self, run: Run) -> Tell {
        let missing: Vec<&str> = self
            .metrics
            .iter()
            .map(|metric| metric.name.as_str())
            .filter(|name| run.reports.value(name).is_none())
            .collect();
        if !missing.is_empty() {
            let mut reason = format!("the command ended well and did not report {}", missing.join(", "));
            if run.reports.warnings.is_empty() {
                let example = format!("; print a line such as ::pleach {{\"{}\": 0.5}}", missing[0]);
                reason.push_str(&example);
            }
            for warning in &run.reports.warnings {
                reason.extend(["; ", warning]);
            }
            return failed(FailureClass::MetricMissing, reason, None);
        }
        let Reports { last, intermediate, warnings, .. } = run.reports;
        let mut metrics = intermediate;
        metrics.extend(last.metrics);
        let values = self.metrics.iter().map(|metric| (&metric.name, metrics[&metric.name]));
        let diverged =
            values.filter(|(_, value)| !value.is_finite()).map(|(name, value)| format!("{name} is {value}"));
        let notes: Vec<String> = diverged.chain(warnings).collect();
        let note = (!notes.is_empty()).then(|| notes.join("; "));
        Tell::Done(Evaluation { metrics, sem: last.sem, cost: last.cost, features: last.features, note })
    }

    /// A command that failed: again after a pause, while its retries last.
    fn crashed(
        &self,
        status: i32,
        reason: &str,
        job: &Job<'_>,
        context: &TrialContext<'_>,
    ) -> Result<Tell, Error> {
        let spec = self.command.spec();
        let temporary = status == TEMPORARY;
        let files = job.files();
        let same_kind =
            |closed: &Option<i32>| closed.is_some_and(|closed| (closed == TEMPORARY) == temporary);
        let before = files.closed_attempts().filter(same_kind).count();
        let retries = if temporary { spec.temporary_retries } else { spec.retries };
        if before as u64 >= u64::from(retries) {
            let times =
                if before > 0 { format!(" ({} attempts of this kind)", before + 1) } else { String::new() };
            return Ok(failed(FailureClass::Crashed, format!("{reason}{times}"), None));
        }
        files
            .close_attempt(Some(status))
            .map_err(|error| Error::io("number the logs in", job.folder, error))?;
        let doubled = 1_u32.checked_shl(u32::try_from(before).unwrap_or(u32::MAX)).unwrap_or(u32::MAX);
        context.wait(spec.backoff.saturating_mul(doubled).min(BACKOFF_MAX));
        Ok(Tell::Retry)
    }
}

fn failed(class: FailureClass, reason: String, peak_rss_bytes: Option<u64>) -> Tell {
    Tell::Failed { class, reason: Some(reason), peak_rss_bytes }
}

fn describe(status: i32) -> String {
    match status {
        TEMPORARY => format!("exit status {status}, a temporary failure"),
        126 | 127 => format!("exit status {status}, the program could not be started"),
        129..=192 => format!("killed by signal {}", status - 128),
        _ => format!("exit status {status}"),
    }
}

/// Whether an error in starting a command comes from its arguments or files, not from the machine.
fn is_of_this_trial(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::ArgumentListTooLong | io::ErrorKind::Other
    )
}

/// Whether hardly anything can be written to the file system of `folder`.
fn is_on_full_disk(folder: &Path) -> bool {
    const LEAST_BYTES: u64 = 64 * 1024;
    let Ok(disk) = rustix::fs::statvfs(folder) else { return false };
    // What is reserved for root is free for root.
    let blocks = if rustix::process::geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
    disk.f_blocks > 0 && blocks.saturating_mul(disk.f_frsize) < LEAST_BYTES
}

/// Makes the folder of a study's trials. One that belonged to another study of the same name and
/// place, which was deleted, is moved aside: its trials are not ours.
fn claim(folder: &Path, study_id: &str) -> io::Result<()> {
    let above = folder.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(above)?;
    let lock = File::create(above.join(".lock"))?;
    lock.lock()?;
    let owner = folder.join(".study");
    match fs::read_to_string(&owner) {
        Ok(found) if found == study_id => return Ok(()),
        // A power cut took the text.
        Ok(found) if found.is_empty() => {}
        Ok(_) => {
            kill_runs(folder, None);
            set_aside(folder)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs::create_dir_all(folder)?;
    fs::write(owner, study_id)
}

//! `pleach best`, `ls`, `show`, `logs`: what a study knows.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use pleach_study::{Filter, Reader, Spec, State, TrialRecord};
use serde_json::json;

use crate::answer;
use crate::choice;
use crate::fault::{Exit, Fault};
use crate::storage::{self, Where};
use crate::text;
use crate::units::{show_duration, show_size};

/// Print the best point found so far
#[derive(Args, Debug)]
pub(crate) struct Best {
    /// An experiment file or a study file
    file: Option<PathBuf>,
    #[command(flatten)]
    place: Where,
    /// Print JSON: {"study", "best": null or {"number", "value", "sem", "feasible", "params", "metrics"}}
    #[arg(long)]
    json: bool,
}

impl Best {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let target = self.place.find(self.file.as_deref())?;
        let (reader, spec) = target.reader()?;
        let progress = reader.progress(Some(&spec.name))?;
        if self.json {
            writeln!(
                out,
                "{}",
                json!({ "study": spec.name, "best": text::json_best(progress.best.as_ref()) })
            )?;
        } else {
            answer::print(out, &spec, &progress, target.builtin())?;
        }
        Ok(if progress.best.is_some() { Exit::Done } else { Exit::NoSuccess })
    }
}

/// List trials
#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// An experiment file or a study file
    file: Option<PathBuf>,
    #[command(flatten)]
    place: Where,
    /// Only trials in this state; may be repeated
    #[arg(long, value_name = "STATE")]
    state: Vec<State>,
    /// This many of the best trials, best first
    #[arg(long, value_name = "N", conflicts_with_all = ["last", "all"])]
    top: Option<usize>,
    /// This many of the newest trials
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: usize,
    /// Every trial
    #[arg(long)]
    all: bool,
    /// Print every selected trial as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Ls {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let (reader, spec) = self.place.find(self.file.as_deref())?.reader()?;
        let filter = Filter { states: self.state.clone(), ..Filter::default() };
        let mut trials = reader.trials(Some(&spec.name), &filter)?;
        let total = trials.len();
        if let Some(top) = self.top {
            let problem = spec.problem()?;
            trials.sort_by_cached_key(|trial| (answer::merit(&problem, trial), trial.number));
            trials.truncate(top);
        } else if !self.all && !self.json {
            trials.drain(..total.saturating_sub(self.last));
        }
        if self.json {
            for trial in &trials {
                writeln!(out, "{}", text::json_trial(trial))?;
            }
            return Ok(Exit::Done);
        }
        let metrics: Vec<&str> = spec.metrics.iter().map(|metric| metric.name.as_str()).collect();
        let header = [&["trial", "state"][..], &metrics, &["parameters"]].concat();
        let rows: Vec<Vec<String>> = trials.iter().map(|trial| row(trial, &metrics)).collect();
        text::table(out, &header, &rows)?;
        if trials.len() < total {
            writeln!(out, "({} of {total} trials; --all shows all)", trials.len())?;
        }
        Ok(Exit::Done)
    }
}

fn row(trial: &TrialRecord, metrics: &[&str]) -> Vec<String> {
    let state = match trial.failure {
        Some(class) if trial.state == State::Failed => format!("failed ({class})"),
        _ => trial.state.to_string(),
    };
    let values = metrics.iter().map(|name| trial.metric(name).map(text::number).unwrap_or_default());
    [trial.number.to_string(), state].into_iter().chain(values).chain([text::line(&trial.params)]).collect()
}

/// Show everything about one trial, or how a study searches
#[derive(Args, Debug)]
#[command(override_usage = "pleach show [OPTIONS] [FILE] [NUMBER]")]
pub(crate) struct Show {
    /// [FILE] [NUMBER]: an experiment or study file, if needed, and the trial; without it, the study
    #[arg(num_args = 0..=2)]
    args: Vec<String>,
    #[command(flatten)]
    place: Where,
    /// Print JSON: the fields of the trial, and "reports"; of a study {"study", "method", "options",
    /// "seed", "descriptors", "choice", "counts"}
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let (file, rest) = storage::split(&self.args);
        let (reader, spec) = self.place.find(file)?.reader()?;
        if rest.is_empty() {
            return self.study(out, &reader, &spec);
        }
        let (name, number) = (&spec.name, storage::one_number(rest)?);
        let trial = reader.trial(Some(name), number)?;
        let reports = reader.reports(Some(name), number)?;
        if self.json {
            let mut json = text::json_trial(&trial);
            json["reports"] = reports.iter().map(text::json_report).collect();
            writeln!(out, "{json}")?;
            return Ok(Exit::Done);
        }
        writeln!(out, "trial {number} of {name}: {}", trial.state)?;
        for (what, value) in facts(&trial) {
            writeln!(out, "  {what:<10}{value}")?;
        }
        writeln!(out, "parameters")?;
        for (name, value) in &trial.params {
            writeln!(out, "  {name} = {}", text::toml_value(value))?;
        }
        if !trial.metrics.is_empty() {
            writeln!(out, "metrics")?;
        }
        for (name, value) in &trial.metrics {
            writeln!(out, "  {name} = {value:?}")?;
        }
        if !reports.is_empty() {
            writeln!(out, "reports")?;
        }
        for report in &reports {
            let metrics: Vec<String> = report
                .metrics
                .iter()
                .map(|(name, value)| format!("{name} = {}", text::number(*value)))
                .collect();
            writeln!(out, "  step {:<8}{}", report.step, metrics.join("  "))?;
        }
        Ok(Exit::Done)
    }

    /// How a study searches.
    fn study(&self, out: &mut dyn Write, reader: &Reader, spec: &Spec) -> Result<Exit, Fault> {
        let name = &spec.name;
        let choice = reader.first_spec(Some(name))?.choice()?;
        let progress = reader.progress(Some(name))?;
        let options: Vec<_> =
            spec.options.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        if self.json {
            let json = json!({
                "study": name,
                "method": spec.method,
                "options": text::json_params(&options),
                "seed": spec.seed,
                "descriptors": spec.descriptors,
                "choice": choice::json(choice.as_ref()),
                "counts": text::json_counts(&progress),
            });
            writeln!(out, "{json}")?;
            return Ok(Exit::Done);
        }
        writeln!(out, "study {name}: {}", answer::counts(&progress))?;
        writeln!(out, "{:<11}{}", "method", choice::method(spec))?;
        for (name, source) in &spec.descriptors {
            writeln!(out, "{:<11}{name}: {source}", "descriptor")?;
        }
        if let Some(choice) = &choice {
            choice::print(out, choice)?;
        }
        Ok(Exit::Done)
    }
}

/// What else is known of a trial, in words.
fn facts(trial: &TrialRecord) -> Vec<(&'static str, String)> {
    let mut facts = vec![("origin", trial.origin.clone()), ("attempt", trial.attempt.to_string())];
    facts.extend(trial.worker.clone().map(|worker| ("worker", worker)));
    if let (Some(start), Some(end)) = (trial.started_ms, trial.ended_ms) {
        let length = std::time::Duration::from_millis(end.saturating_sub(start).max(0).unsigned_abs());
        facts.push(("took", show_duration(length)));
    }
    facts.extend(trial.failure.map(|class| ("failure", class.to_string())));
    facts.extend(trial.error.clone().map(|error| ("error", error)));
    facts.extend(trial.sem.map(|sem| ("sem", text::number(sem))));
    facts.extend(trial.cost.map(|cost| ("cost", text::number(cost))));
    facts.extend(trial.peak_rss_bytes.map(|bytes| ("memory", show_size(bytes))));
    facts
}

/// Print what the command of a trial wrote
#[derive(Args, Debug)]
#[command(override_usage = "pleach logs [OPTIONS] [FILE] <NUMBER>")]
pub(crate) struct Logs {
    /// [FILE] NUMBER: an experiment or study file, if needed, and the trial
    #[arg(required = true, num_args = 1..=2)]
    args: Vec<String>,
    #[command(flatten)]
    place: Where,
    /// Only the standard error
    #[arg(long, conflicts_with = "stdout")]
    stderr: bool,
    /// Only the standard output
    #[arg(long)]
    stdout: bool,
    /// Print JSON: {"folder", "stdout", "stderr"}
    #[arg(long)]
    json: bool,
}

impl Logs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let (file, rest) = storage::split(&self.args);
        let number = storage::one_number(rest)?;
        let (reader, Spec { name, .. }) = self.place.find(file)?.reader()?;
        reader.trial(Some(&name), number)?;
        let folder = trial_folder(reader.path(), &name, number);
        let log = |name: &str| std::fs::read(folder.join(name)).ok();
        let (stdout, stderr) = (log("stdout.log"), log("stderr.log"));
        if stdout.is_none() && stderr.is_none() {
            return Err(Fault::failed(format!("trial {number} has no logs in {}", folder.display()))
                .help("only trials that run a command have logs"));
        }
        let (stdout, stderr) = (stdout.unwrap_or_default(), stderr.unwrap_or_default());
        if self.json {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            writeln!(
                out,
                "{}",
                json!({ "folder": folder, "stdout": text(&stdout), "stderr": text(&stderr) })
            )?;
            return Ok(Exit::Done);
        }
        if !self.stderr {
            out.write_all(&stdout)?;
        }
        if !self.stdout {
            out.write_all(&stderr)?;
        }
        Ok(Exit::Done)
    }
}

/// The folder of a trial's files, as `Study::trial_folder` lays it out.
fn trial_folder(path: &Path, study: &str, number: u64) -> PathBuf {
    path.with_extension("trials").join(study).join(format!("{number:06}"))
}

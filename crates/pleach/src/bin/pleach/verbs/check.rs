//! `pleach check`: an experiment file, examined before it costs anything.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use pleach_search::{Domain, Literal, Parameter, Seed, Space};
use pleach_study::command::Job;
use pleach_study::{Reader, Spec};
use serde_json::json;

use crate::choice;
use crate::experiment::{Experiment, Work, stored};
use crate::fault::{Exit, Fault};
use crate::text;
use crate::units::{show_duration, show_size};

/// Examine an experiment file and show what it would run, without running it
#[derive(Args, Debug)]
pub(crate) struct Check {
    /// The experiment file
    file: PathBuf,
    /// How many points of the space to show
    #[arg(short = 'k', long, value_name = "K", default_value_t = 3)]
    samples: usize,
    /// Print JSON: {"name", "parameters", "points", "admitted", "method", "choice", "storage", "samples"}
    #[arg(long)]
    json: bool,
}

/// Random points that are drawn to see how many keep the known constraints.
const DRAWS: usize = 1000;

impl Check {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let experiment = Experiment::load(&self.file)?;
        let space = experiment.space()?;
        let command = experiment.command()?;
        let seed = Seed::new(experiment.spec.seed).child("check", 0);
        let mut samples = Vec::new();
        for k in 0..self.samples as u64 {
            let point = space.sample(&mut seed.rng(k), &[]).map_err(|error| experiment.explain(&error))?;
            let params: Vec<(String, Literal)> =
                space.literals(&point).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let argv = command.as_ref().map(|command| {
                command.arguments(&Job {
                    study: &experiment.spec.name,
                    study_id: "",
                    number: k,
                    attempt: 1,
                    seed: 0,
                    params: &params,
                    folder: Path::new("TRIAL"),
                })
            });
            samples.push((params, argv));
        }
        let admitted = admitted(&space, seed);
        let stored = stored(&experiment.storage, &experiment.spec.name);
        let spec = experiment.spec_over(stored.as_ref());
        // What the study began with is what its method was chosen for.
        let choice = stored.as_ref().unwrap_or(&spec).choice().map_err(|error| experiment.explain(&error))?;
        if self.json {
            let samples: Vec<_> = samples
                .iter()
                .map(|(params, argv)| json!({ "params": text::json_params(params), "command": argv }))
                .collect();
            let json = json!({
                "name": experiment.spec.name,
                "parameters": space.parameters().len(),
                "points": space.cardinality(),
                "admitted": admitted,
                "method": spec.method,
                "choice": choice::json(choice.as_ref()),
                "storage": experiment.storage,
                "samples": samples,
            });
            writeln!(out, "{json}")?;
            return Ok(Exit::Done);
        }
        writeln!(out, "{} is in order: study {}", self.file.display(), experiment.spec.name)?;
        describe(out, &experiment, &spec, &space, admitted)?;
        if let Some(choice) = &choice {
            writeln!(out)?;
            choice::print(out, choice)?;
        }
        if !samples.is_empty() {
            writeln!(out, "\nsamples (no trial is run)")?;
        }
        for (params, argv) in &samples {
            writeln!(out, "  {}", text::line(params))?;
            if let Some(argv) = argv {
                let argv: Vec<String> = argv.iter().map(|word| quote(word)).collect();
                writeln!(out, "    $ {}", argv.join(" "))?;
            }
        }
        Ok(Exit::Done)
    }
}

/// The share of uniform draws that keep the known constraints; none without constraints.
fn admitted(space: &Space, seed: Seed) -> Option<f64> {
    space.constraints().next()?;
    let mut rng = seed.rng(u64::MAX);
    let inside = (0..DRAWS).filter(|_| {
        let unit: Vec<f64> = (0..space.unit_len()).map(|_| rng.unit()).collect();
        space.admits(&space.decode(&unit))
    });
    Some(inside.count() as f64 / DRAWS as f64)
}

fn describe(
    out: &mut dyn Write,
    experiment: &Experiment,
    spec: &Spec,
    space: &Space,
    admitted: Option<f64>,
) -> Result<(), Fault> {
    let mut line = |what: &str, text: String| writeln!(out, "{what:<11}{text}");
    for metric in &spec.metrics {
        let goal = text::limit(metric).unwrap_or_else(|| {
            format!("to be {}imised", if metric.goal == pleach_search::Goal::Min { "min" } else { "max" })
        });
        line("metric", format!("{}: {goal}", metric.name))?;
    }
    let points = match space.cardinality() {
        Some(1) => "1 point".to_owned(),
        Some(count) => format!("at most {count} points"),
        None => "unbounded, or too large to count".to_owned(),
    };
    line("space", format!("{} parameters, {points}", space.parameters().len()))?;
    for parameter in space.parameters().iter().take(50) {
        line("", describe_parameter(parameter))?;
    }
    if space.parameters().len() > 50 {
        line("", format!("and {} more", space.parameters().len() - 50))?;
    }
    if let Some(share) = admitted {
        let share = if share == 0.0 { format!("none of {DRAWS}") } else { format!("{:.0} %", 100.0 * share) };
        let known = spec.constraints.len();
        let (noun, them) = if known == 1 { ("constraint", "it") } else { ("constraints", "them") };
        line("known", format!("{known} {noun}; {share} of random draws keep {them}"))?;
    }
    for (name, source) in &spec.descriptors {
        line("descriptor", format!("{name}: {source}"))?;
    }
    line("method", choice::method(spec))?;
    match &experiment.work {
        Work::Builtin(builtin) => line("trial", format!("the built-in problem {}", builtin.name()))?,
        Work::Command(command) => {
            let mut parts = vec![format!("the command {}", command.argv[0])];
            parts.extend(command.timeout.map(|timeout| format!("at most {}", show_duration(timeout))));
            parts.extend(command.memory.map(|bytes| format!("at most {}", show_size(bytes))));
            parts.extend((command.retries > 0).then(|| format!("{} retries", command.retries)));
            line("trial", parts.join(", "))?;
        }
    }
    let limits = &experiment.limits;
    let trials = limits.trials.map_or("no limit on trials".to_owned(), |trials| format!("{trials} trials"));
    let wall = limits.wall.map(|wall| format!(", at most {} a run", show_duration(wall))).unwrap_or_default();
    line("limits", format!("{trials}, {} at once{wall}", limits.parallel))?;
    let path = &experiment.storage;
    let state = if path.exists() {
        let progress = Reader::open(path)?.progress(Some(&spec.name));
        progress.map_or("the study is new".to_owned(), |progress| {
            format!("the study has {}", crate::answer::counts(&progress))
        })
    } else {
        "to be made".to_owned()
    };
    line("storage", format!("{}: {state}", path.display()))?;
    Ok(())
}

fn describe_parameter(parameter: &Parameter) -> String {
    let scale = |log: bool| if log { ", log" } else { "" };
    let domain = match &parameter.domain {
        Domain::Float { low, high, log, step } => {
            let step = step.map(|step| format!(", step {}", text::number(step))).unwrap_or_default();
            format!("float from {} to {}{}{step}", text::number(*low), text::number(*high), scale(*log))
        }
        Domain::Int { low, high, log, step } => {
            let step = if *step == 1 { String::new() } else { format!(", step {step}") };
            format!("int from {low} to {high}{}{step}", scale(*log))
        }
        Domain::Ordinal { values } => format!("one of {}, in order", some(values)),
        Domain::Choice { values } => format!("one of {}", some(values)),
        Domain::Bool => "true or false".to_owned(),
        Domain::Permutation { n } => format!("an order of {n}"),
        _ => "another kind".to_owned(),
    };
    let when = parameter.when.as_ref().map(|when| format!(" (when {when})")).unwrap_or_default();
    format!("{}: {domain}{when}", parameter.name)
}

/// The first values of a list, and how many there are.
fn some(values: &[Literal]) -> String {
    let shown: Vec<String> = values.iter().take(8).map(text::short).collect();
    let more =
        if values.len() > shown.len() { format!(", … ({} in all)", values.len()) } else { String::new() };
    shown.join(", ") + &more
}

/// A word as a shell would need it, so that the line can be tried by hand.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

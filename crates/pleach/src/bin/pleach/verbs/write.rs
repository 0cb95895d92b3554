//! `pleach ask`, `tell`, `enqueue`, `cancel`, `retry`: a study by hand, or from a script.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pleach_search::{FailureClass, Literal};
use pleach_study::{Evaluation, Lease, Spec, Tell as TellStudy};
use serde::Deserialize;
use serde_json::json;

use crate::experiment::{nearest, parse_value};
use crate::fault::{Exit, Fault};
use crate::storage::{self, Where};
use crate::text;

/// Hand out trials, to be evaluated by hand or by a script and told with `pleach tell`
#[derive(Args, Debug)]
pub(crate) struct Ask {
    /// An experiment file (the study is created if needed) or a study file
    file: Option<PathBuf>,
    #[command(flatten)]
    place: Where,
    /// How many
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    n: usize,
    /// Who evaluates them
    #[arg(long, value_name = "NAME", default_value = "by-hand")]
    worker: String,
    /// Print one line of JSON a trial: {"number", "attempt", "seed", "params"}
    #[arg(long)]
    json: bool,
}

impl Ask {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        // The trials outlive this process, so nobody may take them for lost.
        let study = self.place.find(self.file.as_deref())?.open(Lease::Forever)?;
        let assignments = study.ask(&self.worker, self.n, None)?;
        for assignment in &assignments {
            let number = assignment.number;
            if self.json {
                let json = json!({
                    "number": number,
                    "attempt": assignment.attempt,
                    "seed": assignment.seed,
                    "params": text::json_params(&assignment.params),
                });
                writeln!(out, "{json}")?;
            } else {
                writeln!(out, "trial {number}")?;
                for (name, value) in &assignment.params {
                    writeln!(out, "  {name} = {}", text::toml_value(value))?;
                }
            }
        }
        out.flush()?;
        study.close()?;
        Ok(Exit::Done)
    }
}

/// Tell what came of a trial
#[derive(Args, Debug)]
#[command(override_usage = "pleach tell [OPTIONS] [FILE] <NUMBER> [METRIC=VALUE]...")]
pub(crate) struct Tell {
    /// [FILE] NUMBER METRIC=VALUE...: every declared metric, and any others worth keeping
    #[arg(required = true)]
    args: Vec<String>,
    #[command(flatten)]
    place: Where,
    /// Instead of metrics: how it ended
    #[arg(long, value_name = "STATUS")]
    status: Option<Status>,
    /// Why, in words; for infeasible and failed
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Standard error of the objective
    #[arg(long, value_name = "X")]
    sem: Option<f64>,
    /// What it cost
    #[arg(long, value_name = "X")]
    cost: Option<f64>,
}

/// How a trial ended without metrics.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Infeasible,
    Failed,
    Timeout,
    Pruned,
    Paused,
    Retry,
    Cancelled,
}

impl Tell {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let (file, rest) = storage::split(&self.args);
        let (number, metrics) = rest.split_first().map_or((&[][..], &[][..]), |_| rest.split_at(1));
        let number = storage::one_number(number)?;
        let metrics = storage::pairs(metrics)?
            .into_iter()
            .map(|(name, value)| {
                let value = value
                    .parse()
                    .map_err(|_| Fault::usage(format!("{name} = {value}: expected a number")))?;
                Ok((name.to_owned(), value))
            })
            .collect::<Result<BTreeMap<String, f64>, Fault>>()?;
        let tell = self.outcome(metrics)?;
        let study = self.place.find(file)?.open(Lease::Forever)?;
        if let TellStudy::Done(evaluation) = &tell {
            check_metrics(&study.spec()?, evaluation)?;
        }
        let state = study.tell(number, None, tell)?;
        writeln!(out, "trial {number}: {state}")?;
        study.close()?;
        Ok(Exit::Done)
    }

    fn outcome(&self, metrics: BTreeMap<String, f64>) -> Result<TellStudy, Fault> {
        let Some(status) = self.status else {
            if metrics.is_empty() {
                return Err(Fault::usage("nothing to tell")
                    .help("give metrics such as loss=0.25, or --status failed"));
            }
            return Ok(TellStudy::Done(Evaluation {
                metrics,
                sem: self.sem,
                cost: self.cost,
                ..Evaluation::default()
            }));
        };
        if !metrics.is_empty() {
            return Err(Fault::usage("a trial has metrics or a --status, not both"));
        }
        Ok(status.tell(self.reason.clone()))
    }
}

impl Status {
    /// The status as the study takes it.
    pub(super) fn tell(self, reason: Option<String>) -> TellStudy {
        match self {
            Status::Infeasible => TellStudy::Infeasible { reason },
            Status::Failed => {
                TellStudy::Failed { class: FailureClass::Crashed, reason, peak_rss_bytes: None }
            }
            Status::Timeout => TellStudy::Timeout,
            Status::Pruned => TellStudy::Pruned,
            Status::Paused => TellStudy::Paused,
            Status::Retry => TellStudy::Retry,
            Status::Cancelled => TellStudy::Cancelled,
        }
    }
}

/// Someone who types a metric wrongly wants to hear of it rather than have a failed trial.
fn check_metrics(spec: &Spec, evaluation: &Evaluation) -> Result<(), Fault> {
    let missing: Vec<&str> = spec
        .metrics
        .iter()
        .map(|metric| metric.name.as_str())
        .filter(|name| !evaluation.metrics.contains_key(*name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Fault::usage(format!(
        "{} missing",
        missing.join(" and ") + if missing.len() == 1 { " is" } else { " are" }
    ))
    .help("tell every declared metric; `--status failed` records a failure"))
}

/// Add a point of your own, to be evaluated before new ones
#[derive(Args, Debug)]
#[command(override_usage = "pleach enqueue [OPTIONS] [FILE] <NAME=VALUE>...")]
pub(crate) struct Enqueue {
    /// [FILE] NAME=VALUE...: every parameter that exists at the point
    #[arg(required = true)]
    args: Vec<String>,
    #[command(flatten)]
    place: Where,
}

impl Enqueue {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let (file, rest) = storage::split(&self.args);
        let given = storage::pairs(rest)?;
        let study = self.place.find(file)?.open(Lease::Forever)?;
        let number = study.enqueue(literals(&study.spec()?, &given)?)?;
        writeln!(out, "trial {number}: waiting")?;
        study.close()?;
        Ok(Exit::Done)
    }
}

/// The values of parameters as the space of the study reads them.
pub(super) fn literals(spec: &Spec, given: &[(&str, &str)]) -> Result<BTreeMap<String, Literal>, Fault> {
    given
        .iter()
        .map(|(name, value)| {
            let parameter =
                spec.parameters.iter().find(|parameter| parameter.name == *name).ok_or_else(|| {
                    let names: Vec<&str> =
                        spec.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
                    let help = match nearest(name, &names) {
                        Some(near) => format!("did you mean {near}? There are {}", names.join(", ")),
                        None => format!("there are {}", names.join(", ")),
                    };
                    Fault::usage(format!("the space has no parameter {name}")).help(help)
                })?;
            Ok(((*name).to_owned(), parse_value(parameter, value).map_err(Fault::usage)?))
        })
        .collect()
}

/// Call trials off
#[derive(Args, Debug)]
#[command(override_usage = "pleach cancel [OPTIONS] [FILE] <NUMBER>...")]
pub(crate) struct Cancel {
    /// [FILE] NUMBER...: the trials
    #[arg(required = true)]
    args: Vec<String>,
    #[command(flatten)]
    place: Where,
}

impl Cancel {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let (file, rest) = storage::split(&self.args);
        let numbers = storage::numbers(rest)?;
        let study = self.place.find(file)?.open(Lease::Forever)?;
        for number in numbers {
            study.cancel(number)?;
            writeln!(out, "trial {number}: cancelled")?;
        }
        study.close()?;
        Ok(Exit::Done)
    }
}

/// Evaluate trials again: a paused one goes on, another gets a new trial at the same point
#[derive(Args, Debug)]
#[command(override_usage = "pleach retry [OPTIONS] [FILE] <NUMBER>...")]
pub(crate) struct Retry {
    /// [FILE] NUMBER...: the trials
    #[arg(required = true)]
    args: Vec<String>,
    #[command(flatten)]
    place: Where,
}

impl Retry {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let (file, rest) = storage::split(&self.args);
        let numbers = storage::numbers(rest)?;
        let study = self.place.find(file)?.open(Lease::Forever)?;
        for number in numbers {
            let new = study.retry(number)?;
            writeln!(out, "trial {number}: to be evaluated again as trial {new}")?;
        }
        study.close()?;
        Ok(Exit::Done)
    }
}

//! `pleach import`: trials that were evaluated elsewhere.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use pleach_search::{FailureClass, Goal, Literal, Metric};
use pleach_study::{Evaluation, ImportRow, Lease, Spec, State, StoreOptions, Study, Tell};

use crate::experiment::{AUTO, parse_value, settle, stored};
use crate::fault::{Exit, Fault};
use crate::optuna::{self, OptunaEnd, OptunaStudy};
use crate::storage::Where;

/// Import finished trials from CSV or from a study of Optuna's
#[derive(Args, Debug)]
pub(crate) struct Import {
    #[command(subcommand)]
    source: From,
}

#[derive(Subcommand, Debug)]
enum From {
    Csv(Csv),
    Optuna(Optuna),
}

/// Import rows whose columns are named like parameters and metrics
///
/// Other columns are ignored, but for `state`: done (also if it is missing), infeasible or failed.
/// A cell is empty where the parameter does not exist.
#[derive(Args, Debug)]
struct Csv {
    /// The table
    from: PathBuf,
    /// An experiment file (the study is created if needed) or a study file
    file: Option<PathBuf>,
    #[command(flatten)]
    place: Where,
}

/// Import a study from the SQLite file behind Optuna's storage
///
/// With an experiment file the trials go into its study; without one a study is made whose space,
/// direction and name are those of the Optuna study.
#[derive(Args, Debug)]
struct Optuna {
    /// Optuna's SQLite file
    from: PathBuf,
    /// An experiment file, or the study file to write
    file: Option<PathBuf>,
    /// The Optuna study of that name, where the file holds several
    #[arg(long, value_name = "NAME")]
    from_study: Option<String>,
    #[command(flatten)]
    place: Where,
}

impl Import {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        match &self.source {
            From::Csv(csv) => csv.run(out),
            From::Optuna(optuna) => optuna.run(out),
        }
    }
}

impl Csv {
    fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let study = self.place.find(self.file.as_deref())?.open(Lease::Process)?;
        let rows = read_csv(&self.from, &study.spec()?)?;
        let imported = study.import(rows).map_err(|error| row_fault(&self.from, error))?;
        writeln!(out, "imported {imported} trials into {}", study.name())?;
        study.close()?;
        Ok(Exit::Done)
    }
}

fn row_fault(path: &Path, error: pleach_study::Error) -> Fault {
    let fault = Fault::from(error);
    Fault::failed(format!("{}: {fault}", path.display()))
        .help("nothing was imported; rows are counted from 0")
}

/// The rows of a table as trials of the study.
fn read_csv(path: &Path, spec: &Spec) -> Result<Vec<ImportRow>, Fault> {
    let bad =
        |line: u64, message: String| Fault::failed(format!("{}, line {line}: {message}", path.display()));
    let csv_error = |error: csv::Error| {
        let line = error.position().map_or(0, csv::Position::line);
        bad(line, error.to_string())
    };
    if !path.exists() {
        return Err(Fault::usage(format!("there is no file {}", path.display())));
    }
    let mut reader = csv::Reader::from_path(path).map_err(csv_error)?;
    let header = reader.headers().map_err(csv_error)?.clone();
    let column = |name: &str, kind: &str| {
        let prefixed = format!("{kind}.{name}");
        header
            .iter()
            .position(|column| column == prefixed)
            .or_else(|| header.iter().position(|column| column == name))
    };
    let state_column = header.iter().position(|column| column == "state");
    let parameters: Vec<_> = spec.parameters.iter().map(|p| (p, column(&p.name, "param"))).collect();
    let metrics: Vec<_> = spec.metrics.iter().map(|m| (m, column(&m.name, "metric"))).collect();
    if let Some((parameter, _)) = parameters.iter().find(|(p, column)| column.is_none() && p.when.is_none()) {
        return Err(bad(1, format!("there is no column for the parameter {}", parameter.name)));
    }
    if let Some((metric, _)) = metrics.iter().find(|(_, column)| column.is_none()) {
        return Err(bad(1, format!("there is no column for the metric {}", metric.name)));
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(csv_error)?;
        let line = record.position().map_or(0, csv::Position::line);
        let cell = |column: Option<usize>| {
            column.and_then(|i| record.get(i)).map(str::trim).filter(|cell| !cell.is_empty())
        };
        let mut params = BTreeMap::new();
        for (parameter, column) in &parameters {
            if let Some(text) = cell(*column) {
                params.insert(
                    parameter.name.clone(),
                    parse_value(parameter, text).map_err(|error| bad(line, error))?,
                );
            }
        }
        let state =
            cell(state_column).unwrap_or("done").parse::<State>().map_err(|error| bad(line, error))?;
        let tell = match state {
            State::Done => {
                let values =
                    metrics.iter().filter_map(|(metric, column)| Some((&metric.name, cell(*column)?)));
                let values = values.map(|(name, text)| {
                    let value = text
                        .parse::<f64>()
                        .map_err(|_| bad(line, format!("{name} = {text}: expected a number")))?;
                    Ok((name.clone(), value))
                });
                Tell::Done(values.collect::<Result<BTreeMap<_, _>, Fault>>()?.into())
            }
            State::Infeasible => Tell::Infeasible { reason: None },
            State::Failed | State::Timeout => failed("it failed where it was imported from"),
            // What is not finished has nothing to teach.
            _ => continue,
        };
        rows.push(ImportRow { params, tell, started_ms: None, ended_ms: None });
    }
    Ok(rows)
}

fn failed(reason: &str) -> Tell {
    Tell::Failed { class: FailureClass::Crashed, reason: Some(reason.to_owned()), peak_rss_bytes: None }
}

impl Optuna {
    fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let found = optuna::read(&self.from, self.from_study.as_deref())?;
        let target = self.place.find(self.file.as_deref())?;
        let study = if target.experiment.is_some() {
            target.open(Lease::Process)?
        } else {
            let mut spec = spec_of(&found, target.name.as_deref());
            let stored = stored(&target.path, &spec.name);
            settle(&mut spec, stored.as_ref(), None, None);
            if spec.parameters.is_empty() {
                return Err(Fault::failed(format!(
                    "no trial of {} has parameters, so its space is not known",
                    found.name
                ))
                .help("import it into the study of an experiment file, which says what is searched"));
            }
            spec.check_name().map_err(|error| {
                Fault::usage(error.to_string()).help("--study NAME gives it another name here")
            })?;
            Study::create(&target.path, &spec, &StoreOptions::default())?
        };
        let spec = study.spec()?;
        let rows = rows_of(&found, &spec)?;
        let (imported, unfinished) =
            (study.import(rows).map_err(|error| row_fault(&self.from, error))?, found.n_unfinished);
        writeln!(out, "imported {imported} trials of {} into {}", found.name, study.name())?;
        if unfinished > 0 {
            writeln!(out, "left out {unfinished} trials that are not finished")?;
        }
        study.close()?;
        Ok(Exit::Done)
    }
}

/// A study that goes on where Optuna's ends.
fn spec_of(found: &OptunaStudy, name: Option<&str>) -> Spec {
    Spec {
        parameters: found.parameters.clone(),
        metrics: vec![Metric::objective("value", found.goal)],
        method: AUTO.to_owned(),
        ..Spec::new(name.unwrap_or(&found.name), 0)
    }
}

/// The trials of Optuna's study as trials of this one.
fn rows_of(found: &OptunaStudy, spec: &Spec) -> Result<Vec<ImportRow>, Fault> {
    let objective = spec.metrics.iter().find(|metric| metric.limit.is_none());
    let (objective, goal) =
        objective.map_or(("value", Goal::Min), |metric| (metric.name.as_str(), metric.goal));
    if goal != found.goal {
        return Err(Fault::usage(format!(
            "{} is optimised in the other direction than {}",
            objective, found.name
        ))
        .help("change the goal in the experiment file"));
    }
    let row = |trial: &optuna::OptunaTrial| {
        let tell = match trial.end {
            OptunaEnd::Complete(value) => {
                Tell::Done(Evaluation::from(BTreeMap::from([(objective.to_owned(), value)])))
            }
            OptunaEnd::Pruned => Tell::Pruned,
            OptunaEnd::Failed => failed("it failed in Optuna"),
        };
        let params: BTreeMap<String, Literal> = trial.params.clone();
        ImportRow { params, tell, started_ms: None, ended_ms: None }
    };
    // A failed or pruned trial may have ended before it used every parameter; it has no point then.
    let complete = |trial: &&optuna::OptunaTrial| {
        matches!(trial.end, OptunaEnd::Complete(_))
            || spec.parameters.iter().filter(|p| p.when.is_none()).all(|p| trial.params.contains_key(&p.name))
    };
    Ok(found.trials.iter().filter(complete).map(row).collect())
}

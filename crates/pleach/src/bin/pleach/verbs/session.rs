//! `pleach session --json`: a study over standard input and output, for other languages.
//!
//! One JSON object a line each way: `{"id": 1, "op": "ask", …}` is answered by `{"id": 1, "ok": {…}}`
//! or `{"id": 1, "error": "…"}`. Trials that a session asked for and did not tell are handed out
//! again when it ends.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;

use clap::Args;
use pleach_search::{Literal, Options};
use pleach_study::{Error, Evaluation, Lease, Spec, StoreOptions, Study};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};

use super::write::Status;
use crate::experiment::{AUTO, Definitions, Metrics, settle, stored};
use crate::fault::{Exit, Fault};
use crate::text;

/// Speak JSON lines on standard input and output, for programs in other languages
#[derive(Args, Debug)]
pub(crate) struct Session {
    /// The protocol; there is one
    #[arg(long, required = true)]
    json: bool,
}

impl Session {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        debug_assert!(self.json, "the command line requires it");
        let mut state = State { study: None, worker: format!("session-{}", std::process::id()) };
        for line in std::io::stdin().lock().split(b'\n') {
            let line =
                line.map_err(|error| Fault::failed(format!("cannot read the standard input: {error}")))?;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let (id, answer, last) = match request(&line) {
                Ok((id, op, fields)) => (id, state.answer(&op, fields), op == "close"),
                Err(error) => (Json::Null, Err(error), false),
            };
            let answer = match answer {
                Ok(ok) => json!({ "id": id, "ok": ok }),
                Err(error) => json!({ "id": id, "error": error }),
            };
            writeln!(out, "{answer}")?;
            out.flush()?;
            if last {
                break;
            }
        }
        state.close().map_err(Fault::failed)?;
        Ok(Exit::Done)
    }
}

/// The id, the operation and the other fields of a line.
fn request(line: &[u8]) -> Result<(Json, String, Map<String, Json>), String> {
    let json: Json =
        serde_json::from_slice(line).map_err(|error| format!("the line is not JSON: {error}"))?;
    let Json::Object(mut fields) = json else { return Err("a request is a JSON object".into()) };
    let id = fields.remove("id").filter(Json::is_number).ok_or("a request needs an `id`, a whole number")?;
    match fields.remove("op") {
        Some(Json::String(op)) => Ok((id, op, fields)),
        // The answer would have an id, but there is nothing it could be an answer to.
        _ => Err("a request needs an `op`, a text".into()),
    }
}

struct State {
    study: Option<Study>,
    worker: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    path: PathBuf,
    space: Definitions,
    objectives: Metrics,
    name: Option<String>,
    #[serde(default)]
    constraints: Vec<String>,
    #[serde(default)]
    descriptors: BTreeMap<String, String>,
    method: Option<String>,
    #[serde(default)]
    options: Options,
    #[serde(default)]
    seed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Open {
    path: PathBuf,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    #[serde(default = "one")]
    n: usize,
    limit: Option<u64>,
}

fn one() -> usize {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tell {
    number: u64,
    attempt: Option<u32>,
    metrics: Option<Map<String, Json>>,
    sem: Option<f64>,
    cost: Option<f64>,
    features: Option<Vec<f64>>,
    status: Option<Status>,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    number: u64,
    step: u64,
    metrics: Map<String, Json>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Enqueue {
    params: BTreeMap<String, Literal>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl State {
    fn answer(&mut self, op: &str, fields: Map<String, Json>) -> Result<Json, String> {
        match op {
            "create" => self.create(read(fields)?),
            "open" => {
                let Open { path, name } = read(fields)?;
                let study = Study::open(&path, name.as_deref(), &store_options()).map_err(say)?;
                self.opened(study)
            }
            "ask" => self.ask(&read(fields)?),
            "tell" => self.tell(read(fields)?),
            "report" => {
                let Report { number, step, metrics } = read(fields)?;
                let go_on = self.study()?.report(number, step, numbers(metrics)?).map_err(say)?;
                Ok(json!({ "continue": go_on }))
            }
            "enqueue" => {
                let Enqueue { params } = read(fields)?;
                Ok(json!({ "number": self.study()?.enqueue(params).map_err(say)? }))
            }
            "best" => {
                let Nothing {} = read(fields)?;
                let progress = self.study()?.progress().map_err(say)?;
                Ok(json!({ "best": text::json_best(progress.best.as_ref()) }))
            }
            "progress" => {
                let Nothing {} = read(fields)?;
                let progress = self.study()?.progress().map_err(say)?;
                Ok(json!({
                    "counts": text::json_counts(&progress),
                    "trials": progress.trials,
                    "best": text::json_best(progress.best.as_ref()),
                }))
            }
            "close" => {
                let Nothing {} = read(fields)?;
                self.close()?;
                Ok(json!({}))
            }
            _ => Err(format!(
                "there is no operation `{op}`; there are create, open, ask, tell, report, enqueue, best, progress, close"
            )),
        }
    }

    fn study(&self) -> Result<&Study, String> {
        self.study.as_ref().ok_or_else(|| "no study is open; send create or open first".into())
    }

    fn opened(&mut self, study: Study) -> Result<Json, String> {
        let answer = json!({ "name": study.name(), "trials": study.progress().map_err(say)?.trials });
        self.close()?;
        self.study = Some(study);
        Ok(answer)
    }

    fn create(&mut self, create: Create) -> Result<Json, String> {
        let parameters = create.space.parameters().map_err(|wrong| wrong.to_string())?;
        let stem = || {
            create.path.file_stem().map_or_else(|| "study".into(), |stem| stem.to_string_lossy().into_owned())
        };
        let mut spec = Spec {
            name: create.name.unwrap_or_else(stem),
            constraints: create.constraints,
            descriptors: create.descriptors,
            metrics: create.objectives.metrics().map_err(|wrong| wrong.to_string())?,
            method: create.method.unwrap_or_else(|| AUTO.to_owned()),
            options: create.options,
            seed: create.seed,
            parameters,
        };
        let stored = stored(&create.path, &spec.name);
        settle(&mut spec, stored.as_ref(), None, None);
        let study = Study::create(&create.path, &spec, &store_options()).map_err(say)?;
        self.opened(study)
    }

    fn ask(&self, ask: &Ask) -> Result<Json, String> {
        let study = self.study()?;
        let assignments = match study.ask(&self.worker, ask.n, ask.limit) {
            Err(Error::Exhausted { .. }) => Vec::new(),
            other => other.map_err(say)?,
        };
        // Fewer than wanted: either the limit is reached, or the space has no new point.
        let exhausted = assignments.len() < ask.n
            && match ask.limit {
                None => true,
                Some(limit) => study.progress().map_err(say)?.trials < limit,
            };
        let trials: Json = assignments
            .iter()
            .map(|assignment| {
                json!({
                    "number": assignment.number,
                    "attempt": assignment.attempt,
                    "seed": assignment.seed,
                    "params": text::json_params(&assignment.params),
                })
            })
            .collect();
        Ok(json!({ "trials": trials, "exhausted": exhausted }))
    }

    fn tell(&self, tell: Tell) -> Result<Json, String> {
        let study = self.study()?;
        let outcome = match (tell.metrics, tell.status) {
            (Some(metrics), None) => pleach_study::Tell::Done(Evaluation {
                metrics: numbers(metrics)?,
                sem: tell.sem,
                cost: tell.cost,
                features: tell.features,
                note: None,
            }),
            (None, Some(status)) => status.tell(tell.reason),
            _ => return Err("a trial is told either `metrics` or a `status`".into()),
        };
        let state = study.tell(tell.number, tell.attempt, outcome).map_err(say)?;
        Ok(json!({ "state": state.name() }))
    }

    fn close(&mut self) -> Result<(), String> {
        self.study.take().map_or(Ok(()), Study::close).map_err(say)
    }
}

fn store_options() -> StoreOptions {
    StoreOptions { lease: Lease::Process, ..StoreOptions::default() }
}

/// The fields of a request; an error names the field.
fn read<T: DeserializeOwned>(fields: Map<String, Json>) -> Result<T, String> {
    serde_json::from_value(Json::Object(fields)).map_err(|error| error.to_string())
}

/// Metrics, where a number that JSON lacks is a text.
fn numbers(metrics: Map<String, Json>) -> Result<BTreeMap<String, f64>, String> {
    metrics
        .into_iter()
        .map(|(name, value)| {
            let number = match &value {
                Json::Number(number) => number.as_f64(),
                Json::String(text) => match text.to_ascii_lowercase().as_str() {
                    "nan" => Some(f64::NAN),
                    "inf" | "infinity" => Some(f64::INFINITY),
                    "-inf" | "-infinity" => Some(f64::NEG_INFINITY),
                    _ => None,
                },
                _ => None,
            };
            let number = number.ok_or_else(|| format!("metric {name} is {value}, which is not a number"))?;
            Ok((name, number))
        })
        .collect()
}

/// An error as one sentence.
fn say(error: Error) -> String {
    Fault::from(error).sentence()
}

//! Studies in Optuna's SQLite files (read only; schema of Optuna 3 to 5).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pleach_search::{Domain, Goal, Literal, Parameter};
use rusqlite::{Connection, OpenFlags};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::fault::Fault;

/// A study of Optuna's.
#[derive(Debug)]
pub(crate) struct OptunaStudy {
    /// Its name.
    pub(crate) name: String,
    /// The direction of its objective.
    pub(crate) goal: Goal,
    /// Every parameter that a trial used; a range is the hull of the ranges of all trials.
    pub(crate) parameters: Vec<Parameter>,
    /// Its finished trials, in order.
    pub(crate) trials: Vec<OptunaTrial>,
    /// Trials that are not finished.
    pub(crate) n_unfinished: usize,
}

/// A finished trial of Optuna's.
#[derive(Debug)]
pub(crate) struct OptunaTrial {
    pub(crate) params: BTreeMap<String, Literal>,
    pub(crate) end: OptunaEnd,
}

/// How a trial of Optuna's ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum OptunaEnd {
    /// With a value, which may be infinite.
    Complete(f64),
    Pruned,
    Failed,
}

/// The distribution of a parameter, as Optuna writes it.
#[derive(Deserialize)]
struct Distribution {
    name: String,
    attributes: Attributes,
}

#[derive(Deserialize)]
struct Attributes {
    low: Option<f64>,
    high: Option<f64>,
    #[serde(default)]
    log: bool,
    step: Option<f64>,
    /// The step of distributions before Optuna 3.
    q: Option<f64>,
    choices: Option<Vec<Json>>,
}

/// Reads the study of that name, or the only one.
pub(crate) fn read(path: &Path, name: Option<&str>) -> Result<OptunaStudy, Fault> {
    if !path.exists() {
        return Err(Fault::usage(format!("there is no file {}", path.display())));
    }
    let database = |error: rusqlite::Error| {
        Fault::failed(format!("cannot read {} as a study of Optuna: {error}", path.display()))
            .help("expected the file behind Optuna's storage URL sqlite:///FILE")
    };
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(database)?;
    let studies: Vec<(i64, String)> =
        rows(&connection, "SELECT study_id, study_name FROM studies ORDER BY study_id", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .map_err(database)?;
    let (id, name) = pick(studies, name, path)?;
    let goal = goal(&connection, id, path, database)?;
    let values: BTreeMap<i64, f64> = rows(
        &connection,
        "SELECT v.trial_id, v.value, v.value_type FROM trial_values v JOIN trials USING (trial_id)
         WHERE study_id = ?1 AND objective = 0",
        [id],
        |row| {
            let value = match row.get::<_, String>(2)?.as_str() {
                "INF_POS" => f64::INFINITY,
                "INF_NEG" => f64::NEG_INFINITY,
                _ => row.get::<_, Option<f64>>(1)?.unwrap_or(f64::NAN),
            };
            Ok((row.get(0)?, value))
        },
    )
    .map_err(database)?
    .into_iter()
    .collect();
    let params: Vec<(i64, String, f64, String)> = rows(
        &connection,
        "SELECT p.trial_id, p.param_name, p.param_value, p.distribution_json FROM trial_params p
         JOIN trials USING (trial_id) WHERE study_id = ?1 ORDER BY p.trial_id, p.param_id",
        [id],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )
    .map_err(database)?;
    let states: Vec<(i64, String)> = rows(
        &connection,
        "SELECT trial_id, state FROM trials WHERE study_id = ?1 ORDER BY number, trial_id",
        [id],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
    .map_err(database)?;

    let mut domains: Vec<Parameter> = Vec::new();
    let mut points: BTreeMap<i64, BTreeMap<String, Literal>> = BTreeMap::new();
    for (trial, name, value, distribution) in params {
        let (domain, literal) = interpret(&distribution, value)
            .map_err(|message| Fault::failed(format!("{}: parameter {name}: {message}", path.display())))?;
        match domains.iter_mut().find(|parameter| parameter.name == name) {
            Some(parameter) => widen(&mut parameter.domain, domain),
            None => domains.push(Parameter { name: name.clone(), domain, when: None }),
        }
        points.entry(trial).or_default().insert(name, literal);
    }
    let (mut trials, mut n_unfinished) = (Vec::new(), 0);
    for (trial, state) in states {
        let end = match state.as_str() {
            "COMPLETE" => OptunaEnd::Complete(values.get(&trial).copied().unwrap_or(f64::NAN)),
            "PRUNED" => OptunaEnd::Pruned,
            "FAIL" => OptunaEnd::Failed,
            _ => {
                n_unfinished += 1;
                continue;
            }
        };
        trials.push(OptunaTrial { params: points.remove(&trial).unwrap_or_default(), end });
    }
    infer_conditions(&mut domains, &trials)?;
    Ok(OptunaStudy { name, goal, parameters: domains, trials, n_unfinished })
}

/// The rows of a query, each read by `read`.
fn rows<T>(
    connection: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare(sql)?.query_map(params, read)?.collect()
}

fn pick(studies: Vec<(i64, String)>, name: Option<&str>, path: &Path) -> Result<(i64, String), Fault> {
    let names: Vec<&str> = studies.iter().map(|(_, name)| name.as_str()).collect();
    let index = match name {
        Some(name) => names.iter().position(|known| *known == name),
        None => (names.len() == 1).then_some(0),
    };
    let known = names.join(", ");
    index.and_then(|index| studies.into_iter().nth(index)).ok_or_else(|| match name {
        Some(name) => {
            Fault::usage(format!("{} holds no study called {name}; there are {known}", path.display()))
        }
        None if known.is_empty() => Fault::failed(format!("{} holds no study", path.display())),
        None => Fault::usage(format!("{} holds several studies", path.display()))
            .help(format!("pick one with --from-study; there are {known}")),
    })
}

/// The direction of the only objective.
fn goal(
    connection: &Connection,
    id: i64,
    path: &Path,
    database: impl Fn(rusqlite::Error) -> Fault,
) -> Result<Goal, Fault> {
    let directions: Vec<String> =
        rows(connection, "SELECT direction FROM study_directions WHERE study_id = ?1", [id], |row| {
            row.get(0)
        })
        .map_err(database)?;
    match directions.as_slice() {
        [direction] if direction == "MAXIMIZE" => Ok(Goal::Max),
        [_] => Ok(Goal::Min),
        many => Err(Fault::failed(format!(
            "the study in {} has {} objectives, and only studies with one can be imported",
            path.display(),
            many.len()
        ))),
    }
}

/// The domain that a distribution stands for, and what `value` means in it.
fn interpret(distribution: &str, value: f64) -> Result<(Domain, Literal), String> {
    let Distribution { name, attributes } = serde_json::from_str(distribution)
        .map_err(|error| format!("cannot read its distribution: {error}"))?;
    let range = || attributes.low.zip(attributes.high).ok_or("its distribution has no range");
    let log = attributes.log || name.starts_with("LogUniform") || name.starts_with("IntLogUniform");
    let step = attributes.step.or(attributes.q);
    #[expect(clippy::cast_possible_truncation, reason = "Optuna keeps ints as floats")]
    let int = |x: f64| x.round() as i64;
    if name == "CategoricalDistribution" {
        let choices = attributes.choices.unwrap_or_default();
        let values: Vec<Literal> = choices.iter().map(choice).collect();
        let chosen = usize::try_from(int(value)).ok().and_then(|index| values.get(index)).cloned();
        let chosen = chosen.ok_or_else(|| format!("choice {value} does not exist"))?;
        Ok((Domain::Choice { values }, chosen))
    } else if name.starts_with("Int") {
        let (low, high) = range()?;
        let step = if log { 1 } else { step.map_or(1, int) };
        Ok((Domain::Int { low: int(low), high: int(high), log, step }, Literal::Int(int(value))))
    } else {
        let (low, high) = range()?;
        Ok((Domain::Float { low, high, log, step }, Literal::Float(value)))
    }
}

/// A choice of Optuna's may be any JSON scalar; `null` becomes the text `None`.
fn choice(json: &Json) -> Literal {
    match json {
        Json::Bool(b) => Literal::Bool(*b),
        Json::Number(number) => match number.as_i64() {
            Some(k) => Literal::Int(k),
            None => Literal::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Literal::Text(text.clone()),
        Json::Null => Literal::Text("None".into()),
        other => Literal::Text(other.to_string()),
    }
}

/// Makes `domain` hold what `other` holds.
fn widen(domain: &mut Domain, other: Domain) {
    match (domain, other) {
        (Domain::Float { low, high, .. }, Domain::Float { low: l, high: h, .. }) => {
            *low = low.min(l);
            *high = high.max(h);
        }
        (Domain::Int { low, high, .. }, Domain::Int { low: l, high: h, .. }) => {
            *low = l.min(*low);
            *high = h.max(*high);
        }
        _ => {}
    }
}

/// Optuna does not store under which condition a parameter is used. It is taken from the trials: a
/// choice or bool that every trial has, and whose value tells who has the parameter.
fn infer_conditions(parameters: &mut [Parameter], trials: &[OptunaTrial]) -> Result<(), Fault> {
    let has = |trial: &OptunaTrial, name: &str| trial.params.contains_key(name);
    // A trial may have failed before it used every parameter; only complete ones can be trusted.
    let complete: Vec<&OptunaTrial> =
        trials.iter().filter(|trial| matches!(trial.end, OptunaEnd::Complete(_))).collect();
    let always: BTreeSet<String> = parameters
        .iter()
        .filter(|parameter| complete.iter().all(|trial| has(trial, &parameter.name)))
        .map(|parameter| parameter.name.clone())
        .collect();
    let switches: Vec<(String, Vec<Literal>)> = parameters
        .iter()
        .filter(|parameter| always.contains(&parameter.name))
        .filter_map(|parameter| match &parameter.domain {
            Domain::Choice { values } => Some((parameter.name.clone(), values.clone())),
            _ => None,
        })
        .collect();
    for parameter in parameters.iter_mut().filter(|parameter| !always.contains(&parameter.name)) {
        let condition = switches.iter().find_map(|(switch, values)| {
            let chosen = |value: &Literal, with: bool| {
                complete
                    .iter()
                    .any(|trial| trial.params[switch] == *value && has(trial, &parameter.name) == with)
            };
            let on: Vec<String> = values.iter().filter(|value| chosen(value, true)).map(quote).collect();
            let mixed = values.iter().any(|value| chosen(value, true) && chosen(value, false));
            (!mixed).then(|| format!("{switch} in [{}]", on.join(", ")))
        });
        parameter.when = Some(condition.ok_or_else(|| {
            Fault::failed(format!(
                "parameter {} is used in some trials only, and no choice explains in which",
                parameter.name
            ))
            .help("write an experiment file whose `when` says so, and import into it: pleach import optuna FROM.db FILE.toml")
        })?);
    }
    Ok(())
}

/// A literal as the expression language writes it.
fn quote(literal: &Literal) -> String {
    match literal {
        Literal::Text(text) if text.contains('\'') => format!("\"{text}\""),
        Literal::Text(text) => format!("'{text}'"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_of_every_age_are_read() {
        let check = |json: &str, value: f64, domain: Domain, literal: Literal| {
            assert_eq!(interpret(json, value), Ok((domain, literal)), "{json}");
        };
        check(
            r#"{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}"#,
            0.01,
            Domain::Float { low: 1e-5, high: 0.1, log: true, step: None },
            Literal::Float(0.01),
        );
        check(
            r#"{"name": "IntUniformDistribution", "attributes": {"low": 1, "high": 9, "step": 2}}"#,
            3.0,
            Domain::Int { low: 1, high: 9, log: false, step: 2 },
            Literal::Int(3),
        );
        check(
            r#"{"name": "DiscreteUniformDistribution", "attributes": {"low": 0, "high": 1, "q": 0.25}}"#,
            0.5,
            Domain::Float { low: 0.0, high: 1.0, log: false, step: Some(0.25) },
            Literal::Float(0.5),
        );
        check(
            r#"{"name": "CategoricalDistribution", "attributes": {"choices": ["a", null, 2]}}"#,
            1.0,
            Domain::Choice { values: vec!["a".into(), "None".into(), 2.into()] },
            Literal::Text("None".into()),
        );
        assert!(interpret("{}", 0.0).is_err());
    }
}

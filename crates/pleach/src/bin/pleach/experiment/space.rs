//! Parameters, metrics and values as users write them, in a file, on the command line or in JSON.

use pleach_search::{Domain, Goal, Literal, Metric, Parameter};

use super::raw::{self, Domains, Entries};
use crate::fault::Fault;
use crate::source::Source;

/// The definitions of a space, in order: what `[space]` holds.
pub(crate) type Definitions = Entries<Domains>;

/// The definitions of metrics, in order: what `[objective]` holds.
pub(crate) type Metrics = Entries<raw::Metric>;

/// What is wrong with a definition, and the keys that lead to it.
#[derive(Debug)]
pub(crate) struct Wrong {
    path: Vec<String>,
    message: String,
}

impl Wrong {
    fn new(path: &[&str], message: impl Into<String>) -> Self {
        Self { path: path.iter().map(|&step| step.to_owned()).collect(), message: message.into() }
    }

    /// The error, pointing into the file it comes from.
    pub(super) fn place(self, source: &Source) -> Fault {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let span = source.value(&path).or_else(|| source.key(&path)).unwrap_or_default();
        Fault::usage(self.message).at(source, span, "")
    }
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Definitions {
    /// The parameters they define; ranges and conditions are checked by `Space::new`.
    pub(crate) fn parameters(&self) -> Result<Vec<Parameter>, Wrong> {
        self.0.iter().map(|(name, definition)| parameter(name, definition)).collect()
    }
}

fn parameter(name: &str, definition: &Domains) -> Result<Parameter, Wrong> {
    match definition {
        Domains::Sugar(text) => {
            let domain = Domain::parse(text)
                .map_err(|message| Wrong::new(&["space", name], format!("parameter {name}: {message}")))?;
            Ok(Parameter { name: name.to_owned(), domain, when: None })
        }
        Domains::Table(table) => {
            let domain = table.domain().map_err(|(key, message)| {
                let path: &[&str] = if key.is_empty() { &["space", name] } else { &["space", name, key] };
                Wrong::new(path, format!("parameter {name}: {message}"))
            })?;
            Ok(Parameter { name: name.to_owned(), domain, when: table.when.clone() })
        }
    }
}

impl Metrics {
    /// The metrics they define; at least one.
    pub(crate) fn metrics(&self) -> Result<Vec<Metric>, Wrong> {
        if self.0.is_empty() {
            return Err(Wrong::new(
                &["objective"],
                "there is no objective: add `[objective]` with a line such as `loss = \"min\"`",
            ));
        }
        self.0
            .iter()
            .map(|(name, metric)| {
                let goal: Goal = metric.goal.ok_or_else(|| {
                    Wrong::new(
                        &["objective", name],
                        format!("metric {name} has no `goal`; write goal = \"min\" or \"max\""),
                    )
                })?;
                Ok(Metric { name: name.clone(), goal, limit: metric.limit })
            })
            .collect()
    }
}

/// Reads a value of a parameter from a command line or a CSV cell.
pub(crate) fn parse_value(parameter: &Parameter, text: &str) -> Result<Literal, String> {
    let name = &parameter.name;
    match &parameter.domain {
        Domain::Float { .. } => {
            text.parse().map(Literal::Float).map_err(|_| format!("{name} = {text}: expected a number"))
        }
        Domain::Int { .. } => {
            text.parse().map(Literal::Int).map_err(|_| format!("{name} = {text}: expected a whole number"))
        }
        Domain::Bool => match text.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(Literal::Bool(true)),
            "false" | "0" => Ok(Literal::Bool(false)),
            _ => Err(format!("{name} = {text}: expected true or false")),
        },
        Domain::Ordinal { values } | Domain::Choice { values } => {
            let same_number = |value: &Literal| value.as_f64().is_some_and(|x| text.parse() == Ok(x));
            let exact = values.iter().find(|value| value.to_string() == text);
            exact.or_else(|| values.iter().find(|value| same_number(value))).cloned().ok_or_else(|| {
                let shown: Vec<String> = values.iter().take(12).map(Literal::to_string).collect();
                let more = if values.len() > shown.len() { ", …" } else { "" };
                format!("{name} = {text}: expected one of {}{more}", shown.join(", "))
            })
        }
        Domain::Permutation { .. } => text
            .trim_start_matches('[')
            .trim_end_matches(']')
            .split(',')
            .map(|item| item.trim().parse())
            .collect::<Result<_, _>>()
            .map(Literal::List)
            .map_err(|_| format!("{name} = {text}: expected an order such as [2,0,1]")),
        _ => Err(format!("{name}: this kind of parameter cannot be given on the command line")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_by_the_domain_of_their_parameter() {
        let check = |parameter: Parameter, text: &str, expected: Option<Literal>| {
            assert_eq!(parse_value(&parameter, text).ok(), expected, "{text}");
        };
        check(Parameter::float("x", 0.0, 1.0), "1", Some(Literal::Float(1.0)));
        check(Parameter::int("k", 0, 9), "1.5", None);
        check(Parameter::bool("b"), "True", Some(Literal::Bool(true)));
        check(Parameter::choice("c", ["1", "x"]), "1", Some(Literal::Text("1".into())));
        check(Parameter::ordinal("o", [1.0, 2.5]), "1", Some(Literal::Float(1.0)));
        check(Parameter::choice("c", ["a"]), "b", None);
        check(Parameter::permutation("p", 3), "[2, 0,1]", Some(Literal::List(vec![2, 0, 1])));
    }
}

//! The experiment file as written: keys and types, before anything is checked against anything else.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use pleach_search::{Domain, Goal, Literal};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use toml::Spanned;

use crate::units::{deserialize_duration, deserialize_size};

/// A whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) pleach: Option<Spanned<i64>>,
    pub(super) name: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) objective: Entries<Metric>,
    #[serde(default)]
    pub(super) space: Entries<Domains>,
    #[serde(default)]
    pub(super) constraints: Constraints,
    #[serde(default)]
    pub(super) descriptors: Entries<String>,
    #[serde(default)]
    pub(super) search: Entries<Spanned<Literal>>,
    pub(super) trial: Option<Trial>,
    pub(super) problem: Option<Entries<Spanned<Literal>>>,
    #[serde(default)]
    pub(super) limits: Limits,
    #[serde(default)]
    pub(super) storage: Storage,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Constraints {
    #[serde(default)]
    pub(super) known: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Trial {
    pub(super) command: Spanned<Command>,
    #[serde(default, deserialize_with = "deserialize_duration")]
    pub(super) timeout: Option<Duration>,
    #[serde(default, deserialize_with = "deserialize_duration")]
    pub(super) grace: Option<Duration>,
    #[serde(default, deserialize_with = "deserialize_size")]
    pub(super) memory: Option<u64>,
    pub(super) retries: Option<u32>,
    pub(super) stdin: Option<Stdin>,
    #[serde(default)]
    pub(super) env: Entries<String>,
}

/// What a command reads on its standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Stdin {
    /// Nothing.
    None,
    /// The parameters as JSON.
    Config,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    pub(super) trials: Option<u64>,
    #[serde(default, deserialize_with = "deserialize_duration")]
    pub(super) wall: Option<Duration>,
    pub(super) parallel: Option<Spanned<usize>>,
    pub(super) max_failures: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Storage {
    pub(super) url: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) durable: bool,
}

/// A table with free keys, in the order of the file.
#[derive(Debug)]
pub(crate) struct Entries<T>(pub(super) Vec<(String, T)>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Table<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Table<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        input.deserialize_map(Table(PhantomData))
    }
}

/// A metric: `"min"`, or a table.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(super) goal: Option<Goal>,
    pub(super) limit: Option<f64>,
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            goal: Option<Goal>,
            limit: Option<f64>,
        }
        struct Short;
        impl<'de> Visitor<'de> for Short {
            type Value = Metric;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"min\", \"max\" or a table like { goal = \"min\", limit = 8.0 }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Metric, E> {
                let goal = match text {
                    "min" => Goal::Min,
                    "max" => Goal::Max,
                    _ => return Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                };
                Ok(Metric { goal: Some(goal), limit: None })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Metric, A::Error> {
                let Table { goal, limit } = Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Metric { goal, limit })
            }
        }
        input.deserialize_any(Short)
    }
}

/// The argv of a trial. A single text is refused here, because no shell is there to split it.
#[derive(Debug)]
pub(super) struct Command(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = Command;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of words such as [\"python3\", \"train.py\", \"--lr\", \"{lr}\"]; no shell splits a text")
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Command, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = items.next_element()? {
                    words.push(word);
                }
                Ok(Command(words))
            }
        }
        input.deserialize_any(Words)
    }
}

/// A parameter: sugar such as `"log(1e-5, 1e-1)"`, or a table.
#[derive(Debug)]
pub(crate) enum Domains {
    /// A short text, read later.
    Sugar(String),
    /// A table, its keys checked against its type.
    Table(Box<Table>),
}

/// The keys of a parameter's table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    #[serde(rename = "type")]
    pub(super) kind: Option<Kind>,
    pub(super) low: Option<Literal>,
    pub(super) high: Option<Literal>,
    pub(super) log: Option<bool>,
    pub(super) step: Option<Literal>,
    pub(super) values: Option<Vec<Literal>>,
    pub(super) n: Option<u32>,
    pub(super) when: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Float,
    Int,
    Ordinal,
    Choice,
    Bool,
    Permutation,
}

impl<'de> Deserialize<'de> for Domains {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Domains;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a text like \"log(1e-5, 1e-1)\" or a table like { type = \"int\", low = 1, high = 9 }",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Domains, E> {
                Ok(Domains::Sugar(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Domains, A::Error> {
                Ok(Domains::Table(Table::deserialize(MapAccessDeserializer::new(map))?.into()))
            }
        }
        input.deserialize_any(Either)
    }
}

impl Table {
    /// The domain it describes, or the key at fault (empty for the table itself) and what is wrong.
    pub(super) fn domain(&self) -> Result<Domain, (&'static str, String)> {
        let kind = self.kind.ok_or((
            "",
            "it has no `type`; there are float, int, ordinal, choice, bool and permutation".to_owned(),
        ))?;
        let (needed, allowed): (&[&str], &[&str]) = match kind {
            Kind::Float | Kind::Int => (&["low", "high"], &["log", "step"]),
            Kind::Ordinal | Kind::Choice => (&["values"], &[]),
            Kind::Bool => (&[], &[]),
            Kind::Permutation => (&["n"], &[]),
        };
        let kind_name = format!("{kind:?}").to_lowercase();
        let given = [
            ("low", self.low.is_some()),
            ("high", self.high.is_some()),
            ("log", self.log.is_some()),
            ("step", self.step.is_some()),
            ("values", self.values.is_some()),
            ("n", self.n.is_some()),
        ];
        for (key, given) in given {
            if given && !needed.contains(&key) && !allowed.contains(&key) {
                return Err((key, format!("`{key}` means nothing for type {kind_name}")));
            }
            if !given && needed.contains(&key) {
                return Err(("", format!("type {kind_name} needs `{key}`")));
            }
        }
        let log = self.log.unwrap_or(false);
        Ok(match kind {
            Kind::Float => Domain::Float {
                low: float("low", self.low.as_ref())?,
                high: float("high", self.high.as_ref())?,
                log,
                step: self.step.as_ref().map(|step| float("step", Some(step))).transpose()?,
            },
            Kind::Int => Domain::Int {
                low: int("low", self.low.as_ref())?,
                high: int("high", self.high.as_ref())?,
                log,
                step: self.step.as_ref().map_or(Ok(1), |step| int("step", Some(step)))?,
            },
            Kind::Ordinal => Domain::Ordinal { values: self.values.clone().unwrap_or_default() },
            Kind::Choice => Domain::Choice { values: self.values.clone().unwrap_or_default() },
            Kind::Bool => Domain::Bool,
            Kind::Permutation => Domain::Permutation { n: self.n.unwrap_or_default() },
        })
    }
}

fn float(key: &'static str, literal: Option<&Literal>) -> Result<f64, (&'static str, String)> {
    literal.and_then(Literal::as_f64).ok_or_else(|| (key, format!("`{key}` must be a number")))
}

fn int(key: &'static str, literal: Option<&Literal>) -> Result<i64, (&'static str, String)> {
    match literal {
        Some(Literal::Int(k)) => Ok(*k),
        _ => Err((key, format!("`{key}` of an int must be a whole number"))),
    }
}

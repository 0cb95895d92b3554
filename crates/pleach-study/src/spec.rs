//! What a study searches.

use std::collections::BTreeMap;

use pleach_search::auto::{Choice, Inputs, choose};
use pleach_search::{Descriptor, Metric, Options, Parameter, Problem, Search, Seed, Space};
use serde::{Deserialize, Serialize};

use crate::Error;

/// What a study searches, and how: everything its proposals depend on but the events.
///
/// It is stored with the study; [`Study::create`](crate::Study::create) refuses to continue a study
/// with another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Name of the study within its file, and of its folder of trials.
    pub name: String,
    /// The parameters of the space.
    pub parameters: Vec<Parameter>,
    /// Known constraints, such as `width * depth <= 4096`.
    #[serde(default)]
    pub constraints: Vec<String>,
    /// What is known of a point before it is evaluated, by name, as [`Descriptor::read`] reads it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub descriptors: BTreeMap<String, String>,
    /// What a trial measures; exactly one metric has no limit and is the objective.
    pub metrics: Vec<Metric>,
    /// The registered name of the method.
    pub method: String,
    /// Options of the method.
    #[serde(default)]
    pub options: Options,
    /// The root of every random choice.
    pub seed: u64,
}

impl Spec {
    /// A spec of that name and seed by the method `random`, to be completed with parameters and metrics.
    pub fn new(name: &str, seed: u64) -> Self {
        Self {
            name: name.to_owned(),
            parameters: Vec::new(),
            constraints: Vec::new(),
            descriptors: BTreeMap::new(),
            metrics: Vec::new(),
            method: "random".to_owned(),
            options: Options::new(),
            seed,
        }
    }

    /// The space, its metrics and its descriptors.
    ///
    /// # Errors
    /// What [`Space::new`], [`Problem::new`] and [`Descriptor::read`] find wrong.
    pub fn problem(&self) -> Result<Problem, pleach_search::Error> {
        let space = self.space()?;
        let descriptors = self.descriptors.iter();
        let descriptors =
            descriptors.map(|(name, text)| Descriptor::read(name, text, &space)).collect::<Result<_, _>>()?;
        Ok(Problem::new(space, self.metrics.clone())?.described(descriptors))
    }

    /// What the method `auto` stands for, if that is the method.
    ///
    /// The choice is made when a study is created; ask the spec as of then.
    ///
    /// # Errors
    /// As [`Spec::problem`]; [`pleach_search::Error::Option`] for an option that `auto` does not take.
    pub fn choice(&self) -> Result<Option<Choice>, pleach_search::Error> {
        if self.method != "auto" {
            return Ok(None);
        }
        Ok(Some(choose(&self.problem()?, &Inputs::of(&self.options)?)))
    }

    /// The space alone.
    pub(crate) fn space(&self) -> Result<Space, pleach_search::Error> {
        let constraints: Vec<&str> = self.constraints.iter().map(String::as_str).collect();
        Space::new(self.parameters.clone(), &constraints)
    }

    /// The search before its first trial.
    ///
    /// # Errors
    /// As [`Spec::problem`]; what [`Search::new`] finds wrong with the method and its options.
    pub fn search(&self) -> Result<Search, pleach_search::Error> {
        Search::new(self.problem()?, &self.method, &self.options, Seed::new(self.seed))
    }

    /// Whether the name can be that of a folder and of a study on a command line.
    ///
    /// # Errors
    /// [`Error::Refused`] says what a name may be.
    pub fn check_name(&self) -> Result<(), Error> {
        let name = &self.name;
        let fits = !name.is_empty()
            && name.len() <= 100
            && !name.starts_with(['.', '-'])
            && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control());
        if fits {
            return Ok(());
        }
        Err(Error::refused(format!(
            "a study cannot be called {name:?}; use 1 to 100 bytes without slashes and control characters that start with neither . nor -"
        )))
    }

    /// In which ways `other` differs, one sentence each.
    pub(crate) fn differences(&self, other: &Spec) -> Vec<String> {
        let mut differences = Vec::new();
        let mut note = |what: &str, old: String, new: String| {
            if old != new {
                differences.push(format!("{what} was {old} and is now {new}"));
            }
        };
        note("the method", self.method.clone(), other.method.clone());
        note("the seed", self.seed.to_string(), other.seed.to_string());
        note("the list of constraints", json(&self.constraints), json(&other.constraints));
        note_each(&mut note, "option", &self.options, &other.options);
        note_each(&mut note, "descriptor", &self.descriptors, &other.descriptors);
        let metrics = |spec: &Spec| spec.metrics.iter().map(|m| (m.name.clone(), m.clone())).collect();
        note_each(&mut note, "metric", &metrics(self), &metrics(other));
        let parameters = |spec: &Spec| spec.parameters.iter().map(|p| (p.name.clone(), p.clone())).collect();
        note_each(&mut note, "parameter", &parameters(self), &parameters(other));
        if differences.is_empty() && self != other {
            differences.push("parameters or metrics are in another order".into());
        }
        differences
    }
}

/// Notes what differs between two tables.
fn note_each<T: Serialize>(
    note: &mut impl FnMut(&str, String, String),
    kind: &str,
    old: &BTreeMap<String, T>,
    new: &BTreeMap<String, T>,
) {
    let text = |value: Option<&T>| value.map_or_else(|| "not there".into(), json);
    for name in old.keys().chain(new.keys().filter(|name| !old.contains_key(*name))) {
        note(&format!("{kind} {name}"), text(old.get(name)), text(new.get(name)));
    }
}

fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| error.to_string())
}

//! `pleach list`: the methods and problems that are built in.

use std::io::Write;

use clap::{Args, ValueEnum};
use pleach_search::problems::PROBLEMS;
use pleach_search::{Goal, METHODS, REPLICATES};
use serde_json::{Value as Json, json};

use crate::fault::{Exit, Fault};

/// List methods and built-in problems with their options
#[derive(Args, Debug)]
pub(crate) struct List {
    /// Only these
    kind: Option<Kind>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Kind {
    Methods,
    Problems,
}

type Options = &'static [(&'static str, &'static str, &'static str)];
type Metrics = &'static [(&'static str, Goal, &'static str)];

const REPLICATES_OPTION: (&str, &str, &str) =
    (REPLICATES, "1", "evaluations of each point; `best` is by their mean");

impl List {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let wanted = |kind| self.kind.is_none_or(|only| only == kind);
        if self.json {
            return self.json(out);
        }
        if wanted(Kind::Methods) {
            writeln!(out, "METHODS (`method = \"…\"` in [search], their options beside it)")?;
            for entry in METHODS {
                show(out, entry.name, entry.summary, entry.options, &[])?;
            }
            writeln!(out, "\n  Every method:")?;
            show_options(out, &[REPLICATES_OPTION])?;
        }
        if wanted(Kind::Problems) {
            let gap = if self.kind.is_none() { "\n" } else { "" };
            writeln!(out, "{gap}PROBLEMS (`name = \"…\"` in [problem], their options beside it)")?;
            for entry in PROBLEMS {
                show(out, entry.name, entry.summary, entry.options, entry.metrics)?;
            }
        }
        Ok(Exit::Done)
    }

    fn json(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let mut json = serde_json::Map::new();
        if self.kind != Some(Kind::Problems) {
            let methods = METHODS.iter().map(|entry| {
                let options = [entry.options, &[REPLICATES_OPTION]].concat();
                json!({ "name": entry.name, "summary": entry.summary, "options": json_options(&options) })
            });
            json.insert("methods".into(), methods.collect());
        }
        if self.kind != Some(Kind::Methods) {
            let problems = PROBLEMS.iter().map(|entry| {
                let metrics = entry
                    .metrics
                    .iter()
                    .map(|(name, goal, meaning)| json!({ "name": name, "goal": goal, "meaning": meaning }));
                json!({
                    "name": entry.name,
                    "summary": entry.summary,
                    "options": json_options(entry.options),
                    "metrics": metrics.collect::<Json>(),
                })
            });
            json.insert("problems".into(), problems.collect());
        }
        writeln!(out, "{}", Json::Object(json))?;
        Ok(Exit::Done)
    }
}

fn json_options(options: &[(&str, &str, &str)]) -> Json {
    options
        .iter()
        .map(|(name, default, meaning)| json!({ "name": name, "default": default, "meaning": meaning }))
        .collect()
}

fn show(
    out: &mut dyn Write,
    name: &str,
    summary: &str,
    options: Options,
    metrics: Metrics,
) -> Result<(), Fault> {
    writeln!(out, "\n  {name}: {summary}")?;
    show_options(out, options)?;
    for (name, goal, meaning) in metrics {
        let goal = if *goal == Goal::Min { "min" } else { "max" };
        writeln!(out, "      metric {name} ({goal}): {meaning}")?;
    }
    Ok(())
}

fn show_options(out: &mut dyn Write, options: &[(&str, &str, &str)]) -> Result<(), Fault> {
    for (name, default, meaning) in options {
        let default = if default.is_empty() { "required".to_owned() } else { format!("= {default}") };
        writeln!(out, "      {name} {default}: {meaning}")?;
    }
    Ok(())
}

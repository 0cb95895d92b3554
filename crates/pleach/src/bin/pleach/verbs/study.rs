//! `pleach study`: the studies of a file.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use pleach_search::{Domain, Parameter};
use pleach_study::{Lease, Reader};
use serde_json::json;

use crate::fault::{Exit, Fault};
use crate::storage::{self, Where};
use crate::text;

/// List or remove the studies of a file, or extend the space of one
#[derive(Args, Debug)]
pub(crate) struct Study {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Ls(Ls),
    Rm(Rm),
    EditSpace(EditSpace),
}

impl Study {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        match &self.verb {
            Verb::Ls(verb) => verb.run(out),
            Verb::Rm(verb) => verb.run(out),
            Verb::EditSpace(verb) => verb.run(out),
        }
    }
}

/// List the studies of a file
#[derive(Args, Debug)]
struct Ls {
    /// An experiment file or a study file
    file: Option<PathBuf>,
    #[command(flatten)]
    place: Where,
    /// Print one line of JSON a study: {"name", "method", "trials", "counts", "best", "created_ms"}
    #[arg(long)]
    json: bool,
}

impl Ls {
    fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let target = self.place.find(self.file.as_deref())?;
        let reader = Reader::open(&target.path)?;
        let mut rows = Vec::new();
        for info in reader.studies()? {
            let progress = reader.progress(Some(&info.name))?;
            if self.json {
                let json = json!({
                    "name": info.name,
                    "method": info.method,
                    "trials": info.trials,
                    "counts": text::json_counts(&progress),
                    "best": text::json_best(progress.best.as_ref()),
                    "created_ms": info.created_ms,
                });
                writeln!(out, "{json}")?;
            } else {
                let best = progress.best.map(|best| text::number(best.value)).unwrap_or_default();
                rows.push(vec![info.name, info.method, info.trials.to_string(), best]);
            }
        }
        if !self.json {
            text::table(out, &["study", "method", "trials", "best"], &rows)?;
        }
        Ok(Exit::Done)
    }
}

/// Remove a study with all its trials; logs and checkpoints stay on the disk
#[derive(Args, Debug)]
#[command(override_usage = "pleach study rm [OPTIONS] [FILE] <NAME>")]
struct Rm {
    /// [FILE] NAME: a study file, if needed, and the study
    #[arg(required = true, num_args = 1..=2)]
    args: Vec<String>,
    /// The study file, as a path or `sqlite:PATH` [env: PLEACH_STORAGE]
    #[arg(long, value_name = "PATH")]
    storage: Option<String>,
    /// Yes, remove it
    #[arg(long)]
    yes: bool,
}

impl Rm {
    fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let (file, name) = match self.args.as_slice() {
            [file, name] => (Some(PathBuf::from(file)), name),
            [name] => (None, name),
            _ => return Err(Fault::usage("the name of the study is missing")),
        };
        let target = Where::of_storage(self.storage.clone()).find(file.as_deref())?;
        let trials = Reader::open(&target.path)?.progress(Some(name))?.trials;
        if !self.yes {
            return Err(Fault::usage(format!("this removes study {name} and its {trials} trials for good"))
                .help("add --yes if that is meant"));
        }
        pleach_study::Study::remove(&target.path, name)?;
        writeln!(out, "removed study {name} and its {trials} trials")?;
        Ok(Exit::Done)
    }
}

/// Extend the space of a study: widen a range, add an option
#[derive(Args, Debug)]
#[command(
    override_usage = "pleach study edit-space [OPTIONS] <FILE.toml>\n       pleach study edit-space [OPTIONS] [FILE.db] <NAME=DEFINITION>..."
)]
struct EditSpace {
    /// An experiment file whose [space] the study shall have, or new definitions such as
    /// 'lr=log(1e-6, 1e-1)' or 'opt=choice(sgd, adamw, lion)'
    #[arg(required = true)]
    args: Vec<String>,
    #[command(flatten)]
    place: Where,
}

impl EditSpace {
    fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let (file, rest) = storage::split(&self.args);
        let definitions = storage::pairs(rest)?;
        let mut target = self.place.find(file)?;
        let experiment = target.experiment.take();
        let study = target.open(Lease::Process)?;
        let mut parameters = match &experiment {
            Some(experiment) => experiment.spec.parameters.clone(),
            None => study.spec()?.parameters,
        };
        if experiment.is_none() && definitions.is_empty() {
            return Err(Fault::usage("nothing to change")
                .help("give definitions such as 'lr=log(1e-6, 1e-1)', or an experiment file"));
        }
        for (name, definition) in definitions {
            let domain = Domain::parse(definition)
                .map_err(|error| Fault::usage(format!("{name} = {definition}: {error}")))?;
            match parameters.iter_mut().find(|parameter| parameter.name == name) {
                Some(parameter) => parameter.domain = domain,
                None => parameters.push(Parameter { name: name.to_owned(), domain, when: None }),
            }
        }
        study.edit_space(parameters)?;
        writeln!(out, "the space of {} is extended", study.name())?;
        study.close()?;
        Ok(Exit::Done)
    }
}

//! Which study file, and which study in it, a verb speaks of.

use std::path::{Path, PathBuf};

use clap::Args;
use pleach_study::{Durability, Lease, Reader, Spec, StoreOptions, Study};

use crate::builtin::Builtin;
use crate::experiment::{Experiment, Work, stored};
use crate::fault::Fault;

/// Options that pick a study; [`Where::find`] says how.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Where {
    /// The study file, as a path or `sqlite:PATH` [env: PLEACH_STORAGE]
    #[arg(long, value_name = "PATH", help_heading = "Which study")]
    storage: Option<String>,
    /// The study of that name, where the file holds several
    #[arg(long, value_name = "NAME", help_heading = "Which study")]
    study: Option<String>,
}

/// The study a verb speaks of.
#[derive(Debug)]
pub(crate) struct Target {
    /// Its file.
    pub(crate) path: PathBuf,
    /// Its name; none if it is the only one of the file.
    pub(crate) name: Option<String>,
    /// The experiment file that led to it.
    pub(crate) experiment: Option<Experiment>,
}

impl Where {
    /// Only a study file is picked.
    pub(crate) fn of_storage(storage: Option<String>) -> Self {
        Self { storage, study: None }
    }

    /// Finds the study: by `--storage`, else by a study file given as `file`, else by
    /// `PLEACH_STORAGE`, else by an experiment file given as `file`, else the only `*.db` here.
    pub(crate) fn find(&self, file: Option<&Path>) -> Result<Target, Fault> {
        let is_experiment = |file: &&Path| file.extension().is_some_and(|extension| extension == "toml");
        let experiment = file.filter(is_experiment).map(Experiment::load).transpose()?;
        let database = file.filter(|file| !is_experiment(file));
        let here = Path::new("");
        let path = match (&self.storage, database) {
            (Some(_), Some(file)) => {
                return Err(Fault::usage(format!("both --storage and {} name a study file", file.display()))
                    .help("give one of them"));
            }
            (Some(url), None) => parse(url, here)?,
            (None, Some(file)) => file.to_owned(),
            (None, None) => match (std::env::var("PLEACH_STORAGE"), &experiment) {
                (Ok(url), _) if !url.is_empty() => parse(&url, here)?,
                (_, Some(experiment)) => experiment.storage.clone(),
                _ => only_database()?,
            },
        };
        let name =
            self.study.clone().or_else(|| experiment.as_ref().map(|experiment| experiment.spec.name.clone()));
        Ok(Target { path, name, experiment })
    }
}

impl Target {
    /// Opens the study for reading.
    pub(crate) fn reader(&self) -> Result<(Reader, Spec), Fault> {
        let reader = Reader::open(&self.path)?;
        let spec = reader.spec(self.name.as_deref())?;
        Ok((reader, spec))
    }

    /// Opens the study for taking part; an experiment file also creates it.
    pub(crate) fn open(&self, lease: Lease) -> Result<Study, Fault> {
        let durable = self.experiment.as_ref().is_some_and(|experiment| experiment.durable);
        let durability = if durable { Durability::Power } else { Durability::Process };
        let options = StoreOptions { durability, lease, ..StoreOptions::default() };
        match &self.experiment {
            None => Ok(Study::open(&self.path, self.name.as_deref(), &options)?),
            Some(experiment) => {
                let name = self.name.clone().unwrap_or_else(|| experiment.spec.name.clone());
                let stored = stored(&self.path, &name);
                let spec = Spec { name, ..experiment.spec_over(stored.as_ref()) };
                Study::create(&self.path, &spec, &options).map_err(|error| match error {
                    pleach_study::Error::Search(error) => experiment.explain(&error),
                    other => other.into(),
                })
            }
        }
    }

    /// The built-in problem of the experiment file.
    pub(crate) fn builtin(&self) -> Option<&Builtin> {
        match self.experiment.as_ref()?.work {
            Work::Builtin(ref builtin) => Some(builtin),
            Work::Command(_) => None,
        }
    }
}

/// Reads `sqlite:PATH`, `sqlite:///PATH` or a plain path; a relative one starts at `folder`.
pub(crate) fn parse(url: &str, folder: &Path) -> Result<PathBuf, Fault> {
    let path = match url.split_once(':') {
        Some(("sqlite", rest)) => rest.strip_prefix("//").unwrap_or(rest),
        Some((scheme, _))
            if scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric() || c == '+') =>
        {
            return Err(Fault::usage(format!("studies are stored in SQLite files, not in {scheme}:"))
                .help("write `sqlite:study.db`"));
        }
        _ => url,
    };
    if path.is_empty() {
        return Err(Fault::usage("the path of the study file is empty").help("write `sqlite:study.db`"));
    }
    Ok(folder.join(path))
}

/// The only study file of the current folder.
fn only_database() -> Result<PathBuf, Fault> {
    let entries = std::fs::read_dir(".").map_err(|error| Fault::file("list", Path::new("."), &error))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(PathBuf::from(entry.ok()?.file_name())))
        .filter(|path| path.extension().is_some_and(|extension| extension == "db"))
        .collect();
    found.sort();
    let help = "name it by --storage PATH or PLEACH_STORAGE, or give the experiment file";
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Fault::usage("there is no study file (*.db) in this folder").help(help)),
        _ => {
            let names: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
            Err(Fault::usage(format!("several study files are here: {}", names.join(", "))).help(help))
        }
    }
}

/// Splits arguments into a file, if they start with one, and the rest: trial numbers and `name=value`.
pub(crate) fn split(args: &[String]) -> (Option<&Path>, &[String]) {
    match args.split_first() {
        Some((first, rest)) if first.parse::<u64>().is_err() && !first.contains('=') => {
            (Some(Path::new(first)), rest)
        }
        _ => (None, args),
    }
}

/// The trial numbers that arguments name; at least one.
pub(crate) fn numbers(args: &[String]) -> Result<Vec<u64>, Fault> {
    if args.is_empty() {
        return Err(Fault::usage("the number of a trial is missing"));
    }
    args.iter()
        .map(|arg| {
            arg.parse().map_err(|_| {
                Fault::usage(format!("`{arg}` is not the number of a trial"))
                    .help("`pleach ls` lists trials with their numbers")
            })
        })
        .collect()
}

/// The only trial number that arguments name.
pub(crate) fn one_number(args: &[String]) -> Result<u64, Fault> {
    match numbers(args)?.as_slice() {
        [number] => Ok(*number),
        _ => Err(Fault::usage("one trial at a time")),
    }
}

/// Splits `name=value` arguments.
pub(crate) fn pairs(args: &[String]) -> Result<Vec<(&str, &str)>, Fault> {
    args.iter()
        .map(|arg| {
            arg.split_once('=')
                .map(|(name, value)| (name.trim(), value.trim()))
                .ok_or_else(|| Fault::usage(format!("`{arg}` is not of the form name=value")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lead_to_paths() {
        let check = |url: &str, expected: Option<&str>| {
            let path = parse(url, Path::new("f")).ok();
            assert_eq!(path.as_deref(), expected.map(Path::new), "{url}");
        };
        check("sqlite:study.db", Some("f/study.db"));
        check("sqlite:///tmp/x.db", Some("/tmp/x.db"));
        check("sqlite:/tmp/x.db", Some("/tmp/x.db"));
        check("../y.db", Some("f/../y.db"));
        check("postgres://host/db", None);
        check("sqlite:", None);
    }

    #[test]
    fn a_file_in_front_is_told_from_numbers_and_pairs() {
        let check = |args: &[&str], file: Option<&str>, n_rest: usize| {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            let (found, rest) = split(&args);
            assert_eq!((found, rest.len()), (file.map(Path::new), n_rest));
        };
        check(&["a.toml", "3"], Some("a.toml"), 1);
        check(&["3", "loss=1"], None, 2);
        check(&["lr=1"], None, 1);
        check(&[], None, 0);
    }
}

//! The experiment file: everything about a study that its user decides, in one TOML file.

mod automatic;
mod explain;
mod raw;
mod space;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pleach_search::problems::problem;
use pleach_search::{Literal, Metric, Options, Parameter, Space};
use pleach_study::command::{Command, CommandEvaluator, CommandSpec, RESERVED, Stdin};
use pleach_study::{Evaluator, Spec, Study};

use crate::builtin::Builtin;
use crate::fault::Fault;
use crate::source::Source;
use crate::storage;

pub(crate) use automatic::{AUTO, settle, stored};
pub(crate) use explain::nearest;
pub(crate) use space::{Definitions, Metrics, parse_value};

/// The version of the file format that this program reads.
const VERSION: i64 = 1;

/// A checked experiment file.
#[derive(Debug)]
pub(crate) struct Experiment {
    /// Where it was read from.
    source: Source,
    /// What is searched, and how, as written; [`Experiment::spec_over`] completes it.
    pub(crate) spec: Spec,
    /// What a trial does.
    pub(crate) work: Work,
    /// When a run ends.
    pub(crate) limits: Limits,
    /// The study file it names.
    pub(crate) storage: PathBuf,
    /// Whether a commit waits for the disk.
    pub(crate) durable: bool,
}

/// What a trial does.
#[derive(Debug)]
pub(crate) enum Work {
    /// It runs a command of the user's.
    Command(Box<CommandSpec>),
    /// It evaluates a problem that is built in.
    Builtin(Builtin),
}

/// When a run ends.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Trials of the study, whoever ran them.
    pub(crate) trials: Option<u64>,
    /// Time of one run.
    pub(crate) wall: Option<Duration>,
    /// Trials at once.
    pub(crate) parallel: usize,
    /// Failed trials of one run.
    pub(crate) max_failures: Option<u64>,
}

impl Experiment {
    /// Reads and checks a file.
    pub(crate) fn load(path: &Path) -> Result<Self, Fault> {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let stem =
            path.file_stem().map_or_else(|| "study".into(), |stem| stem.to_string_lossy().into_owned());
        Self::parse(Source::read(path)?, &folder, &stem)
    }

    /// Checks a text; relative paths in it start at `folder`.
    fn parse(source: Source, folder: &Path, stem: &str) -> Result<Self, Fault> {
        let file: raw::File =
            toml::from_str(source.text()).map_err(|error| explain::syntax(&source, &error))?;
        check_version(&source, &file)?;
        let Some(name) = file.name.clone().filter(|name| !name.get_ref().is_empty()) else {
            let span = file.name.as_ref().map_or(0..0, toml::Spanned::span);
            return Err(Fault::usage("the study has no name")
                .at(&source, span, "")
                .help(format!("add a line such as `name = \"{stem}\"`")));
        };
        let storage = match &file.storage.url {
            None => folder.join(format!("{stem}.db")),
            Some(url) => storage::parse(url.get_ref(), folder)
                .map_err(|fault| fault.at(&source, url.span(), "not a study file"))?,
        };
        let parallel = file.limits.parallel.as_ref().map_or(1, |parallel| *parallel.get_ref());
        if !(1..=usize::from(u16::MAX)).contains(&parallel) {
            let span = source.value(&["limits", "parallel"]).unwrap_or_default();
            return Err(Fault::usage("`parallel` must be from 1 to 65535").at(&source, span, ""));
        }
        let (work, parameters, metrics) = work_of(&source, &file, folder)?;
        let (method, seed, options) = search_of(&source, &file)?;
        let constraints = match &work {
            Work::Command(_) => file.constraints.known.clone(),
            Work::Builtin(builtin) => {
                let mut constraints = builtin.constraints();
                let new = file.constraints.known.iter().filter(|text| !constraints.contains(text)).cloned();
                constraints.extend(new.collect::<Vec<_>>());
                constraints
            }
        };
        let brought = match &work {
            Work::Builtin(builtin) => builtin.descriptors().collect(),
            Work::Command(_) => Vec::new(),
        };
        let descriptors = brought.into_iter().chain(file.descriptors.0.iter().cloned()).collect();
        let name = name.into_inner();
        let spec = Spec { name, parameters, constraints, descriptors, metrics, method, options, seed };
        let limits = Limits {
            trials: file.limits.trials,
            wall: file.limits.wall,
            parallel,
            max_failures: file.limits.max_failures,
        };
        let durable = file.storage.durable;
        let experiment = Self { source, spec, work, limits, storage, durable };
        experiment.check_names()?;
        experiment.check_spec().map_err(|error| experiment.explain(&error))?;
        experiment.command()?;
        Ok(experiment)
    }

    /// Refuses names that the study or the reports of its commands could not take.
    fn check_names(&self) -> Result<(), Fault> {
        self.spec.check_name().map_err(|error| {
            let span = self.source.value(&["name"]).unwrap_or_default();
            Fault::usage(error.to_string()).at(&self.source, span, "")
        })?;
        let Work::Command(_) = self.work else { return Ok(()) };
        let mut names = self.spec.metrics.iter().map(|metric| metric.name.as_str());
        match names.find(|name| RESERVED.contains(name)) {
            None => Ok(()),
            Some(name) => {
                let span = self.source.key(&["objective", name]).unwrap_or_default();
                let message =
                    format!("a metric cannot be called {name}, which means something else in reports");
                Err(Fault::usage(message).at(&self.source, span, ""))
            }
        }
    }

    /// Builds once what a study will build, so that errors show before anything is written. A study
    /// that exists keeps the method that `auto` chose for it.
    fn check_spec(&self) -> Result<(), pleach_search::Error> {
        let stored = stored(&self.storage, &self.spec.name);
        self.spec_over(stored.as_ref()).search().map(|_| ())
    }

    /// The spec of the study, which is `stored` already or is to be created.
    pub(crate) fn spec_over(&self, stored: Option<&Spec>) -> Spec {
        let mut spec = self.spec.clone();
        let parallel = u64::try_from(self.limits.parallel).ok();
        settle(&mut spec, stored, self.limits.trials, parallel);
        if let (Some(stored), Work::Builtin(builtin)) = (stored, &self.work) {
            // Studies from before the problem had descriptors go on without them.
            let is_new = |name: &String| !stored.descriptors.contains_key(name);
            let brought: BTreeMap<String, String> = builtin.descriptors().collect();
            spec.descriptors.retain(|name, source| brought.get(name) != Some(source) || !is_new(name));
        }
        spec
    }

    /// The space, which [`Experiment::load`] has built before.
    pub(crate) fn space(&self) -> Result<Space, Fault> {
        let constraints: Vec<&str> = self.spec.constraints.iter().map(String::as_str).collect();
        Space::new(self.spec.parameters.clone(), &constraints).map_err(|error| self.explain(&error))
    }

    /// The error with the place in the file that it speaks of.
    pub(crate) fn explain(&self, error: &pleach_search::Error) -> Fault {
        explain::search(&self.source, error)
    }

    /// The command of a trial, ready to run; none for a built-in problem.
    pub(crate) fn command(&self) -> Result<Option<Command>, Fault> {
        let Work::Command(spec) = &self.work else { return Ok(None) };
        let names: Vec<&str> = self.spec.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        Command::new((**spec).clone(), &names).map(Some).map_err(|error| {
            let message = error.to_string();
            // The word at fault is quoted in the message; else it is the program.
            let index = spec.argv.iter().position(|word| message.contains(&format!("`{word}`"))).unwrap_or(0);
            let span = self.source.value(&["trial", "command", &index.to_string()]).unwrap_or_default();
            Fault::usage(message).at(&self.source, span, "")
        })
    }

    /// What evaluates the trials of `study`.
    pub(crate) fn evaluator(&self, study: &Study) -> Result<Box<dyn Evaluator + '_>, Fault> {
        match &self.work {
            Work::Builtin(builtin) => Ok(Box::new(builtin)),
            Work::Command(_) => match self.command()? {
                Some(command) => Ok(Box::new(CommandEvaluator::new(study, command)?)),
                None => Err(Fault::failed("the experiment has no command")),
            },
        }
    }
}

fn check_version(source: &Source, file: &raw::File) -> Result<(), Fault> {
    match &file.pleach {
        Some(version) if *version.get_ref() == VERSION => Ok(()),
        Some(version) => {
            Err(Fault::usage(format!("this program reads version {VERSION} of the experiment file"))
                .at(source, version.span(), format!("version {}", version.get_ref()))
                .help("use the release of Pleach that the file was written for, or change the file"))
        }
        None => Err(Fault::usage("the file does not say which version of the format it has")
            .at(source, 0..0, "")
            .help(format!("start the file with `pleach = {VERSION}`"))),
    }
}

/// What a trial does, and the parameters and metrics that follow from it.
fn work_of(
    source: &Source,
    file: &raw::File,
    folder: &Path,
) -> Result<(Work, Vec<Parameter>, Vec<Metric>), Fault> {
    let key = |name: &str| source.key(&[name]).unwrap_or_default();
    match (&file.trial, &file.problem) {
        (Some(_), Some(_)) => Err(Fault::usage("a study has a `[trial]` command or a built-in `[problem]`, not both")
            .at(source, key("problem"), "")),
        (None, None) => Err(Fault::usage("the file does not say what a trial does")
            .help("add `[trial]` with a `command`, or `[problem]` with the `name` of a built-in problem; `pleach list problems` names them")),
        (Some(trial), None) => {
            for (name, is_zero) in
                [("timeout", trial.timeout == Some(Duration::ZERO)), ("memory", trial.memory == Some(0))]
            {
                if is_zero {
                    return Err(Fault::usage(format!("a `{name}` of 0 lets no command run"))
                        .at(source, source.value(&["trial", name]).unwrap_or_default(), "")
                        .help("leave it out for no limit"));
                }
            }
            let parameters = file.space.parameters().map_err(|wrong| wrong.place(source))?;
            if parameters.is_empty() {
                return Err(Fault::usage("the space has no parameters")
                    .at(source, source.key(&["space"]).unwrap_or_default(), "")
                    .help("add `[space]` with lines such as `lr = \"log(1e-5, 1e-1)\"`"));
            }
            let metrics = file.objective.metrics().map_err(|wrong| wrong.place(source))?;
            if trial.command.get_ref().0.is_empty() {
                return Err(Fault::usage("the command is empty").at(source, trial.command.span(), ""));
            }
            let defaults = CommandSpec::new(trial.command.get_ref().0.clone());
            let command = CommandSpec {
                cwd: Some(if folder == Path::new("") { ".".into() } else { folder.to_owned() }),
                env: trial.env.0.clone(),
                stdin: match trial.stdin {
                    Some(raw::Stdin::Config) => Stdin::Config,
                    _ => Stdin::Null,
                },
                timeout: trial.timeout,
                grace: trial.grace.unwrap_or(defaults.grace),
                memory: trial.memory,
                retries: trial.retries.unwrap_or(defaults.retries),
                ..defaults
            };
            Ok((Work::Command(Box::new(command)), parameters, metrics))
        }
        (None, Some(problem)) => {
            let builtin = builtin_of(source, file, problem, folder)?;
            let (parameters, metrics) = (builtin.parameters().to_vec(), builtin.metrics().to_vec());
            Ok((Work::Builtin(builtin), parameters, metrics))
        }
    }
}

/// The built-in problem that `[problem]` names, with the metrics of `[objective]` and, for a
/// problem that takes one, the space of `[space]`.
fn builtin_of(
    source: &Source,
    file: &raw::File,
    section: &raw::Entries<toml::Spanned<Literal>>,
    folder: &Path,
) -> Result<Builtin, Fault> {
    let explain = |error: pleach_search::Error| explain::search(source, &error);
    let mut options: Options =
        section.0.iter().map(|(key, value)| (key.clone(), value.get_ref().clone())).collect();
    let name = match options.remove("name") {
        Some(Literal::Text(name)) => name,
        Some(_) => {
            let span = source.value(&["problem", "name"]).unwrap_or_default();
            return Err(Fault::usage("the name of a problem is a text").at(source, span, ""));
        }
        None => {
            return Err(Fault::usage("`[problem]` has no `name`")
                .at(source, source.key(&["problem"]).unwrap_or_default(), "")
                .help("`pleach list problems` names those that are built in"));
        }
    };
    let simulate = match options.remove("simulate") {
        None => false,
        Some(Literal::Bool(simulate)) => simulate,
        Some(_) => {
            let span = source.value(&["problem", "simulate"]).unwrap_or_default();
            return Err(Fault::usage("simulate is true or false").at(source, span, ""));
        }
    };
    let offered = problem(&name).map_err(explain)?.metrics;
    let metrics: Vec<Metric> = file
        .objective
        .0
        .iter()
        .map(|(name, metric)| {
            let own = offered.iter().find(|(known, ..)| known == name).map(|(_, goal, _)| *goal);
            let goal = metric.goal.or(own).ok_or_else(|| {
                Fault::usage(format!("metric {name} has no `goal`"))
                    .at(source, source.key(&["objective", name]).unwrap_or_default(), "")
                    .help("write goal = \"min\" or goal = \"max\"")
            })?;
            Ok(Metric { name: name.clone(), goal, limit: metric.limit })
        })
        .collect::<Result<_, Fault>>()?;
    let space = if file.space.0.is_empty() {
        None
    } else {
        let parameters = file.space.parameters().map_err(|wrong| wrong.place(source))?;
        let constraints: Vec<&str> = file.constraints.known.iter().map(String::as_str).collect();
        Some(Space::new(parameters, &constraints).map_err(explain)?)
    };
    let mut builtin = Builtin::new(&name, &options, &metrics, space.as_ref(), folder).map_err(explain)?;
    builtin.simulate = simulate;
    Ok(builtin)
}

/// Method, seed and options of `[search]`.
fn search_of(source: &Source, file: &raw::File) -> Result<(String, u64, Options), Fault> {
    let (mut method, mut seed, mut options) = (AUTO.to_owned(), 0, Options::new());
    for (key, value) in &file.search.0 {
        match (key.as_str(), value.get_ref()) {
            ("method", Literal::Text(name)) => method.clone_from(name),
            ("method", _) => {
                return Err(Fault::usage("the name of a method is a text").at(source, value.span(), ""));
            }
            ("seed", Literal::Int(number)) if *number >= 0 => seed = number.unsigned_abs(),
            ("seed", _) => {
                return Err(Fault::usage("a seed is a whole number from 0 on").at(source, value.span(), ""));
            }
            (_, literal) => {
                options.insert(key.clone(), literal.clone());
            }
        }
    }
    Ok((method, seed, options))
}

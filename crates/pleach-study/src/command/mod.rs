//! External commands as evaluations: run, watched, killable, and adoptable by a later process.
//!
//! # Protocol
//! A command is a list of arguments, never parsed by a shell. `{name}` stands for the value of a
//! parameter, or for `{config_json_path}`, `{report_path}`, `{ckpt_dir}`, `{study}`, `{trial}`,
//! `{seed}`; `{{` and `}}` are braces. Arguments that mention a parameter which is inactive in a
//! trial are left out, with the flag before them. The arguments are the same at every attempt.
//!
//! The environment adds `PLEACH_STUDY`, `PLEACH_TRIAL`, `PLEACH_ATTEMPT` (from 1), `PLEACH_SEED`,
//! `PLEACH_CONFIG` (a JSON file with the parameters), `PLEACH_REPORT` (the file for reports) and
//! `PLEACH_CKPT_DIR` (a folder that is kept over the attempts of the trial).
//!
//! The command appends JSON objects, one a line, to the file `PLEACH_REPORT`, or prints them after
//! `::pleach ` to its standard output. A line with `"step"` is an intermediate report; the others
//! are final and merge, as does a line with `"final": true`. `"sem"`, `"cost"` and `"features"`
//! are reserved, all other names are metrics. A metric without a final value takes its newest
//! intermediate one. NaN and infinities may be written as Python prints them; the trial diverged then.
//!
//! | exit status | the trial |
//! |---|---|
//! | 0 | is done, or failed (metric-missing) if a metric was not reported |
//! | 64 | is infeasible |
//! | 75 | is run again after a pause, a bounded number of times |
//! | other | failed (crashed) once the retries are used up; the last line of standard error is the reason |
//! | killed for want of memory | failed (out-of-memory), with its peak |
//! | still running at the time limit | timeout: SIGTERM to the process group, SIGKILL after the grace |
//!
//! # Surviving
//! Each trial has a folder with `config.json`, `report.jsonl`, `stdout.log`, `stderr.log` and
//! `ckpt/`; files of earlier attempts end in a number. `run` says which process runs the command
//! (pid and start time) and how it ended. A command is not killed when the process that started it
//! dies: whoever evaluates the trial next finds it by the lock it holds on `stdout.log` and by its pid
//! and start time, and waits for it, or takes its result. It is never run twice for one attempt.
//! Processes that a command leaves behind in its process group are killed when it ends.

mod evaluator;
mod folder;
mod memory;
mod process;
mod report;
mod run;
mod tail;
mod template;

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use pleach_search::Literal;

use crate::Error;

pub use evaluator::{CommandEvaluator, INFEASIBLE, TEMPORARY};
pub use report::{RESERVED, Report, Reports};
pub use run::{End, Go, Job, Run};

/// A command and its limits, as a user writes them.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandSpec {
    /// The program and its arguments, with `{name}` where values belong.
    pub argv: Vec<String>,
    /// Variables added to the environment; they cannot replace those of the protocol.
    pub env: Vec<(String, String)>,
    /// The folder to start in; that of this process if `None`.
    pub cwd: Option<PathBuf>,
    /// What the command reads from its standard input.
    pub stdin: Stdin,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// How long a command that is asked to stop may take before it is killed.
    pub grace: Duration,
    /// The most resident memory that the command and its descendants may hold together, in bytes;
    /// looked at ten times a second.
    pub memory: Option<u64>,
    /// How often a command that crashed is run again.
    pub retries: u32,
    /// How often a command that exited with 75 is run again.
    pub temporary_retries: u32,
    /// The pause before the first retry; it doubles with each further one, up to [`BACKOFF_MAX`].
    pub backoff: Duration,
}

/// The longest pause before a retry.
pub const BACKOFF_MAX: Duration = Duration::from_mins(5);

/// What a command reads from its standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Stdin {
    /// Nothing.
    #[default]
    Null,
    /// The JSON object of its parameters.
    Config,
}

impl CommandSpec {
    /// A command without limits: no retries, 10 s of grace, 1 s before the first retry, 20 retries
    /// for status 75.
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: None,
            stdin: Stdin::Null,
            timeout: None,
            grace: Duration::from_secs(10),
            memory: None,
            retries: 0,
            temporary_retries: 20,
            backoff: Duration::from_secs(1),
        }
    }
}

/// A command that can be run: its arguments are parsed and its program was found.
#[derive(Clone, Debug)]
pub struct Command {
    spec: CommandSpec,
    arguments: template::Arguments,
}

impl Command {
    /// Checks `spec` for a space with these parameters.
    ///
    /// # Errors
    /// [`Error::Command`] for an empty command, a name that is not a parameter, a program that does
    /// not exist, or a value that the system could not pass on.
    pub fn new(mut spec: CommandSpec, parameters: &[&str]) -> Result<Self, Error> {
        // The folder of `experiment.toml` is written as an empty path.
        spec.cwd = spec.cwd.filter(|cwd| !cwd.as_os_str().is_empty());
        let error = |message: String| Error::Command { message };
        let mut arguments = template::Arguments::parse(&spec.argv, parameters).map_err(error)?;
        if spec.argv.is_empty() {
            return Err(error("the command is empty; write the program and its arguments as a list".into()));
        }
        if let Some(cwd) = &spec.cwd
            && !cwd.is_dir()
        {
            return Err(error(format!(
                "the folder {} to start the command in does not exist",
                cwd.display()
            )));
        }
        let path = spec.env.iter().rfind(|(name, _)| name == "PATH").map(|(_, path)| path.into());
        arguments.find_program(path.or_else(|| env::var_os("PATH")), spec.cwd.as_deref()).map_err(error)?;
        for (name, value) in &spec.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(error(format!("`{name}` cannot be a variable of the environment")));
            }
        }
        Ok(Self { spec, arguments })
    }

    /// The command as it was written.
    pub fn spec(&self) -> &CommandSpec {
        &self.spec
    }

    /// The arguments for one trial, to show them or to run them.
    pub fn arguments(&self, job: &Job<'_>) -> Vec<String> {
        self.arguments.fill(|name| job.value(name))
    }
}

/// The JSON object of a trial's parameters.
fn config_json(params: &[(String, Literal)]) -> Vec<u8> {
    let object: serde_json::Map<String, serde_json::Value> =
        params.iter().map(|(name, value)| (name.clone(), serde_json::json!(value))).collect();
    let mut text = serde_json::Value::Object(object).to_string().into_bytes();
    text.push(b'\n');
    text
}

//! `pleach init`: an experiment file to start from.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::argparse::{self, Kind, ScriptOption};
use crate::fault::{Exit, Fault};

/// Write a commented experiment file
#[derive(Args, Debug)]
pub(crate) struct Init {
    /// The file to write
    #[arg(default_value = "pleach.toml")]
    file: PathBuf,
    /// Take parameters from the argparse options of this Python script
    #[arg(long, value_name = "SCRIPT.py")]
    script: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

impl Init {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        if self.file.exists() && !self.force {
            return Err(Fault::usage(format!("{} exists", self.file.display()))
                .help("give another name, or --force to replace it"));
        }
        let text = match &self.script {
            None => template("my-search", EXAMPLE_SPACE, EXAMPLE_COMMAND),
            Some(script) => from_script(script)?,
        };
        std::fs::write(&self.file, text).map_err(|error| Fault::file("write", &self.file, &error))?;
        let file = self.file.display();
        writeln!(out, "wrote {file}")?;
        writeln!(
            out,
            "edit it, then examine it with `pleach check {file}` and start with `pleach run {file}`"
        )?;
        Ok(Exit::Done)
    }
}

const EXAMPLE_SPACE: &str = r#"lr = "log(1e-5, 1e-1)"
layers = "int(1, 8)"
opt = "choice(sgd, adamw)"
# A parameter that exists only under a condition:
beta2 = { type = "float", low = 0.9, high = 0.9999, when = "opt == 'adamw'" }
# Others: "uniform(0, 1)", "log_int(16, 1024)", "bool", "ordinal(16, 32, 64)", "permutation(8)"
"#;

const EXAMPLE_COMMAND: &str = r#""python3", "train.py", "--lr", "{lr}", "--layers", "{layers}", "--opt", "{opt}", "--beta2", "{beta2}""#;

/// The whole file; `command` is the inside of the list.
fn template(name: &str, space: &str, command: &str) -> String {
    format!(
        r#"# An experiment of Pleach.
# `pleach check FILE` examines it, `pleach run FILE` runs it, and the same command goes on after a stop.
pleach = 1
name = "{name}"

# What a trial reports: one metric without a limit is optimised, those with a limit must stay within it.
[objective]
loss = "min"
# latency_ms = {{ goal = "min", limit = 8.0 }}

# What is searched.
[space]
{space}
# Points that break one of these are never proposed.
# [constraints]
# known = ["layers * width <= 4096"]

[search]
# method = "aging-evolution"   # `pleach list methods` describes them; left out, one that fits the space
seed = 0
# replicates = 3               # evaluations of each point, when they are noisy

# A trial: a program and its arguments; no shell is involved. The arguments of a parameter that does
# not exist at a point are left out, with the flag before them.
# It reports by a line on its standard output such as
#   ::pleach {{"loss": 0.25}}
# or by the same JSON in the file named by $PLEACH_REPORT.
[trial]
command = [{command}]
# timeout = "2h"
# memory = "8GiB"
# retries = 1
# grace = "10s"                # between the polite and the final signal

[limits]
trials = 100
parallel = 1
# wall = "24h"
# max_failures = 20

# [storage]
# url = "sqlite:study.db"      # left out, the name of this file with .db
# durable = true               # a commit waits for the disk, so that a power cut loses nothing
"#
    )
}

/// A file whose parameters are the options of a script.
fn from_script(script: &Path) -> Result<String, Fault> {
    let text = std::fs::read_to_string(script).map_err(|error| Fault::file("read", script, &error))?;
    let options = argparse::scan(&text);
    let (mut space, mut skipped, mut found) = (String::new(), String::new(), false);
    let mut command = format!("\"python3\", {:?}", script.display().to_string());
    for option in &options {
        let name = option.name();
        match suggest(option) {
            Some(domain) => {
                found = true;
                let _ = writeln!(space, "{name} = {domain}");
                let _ = write!(command, ", {:?}, \"{{{name}}}\"", option.flag);
            }
            None if option.kind == Kind::Flag => {
                let _ = writeln!(
                    skipped,
                    "# {} takes no value; give it one in the script to search it",
                    option.flag
                );
            }
            None => {
                let _ = writeln!(
                    skipped,
                    "# {} is left alone: its values are not known from the script",
                    option.flag
                );
            }
        }
    }
    if !found {
        return Err(Fault::failed(format!("no option of {} shows a range to search", script.display()))
            .help("options need type=float, type=int or choices=[…] in add_argument; or write the file by plain `pleach init`"));
    }
    let stem =
        script.file_stem().map_or_else(|| "my-search".into(), |stem| stem.to_string_lossy().into_owned());
    let space = format!(
        "# Ranges around the defaults of {}: check each of them.\n{space}{skipped}",
        script.display()
    );
    Ok(template(&stem.replace(['"', '\\'], ""), &space, &command))
}

/// A range around the default of an option, as TOML.
fn suggest(option: &ScriptOption) -> Option<String> {
    let default = option.default.as_ref().and_then(|text| text.replace('_', "").parse::<f64>().ok());
    Some(match (&option.kind, default) {
        (Kind::Float, Some(x)) if x > 0.0 && x < 0.1 => {
            format!("\"log({:e}, {:e})\"", x / 100.0, (x * 100.0).min(1.0))
        }
        (Kind::Float, Some(x)) if (0.0..=1.0).contains(&x) => "\"uniform(0, 1)\"".to_owned(),
        (Kind::Float, Some(x)) if x > 1.0 => format!("\"log({:?}, {:?})\"", x / 10.0, x * 10.0),
        (Kind::Float, None) => "\"uniform(0, 1)\"".to_owned(),
        (Kind::Int, Some(x)) if x >= 1.0 => format!("\"int({}, {})\"", (x / 4.0).ceil().max(1.0), x * 4.0),
        (Kind::Int, _) => "\"int(1, 10)\"".to_owned(),
        (Kind::Choice(values), _) => {
            let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
            format!("{{ type = \"choice\", values = [{}] }}", quoted.join(", "))
        }
        _ => return None,
    })
}

//! Chores of the workspace: checks, slow tests and figures. `cargo xtask --help` lists them.

mod figures;
mod tidy;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

/// What every chore returns: an error is a sentence for the person at the terminal.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
#[command(name = "xtask", about = "Chores of the Pleach workspace")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Formatting, lints, tests, docs and tidy.
    Ci,
    /// Checks what the compiler does not: layering, docs that must agree with the code, stray text.
    Tidy,
    /// Runs the tests that are ignored because they are slow.
    Slow,
    /// Measures a figure: one JSON line a run into target/figures/NAME.jsonl, a summary line at the end.
    Figure(figures::Arguments),
    /// A client process of a figure.
    #[command(hide = true)]
    Client { storage: PathBuf, trials: u64 },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().chore {
        Chore::Ci => ci(),
        Chore::Tidy => tidy::run(),
        Chore::Slow => cargo(&["test", "--workspace", "--release", "--", "--ignored"]),
        Chore::Figure(arguments) => figures::run(&arguments),
        Chore::Client { storage, trials } => figures::client(&storage, trials),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            figures::log(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn ci() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    cargo(&["test", "--workspace"])?;
    cargo(&["doc", "--workspace", "--no-deps"])?;
    tidy::run()
}

/// Runs cargo in the workspace root.
fn cargo(arguments: &[&str]) -> Result<()> {
    let status = Command::new(env!("CARGO")).args(arguments).current_dir(root()).status()?;
    if status.success() { Ok(()) } else { Err(format!("cargo {} failed", arguments.join(" ")).into()) }
}

/// The workspace root.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

//! Peers run in a Python environment of their own, made once under `target/figures`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::{Result, root};

/// The interpreter of the environment, with everything of `benches/peers/requirements.txt`.
pub(super) fn python() -> Result<PathBuf> {
    with("requirements.txt")
}

/// As [`python`], with everything of `benches/peers/requirements-torch.txt` too.
pub(super) fn python_with_torch() -> Result<PathBuf> {
    python()?;
    with("requirements-torch.txt")
}

/// The interpreter of the environment after it was given these requirements, unless it has them.
fn with(requirements: &str) -> Result<PathBuf> {
    // Runs side by side must not all install.
    static INSTALLS: Mutex<()> = Mutex::new(());
    let _guard = INSTALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = root().join("target/figures/python");
    let (wanted, installed) = (script(requirements), folder.join(requirements));
    let python = folder.join("bin/python");
    if std::fs::read(&installed).ok() != Some(std::fs::read(&wanted)?) {
        super::log(&format!("installing what {requirements} lists for the peers"));
        if !python.exists() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        }
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&wanted))?;
        std::fs::copy(&wanted, &installed)?;
    }
    Ok(python)
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.stdout(Stdio::null()).status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed").into()) }
}

fn script(name: &str) -> PathBuf {
    root().join("benches/peers").join(name)
}

/// Runs a script to its end and reads the one JSON line it prints.
pub(super) fn measure(python: &Path, name: &str, arguments: &[&str]) -> Result<Value> {
    let output = Command::new(python).arg(script(name)).args(arguments).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{name} {} failed", arguments.join(" ")).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A script that talks in JSON lines.
#[derive(Debug)]
pub(super) struct Dialogue {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Dialogue {
    pub(super) fn start(python: &Path, name: &str) -> Result<Self> {
        let mut child = Command::new(python)
            .arg(script(name))
            // One processor each, like a run of ours.
            .env("OMP_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().expect("stdin is piped");
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Ok(Self { child, input, output })
    }

    pub(super) fn say(&mut self, line: &Value) -> Result<()> {
        writeln!(self.input, "{line}")?;
        Ok(self.input.flush()?)
    }

    pub(super) fn hear(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(format!("the peer ended early: {}", self.child.wait()?).into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    pub(super) fn end(mut self) -> Result<()> {
        drop(self.input);
        self.child.wait()?;
        Ok(())
    }
}

//! A temporary folder in which the binary runs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A temporary folder.
pub(crate) struct Bench(TempDir);

/// What a command gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with an experiment file `e.toml`.
    pub(crate) fn with(experiment: &str) -> Self {
        let bench = Self::new();
        bench.write("e.toml", experiment);
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The binary with these arguments in this folder.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pleach"));
        command.args(args).current_dir(self.0.path()).env_remove("PLEACH_STORAGE");
        command
    }

    pub(crate) fn pleach<S: AsRef<OsStr>>(&self, args: &[S]) -> Ran {
        ran(self.command(args).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs the binary, which must succeed, and returns its standard output.
    pub(crate) fn ok<S: AsRef<OsStr> + std::fmt::Debug>(&self, args: &[S]) -> String {
        let ran = self.pleach(args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:#?}");
        ran.stdout
    }

    /// The same, with its output read as JSON.
    pub(crate) fn json<S: AsRef<OsStr> + std::fmt::Debug>(&self, args: &[S]) -> serde_json::Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }

    /// Starts the binary and lets it run.
    pub(crate) fn start<S: AsRef<OsStr>>(&self, args: &[S]) -> Child {
        self.command(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// The end of a started binary.
pub(crate) fn finish(child: Child) -> Ran {
    ran(child.wait_with_output().unwrap())
}

fn ran(output: std::process::Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    // A process that a signal ended has no code; tests expect -1 then.
    Ran { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A file that tests read, in `tests/data`.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A built-in function with two parameters and a seed.
pub(crate) const BRANIN: &str = r#"
pleach = 1
name = "branin"
[problem]
name = "branin"
[search]
method = "random"
seed = 3
[limits]
trials = 30
"#;

/// A command with a parameter of each kind; `sh` evaluates it in a few milliseconds.
pub(crate) const SHELL: &str = r#"
pleach = 1
name = "shell"
[objective]
loss = "min"
size = { goal = "max", limit = 3 }
[space]
x = "uniform(-1, 1)"
k = "int(1, 9)"
opt = "choice(sgd, adamw)"
beta = { type = "float", low = 0.9, high = 0.99, when = "opt == 'adamw'" }
[search]
method = "random"
seed = 5
[trial]
command = ["sh", "trial.sh", "{x}", "{k}", "--beta", "{beta}"]
[limits]
trials = 6
"#;

/// What the command of [`SHELL`] runs.
pub(crate) const TRIAL: &str = r#"
echo "out $PLEACH_TRIAL"
echo "err $PLEACH_TRIAL" >&2
echo "{\"step\": 1, \"loss\": 2$2}" >> "$PLEACH_REPORT"
echo "::pleach {\"loss\": $1, \"size\": $2, \"extra\": 1.5}"
"#;

/// A folder with [`SHELL`] as `e.toml` and its script.
pub(crate) fn shell() -> Bench {
    let bench = Bench::with(SHELL);
    bench.write("trial.sh", TRIAL);
    bench
}

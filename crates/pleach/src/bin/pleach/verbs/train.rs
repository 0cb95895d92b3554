//! `pleach train`, `eval` and `profile`: networks from a recipe.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use pleach_train::{
    Epoch, Event, Machine, Recipe, Session, SessionOptions, Trainer, TrainerOptions, Worker, evaluate_file,
};
use serde_json::{Value as Json, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::fault::{Exit, Fault};
use crate::source::Source;
use crate::text;

/// Train a network from a recipe
///
/// The state is kept in a checkpoint after every epoch, and when the training is interrupted; the same
/// command goes on from there. Inside a trial of `pleach run`, loss and accuracy are reported, and
/// the checkpoint lies in the folder of the trial.
#[derive(Args, Debug)]
pub(crate) struct Train {
    /// The recipe, a TOML file: [model], [solver], [train], [data]
    recipe: PathBuf,
    /// A file or folder with examples, or "digits"
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    /// Change a value of the recipe, as solver.rate=0.1; may be given again
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Where the state is kept [default: the recipe's name with .safetensors, in this folder]
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Weights to begin with, by name: a checkpoint or any safetensors file
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArgs,
    /// Compute the virtual nodes on several workers: how many nodes each, as 3,1
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    workers: Vec<usize>,
    /// Print JSON: {"epochs": [{"epoch", "train_loss", "loss", "accuracy"}], "done"}
    #[arg(long)]
    json: bool,
}

/// Evaluate the network of a checkpoint
#[derive(Args, Debug)]
pub(crate) struct Eval {
    /// A checkpoint of `pleach train`
    checkpoint: PathBuf,
    /// A file or folder with examples, or "digits": its test part, or what training would hold out
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    #[command(flatten)]
    machine: MachineArgs,
    /// Print JSON: {"loss", "accuracy", "examples"}
    #[arg(long)]
    json: bool,
}

/// Print where the time and the memory of a training step go
#[derive(Args, Debug)]
pub(crate) struct Profile {
    /// The recipe, a TOML file
    recipe: PathBuf,
    /// A file or folder with examples, or "digits"; only their shape matters
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    /// Change a value of the recipe, as train.batch=32; may be given again
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    machine: MachineArgs,
    /// Print JSON: {"ms", "bytes", "parameters", "macs", "layers": [{"layer", "kernel", "ms", "share"}]}
    #[arg(long)]
    json: bool,
}

/// What computes; results do not depend on it.
#[derive(Args, Clone, Copy, Debug)]
struct MachineArgs {
    /// Threads of a worker [default: all processors]
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    /// Instruction set [default: the best there is]
    #[arg(long)]
    isa: Option<Isa>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Isa {
    Scalar,
    Avx2,
    Avx512,
}

impl MachineArgs {
    fn machine(self) -> Machine {
        let default = Machine::default();
        let isa = match self.isa {
            None => default.isa,
            Some(Isa::Scalar) => pleach_tensor::Isa::Scalar,
            Some(Isa::Avx2) => pleach_tensor::Isa::Avx2,
            Some(Isa::Avx512) => pleach_tensor::Isa::Avx512,
        };
        Machine { threads: self.threads.unwrap_or(default.threads), isa }
    }
}

/// Steps between two lines of progress on a terminal.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

impl Train {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let recipe = read(&self.recipe, &self.set)?;
        let machine = self.machine.machine();
        let nodes =
            if self.workers.is_empty() { vec![recipe.train.virtual_nodes] } else { self.workers.clone() };
        let options = SessionOptions {
            workers: nodes.iter().map(|&nodes| Worker { nodes, machine }).collect(),
            checkpoint: Some(self.checkpoint()),
            start_from: self.from.clone(),
            folder: folder(&self.recipe),
        };
        let mut session = Session::open(&recipe, &self.data, options)?;
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))
                .map_err(|error| Fault::failed(format!("cannot listen to signals: {error}")))?;
        }
        if !self.json {
            introduce(out, &session)?;
        }
        let mut reports = Reports::open()?;
        let mut screen = Screen::new(self.json);
        let mut failure = None;
        let done = session.run(&mut |event| {
            let told = match event {
                Event::Step { step, steps, report } => {
                    screen.step(step, steps, report.loss);
                    Ok(())
                }
                Event::Epoch { epoch, .. } => {
                    screen.clear();
                    reports.epoch(&epoch).and_then(|()| {
                        if self.json { Ok(()) } else { line(out, &epoch).map_err(Fault::from) }
                    })
                }
            };
            if let Err(fault) = told {
                failure = Some(fault);
            }
            if stop.load(Ordering::Relaxed) || failure.is_some() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        screen.clear();
        let done = done?;
        if let Some(fault) = failure {
            return Err(fault);
        }
        if self.json {
            writeln!(out, "{}", json!({"epochs": session.history(), "done": done}))?;
        }
        if !done {
            let checkpoint = self.checkpoint();
            if !self.json {
                writeln!(out, "stopped; the same command goes on from {}", checkpoint.display())?;
            }
            return Ok(Exit::Interrupted);
        }
        reports.last(session.history().last())?;
        if !self.json {
            writeln!(out, "the network is in {}", self.checkpoint().display())?;
        }
        Ok(Exit::Done)
    }

    /// Where the state is kept.
    fn checkpoint(&self) -> PathBuf {
        let name = self.recipe.file_stem().unwrap_or_default();
        let file = PathBuf::from(name).with_extension("safetensors");
        match (&self.checkpoint, std::env::var_os("PLEACH_CKPT_DIR")) {
            (Some(path), _) => path.clone(),
            (None, Some(folder)) => Path::new(&folder).join(file),
            (None, None) => file,
        }
    }
}

impl Eval {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let evaluation = evaluate_file(&self.checkpoint, &self.data, self.machine.machine())?;
        let (loss, accuracy, examples) = (evaluation.loss, evaluation.accuracy, evaluation.examples);
        if self.json {
            writeln!(out, "{}", json!({"loss": loss, "accuracy": accuracy, "examples": examples}))?;
        } else {
            let accuracy = accuracy.map(|share| format!(", accuracy {}", percent(share)));
            let (loss, accuracy) = (text::number(loss), accuracy.unwrap_or_default());
            writeln!(out, "{examples} examples: loss {loss}{accuracy}")?;
        }
        Ok(Exit::Done)
    }
}

/// Steps that are measured.
const MEASURED: usize = 5;

impl Profile {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let recipe = read(&self.recipe, &self.set)?;
        let (train, _) = recipe.data.open(&self.data, recipe.train.seed)?;
        let graph = recipe.graph(&train, &folder(&self.recipe))?;
        let options = TrainerOptions {
            batch: recipe.train.batch,
            numerics: recipe.train.numerics,
            workers: vec![Worker { nodes: 1, machine: self.machine.machine() }],
            ..TrainerOptions::default()
        };
        let mut trainer = Trainer::new(graph, recipe.solver, options)?;
        let mut seconds = vec![f64::INFINITY; trainer.program().instructions.len()];
        for _ in 0..MEASURED {
            trainer.profile(|instruction, took| seconds[instruction] = seconds[instruction].min(took));
        }
        // By layer and kernel: the least time of each instruction.
        let mut layers: BTreeMap<(String, &str), f64> = BTreeMap::new();
        let program = trainer.program();
        for (index, (instruction, took)) in program.instructions.iter().zip(&seconds).enumerate() {
            let layer = match instruction.node {
                Some(node) => trainer.graph().nodes()[node.index()].name.clone(),
                None => "the update".into(),
            };
            let pass = match index {
                _ if index < program.forward => "forward",
                _ if index < program.passes => "backward",
                _ => "update",
            };
            *layers.entry((layer, pass)).or_default() += took * 1e3;
        }
        let total: f64 = layers.values().sum();
        let mut rows: Vec<_> = layers.into_iter().collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        let parameters = trainer.graph().parameter_count()?;
        let macs = program.macs / program.batch as u64;
        if self.json {
            let layers: Json = rows
                .iter()
                .map(|((layer, pass), ms)| json!({"layer": layer, "pass": pass, "ms": ms, "share": ms / total}))
                .collect();
            let json = json!({
                "ms": total, "bytes": trainer.bytes(), "parameters": parameters, "macs": macs, "layers": layers,
            });
            writeln!(out, "{json}")?;
            return Ok(Exit::Done);
        }
        let (ms, mib) = (text::number(total), text::number(trainer.bytes() as f64 / f64::from(1 << 20)));
        writeln!(
            out,
            "a step of {} examples: {ms} ms, {mib} MiB; {parameters} parameters, {macs} multiply-adds an example\n",
            program.batch
        )?;
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|((layer, pass), ms)| {
                vec![layer.clone(), (*pass).to_owned(), text::number(*ms), percent(ms / total)]
            })
            .collect();
        text::table(out, &["layer", "pass", "ms", "share"], &rows)?;
        Ok(Exit::Done)
    }
}

/// The folder that a recipe's paths start at.
fn folder(recipe: &Path) -> PathBuf {
    recipe.parent().map(Path::to_path_buf).unwrap_or_default()
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// Reads a recipe and changes what `--set` says.
fn read(path: &Path, set: &[String]) -> Result<Recipe, Fault> {
    let source = Source::read(path)?;
    let mut table: toml::Table = source.text().parse().map_err(|error: toml::de::Error| {
        let fault = Fault::usage(format!("{} is not TOML: {}", source.name(), error.message()));
        match error.span() {
            Some(span) => fault.at(&source, span, ""),
            None => fault,
        }
    })?;
    for change in set {
        let (key, value) = change.split_once('=').ok_or_else(|| {
            Fault::usage(format!("--set {change} has no `=`")).help("write it as solver.rate=0.1")
        })?;
        apply(&mut table, key.trim(), value.trim())
            .ok_or_else(|| Fault::usage(format!("--set {change}: {key} is not a key of tables")))?;
    }
    let json =
        serde_json::to_value(&table).map_err(|error| Fault::usage(format!("{}: {error}", source.name())))?;
    serde_json::from_value(json).map_err(|error| {
        Fault::usage(format!("{} is not a recipe: {error}", source.name()))
            .help("a recipe has [model], [solver], [train] and [data]; docs/training.md shows one")
    })
}

/// Sets the value at a dotted key. What is not a TOML value is text.
fn apply(table: &mut toml::Table, key: &str, value: &str) -> Option<()> {
    let value = format!("x = {value}")
        .parse::<toml::Table>()
        .ok()
        .and_then(|mut table| table.remove("x"))
        .unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let mut steps: Vec<&str> = key.split('.').collect();
    let last = steps.pop().filter(|last| !last.is_empty())?;
    let mut table = table;
    for step in steps {
        let inner = table.entry(step).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        table = inner.as_table_mut()?;
    }
    table.insert(last.to_owned(), value);
    Some(())
}

fn introduce(out: &mut dyn Write, session: &Session) -> Result<(), Fault> {
    let trainer = session.trainer();
    writeln!(out, "learn from  {}", session.train_data())?;
    writeln!(out, "judge by    {}", session.test_data())?;
    let mib = text::number(trainer.bytes() as f64 / f64::from(1 << 20));
    writeln!(out, "network     {} parameters, {mib} MiB for training\n", trainer.graph().parameter_count()?)?;
    writeln!(out, "epoch  train loss        loss  accuracy")?;
    for epoch in session.history() {
        line(out, epoch)?;
    }
    Ok(out.flush()?)
}

fn line(out: &mut dyn Write, epoch: &Epoch) -> std::io::Result<()> {
    let Epoch { epoch, train_loss, loss, accuracy } = epoch;
    let accuracy = accuracy.map(percent).unwrap_or_default();
    writeln!(out, "{epoch:5}  {:>10}  {:>10}  {accuracy}", text::number(*train_loss), text::number(*loss))?;
    out.flush()
}

/// The line of progress on a terminal.
struct Screen {
    shown: bool,
    last: Instant,
    dirty: bool,
}

impl Screen {
    fn new(quiet: bool) -> Screen {
        let shown = !quiet && std::io::stderr().is_terminal();
        Screen { shown, last: Instant::now(), dirty: false }
    }

    fn step(&mut self, step: u64, steps: u64, loss: f64) {
        if self.shown && self.last.elapsed() >= SHOWN_EVERY {
            self.last = Instant::now();
            self.dirty = true;
            // Nobody is the worse for a line of progress that could not be shown.
            let _ = write!(std::io::stderr(), "\r\x1b[2Kstep {step} of {steps}, loss {}", text::number(loss));
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.dirty) {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}

/// Reports to `pleach run`, where this is a trial.
struct Reports(Option<std::fs::File>);

impl Reports {
    fn open() -> Result<Reports, Fault> {
        let Some(path) = std::env::var_os("PLEACH_REPORT").map(PathBuf::from) else {
            return Ok(Reports(None));
        };
        let file = OpenOptions::new().append(true).create(true).open(&path);
        Ok(Reports(Some(file.map_err(|error| Fault::file("write", &path, &error))?)))
    }

    fn epoch(&mut self, epoch: &Epoch) -> Result<(), Fault> {
        self.write(&json!({"step": epoch.epoch, "loss": epoch.loss, "accuracy": epoch.accuracy}))
    }

    fn last(&mut self, epoch: Option<&Epoch>) -> Result<(), Fault> {
        let Some(epoch) = epoch else { return Ok(()) };
        self.write(&json!({"loss": epoch.loss, "accuracy": epoch.accuracy, "final": true}))
    }

    fn write(&mut self, report: &Json) -> Result<(), Fault> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        let mut report = report.clone();
        if let Some(report) = report.as_object_mut() {
            report.retain(|_, value| !value.is_null());
        }
        writeln!(file, "{report}")
            .map_err(|error| Fault::failed(format!("cannot write the report of the trial: {error}")))
    }
}

impl From<pleach_train::Error> for Fault {
    fn from(error: pleach_train::Error) -> Self {
        use pleach_train::Error;
        let chain = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let mut sentences: Vec<String> = chain.map(ToString::to_string).collect();
        // What passes an error on says the same, and some say what caused them.
        sentences.dedup_by(|next, said| said.contains(next.as_str()));
        let message = sentences.join(": ");
        match error {
            Error::Diverged { .. } | Error::Write { .. } => Self::failed(message),
            Error::OtherTraining { .. } => {
                Self::usage(message).help("--checkpoint names another file; --from takes only the weights")
            }
            _ => Self::usage(message),
        }
    }
}

impl From<pleach_graph::Error> for Fault {
    fn from(error: pleach_graph::Error) -> Self {
        Self::usage(error.to_string())
    }
}

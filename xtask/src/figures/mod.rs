//! Figures: measurements that README and docs may quote, each with its bar.
//!
//! A figure writes one JSON line a run to `target/figures/NAME.jsonl` and a summary line at the end
//! that is computed from that file alone. A figure that was interrupted goes on where it stopped.

mod contest;
mod crash_loop;
mod hpo_tables;
mod jobs;
mod minimise;
mod mujoco;
mod nb201_evolution;
mod nb201_limit;
mod nb201_queries;
mod overhead_durable;
mod overhead_memory;
mod overhead_methods;
mod partition_gain;
mod peer;
mod picture;
mod record;
mod region_exact;
mod same_cmaes;
mod same_method;
mod statistics;
mod synthetic;
mod tables;
mod training;

use std::path::{Path, PathBuf};

use crate::{Result, cargo, root};
use record::{Log, Record, Row};

pub(crate) use overhead_durable::client;

/// A registered figure.
struct Figure {
    name: &'static str,
    about: &'static str,
    /// How long it takes on two cores.
    minutes: u32,
    /// Makes the runs that the log does not have yet.
    run: fn(&mut Log) -> Result<()>,
    /// What the runs say, without bars.
    summarise: fn(&[Record]) -> Vec<Row>,
    /// Draws the runs as SVG, where a picture says more.
    picture: Option<fn(&[Record]) -> String>,
}

const FIGURES: &[Figure] = &[
    overhead_memory::FIGURE,
    overhead_durable::FIGURE,
    crash_loop::FIGURE,
    same_cmaes::FIGURE,
    nb201_evolution::FIGURE,
    nb201_queries::FIGURE,
    nb201_limit::FIGURE,
    hpo_tables::FIGURE,
    partition_gain::FIGURE,
    synthetic::IN_20,
    synthetic::IN_TIME,
    synthetic::IN_100,
    same_method::FIGURE,
    mujoco::FIGURE,
    overhead_methods::FIGURE,
    region_exact::FIGURE,
    training::RESNET18,
    training::NETS,
];

/// Arguments of `cargo xtask figure`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Which figure; `--list` names them.
    name: Option<String>,
    /// All seeds, shifts and splits derive from this number.
    #[arg(long, required_unless_present_any = ["list", "check"])]
    seed_base: Option<u64>,
    /// Makes the runs of this method or peer only, and no summary; may be given again.
    #[arg(long, value_name = "METHOD")]
    only: Vec<String>,
    /// Computes the summary of a finished file again, without running anything.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// Draws the runs as SVG into this file.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Names all figures with the time they take.
    #[arg(long)]
    list: bool,
}

/// Runs, checks or lists figures.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        for figure in FIGURES {
            print(&format!("{:18} {:3} min  {}", figure.name, figure.minutes, figure.about));
        }
        return Ok(());
    }
    let name = arguments.name.as_deref().ok_or("which figure? `cargo xtask figure --list` names them")?;
    let figure = FIGURES.iter().find(|figure| figure.name == name).ok_or_else(|| {
        let names: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        format!("no figure is called {name}; there are {}", names.join(", "))
    })?;
    if let Some(file) = &arguments.check {
        let (records, written) = record::read(file)?;
        let summary = summary(figure, &records)?;
        print(&summary);
        draw(figure, &records, arguments)?;
        return match written {
            Some(written) if written == summary => Ok(()),
            Some(_) => Err("the summary in the file says something else".into()),
            None => Err("the file has no summary: the figure was not finished".into()),
        };
    }
    let seed_base = arguments.seed_base.expect("required by clap");
    let path = root().join("target/figures").join(format!("{name}.jsonl"));
    let mut log = Log::open(&path, seed_base, &arguments.only)?;
    (figure.run)(&mut log)?;
    if !arguments.only.is_empty() {
        return Ok(());
    }
    let (records, _) = record::read(&path)?;
    let summary = summary(figure, &records)?;
    log.finish(&summary)?;
    print(&summary);
    log_bars(&summary);
    draw(figure, &records, arguments)
}

/// Writes the picture that was asked for.
fn draw(figure: &Figure, records: &[Record], arguments: &Arguments) -> Result<()> {
    let Some(path) = &arguments.picture else { return Ok(()) };
    let picture = figure.picture.ok_or_else(|| format!("{} has no picture", figure.name))?;
    Ok(std::fs::write(path, picture(records))?)
}

/// The summary line: rows with their bars from `benches/bars.toml`.
fn summary(figure: &Figure, records: &[Record]) -> Result<String> {
    let bars = record::Bars::read(&root().join("benches/bars.toml"), figure.name)?;
    let rows: Vec<Row> = (figure.summarise)(records).into_iter().map(|row| bars.judge(row)).collect();
    if let Some(missing) = bars.names().find(|name| rows.iter().all(|row| row.what != *name)) {
        return Err(format!("{}: no run gives `{missing}`, which has a bar", figure.name).into());
    }
    Ok(serde_json::to_string(&record::Summary { name: figure.name.into(), rows })?)
}

fn log_bars(summary: &str) {
    let summary: record::Summary = serde_json::from_str(summary).expect("written just above");
    for row in summary.rows {
        let verdict = match row.holds {
            Some(true) => "holds",
            Some(false) => "MISSED",
            None => "",
        };
        log(&format!("{:60} {:>12.5}  {:12} {verdict}", row.what, row.value, row.bar.unwrap_or_default()));
    }
}

/// A folder for the files of a figure, empty at the start.
fn scratch(name: &str) -> Result<PathBuf> {
    let folder = root().join("target/figures").join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The program `pleach`, built now with these features, as a copy in `folder`.
fn binary(folder: &Path, features: &str) -> Result<PathBuf> {
    cargo(&["build", "--quiet", "--release", "--package", "pleach", "--features", features])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let binary = folder.join("pleach");
    std::fs::copy(target.join("release/pleach"), &binary)?;
    Ok(binary)
}

/// The version that runs of ours carry.
fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

#[expect(clippy::print_stdout, reason = "data goes to stdout")]
fn print(line: &str) {
    println!("{line}");
}

/// A line for the person at the terminal.
#[expect(clippy::print_stderr, reason = "logs go to stderr")]
pub(crate) fn log(line: &str) {
    eprintln!("{line}");
}

//! The file of a figure: runs, then one summary line; and the bars.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Result;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// A method of ours, or a peer's name.
    pub(super) method: String,
    /// The version of Pleach or of the peer.
    pub(super) version: String,
    /// What was solved or measured, with its size.
    pub(super) problem: String,
    /// The seed of the run, derived from the seed base.
    pub(super) seed: u64,
    /// Trials, evaluations or repetitions.
    pub(super) n: u64,
    /// What was measured.
    pub(super) value: f64,
    /// How long the run took.
    pub(super) seconds: f64,
}

/// One line of the summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    /// What the value is, with its unit.
    pub(super) what: String,
    /// The value; NaN (`null` in the file) of no runs.
    #[serde(deserialize_with = "number")]
    pub(super) value: f64,
    /// Its bar, as text; `None` for a value that is only shown.
    pub(super) bar: Option<String>,
    /// Whether the value keeps the bar.
    pub(super) holds: Option<bool>,
}

fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

impl Row {
    pub(super) fn new(what: impl Into<String>, value: f64) -> Self {
        Self { what: what.into(), value, bar: None, holds: None }
    }
}

/// The summary line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) name: String,
    pub(super) rows: Vec<Row>,
}

/// The first line: a file belongs to one seed base.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    seed_base: u64,
}

/// The file of a figure while it is being made.
#[derive(Debug)]
pub(super) struct Log {
    /// All seeds derive from it.
    pub(super) seed_base: u64,
    path: PathBuf,
    file: File,
    done: BTreeSet<String>,
    /// Methods and peers to run; all if empty.
    only: Vec<String>,
}

impl Log {
    /// Opens the file; runs of the same seed base are kept, those of another are set aside.
    pub(super) fn open(path: &Path, seed_base: u64, only: &[String]) -> Result<Self> {
        fs::create_dir_all(path.parent().expect("the file lies in a folder"))?;
        let mut kept = Vec::new();
        if path.exists() {
            let first = BufReader::new(File::open(path)?).lines().next().transpose()?.unwrap_or_default();
            if serde_json::from_str::<Head>(&first).is_ok_and(|head| head.seed_base == seed_base) {
                kept = read(path)?.0;
            } else {
                fs::rename(path, path.with_extension("jsonl.old"))?;
            }
        }
        let mut text = serde_json::to_string(&Head { seed_base })? + "\n";
        for record in &kept {
            text += &(serde_json::to_string(record)? + "\n");
        }
        // Without the summary of an earlier end, and without a line that a kill cut short.
        let fresh = path.with_extension("jsonl.new");
        fs::write(&fresh, text)?;
        fs::rename(&fresh, path)?;
        let done = kept.iter().map(|r| id(&r.method, &r.problem, r.seed, r.n)).collect();
        let file = OpenOptions::new().append(true).open(path)?;
        Ok(Self { seed_base, path: path.to_owned(), file, done, only: only.to_vec() })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this run is in the file already, or not to be made.
    pub(super) fn has(&self, method: &str, problem: &str, seed: u64, n: u64) -> bool {
        (!self.only.is_empty() && self.only.iter().all(|only| only != method))
            || self.done.contains(&id(method, problem, seed, n))
    }

    /// Writes a run.
    pub(super) fn push(&mut self, record: &Record) -> Result<()> {
        super::log(&format!(
            "{:24} {:34} seed {:<10} n {:<7} {:<14.6} {:.2} s",
            record.method, record.problem, record.seed, record.n, record.value, record.seconds
        ));
        writeln!(self.file, "{}", serde_json::to_string(record)?)?;
        self.done.insert(id(&record.method, &record.problem, record.seed, record.n));
        Ok(())
    }

    /// Writes the summary.
    pub(super) fn finish(&mut self, summary: &str) -> Result<()> {
        writeln!(self.file, "{summary}")?;
        Ok(())
    }
}

fn id(method: &str, problem: &str, seed: u64, n: u64) -> String {
    format!("{method}\t{problem}\t{seed}\t{n}")
}

/// The runs of a file, and its summary line if it has one.
pub(super) fn read(path: &Path) -> Result<(Vec<Record>, Option<String>)> {
    let mut records = Vec::new();
    let mut summary = None;
    for line in BufReader::new(File::open(path)?).lines() {
        let line = line?;
        if let Ok(record) = serde_json::from_str(&line) {
            records.push(record);
        } else if serde_json::from_str::<Summary>(&line).is_ok() {
            summary = Some(line);
        }
    }
    Ok((records, summary))
}

/// The bars of one figure.
#[derive(Debug)]
pub(super) struct Bars(Vec<(String, Bar)>);

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bar {
    max: Option<f64>,
    min: Option<f64>,
}

impl Bars {
    /// Reads the table `[figure]` of the file.
    pub(super) fn read(path: &Path, figure: &str) -> Result<Self> {
        let mut file: toml::Table = fs::read_to_string(path)?.parse()?;
        let table =
            file.remove(figure).ok_or_else(|| format!("{} has no table [{figure}]", path.display()))?;
        let toml::Value::Table(table) = table else {
            return Err(format!("[{figure}] is not a table").into());
        };
        table.into_iter().map(|(what, bar)| Ok((what, bar.try_into()?))).collect::<Result<Vec<_>>>().map(Self)
    }

    /// What the bars are about.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(what, _)| what.as_str())
    }

    /// The row with its bar and whether it holds; NaN holds no bar.
    pub(super) fn judge(&self, row: Row) -> Row {
        let Some((_, bar)) = self.0.iter().find(|(what, _)| *what == row.what) else { return row };
        let texts = [bar.max.map(|max| format!("≤ {max}")), bar.min.map(|min| format!("≥ {min}"))];
        let holds = bar.max.is_none_or(|max| row.value <= max) && bar.min.is_none_or(|min| row.value >= min);
        Row {
            bar: Some(texts.into_iter().flatten().collect::<Vec<_>>().join(", ")),
            holds: Some(holds),
            ..row
        }
    }
}

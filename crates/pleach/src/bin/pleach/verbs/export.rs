//! `pleach export`: the trials of a study as a table.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pleach_search::Literal;
use pleach_study::{Filter, Spec, TrialRecord};

use crate::fault::{Exit, Fault};
use crate::storage::Where;
use crate::text;

/// Write all trials as CSV or JSON lines
///
/// Without --all the columns are those that two runs of one experiment with one seed have in
/// common: number, state, parameters, metrics.
#[derive(Args, Debug)]
pub(crate) struct Export {
    /// An experiment file or a study file
    file: Option<PathBuf>,
    #[command(flatten)]
    place: Where,
    /// The format
    #[arg(long, value_name = "FORMAT", default_value = "csv")]
    format: Format,
    /// Also times, attempts, workers, errors and the rest
    #[arg(long)]
    all: bool,
    /// The file to write instead of the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Format {
    Csv,
    Jsonl,
}

impl Export {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let (reader, spec) = self.place.find(self.file.as_deref())?.reader()?;
        let mut file;
        let sink: &mut dyn Write = match &self.output {
            None => out,
            Some(path) => {
                file =
                    BufWriter::new(File::create(path).map_err(|error| Fault::file("write", path, &error))?);
                &mut file
            }
        };
        let name = Some(spec.name.as_str());
        // Of a damaged study, all that can be read is written before the error is told.
        let read = match self.format {
            Format::Jsonl => reader.for_each(name, &Filter::default(), |trial| {
                let json = if self.all { text::json_trial(&trial) } else { text::json_core(&trial) };
                writeln!(sink, "{json}").map_err(Fault::from)
            }),
            Format::Csv => {
                let columns = Columns::new(&spec, self.all);
                let mut csv = csv::Writer::from_writer(&mut *sink);
                csv.write_record(&columns.header).map_err(csv_fault)?;
                let read = reader.for_each(name, &Filter::default(), |trial| {
                    csv.write_record(columns.row(&trial)).map_err(csv_fault)
                });
                csv.flush()?;
                read
            }
        };
        sink.flush()?;
        read.map(|()| Exit::Done)
    }
}

fn csv_fault(error: csv::Error) -> Fault {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error.into(),
        other => Fault::failed(format!("cannot write CSV: {other:?}")),
    }
}

/// The columns of a CSV file: names are parameters, then metrics; one that is taken gets a prefix.
struct Columns<'a> {
    spec: &'a Spec,
    all: bool,
    header: Vec<String>,
}

/// The columns that `--all` adds.
const MORE: [&str; 11] = [
    "sem",
    "cost",
    "failure",
    "origin",
    "attempt",
    "worker",
    "created_ms",
    "started_ms",
    "ended_ms",
    "error",
    "peak_rss_bytes",
];

impl<'a> Columns<'a> {
    fn new(spec: &'a Spec, all: bool) -> Self {
        let mut header = vec!["number".to_owned(), "state".to_owned()];
        let more: &[&str] = if all { &MORE } else { &[] };
        let parameters = spec.parameters.iter().map(|parameter| ("param", &parameter.name));
        let metrics = spec.metrics.iter().map(|metric| ("metric", &metric.name));
        for (kind, name) in parameters.chain(metrics) {
            let taken = header.contains(name) || more.contains(&name.as_str());
            header.push(if taken { format!("{kind}.{name}") } else { name.clone() });
        }
        header.extend(more.iter().map(|&name| name.to_owned()));
        Self { spec, all, header }
    }

    fn row(&self, trial: &TrialRecord) -> Vec<String> {
        let mut row = vec![trial.number.to_string(), trial.state.to_string()];
        let param = |name: &str| trial.params.iter().find(|(other, _)| other == name).map(|(_, value)| value);
        row.extend(
            self.spec.parameters.iter().map(|p| param(&p.name).map(Literal::to_string).unwrap_or_default()),
        );
        let number = |x: f64| Literal::Float(x).to_string();
        row.extend(self.spec.metrics.iter().map(|m| trial.metric(&m.name).map(number).unwrap_or_default()));
        if self.all {
            let ms = |time: Option<i64>| time.map(|ms| ms.to_string()).unwrap_or_default();
            row.extend([
                trial.sem.map(number).unwrap_or_default(),
                trial.cost.map(number).unwrap_or_default(),
                trial.failure.map(|class| class.to_string()).unwrap_or_default(),
                trial.origin.clone(),
                trial.attempt.to_string(),
                trial.worker.clone().unwrap_or_default(),
                trial.created_ms.to_string(),
                ms(trial.started_ms),
                ms(trial.ended_ms),
                trial.error.clone().unwrap_or_default(),
                trial.peak_rss_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
            ]);
        }
        row
    }
}

//! Rows of a CSV file, gzipped or not, with errors that name the line.

use std::io::{Cursor, Read};

use csv::{ErrorKind, Position, Reader, ReaderBuilder, StringRecord, Trim};
use flate2::read::MultiGzDecoder;

use super::{Column, PATH};
use crate::Error;
use crate::problems::setup::Request;

/// A CSV file whose header has been read.
pub(crate) struct Sheet<'a> {
    name: &'a str,
    header: Vec<String>,
    reader: Reader<Cursor<Vec<u8>>>,
}

/// What was read of the metric columns of a sheet.
pub(crate) struct Rows {
    /// 1-based line of each row.
    pub(crate) lines: Vec<u64>,
    /// The columns asked for.
    pub(crate) columns: Vec<Column>,
}

impl<'a> Sheet<'a> {
    /// Opens the file that the option `path` names.
    pub(crate) fn open(request: &Request<'a>) -> Result<Self, Error> {
        let name = request
            .text(PATH.0)?
            .ok_or_else(|| request.bad(PATH.0, "missing; give the path of the table"))?;
        let bytes = (request.setup.read)(name).map_err(|error| at(name, 0, error.to_string()))?;
        let bytes = if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut plain = Vec::new();
            let read = MultiGzDecoder::new(&bytes[..]).read_to_end(&mut plain);
            read.map_err(|error| at(name, 0, format!("cannot be unpacked: {error}")))?;
            plain
        } else {
            bytes
        };
        let mut reader = ReaderBuilder::new().trim(Trim::All).from_reader(Cursor::new(bytes));
        let header = match reader.headers() {
            Ok(header) => header.iter().map(str::to_owned).collect::<Vec<String>>(),
            Err(error) => return Err(wrong(name, &reader, &error)),
        };
        if header.is_empty() {
            return Err(at(name, 1, "the file is empty; the first line must name the columns".into()));
        }
        for (i, column) in header.iter().enumerate() {
            if column.is_empty() {
                return Err(at(name, 1, format!("column {} has no name", i + 1)));
            }
            if header[..i].contains(column) {
                return Err(at(name, 1, format!("two columns are called {column}")));
            }
        }
        Ok(Self { name, header, reader })
    }

    /// The names of the columns.
    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    /// The column of that name.
    pub(crate) fn column(&self, name: &str) -> Result<usize, Error> {
        let found = self.header.iter().position(|column| column == name);
        found.ok_or_else(|| self.error(1, format!("no column is called {name}; {}", self.known())))
    }

    /// The columns of a metric: the one of its name, or `NAME_s1`, `NAME_s2`, …, by number.
    pub(crate) fn runs_of(&self, metric: &str) -> Result<Vec<usize>, Error> {
        if let Some(column) = self.header.iter().position(|column| column == metric) {
            return Ok(vec![column]);
        }
        let number = |column: &str| column.strip_prefix(metric)?.strip_prefix("_s")?.parse::<u32>().ok();
        let mut runs: Vec<(u32, usize)> =
            self.header.iter().enumerate().filter_map(|(i, column)| Some((number(column)?, i))).collect();
        runs.sort_unstable();
        if runs.is_empty() {
            let message = format!("no column is called {metric} or {metric}_s1; {}", self.known());
            return Err(self.error(1, message));
        }
        Ok(runs.into_iter().map(|(_, column)| column).collect())
    }

    fn known(&self) -> String {
        format!("there are {}", self.header.join(", "))
    }

    /// The error of a line.
    pub(crate) fn error(&self, line: u64, message: impl Into<String>) -> Error {
        at(self.name, line, message.into())
    }

    /// Reads all rows: the runs of each metric, and whatever `each` takes of a row and its line.
    pub(crate) fn rows(
        &mut self,
        metrics: &[Vec<usize>],
        mut each: impl FnMut(&StringRecord, u64) -> Result<(), Error>,
    ) -> Result<Rows, Error> {
        let empty =
            |runs: &Vec<usize>| if runs.len() == 1 { Column::single(Vec::new()) } else { Column::runs() };
        let mut rows = Rows { lines: Vec::new(), columns: metrics.iter().map(empty).collect() };
        let mut record = StringRecord::new();
        loop {
            match self.reader.read_record(&mut record) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Err(wrong(self.name, &self.reader, &error)),
            }
            let line = line_of(&self.reader, record.position());
            for (column, cells) in rows.columns.iter_mut().zip(metrics) {
                if let [cell] = cells[..] {
                    column.push(self.number(&record, cell, line)?);
                    continue;
                }
                let mut runs = Vec::with_capacity(cells.len());
                for &cell in cells.iter().filter(|&&cell| !record[cell].is_empty()) {
                    runs.push(self.number(&record, cell, line)?);
                }
                if column.push_runs(runs) == 0 {
                    let message = format!("no run in {} and the columns after it", self.header[cells[0]]);
                    return Err(self.error(line, message));
                }
            }
            each(&record, line)?;
            rows.lines.push(line);
        }
        if rows.lines.is_empty() {
            return Err(self.error(0, "there is no row below the header"));
        }
        Ok(rows)
    }

    fn number(&self, record: &StringRecord, cell: usize, line: u64) -> Result<f64, Error> {
        record[cell].parse().map_err(|_| {
            let got = if record[cell].is_empty() { "an empty cell" } else { &record[cell] };
            self.error(line, format!("{}: expected a number, got {got}", self.header[cell]))
        })
    }
}

fn at(table: &str, line: u64, message: String) -> Error {
    Error::Table { table: table.into(), line, message }
}

/// The fault of a file that is not a table.
fn wrong(table: &str, reader: &Reader<Cursor<Vec<u8>>>, error: &csv::Error) -> Error {
    let message = match error.kind() {
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} cells, but the header has {expected_len}")
        }
        ErrorKind::Utf8 { .. } => "the text is not UTF-8".into(),
        _ => error.to_string(),
    };
    at(table, line_of(reader, error.position()), message)
}

/// The line of a record; its position counts the empty lines before it as its own.
fn line_of(reader: &Reader<Cursor<Vec<u8>>>, position: Option<&Position>) -> u64 {
    let Some(position) = position else { return 0 };
    let start = usize::try_from(position.byte()).expect("the file is in memory");
    let before = reader.get_ref().get_ref()[start..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
    position.line() + before.filter(|&&byte| byte == b'\n').count() as u64
}

//! Tables of numbers with a column to be answered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use csv::{Position, ReaderBuilder, StringRecord, Trim};

use super::{Format, Options, only_for_training};
use crate::data::classes::whole;
use crate::data::dataset::{Base, Target};
use crate::data::table::{Numbers, Table};
use crate::data::{Classes, Dataset, Error, files};

pub(super) const FORMAT: Format = Format {
    name: "csv",
    looks_like: "a .csv or .csv.gz whose last column, or the one that `column` names, is the target",
    open,
};

/// Targets that are text are classes. Numbers are values, or classes if the options say which.
fn open(path: &Path, options: &Options) -> Result<Option<Dataset>, Error> {
    if path.is_dir() || !files::is_named(path, &[".csv", ".csv.gz"]) {
        return Ok(None);
    }
    only_for_training(path, options.part)?;
    let bytes = files::bytes(path)?;
    let mut reader =
        ReaderBuilder::new().has_headers(false).flexible(true).trim(Trim::All).from_reader(bytes.as_slice());
    let mut record = StringRecord::new();
    if !next(&mut reader, &mut record, path)? {
        return Err(Error::format(path, "it is empty"));
    }
    let columns = Columns::of(path, &record, options)?;
    let (mut inputs, mut answers) = (Vec::new(), Vec::new());
    if columns.names.is_none() {
        columns.read(&record, &mut inputs, &mut answers)?;
    }
    while next(&mut reader, &mut record, path)? {
        columns.read(&record, &mut inputs, &mut answers)?;
    }
    let (target, targets) = columns.targets(&answers, &options.classes)?;
    let base = Base {
        format: FORMAT.name,
        path: path.to_owned(),
        input: vec![columns.count - 1],
        target,
        source: Box::new(Table::new(Numbers::Floats(inputs), targets, 1)),
    };
    Dataset::new(base).map(Some)
}

/// Reads the next record, if there is one.
fn next(reader: &mut csv::Reader<&[u8]>, record: &mut StringRecord, path: &Path) -> Result<bool, Error> {
    reader.read_record(record).map_err(|error| {
        let line = error.position().map_or(0, Position::line);
        Error::record(path, format!("line {line}"), "it is damaged; text must be UTF-8")
    })
}

/// What the columns of a table are.
#[derive(Debug)]
struct Columns<'a> {
    path: &'a Path,
    /// Their names, if the first line has them.
    names: Option<StringRecord>,
    count: usize,
    /// The column of the target.
    target: usize,
}

/// A target as it is written, and its line.
type Answer = (String, u64);

impl Columns<'_> {
    /// The columns by the first record.
    fn of<'a>(path: &'a Path, first: &StringRecord, options: &Options) -> Result<Columns<'a>, Error> {
        let is_number = |cell: &str| cell.parse::<f64>().is_ok();
        let header = options.header.unwrap_or_else(|| !first.iter().any(is_number));
        let count = first.len();
        let target = match &options.column {
            None => count - 1,
            Some(column) if header => first.iter().position(|name| name == column).ok_or_else(|| {
                let names: Vec<&str> = first.iter().collect();
                let reason = format!("no column {column:?}; there are {}", names.join(", "));
                Error::format(path, reason)
            })?,
            Some(column) => {
                let reason = format!("a column {column:?} is asked for, but its columns have no names");
                return Err(Error::format(path, reason));
            }
        };
        if count < 2 {
            let reason = "one column; there must be one of the target and others, separated by commas";
            return Err(Error::format(path, reason));
        }
        Ok(Columns { path, names: header.then(|| first.clone()), count, target })
    }

    fn read(
        &self,
        record: &StringRecord,
        inputs: &mut Vec<f32>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Error> {
        let line = record.position().map_or(0, Position::line);
        if record.len() != self.count {
            let reason = format!("{} cells, not {} as in the first line", record.len(), self.count);
            return Err(Error::record(self.path, format!("line {line}"), reason));
        }
        for (column, cell) in record.iter().enumerate() {
            if column != self.target {
                inputs.push(self.number(cell, column, line)?);
            } else if cell.is_empty() {
                return Err(self.fault(column, line, "the target is empty; leave the record out".into()));
            } else {
                answers.push((cell.to_owned(), line));
            }
        }
        Ok(())
    }

    /// Classes if they are text or if there must be classes, else values. The first says whether
    /// they are text.
    fn targets(&self, answers: &[Answer], classes: &Classes) -> Result<(Target, Vec<f32>), Error> {
        let is_text = answers.first().is_some_and(|(answer, _)| answer.parse::<f64>().is_err());
        if is_text {
            let found = answers.iter().map(|(answer, _)| answer.clone()).collect::<BTreeSet<_>>();
            let names = classes.of_names(self.path, &found)?;
            let places: BTreeMap<&str, usize> =
                names.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
            let targets = answers.iter().map(|(answer, _)| places[answer.as_str()] as f32).collect();
            return Ok((Target::Classes(names), targets));
        }
        let numbers = answers.iter().map(|(answer, line)| self.number(answer, self.target, *line));
        let numbers = numbers.collect::<Result<Vec<f32>, Error>>()?;
        if *classes == Classes::Found {
            return Ok((Target::Values(1), numbers));
        }
        let label = |(&number, (_, line)): (&f32, &Answer)| {
            let reason = || format!("{number} is no class: classes are 0, 1, 2, …");
            whole(number.into()).ok_or_else(|| self.fault(self.target, *line, reason()))
        };
        let labels = numbers.iter().zip(answers).map(label).collect::<Result<Vec<usize>, Error>>()?;
        let record = |index: usize| self.place(self.target, answers[index].1);
        let names = classes.of_numbers(self.path, labels.into_iter(), record)?;
        Ok((Target::Classes(names), numbers))
    }

    fn number(&self, cell: &str, column: usize, line: u64) -> Result<f32, Error> {
        match cell.parse::<f32>() {
            Ok(number) if number.is_finite() => Ok(number),
            Ok(number) => {
                let reason = format!("{number}; leave the record out or fill the number in");
                Err(self.fault(column, line, reason))
            }
            Err(_) if cell.is_empty() => {
                Err(self.fault(column, line, "it is empty; leave the record out or fill a number in".into()))
            }
            Err(_) => Err(self.fault(column, line, format!("{cell:?} is no number; code it as numbers"))),
        }
    }

    fn fault(&self, column: usize, line: u64, reason: String) -> Error {
        Error::record(self.path, self.place(column, line), reason)
    }

    /// `line 3, column age`.
    fn place(&self, column: usize, line: u64) -> String {
        match self.names.as_ref().and_then(|names| names.get(column)) {
            Some(name) if !name.is_empty() => format!("line {line}, column {name}"),
            _ => format!("line {line}, column {}", column + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::data::{open, testing};

    fn opened(text: &str, options: &Options) -> Result<Dataset, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        fs::write(&path, text).unwrap();
        open(&path, options)
            .map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
    }

    #[test]
    fn headers_and_targets_are_found() {
        let named = opened("a, b, kind\n1,2,x\n3,4.5,w\n", &Options::default()).unwrap();
        assert_eq!((named.len(), named.input_shape()), (2, &[2][..]));
        assert_eq!(named.target(), &Target::Classes(vec!["w".into(), "x".into()]));
        assert_eq!(
            (testing::inputs(&named), testing::targets(&named)),
            (vec![1.0, 2.0, 3.0, 4.5], vec![1.0, 0.0])
        );
        let bare = opened("1,2,7\n\n3,4,8\n", &Options::default()).unwrap();
        assert_eq!((bare.target(), testing::targets(&bare)), (&Target::Values(1), vec![7.0, 8.0]));
        let first = Options { column: Some("a".into()), ..Options::default() };
        let first = opened("a,b\n1,2\n3,4\n", &first).unwrap();
        assert_eq!((testing::inputs(&first), testing::targets(&first)), (vec![2.0, 4.0], vec![1.0, 3.0]));
        let numbered = Options { header: Some(true), ..Options::default() };
        assert_eq!(opened("0,1\n5,6\n", &numbered).unwrap().len(), 1);
        let classes = Options { classes: Classes::Count(3), ..Options::default() };
        let classes = opened("0.5,1\n0.5,0\n", &classes).unwrap();
        assert_eq!(classes.target(), &Target::Classes(vec!["0".into(), "1".into(), "2".into()]));
    }

    #[test]
    fn faults_name_the_line_and_the_column() {
        let check = |text: &str, options: &Options, expected: &str| {
            assert_eq!(opened(text, options).unwrap_err(), expected);
        };
        let standard = Options::default();
        check(
            "a,b\n1,2\n,4\n",
            &standard,
            "t.csv, line 3, column a: it is empty; leave the record out or fill a number in",
        );
        check(
            "1,2\nNaN,4\n",
            &standard,
            "t.csv, line 2, column 1: NaN; leave the record out or fill the number in",
        );
        check(
            "1,2\n1e99,4\n",
            &standard,
            "t.csv, line 2, column 1: inf; leave the record out or fill the number in",
        );
        check("1,2\nred,4\n", &standard, "t.csv, line 2, column 1: \"red\" is no number; code it as numbers");
        check("1,2\n1,\n", &standard, "t.csv, line 2, column 2: the target is empty; leave the record out");
        check("1,2\n1,x\n", &standard, "t.csv, line 2, column 2: \"x\" is no number; code it as numbers");
        check("1,2\n1,2,3\n", &standard, "t.csv, line 2: 3 cells, not 2 as in the first line");
        check(
            "1\n2\n",
            &standard,
            "t.csv: one column; there must be one of the target and others, separated by commas",
        );
        check("", &standard, "t.csv: it is empty");
        check("a,b\n", &standard, "t.csv: it has no examples");
        let named = Options { column: Some("c".into()), ..Options::default() };
        check("a,b\n1,2\n", &named, "t.csv: no column \"c\"; there are a, b");
        check("1,2\n1,2\n", &named, "t.csv: a column \"c\" is asked for, but its columns have no names");
        let two = Options { classes: Classes::Count(2), ..Options::default() };
        check("1,0\n1,2\n", &two, "t.csv, line 2, column 2: label 2 with 2 classes, which count from 0");
        check("1,0\n1,0.5\n", &two, "t.csv, line 2, column 2: 0.5 is no class: classes are 0, 1, 2, …");
        let part = Options { part: crate::data::Part::Test, ..Options::default() };
        check("1,0\n", &part, "t.csv has no test part; split the other part, or give the path of one");
    }

    #[test]
    fn no_damage_is_fatal() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("a.csv", "a,b,c\n1,2,x\n3,\"4\",\"é\"\n"), ("b.csv", "1.5,-2e3\n3,4\n")] {
            let file = folder.path().join(name);
            fs::write(&file, text).unwrap();
            testing::damage(&file, &file, &Options::default(), false);
        }
    }
}

//! What the tests of problems share.

use std::io::Write;
use std::path::PathBuf;

use super::{Setup, TestProblem, problem};
use crate::{Error, Literal, Measurement, Metric, Options, Outcome};

/// Options from pairs.
pub(super) fn options(pairs: &[(&str, Literal)]) -> Options {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// A problem from a file of this text and further options.
pub(super) fn build(
    name: &str,
    text: impl AsRef<[u8]>,
    given: &[(&str, Literal)],
    metrics: &[Metric],
) -> Result<TestProblem, Error> {
    let mut options = options(given);
    options.insert("path".into(), "t.csv".into());
    let read = |_: &str| Ok(text.as_ref().to_vec());
    problem(name)?.build(&Setup { options: &options, metrics, read: &read, ..Setup::default() })
}

/// The measurement of an outcome that is one.
pub(super) fn measured(outcome: Outcome) -> Measurement {
    match outcome {
        Outcome::Measured(measurement) => measurement,
        other => panic!("measured nothing: {other:?}"),
    }
}

/// The folder of reference data, or `None` after a line that says so. Written to the stream itself,
/// because what a passing test prints is kept from view.
pub(crate) fn data_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("PLEACH_DATA");
    if folder.is_none() {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let _ =
            writeln!(std::io::stderr(), "SKIPPED {test}: set PLEACH_DATA to the folder of reference data");
    }
    folder.map(PathBuf::from)
}

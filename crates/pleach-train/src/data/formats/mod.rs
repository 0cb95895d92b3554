//! The formats of data, and how one is recognised.

mod cifar;
mod csv;
mod digits;
mod folder;
mod idx;
mod npy;
mod pictures;
mod text;
mod zip;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Classes, Dataset, Error};

/// The formats there are, in the order in which they are tried.
pub const FORMATS: &[Format] = &[
    digits::FORMAT,
    idx::FORMAT,
    cifar::FORMAT,
    npy::FORMAT,
    csv::FORMAT,
    text::FORMAT,
    zip::FORMAT,
    folder::FORMAT,
];

/// A format of data.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Its name.
    pub name: &'static str,
    /// What it looks like to a user: files and their names.
    pub looks_like: &'static str,
    /// Opens the data, or finds that it is of another format.
    open: fn(&Path, &Options) -> Result<Option<Dataset>, Error>,
}

/// How data is opened. Each format reads the fields that concern it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Options {
    /// The part of a folder or archive that has several. What has one part has it for training.
    pub part: Part,
    /// The classes that must be there.
    pub classes: Classes,
    /// IDX and npy: the file with the targets, if it does not lie beside the inputs by its usual name.
    pub targets: Option<PathBuf>,
    /// CSV: the column of the target; the last one by default.
    pub column: Option<String>,
    /// CSV: whether the first line has the names of the columns. By default it does if no cell of it
    /// is a number.
    pub header: Option<bool>,
    /// Image files: height and width to which all are scaled and cut around their centre. By default
    /// all must have one size.
    pub size: Option<[usize; 2]>,
    /// Image files: 1 for grey, 3 for colour. By default as in the first image.
    pub channels: Option<usize>,
    /// Text: how many symbols an example has.
    pub length: usize,
    /// Text: from the start of an example to that of the next; `length` by default.
    pub stride: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            part: Part::default(),
            classes: Classes::default(),
            targets: None,
            column: None,
            header: None,
            size: None,
            channels: None,
            length: 128,
            stride: None,
        }
    }
}

/// A part of a data set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// To learn from.
    #[default]
    Train,
    /// To judge by.
    Test,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Train => "training",
            Part::Test => "test",
        })
    }
}

/// Opens the data at a path, which is a file or a folder of one of the [`FORMATS`], or the name
/// `digits`.
///
/// # Errors
/// [`Error::Read`] if there is nothing there or it cannot be read, [`Error::Unrecognized`] if it is of
/// no known format, [`Error::NoPart`] if it lacks the part that is asked for, [`Error::Format`] and
/// [`Error::Record`] if it is damaged. Images are decoded when they are read, so a damaged one is
/// found only then.
pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Dataset, Error> {
    let path = path.as_ref();
    for format in FORMATS {
        if let Some(dataset) = (format.open)(path, options)? {
            return Ok(dataset);
        }
    }
    std::fs::metadata(path).map_err(Error::read(path))?;
    let looked_for: Vec<String> =
        FORMATS.iter().map(|format| format!("{} ({})", format.name, format.looks_like)).collect();
    Err(Error::Unrecognized { path: path.to_owned(), looked_for: looked_for.join("; ") })
}

/// What a single file has is for training.
fn only_for_training(path: &Path, part: Part) -> Result<(), Error> {
    match part {
        Part::Train => Ok(()),
        Part::Test => Err(Error::NoPart { path: path.to_owned(), part }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_data_is_an_error_that_says_what_was_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let error = open(folder.path(), &Options::default()).unwrap_err().to_string();
        for format in FORMATS {
            assert!(error.contains(format.name) && error.contains(format.looks_like), "{error}");
        }
        let file = folder.path().join("notes.doc");
        std::fs::write(&file, "nothing").unwrap();
        assert!(matches!(open(&file, &Options::default()), Err(Error::Unrecognized { .. })));
        let missing = open(folder.path().join("missing.csv"), &Options::default());
        assert!(matches!(missing, Err(Error::Read { .. })), "{missing:?}");
        let missing = open("/no/such/place", &Options::default());
        assert!(matches!(missing, Err(Error::Read { .. })), "{missing:?}");
    }
}

//! The one error type of the binary: what is said once on stderr, and the exit code that goes with it.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

use crate::source::Source;

/// How the program ends; the numbers are part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The task is done.
    Done = 0,
    /// The task failed.
    Failed = 1,
    /// The command line or a file of the user's is wrong.
    Usage = 2,
    /// No trial succeeded.
    NoSuccess = 3,
    /// A limit stopped the run, and `--strict` was given.
    Limit = 4,
    /// The user interrupted it.
    Interrupted = 130,
}

/// Why a verb did not do its task.
#[derive(Debug)]
pub(crate) struct Fault {
    exit: Exit,
    message: String,
    help: Option<String>,
    place: Option<Box<Place>>,
    /// The reader of stdout went away; there is nobody to tell.
    quiet: bool,
}

/// A place in a file of the user's.
#[derive(Debug)]
struct Place {
    source: NamedSource<String>,
    span: Range<usize>,
    label: String,
}

impl Fault {
    /// The task failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into(), help: None, place: None, quiet: false }
    }

    /// The user asked for something that cannot be meant.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::failed(message) }
    }

    /// A file cannot be read or written.
    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::failed(format!("cannot {doing} {}: {error}", path.display()))
    }

    /// The same with a line that says what to do.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same with a place in a file of the user's.
    pub(crate) fn at(mut self, source: &Source, span: Range<usize>, label: impl Into<String>) -> Self {
        let named = NamedSource::new(source.name(), source.text().to_owned());
        self.place = Some(Box::new(Place { source: named, span, label: label.into() }));
        self
    }

    /// The message and the way out, in one line.
    pub(crate) fn sentence(&self) -> String {
        match &self.help {
            Some(help) => format!("{}; {help}", self.message),
            None => self.message.clone(),
        }
    }

    /// The exit code that goes with it.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether nothing is to be said.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl Diagnostic for Fault {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place.as_ref().map(|place| &place.source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.place.as_ref()?;
        let label = Some(place.label.clone()).filter(|label| !label.is_empty());
        let span = LabeledSpan::new_primary_with_span(label, place.span.clone());
        Some(Box::new(std::iter::once(span)))
    }
}

/// Errors of writing to stdout; every other file names itself through [`Fault::file`].
impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        let quiet = error.kind() == io::ErrorKind::BrokenPipe;
        let exit = if quiet { Exit::Done } else { Exit::Failed };
        Self { exit, quiet, ..Self::failed(format!("cannot write to the standard output: {error}")) }
    }
}

impl From<pleach_study::Error> for Fault {
    fn from(error: pleach_study::Error) -> Self {
        use pleach_study::Error;
        let chain = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let message = chain.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        match error {
            Error::NoFile { .. } => {
                Self::usage(message).help("`pleach run FILE.toml` makes it; --storage names another")
            }
            Error::NoStudy { .. } | Error::ManyStudies { .. } => {
                Self::usage(message).help("--study picks one of them")
            }
            Error::SpecDiffers { .. } => Self::usage(message)
                .help("`pleach study edit-space FILE.toml` gives a stored study a wider space"),
            Error::NoTrial { .. } => Self::usage(message).help("`pleach ls` lists the trials"),
            Error::Search(_) | Error::Unusable { .. } => Self::usage(message),
            _ => Self::failed(message),
        }
    }
}

impl From<pleach_search::Error> for Fault {
    fn from(error: pleach_search::Error) -> Self {
        Self::failed(error.to_string())
    }
}

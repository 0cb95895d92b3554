//! What a problem is built from, with typed access to its options.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use crate::{Error, Goal, Literal, Metric, Options, Seed, Space};

/// What a problem is built from.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The options, by name.
    pub options: &'a Options,
    /// The metrics to report, out of those on offer; empty for the problem's own objective.
    pub metrics: &'a [Metric],
    /// The space of a table's points; without it, the options found in the table.
    pub space: Option<&'a Space>,
    /// Reads the file that an option names.
    pub read: &'a dyn Fn(&str) -> io::Result<Vec<u8>>,
}

impl Default for Setup<'_> {
    /// No options, the problem's own objective, and no files.
    fn default() -> Self {
        static NO_OPTIONS: Options = BTreeMap::new();
        let read = &|_: &str| Err(io::Error::new(io::ErrorKind::Unsupported, "files are not read here"));
        Self { options: &NO_OPTIONS, metrics: &[], space: None, read }
    }
}

impl fmt::Debug for Setup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("options", &self.options)
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}

/// A setup for one registered problem, with typed access to its options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    /// The registered name, for errors.
    pub(super) problem: &'static str,
    pub(super) setup: &'a Setup<'a>,
}

impl<'a> Request<'a> {
    /// The error of an option.
    pub(super) fn bad(&self, option: &str, message: impl Into<String>) -> Error {
        Error::Option { method: self.problem.into(), option: option.into(), message: message.into() }
    }

    fn get<T>(
        &self,
        option: &str,
        default: Option<T>,
        wanted: &str,
        read: impl Fn(&Literal) -> Option<T>,
    ) -> Result<T, Error> {
        match self.setup.options.get(option) {
            Some(literal) => {
                read(literal).ok_or_else(|| self.bad(option, format!("expected {wanted}, got {literal}")))
            }
            None => default.ok_or_else(|| self.bad(option, format!("missing; give {wanted}"))),
        }
    }

    /// A whole number in `range`.
    pub(super) fn int(
        &self,
        option: &str,
        default: i64,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<i64, Error> {
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        self.get(option, Some(default), &wanted, |literal| match literal {
            Literal::Int(k) if range.contains(k) => Some(*k),
            _ => None,
        })
    }

    /// A finite number from 0 on.
    pub(super) fn size(&self, option: &str, default: f64) -> Result<f64, Error> {
        self.get(option, Some(default), "a finite number from 0 on", |literal| {
            literal.as_f64().filter(|x| x.is_finite() && *x >= 0.0)
        })
    }

    /// True or false.
    pub(super) fn flag(&self, option: &str, default: bool) -> Result<bool, Error> {
        self.get(option, Some(default), "true or false", |literal| match literal {
            Literal::Bool(b) => Some(*b),
            _ => None,
        })
    }

    /// A text, or `None` if the option is not given.
    pub(super) fn text(&self, option: &str) -> Result<Option<&'a str>, Error> {
        match self.setup.options.get(option) {
            None => Ok(None),
            Some(Literal::Text(text)) => Ok(Some(text)),
            Some(other) => Err(self.bad(option, format!("expected a text, got {other}"))),
        }
    }

    /// The option `seed`: what random shifts, rotations and noise come from; 0 unless given.
    pub(super) fn seed(&self) -> Result<Seed, Error> {
        Ok(Seed::new(self.int("seed", 0, 0..=i64::MAX)?.unsigned_abs()))
    }

    /// Fails if the setup brings a space although the problem has its own.
    pub(super) fn own_space(&self) -> Result<(), Error> {
        let message = format!("the problem {} has its own; leave the space out", self.problem);
        if self.setup.space.is_none() {
            Ok(())
        } else {
            Err(Error::Parameter { parameter: "space".into(), message })
        }
    }

    /// The metrics to report and the index of each in `offered`; the first of them if the setup names none.
    pub(super) fn pick_metrics(
        &self,
        offered: &[(&str, Goal, &str)],
    ) -> Result<(Vec<Metric>, Vec<usize>), Error> {
        if self.setup.metrics.is_empty() {
            let (name, goal, _) = offered[0];
            return Ok((vec![Metric::objective(name, goal)], vec![0]));
        }
        let indices: Result<Vec<usize>, Error> = self
            .setup
            .metrics
            .iter()
            .map(|metric| {
                offered.iter().position(|(name, ..)| *name == metric.name).ok_or_else(|| {
                    let known: Vec<&str> = offered.iter().map(|(name, ..)| *name).collect();
                    let message = format!(
                        "{} has no metric {}; it has {}",
                        self.problem,
                        metric.name,
                        known.join(", ")
                    );
                    Error::Metrics { message }
                })
            })
            .collect();
        Ok((self.setup.metrics.to_vec(), indices?))
    }
}

//! Typed access to the options of a method.

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::Options;
use crate::{Error, Literal};

/// The options given to the method of that name.
#[derive(Debug)]
pub(super) struct Given<'a> {
    pub(super) method: &'static str,
    pub(super) options: &'a Options,
}

impl Given<'_> {
    /// A number within `range`; `None` if it is not given.
    pub(super) fn number(&self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, Error> {
        let Some(given) = self.options.get(name) else { return Ok(None) };
        match given.as_f64() {
            Some(x) if range.contains(&x) => Ok(Some(x)),
            _ => self.error(name, given, format_args!("a number from {} to {}", range.start(), range.end())),
        }
    }

    /// A whole number within `range`; `None` if it is not given.
    pub(super) fn count(&self, name: &str, range: RangeInclusive<u32>) -> Result<Option<usize>, Error> {
        let Some(given) = self.options.get(name) else { return Ok(None) };
        match given {
            Literal::Int(k) if u32::try_from(*k).is_ok_and(|k| range.contains(&k)) => {
                Ok(Some(usize::try_from(*k).expect("it is within a range of u32")))
            }
            _ => self.error(
                name,
                given,
                format_args!("a whole number from {} to {}", range.start(), range.end()),
            ),
        }
    }

    /// True or false; `default` if it is not given.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        match self.options.get(name) {
            None => Ok(default),
            Some(Literal::Bool(b)) => Ok(*b),
            Some(given) => self.error(name, given, "true or false"),
        }
    }

    /// The index of one of several words; 0 if it is not given.
    pub(super) fn word(&self, name: &str, words: &[&str]) -> Result<usize, Error> {
        let Some(given) = self.options.get(name) else { return Ok(0) };
        match words.iter().position(|word| matches!(given, Literal::Text(text) if text == word)) {
            Some(index) => Ok(index),
            None => self.error(name, given, words.join(" or ")),
        }
    }

    fn error<T>(&self, name: &str, given: &Literal, expected: impl Display) -> Result<T, Error> {
        Err(Error::Option {
            method: self.method.into(),
            option: name.into(),
            message: format!("expected {expected}, got {given}"),
        })
    }
}

//! Which classes there are.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Error;

/// The classes that a data set must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Classes {
    /// Those that are found: sorted names, or all numbers from 0 to the largest.
    #[default]
    Found,
    /// This many. In a table of numbers it says that the targets are classes.
    Count(usize),
    /// These, in this order: those of a data set that was opened before. Others are an error.
    /// For text they are the symbols.
    Named(Vec<String>),
}

/// Whole numbers below this are exact in `f32`.
pub(crate) const MAX_CLASSES: usize = 1 << 24;

impl Classes {
    /// The names for labels that are numbers; `record` names the one at an index.
    ///
    /// # Errors
    /// A label is not below the number of classes, or a class that must exist has no example.
    pub(crate) fn of_numbers(
        &self,
        path: &Path,
        labels: impl Iterator<Item = usize>,
        record: impl Fn(usize) -> String,
    ) -> Result<Vec<String>, Error> {
        let count = match self {
            Classes::Count(count) => Some(*count),
            Classes::Named(names) => Some(names.len()),
            Classes::Found => None,
        };
        let mut found = BTreeSet::new();
        for (index, label) in labels.enumerate() {
            if count.is_some_and(|count| label >= count) {
                let count = count.unwrap_or_default();
                let reason = format!("label {label} with {count} classes, which count from 0");
                return Err(Error::record(path, record(index), reason));
            }
            found.insert(label);
        }
        match self {
            Classes::Named(names) => Ok(names.clone()),
            Classes::Count(count) => numbered(path, *count),
            Classes::Found => {
                // Sorted and distinct, so the first that is not at its own place follows a gap.
                if let Some((gap, _)) = found.iter().enumerate().find(|&(place, &label)| place != label) {
                    let largest = found.last().copied().unwrap_or_default();
                    let reason = format!(
                        "no example has label {gap}, but one has {largest}; classes count from 0 without gaps, or give their number"
                    );
                    return Err(Error::format(path, reason));
                }
                numbered(path, found.len())
            }
        }
    }

    /// The names in their order, for labels that are names.
    ///
    /// # Errors
    /// There are others than the given ones, or not the given number.
    pub(crate) fn of_names(&self, path: &Path, found: &BTreeSet<String>) -> Result<Vec<String>, Error> {
        match self {
            Classes::Found => Ok(found.iter().cloned().collect()),
            Classes::Count(count) if *count == found.len() => Ok(found.iter().cloned().collect()),
            Classes::Count(count) => {
                let reason = format!("{} classes ({}), not {count}", found.len(), list(found));
                Err(Error::format(path, reason))
            }
            Classes::Named(names) => match found.iter().find(|name| !names.contains(name)) {
                None => Ok(names.clone()),
                Some(name) => {
                    let reason = format!("unknown class {name:?}; the classes are {}", list(names));
                    Err(Error::format(path, reason))
                }
            },
        }
    }
}

/// A number as a class, if it can be one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
pub(crate) fn whole(number: f64) -> Option<usize> {
    (number >= 0.0 && number < MAX_CLASSES as f64 && number.fract() == 0.0).then_some(number as usize)
}

fn numbered(path: &Path, count: usize) -> Result<Vec<String>, Error> {
    if count > MAX_CLASSES {
        return Err(Error::format(path, format!("{count} classes; there can be {MAX_CLASSES}")));
    }
    Ok((0..count).map(|class| class.to_string()).collect())
}

/// The first names, for a message.
fn list<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    const MOST: usize = 12;
    let mut names = names.into_iter();
    let mut list: Vec<&str> = names.by_ref().take(MOST).map(String::as_str).collect();
    if names.next().is_some() {
        list.push("…");
    }
    list.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(classes: &Classes, labels: &[usize]) -> Result<usize, String> {
        classes
            .of_numbers(Path::new("y"), labels.iter().copied(), |i| format!("example {i}"))
            .map(|names| names.len())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_are_checked() {
        assert_eq!(numbers(&Classes::Found, &[2, 0, 1, 1]), Ok(3));
        assert_eq!(numbers(&Classes::Count(5), &[2, 0]), Ok(5));
        let gap = numbers(&Classes::Found, &[1, 2]).unwrap_err();
        assert!(gap.contains("no example has label 0"), "{gap}");
        let large = numbers(&Classes::Count(2), &[1, 2]).unwrap_err();
        assert_eq!(large, "y, example 1: label 2 with 2 classes, which count from 0");
        assert!(numbers(&Classes::Count(usize::MAX), &[1]).is_err());
    }

    #[test]
    fn names_are_checked() {
        let found: BTreeSet<String> = ["cat".into(), "ant".into()].into();
        let names = |classes: &Classes| classes.of_names(Path::new("x"), &found);
        assert_eq!(names(&Classes::Found).unwrap(), ["ant", "cat"]);
        assert!(names(&Classes::Count(3)).is_err());
        let order = Classes::Named(vec!["cat".into(), "dog".into(), "ant".into()]);
        assert_eq!(names(&order).unwrap(), ["cat", "dog", "ant"]);
        assert!(names(&Classes::Named(vec!["cat".into()])).is_err());
    }
}

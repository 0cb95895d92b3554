//! A TOML file of the user's, and where things stand in it.

use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::fault::Fault;

/// The text of a file and the name it is shown by.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    name: String,
    text: String,
}

impl Source {
    /// A text that was read from `name`.
    pub(crate) fn new(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.to_owned() }
    }

    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, Fault> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Self::new(&path.display().to_string(), &text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Fault::usage(format!("there is no file {}", path.display()))
                    .help("`pleach init` writes an experiment file to start from"))
            }
            Err(error) => Err(Fault::file("read", path, &error)),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Where the value at `path` stands; a step into an array is its index.
    pub(crate) fn value(&self, path: &[&str]) -> Option<Range<usize>> {
        let root = DeTable::parse(&self.text).ok()?;
        let (first, rest) = path.split_first()?;
        let mut value = root.get_ref().get(*first)?;
        for step in rest {
            value = match value.get_ref() {
                DeValue::Table(table) => table.get(*step)?,
                DeValue::Array(items) => items.get(step.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(value.span())
    }

    /// Where the key at the end of `path` stands.
    pub(crate) fn key(&self, path: &[&str]) -> Option<Range<usize>> {
        let root = DeTable::parse(&self.text).ok()?;
        let (last, parents) = path.split_last()?;
        let mut table = root.get_ref();
        for step in parents {
            table = match table.get(*step)?.get_ref() {
                DeValue::Table(table) => table,
                _ => return None,
            };
        }
        table.keys().find(|key| key.get_ref() == last).map(toml::Spanned::span)
    }

    /// The part of the text value at `path` that starts at its `column`-th character (from 1) and
    /// goes to the end of the word there; the whole value if it is written with escapes.
    pub(crate) fn inside(&self, path: &[&str], content: &str, column: usize) -> Option<Range<usize>> {
        let whole = self.value(path)?;
        let written = &self.text[whole.clone()];
        let Some(offset) = written.find(content) else { return Some(whole) };
        let at = content.char_indices().nth(column.saturating_sub(1)).map_or(content.len(), |(byte, _)| byte);
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let rest = &content[at..];
        let length = match rest.chars().next() {
            Some(first) if word(first) => rest.find(|c| !word(c)).unwrap_or(rest.len()),
            Some(quote @ ('\'' | '"')) => rest[1..].find(quote).map_or(rest.len(), |end| end + 2),
            Some(first) => first.len_utf8(),
            None => 0,
        };
        let start = whole.start + offset + at;
        Some(start..start + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(range: Option<Range<usize>>, source: &Source, expected: &str) {
        let range = range.expect("the path exists");
        assert_eq!(&source.text()[range], expected);
    }

    #[test]
    fn paths_lead_to_values_keys_and_words() {
        let text =
            "a = 1\n[space]\nx = { when = \"opt == 'é' and zz\" }\n[constraints]\nknown = [\"a\", 'b < 2']\n";
        let source = Source::new("t.toml", text);
        check(source.value(&["a"]), &source, "1");
        check(source.value(&["constraints", "known", "1"]), &source, "'b < 2'");
        check(source.key(&["space", "x"]), &source, "x");
        check(source.inside(&["space", "x", "when"], "opt == 'é' and zz", 16), &source, "zz");
        assert_eq!(source.value(&["space", "y"]), None);
    }
}

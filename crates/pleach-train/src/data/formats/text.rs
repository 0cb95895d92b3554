//! Text as a sequence of characters, each to be foretold from those before it.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Format, Options, only_for_training};
use crate::data::dataset::{Base, Source, Target};
use crate::data::{Classes, Dataset, Error, files};

pub(super) const FORMAT: Format =
    Format { name: "text", looks_like: "a .txt or .txt.gz of UTF-8, whose characters are the symbols", open };

/// An example is a window of `length` characters, its target the window that starts one later.
fn open(path: &Path, options: &Options) -> Result<Option<Dataset>, Error> {
    if path.is_dir() || !files::is_named(path, &[".txt", ".txt.gz"]) {
        return Ok(None);
    }
    only_for_training(path, options.part)?;
    let (length, stride) = (options.length, options.stride.unwrap_or(options.length));
    for (option, value) in [("length", length), ("stride", stride)] {
        if value == 0 {
            return Err(Error::Option { option, reason: "it must be at least 1".into() });
        }
    }
    let bytes = files::bytes(path)?;
    let text = str::from_utf8(&bytes).map_err(|error| {
        Error::record(path, format!("byte {}", error.valid_up_to()), "it is no UTF-8; convert it")
    })?;
    let symbols = symbols(path, text, &options.classes)?;
    // Looked up by binary search, whatever their order.
    let mut places: Vec<(char, u32)> = symbols.iter().copied().zip(0..).collect();
    places.sort_unstable();
    let mut tokens = Vec::with_capacity(text.len());
    for (at, symbol) in text.char_indices() {
        let Ok(place) = places.binary_search_by_key(&symbol, |&(symbol, _)| symbol) else {
            let line = 1 + text[..at].matches('\n').count();
            let reason = format!("{symbol:?} is none of the {} symbols", symbols.len());
            return Err(Error::record(path, format!("line {line}"), reason));
        };
        tokens.push(places[place].1);
    }
    if tokens.len() <= length {
        let what = "one window of text and the character after it";
        let wanted = length.saturating_add(1);
        return Err(Error::TooFew { path: path.to_owned(), examples: tokens.len(), wanted, what });
    }
    let base = Base {
        format: FORMAT.name,
        path: path.to_owned(),
        input: vec![length],
        target: Target::Tokens(symbols.into_iter().map(String::from).collect()),
        source: Box::new(Text { tokens, length, stride }),
    };
    Dataset::new(base).map(Some)
}

/// The characters there are, sorted, or those that are given.
fn symbols(path: &Path, text: &str, classes: &Classes) -> Result<Vec<char>, Error> {
    let found = || text.chars().collect::<BTreeSet<char>>().into_iter().collect::<Vec<char>>();
    match classes {
        Classes::Found => Ok(found()),
        Classes::Count(count) => {
            let found = found();
            if found.len() == *count {
                return Ok(found);
            }
            Err(Error::format(path, format!("it has {} symbols, not {count}", found.len())))
        }
        Classes::Named(names) => {
            let symbol = |name: &String| {
                let mut chars = name.chars();
                chars.next().filter(|_| chars.as_str().is_empty()).ok_or_else(|| Error::Option {
                    option: "classes",
                    reason: format!("{name:?} is no single character"),
                })
            };
            names.iter().map(symbol).collect()
        }
    }
}

#[derive(Debug)]
struct Text {
    /// One a character, longer than a window.
    tokens: Vec<u32>,
    length: usize,
    stride: usize,
}

impl Source for Text {
    fn len(&self) -> usize {
        (self.tokens.len() - self.length - 1) / self.stride + 1
    }

    fn read(&self, index: usize, input: &mut [f32], target: &mut [f32]) -> Result<(), Error> {
        let window = &self.tokens[index * self.stride..][..=self.length];
        for (at, pair) in window.windows(2).enumerate() {
            (input[at], target[at]) = (pair[0] as f32, pair[1] as f32);
        }
        Ok(())
    }

    fn overlap(&self) -> usize {
        (self.length - 1) / self.stride
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::data::{open, testing};

    fn opened(text: impl AsRef<[u8]>, options: &Options) -> Result<Dataset, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.txt");
        fs::write(&path, text).unwrap();
        open(&path, options)
    }

    #[test]
    fn the_target_is_the_window_one_later() {
        let text = opened("abcäabc", &Options { length: 3, ..Options::default() }).unwrap();
        assert_eq!(text.target(), &Target::Tokens(["a", "b", "c", "ä"].map(String::from).into()));
        assert_eq!((text.len(), text.input_shape(), text.target_len()), (2, &[3][..], 3));
        assert_eq!(testing::inputs(&text), [0.0, 1.0, 2.0, 3.0, 0.0, 1.0]);
        assert_eq!(testing::targets(&text), [1.0, 2.0, 3.0, 0.0, 1.0, 2.0]);
        for (stride, count) in [(1, 4), (2, 2), (3, 2), (4, 1), (100, 1)] {
            let options = Options { length: 3, stride: Some(stride), ..Options::default() };
            assert_eq!(opened("abcdefg", &options).unwrap().len(), count, "{stride}");
        }
    }

    #[test]
    fn symbols_of_another_text_can_be_given() {
        let named = |names: &[&str]| Options {
            classes: Classes::Named(names.iter().map(ToString::to_string).collect()),
            length: 1,
            ..Options::default()
        };
        let text = opened("ab", &named(&["c", "b", "a"])).unwrap();
        assert_eq!((testing::inputs(&text), testing::targets(&text)), (vec![2.0], vec![1.0]));
        let error = opened("a\nb", &named(&["a", "\n"])).unwrap_err().to_string();
        assert!(error.ends_with("t.txt, line 2: 'b' is none of the 2 symbols"), "{error}");
        assert!(matches!(opened("a\nb", &named(&["aa"])), Err(Error::Option { .. })));
    }

    #[test]
    fn faults_are_named() {
        let check = |text: &[u8], length, expected: &str| {
            let error = opened(text, &Options { length, ..Options::default() }).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(b"ab\xffc", 1, "t.txt, byte 2: it is no UTF-8; convert it");
        check(b"abc", 3, "t.txt has 3 examples, and 4 are needed");
        check(b"", 1, "t.txt has 0 examples, and 2 are needed");
        check(b"abc", usize::MAX, "are needed");
        check(b"abc", 0, "length: it must be at least 1");
    }

    #[test]
    fn no_damage_is_fatal() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { length: 2, ..Options::default() };
        for (name, bytes, cut_is_error) in
            [("a.txt", "größer".into(), false), ("b.txt.gz", testing::gzip(b"abcabcabc"), true)]
        {
            let file = folder.path().join(name);
            fs::write(&file, bytes).unwrap();
            testing::damage(&file, &file, &options, cut_is_error);
        }
    }

    #[test]
    fn tinyshakespeare_has_65_symbols() {
        let Some(data) = testing::real_data("text") else { return };
        let text = open(data.join("tinyshakespeare.txt.gz"), &Options::default()).unwrap();
        let Target::Tokens(symbols) = text.target() else { panic!("{text}") };
        assert_eq!((symbols.len(), text.len()), (65, (1_115_394 - 1) / 128));
    }
}

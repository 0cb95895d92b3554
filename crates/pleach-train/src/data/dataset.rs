//! A collection of examples.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Error;
use super::draw::{Draw, Purpose};

/// Examples: what a network gets and what it should answer, as `f32`.
///
/// Cheap to clone; nothing of it changes. Small formats lie in memory, images are decoded when they
/// are read.
#[derive(Clone, Debug)]
pub struct Dataset {
    base: Arc<Base>,
    /// The examples of the base that belong to this part, all if there is none.
    chosen: Option<Arc<[usize]>>,
}

/// What is known of all examples.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) format: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) input: Vec<usize>,
    pub(crate) target: Target,
    pub(crate) source: Box<dyn Source>,
}

/// Where examples are read from.
pub(crate) trait Source: fmt::Debug + Send + Sync {
    fn len(&self) -> usize;

    /// Writes all floats of the input and of the target of the example `index`.
    fn read(&self, index: usize, input: &mut [f32], target: &mut [f32]) -> Result<(), Error>;

    /// How many neighbours on one side an example shares answers with.
    fn overlap(&self) -> usize {
        0
    }
}

/// What the answer to an example is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// One of these classes, as its index.
    Classes(Vec<String>),
    /// This many numbers.
    Values(usize),
    /// For each position of a sequence the index of the next of these symbols.
    Tokens(Vec<String>),
}

impl Dataset {
    /// # Errors
    /// [`Error::Format`] if there are no examples or if they have no elements.
    pub(crate) fn new(base: Base) -> Result<Dataset, Error> {
        if base.source.len() == 0 {
            return Err(Error::format(&base.path, "it has no examples"));
        }
        if base.input.contains(&0) {
            return Err(Error::format(&base.path, format!("its examples are empty: {}", Sizes(&base.input))));
        }
        Ok(Dataset { base: Arc::new(base), chosen: None })
    }

    /// The file or folder.
    pub fn path(&self) -> &Path {
        &self.base.path
    }

    /// The name of its format, one of [`FORMATS`](super::FORMATS).
    pub fn format(&self) -> &'static str {
        self.base.format
    }

    /// The number of examples, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "there is no data set without examples")]
    pub fn len(&self) -> usize {
        self.chosen.as_ref().map_or_else(|| self.base.source.len(), |chosen| chosen.len())
    }

    /// The sizes of one input: `[height, width, channels]`, `[features]` or `[length]`.
    pub fn input_shape(&self) -> &[usize] {
        &self.base.input
    }

    /// The number of floats of one input.
    pub fn input_len(&self) -> usize {
        self.base.input.iter().product()
    }

    /// What the answers are.
    pub fn target(&self) -> &Target {
        &self.base.target
    }

    /// The number of floats of one target: 1 for a class, one a position for tokens.
    pub fn target_len(&self) -> usize {
        match &self.base.target {
            Target::Classes(_) => 1,
            Target::Values(width) => *width,
            Target::Tokens(_) => self.input_len(),
        }
    }

    /// Reads the example `index`: pixels as shares of the brightest, classes and tokens as whole
    /// numbers.
    ///
    /// # Errors
    /// The file cannot be read, or the record is damaged.
    ///
    /// # Panics
    /// If there is no such example, or if the lengths are not [`input_len`](Dataset::input_len) and
    /// [`target_len`](Dataset::target_len).
    pub fn read(&self, index: usize, input: &mut [f32], target: &mut [f32]) -> Result<(), Error> {
        assert!(index < self.len(), "example {index} of {}", self.len());
        assert_eq!((input.len(), target.len()), (self.input_len(), self.target_len()));
        let index = self.chosen.as_ref().map_or(index, |chosen| chosen[index]);
        self.base.source.read(index, input, target)
    }

    /// Two parts without a common example: all but `held_out` of them, and those.
    ///
    /// Which ones is a function of `seed`, and each part is in the order of the whole. Text is
    /// different: its end is held out, whatever the seed, and windows that share answers with it are left
    /// out.
    ///
    /// # Errors
    /// [`Error::TooFew`] if one of the parts would be empty.
    pub fn split(&self, held_out: usize, seed: u64) -> Result<(Dataset, Dataset), Error> {
        let gap = self.base.source.overlap();
        let wanted = held_out.max(1).saturating_add(gap).saturating_add(1);
        if wanted > self.len() || held_out == 0 {
            let what = "holding some out and learning from others";
            return Err(Error::TooFew { path: self.path().to_owned(), examples: self.len(), wanted, what });
        }
        let mut places: Vec<usize> = (0..self.len()).collect();
        if !matches!(self.target(), Target::Tokens(_)) {
            Draw::new(Purpose::Split, [seed]).shuffle(&mut places);
        }
        let mut tail = places.split_off(places.len() - held_out);
        places.truncate(places.len() - gap);
        places.sort_unstable();
        tail.sort_unstable();
        Ok((self.choose(&places), self.choose(&tail)))
    }

    /// Whether nobody else has it.
    #[cfg(test)]
    pub(crate) fn is_only_one(&self) -> bool {
        Arc::strong_count(&self.base) == 1
    }

    fn choose(&self, places: &[usize]) -> Dataset {
        let index = |&place: &usize| self.chosen.as_ref().map_or(place, |chosen| chosen[place]);
        Dataset { base: Arc::clone(&self.base), chosen: Some(places.iter().map(index).collect()) }
    }
}

/// `digits: 1797 examples of 8×8×1, 10 classes`.
impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = &self.base;
        write!(f, "{}: {} examples of {}, ", base.path.display(), self.len(), Sizes(&base.input))?;
        match &base.target {
            Target::Classes(names) => count(f, names.len(), "class", "es"),
            Target::Values(width) => count(f, *width, "value", "s"),
            Target::Tokens(symbols) => count(f, symbols.len(), "symbol", "s"),
        }
    }
}

fn count(f: &mut fmt::Formatter<'_>, count: usize, what: &str, plural: &str) -> fmt::Result {
    write!(f, "{count} {what}{}", if count == 1 { "" } else { plural })
}

/// Prints as `8×8×1`.
pub(crate) struct Sizes<'a>(pub(crate) &'a [usize]);

impl fmt::Display for Sizes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (axis, size) in self.0.iter().enumerate() {
            write!(f, "{}{size}", if axis > 0 { "×" } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the results are exact")]
mod tests {
    use super::*;
    use crate::data::{Options, open, testing};

    #[test]
    fn a_split_shares_nothing_and_depends_on_the_seed() {
        let all = testing::numbers(100);
        let held = |seed| {
            let (train, test) = all.split(30, seed).unwrap();
            assert_eq!((train.len(), test.len()), (70, 30));
            let (train, test) = (testing::inputs(&train), testing::inputs(&test));
            assert!(train.is_sorted() && test.is_sorted());
            let mut both = [train, test.clone()].concat();
            both.sort_by(f32::total_cmp);
            assert_eq!(both, testing::inputs(&all));
            test
        };
        assert_eq!(held(1), held(1));
        assert_ne!(held(1), held(2));
    }

    #[test]
    fn a_part_can_be_split_again() {
        let (train, _) = testing::numbers(20).split(5, 1).unwrap();
        let (rest, held) = train.split(5, 2).unwrap();
        let mut both = [testing::inputs(&rest), testing::inputs(&held)].concat();
        both.sort_by(f32::total_cmp);
        assert_eq!(both, testing::inputs(&train));
    }

    #[test]
    fn no_part_is_empty() {
        let all = testing::numbers(10);
        for held_out in [0, 10, 11, usize::MAX] {
            assert!(matches!(all.split(held_out, 0), Err(Error::TooFew { .. })), "{held_out}");
        }
        assert!(all.split(9, 0).is_ok());
    }

    #[test]
    fn held_out_text_is_the_end_and_shares_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.txt");
        std::fs::write(&path, "abcdefghij").unwrap();
        let options = Options { length: 3, stride: Some(1), ..Options::default() };
        let text = open(&path, &options).unwrap();
        assert_eq!(text.len(), 7); // abcd … ghij
        let (train, test) = text.split(2, 0).unwrap();
        // Held out are the answers ghi and hij, so the last to learn from is def.
        assert_eq!((train.len(), test.len()), (3, 2));
        assert_eq!(testing::inputs(&test)[0], 5.0);
    }
}

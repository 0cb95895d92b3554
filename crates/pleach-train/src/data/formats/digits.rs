//! The digits that come with the program.

use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;

use super::{Format, Options, only_for_training};
use crate::data::dataset::{Base, Target};
use crate::data::table::{Numbers, Table};
use crate::data::{Classes, Dataset, Error};

pub(super) const FORMAT: Format = Format {
    name: "digits",
    looks_like: "the name itself: 1,797 handwritten digits of 8×8 pixels that come with the program",
    open,
};

/// See `data/NOTICE`.
static PACKED: &[u8] = include_bytes!("../../../data/digits.csv.gz");

fn open(path: &Path, options: &Options) -> Result<Option<Dataset>, Error> {
    if path != Path::new("digits") {
        return Ok(None);
    }
    only_for_training(path, options.part)?;
    let mut text = String::new();
    GzDecoder::new(PACKED).read_to_string(&mut text).expect("the digits are whole");
    let (mut bytes, mut labels) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let (pixels, label) = line.rsplit_once(',').expect("a line has pixels and a label");
        let number = |cell: &str| cell.parse::<u8>().expect("a cell is a number below 17");
        bytes.extend(pixels.split(',').map(number));
        labels.push(number(label));
    }
    let classes = match &options.classes {
        Classes::Found => &Classes::Count(10),
        given => given,
    };
    let names =
        classes.of_numbers(path, labels.iter().map(|&label| label.into()), |i| format!("digit {i}"))?;
    let inputs = Numbers::Pixels { bytes, brightest: 16.0 };
    let table = Table::new(inputs, labels.into_iter().map(f32::from).collect(), 1);
    let base = Base {
        format: FORMAT.name,
        path: path.to_owned(),
        input: vec![8, 8, 1],
        target: Target::Classes(names),
        source: Box::new(table),
    };
    Dataset::new(base).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{open, testing};

    #[test]
    fn digits_are_those_of_scikit_learn() {
        // scikit-learn 1.9: load_digits().images[0][0], .target[:4], and np.bincount(target).
        let digits = open("digits", &Options::default()).unwrap();
        let (mut input, mut target) = ([0.0; 64], [0.0]);
        let mut labels = Vec::new();
        for index in 0..digits.len() {
            digits.read(index, &mut input, &mut target).unwrap();
            assert!(input.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
            if index == 0 {
                let row = [0.0, 0.0, 5.0, 13.0, 9.0, 1.0, 0.0, 0.0];
                assert_eq!(input[..8], row.map(|pixel: f32| pixel / 16.0));
            }
            labels.push(target[0]);
        }
        assert_eq!(labels[..4], [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(testing::counts(&labels), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    }
}

//! CIFAR-10 as its authors publish it in binary form (www.cs.toronto.edu/~kriz/cifar.html).

use std::path::Path;

use super::{Format, Options, Part, only_for_training};
use crate::data::dataset::{Base, Target};
use crate::data::table::{Numbers, Table};
use crate::data::{Classes, Dataset, Error, files};

pub(super) const FORMAT: Format = Format {
    name: "cifar10",
    looks_like: "a folder with data_batch_1.bin … and test_batch.bin, or one such file",
    open,
};

const NAMES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];
const SIDE: usize = 32;
const PLANE: usize = SIDE * SIDE;
/// A label, then the red, the green and the blue plane.
const RECORD: usize = 1 + 3 * PLANE;

fn open(path: &Path, options: &Options) -> Result<Option<Dataset>, Error> {
    let batches = if path.is_dir() {
        let paths = files::list(path)?;
        if paths.iter().all(|file| part(file).is_none()) {
            return Ok(None);
        }
        let batches: Vec<_> = paths.into_iter().filter(|file| part(file) == Some(options.part)).collect();
        if batches.is_empty() {
            return Err(Error::NoPart { path: path.to_owned(), part: options.part });
        }
        batches
    } else if files::is_named(path, &[".bin"]) {
        only_for_training(path, options.part)?;
        vec![path.to_owned()]
    } else {
        return Ok(None);
    };
    let (mut bytes, mut labels) = (Vec::new(), Vec::new());
    for batch in &batches {
        records(batch, &mut bytes, &mut labels)?;
    }
    let names: Vec<String> = NAMES.iter().map(ToString::to_string).collect();
    match &options.classes {
        Classes::Found | Classes::Count(10) => {}
        Classes::Named(given) if *given == names => {}
        _ => return Err(Error::format(path, format!("its classes are {}", names.join(", ")))),
    }
    let inputs = Numbers::Pixels { bytes, brightest: 255.0 };
    let base = Base {
        format: FORMAT.name,
        path: path.to_owned(),
        input: vec![SIDE, SIDE, 3],
        target: Target::Classes(names),
        source: Box::new(Table::new(inputs, labels, 1)),
    };
    Dataset::new(base).map(Some)
}

/// The part to which a file belongs by its name.
fn part(path: &Path) -> Option<Part> {
    let name = files::name(path);
    match files::is_named(path, &[".bin"]) {
        true if name.starts_with("data_batch_") => Some(Part::Train),
        true if name.starts_with("test_batch") => Some(Part::Test),
        _ => None,
    }
}

/// Appends the pixels, red, green and blue together, and the labels of a file.
fn records(path: &Path, pixels: &mut Vec<u8>, labels: &mut Vec<f32>) -> Result<(), Error> {
    let bytes = files::bytes(path)?;
    if !bytes.len().is_multiple_of(RECORD) {
        let reason = format!(
            "{} bytes, which are not whole records of {RECORD}; take it from its source again",
            bytes.len()
        );
        return Err(Error::format(path, reason));
    }
    for (index, record) in bytes.chunks_exact(RECORD).enumerate() {
        let (label, planes) = (record[0], &record[1..]);
        if usize::from(label) >= NAMES.len() {
            let reason = format!("label {label}; CIFAR-10 has labels below 10");
            return Err(Error::record(path, format!("image {index}"), reason));
        }
        labels.push(label.into());
        pixels.extend((0..PLANE).flat_map(|i| [planes[i], planes[PLANE + i], planes[2 * PLANE + i]]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::data::{open, testing};

    fn image(label: u8) -> Vec<u8> {
        [&[label][..], &[255; PLANE], &[51; PLANE], &[0; PLANE]].concat()
    }

    #[test]
    fn batches_are_joined_and_planes_interleaved() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("data_batch_1.bin"), [image(3), image(9)].concat()).unwrap();
        fs::write(folder.path().join("data_batch_2.bin"), image(0)).unwrap();
        fs::write(folder.path().join("test_batch.bin"), image(5)).unwrap();
        let train = open(folder.path(), &Options::default()).unwrap();
        assert_eq!((train.len(), train.input_shape()), (3, &[32, 32, 3][..]));
        assert_eq!(testing::targets(&train), [3.0, 9.0, 0.0]);
        let test = open(folder.path(), &Options { part: Part::Test, ..Options::default() }).unwrap();
        let (mut input, mut target) = ([0.5; 3072], [0.0]);
        test.read(0, &mut input, &mut target).unwrap();
        assert!(input.chunks(3).all(|pixel| pixel == [1.0, 0.2, 0.0]));
    }

    #[test]
    fn faults_name_the_file_and_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data_batch_1.bin");
        fs::write(&path, [image(3), image(10)].concat()).unwrap();
        let error = open(folder.path(), &Options::default()).unwrap_err().to_string();
        assert!(
            error.ends_with("data_batch_1.bin, image 1: label 10; CIFAR-10 has labels below 10"),
            "{error}"
        );
        fs::write(&path, &image(3)[1..]).unwrap();
        let error = open(&path, &Options::default()).unwrap_err().to_string();
        assert!(error.contains("3072 bytes, which are not whole records of 3073"), "{error}");
        fs::write(&path, "").unwrap();
        let error = open(&path, &Options::default()).unwrap_err().to_string();
        assert!(error.contains("it has no examples"), "{error}");
    }

    #[test]
    fn no_damage_is_fatal() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.bin");
        fs::write(&file, image(3)).unwrap();
        testing::damage(&file, &file, &Options::default(), true);
    }
}

//! MNIST and its kin: images and labels as IDX files (yann.lecun.com/exdb/mnist).

use std::path::{Path, PathBuf};

use super::{Format, Options, Part, only_for_training};
use crate::data::dataset::{Base, Target};
use crate::data::files;
use crate::data::table::{Numbers, Table};
use crate::data::{Dataset, Error};

pub(super) const FORMAT: Format = Format {
    name: "idx",
    looks_like: "a folder with …train…-images-idx3-ubyte and …train…-labels-idx1-ubyte, t10k or test for the test part, or one file of images; each may be a .gz",
    open,
};

fn open(path: &Path, options: &Options) -> Result<Option<Dataset>, Error> {
    let images = if path.is_dir() {
        let paths = files::list(path)?;
        if !paths.iter().any(|path| is_images(path)) {
            return Ok(None);
        }
        let found = files::only(path, &paths, |file| is_images(file) && part(file) == options.part)?;
        let missing = || Error::NoPart { path: path.to_owned(), part: options.part };
        found.ok_or_else(missing)?.to_owned()
    } else if is_images(path) {
        only_for_training(path, options.part)?;
        path.to_owned()
    } else {
        return Ok(None);
    };
    let labels = options.targets.clone().unwrap_or_else(|| labels_beside(&images));
    if options.targets.is_none() && !labels.exists() {
        let reason = format!("there is no {} beside it; give the file of labels", files::name(&labels));
        return Err(Error::format(&images, reason));
    }
    read(&images, &labels, options).map(Some)
}

fn is_images(path: &Path) -> bool {
    let name = files::name(path);
    files::is_named(path, &["-ubyte", "-ubyte.gz"]) && name.contains("idx") && name.contains("images")
}

fn part(path: &Path) -> Part {
    let name = files::name(path);
    if name.contains("t10k") || name.contains("test") { Part::Test } else { Part::Train }
}

/// `train-labels-idx1-ubyte` for `train-images-idx3-ubyte`, packed or not.
fn labels_beside(images: &Path) -> PathBuf {
    let name = files::name(images).replace("images", "labels").replace("idx3", "idx1");
    let same = images.with_file_name(&name);
    let other = match name.strip_suffix(".gz") {
        Some(plain) => images.with_file_name(plain),
        None => images.with_file_name(format!("{name}.gz")),
    };
    if !same.exists() && other.exists() { other } else { same }
}

fn read(images: &Path, labels: &Path, options: &Options) -> Result<Dataset, Error> {
    let (sizes, pixels) = elements(images)?;
    let (&[count, height, width] | &[count, height, width, _]) = sizes.as_slice() else {
        let reason = format!("{} axes; images have 3 (count, height, width) or 4", sizes.len());
        return Err(Error::format(images, reason));
    };
    let channels = sizes.get(3).copied().unwrap_or(1);
    let (label_sizes, label_bytes) = elements(labels)?;
    if label_sizes != [count] {
        let reason = format!("labels of sizes {label_sizes:?} for {count} images in {}", images.display());
        return Err(Error::format(labels, reason));
    }
    let numbers = label_bytes.iter().map(|&label| usize::from(label));
    let names = options.classes.of_numbers(labels, numbers, |index| format!("label {index}"))?;
    let inputs = Numbers::Pixels { bytes: pixels, brightest: 255.0 };
    let targets = label_bytes.into_iter().map(f32::from).collect();
    Dataset::new(Base {
        format: FORMAT.name,
        path: images.to_owned(),
        input: vec![height, width, channels],
        target: Target::Classes(names),
        source: Box::new(Table::new(inputs, targets, 1)),
    })
}

/// The sizes and the bytes of an IDX file of unsigned bytes.
fn elements(path: &Path) -> Result<(Vec<usize>, Vec<u8>), Error> {
    let mut bytes = files::bytes(path)?;
    let fault = |reason: String| Error::format(path, reason);
    let Some((&[zero, also_zero, kind, axes], rest)) = bytes.split_first_chunk() else {
        return Err(fault("it ends within its first 4 bytes; take it from its source again".into()));
    };
    if (zero, also_zero) != (0, 0) {
        return Err(fault("no IDX file: it does not begin with two zero bytes".into()));
    }
    if kind != 8 {
        return Err(fault(format!("elements of kind {kind:#04x}; only unsigned bytes, 0x08, are read")));
    }
    let (words, _) = rest.as_chunks::<4>();
    if words.len() < usize::from(axes) {
        return Err(fault("it ends within its sizes; take it from its source again".into()));
    }
    let sizes: Vec<usize> =
        words[..axes.into()].iter().map(|&word| u32::from_be_bytes(word) as usize).collect();
    let header = 4 + 4 * usize::from(axes);
    let (need, have) =
        (sizes.iter().try_fold(1_usize, |len, &size| len.checked_mul(size)), bytes.len() - header);
    if need != Some(have) {
        let need = need.map_or("more than can be addressed".into(), |need| need.to_string());
        let reason =
            format!("{have} elements for sizes {sizes:?}, which take {need}; take it from its source again");
        return Err(fault(reason));
    }
    bytes.drain(..header);
    Ok((sizes, bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::data::{Classes, open, testing};

    /// Images of 2×3 whose first pixel is their number, and labels 0, 1, 2, 0, ….
    fn write(folder: &Path, part: &str, count: u8, packed: bool) {
        let images: Vec<u8> = (0..count).flat_map(|i| [i, 51, 0, 0, 0, 255]).collect();
        let labels: Vec<u8> = (0..count).map(|i| i % 3).collect();
        for (name, sizes, bytes) in [
            (format!("{part}-images-idx3-ubyte"), vec![count, 2, 3], images),
            (format!("{part}-labels-idx1-ubyte"), vec![count], labels),
        ] {
            let mut file = vec![0, 0, 8, u8::try_from(sizes.len()).unwrap()];
            file.extend(sizes.iter().flat_map(|&size| u32::from(size).to_be_bytes()));
            file.extend(bytes);
            if packed {
                fs::write(folder.join(name + ".gz"), testing::gzip(&file)).unwrap();
            } else {
                fs::write(folder.join(name), file).unwrap();
            }
        }
    }

    #[test]
    fn both_parts_are_found_packed_or_not() {
        for packed in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), "train", 6, packed);
            write(folder.path(), "t10k", 3, packed);
            let train = open(folder.path(), &Options::default()).unwrap();
            let test = open(folder.path(), &Options { part: Part::Test, ..Options::default() }).unwrap();
            assert_eq!((train.len(), test.len()), (6, 3));
            assert_eq!(train.input_shape(), [2, 3, 1]);
            assert_eq!(train.target(), &Target::Classes(vec!["0".into(), "1".into(), "2".into()]));
            let (mut input, mut target) = ([0.0; 6], [0.0]);
            train.read(5, &mut input, &mut target).unwrap();
            assert_eq!((input, target), ([5.0 / 255.0, 0.2, 0.0, 0.0, 0.0, 1.0], [2.0]));
        }
    }

    #[test]
    fn faults_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "train", 6, false);
        let test = open(folder.path(), &Options { part: Part::Test, ..Options::default() });
        assert!(matches!(test, Err(Error::NoPart { .. })), "{test:?}");
        let few = Options { classes: Classes::Count(2), ..Options::default() };
        let error = open(folder.path(), &few).unwrap_err().to_string();
        assert!(error.contains("train-labels-idx1-ubyte, label 2: label 2 with 2 classes"), "{error}");
        write(folder.path(), "my-train", 6, false);
        let error = open(folder.path(), &Options::default()).unwrap_err().to_string();
        assert!(error.contains("both my-train-images-idx3-ubyte and train-images-idx3-ubyte"), "{error}");
        let file = folder.path().join("my-train-images-idx3-ubyte");
        assert_eq!(open(&file, &Options::default()).unwrap().len(), 6);
        fs::remove_file(folder.path().join("my-train-labels-idx1-ubyte")).unwrap();
        let error = open(&file, &Options::default()).unwrap_err().to_string();
        assert!(error.contains("there is no my-train-labels-idx1-ubyte beside it"), "{error}");
        let labels = Some(folder.path().join("train-labels-idx1-ubyte"));
        assert!(open(&file, &Options { targets: labels, ..Options::default() }).is_ok());
        write(folder.path(), "my-train", 0, false);
        let error = open(&file, &Options::default()).unwrap_err().to_string();
        assert!(error.contains("it has no examples"), "{error}");
    }

    #[test]
    fn no_damage_is_fatal() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "train", 6, false);
        for file in ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"] {
            testing::damage(folder.path(), &folder.path().join(file), &Options::default(), true);
        }
    }

    #[test]
    fn mnist_is_read() {
        let Some(data) = testing::real_data("images") else { return };
        for (file, counts) in [
            ("mnist_train10k-images-idx3-ubyte.gz", [1001, 1127, 991, 1032, 980, 863, 1014, 1070, 944, 978]),
            ("mnist_t10k-images-idx3-ubyte.gz", [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
        ] {
            let mnist = open(data.join(file), &Options::default()).unwrap();
            assert_eq!((mnist.len(), mnist.input_shape()), (10_000, &[28, 28, 1][..]));
            assert_eq!(testing::counts(&testing::targets(&mnist)), counts);
        }
        let test = open(&data, &Options { part: Part::Test, ..Options::default() }).unwrap();
        assert!(test.path().ends_with("mnist_t10k-images-idx3-ubyte.gz"));
    }
}

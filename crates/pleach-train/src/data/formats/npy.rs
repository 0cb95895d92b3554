//! `NumPy` arrays (NEP 1: the .npy file format).

use std::path::{Path, PathBuf};

use super::{Format, Options, Part, only_for_training};
use crate::data::classes::whole;
use crate::data::dataset::{Base, Target};
use crate::data::table::{Numbers, Table};
use crate::data::{Classes, Dataset, Error, files};

pub(super) const FORMAT: Format = Format {
    name: "npy",
    looks_like: "a folder with x.npy and y.npy, or x_train.npy, y_train.npy, x_test.npy and y_test.npy; or one such file of inputs",
    open,
};

/// Inputs have their examples along the first axis. Bytes of three axes and more are pixels; `n × h × w`
/// of them are grey. Targets of whole numbers are classes, others are values.
fn open(path: &Path, options: &Options) -> Result<Option<Dataset>, Error> {
    let inputs = if path.is_dir() {
        let train = path.join("x_train.npy");
        let single = path.join("x.npy");
        let test = path.join("x_test.npy");
        match options.part {
            Part::Train if train.exists() => train,
            Part::Train if single.exists() => single,
            Part::Test if test.exists() => test,
            part if train.exists() || single.exists() || test.exists() => {
                return Err(Error::NoPart { path: path.to_owned(), part });
            }
            _ => return Ok(None),
        }
    } else if files::is_named(path, &[".npy"]) {
        only_for_training(path, options.part)?;
        path.to_owned()
    } else {
        return Ok(None);
    };
    let targets = match &options.targets {
        Some(targets) => targets.clone(),
        None => targets_beside(&inputs)?,
    };
    read(&inputs, &targets, options).map(Some)
}

/// `y_train.npy` for `x_train.npy`.
fn targets_beside(inputs: &Path) -> Result<PathBuf, Error> {
    let name = files::name(inputs);
    let Some(rest) = name.strip_prefix('x') else {
        let reason = "its name does not begin with x, so give the file of targets";
        return Err(Error::format(inputs, reason));
    };
    let beside = inputs.with_file_name(format!("y{rest}"));
    if beside.exists() {
        Ok(beside)
    } else {
        let reason = format!("there is no {} beside it; give the file of targets", files::name(&beside));
        Err(Error::format(inputs, reason))
    }
}

fn read(inputs: &Path, targets: &Path, options: &Options) -> Result<Dataset, Error> {
    let (x, y) = (Array::read(inputs)?, Array::read(targets)?);
    let (Some((&count, sizes)), Some((&rows, rest))) = (x.sizes.split_first(), y.sizes.split_first()) else {
        return Err(Error::format(inputs, "inputs and targets must have an axis of examples"));
    };
    if count != rows {
        let reason = format!("{rows} targets for the {count} inputs of {}", inputs.display());
        return Err(Error::format(targets, reason));
    }
    let mut input = if sizes.is_empty() { vec![1] } else { sizes.to_vec() };
    let pixels = x.kind == Kind::U1 && input.len() >= 2;
    if pixels && input.len() == 2 {
        input.push(1);
    }
    let inputs_of = if pixels {
        Numbers::Pixels { bytes: x.elements, brightest: 255.0 }
    } else {
        Numbers::Floats(x.floats(inputs)?)
    };
    let width = rest.iter().product();
    let (target, values) = if width == 1 && (y.kind.is_whole() || options.classes != Classes::Found) {
        let labels = y.labels(targets)?;
        let names =
            options.classes.of_numbers(targets, labels.iter().copied(), |i| format!("element {i}"))?;
        (Target::Classes(names), labels.into_iter().map(|label| label as f32).collect())
    } else if options.classes == Classes::Found {
        (Target::Values(width), y.floats(targets)?)
    } else {
        let reason = format!("{width} targets an example; a class is one");
        return Err(Error::format(targets, reason));
    };
    if width == 0 {
        return Err(Error::format(targets, "its targets are empty"));
    }
    Dataset::new(Base {
        format: FORMAT.name,
        path: inputs.to_owned(),
        input,
        target,
        source: Box::new(Table::new(inputs_of, values, width)),
    })
}

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    F4,
    F8,
    U1,
    I4,
    I8,
}

impl Kind {
    fn of(descr: &str) -> Option<Kind> {
        match descr {
            "<f4" => Some(Kind::F4),
            "<f8" => Some(Kind::F8),
            "|u1" | "<u1" => Some(Kind::U1),
            "<i4" => Some(Kind::I4),
            "<i8" => Some(Kind::I8),
            _ => None,
        }
    }

    fn bytes(self) -> usize {
        match self {
            Kind::U1 => 1,
            Kind::F4 | Kind::I4 => 4,
            Kind::F8 | Kind::I8 => 8,
        }
    }

    fn is_whole(self) -> bool {
        matches!(self, Kind::U1 | Kind::I4 | Kind::I8)
    }
}

#[derive(Debug)]
struct Array {
    kind: Kind,
    sizes: Vec<usize>,
    elements: Vec<u8>,
}

impl Array {
    fn read(path: &Path) -> Result<Array, Error> {
        let mut bytes = files::bytes(path)?;
        let fault = |reason: &str| Error::format(path, reason);
        let short = "it ends within its header; write it again";
        let Some((magic, rest)) = bytes.split_first_chunk::<8>() else { return Err(fault(short)) };
        let (length, rest) = match magic {
            b"\x93NUMPY\x01\x00" => {
                let (length, rest) = rest.split_first_chunk().ok_or_else(|| fault(short))?;
                (usize::from(u16::from_le_bytes(*length)), rest)
            }
            b"\x93NUMPY\x02\x00" | b"\x93NUMPY\x03\x00" => {
                let (length, rest) = rest.split_first_chunk().ok_or_else(|| fault(short))?;
                (u32::from_le_bytes(*length) as usize, rest)
            }
            _ => {
                return Err(fault("no .npy file: it does not begin with \\x93NUMPY and a version of 1 to 3"));
            }
        };
        let header = rest.get(..length).ok_or_else(|| fault(short))?;
        let header = str::from_utf8(header).map_err(|_| fault("its header is damaged; write it again"))?;
        let (descr, fortran, sizes) =
            fields(header).ok_or_else(|| fault("its header is damaged; write it again"))?;
        let kind = Kind::of(descr).ok_or_else(|| {
            fault(&format!(
                "elements of type {descr:?}; f4, f8, u1, i4 and i8 are read, little-endian: use .astype"
            ))
        })?;
        if fortran && sizes.len() > 1 {
            return Err(fault("its order is Fortran's; write np.ascontiguousarray of it"));
        }
        let have = rest.len() - length;
        let need = sizes.iter().try_fold(kind.bytes(), |need, &size| need.checked_mul(size));
        if need != Some(have) {
            let need = need.map_or("more than can be addressed".into(), |need| need.to_string());
            return Err(fault(&format!(
                "{have} bytes for sizes {sizes:?}, which take {need}; write it again"
            )));
        }
        bytes.drain(..bytes.len() - have);
        Ok(Array { kind, sizes, elements: bytes })
    }

    /// All elements as floats.
    ///
    /// # Errors
    /// One is no finite `f32`.
    fn floats(&self, path: &Path) -> Result<Vec<f32>, Error> {
        #[expect(clippy::cast_possible_truncation, reason = "networks work on f32")]
        let floats: Vec<f32> = match self.kind {
            Kind::U1 => self.elements.iter().map(|&byte| byte.into()).collect(),
            Kind::F4 => self.all(f32::from_le_bytes),
            Kind::F8 => self.all(|bytes| f64::from_le_bytes(bytes) as f32),
            Kind::I4 => self.all(|bytes| i32::from_le_bytes(bytes) as f32),
            Kind::I8 => self.all(|bytes| i64::from_le_bytes(bytes) as f32),
        };
        match floats.iter().position(|float| !float.is_finite()) {
            None => Ok(floats),
            Some(index) => {
                let place = format!("element {:?}", place(index, &self.sizes));
                let reason = format!("{}; leave the example out or fill the number in", floats[index]);
                Err(Error::record(path, place, reason))
            }
        }
    }

    /// All elements as classes.
    fn labels(&self, path: &Path) -> Result<Vec<usize>, Error> {
        let labels: Vec<Option<usize>> = match self.kind {
            Kind::I4 => self.all(|bytes| i32::from_le_bytes(bytes).try_into().ok()),
            Kind::I8 => self.all(|bytes| i64::from_le_bytes(bytes).try_into().ok()),
            Kind::U1 | Kind::F4 | Kind::F8 => {
                self.floats(path)?.into_iter().map(|float| whole(float.into())).collect()
            }
        };
        let label = |(index, label): (usize, Option<usize>)| {
            label.ok_or_else(|| {
                Error::record(path, format!("element {index}"), "it is no class: classes are 0, 1, 2, …")
            })
        };
        labels.into_iter().enumerate().map(label).collect()
    }

    fn all<const N: usize, T>(&self, convert: impl Fn([u8; N]) -> T) -> Vec<T> {
        self.elements.as_chunks().0.iter().map(|&bytes| convert(bytes)).collect()
    }
}

/// The type, whether the order is Fortran's, and the sizes, of a header such as
/// `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
fn fields(header: &str) -> Option<(&str, bool, Vec<usize>)> {
    let after = |key: &str| header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
    let descr = after("descr")?.strip_prefix('\'')?.split_once('\'')?.0;
    let order = after("fortran_order")?;
    let fortran =
        if order.starts_with("False") { false } else { order.starts_with("True").then_some(true)? };
    let sizes = after("shape")?.strip_prefix('(')?.split_once(')')?.0;
    let sizes = sizes.split(',').map(str::trim).filter(|size| !size.is_empty());
    Some((descr, fortran, sizes.map(|size| size.parse().ok()).collect::<Option<_>>()?))
}

/// The place of an element along each axis.
fn place(index: usize, sizes: &[usize]) -> Vec<usize> {
    let mut rest = index;
    let mut place: Vec<usize> = sizes
        .iter()
        .rev()
        .map(|&size| {
            let along = rest % size;
            rest /= size;
            along
        })
        .collect();
    place.reverse();
    place
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::data::{open, testing};

    /// A file as `NumPy` 2 writes it: version 1, the header padded to 64 bytes.
    fn npy(descr: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        let header = format!("{header:<117}\n");
        [&b"\x93NUMPY\x01\x00"[..], &118_u16.to_le_bytes(), header.as_bytes(), elements].concat()
    }

    fn f4(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn i8(numbers: &[i64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn opened(x: &[u8], y: &[u8], options: &Options) -> Result<Dataset, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.npy"), x).unwrap();
        fs::write(folder.path().join("y.npy"), y).unwrap();
        open(folder.path(), options).map_err(|error| {
            error
                .to_string()
                .replace(&folder.path().display().to_string(), "")
                .trim_start_matches('/')
                .to_owned()
        })
    }

    #[test]
    fn types_are_read_and_whole_targets_are_classes() {
        let x = npy("<f4", "(2, 3)", &f4(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        let classes = opened(&x, &npy("<i8", "(2,)", &i8(&[1, 0])), &Options::default()).unwrap();
        assert_eq!((classes.len(), classes.input_shape()), (2, &[3][..]));
        assert_eq!(classes.target(), &Target::Classes(vec!["0".into(), "1".into()]));
        assert_eq!(testing::inputs(&classes), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(testing::targets(&classes), [1.0, 0.0]);
        let values =
            opened(&x, &npy("<f4", "(2, 2)", &f4(&[0.5, 1.5, 2.5, 3.5])), &Options::default()).unwrap();
        assert_eq!(values.target(), &Target::Values(2));
        assert_eq!(testing::targets(&values), [0.5, 1.5, 2.5, 3.5]);
        let x = npy("<f8", "(1,)", &0.25_f64.to_le_bytes());
        let one = opened(&x, &npy("<i4", "(1,)", &0_i32.to_le_bytes()), &Options::default()).unwrap();
        assert_eq!((one.input_shape(), testing::inputs(&one)), (&[1][..], vec![0.25]));
    }

    #[test]
    fn bytes_of_three_axes_are_pixels() {
        let y = npy("|u1", "(1,)", &[0]);
        let grey = opened(&npy("|u1", "(1, 1, 2)", &[255, 51]), &y, &Options::default()).unwrap();
        assert_eq!((grey.input_shape(), testing::inputs(&grey)), (&[1, 2, 1][..], vec![1.0, 0.2]));
        let flat = opened(&npy("|u1", "(1, 2)", &[255, 51]), &y, &Options::default()).unwrap();
        assert_eq!((flat.input_shape(), testing::inputs(&flat)), (&[2][..], vec![255.0, 51.0]));
    }

    #[test]
    fn faults_name_the_file_and_the_element() {
        let x = npy("<f4", "(2, 2)", &f4(&[1.0, 2.0, 3.0, f32::NAN]));
        let y = npy("<i8", "(2,)", &i8(&[1, 0]));
        let check = |x: &[u8], y: &[u8], options: &Options, expected: &str| {
            let error = opened(x, y, options).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        };
        let standard = Options::default();
        check(&x, &y, &standard, "x.npy, element [1, 1]: NaN; leave the example out");
        let x = npy("<f4", "(2, 1)", &f4(&[1.0, 2.0]));
        check(&x, &npy("<i8", "(3,)", &i8(&[1, 0, 1])), &standard, "y.npy: 3 targets for the 2 inputs of");
        check(&x, &npy("<i8", "(2,)", &i8(&[-1, 0])), &standard, "y.npy, element 0: it is no class");
        check(&x, &npy("<i8", "(2,)", &i8(&[1 << 40, 0])), &standard, "y.npy: no example has label 1");
        let two = Options { classes: Classes::Count(2), ..Options::default() };
        check(&x, &npy("<i8", "(2,)", &i8(&[2, 0])), &two, "y.npy, element 0: label 2 with 2 classes");
        check(&x, &npy("<f4", "(2,)", &f4(&[0.5, 0.0])), &two, "y.npy, element 0: it is no class");
        check(&x, &npy("<f4", "(2, 0)", &[]), &standard, "y.npy: its targets are empty");
        check(&npy("<f4", "(0, 3)", &[]), &npy("<i8", "(0,)", &[]), &standard, "x.npy: it has no examples");
        check(&npy("<c8", "(2,)", &[0; 16]), &y, &standard, "x.npy: elements of type \"<c8\"");
        check(&npy("<f4", "(4611686018427387904, 16)", &[]), &y, &standard, "x.npy: 0 bytes for sizes");
    }

    #[test]
    fn no_damage_is_fatal() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.npy"), npy("<f4", "(2, 2)", &f4(&[1.0, 2.0, 3.0, 4.0]))).unwrap();
        fs::write(folder.path().join("y.npy"), npy("<i8", "(2,)", &i8(&[1, 0]))).unwrap();
        for file in ["x.npy", "y.npy"] {
            testing::damage(folder.path(), &folder.path().join(file), &Options::default(), true);
        }
    }
}

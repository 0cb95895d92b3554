//! Reading files and names of files.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::Error;

/// The bytes of a file; of one that is named `.gz`, what is packed in it.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, Error> {
    let mut file = File::open(path).map_err(Error::read(path))?;
    let mut bytes = Vec::new();
    if is_named(path, &[".gz"]) {
        MultiGzDecoder::new(io::BufReader::new(file))
            .read_to_end(&mut bytes)
            .map_err(|error| Error::format(path, format!("its gzip is damaged or cut short ({error})")))?;
    } else {
        file.read_to_end(&mut bytes).map_err(Error::read(path))?;
    }
    Ok(bytes)
}

/// Whether the name ends with one of these, in lower or upper case.
pub(crate) fn is_named(path: &Path, ends: &[&str]) -> bool {
    let name = name(path).to_lowercase();
    ends.iter().any(|end| name.ends_with(end))
}

/// The last part of a path.
pub(crate) fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What lies in a folder, sorted by name, without hidden files.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut paths = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>())
        .map_err(Error::read(folder))?;
    paths.retain(|path| !name(path).starts_with('.'));
    paths.sort_unstable();
    Ok(paths)
}

/// The one file among `paths` that `fits`, if any.
///
/// # Errors
/// There are several.
pub(crate) fn only<'a>(
    folder: &Path,
    paths: &'a [PathBuf],
    fits: impl Fn(&Path) -> bool,
) -> Result<Option<&'a Path>, Error> {
    let mut fitting = paths.iter().filter(|path| fits(path));
    match (fitting.next(), fitting.next()) {
        (Some(first), Some(second)) => {
            let reason = format!("both {} and {} fit; give the path of one", name(first), name(second));
            Err(Error::format(folder, reason))
        }
        (first, _) => Ok(first.map(PathBuf::as_path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_gzip_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt.gz");
        let packed = crate::data::testing::gzip(b"some text, some text, some text");
        fs::write(&path, &packed).unwrap();
        assert_eq!(bytes(&path).unwrap(), b"some text, some text, some text");
        for cut in 0..packed.len() {
            fs::write(&path, &packed[..cut]).unwrap();
            let error = bytes(&path).unwrap_err().to_string();
            assert!(error.contains("a.txt.gz: its gzip is damaged or cut short"), "{error}");
        }
    }

    #[test]
    fn a_missing_file_is_an_error_that_names_it() {
        let error = bytes(Path::new("/no/such/file")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /no/such/file");
    }
}

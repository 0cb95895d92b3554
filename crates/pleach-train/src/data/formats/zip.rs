//! An archive of images.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::DeflateDecoder;
use rawzip::{CompressionMethod, FileReader, RECOMMENDED_BUFFER_SIZE, ZipArchive, ZipArchiveEntryWayfinder};

use super::pictures::{self, ENDS, Store};
use super::{Format, Options};
use crate::data::{Dataset, Error, files};

pub(super) const FORMAT: Format =
    Format { name: "zip", looks_like: "a .zip with what a folder of images has, stored or deflated", open };

/// Larger images are taken for damaged, before they take memory.
const MAX_BYTES: u64 = 1 << 28;

fn open(path: &Path, options: &Options) -> Result<Option<Dataset>, Error> {
    if path.is_dir() || !files::is_named(path, &[".zip"]) {
        return Ok(None);
    }
    let fault = |error: rawzip::Error| {
        Error::format(
            path,
            format!("it is no zip, damaged or cut short ({error}); take it from its source again"),
        )
    };
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let archive =
        ZipArchive::from_file(File::open(path).map_err(Error::read(path))?, &mut buffer).map_err(fault)?;
    let (mut listing, mut entries) = (Vec::new(), Vec::new());
    let mut reader = archive.entries(&mut buffer);
    let mut count = 0;
    while let Some(entry) = reader.next_entry().map_err(fault)? {
        count += 1;
        let name = String::from_utf8_lossy(entry.file_path().as_ref()).replace('\\', "/");
        entries.push(Entry {
            way: entry.wayfinder(),
            method: entry.compression_method(),
            name: name.clone(),
        });
        listing.push(name);
    }
    if count != archive.entries_hint() {
        let reason = format!("{count} entries of {}; take it from its source again", archive.entries_hint());
        return Err(Error::format(path, reason));
    }
    let store = Archive { path: path.to_owned(), zip: archive, entries };
    let dataset = pictures::open(FORMAT.name, path, &listing, Box::new(store), options)?;
    dataset
        .map(Some)
        .ok_or_else(|| Error::format(path, format!("no folders with images ({}) are in it", ENDS.join(", "))))
}

#[derive(Debug)]
struct Archive {
    path: PathBuf,
    zip: ZipArchive<FileReader>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    way: ZipArchiveEntryWayfinder,
    method: CompressionMethod,
    name: String,
}

impl Store for Archive {
    fn read(&self, place: usize) -> Result<Vec<u8>, Error> {
        let entry = &self.entries[place];
        let fault = |reason: String| Error::record(&self.path, &entry.name, reason);
        let damaged = |error: &dyn std::error::Error| fault(format!("it is damaged ({error})"));
        let packed = self.zip.get_entry(entry.way).map_err(|error| damaged(&error))?;
        let mut bytes = Vec::new();
        let outcome = match entry.method {
            CompressionMethod::STORE => {
                packed.verifying_reader(packed.reader()).take(MAX_BYTES).read_to_end(&mut bytes)
            }
            CompressionMethod::DEFLATE => packed
                .verifying_reader(DeflateDecoder::new(BufReader::new(packed.reader())))
                .take(MAX_BYTES)
                .read_to_end(&mut bytes),
            method => return Err(fault(format!("packed by {method:?}; zip it stored or deflated"))),
        };
        match outcome {
            Ok(_) if bytes.len() as u64 == MAX_BYTES => {
                Err(fault(format!("at most {MAX_BYTES} bytes are read")))
            }
            Ok(_) => Ok(bytes),
            Err(error) => Err(damaged(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use png::ColorType;

    use super::*;
    use crate::data::{Part, open, testing};

    fn zip(names: &[(&str, Vec<u8>)], method: CompressionMethod) -> Vec<u8> {
        let mut output = Vec::new();
        let mut archive = rawzip::ZipArchiveWriter::new(&mut output);
        for (name, bytes) in names {
            let (mut entry, config) = archive.new_file(name).compression_method(method).start().unwrap();
            let packed = if method == CompressionMethod::DEFLATE {
                let mut writer = config
                    .wrap(flate2::write::DeflateEncoder::new(&mut entry, flate2::Compression::default()));
                writer.write_all(bytes).unwrap();
                let (encoder, descriptor) = writer.finish().unwrap();
                encoder.finish().unwrap();
                descriptor
            } else {
                let mut writer = config.wrap(&mut entry);
                writer.write_all(bytes).unwrap();
                writer.finish().unwrap().1
            };
            entry.finish(packed).unwrap();
        }
        archive.finish().unwrap();
        output
    }

    fn grey(pixel: u8) -> Vec<u8> {
        testing::png(1, 1, ColorType::Grayscale, &[pixel])
    }

    #[test]
    fn stored_and_deflated_images_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        let files = [("test/b/1.png", grey(51)), ("train/a/1.png", grey(0)), ("train/b/1.png", grey(255))];
        for method in [CompressionMethod::STORE, CompressionMethod::DEFLATE] {
            fs::write(&path, zip(&files, method)).unwrap();
            let train = open(&path, &Options::default()).unwrap();
            assert_eq!((testing::inputs(&train), testing::targets(&train)), (vec![0.0, 1.0], vec![0.0, 1.0]));
            let test = open(&path, &Options { part: Part::Test, ..Options::default() }).unwrap();
            assert_eq!(testing::inputs(&test), [0.2]);
        }
    }

    #[test]
    fn faults_name_the_archive_and_the_image() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        let read = |bytes: Vec<u8>| {
            fs::write(&path, bytes).unwrap();
            let outcome = open(&path, &Options::default()).and_then(|images| testing::read_all(&images));
            outcome.map(|_| ()).unwrap_err().to_string()
        };
        let error =
            read(zip(&[("a/1.png", grey(1)), ("a/2.png", b"text".to_vec())], CompressionMethod::STORE));
        assert!(error.ends_with("a.zip, a/2.png: it is neither JPEG nor PNG"), "{error}");
        let error = read(zip(&[("1.png", grey(1))], CompressionMethod::STORE));
        assert!(error.contains("no folders with images"), "{error}");
        assert!(read(zip(&[], CompressionMethod::STORE)).contains("no folders with images"));
        assert!(read(Vec::new()).contains("it is no zip, damaged or cut short"));
    }

    #[test]
    fn no_damage_is_fatal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        for method in [CompressionMethod::STORE, CompressionMethod::DEFLATE] {
            fs::write(&path, zip(&[("a/1.png", grey(1)), ("b/2.png", grey(2))], method)).unwrap();
            testing::damage(&path, &path, &Options::default(), true);
        }
    }

    #[test]
    fn cifar_10_is_read() {
        let Some(data) = testing::real_data("images") else { return };
        for (file, each, read) in
            [("cifar10_test2000_jpeg.zip", 200, 2000), ("cifar10_train_jpeg.zip", 5000, 5000)]
        {
            let cifar = open(data.join(file), &Options::default()).unwrap();
            assert_eq!((cifar.len(), cifar.input_shape()), (10 * each, &[32, 32, 3][..]));
            let (mut input, mut target) = (vec![0.0; cifar.input_len()], [0.0]);
            // Evenly spread, so that all classes come the same number of times.
            let mut labels = Vec::new();
            for index in (0..cifar.len()).step_by(cifar.len() / read) {
                cifar.read(index, &mut input, &mut target).unwrap();
                labels.push(target[0]);
            }
            assert_eq!(testing::counts(&labels), [read / 10; 10]);
        }
    }
}

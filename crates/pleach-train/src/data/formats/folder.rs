//! A folder of images.

use std::path::{Path, PathBuf};

use super::pictures::{self, Store};
use super::{Format, Options};
use crate::data::{Dataset, Error, files};

pub(super) const FORMAT: Format = Format {
    name: "folder",
    looks_like: "a folder with CLASS/NAME.jpg, .jpeg or .png, or the same in train/ and test/",
    open,
};

/// How deep images lie: `FOLDER/train/CLASS/NAME.jpg` and one more.
const DEPTH: usize = 4;

fn open(path: &Path, options: &Options) -> Result<Option<Dataset>, Error> {
    if !path.is_dir() {
        return Ok(None);
    }
    let mut listing = Vec::new();
    list(path, "", DEPTH, &mut listing)?;
    let store = Folder(listing.iter().map(|name| path.join(name)).collect());
    pictures::open(FORMAT.name, path, &listing, Box::new(store), options)
}

/// Appends what lies in a folder, which has the name `name` or none.
fn list(folder: &Path, name: &str, depth: usize, listing: &mut Vec<String>) -> Result<(), Error> {
    for path in files::list(folder)? {
        let own = format!("{name}{}", files::name(&path));
        if !path.is_dir() {
            listing.push(own);
        } else if depth > 1 {
            let own = format!("{own}/");
            list(&path, &own, depth - 1, listing)?;
            listing.push(own);
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Folder(Vec<PathBuf>);

impl Store for Folder {
    fn read(&self, place: usize) -> Result<Vec<u8>, Error> {
        let path = &self.0[place];
        std::fs::read(path).map_err(Error::read(path))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use png::ColorType;

    use super::*;
    use crate::data::{Target, open, testing};

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (class, name, grey) in [("cat", "2.png", 20), ("cat", "1.png", 10), ("ant", "x.png", 30)] {
            fs::create_dir_all(folder.path().join(class)).unwrap();
            let file = testing::png(1, 2, ColorType::Grayscale, &[grey, 255]);
            fs::write(folder.path().join(class).join(name), file).unwrap();
        }
        folder
    }

    #[test]
    fn images_are_read_by_class_and_name() {
        let folder = folder();
        let images = open(folder.path(), &Options::default()).unwrap();
        assert_eq!(images.input_shape(), [1, 2, 1]);
        assert_eq!(images.target(), &Target::Classes(vec!["ant".into(), "cat".into()]));
        assert_eq!(testing::targets(&images), [0.0, 1.0, 1.0]);
        assert_eq!(testing::inputs(&images), [30.0, 255.0, 10.0, 255.0, 20.0, 255.0].map(|p: f32| p / 255.0));
        let colour = Options { channels: Some(3), size: Some([4, 4]), ..Options::default() };
        let colour = open(folder.path(), &colour).unwrap();
        assert_eq!(colour.input_shape(), [4, 4, 3]);
        testing::inputs(&colour);
    }

    #[test]
    fn faults_name_the_image() {
        let folder = folder();
        let read = || {
            let images = open(folder.path(), &Options::default())?;
            testing::read_all(&images).map(|_| ())
        };
        let path = folder.path().join("cat/3.png");
        for (bytes, expected) in [
            (
                testing::png(2, 2, ColorType::Grayscale, &[0; 4]),
                "cat/3.png: 2×2 pixels, and the first image has 1×2",
            ),
            (b"GIF89a".to_vec(), "cat/3.png: it is neither JPEG nor PNG"),
            (Vec::new(), "cat/3.png: it is neither JPEG nor PNG"),
        ] {
            fs::write(&path, bytes).unwrap();
            let error = read().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(folder.path().join("dog")).unwrap();
        let error = read().unwrap_err().to_string();
        assert!(error.contains("dog/: the class has no image"), "{error}");
    }

    #[test]
    fn a_file_that_vanishes_is_an_error() {
        let folder = folder();
        let images = open(folder.path(), &Options::default()).unwrap();
        fs::remove_file(folder.path().join("cat/1.png")).unwrap();
        let error = testing::read_all(&images).unwrap_err();
        assert!(error.to_string().ends_with("cat/1.png"), "{error}");
    }

    #[test]
    fn no_damage_is_fatal() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        let noise: Vec<u8> = (0..8 * 8 * 3_u32).map(|i| (i * i % 251) as u8).collect();
        for (name, bytes) in [
            ("1.png", testing::png(8, 8, ColorType::Rgb, &noise)),
            ("1.jpg", testing::jpeg(8, 8, jpeg_encoder::ColorType::Rgb, &noise)),
            ("1.jpg", testing::progressive_jpeg(8, 8, &noise)),
        ] {
            let file = folder.path().join("a").join(name);
            fs::write(&file, bytes).unwrap();
            testing::damage(folder.path(), &file, &Options::default(), true);
            fs::remove_file(&file).unwrap();
        }
    }
}

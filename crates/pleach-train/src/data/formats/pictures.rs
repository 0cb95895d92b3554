//! Images in folders that are named for their classes, wherever the folders are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use super::{Options, Part};
use crate::data::dataset::{Base, Source, Target};
use crate::data::image::{Image, decode};
use crate::data::{Dataset, Error};

/// What holds files.
pub(super) trait Store: fmt::Debug + Send + Sync {
    /// The bytes of a file by its place in the listing.
    fn read(&self, place: usize) -> Result<Vec<u8>, Error>;
}

pub(super) const ENDS: &[&str] = &[".jpg", ".jpeg", ".png"];
const TRAIN: &[&str] = &["train", "training"];
const TEST: &[&str] = &["test", "testing", "val", "valid", "validation"];

/// Opens the images of a listing of `[…/]CLASS/NAME.jpg`; folders in it end with `/`.
pub(super) fn open(
    format: &'static str,
    path: &Path,
    listing: &[String],
    store: Box<dyn Store>,
    options: &Options,
) -> Result<Option<Dataset>, Error> {
    if let Some(channels) = options.channels.filter(|channels| ![1, 3].contains(channels)) {
        let reason = format!("{channels}; images are read with 1 channel (grey) or 3 (colour)");
        return Err(Error::Option { option: "channels", reason });
    }
    if let Some([height, width]) = options.size
        && (height == 0 || width == 0 || height.saturating_mul(width) > 1 << 26)
    {
        let reason = format!("{height}×{width}; images have a pixel at least, and at most 2²⁶");
        return Err(Error::Option { option: "size", reason });
    }
    let Some(found) = arrange(path, listing, options.part)? else { return Ok(None) };
    let names = options.classes.of_names(path, &found.keys().map(ToString::to_string).collect())?;
    let place_of = |class: &str| names.iter().position(|name| name == class).expect("the name was found");
    let mut files = Vec::new();
    for (class, places) in &found {
        let class = place_of(class);
        files.extend(places.iter().map(|&place| File { place, name: listing[place].clone(), class }));
    }
    let mut pictures = Pictures {
        path: path.to_owned(),
        store,
        files,
        scale: options.size,
        channels: options.channels,
        size: None,
    };
    let first = pictures.image(0)?;
    let input = vec![first.height, first.width, first.channels];
    pictures.size = Some([first.height, first.width]);
    pictures.channels = Some(first.channels);
    let base = Base {
        format,
        path: path.to_owned(),
        input,
        target: Target::Classes(names),
        source: Box::new(pictures),
    };
    Dataset::new(base).map(Some)
}

/// The places of the images of each class, in the order of their names; none if there are no images
/// in folders.
fn arrange<'a>(
    path: &Path,
    listing: &'a [String],
    part: Part,
) -> Result<Option<BTreeMap<&'a str, Vec<usize>>>, Error> {
    let hidden = |name: &str| name.split('/').any(|step| step.starts_with('.') || step == "__MACOSX");
    let mut order: Vec<usize> = (0..listing.len()).filter(|&place| !hidden(&listing[place])).collect();
    order.sort_by_key(|&place| &listing[place]);
    let images: Vec<(usize, &str, &str)> = order
        .iter()
        .filter(|&&place| ENDS.iter().any(|end| listing[place].to_lowercase().ends_with(end)))
        .filter_map(|&place| {
            let (folder, _) = listing[place].rsplit_once('/')?;
            let (root, class) = folder.rsplit_once('/').unwrap_or(("", folder));
            Some((place, root, class))
        })
        .collect();
    let roots: BTreeSet<&str> = images.iter().map(|&(_, root, _)| root).collect();
    if roots.is_empty() {
        return Ok(None);
    }
    let root = choose(path, &roots, part)?;
    let mut classes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for &(place, of, class) in &images {
        if of == root {
            classes.entry(class).or_default().push(place);
        }
    }
    for &place in &order {
        let Some(folder) = listing[place].strip_suffix('/') else { continue };
        let (of, class) = folder.rsplit_once('/').unwrap_or(("", folder));
        if of == root && !classes.contains_key(class) {
            let reason =
                format!("the class has no image ({}); add some or remove the folder", ENDS.join(", "));
            return Err(Error::record(path, &listing[place], reason));
        }
    }
    Ok(Some(classes))
}

/// Under which folder the classes of a part lie.
fn choose<'a>(path: &Path, roots: &BTreeSet<&'a str>, part: Part) -> Result<&'a str, Error> {
    let part_of = |root: &str| {
        let name = root.rsplit('/').next().unwrap_or_default().to_lowercase();
        let is = |names: &[&str]| names.contains(&name.as_str());
        if is(TRAIN) { Some(Part::Train) } else { is(TEST).then_some(Part::Test) }
    };
    let of_part: Vec<&str> = roots.iter().copied().filter(|root| part_of(root) == Some(part)).collect();
    match (of_part.as_slice(), roots.len(), part) {
        ([root], _, _) => Ok(root),
        // What has one part has it for training.
        ([], 1, Part::Train) => Ok(roots.first().expect("there is one")),
        ([], _, Part::Test)
            if roots.iter().all(|root| part_of(root) == Some(Part::Train)) || roots.len() == 1 =>
        {
            Err(Error::NoPart { path: path.to_owned(), part })
        }
        _ => {
            let places: Vec<String> = roots.iter().take(4).map(|root| format!("{root}/CLASS")).collect();
            let reason = format!(
                "images lie at {}; give one of these folders, or name them train and test",
                places.join(", ")
            );
            Err(Error::format(path, reason))
        }
    }
}

#[derive(Debug)]
struct Pictures {
    path: PathBuf,
    store: Box<dyn Store>,
    files: Vec<File>,
    /// The size to which all are scaled.
    scale: Option<[usize; 2]>,
    channels: Option<usize>,
    /// The size of the first.
    size: Option<[usize; 2]>,
}

#[derive(Debug)]
struct File {
    place: usize,
    name: String,
    class: usize,
}

impl Pictures {
    fn image(&self, index: usize) -> Result<Image, Error> {
        let file = &self.files[index];
        let bytes = self.store.read(file.place)?;
        let size = if self.scale.is_some() { None } else { self.size };
        let image = decode(&bytes, self.channels, size)
            .map_err(|reason| Error::record(&self.path, &file.name, reason))?;
        Ok(match self.scale {
            Some(size) => image.covering(size),
            None => image,
        })
    }
}

impl Source for Pictures {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn read(&self, index: usize, input: &mut [f32], target: &mut [f32]) -> Result<(), Error> {
        let image = self.image(index)?;
        for (share, &byte) in input.iter_mut().zip(&image.pixels) {
            *share = f32::from(byte) / 255.0;
        }
        target[0] = self.files[index].class as f32;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(listing: &[&str], part: Part, expected: Result<&[(&str, usize)], &str>) {
        let listing: Vec<String> = listing.iter().map(ToString::to_string).collect();
        match (arrange(Path::new("p"), &listing, part), expected) {
            (Ok(found), Ok(expected)) => {
                let found: Vec<(&str, usize)> =
                    found.iter().flatten().map(|(class, places)| (*class, places.len())).collect();
                assert_eq!(found, expected);
            }
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn classes_are_the_folders_of_images() {
        use Part::{Test, Train};
        check(&["b/1.jpg", "a/2.PNG", "b/3.jpeg", "a/notes.txt"], Train, Ok(&[("a", 1), ("b", 2)]));
        let parts = ["x/train/a/1.jpg", "x/train/b/1.jpg", "x/val/b/1.jpg", "x/", "x/val/", "README.txt"];
        check(&parts, Train, Ok(&[("a", 1), ("b", 1)]));
        check(&parts, Test, Ok(&[("b", 1)]));
        check(&["test/a/1.jpg"], Train, Ok(&[("a", 1)]));
        check(&["test/a/1.jpg"], Test, Ok(&[("a", 1)]));
        check(&["a/1.jpg"], Test, Err("no test part"));
        check(&["train/a/1.jpg"], Test, Err("no test part"));
        check(&["1.jpg", "b/x.txt"], Train, Ok(&[]));
        check(&[".git/1.jpg", "__MACOSX/a/1.jpg", "a/._1.jpg"], Train, Ok(&[]));
    }

    #[test]
    fn what_is_unclear_is_an_error() {
        check(&["x/a/1.jpg", "y/a/1.jpg"], Part::Train, Err("images lie at x/CLASS, y/CLASS; give one"));
        check(&["a/1.jpg", "a/b/1.jpg"], Part::Train, Err("images lie at /CLASS, a/CLASS"));
        check(&["a/1.jpg", "b/", "b/n.txt"], Part::Train, Err("p, b/: the class has no image (.jpg"));
        check(&["train/a/1.jpg", "train/b/"], Part::Train, Err("train/b/: the class has no image"));
    }
}

//! Small data sets, and damage to files.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::classes::whole;
use super::dataset::{Base, Target};
use super::table::{Numbers, Table};
use super::{Dataset, Error, Options, open};

/// The numbers 0, 1, … as inputs and, negative, as targets.
pub(crate) fn numbers(count: u16) -> Dataset {
    let inputs = Numbers::Floats((0..count).map(f32::from).collect());
    let targets = (0..count).map(|i| -f32::from(i)).collect();
    Dataset::new(Base {
        format: "test",
        path: PathBuf::from("numbers"),
        input: vec![1],
        target: Target::Values(1),
        source: Box::new(Table::new(inputs, targets, 1)),
    })
    .unwrap()
}

/// Reads everything.
pub(crate) fn read_all(dataset: &Dataset) -> Result<(Vec<f32>, Vec<f32>), Error> {
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    let (mut input, mut target) = (vec![0.0; dataset.input_len()], vec![0.0; dataset.target_len()]);
    for index in 0..dataset.len() {
        dataset.read(index, &mut input, &mut target)?;
        inputs.extend_from_slice(&input);
        targets.extend_from_slice(&target);
    }
    Ok((inputs, targets))
}

pub(crate) fn inputs(dataset: &Dataset) -> Vec<f32> {
    read_all(dataset).unwrap().0
}

pub(crate) fn targets(dataset: &Dataset) -> Vec<f32> {
    read_all(dataset).unwrap().1
}

/// How many examples each class has.
pub(crate) fn counts(labels: &[f32]) -> Vec<usize> {
    let mut counts = Vec::new();
    for &label in labels {
        let class = whole(label.into()).expect("a class is a whole number");
        counts.resize(counts.len().max(class + 1), 0);
        counts[class] += 1;
    }
    counts
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// Opens and reads `data` while `file`, a part of it, is cut short or has a wrong byte at up to 400
/// places: whatever comes of it, it is no panic, and errors name a file. With `cut_is_error` no
/// shorter file passes for a whole one.
pub(crate) fn damage(data: &Path, file: &Path, options: &Options, cut_is_error: bool) {
    let whole = fs::read(file).unwrap();
    let outcome = |bytes: &[u8]| {
        // Some file systems wait for the disk when a file is written over.
        fs::remove_file(file).unwrap();
        fs::write(file, bytes).unwrap();
        let outcome = open(data, options).and_then(|dataset| read_all(&dataset));
        if let Err(error) = &outcome {
            let folder = data.parent().unwrap().to_str().unwrap();
            assert!(error.to_string().contains(folder), "no path in {error:?}");
        }
        outcome
    };
    assert!(outcome(&whole).is_ok(), "{:?}", outcome(&whole));
    let step = whole.len().div_ceil(400);
    for at in (0..whole.len()).step_by(step) {
        let cut = outcome(&whole[..at]);
        assert!(!cut_is_error || cut.is_err(), "{at} of {} bytes pass", whole.len());
        for wrong in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= wrong;
            let _ = outcome(&bytes);
        }
    }
    fs::write(file, &whole).unwrap();
}

/// A folder of real data, where there is one.
pub(crate) fn real_data(folder: &str) -> Option<PathBuf> {
    let data = std::env::var_os("PLEACH_DATA").map(|data| Path::new(&data).join(folder));
    if data.is_none() {
        skip();
    }
    data
}

#[expect(clippy::print_stderr, reason = "a test that did not run must not look like one that passed")]
fn skip() {
    eprintln!("SKIPPED: set PLEACH_DATA to the folder of real data to run this test");
}

pub(crate) fn png(height: u32, width: u32, kind: png::ColorType, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(kind);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(pixels).unwrap();
    writer.finish().unwrap();
    bytes
}

pub(crate) fn jpeg(height: u16, width: u16, kind: jpeg_encoder::ColorType, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    jpeg_encoder::Encoder::new(&mut bytes, 90).encode(pixels, width, height, kind).unwrap();
    bytes
}

pub(crate) fn progressive_jpeg(height: u16, width: u16, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, 90);
    encoder.set_progressive(true);
    encoder.encode(pixels, width, height, jpeg_encoder::ColorType::Rgb).unwrap();
    bytes
}

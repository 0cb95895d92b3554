//! Examples that lie in memory.

use super::Error;
use super::dataset::Source;

/// Inputs and targets of a fixed width, one row an example.
#[derive(Debug)]
pub(crate) struct Table {
    inputs: Numbers,
    targets: Vec<f32>,
    /// The number of targets of a row.
    width: usize,
}

/// Numbers as they were stored.
#[derive(Debug)]
pub(crate) enum Numbers {
    Floats(Vec<f32>),
    /// Pixels, as shares of `brightest`.
    Pixels {
        bytes: Vec<u8>,
        brightest: f32,
    },
}

impl Table {
    /// `targets` has `width` numbers an example, and `inputs` as many for each.
    pub(crate) fn new(inputs: Numbers, targets: Vec<f32>, width: usize) -> Table {
        let len = match &inputs {
            Numbers::Floats(floats) => floats.len(),
            Numbers::Pixels { bytes, .. } => bytes.len(),
        };
        let rows = targets.len() / width.max(1);
        assert!(targets.len() == rows * width && len.is_multiple_of(rows.max(1)));
        Table { inputs, targets, width }
    }
}

impl Source for Table {
    fn len(&self) -> usize {
        self.targets.len() / self.width.max(1)
    }

    fn read(&self, index: usize, input: &mut [f32], target: &mut [f32]) -> Result<(), Error> {
        let from = index * input.len();
        match &self.inputs {
            Numbers::Floats(floats) => input.copy_from_slice(&floats[from..from + input.len()]),
            Numbers::Pixels { bytes, brightest } => {
                for (share, &byte) in input.iter_mut().zip(&bytes[from..]) {
                    *share = f32::from(byte) / brightest;
                }
            }
        }
        target.copy_from_slice(&self.targets[index * self.width..][..self.width]);
        Ok(())
    }
}

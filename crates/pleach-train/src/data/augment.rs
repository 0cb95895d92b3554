//! Changes to images that do not change what they show.

use serde::{Deserialize, Serialize};

use super::draw::{Draw, Purpose};
use super::{Dataset, Error, Normalization};

/// Random changes of images; by default none.
///
/// What happens to an example is a function of the seed, the epoch and the example, and each change
/// is drawn whether others are made or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Augment {
    /// Moves images by up to this many pixels each way; what comes into sight is black.
    pub crop_padding: usize,
    /// Mirrors every second image left to right.
    pub flip: bool,
    /// The side of a square whose centre lies anywhere in the image and which is set to 0, the mean of
    /// what is normalised; 0 for none ("Cutout", arXiv:1708.04552).
    pub cutout: usize,
}

impl Augment {
    /// # Errors
    /// [`Error::Option`] if it changes something and the inputs are no images.
    pub(crate) fn check(&self, dataset: &Dataset) -> Result<(), Error> {
        if *self != Augment::default() && dataset.input_shape().len() != 3 {
            let reason = "only images (height × width × channels) are moved, flipped and cut; leave it out";
            return Err(Error::Option { option: "augment", reason: reason.into() });
        }
        Ok(())
    }

    /// Writes `image` of `[height, width, channels]`, changed and normalised.
    pub(crate) fn apply(
        &self,
        mut draw: Draw,
        image: &[f32],
        sizes: [usize; 3],
        normalization: Option<&Normalization>,
        output: &mut [f32],
    ) {
        let [height, width, channels] = sizes;
        let reach = 2_usize.saturating_mul(self.crop_padding).saturating_add(1);
        let (down, right) = (draw.below(reach), draw.below(reach));
        let flip = draw.bits() >> 63 == 1 && self.flip;
        let (centre_y, centre_x) = (draw.below(height), draw.below(width));
        let line = width * channels;
        let columns = seen(right, self.crop_padding, width);
        for (y, row) in output.chunks_exact_mut(line).enumerate() {
            row.fill(0.0);
            if !columns.is_empty() && seen(down, self.crop_padding, height).contains(&y) {
                // What is seen has a place in the image, so neither difference is negative.
                let (y, x) = (y + down - self.crop_padding, columns.start + right - self.crop_padding);
                let part = &mut row[columns.start * channels..columns.end * channels];
                part.copy_from_slice(&image[y * line + x * channels..][..part.len()]);
            }
            if flip {
                row.reverse();
                row.chunks_exact_mut(channels).for_each(<[f32]>::reverse);
            }
        }
        if let Some(normalization) = normalization {
            normalization.apply(output);
        }
        if self.cutout > 0 {
            let (rows, columns) = (hole(centre_y, self.cutout, height), hole(centre_x, self.cutout, width));
            for y in rows {
                output[(y * width + columns.start) * channels..(y * width + columns.end) * channels]
                    .fill(0.0);
            }
        }
    }
}

/// The places that show the image after it was moved by `by - padding` towards the start: those that
/// come from `at + by - padding`.
fn seen(by: usize, padding: usize, size: usize) -> std::ops::Range<usize> {
    let start = padding.saturating_sub(by).min(size);
    let end = size.saturating_sub(by.saturating_sub(padding));
    start..end.max(start)
}

/// The part of a hole around `centre` that lies in the image.
fn hole(centre: usize, side: usize, size: usize) -> std::ops::Range<usize> {
    let before = side / 2;
    centre.saturating_sub(before)..centre.saturating_add(side - before).min(size)
}

impl Draw {
    /// The stream of an example.
    pub(crate) fn of_example(seed: u64, epoch: u64, example: usize) -> Draw {
        Draw::new(Purpose::Augment, [seed, epoch, example as u64])
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the results are exact")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The distinct results for 300 examples of a 2×3 image of two channels.
    fn results(augment: Augment) -> BTreeSet<Vec<u32>> {
        let image: Vec<f32> = (1..=12_u8).map(f32::from).collect();
        (0..300)
            .map(|example| {
                let mut output = [f32::NAN; 12];
                augment.apply(Draw::of_example(1, 2, example), &image, [2, 3, 2], None, &mut output);
                output.map(f32::to_bits).to_vec()
            })
            .collect()
    }

    fn bits(image: [u8; 12]) -> Vec<u32> {
        image.map(|pixel| f32::from(pixel).to_bits()).to_vec()
    }

    const IMAGE: [u8; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

    #[test]
    fn nothing_is_changed_by_default() {
        assert_eq!(results(Augment::default()), [bits(IMAGE)].into());
    }

    #[test]
    fn a_flip_turns_rows_around() {
        let flipped = [5, 6, 3, 4, 1, 2, 11, 12, 9, 10, 7, 8];
        let all = results(Augment { flip: true, ..Augment::default() });
        assert_eq!(all, [bits(IMAGE), bits(flipped)].into());
    }

    #[test]
    fn a_crop_moves_each_way() {
        let all = results(Augment { crop_padding: 1, ..Augment::default() });
        assert_eq!(all.len(), 9);
        for moved in [IMAGE, [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4], [9, 10, 11, 12, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert!(all.contains(&bits(moved)), "{moved:?}");
        }
        // Nothing is left of an image that is moved further than its size.
        for crop_padding in [2, 3, 4, 10, usize::MAX] {
            let all = results(Augment { crop_padding, ..Augment::default() });
            assert!(all.contains(&bits([0; 12])) || crop_padding == 2 && all.len() == 16);
        }
    }

    #[test]
    fn a_hole_lies_around_any_pixel() {
        let all = results(Augment { cutout: 1, ..Augment::default() });
        assert_eq!(all.len(), 6);
        assert!(all.contains(&bits([1, 2, 0, 0, 5, 6, 7, 8, 9, 10, 11, 12])));
        assert_eq!(results(Augment { cutout: 6, ..Augment::default() }), [bits([0; 12])].into());
        results(Augment { cutout: usize::MAX, ..Augment::default() });
    }

    #[test]
    fn a_change_does_not_depend_on_the_others() {
        let image: Vec<f32> = (1..=12_u8).map(f32::from).collect();
        for example in 0..20 {
            let output = |augment: Augment| {
                let mut output = [0.0; 12];
                augment.apply(Draw::of_example(1, 2, example), &image, [2, 3, 2], None, &mut output);
                output
            };
            let flipped = output(Augment { flip: true, ..Augment::default() });
            let both = output(Augment { flip: true, cutout: 1, ..Augment::default() });
            let cut = flipped.iter().zip(&both).filter(|(flipped, both)| flipped != both).count();
            assert_eq!(cut, 2);
        }
    }
}

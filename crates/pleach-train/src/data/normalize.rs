//! Inputs around zero, of about the same size.

use serde::{Deserialize, Serialize};

use super::{Dataset, Error, Target};

/// Turns every input `x` of a feature into `(x - mean) / deviation`.
///
/// A feature is a place on the last axis: a channel of images, a column of tables. One number in each
/// list stands for all features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Normalization {
    /// The mean of each feature.
    pub mean: Vec<f32>,
    /// The standard deviation of each feature, larger than 0.
    pub deviation: Vec<f32>,
}

impl Normalization {
    /// Measures the features of all examples in their order, in `f64`. What does not vary gets the
    /// deviation 1.
    ///
    /// # Errors
    /// [`Error::Option`] if the inputs are tokens; those of reading an example.
    #[expect(clippy::cast_possible_truncation, reason = "networks work on f32")]
    pub fn measure(dataset: &Dataset) -> Result<Normalization, Error> {
        if matches!(dataset.target(), Target::Tokens(_)) {
            return Err(fault("tokens have no mean"));
        }
        let features = dataset.input_shape().last().copied().unwrap_or(1);
        let (mut input, mut target) = (vec![0.0; dataset.input_len()], vec![0.0; dataset.target_len()]);
        dataset.read(0, &mut input, &mut target)?;
        // Sums of differences from the first example lose no digits when numbers are large and alike.
        let shift: Vec<f64> = input[..features].iter().map(|&first| first.into()).collect();
        let (mut sums, mut squares) = (vec![0.0; features], vec![0.0; features]);
        for index in 0..dataset.len() {
            dataset.read(index, &mut input, &mut target)?;
            for position in input.chunks_exact(features) {
                for (feature, &value) in position.iter().enumerate() {
                    let difference = f64::from(value) - shift[feature];
                    sums[feature] += difference;
                    squares[feature] += difference * difference;
                }
            }
        }
        let count = (dataset.len() * (dataset.input_len() / features)) as f64;
        let mean = sums.iter().zip(&shift).map(|(sum, shift)| (shift + sum / count) as f32).collect();
        let deviation = |(sum, square): (&f64, &f64)| {
            let variance = (square / count - (sum / count) * (sum / count)).max(0.0);
            let deviation = variance.sqrt() as f32;
            if deviation > 0.0 { deviation } else { 1.0 }
        };
        Ok(Normalization { mean, deviation: sums.iter().zip(&squares).map(deviation).collect() })
    }

    /// # Errors
    /// [`Error::Option`] if it does not suit the data set.
    pub(crate) fn check(&self, dataset: &Dataset) -> Result<(), Error> {
        let features = dataset.input_shape().last().copied().unwrap_or(1);
        if matches!(dataset.target(), Target::Tokens(_)) {
            return Err(fault("tokens cannot be normalised; leave it out"));
        }
        let lengths = [self.mean.len(), self.deviation.len()];
        if lengths != [1, 1] && lengths != [features, features] {
            let [means, deviations] = lengths;
            let reason = format!(
                "{means} means and {deviations} deviations for {features} features; give one for each, or one for all"
            );
            return Err(Error::Option { option: "normalization", reason });
        }
        let is_sound = |deviation: &f32| *deviation > 0.0 && deviation.is_finite();
        if !self.mean.iter().all(|mean| mean.is_finite()) || !self.deviation.iter().all(is_sound) {
            return Err(fault("means must be finite, and deviations larger than 0"));
        }
        Ok(())
    }

    /// Changes the floats of one example.
    pub(crate) fn apply(&self, example: &mut [f32]) {
        if let ([mean], [deviation]) = (self.mean.as_slice(), self.deviation.as_slice()) {
            for value in example {
                *value = (*value - mean) / deviation;
            }
            return;
        }
        for position in example.chunks_exact_mut(self.mean.len()) {
            for ((value, mean), deviation) in position.iter_mut().zip(&self.mean).zip(&self.deviation) {
                *value = (*value - mean) / deviation;
            }
        }
    }
}

fn fault(reason: &str) -> Error {
    Error::Option { option: "normalization", reason: reason.into() }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the results are exact")]
mod tests {
    use super::*;
    use crate::data::{Options, open, testing};

    fn table(text: &str) -> Dataset {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        open(&path, &Options::default()).unwrap()
    }

    #[test]
    fn features_get_mean_0_and_deviation_1() {
        let table = table("16777000,5,0\n16777002,5,0\n16777001,5,0\n16777001,5,0\n");
        let normalization = Normalization::measure(&table).unwrap();
        assert_eq!(normalization.mean, [16_777_001.0, 5.0]);
        assert_eq!(normalization.deviation, [0.5_f32.sqrt(), 1.0]);
        normalization.check(&table).unwrap();
        let mut example = [16_777_002.0, 5.0];
        normalization.apply(&mut example);
        assert_eq!(example, [2.0_f32.sqrt(), 0.0]);
    }

    #[test]
    fn digits_have_the_statistics_that_numpy_finds() {
        // numpy: x = load_digits().data / 16; x.mean(), x.std()
        let digits = open("digits", &Options::default()).unwrap();
        let Normalization { mean, deviation } = Normalization::measure(&digits).unwrap();
        assert!(
            (mean[0] - 0.305_260_3).abs() < 1e-6 && (deviation[0] - 0.376_049_2).abs() < 1e-6,
            "{mean:?} {deviation:?}"
        );
    }

    #[test]
    fn what_does_not_suit_is_an_error() {
        let table = testing::numbers(3);
        let check = |mean: &[f32], deviation: &[f32]| {
            Normalization { mean: mean.into(), deviation: deviation.into() }.check(&table)
        };
        assert!(check(&[1.0], &[2.0]).is_ok());
        for (mean, deviation) in [
            (&[1.0, 1.0][..], &[1.0][..]),
            (&[1.0, 1.0], &[1.0, 1.0]),
            (&[], &[]),
            (&[1.0], &[0.0]),
            (&[f32::NAN], &[1.0]),
            (&[1.0], &[f32::INFINITY]),
        ] {
            assert!(matches!(check(mean, deviation), Err(Error::Option { .. })), "{mean:?} {deviation:?}");
        }
    }
}

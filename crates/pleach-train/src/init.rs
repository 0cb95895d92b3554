//! Values of parameters before the first step.

use pleach_tensor::Init;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use xxhash_rust::xxh3::xxh3_64;

/// The values of the parameter `name`: a function of the seed and the name alone, so that a layer
/// more or less elsewhere changes nothing.
pub(crate) fn values(init: Init, len: usize, seed: u64, name: &str) -> Vec<f32> {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&xxh3_64(name.as_bytes()).to_le_bytes());
    let mut rng = ChaCha8Rng::from_seed(key);
    // In (0, 1).
    let mut uniform = || ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    #[expect(clippy::cast_possible_truncation, reason = "parameters are floats")]
    let float = |x: f64| x as f32;
    match init {
        Init::Constant(value) => vec![value; len],
        Init::Uniform(bound) => (0..len).map(|_| float((2.0 * uniform() - 1.0) * f64::from(bound))).collect(),
        // Box and Muller 1958; from `libm`, since the system's logarithm may differ in the last bit.
        Init::Normal(deviation) => (0..len)
            .map(|_| {
                let radius = (-2.0 * libm::log(uniform())).sqrt();
                let normal = radius * libm::cos(std::f64::consts::TAU * uniform());
                float(normal * f64::from(deviation))
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_values_have_their_mean_and_deviation() {
        let values = values(Init::Normal(0.5), 100_000, 1, "fc.weight");
        let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / 1e5;
        let square = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 1e5;
        // Five standard errors.
        assert!(mean.abs() < 0.008, "{mean}");
        assert!((square - 0.25).abs() < 0.006, "{square}");
    }

    #[test]
    fn values_depend_on_seed_and_name() {
        let get = |seed, name| values(Init::Uniform(1.0), 4, seed, name);
        assert_eq!(get(1, "a"), get(1, "a"));
        assert_ne!(get(1, "a"), get(2, "a"));
        assert_ne!(get(1, "a"), get(1, "b"));
        assert!(get(1, "a").iter().all(|x| x.abs() < 1.0));
    }
}

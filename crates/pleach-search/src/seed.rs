//! Random streams keyed by purpose and index, so that no choice depends on how many came before it.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The root of every random choice of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed(u64);

impl Seed {
    /// A seed as a user writes it.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The number itself.
    pub fn value(self) -> u64 {
        self.0
    }

    /// A seed of its own for `purpose` and `index`; adding one does not shift the others.
    #[must_use]
    pub fn child(self, purpose: &str, index: u64) -> Self {
        Self(xxh3_64_with_seed(purpose.as_bytes(), xxh3_64_with_seed(&index.to_le_bytes(), self.0)))
    }

    /// The stream `index` (a trial number, most often) of this seed.
    pub fn rng(self, index: u64) -> Rng {
        let mut inner = ChaCha8Rng::seed_from_u64(self.0);
        inner.set_stream(index);
        Rng { inner, spare: None }
    }
}

/// A counter-based random stream (`ChaCha8`).
///
/// The draws are our own short formulas, so that they stay the same when a dependency is updated.
#[derive(Clone, Debug)]
pub struct Rng {
    inner: ChaCha8Rng,
    spare: Option<f64>,
}

impl Rng {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.inner.next_u64()
    }

    /// Uniform in `[0, 1)`, a multiple of 2⁻⁵³.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in `0..n` without modulo bias.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "no integer is below 0");
        let limit = u64::MAX - u64::MAX % n;
        loop {
            let bits = self.bits();
            if bits < limit {
                return bits % n;
            }
        }
    }

    /// A uniform index of a slice of `len` elements.
    ///
    /// # Panics
    /// If `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below len, which is a usize")
    }

    /// Standard normal (Box and Muller, 1958; the second draw of a pair is kept).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.unit()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }

    /// Shuffles in place (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.index(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_keyed_by_seed_purpose_and_index() {
        let first = |seed: Seed, index| seed.rng(index).bits();
        let seed = Seed::new(7);
        assert_eq!(first(seed, 3), first(Seed::new(7), 3));
        let all = [
            first(seed, 3),
            first(seed, 4),
            first(Seed::new(8), 3),
            first(seed.child("a", 0), 3),
            first(seed.child("a", 1), 3),
            first(seed.child("b", 0), 3),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b));
        }
    }

    #[test]
    fn draws_have_the_stated_moments() {
        // 20,000 draws: the standard error of each mean is below 0.01, so 0.05 is past 5 of them.
        let mut rng = Seed::new(1).rng(0);
        let n = 20_000;
        let (mut u, mut z, mut zz) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            u += rng.unit();
            let draw = rng.normal();
            z += draw;
            zz += draw * draw;
        }
        let n = f64::from(n);
        assert!((u / n - 0.5).abs() < 0.05 && (z / n).abs() < 0.05 && (zz / n - 1.0).abs() < 0.05);
    }
}

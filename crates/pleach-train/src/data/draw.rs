//! Random numbers that are a function of what they are for.

/// A stream of random bits (`SplitMix64`: Steele, Lea, Flood, OOPSLA 2014) that starts at a hash of its
/// key, so that no draw depends on how many came before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw(u64);

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl Draw {
    /// The stream of a key, such as `[seed, epoch, example]`.
    pub(crate) fn new<const N: usize>(purpose: Purpose, key: [u64; N]) -> Draw {
        Draw(key.iter().fold(mix(purpose as u64), |state, &word| mix((state ^ word).wrapping_add(GAMMA))))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// Uniform in `0..n`, but for a bias below `n / 2⁶⁴`; 0 for an `n` of 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let product = u128::from(self.bits()) * n as u128;
        usize::try_from(product >> 64).expect("below n, which is a usize")
    }

    /// Shuffles in place (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// What draws are for; streams of different purposes have nothing to do with each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Split = 1,
    Order = 2,
    Augment = 3,
}

/// The finaliser of `SplitMix64`: a bijection that changes about half of the bits for any change.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_key_0_is_the_published_one() {
        // SplitMix64 with the seed 1234567, as its authors' C code gives it.
        let mut draw = Draw(1_234_567);
        assert_eq!([draw.bits(), draw.bits()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn keys_that_differ_anywhere_have_other_streams() {
        let first = |purpose, key: [u64; 3]| Draw::new(purpose, key).bits();
        let all = [
            first(Purpose::Order, [1, 2, 3]),
            first(Purpose::Augment, [1, 2, 3]),
            first(Purpose::Order, [2, 2, 3]),
            first(Purpose::Order, [1, 3, 3]),
            first(Purpose::Order, [1, 3, 2]),
            first(Purpose::Order, [0, 0, 0]),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b), "{i}");
        }
    }

    #[test]
    fn integers_below_n_are_uniform() {
        // 70,000 draws of 7: each count has mean 10,000 and standard deviation 93.
        let mut counts = [0_i32; 7];
        let mut draw = Draw::new(Purpose::Order, [5]);
        for _ in 0..70_000 {
            counts[draw.below(7)] += 1;
        }
        assert!(counts.iter().all(|count| (count - 10_000).abs() < 500), "{counts:?}");
    }
}

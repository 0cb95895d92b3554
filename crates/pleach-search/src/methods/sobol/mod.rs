//! The Sobol' sequence, scrambled.

use super::{Entry, Optimizer, Proposal};
use crate::{Error, History, Region};

pub(super) const ENTRY: Entry = Entry {
    name: "sobol",
    summary: "a scrambled Sobol' sequence: covers the space more evenly than random draws",
    options: &[],
    learns: false,
    deliberates: false,
    build: |history, _| Ok(Box::new(Sobol::new(history)?)),
};

/// Points of a Sobol' sequence with nested uniform scrambling (Owen 1995).
///
/// Trial `k` takes point `k`, so the points of the user's own trials are left out. Any 2^m
/// consecutive trials from a multiple of 2^m on form a net as good as the sequence allows.
/// A point that breaks a known constraint is replaced by a uniform draw inside.
#[derive(Debug)]
struct Sobol {
    sequence: Sequence,
}

impl Sobol {
    fn new(history: &History) -> Result<Self, Error> {
        let dim = history.space().unit_len();
        let seeds = (0..dim as u64).map(|i| history.seed().child(ENTRY.name, i).value()).collect();
        let Some(sequence) = Sequence::scrambled_by(seeds) else {
            let message =
                format!("it has direction numbers for {DIMENSIONS} coordinates, not {dim}; use random");
            return Err(Error::Unsuitable { method: ENTRY.name.into(), message });
        };
        Ok(Self { sequence })
    }
}

impl Optimizer for Sobol {
    fn ask(&self, history: &History, region: &Region, n: usize) -> Result<Vec<Proposal>, Error> {
        (0..n as u64)
            .map(|i| {
                let number = history.next_number() + i;
                let point = history.space().decode(&self.sequence.scrambled(number));
                if region.admits(history, &point) {
                    return Ok(point.into());
                }
                Ok(region.sample(history, &mut history.seed().child("sobol-inside", 0).rng(number))?.into())
            })
            .collect()
    }

    fn space_changed(&mut self, history: &History) -> Result<(), Error> {
        *self = Self::new(history)?;
        Ok(())
    }
}

/// Coordinates for which there are direction numbers.
const DIMENSIONS: usize = 2048;
/// Bits of a coordinate; also, of the index of a point.
const BITS: usize = 53;
/// See `directions.py`.
const DIRECTIONS: &[u8] = include_bytes!("directions.bin");

/// The sequence in some dimension.
///
/// # Source
/// Joe, Kuo, *Constructing Sobol Sequences with Better Two-Dimensional Projections*, SIAM J. Sci.
/// Comput. 30 (2008); the order of points is that of Antonov and Saleev (1979), as in `scipy.stats.qmc`.
#[derive(Debug)]
pub(super) struct Sequence {
    /// For each coordinate, what each bit of the index contributes.
    columns: Vec<[u64; BITS]>,
    /// For each coordinate, the seed of its scrambling.
    seeds: Vec<u64>,
}

impl Sequence {
    /// `None` if there are not enough direction numbers.
    fn new(dim: usize) -> Option<Self> {
        if dim > DIMENSIONS {
            return None;
        }
        let (pairs, _) = DIRECTIONS.as_chunks::<2>();
        let mut words = pairs.iter().map(|&pair| u64::from(u16::from_le_bytes(pair)));
        let mut columns = Vec::with_capacity(dim);
        columns.extend((dim > 0).then(|| std::array::from_fn(|k| 1 << (BITS - 1 - k))));
        while columns.len() < dim {
            let polynomial = words.next().expect("the file holds every dimension");
            let degree = polynomial.ilog2() as usize;
            // v_k = m_k / 2^k; then v_k is v_{k-s} shifted by s, plus the terms of the polynomial.
            let mut v = [0; BITS];
            for (k, m) in words.by_ref().take(degree).enumerate() {
                v[k] = m << (BITS - 1 - k);
            }
            for k in degree..BITS {
                v[k] = v[k - degree] ^ (v[k - degree] >> degree);
                for j in 1..degree {
                    if polynomial >> (degree - j) & 1 == 1 {
                        v[k] ^= v[k - j];
                    }
                }
            }
            columns.push(v);
        }
        Some(Self { columns, seeds: vec![0; dim] })
    }

    /// The sequence with a seed for the scrambling of each coordinate; `None` if there are not enough
    /// direction numbers.
    pub(super) fn scrambled_by(seeds: Vec<u64>) -> Option<Self> {
        let sequence = Self::new(seeds.len())?;
        Some(Self { seeds, ..sequence })
    }

    /// The digits of a coordinate of point `index` (modulo 2^53), as an integer of 53 bits.
    fn digits(columns: &[u64; BITS], index: u64) -> u64 {
        let mut gray = (index ^ (index >> 1)) & ((1 << BITS) - 1);
        let mut digits = 0;
        while gray != 0 {
            digits ^= columns[gray.trailing_zeros() as usize];
            gray &= gray - 1;
        }
        digits
    }

    /// The coordinates of point `index`.
    pub(super) fn scrambled(&self, index: u64) -> Vec<f64> {
        let coordinates = self.columns.iter().zip(&self.seeds);
        coordinates.map(|(columns, &seed)| fraction(scramble(Self::digits(columns, index), seed))).collect()
    }
}

fn fraction(digits: u64) -> f64 {
    digits as f64 / (1_u64 << BITS) as f64
}

/// Flips each digit or not, by a hash of the digits before it.
///
/// # Source
/// Owen, *Randomly Permuted (t,m,s)-Nets and (t,s)-Sequences* (1995): every node of the binary tree
/// of prefixes has an independent random bit.
fn scramble(digits: u64, seed: u64) -> u64 {
    let mut flips = 0;
    for k in 0..BITS {
        // The first k digits behind a 1 are a number of their own for each node.
        let node = (1 << k) | (digits >> (BITS - k));
        flips = flips << 1 | mix(seed.wrapping_add(node.wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 63;
    }
    digits ^ flips
}

/// The finaliser of `SplitMix64` (Steele, Lea, Flood 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    fn sequence(dim: usize, seed: u64) -> Sequence {
        let seeds = (0..dim as u64).map(|i| Seed::new(seed).child("sobol", i).value()).collect();
        Sequence { seeds, ..Sequence::new(dim).expect("there are enough dimensions") }
    }

    #[test]
    fn unscrambled_points_equal_scipy() {
        // scipy 1.17.1: qmc.Sobol(2048, scramble=False, bits=53).random(1024)
        let golden = [
            (3, 2, 0.75),
            (5, 3, 0.375),
            (37, 99, 0.171_875),
            (63, 2047, 0.109_375),
            (1000, 0, 0.219_726_562_5),
            (1000, 1, 0.096_679_687_5),
            (1000, 7, 0.899_414_062_5),
            (1000, 19, 0.725_585_937_5),
            (1000, 100, 0.768_554_687_5),
            (1000, 999, 0.200_195_312_5),
            (1000, 2047, 0.897_460_937_5),
        ];
        let sequence = Sequence::new(DIMENSIONS).unwrap();
        let value =
            |index, coordinate: usize| fraction(Sequence::digits(&sequence.columns[coordinate], index));
        for (index, coordinate, want) in golden {
            assert!(
                (value(index, coordinate) - want).abs() < 1e-15,
                "point {index}, coordinate {coordinate}"
            );
        }
        // The same, summed over all coordinates of point 37.
        assert!(((0..DIMENSIONS).map(|i| value(37, i)).sum::<f64>() - 1017.5625).abs() < 1e-9);
        assert!(Sequence::new(DIMENSIONS + 1).is_none());
    }

    #[test]
    fn scrambled_points_form_nets() {
        // Pairs of the first coordinates, with the t for which 2^m points fill every elementary
        // interval of volume 2^(t-m) equally: 0 for the first pair, and also for single coordinates.
        let m = 8;
        for seed in 0..5 {
            let sequence = sequence(6, seed);
            for block in [0, 3] {
                let points: Vec<Vec<f64>> =
                    (0..1 << m).map(|i| sequence.scrambled((block << m) + i)).collect();
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounds down")]
                let cell = |u: f64, bits: u32| (u * f64::from(1 << bits)) as usize;
                for i in 0..6 {
                    let mut cells: Vec<usize> = points.iter().map(|p| cell(p[i], m)).collect();
                    cells.sort_unstable();
                    cells.dedup();
                    assert_eq!(cells.len(), 1 << m, "coordinate {i}, seed {seed}");
                }
                for bits in 0..=m {
                    let mut cells: Vec<(usize, usize)> =
                        points.iter().map(|p| (cell(p[0], bits), cell(p[1], m - bits))).collect();
                    cells.sort_unstable();
                    cells.dedup();
                    assert_eq!(cells.len(), 1 << m, "{bits} bits of coordinate 0, seed {seed}");
                }
            }
        }
    }

    #[test]
    fn discrepancy_is_that_of_scipy() {
        // scipy 1.17.1: the mean of qmc.discrepancy(qmc.Sobol(5, scramble=True, rng=i, bits=53)
        // .random(256), method="CD") over i in range(64) is 2.424e-4 with a deviation of 2.3e-6;
        // that of uniform points is 6.0e-3. The band is 12 standard errors of a mean over 16 seeds.
        let mean = (0..16)
            .map(|seed| {
                let sequence = sequence(5, seed);
                centered_discrepancy(&(0..256).map(|i| sequence.scrambled(i)).collect::<Vec<_>>())
            })
            .sum::<f64>()
            / 16.0;
        assert!((mean - 2.424e-4).abs() < 7e-6, "{mean:e}");
    }

    /// Hickernell 1998, Eq. 5: the squared centred L2 discrepancy.
    fn centered_discrepancy(points: &[Vec<f64>]) -> f64 {
        let n = points.len() as f64;
        let product = |f: &dyn Fn(usize) -> f64| (0..points[0].len()).map(f).product::<f64>();
        let d = |x: f64| (x - 0.5).abs();
        let ones: f64 =
            points.iter().map(|x| product(&|i| 1.0 + 0.5 * d(x[i]) - 0.5 * d(x[i]).powi(2))).sum();
        let twos: f64 = points
            .iter()
            .flat_map(|x| points.iter().map(move |y| (x, y)))
            .map(|(x, y)| product(&|i| 1.0 + 0.5 * d(x[i]) + 0.5 * d(y[i]) - 0.5 * (x[i] - y[i]).abs()))
            .sum();
        product(&|_| 13.0 / 12.0) - 2.0 / n * ones + twos / (n * n)
    }

    #[test]
    fn scrambling_is_uniform_and_keyed_by_seed() {
        // 4,096 seeds move one point: the mean has a standard error of 0.0045.
        let moved = |seed| fraction(scramble(0, Seed::new(seed).value()));
        let mean = (0..4096).map(moved).sum::<f64>() / 4096.0;
        assert!((mean - 0.5).abs() < 0.025, "{mean}");
        assert_ne!(scramble(5, 1), scramble(5, 2));
    }
}

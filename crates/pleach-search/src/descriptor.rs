//! What is known of a point before it is evaluated.

use std::fmt;
use std::sync::Arc;

use crate::{Point, Seed, Space};

/// Named features of a point that need no evaluation, such as the number of weights of a network or
/// the counts of its subgraphs.
///
/// Models of the objective compare points by them, beside the parameters. Cloning is cheap.
#[derive(Clone)]
pub struct Descriptor {
    name: String,
    of: Arc<Features>,
    /// Mean squared distance of two random points.
    scale: f64,
}

type Features = dyn Fn(&Point) -> Vec<(u32, f64)> + Send + Sync;

impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Descriptor")
            .field("name", &self.name)
            .field("scale", &self.scale)
            .finish_non_exhaustive()
    }
}

impl Descriptor {
    /// A sparse vector for every point of `space`: pairs of index and value, indices ascending. What
    /// is not listed is 0.
    ///
    /// Distances are divided by their mean over 2,000 random pairs of points.
    pub fn new(
        name: &str,
        space: &Space,
        of: impl Fn(&Point) -> Vec<(u32, f64)> + Send + Sync + 'static,
    ) -> Self {
        const PAIRS: usize = 2000;
        let mut rng = Seed::new(0).child("descriptor", 0).rng(0);
        let draw = |rng: &mut _| space.sample(rng, &[]).ok().map(|point| of(&point));
        let distances = (0..PAIRS).filter_map(|_| Some(squared_distance(&draw(&mut rng)?, &draw(&mut rng)?)));
        let total: f64 = distances.filter(|distance| distance.is_finite()).sum();
        let scale = if total > 0.0 { total / PAIRS as f64 } else { 1.0 };
        Self { name: name.to_owned(), of: Arc::new(of), scale }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The features of a point.
    pub fn of(&self, point: &Point) -> Vec<(u32, f64)> {
        (self.of)(point)
    }

    /// Squared distance of two vectors of features, in units of that of two random points.
    pub fn distance(&self, a: &[(u32, f64)], b: &[(u32, f64)]) -> f64 {
        squared_distance(a, b) / self.scale
    }
}

fn squared_distance(a: &[(u32, f64)], b: &[(u32, f64)]) -> f64 {
    let (mut i, mut j, mut sum) = (0, 0, 0.0);
    while i < a.len() || j < b.len() {
        let left = a.get(i).map_or(u32::MAX, |entry| entry.0);
        let right = b.get(j).map_or(u32::MAX, |entry| entry.0);
        let x = if left <= right && i < a.len() { a[i].1 } else { 0.0 };
        let y = if right <= left && j < b.len() { b[j].1 } else { 0.0 };
        (i, j) = (i + usize::from(left <= right), j + usize::from(right <= left));
        sum += (x - y) * (x - y);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parameter;

    #[test]
    fn distances_are_those_of_the_dense_vectors() {
        let check = |a: &[(u32, f64)], b: &[(u32, f64)], want: f64| {
            assert_eq!((squared_distance(a, b), squared_distance(b, a)), (want, want));
        };
        check(&[], &[], 0.0);
        check(&[(0, 1.0), (4, 2.0)], &[(0, 3.0)], 8.0);
        check(&[(7, 1.0)], &[(2, 1.0), (7, 1.0)], 1.0);
        check(&[(1, 1.0)], &[(2, 2.0)], 5.0);
    }

    #[test]
    fn random_points_are_one_apart_on_average() {
        let space = Space::new(vec![Parameter::float("x", 0.0, 100.0)], &[]).unwrap();
        let size = Descriptor::new("size", &space, |point| vec![(0, point.values()[0].as_f64().unwrap())]);
        // E (U - V)² of two uniform draws from [0, 100] is 100² / 6.
        let distance = size.distance(&[], &[(0, 100.0)]);
        assert!((distance - 6.0).abs() < 0.5, "{distance}");
    }
}

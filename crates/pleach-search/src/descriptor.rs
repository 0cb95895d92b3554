//! What is known of a point before it is evaluated.

use std::fmt;
use std::sync::Arc;

use crate::problems::features;
use crate::{Error, Point, Seed, Space};

/// Named features of a point that need no evaluation, such as the number of weights of a network or
/// the counts of its subgraphs.
///
/// Models of the objective compare points by them, beside the parameters. Cloning is cheap.
#[derive(Clone)]
pub struct Descriptor {
    name: String,
    of: Arc<Features>,
    /// The text it was read from, if it was.
    source: Option<String>,
    /// Mean squared distance of two random points.
    scale: f64,
}

pub(crate) type Features = dyn Fn(&Point) -> Vec<(u32, f64)> + Send + Sync;

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
        Self { name: name.to_owned(), of: Arc::new(of), source: None, scale }
    }

    /// Reads a descriptor that a file names.
    ///
    /// It is an expression over the parameters, such as `width ** 2 * depth`, where a condition gives
    /// 1 or 0; where a parameter in it does not exist, and where it is not a finite number, it counts as
    /// 0. Or it is what a built-in problem knows of its points, such as `nas-bench-201: wl`.
    ///
    /// # Errors
    /// [`Error::Expression`] with the column of the fault.
    pub fn read(name: &str, source: &str, space: &Space) -> Result<Self, Error> {
        let word = source.split_once(':').map(|(problem, what)| (problem.trim(), what.trim()));
        let of = match word.and_then(|(problem, what)| features(problem, what, space)) {
            Some(Ok(features)) => features,
            Some(Err(message)) => {
                return Err(Error::Expression { expression: source.to_owned(), column: 1, message });
            }
            None => {
                let quantity = space.quantity(source)?;
                Box::new(move |point: &Point| vec![(0_u32, quantity.at(point.view()).unwrap_or(0.0))])
                    as Box<Features>
            }
        };
        Ok(Self { source: Some(source.to_owned()), ..Self::new(name, space, of) })
    }

    /// The same descriptor of the points of another space with the same parameters; a function of
    /// the user's is taken over as it is.
    ///
    /// # Errors
    /// As [`Descriptor::read`].
    pub(crate) fn over(&self, space: &Space) -> Result<Self, Error> {
        match &self.source {
            Some(source) => Self::read(&self.name, source, space),
            None => Ok(self.clone()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text that [`Descriptor::read`] reads; `None` for a function of the caller's.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
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
    use crate::{Parameter, Value};

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

    #[test]
    fn expressions_give_numbers() {
        let parameters = vec![
            Parameter::int("width", 1, 9),
            Parameter::choice("op", ["conv", "pool"]),
            Parameter::float("rate", 0.0, 1.0).when("op == 'conv'"),
        ];
        let space = Space::new(parameters, &[]).unwrap();
        let check = |text: &str, values: [f64; 2]| {
            let descriptor = Descriptor::read("d", text, &space).unwrap();
            for (op, value) in (0..).zip(values) {
                let point = space.point(vec![Value::Int(3), Value::Choice(op), Value::Float(0.5)]).unwrap();
                assert_eq!(descriptor.of(&point), [(0, value)], "{text}");
            }
        };
        check("width ** 2 + 1", [10.0, 10.0]);
        check("op == 'conv' and width > 2", [1.0, 0.0]);
        check("width * rate", [1.5, 0.0]);
        check("log(width - 3)", [0.0, 0.0]);
        let error = Descriptor::read("d", "op + 1", &space).unwrap_err();
        assert!(matches!(error, Error::Expression { column: 1, .. }), "{error}");
    }

    #[test]
    fn expressions_are_read_anew_in_a_wider_space() {
        let space =
            |options: &[i64]| Space::new(vec![Parameter::choice("k", options.iter().copied())], &[]).unwrap();
        let wider = space(&[1, 2, 5]);
        let descriptor = Descriptor::read("d", "2 * k", &space(&[1, 2])).unwrap();
        let point = wider.point(vec![Value::Choice(2)]).unwrap();
        assert_eq!(descriptor.over(&wider).unwrap().of(&point), [(0, 10.0)]);
    }
}

//! Functions of real numbers with a known minimum, and how to move and turn them.

use std::fmt;

use super::TestProblem;
use super::setup::Request;
use crate::{Error, Goal, Measurement, Outcome, Parameter, Problem, Seed, Space};

/// The options of a function with any number of dimensions.
pub(super) const OPTIONS: &[(&str, &str, &str)] =
    &[("dims", "2", "number of dimensions"), SHIFT, ROTATE, NOISE, SEED];

/// The options of a function with a fixed number of dimensions.
pub(super) const FIXED_OPTIONS: &[(&str, &str, &str)] = &[SHIFT, ROTATE, NOISE, SEED];

const SHIFT: (&str, &str, &str) =
    ("shift", "false", "move the minimum to a random place in the middle 80 % of each side of the box");
const ROTATE: (&str, &str, &str) =
    ("rotate", "false", "turn the function about its minimum by a random rotation");
pub(super) const NOISE: (&str, &str, &str) =
    ("noise", "0.0", "standard deviation of normal noise on the objective");
pub(super) const SEED: (&str, &str, &str) = ("seed", "0", "seed of the random shift, rotation and noise");

/// The one metric of a function.
pub(super) const METRICS: &[(&str, Goal, &str)] = &[("value", Goal::Min, "the value of the function")];

type Formula = Box<dyn Fn(&[f64]) -> f64 + Send + Sync>;

/// A function on a box of equal sides, with one of its minimisers and its minimum.
///
/// The minimum is that over all of `ℝⁿ`, so that moving and turning the function keeps it.
pub struct Function {
    sides: Vec<(f64, f64)>,
    minimiser: Vec<f64>,
    minimum: f64,
    formula: Formula,
}

impl Function {
    /// A function that is defined everywhere, on the box `sides`.
    ///
    /// # Panics
    /// If there is no dimension, if `minimiser` has other dimensions than `sides`, or if the sides
    /// are not equally long (a rotation would mean nothing).
    pub fn new(
        sides: Vec<(f64, f64)>,
        minimiser: Vec<f64>,
        minimum: f64,
        formula: impl Fn(&[f64]) -> f64 + Send + Sync + 'static,
    ) -> Self {
        assert!(!sides.is_empty() && sides.len() == minimiser.len(), "one coordinate for each side");
        let length = |(low, high): &(f64, f64)| high - low;
        let equal = |side| (length(side) - length(&sides[0])).abs() <= 1e-9 * length(&sides[0]);
        assert!(sides.iter().all(equal), "sides are equally long");
        Self { sides, minimiser, minimum, formula: Box::new(formula) }
    }

    /// The value at `x`.
    pub fn value(&self, x: &[f64]) -> f64 {
        (self.formula)(x)
    }

    /// The lowest value.
    pub fn minimum(&self) -> f64 {
        self.minimum
    }

    /// A point that has the lowest value.
    pub fn minimiser(&self) -> &[f64] {
        &self.minimiser
    }

    /// The lower and upper bound of each coordinate.
    pub fn sides(&self) -> &[(f64, f64)] {
        &self.sides
    }

    /// The function moved so that its minimiser lies uniformly in the middle 80 % of the box.
    ///
    /// `g(x) = f(x − s + x*)`, with the new minimiser `s`.
    #[must_use]
    pub fn shifted(self, seed: Seed) -> Self {
        let mut rng = seed.child("shift", 0).rng(0);
        let to: Vec<f64> =
            self.sides.iter().map(|(low, high)| low + (0.1 + 0.8 * rng.unit()) * (high - low)).collect();
        let (from, formula) = (self.minimiser, self.formula);
        let minimiser = to.clone();
        let moved = move |x: &[f64]| {
            // In this order the minimiser maps to itself exactly.
            let x: Vec<f64> = x.iter().zip(&to).zip(&from).map(|((x, to), from)| (x - to) + from).collect();
            formula(&x)
        };
        Self { minimiser, formula: Box::new(moved), ..self }
    }

    /// The function turned about its minimiser: `g(x) = f(x* + Q (x − x*))`, with `Q` uniform among
    /// the orthogonal matrices.
    #[must_use]
    pub fn rotated(self, seed: Seed) -> Self {
        let n = self.minimiser.len();
        let rows = orthogonal(n, seed);
        let (centre, formula) = (self.minimiser.clone(), self.formula);
        let turned = move |x: &[f64]| {
            let offset: Vec<f64> = x.iter().zip(&centre).map(|(x, centre)| x - centre).collect();
            let x: Vec<f64> =
                rows.iter().zip(&centre).map(|(row, centre)| centre + dot(row, &offset)).collect();
            formula(&x)
        };
        Self { formula: Box::new(turned), ..self }
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function")
            .field("sides", &self.sides)
            .field("minimiser", &self.minimiser)
            .field("minimum", &self.minimum)
            .finish_non_exhaustive()
    }
}

/// The option `dims`.
pub(super) fn dims(request: &Request<'_>, least: i64) -> Result<usize, Error> {
    let dims = request.int("dims", 2, least..=100_000)?;
    Ok(usize::try_from(dims).expect("checked to be small and positive"))
}

/// The problem of minimising a function over its box, moved, turned and made noisy as the options say.
pub(super) fn build(request: &Request<'_>, mut function: Function) -> Result<TestProblem, Error> {
    request.own_space()?;
    let seed = request.seed()?;
    if request.flag("rotate", false)? {
        function = function.rotated(seed);
    }
    if request.flag("shift", false)? {
        function = function.shifted(seed);
    }
    let noise = request.size("noise", 0.0)?;
    let (metrics, _) = request.pick_metrics(METRICS)?;
    let parameters = function
        .sides
        .iter()
        .enumerate()
        .map(|(i, &(low, high))| Parameter::float(&format!("x{i}"), low, high));
    let problem = Problem::new(Space::new(parameters.collect(), &[])?, metrics)?;
    let optimum = (problem.objective().goal == Goal::Min).then_some(function.minimum);
    let problem = TestProblem::new(problem, optimum, move |point, _| {
        let x: Vec<f64> =
            point.values().iter().map(|value| value.as_f64().expect("every parameter is a float")).collect();
        Outcome::Measured(Measurement::new(vec![function.value(&x)]))
    });
    Ok(if noise > 0.0 { problem.with_noise(noise, seed) } else { problem })
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The rows of an orthogonal matrix drawn from the Haar measure: normal draws, made orthonormal by
/// Gram and Schmidt's procedure (done twice: once loses orthogonality to rounding).
fn orthogonal(n: usize, seed: Seed) -> Vec<Vec<f64>> {
    let mut rng = seed.child("rotation", 0).rng(0);
    let mut rows: Vec<Vec<f64>> = Vec::with_capacity(n);
    for _ in 0..n {
        let mut row: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
        for _ in 0..2 {
            for earlier in &rows {
                let along = dot(&row, earlier);
                row.iter_mut().zip(earlier).for_each(|(x, e)| *x -= along * e);
            }
        }
        let length = dot(&row, &row).sqrt();
        rows.push(row.into_iter().map(|x| x / length).collect());
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::testing::{measured, options};
    use super::super::{PROBLEMS, Setup, problem};
    use super::*;
    use crate::Literal;

    /// Every function of the registry in a few shapes.
    fn variants() -> Vec<(String, TestProblem)> {
        let mut all = Vec::new();
        for entry in PROBLEMS.iter().filter(|entry| entry.metrics == METRICS) {
            let free = entry.options.iter().any(|(name, ..)| *name == "dims");
            for dims in if free { vec![2, 3, 20] } else { vec![0] } {
                for (shift, rotate) in [(false, false), (true, false), (false, true), (true, true)] {
                    let mut given = options(&[
                        ("shift", shift.into()),
                        ("rotate", rotate.into()),
                        ("seed", Literal::Int(5)),
                    ]);
                    if free {
                        given.insert("dims".into(), Literal::Int(dims));
                    }
                    let built = entry.build(&Setup { options: &given, ..Setup::default() }).unwrap();
                    all.push((format!("{} {given:?}", entry.name), built));
                }
            }
        }
        all
    }

    #[test]
    fn no_point_is_below_the_stated_minimum() {
        for (name, problem) in variants() {
            let optimum = problem.optimum().unwrap();
            let mut rng = Seed::new(1).rng(0);
            for number in 0..500 {
                let point = problem.problem().space().sample(&mut rng, &[]).unwrap();
                let value = measured(problem.evaluate(&point, number)).metrics[0];
                assert!(value.is_finite() && value >= optimum, "{name}: {value} below {optimum}");
            }
        }
    }

    #[test]
    fn the_stated_minimiser_has_the_stated_minimum_wherever_it_is_moved() {
        let seed = Seed::new(3);
        let plain: [fn() -> Function; 14] = [
            || super::super::ackley::function(5),
            || super::super::levy::function(5),
            || super::super::rosenbrock::function(5),
            || super::super::rastrigin::function(5),
            || super::super::quadratic::sphere(5),
            || super::super::griewank::function(5),
            || super::super::dixon_price::function(5),
            || super::super::zakharov::function(5),
            || super::super::styblinski_tang::function(5),
            || super::super::schaffer_f7::function(5),
            || super::super::quadratic::ellipsoid(5),
            || super::super::quadratic::bent_cigar(5),
            super::super::branin::function,
            super::super::hartmann::function,
        ];
        for make in plain {
            for function in
                [make(), make().shifted(seed), make().rotated(seed), make().rotated(seed).shifted(seed)]
            {
                let value = function.value(function.minimiser());
                // Rounding of sums that cancel: a few ulps of terms up to 20 (Ackley).
                assert!((value - function.minimum()).abs() < 1e-13, "{function:?} has {value}");
                for ((low, high), x) in function.sides().iter().zip(function.minimiser()) {
                    assert!(low < x && x < high);
                }
            }
        }
    }

    #[test]
    fn values_are_those_of_the_formulas() {
        // numpy 2.4, the formulas as their docs state them.
        let x = [1.5, -2.25, 3.125];
        for (function, expected) in [
            (super::super::ackley::function(3), 9.400_780_484_031_463),
            (super::super::levy::function(3), 7.865_905_631_650_85),
            (super::super::rosenbrock::function(3), 2_411.203_125),
            (super::super::rastrigin::function(3), 50.007_057_188_134_53),
            (super::super::quadratic::sphere(3), 17.078_125),
            (super::super::quadratic::ellipsoid(3), 9_770_689.75),
            (super::super::griewank::function(3), 1.003_939_137_125_874_1),
            (super::super::dixon_price::function(3), 1_572.299_804_687_5),
            (super::super::zakharov::function(3), 130.467_056_274_414_06),
            (super::super::styblinski_tang::function(3), -67.658_081_054_687_5),
            (super::super::schaffer_f7::function(3), 7.825_093_979_755_468),
            (super::super::quadratic::bent_cigar(3), 14_828_127.25),
            (super::super::branin::function(), 48.542_832_030_792_866),
        ] {
            let value = function.value(&x[..function.sides().len()]);
            assert!((value / expected - 1.0).abs() < 1e-13, "{function:?}: {value}");
        }
        let value = super::super::hartmann::function().value(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]);
        assert!((value + 1.406_910_576_138_529_7).abs() < 1e-14, "{value}");
    }

    #[test]
    fn rotation_is_orthogonal_and_shift_stays_in_the_middle() {
        let rows = orthogonal(40, Seed::new(9));
        for (i, a) in rows.iter().enumerate() {
            for (j, b) in rows.iter().enumerate() {
                let expected = f64::from(u8::from(i == j));
                assert!((dot(a, b) - expected).abs() < 1e-14);
            }
        }
        let function = super::super::ackley::function(1000).shifted(Seed::new(9));
        let places: Vec<f64> = function.minimiser().iter().map(|x| (x + 5.0) / 15.0).collect();
        assert!(places.iter().all(|p| (0.1..=0.9).contains(p)));
        let mean = places.iter().sum::<f64>() / 1000.0;
        assert!(
            (mean - 0.5).abs() < 0.05,
            "1,000 uniform draws have a mean within 6 standard errors: {mean}"
        );
    }

    #[test]
    fn noise_is_keyed_by_seed_and_trial_number_and_reported() {
        let build = |seed| {
            let given = options(&[("noise", 0.5.into()), ("seed", Literal::Int(seed))]);
            problem("sphere").unwrap().build(&Setup { options: &given, ..Setup::default() }).unwrap()
        };
        let (a, b, c) = (build(1), build(1), build(2));
        let point = a.problem().space().decode(&[0.5, 0.5]);
        assert_eq!(a.evaluate(&point, 3), b.evaluate(&point, 3));
        assert_ne!(a.evaluate(&point, 3), a.evaluate(&point, 4));
        assert_ne!(a.evaluate(&point, 3), c.evaluate(&point, 3));
        let draws: Vec<Measurement> = (0..2000).map(|number| measured(a.evaluate(&point, number))).collect();
        assert!(draws.iter().all(|m| m.sem == Some(0.5)));
        let mean = draws.iter().map(|m| m.metrics[0]).sum::<f64>() / 2000.0;
        let sd = (draws.iter().map(|m| (m.metrics[0] - mean).powi(2)).sum::<f64>() / 1999.0).sqrt();
        // Standard errors are 0.011 and 0.008.
        assert!(mean.abs() < 0.07 && (sd - 0.5).abs() < 0.05, "{mean} {sd}");
    }

    #[test]
    fn wrong_options_are_named() {
        let check = |name: &str, given: &[(&str, Literal)], expected: &str| {
            let setup = Setup { options: &options(given), ..Setup::default() };
            let error = problem(name).and_then(|entry| entry.build(&setup)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("akley", &[], "no problem is called akley; there are ackley, ");
        check(
            "ackley",
            &[("dim", Literal::Int(2))],
            "option dim of ackley: no such option; there are dims, ",
        );
        check("branin", &[("dims", Literal::Int(2))], "option dims of branin");
        check("ackley", &[("dims", Literal::Int(0))], "expected a whole number from 1 to 100000, got 0");
        check("rosenbrock", &[("dims", Literal::Int(1))], "from 2 to");
        check("ackley", &[("noise", (-1.0).into())], "expected a finite number from 0 on, got -1");
        check("ackley", &[("shift", Literal::Int(1))], "expected true or false, got 1");
        check("ackley", &[("seed", "x".into())], "option seed of ackley");
    }

    #[test]
    fn metrics_are_those_on_offer() {
        let entry = problem("ackley").unwrap();
        let metrics = [crate::Metric::objective("loss", Goal::Min)];
        let error = entry.build(&Setup { metrics: &metrics, ..Setup::default() }).unwrap_err().to_string();
        assert_eq!(error, "ackley has no metric loss; it has value");
        let metrics = [crate::Metric::objective("value", Goal::Max)];
        let built = entry.build(&Setup { metrics: &metrics, ..Setup::default() }).unwrap();
        assert_eq!(built.optimum(), None);
    }
}

//! Facts about the whole method; the conformance suite has the rest.

use crate::{
    Goal, Literal, Measurement, Metric, Options, Outcome, Parameter, Point, Problem, Search, Seed, Space,
};

fn search(
    parameters: Vec<Parameter>,
    metrics: Vec<Metric>,
    options: &[(&str, Literal)],
    seed: u64,
) -> Search {
    let problem = Problem::new(Space::new(parameters, &[]).unwrap(), metrics).unwrap();
    let options: Options = options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Search::new(problem, "gp", &options, Seed::new(seed)).unwrap()
}

fn floats(dim: usize) -> Vec<Parameter> {
    (0..dim).map(|i| Parameter::float(&format!("x{i}"), 0.0, 1.0)).collect()
}

fn loss() -> Vec<Metric> {
    vec![Metric::objective("loss", Goal::Min)]
}

/// Runs `trials` trials in batches, and returns the best loss of those within every limit.
fn run(search: &mut Search, trials: u64, batch: usize, evaluate: impl Fn(&Point) -> Vec<f64>) -> f64 {
    while search.history().next_number() < trials {
        for number in search.ask(batch).unwrap() {
            let metrics = evaluate(&search.history().trial(number).point);
            search.tell(number, Outcome::Measured(Measurement::new(metrics))).unwrap();
        }
    }
    search.history().best().map_or(f64::INFINITY, |best| best.merit.loss().unwrap_or(f64::INFINITY))
}

fn bowl(point: &Point) -> f64 {
    point.values().iter().map(|value| (value.as_f64().unwrap() - 0.3).powi(2)).sum()
}

#[test]
fn a_bowl_is_minimised_alone_and_in_batches() {
    // Random search reaches 0.03 in 40 trials.
    for batch in [1, 5] {
        let best = run(&mut search(floats(3), loss(), &[], 1), 40, batch, |point| vec![bowl(point)]);
        assert!(best < 1e-4, "batches of {batch}: {best:e}");
    }
    let thompson = [("acquisition", Literal::from("thompson"))];
    let best = run(&mut search(floats(3), loss(), &thompson, 1), 40, 1, |point| vec![bowl(point)]);
    assert!(best < 3e-3, "thompson: {best:e}");
}

#[test]
fn a_limit_is_met_on_its_boundary() {
    // The best point within x0 + x1 ≥ 1 is (0.5, 0.5), at 0.08.
    let metrics = vec![Metric::objective("loss", Goal::Min), Metric::constraint("sum", Goal::Max, 1.0)];
    let best = run(&mut search(floats(2), metrics, &[], 3), 30, 1, |point| {
        vec![bowl(point), point.values().iter().map(|value| value.as_f64().unwrap()).sum()]
    });
    assert!((0.08..0.081).contains(&best), "{best}");
}

#[test]
fn huge_tiny_and_constant_losses_are_searched() {
    for scale in [1e300, 1e-300, 0.0] {
        let mut search = search(floats(2), loss(), &[], 5);
        let best = run(&mut search, 25, 1, |point| vec![scale * (bowl(point) - 0.5)]);
        assert!(best <= -0.49 * scale, "{scale:e}: {best:e}");
    }
}

#[test]
fn one_option_and_five_hundred_numbers_are_searched() {
    let mut one = search(vec![Parameter::choice("kind", ["a", "b", "c"])], loss(), &[], 1);
    assert!(run(&mut one, 3, 1, |point| vec![point.values()[0].as_choice().unwrap() as f64]) < 0.5);
    let mut many = search(floats(500), loss(), &[], 1);
    run(&mut many, 24, 1, |point| vec![bowl(point)]);
}

#[test]
#[ignore = "slow: 5 s"]
fn more_points_than_a_factor_keeps_are_searched() {
    let mut search = search(floats(2), loss(), &[], 7);
    let mut rng = Seed::new(1).rng(0);
    for _ in 0..1200 {
        let point = search.history().space().sample(&mut rng, &[]).unwrap();
        let number = search.enqueue(point.clone()).unwrap();
        search.tell(number, Outcome::Measured(Measurement::new(vec![bowl(&point)]))).unwrap();
    }
    let best = run(&mut search, 1205, 1, |point| vec![bowl(point)]);
    // The best of 1,200 random points is near 1e-4.
    assert!(best < 1e-6, "{best:e}");
}

//! Properties of the method as a whole.

use super::*;
use crate::{
    FailureClass, Goal, Literal, Measurement, Metric, Outcome, Parameter, Problem, Search, Seed, Space,
};

fn search(space: Space, options: &[(&str, Literal)]) -> Search {
    let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Search::new(problem, ENTRY.name, &options, Seed::new(1)).unwrap()
}

/// Runs a search and gives back the number of trials that the method proposed itself.
fn run(search: &mut Search, trials: u64, outcome: impl Fn(&[f64]) -> Outcome) -> usize {
    for _ in 0..trials {
        let number = search.ask(1).unwrap()[0];
        let history = search.history();
        let unit_point = history.space().encode(&history.trial(number).point);
        search.tell(number, outcome(&unit_point)).unwrap();
    }
    let own = |trial: &&crate::Trial| matches!(trial.origin, crate::Origin::Method { .. });
    search.history().trials().iter().filter(own).count()
}

fn measured(loss: f64) -> Outcome {
    Outcome::Measured(Measurement::new(vec![loss]))
}

#[test]
fn both_forms_search_every_kind_of_parameter_inside_the_constraints() {
    for multivariate in [true, false] {
        let parameters = vec![
            Parameter::float("x", 0.0, 1.0),
            Parameter::log_int("k", 1, 1000),
            Parameter::choice("kind", ["a", "b", "c"]),
            Parameter::float("y", 0.0, 1.0).when("kind == 'b'"),
            Parameter::permutation("order", 5),
        ];
        let space = Space::new(parameters, &["x + y <= 1.2", "k >= 10"]).unwrap();
        let mut search = search(space, &[("multivariate", multivariate.into())]);
        let loss = |u: &[f64]| measured(u.iter().map(|u| (u - 0.5).abs()).sum());
        assert!(run(&mut search, 120, loss) > 115);
        let history = search.history();
        assert!(history.trials().iter().all(|trial| history.space().admits(&trial.point)));
        let late = history.trials()[60..].iter().filter_map(|trial| history.merit(trial.number)?.loss());
        let early = history.trials()[..10].iter().filter_map(|trial| history.merit(trial.number)?.loss());
        // Sums of 60 and 10 losses; the searches are fixed by their seed.
        assert!(late.sum::<f64>() / 60.0 < 0.8 * early.sum::<f64>() / 10.0);
    }
}

#[test]
fn sums_of_numbers_are_kept_where_draws_miss_them() {
    let parameters = (0..4).map(|i| Parameter::int(&format!("k{i}"), 0, 30)).collect();
    let space = Space::new(parameters, &["k0 + k1 + k2 + k3 == 30"]).unwrap();
    let mut search = search(space, &[]);
    assert!(run(&mut search, 100, |u| measured(u[0] - u[1])) > 90);
    assert!(search.history().best().unwrap().value < -0.9);
}

#[test]
fn failures_are_avoided_before_anything_is_measured() {
    let space = Space::new(vec![Parameter::float("x", 0.0, 1.0)], &[]).unwrap();
    let mut search = search(space, &[]);
    run(
        &mut search,
        60,
        |u| {
            if u[0] < 0.9 { Outcome::Failed(FailureClass::Crashed) } else { measured(u[0]) }
        },
    );
    let history = search.history();
    let good =
        history.trials()[20..].iter().filter(|trial| history.merit(trial.number).unwrap().loss().is_some());
    // A tenth of random points would do.
    assert!(good.count() > 10);
}

#[test]
fn huge_and_equal_losses_and_many_dimensions_are_searched() {
    let space = || {
        let parameters = (0..500).map(|i| Parameter::float(&format!("x{i}"), 0.0, 1.0)).collect();
        Space::new(parameters, &[]).unwrap()
    };
    for multivariate in [true, false] {
        let options = [("multivariate", multivariate.into())];
        assert_eq!(run(&mut search(space(), &options), 30, |u| measured(1e300 * (u[0] - 0.5))), 30);
        assert_eq!(run(&mut search(space(), &options), 30, |_| measured(1e-300)), 30);
    }
}

#[test]
fn a_withdrawn_point_that_is_pending_again_counts_as_bad_after_a_restart_too() {
    for seed in 0..20 {
        let space = Space::new(vec![Parameter::float("x", 0.0, 1.0)], &[]).unwrap();
        let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
        let options = Options::from([("replicates".to_owned(), 2.into())]);
        let mut search = Search::new(problem, ENTRY.name, &options, Seed::new(seed)).unwrap();
        run(&mut search, 40, |u| measured((u[0] - 0.3).powi(2)));
        let number = search.ask(1).unwrap()[0];
        search.tell(number, Outcome::Withdrawn).unwrap();
        let again = search.ask(1).unwrap()[0];
        let history = search.history();
        assert_eq!(history.trial(again).key, history.trial(number).key, "the replicate of the point");
        let plan = Plan { multivariate: true, candidates: 24, gamma: 0.2, warm_up: 10, constant_liar: true };
        let rebuilt = Tpe::new(history, plan).ask(history, &Region::whole(), 1).unwrap();
        let expected = history.space().key(&rebuilt[0].point);
        let live = search.ask(1).unwrap()[0];
        assert_eq!(search.history().trial(live).key, expected);
    }
}

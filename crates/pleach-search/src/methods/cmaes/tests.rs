//! Properties of the method as a whole, through [`Search`].

use super::*;
use std::sync::Arc;

use crate::layout::Layout;
use crate::partition::{Boundary, Side};
use crate::{Goal, Literal, Measurement, Metric, Parameter, Problem, Search, Seed, Space};

fn search(parameters: Vec<Parameter>, options: &[(&str, Literal)], seed: u64) -> Search {
    let space = Space::new(parameters, &[]).unwrap();
    let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Search::new(problem, "cmaes", &options, Seed::new(seed)).unwrap()
}

fn floats(n: usize) -> Vec<Parameter> {
    (0..n).map(|i| Parameter::float(&format!("x{i}"), 0.0, 1.0)).collect()
}

fn plan(population: usize) -> Plan {
    Plan {
        population,
        sigma: 0.2,
        init: 0,
        first: First::Center,
        deepest_of: 8,
        active: true,
        restarts: Restarts::Bipop,
        stall: 40,
    }
}

fn tell(search: &mut Search, number: u64, loss: f64) {
    search.tell(number, Outcome::Measured(Measurement::new(vec![loss]))).unwrap();
}

/// The best loss after `trials`.
fn minimise(search: &mut Search, trials: u64, loss: impl Fn(&[f64]) -> f64) -> f64 {
    for _ in 0..trials {
        let number = search.ask(1).unwrap()[0];
        let history = search.history();
        let value = loss(&history.space().encode(&history.trial(number).point));
        tell(search, number, value);
    }
    search.history().best().unwrap().value
}

#[test]
fn an_optimum_at_an_end_of_every_range_is_reached_exactly() {
    let loss = |x: &[f64]| x.iter().zip(1..).map(|(u, i)| f64::from(i) * u).sum::<f64>();
    assert!(minimise(&mut search(floats(5), &[], 1), 600, loss) == 0.0);
}

#[test]
fn discrete_parameters_are_solved_beside_floats() {
    // 9 seeds, 800 trials in 10 coordinates; random search does not come below 0.2.
    let mut best: Vec<f64> = (0..9)
        .map(|seed| {
            let mut parameters = floats(3);
            parameters.extend((0..3).map(|i| Parameter::int(&format!("k{i}"), 0, 20)));
            parameters.extend((0..4).map(|i| Parameter::bool(&format!("b{i}"))));
            let loss = |x: &[f64]| {
                let numbers: f64 = x[..6].iter().map(|u| (u - 0.69).powi(2)).sum();
                let bits: f64 = x[6..].iter().map(|u| u - 0.25).sum();
                numbers + 0.1 * bits
            };
            minimise(&mut search(parameters, &[], seed), 800, loss)
        })
        .collect();
    best.sort_unstable_by(f64::total_cmp);
    // The nearest integer to 0.69 of the cube is at (14 + 1/2) / 21.
    let least = 3.0 * (14.5 / 21.0 - 0.69_f64).powi(2);
    assert!(best[4] < least + 1e-6, "{best:?}");
}

#[test]
fn discrete_coordinates_never_freeze() {
    let parameters = vec![
        Parameter::float("x", 0.0, 1.0),
        Parameter::bool("flag"),
        Parameter::int("k", 0, 9),
        Parameter::log_int("width", 1, 1000),
    ];
    let space = Space::new(parameters, &[]).unwrap();
    let start = Start { mean: vec![0.5, 0.93, 0.41, 0.77], sigma: 1e-12, merit: None };
    let run = Run::first(&plan(8), start, &Draws::new(&space), 0);
    let home = space.decode(&run.strategy.mean);
    // α = 1/32; 20,000 draws: 5 standard errors of a share of 1/32 are 0.006.
    let mut rng = Seed::new(1).rng(0);
    let mut leaves = [0_u32; 4];
    for _ in 0..20_000 {
        let point = space.decode(&run.strategy.draw(1.0, &mut rng));
        for (i, count) in leaves.iter_mut().enumerate() {
            *count += u32::from(point.values()[i] != home.values()[i]);
        }
    }
    let share = leaves.map(|count| f64::from(count) / 20_000.0);
    assert!(share[1..].iter().all(|&share| share > 1.0 / 32.0 - 0.006), "{share:?}");
}

#[test]
fn a_trial_of_the_users_moves_the_first_mean() {
    let mut search = search(floats(3), &[("sigma0", 0.01.into())], 1);
    let space = search.history().space().clone();
    let number = search.enqueue(space.decode(&[0.9, 0.1, 0.9])).unwrap();
    tell(&mut search, number, 1.0);
    let number = search.ask(1).unwrap()[0];
    let x = space.encode(&search.history().trial(number).point);
    assert!((x[0] - 0.9).abs() < 0.06 && (x[1] - 0.1).abs() < 0.06, "{x:?}");
}

#[test]
fn runs_restart_with_more_trials_a_generation() {
    // A plateau ends a run; the second large run has twice the population.
    let space = Space::new(floats(2), &[]).unwrap();
    let (plan, draws) = (plan(6), Draws::new(&space));
    let start = Start { mean: vec![0.5; 2], sigma: 0.2, merit: None };
    let mut run = Run::first(&plan, start, &draws, 0);
    let mut populations = Vec::new();
    for number in 0..3000 {
        if run.collect(number) == run.strategy.population() {
            let ranked = run.take_generation();
            let own = Sample { x: vec![0.5; 2], own: true };
            run.strategy.update(&vec![own; ranked.len()]);
            if run.record(&plan, (Merit::Feasible(1.0), number), number + 1) {
                populations.push(run.strategy.population());
                run.restart(&plan, Some(vec![0.1; 2]), 0.5, 0.5, &draws, number + 1);
            }
        }
    }
    assert_eq!(populations[..2], [6, 12]);
    assert!(populations.contains(&24) && populations.iter().any(|&small| small < 12), "{populations:?}");
}

#[test]
fn a_run_without_restarts_goes_on_at_its_optimum() {
    let mut search = search(floats(2), &[("restarts", "none".into())], 1);
    let least = minimise(&mut search, 20_000, |x| x.iter().map(|u| (u - 0.3).powi(2)).sum());
    assert!(least < 1e-25, "{least:e}");
    let history = search.history();
    let last = history.space().encode(&history.trials().last().unwrap().point);
    assert!(last.iter().all(|u| (u - 0.3).abs() < 1e-6), "{last:?}");
}

#[test]
fn late_trials_of_an_earlier_run_are_left_out() {
    // A plateau ends a run, most of which is told while one of its trials is pending.
    let mut search = search(floats(2), &[("popsize", 4.into())], 1);
    let late = search.ask(1).unwrap()[0];
    minimise(&mut search, 1000, |_| 1.0);
    let before = search.snapshot();
    tell(&mut search, late, 0.0);
    // The list of owners, which ends the snapshot, has lost its only entry; nothing else has changed.
    let after = search.snapshot();
    assert_eq!(before[..before.len() - 24], after[..after.len() - 8]);
}

/// The options of a search that begins and restarts between the best points.
fn warm() -> [(&'static str, Literal); 4] {
    [("init", 20.into()), ("start", "best".into()), ("popsize", 8.into()), ("restarts", "stall".into())]
}

#[test]
fn a_latin_hypercube_fills_every_slice_once() {
    let options = [("init", Literal::from(7)), ("start", "best".into())];
    let mut search = search(floats(3), &options, 1);
    let numbers = search.ask(7).unwrap();
    let history = search.history();
    for coordinate in 0..3 {
        let slice = |&number: &u64| {
            let u = history.space().encode(&history.trial(number).point)[coordinate];
            (0..7).rev().find(|&k| f64::from(k) / 7.0 <= u)
        };
        let mut slices: Vec<_> = numbers.iter().map(slice).collect();
        slices.sort_unstable();
        assert_eq!(slices, (0..7).map(Some).collect::<Vec<_>>());
    }
}

#[test]
fn a_warm_start_is_near_the_best_points() {
    let mut search = search(floats(4), &warm(), 1);
    let loss = |x: &[f64]| x.iter().map(|u| (u - 0.8).powi(2)).sum::<f64>();
    minimise(&mut search, 20, loss);
    let (history, whole) = (search.history(), Region::whole());
    let start = between_best(history, &whole, 0.25, 20).unwrap();
    // 10 of 20 uniform points, towards the optimum.
    assert!(start.mean.iter().all(|u| (0.5..0.9).contains(u)), "{start:?}");
    assert!((0.05..0.2).contains(&start.sigma), "{start:?}");
    assert_eq!(start.merit, Some(history.best().unwrap().merit));
}

#[test]
fn a_stalled_run_gives_way_to_one_between_the_best_points() {
    let mut search = search(floats(4), &warm(), 1);
    minimise(&mut search, 20, |x| x[0]);
    let runs = |search: &Search| u64::from_le_bytes(search.snapshot()[9..17].try_into().unwrap());
    assert_eq!(runs(&search), 0);
    // The first generation is progress, and five more make 40 trials without; the sixth is one too many.
    for (trials, want) in [(48, 1), (7, 1), (1, 0), (1, 1)] {
        minimise(&mut search, trials, |_| 0.7);
        assert_eq!(runs(&search), want, "after {} trials", search.history().next_number());
    }
}

/// The points above or below `offset` on the first coordinate; boundaries see coordinates less ½.
fn half(history: &History, offset: f64, above: bool) -> Region {
    let layout = Arc::new(Layout::new(history.space()));
    let mut weights = vec![0.0; layout.len()];
    weights[0] = 1.0;
    // Boundaries see numbers less ½.
    let boundary = Boundary::Linear { weights, offset: 0.5 - offset };
    let side = Side { boundary: Arc::new(boundary), good: above };
    let first = |number: &u64| history.space().encode(&history.trial(*number).point)[0];
    let members = history.told().iter().copied().filter(|number| (first(number) > offset) == above);
    Region::part(layout, vec![side], members.collect(), true)
}

#[test]
fn the_deepest_of_several_draws_is_tried() {
    let problem =
        Problem::new(Space::new(floats(3), &[]).unwrap(), vec![Metric::objective("loss", Goal::Min)]);
    let history = History::new(problem.unwrap(), Seed::new(1), 1);
    let region = half(&history, 0.4, true);
    let start = Start { mean: vec![0.5; 3], sigma: 0.1, merit: None };
    let draws = Draws::new(history.space());
    let run = Run::first(&plan(8), start, &draws, 0);
    for number in 0..50 {
        let mut rng = history.seed().rng(number);
        let inside =
            std::iter::repeat_with(|| draws.draw(&run.strategy, 1.0, &mut rng)).filter(|x| x[0] > 0.4);
        let deepest = inside.take(8).map(|x| x[0]).fold(0.0, f64::max);
        let mut rng = history.seed().rng(number);
        let proposal = draws.propose(&history, &region, &run, 8, &HashSet::new(), &mut rng).unwrap();
        let depth = region.depth(&proposal.point).expect("it is inside");
        assert!((depth - (deepest - 0.4)).abs() < 1e-12, "{depth} against {deepest} - 0.4");
    }
}

#[test]
fn every_region_has_its_own_run_that_outlives_it() {
    let space = Space::new(floats(3), &[]).unwrap();
    let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
    let mut history = History::new(problem, Seed::new(1), 1);
    let options = warm().map(|(name, value)| (name.to_owned(), value));
    let mut method = build(&history, &Options::from(options)).unwrap();
    let mut trials = |region: &dyn Fn(&History) -> Region, count: u64| {
        for _ in 0..count {
            let region = region(&history);
            let proposal = method.ask(&history, &region, 1).unwrap().remove(0);
            assert!(region.admits(&history, &proposal.point));
            let loss = history.space().encode(&proposal.point).iter().map(|u| (u - 0.4).powi(2)).sum();
            let number = history.push(proposal.point, Origin::Method { detail: proposal.detail.into() });
            method.asked(&history, &region, number);
            history.settle(number, Outcome::Measured(Measurement::new(vec![loss])));
            method.told(&history, number);
        }
        u64::from_le_bytes(method.snapshot()[9..17].try_into().unwrap())
    };
    assert_eq!(trials(&|_| Region::whole(), 20), 0, "the design");
    assert_eq!(trials(&|history| half(history, 0.5, false), 4), 1);
    assert_eq!(trials(&|history| half(history, 0.5, true), 4), 2);
    // Other boundaries, the same runs.
    assert_eq!(trials(&|history| half(history, 0.55, false), 4), 2);
    assert_eq!(trials(&|history| half(history, 0.45, true), 8), 2);
    assert_eq!(trials(&|_| Region::whole(), 8), 2);
}

#[test]
fn noise_is_averaged_over_replicates_before_a_generation_learns() {
    let mut search = search(floats(2), &[("replicates", 3.into()), ("popsize", 4.into())], 1);
    let mean = |search: &Search| search.snapshot();
    let start = mean(&search);
    for _ in 0..4 * 3 - 1 {
        let number = search.ask(1).unwrap()[0];
        tell(&mut search, number, number as f64);
    }
    assert_eq!(mean(&search)[25..33], start[25..33], "no generation is complete");
    let number = search.ask(1).unwrap()[0];
    tell(&mut search, number, 0.0);
    assert_ne!(mean(&search)[25..33], start[25..33], "the generation count has moved");
}

#[test]
fn options_are_checked() {
    let space = Space::new(floats(2), &[]).unwrap();
    let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
    let error = |name: &str, value: Literal| {
        let options = Options::from([(name.to_owned(), value)]);
        Search::new(problem.clone(), "cmaes", &options, Seed::new(0)).unwrap_err().to_string()
    };
    assert_eq!(
        error("popsize", 2.into()),
        "option popsize of cmaes: expected a whole number from 3 to 100000, got 2"
    );
    assert_eq!(
        error("restarts", "no".into()),
        "option restarts of cmaes: expected bipop or ipop or none or stall, got no"
    );
    assert_eq!(error("active", 1.into()), "option active of cmaes: expected true or false, got 1");
    assert_eq!(
        error("sigma", 1.into()),
        "option sigma of cmaes: no such option; there are popsize, sigma0, init, start, restarts, stall, deepest-of, active, replicates"
    );
}

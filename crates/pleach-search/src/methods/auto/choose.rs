//! Which method suits a problem.

use serde::Serialize;

use crate::Problem;
use crate::layout::{Block, Layout};

/// What the choice of a method takes into account beside the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inputs {
    /// Trials that the study is going to have, if that is known.
    pub budget: Option<u64>,
    /// Trials at once.
    pub parallel: u64,
    /// Whether two evaluations of a point differ.
    pub noisy: bool,
}

impl Default for Inputs {
    /// Nothing is known: one trial at a time, without noise.
    fn default() -> Self {
        Self { budget: None, parallel: 1, noisy: false }
    }
}

/// A method with the reason for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The registered name of the method.
    pub method: &'static str,
    /// Why it was chosen, in one sentence.
    pub rule: String,
    /// What was taken into account, in words.
    pub inputs: Vec<(&'static str, String)>,
    /// What was not chosen, in the order of preference.
    pub alternatives: Vec<Alternative>,
}

/// A method that was not chosen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alternative {
    /// Its registered name.
    pub method: &'static str,
    /// Why not, in one sentence.
    pub why_not: String,
}

/// The method for a problem: the first of a list of candidates that suits it.
///
/// The same problem and inputs give the same choice.
#[expect(clippy::missing_panics_doc, reason = "the last candidate suits every problem")]
pub fn choose(problem: &Problem, inputs: &Inputs) -> Choice {
    let facts = Facts::new(problem, inputs);
    let mut chosen: Option<(&'static str, String)> = None;
    let mut alternatives = Vec::new();
    for candidate in CANDIDATES {
        match ((candidate.judge)(&facts), &chosen) {
            (Ok(rule), None) => chosen = Some((candidate.method, rule)),
            (Ok(_), Some((method, _))) => alternatives.push(Alternative {
                method: candidate.method,
                why_not: format!("it suits too, but {method} needs fewer trials here"),
            }),
            (Err(why_not), _) => alternatives.push(Alternative { method: candidate.method, why_not }),
        }
    }
    let (method, rule) = chosen.expect("the last candidate suits every problem");
    Choice { method, rule, inputs: facts.in_words(), alternatives }
}

/// What decides.
struct Facts {
    /// Number of combinations, if it is finite.
    points: Option<u64>,
    /// Number of coordinates of the unit cube.
    coordinates: usize,
    /// Whether every parameter is a number or an ordered option that always exists.
    numbers: bool,
    /// Kinds of parameters, in words.
    kinds: String,
    known_constraints: usize,
    limits: usize,
    inputs: Inputs,
}

impl Facts {
    fn new(problem: &Problem, inputs: &Inputs) -> Self {
        let space = problem.space();
        let layout = Layout::new(space);
        let count = |is: fn(&Block) -> bool| layout.blocks().iter().filter(|block| is(block)).count();
        let kinds = [
            (count(|block| matches!(block, Block::Number { .. })), "numbers"),
            (count(|block| matches!(block, Block::Option { .. })), "options"),
            (count(|block| matches!(block, Block::Permutation { .. })), "permutations"),
            (space.parameters().iter().filter(|parameter| parameter.when.is_some()).count(), "conditions"),
        ];
        let kinds =
            kinds.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{what} {count}"));
        Self {
            points: space.cardinality(),
            coordinates: layout.len(),
            numbers: layout.is_numeric(),
            kinds: kinds.collect::<Vec<_>>().join(", "),
            known_constraints: space.constraints().count(),
            limits: problem.metrics().len() - 1,
            inputs: *inputs,
        }
    }

    fn in_words(&self) -> Vec<(&'static str, String)> {
        let Inputs { budget, parallel, noisy } = self.inputs;
        vec![
            ("parameters", self.kinds.clone()),
            ("coordinates", self.coordinates.to_string()),
            ("points", self.points.map_or("not finite".to_owned(), |points| points.to_string())),
            ("known constraints", self.known_constraints.to_string()),
            ("limits on metrics", self.limits.to_string()),
            ("budget", budget.map_or("unknown".to_owned(), |budget| format!("{budget} trials"))),
            ("parallel", parallel.to_string()),
            ("noise", if noisy { "expected" } else { "not expected" }.to_owned()),
        ]
    }
}

/// Trials that are assumed where the budget is unknown.
const USUAL: u64 = 200;
/// With more trials at once, a method that thinks about one after another has them wait.
const MANY_AT_ONCE: u64 = 50;
/// Spaces up to this size are compared point by point.
const POOL: u64 = 100_000;
/// Trials up to which a Gaussian process over every kind of parameter keeps its pace.
const MANY_FOR_GP: u64 = 500;
/// Trials up to which a Gaussian process over numbers outdoes one that ranks the draws of CMA-ES, and
/// the same for each coordinate, of at most [`FEW_COORDINATES`]: on zakharov, styblinski-tang, ellipsoid
/// and bent-cigar (shifted and rotated) of 2, 5 and 10 coordinates, medians of 3 runs.
const FEW_FOR_GP: u64 = 60;
const FEW_EACH: u64 = 10;
const FEW_COORDINATES: usize = 10;
/// Trials up to which a Gaussian process that ranks the draws of CMA-ES does.
const MANY_FOR_GP_CMAES: u64 = 5000;
/// Trials up to which densities with a kernel a point do.
const MANY_FOR_TPE: u64 = 10_000;
/// Coordinates up to which covariances are learned well from so many trials.
const WIDE: usize = 200;
/// Coordinates that CMA-ES takes.
const WIDEST: usize = 1000;

/// A method and when it suits.
struct Candidate {
    method: &'static str,
    /// The rule by which it suits, or why it does not.
    judge: fn(&Facts) -> Result<String, String>,
}

/// In the order of preference; the last suits every problem.
const CANDIDATES: &[Candidate] = &[
    Candidate { method: "gp", judge: gp },
    Candidate { method: "gp-cmaes", judge: gp_cmaes },
    Candidate { method: "la-mcts+cmaes", judge: la_mcts_cmaes },
    Candidate { method: "cmaes", judge: cmaes },
    Candidate { method: "tpe", judge: tpe },
    Candidate {
        method: "aging-evolution",
        judge: |_| Ok("mutations suit every space and any budget".into()),
    },
];

impl Facts {
    fn budget(&self) -> u64 {
        self.inputs.budget.unwrap_or(USUAL)
    }

    /// The budget in words.
    fn trials(&self) -> String {
        let unknown = if self.inputs.budget.is_none() { " (assumed)" } else { "" };
        format!("{} trials{unknown}", self.budget())
    }

    /// Fails if a method that chooses points one after another would keep trials waiting.
    fn few_at_once(&self) -> Result<(), String> {
        if self.inputs.parallel <= MANY_AT_ONCE {
            return Ok(());
        }
        Err(format!("it chooses one point after another, too slowly for {} at once", self.inputs.parallel))
    }

    /// Fails if the space is not one of 2 to [`WIDEST`] numbers.
    fn numbers(&self) -> Result<(), String> {
        match self.coordinates {
            _ if !self.numbers => Err("it takes options, orders and conditions for numbers".into()),
            2..=WIDEST => Ok(()),
            n => Err(format!("it is made for 2 to {WIDEST} coordinates, not {n}")),
        }
    }
}

fn gp(facts: &Facts) -> Result<String, String> {
    facts.few_at_once()?;
    // What averages noise out is worth its time longer.
    let many = if facts.inputs.noisy { 2 * MANY_FOR_GP } else { MANY_FOR_GP };
    if facts.budget() > many {
        return Err(format!("it slows down with every trial, and {} are many", facts.trials()));
    }
    match facts.points {
        Some(points) if points <= POOL => Ok(format!(
            "a Gaussian process can compare all of {points} points for each of {}",
            facts.trials()
        )),
        _ if facts.numbers && facts.coordinates > 1 => {
            let few = FEW_FOR_GP.max(FEW_EACH * facts.coordinates as u64);
            if facts.coordinates > FEW_COORDINATES || facts.budget() > few {
                return Err(
                    "gp-cmaes finds more where every parameter is a number and trials are not few".into()
                );
            }
            Ok(format!("{} are few for {} numbers", facts.trials(), facts.coordinates))
        }
        _ => Ok(format!("a Gaussian process makes the most of {} in a space of every kind", facts.trials())),
    }
}

fn gp_cmaes(facts: &Facts) -> Result<String, String> {
    facts.numbers()?;
    facts.few_at_once()?;
    if facts.coordinates > WIDE {
        return Err(format!("its model sees little in {} coordinates", facts.coordinates));
    }
    if facts.budget() > MANY_FOR_GP_CMAES {
        return Err(format!("with {} trials can be had for less than a model costs", facts.trials()));
    }
    Ok(format!(
        "{} numbers, and few enough trials ({}) for a model to rank the draws of CMA-ES",
        facts.coordinates,
        facts.trials()
    ))
}

fn la_mcts_cmaes(facts: &Facts) -> Result<String, String> {
    facts.numbers()?;
    facts.few_at_once()?;
    Ok(format!("{} numbers, and {}: CMA-ES gains by a learned region", facts.coordinates, facts.trials()))
}

fn cmaes(facts: &Facts) -> Result<String, String> {
    facts.numbers()?;
    Ok(format!("{} trials at once are a generation of CMA-ES", facts.inputs.parallel))
}

fn tpe(facts: &Facts) -> Result<String, String> {
    if facts.budget() > MANY_FOR_TPE {
        return Err(format!("it slows down with every trial, and {} are many", facts.trials()));
    }
    Ok(format!("densities of good points suit every kind of parameter and {}", facts.trials()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, Goal, History, Metric, Options, Parameter, Search, Seed, Space, method};

    fn problem(parameters: Vec<Parameter>) -> Problem {
        let space = Space::new(parameters, &[]).unwrap();
        Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap()
    }

    fn floats(n: usize) -> Vec<Parameter> {
        (0..n).map(|i| Parameter::float(&format!("x{i}"), 0.0, 1.0)).collect()
    }

    /// Kinds of spaces, by name.
    fn parameters(name: &str) -> Vec<Parameter> {
        let edges =
            || (0..6).map(|i| Parameter::choice(&format!("e{i}"), ["a", "b", "c", "d", "e"])).collect();
        let mixed = || vec![Parameter::choice("opt", ["sgd", "adam"]), Parameter::log_float("lr", 1e-5, 1.0)];
        match name {
            "numbers-1" => floats(1),
            "numbers-6" => floats(6),
            "numbers-20" => floats(20),
            "numbers-100" => floats(100),
            "numbers-500" => floats(500),
            "cells" => edges(),
            "mixed" => mixed(),
            "conditional" => {
                [mixed(), vec![Parameter::float("beta", 0.0, 1.0).when("opt == 'adam'")]].concat()
            }
            "order" => vec![Parameter::permutation("order", 20)],
            "bits" => (0..60).map(|i| Parameter::bool(&format!("b{i}"))).collect(),
            "one" => vec![Parameter::choice("kind", ["only"])],
            _ => unreachable!("{name} is not listed"),
        }
    }

    fn inputs(budget: u64, parallel: u64) -> Inputs {
        Inputs { budget: (budget > 0).then_some(budget), parallel, noisy: false }
    }

    #[test]
    fn choices_are_pinned() {
        // Space, budget (0: unknown), trials at once, and the method.
        let cases: &[(&str, u64, u64, &str)] = &[
            ("numbers-1", 50, 1, "gp"),
            ("numbers-6", 50, 1, "gp"),
            ("numbers-6", 200, 1, "gp-cmaes"),
            ("numbers-20", 500, 1, "gp-cmaes"),
            ("numbers-20", 0, 8, "gp-cmaes"),
            ("numbers-20", 100_000, 1, "la-mcts+cmaes"),
            ("numbers-20", 500, 100, "cmaes"),
            ("numbers-100", 1000, 1, "gp-cmaes"),
            ("numbers-500", 5000, 1, "la-mcts+cmaes"),
            ("cells", 300, 1, "gp"),
            ("cells", 5000, 1, "tpe"),
            ("mixed", 100, 1, "gp"),
            ("conditional", 2000, 1, "tpe"),
            ("order", 300, 1, "gp"),
            ("order", 1000, 1, "tpe"),
            ("bits", 300, 100, "tpe"),
            ("bits", 100_000, 1, "aging-evolution"),
            ("one", 0, 1, "gp"),
        ];
        for &(space, budget, parallel, expected) in cases {
            let choice = choose(&problem(parameters(space)), &inputs(budget, parallel));
            assert_eq!(
                choice.method, expected,
                "{space}, {budget} trials, {parallel} at once: {}",
                choice.rule
            );
        }
    }

    #[test]
    fn noise_keeps_the_model_that_averages_it_out() {
        let choice = |noisy: bool| {
            let inputs = Inputs { noisy, ..inputs(800, 1) };
            choose(&problem(parameters("mixed")), &inputs).method
        };
        assert_eq!((choice(false), choice(true)), ("tpe", "gp"));
    }

    #[test]
    fn every_choice_can_be_built_and_is_explained() {
        for space in ["numbers-1", "numbers-500", "cells", "conditional", "order", "bits", "one"] {
            let problem = problem(parameters(space));
            for (budget, parallel) in [(0, 1), (1, 1), (300, 4), (1_000_000, 1), (1000, 1000)] {
                let choice = choose(&problem, &inputs(budget, parallel));
                let history = History::new(problem.clone(), Seed::new(0), 1);
                let built = method(choice.method).and_then(|entry| entry.build(&history, &Options::new()));
                assert!(built.is_ok(), "{space}: {}", choice.method);
                let others = choice.alternatives.iter().map(|other| other.method);
                let all: Vec<_> = others.chain([choice.method]).collect();
                assert_eq!(all.len(), CANDIDATES.len(), "{space}: every other candidate is an alternative");
                assert!(
                    !choice.rule.is_empty()
                        && choice.alternatives.iter().all(|other| !other.why_not.is_empty())
                );
            }
        }
    }

    #[test]
    fn options_are_checked() {
        let error = |name: &str, value: crate::Literal| {
            let history = History::new(problem(floats(2)), Seed::new(0), 1);
            match super::super::ENTRY.build(&history, &[(name.to_owned(), value)].into()) {
                Err(Error::Option { method, option, .. }) => (method, option),
                _ => panic!("{name} is taken"),
            }
        };
        assert_eq!(error("budget", 0.into()), ("auto".into(), "budget".into()));
        assert_eq!(error("parallel", "many".into()), ("auto".into(), "parallel".into()));
        assert_eq!(error("noise", 1.into()), ("auto".into(), "noise".into()));
        assert_eq!(error("cp", 10.into()), ("gp-cmaes".into(), "cp".into()));
        assert_eq!(error("popsize", 1.into()), ("gp-cmaes".into(), "popsize".into()));
    }

    #[test]
    fn options_of_the_chosen_method_reach_it() {
        let asked = |options: &[(&str, i64)]| {
            let options =
                options.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect::<Options>();
            let mut search = Search::new(problem(floats(2)), "auto", &options, Seed::new(3)).unwrap();
            (0..8).for_each(|_| assert_eq!(search.ask(1).unwrap().len(), 1));
            search.history().trials().iter().map(|trial| trial.key).collect::<Vec<_>>()
        };
        assert_eq!(asked(&[("budget", 200)]), asked(&[]));
        assert_ne!(asked(&[("init", 5)]), asked(&[]), "a design of five points is another one");
    }
}

//! Whether a partition makes an optimiser better: with its defaults, with the same start, population
//! and restarts but no region, and in the partition.

use pleach_search::{Literal, Options};

use super::Figure;
use super::contest::{cell, log_ratios, ratio_rows};
use super::jobs;
use super::minimise::{BELOW_ROOT, Task, is_registered, name};
use super::record::{Log, Record, Row};
use crate::Result;

pub(super) const FIGURE: Figure = Figure {
    name: "partition-gain",
    about: "optimisers alone, in the whole space as if it were a leaf, and in the partition; 6 functions, 20-d and 100-d",
    minutes: 240,
    run,
    summarise,
    picture: None,
};

const FUNCTIONS: [&str; 6] = ["ackley", "levy", "rosenbrock", "rastrigin", "griewank", "dixon-price"];

/// A leaf solver with its seeds in 20 and in 100 dimensions: fewer where a run takes minutes.
const SOLVERS: &[(&str, [u64; 2])] =
    &[("cmaes", [20, 20]), ("gp-cmaes", [20, 20]), ("tpe", [20, 20]), ("gp", [20, 5]), ("turbo", [20, 5])];

/// Dimensions and evaluations.
const SIZES: [(i64, u64); 2] = [(20, 500), (100, 1_000)];

/// How a solver is used.
#[derive(Clone, Copy)]
enum Column {
    Defaults,
    /// A partition that never splits.
    Fair,
    Partition,
}

impl Column {
    fn method(self, solver: &str) -> String {
        match self {
            Self::Defaults => solver.into(),
            Self::Fair | Self::Partition => format!("la-mcts+{solver}"),
        }
    }

    /// The name in the records.
    fn name(self, solver: &str) -> String {
        match self {
            Self::Fair => format!("la-mcts+{solver}, depth 0"),
            Self::Defaults | Self::Partition => self.method(solver),
        }
    }

    fn options(self, task: &Task, solver: &str) -> Result<Options> {
        match self {
            Self::Defaults => task.options(solver),
            Self::Fair => Ok(Options::from([("depth".to_owned(), Literal::Int(0))])),
            Self::Partition => Ok(Options::new()),
        }
    }
}

fn run(log: &mut Log) -> Result<()> {
    let mut all = Vec::new();
    for (size, (dims, evaluations)) in SIZES.into_iter().enumerate() {
        for &(solver, seeds) in SOLVERS {
            for index in 0..seeds[size] {
                for function in FUNCTIONS {
                    for column in [Column::Partition, Column::Fair, Column::Defaults] {
                        let method = column.method(solver);
                        if is_registered(&method) {
                            let task = Task::of(log, function, dims, evaluations, index)?;
                            let run =
                                move |task: &Task| task.ours(&method, &column.options(task, solver)?, None);
                            all.push(task.job(&column.name(solver), run));
                        }
                    }
                }
            }
        }
    }
    jobs::run(log, all)
}

fn summarise(records: &[Record]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (solver, _) in SOLVERS {
        let [inside, fair, defaults] =
            [Column::Partition, Column::Fair, Column::Defaults].map(|column| column.name(solver));
        for (dims, _) in SIZES {
            let problems = FUNCTIONS.map(|function| name(function, dims));
            for problem in &problems {
                for method in [&defaults, &fair, &inside] {
                    let (median, n) = cell(records, method, problem);
                    rows.push(Row::new(format!("{problem}, {method}, median regret of {n} runs"), median));
                }
                let ratios = log_ratios(records, &inside, &fair, problem);
                rows.extend(ratio_rows(
                    &format!("{problem}, {solver} in the partition over fair"),
                    &[ratios],
                ));
            }
            for (other, what) in [(&defaults, "over its defaults"), (&fair, "over fair")] {
                let ratios: Vec<_> =
                    problems.iter().map(|problem| log_ratios(records, &inside, other, problem)).collect();
                rows.extend(ratio_rows(&format!("{dims}-d, {solver} in the partition {what}"), &ratios));
            }
            let below = |record: &&Record| {
                let of = |problem: &String| record.problem == format!("{problem}, {BELOW_ROOT}");
                record.method == inside && problems.iter().any(of)
            };
            let shares: Vec<f64> = records.iter().filter(below).map(|record| record.value).collect();
            let mean = shares.iter().sum::<f64>() / shares.len() as f64;
            rows.push(Row::new(format!("{dims}-d, {solver}, {BELOW_ROOT}"), mean));
        }
    }
    rows
}

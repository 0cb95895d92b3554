//! Recorded evaluations, looked up by point.

mod file;
mod sheet;

use std::collections::HashMap;
use std::sync::Arc;

pub(super) use file::ENTRY;
pub(super) use sheet::Sheet;

use super::TestProblem;
use super::setup::Request;
use crate::{Error, Goal, Key, Literal, Measurement, Metric, Outcome, Point, Problem, Seed, Space};

/// The option of every table that says how several runs of one point make one value.
pub(super) const REPLICATE: (&str, &str, &str) = (
    "replicate",
    "mean",
    "which of several recorded runs of a point counts: `mean` of all, a random `draw` for each trial, or the number of one, from 1 on",
);

/// The option of tables that names their file.
pub(super) const PATH: (&str, &str, &str) = ("path", "", "the table: a CSV file, gzipped or not");

/// One recorded number a row, or several: the runs of the row.
#[derive(Debug)]
pub(super) struct Column {
    values: Vec<f64>,
    /// Where the runs of each row end in `values`; empty if every row has one.
    ends: Vec<u32>,
}

impl Column {
    /// One value a row.
    pub(super) fn single(values: Vec<f64>) -> Self {
        Self { values, ends: Vec::new() }
    }

    /// No rows yet; each will have runs of its own.
    pub(super) fn runs() -> Self {
        Self { values: Vec::new(), ends: Vec::new() }
    }

    /// Adds a row with these runs; returns how many there are.
    pub(super) fn push_runs(&mut self, runs: impl IntoIterator<Item = f64>) -> usize {
        let before = self.values.len();
        self.values.extend(runs);
        self.ends
            .push(u32::try_from(self.values.len()).expect("a table in memory has fewer than 2^32 cells"));
        self.values.len() - before
    }

    pub(super) fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    fn row(&self, row: u32) -> &[f64] {
        let row = row as usize;
        if self.ends.is_empty() {
            return std::slice::from_ref(&self.values[row]);
        }
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.values[start as usize..self.ends[row] as usize]
    }

    fn has(&self, row: u32, run: usize) -> bool {
        self.ends.is_empty() || self.row(row).len() > run
    }
}

/// Which of the runs of a row counts.
#[derive(Clone, Copy, Debug)]
enum Replicate {
    Mean,
    Draw(Seed),
    /// Index of the run.
    Run(usize),
}

impl Replicate {
    fn of(request: &Request<'_>) -> Result<Self, Error> {
        match request.setup.options.get(REPLICATE.0) {
            None => Ok(Replicate::Mean),
            Some(Literal::Text(text)) if text == "mean" => Ok(Replicate::Mean),
            Some(Literal::Text(text)) if text == "draw" => {
                Ok(Replicate::Draw(request.seed()?.child("replicate", 0)))
            }
            Some(Literal::Int(number @ 1..=1_000_000)) => {
                Ok(Replicate::Run(usize::try_from(number - 1).expect("checked to be small and positive")))
            }
            Some(other) => Err(request.bad(
                REPLICATE.0,
                format!("expected \"mean\", \"draw\" or the number of a run, got {other}"),
            )),
        }
    }
}

/// Points and what was recorded of each.
#[derive(Debug)]
pub(super) struct Table {
    space: Space,
    rows: HashMap<Key, u32>,
    columns: Vec<Column>,
}

impl Table {
    /// A table whose row `i` is about the `i`-th point; rows of `None` are left out.
    ///
    /// # Errors
    /// What `points` yields; the index of a row and that of an earlier one with the same point.
    pub(super) fn new<E>(
        space: Space,
        columns: Vec<Column>,
        points: impl Iterator<Item = Result<Option<Point>, E>>,
        same: impl Fn(usize, usize) -> E,
    ) -> Result<Self, E> {
        let mut rows = HashMap::with_capacity(points.size_hint().0);
        for (row, point) in points.enumerate() {
            let Some(point) = point? else { continue };
            let index = u32::try_from(row).expect("a table in memory has fewer than 2^32 rows");
            if let Some(earlier) = rows.insert(space.key(&point), index) {
                return Err(same(row, earlier as usize));
            }
        }
        Ok(Self { space, rows, columns })
    }

    /// The problem of finding the best point by some of the metrics that the columns offer.
    pub(super) fn offer(
        self,
        request: &Request<'_>,
        offered: &[(&'static str, Goal, &str)],
        seconds: usize,
    ) -> Result<TestProblem, Error> {
        let (metrics, columns) = request.pick_metrics(offered)?;
        let others = offered.iter().enumerate().filter(|(column, _)| !columns.contains(column));
        let others = others.map(|(column, &(name, ..))| (name, column)).collect();
        self.problem(request, metrics, &columns, Some(seconds), others)
    }

    /// The problem of finding the best point: each of `metrics` is read from its column, the cost
    /// from the column `seconds`; `others` are told on request. A point that is not in the table is
    /// infeasible.
    fn problem(
        self,
        request: &Request<'_>,
        metrics: Vec<Metric>,
        columns: &[usize],
        seconds: Option<usize>,
        others: Vec<(&'static str, usize)>,
    ) -> Result<TestProblem, Error> {
        let replicate = Replicate::of(request)?;
        let noise = request.size("noise", 0.0)?;
        let problem = Problem::new(self.space.clone(), metrics)?;
        if let Replicate::Run(run) = replicate {
            let lacks =
                |row: &&u32| columns.iter().chain(&seconds).any(|&c| !self.columns[c].has(**row, run));
            let lacking = self.rows.values().filter(lacks).count();
            if lacking > 0 {
                let message = format!(
                    "{lacking} of {} points have no run {}; use \"mean\", \"draw\" or a smaller number",
                    self.rows.len(),
                    run + 1
                );
                return Err(request.bad(REPLICATE.0, message));
            }
        }
        let lookup = Arc::new(Lookup { table: self, columns: columns.to_vec(), seconds, replicate, others });
        let losses =
            lookup.table.rows.values().filter_map(|&row| problem.merit(&lookup.measure(row, None)).loss());
        let best = losses.filter(|loss| loss.is_finite()).min_by(f64::total_cmp);
        let optimum = best.map(|loss| problem.value(loss));
        let recorded = Arc::clone(&lookup);
        let built = TestProblem {
            extras: Box::new(move |point| recorded.extras(point)),
            ..TestProblem::new(problem, optimum, move |point, number| lookup.evaluate(point, number))
        };
        Ok(if noise > 0.0 { built.with_noise(noise, request.seed()?) } else { built })
    }
}

fn mean(runs: &[f64]) -> f64 {
    runs.iter().sum::<f64>() / runs.len() as f64
}

/// A table and what of it is asked for.
struct Lookup {
    table: Table,
    columns: Vec<usize>,
    seconds: Option<usize>,
    replicate: Replicate,
    /// What else there is to know: names and columns.
    others: Vec<(&'static str, usize)>,
}

impl Lookup {
    fn row(&self, point: &Point) -> Option<u32> {
        self.table.rows.get(&self.table.space.key(point)).copied()
    }

    fn evaluate(&self, point: &Point, number: u64) -> Outcome {
        self.row(point).map_or(Outcome::Infeasible, |row| self.measure(row, Some(number)))
    }

    fn extras(&self, point: &Point) -> Vec<(&'static str, f64)> {
        let Some(row) = self.row(point) else { return Vec::new() };
        self.others.iter().map(|&(name, column)| (name, mean(self.table.columns[column].row(row)))).collect()
    }

    /// The outcome of a trial, or the one on average.
    fn measure(&self, row: u32, number: Option<u64>) -> Outcome {
        // One draw a trial: its metrics come from the same run.
        let draw = match (self.replicate, number) {
            (Replicate::Draw(seed), Some(number)) => Some(seed.rng(number).unit()),
            _ => None,
        };
        let value = |column: usize| {
            let runs = self.table.columns[column].row(row);
            match (self.replicate, draw) {
                _ if runs.len() == 1 => runs[0],
                (Replicate::Run(run), _) => runs[run],
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in 0..len")]
                (_, Some(draw)) => runs[(draw * runs.len() as f64) as usize],
                _ => mean(runs),
            }
        };
        Outcome::Measured(Measurement {
            cost: self.seconds.map(value),
            ..Measurement::new(self.columns.iter().map(|&column| value(column)).collect())
        })
    }
}

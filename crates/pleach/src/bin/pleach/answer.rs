//! The answer: the best point of a study, for people.

use std::io::{self, Write};

use pleach_search::{Goal, Measurement, Merit, Metric, Outcome, Problem};
use pleach_study::{BestTrial, Progress, Spec, State, TrialRecord};

use crate::builtin::Builtin;
use crate::text;

/// Prints the best point with its metrics and limits.
pub(crate) fn print(
    out: &mut dyn Write,
    spec: &Spec,
    progress: &Progress,
    builtin: Option<&Builtin>,
) -> io::Result<()> {
    let counts = counts(progress);
    let Some(best) = &progress.best else {
        return writeln!(out, "{}: no trial succeeded ({counts})", spec.name);
    };
    writeln!(out, "{}: the best of {counts} is trial {}", spec.name, best.number)?;
    if !best.feasible {
        writeln!(out, "No trial keeps every limit; this one comes nearest.")?;
    }
    writeln!(out)?;
    let rows: Vec<[String; 3]> = spec
        .metrics
        .iter()
        .map(|metric| {
            let value = if metric.limit.is_none() { Some(best.value) } else { reported(best, metric) };
            let value = value.map(text::number).unwrap_or_default();
            [metric.name.clone(), value, remark(metric, best)]
        })
        .chain(
            best.metrics
                .iter()
                .filter(|(name, _)| spec.metrics.iter().all(|metric| metric.name != *name))
                .map(|(name, value)| [name.clone(), text::number(*value), String::new()]),
        )
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (names, values) = (width(0), width(1));
    for [name, value, remark] in &rows {
        let line = format!("  {name:<names$}  {value:>values$}  {remark}");
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out)?;
    let width = best.params.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in &best.params {
        writeln!(out, "  {name:<width$} = {}", text::toml_value(value))?;
    }
    if let Some(text) = builtin.and_then(|builtin| builtin.describe(&best.params)) {
        writeln!(out, "\n  {text}")?;
    }
    Ok(())
}

fn reported(best: &BestTrial, metric: &Metric) -> Option<f64> {
    best.metrics.iter().find(|(name, _)| *name == metric.name).map(|(_, value)| *value)
}

/// Goal, limit and noise of a metric, in words.
fn remark(metric: &Metric, best: &BestTrial) -> String {
    match (text::limit(metric), best.sem) {
        (Some(limit), _) => {
            let broken = reported(best, metric).is_some_and(|value| match metric.goal {
                Goal::Min => metric.limit.is_some_and(|limit| value > limit),
                Goal::Max => metric.limit.is_some_and(|limit| value < limit),
            });
            format!("limit: {limit}{}", if broken { ", broken" } else { "" })
        }
        (None, Some(sem)) => format!("{}, ± {}", direction(metric.goal), text::number(sem)),
        (None, None) => direction(metric.goal).to_owned(),
    }
}

fn direction(goal: Goal) -> &'static str {
    if goal == Goal::Min { "smaller is better" } else { "larger is better" }
}

/// How many trials there are, and those that are not simply done: `40 trials (2 failed, 1 running)`.
pub(crate) fn counts(progress: &Progress) -> String {
    let others: Vec<String> = progress
        .counts
        .iter()
        .filter(|(state, count)| **state != State::Done && **count > 0)
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    let trials = match progress.trials {
        1 => "1 trial".to_owned(),
        n => format!("{n} trials"),
    };
    if others.is_empty() { trials } else { format!("{trials} ({})", others.join(", ")) }
}

/// Where a stored trial stands in the order of trials.
pub(crate) fn merit(problem: &Problem, trial: &TrialRecord) -> Merit {
    let outcome = match trial.state {
        State::Done | State::Pruned => {
            let metrics: Option<Vec<f64>> = problem
                .metrics()
                .iter()
                .map(|metric| trial.metric(&metric.name).filter(|x| x.is_finite()))
                .collect();
            match metrics {
                Some(metrics) if trial.state == State::Done => Outcome::Measured(Measurement::new(metrics)),
                _ => return Merit::Withdrawn,
            }
        }
        State::Infeasible => Outcome::Infeasible,
        State::Failed | State::Timeout => return Merit::Failed,
        _ => Outcome::Withdrawn,
    };
    problem.merit(&outcome)
}

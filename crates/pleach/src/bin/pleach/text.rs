//! Numbers, values and tables as a terminal shows them, and records as JSON.

use std::io::{self, Write};

use pleach_search::{Goal, Literal, Metric};
use pleach_study::{BestTrial, Progress, ReportRecord, TrialRecord};
use serde_json::{Map, Value as Json, json};

/// A number in at most six significant digits.
pub(crate) fn number(x: f64) -> String {
    let size = x.abs();
    if x == 0.0 || !x.is_finite() {
        return if x == 0.0 { "0".into() } else { x.to_string() };
    }
    if !(1e-4..1e6).contains(&size) {
        let text = format!("{x:.5e}");
        let Some((mantissa, exponent)) = text.split_once('e') else { return text };
        return format!("{}e{exponent}", trim_zeros(mantissa));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to 9 by the range above"
    )]
    let decimals = (5.0 - size.log10().floor()) as usize;
    trim_zeros(&format!("{x:.decimals$}")).to_owned()
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// A value in at most six significant digits, for tables.
pub(crate) fn short(literal: &Literal) -> String {
    match literal {
        Literal::Float(x) => number(*x),
        other => other.to_string(),
    }
}

/// A point in one line: `lr=0.001 opt=adamw`.
pub(crate) fn line(params: &[(String, Literal)]) -> String {
    let pairs: Vec<String> = params.iter().map(|(name, value)| format!("{name}={}", short(value))).collect();
    pairs.join(" ")
}

/// A value as TOML writes it, exactly.
pub(crate) fn toml_value(literal: &Literal) -> String {
    match literal {
        Literal::Text(text) => toml::Value::String(text.clone()).to_string(),
        other => other.to_string(),
    }
}

/// What a limit demands, in words.
pub(crate) fn limit(metric: &Metric) -> Option<String> {
    let limit = metric.limit?;
    Some(match metric.goal {
        Goal::Min => format!("at most {}", number(limit)),
        Goal::Max => format!("at least {}", number(limit)),
    })
}

/// Rows of cells below a header, each column as wide as its widest cell; numbers to the right.
pub(crate) fn table(out: &mut dyn Write, header: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let numeric: Vec<bool> = (0..header.len())
        .map(|i| rows.iter().all(|row| row[i].is_empty() || row[i].parse::<f64>().is_ok()))
        .collect();
    let mut line = |cells: &[&str]| -> io::Result<()> {
        let mut text = String::new();
        for (i, cell) in cells.iter().enumerate() {
            let pad = " ".repeat(widths[i] - cell.chars().count());
            let separator = if i == 0 { "" } else { "  " };
            let (before, after) = if numeric[i] { (pad.as_str(), "") } else { ("", pad.as_str()) };
            text.extend([separator, before, cell, after]);
        }
        writeln!(out, "{}", text.trim_end())
    };
    line(header)?;
    rows.iter().try_for_each(|row| line(&row.iter().map(String::as_str).collect::<Vec<_>>()))
}

/// A value as JSON; floats keep their point, so that a reader sees their type.
pub(crate) fn json_value(literal: &Literal) -> Json {
    match literal {
        Literal::Bool(b) => json!(b),
        Literal::Int(k) => json!(k),
        Literal::Float(x) => json!(x),
        Literal::Text(text) => json!(text),
        Literal::List(items) => json!(items),
    }
}

/// A number as JSON; those JSON lacks become texts.
pub(crate) fn json_number(x: f64) -> Json {
    match x {
        _ if x.is_finite() => json!(x),
        _ if x.is_nan() => json!("nan"),
        _ => json!(if x > 0.0 { "inf" } else { "-inf" }),
    }
}

/// Named values as a JSON object, in their order.
pub(crate) fn json_params(params: &[(String, Literal)]) -> Json {
    params.iter().map(|(name, value)| (name.clone(), json_value(value))).collect::<Map<_, _>>().into()
}

/// Named numbers as a JSON object, in their order.
pub(crate) fn json_metrics<'a>(metrics: impl IntoIterator<Item = (&'a String, &'a f64)>) -> Json {
    metrics.into_iter().map(|(name, value)| (name.clone(), json_number(*value))).collect::<Map<_, _>>().into()
}

/// How many trials are in each state, as JSON.
pub(crate) fn json_counts(progress: &Progress) -> Json {
    let counts = progress.counts.iter().map(|(state, count)| (state.name().to_owned(), json!(count)));
    counts.collect::<Map<_, _>>().into()
}

/// The best point as JSON.
pub(crate) fn json_best(best: Option<&BestTrial>) -> Json {
    let Some(best) = best else { return Json::Null };
    json!({
        "number": best.number,
        "value": json_number(best.value),
        "sem": best.sem,
        "feasible": best.feasible,
        "params": json_params(&best.params),
        "metrics": json_metrics(best.metrics.iter().map(|(name, value)| (name, value))),
    })
}

/// What is the same in every run with the same seed: number, state, parameters, metrics.
pub(crate) fn json_core(trial: &TrialRecord) -> Json {
    json!({
        "number": trial.number,
        "state": trial.state.name(),
        "params": json_params(&trial.params),
        "metrics": json_metrics(trial.metrics.iter().map(|(name, value)| (name, value))),
    })
}

/// Everything that is stored of a trial.
pub(crate) fn json_trial(trial: &TrialRecord) -> Json {
    let mut json = json_core(trial);
    let rest = json!({
        "sem": trial.sem,
        "cost": trial.cost,
        "features": trial.features,
        "failure": trial.failure.map(|class| class.to_string()),
        "origin": trial.origin,
        "attempt": trial.attempt,
        "worker": trial.worker,
        "created_ms": trial.created_ms,
        "started_ms": trial.started_ms,
        "ended_ms": trial.ended_ms,
        "error": trial.error,
        "peak_rss_bytes": trial.peak_rss_bytes,
    });
    if let (Json::Object(json), Json::Object(rest)) = (&mut json, rest) {
        json.extend(rest);
    }
    json
}

/// An intermediate report.
pub(crate) fn json_report(report: &ReportRecord) -> Json {
    json!({ "step": report.step, "metrics": json_metrics(report.metrics.iter().map(|(name, value)| (name, value))) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let check = |x: f64, expected: &str| assert_eq!(number(x), expected);
        check(0.0, "0");
        check(91.234_567_8, "91.2346");
        check(-0.5, "-0.5");
        check(1e-7, "1e-7");
        check(123_456_789.0, "1.23457e8");
        check(999_999.0, "999999");
        check(0.000_123_456_78, "0.000123457");
        check(f64::NAN, "NaN");
    }

    #[test]
    fn tables_align_numbers_to_the_right() {
        let rows = vec![vec!["1".to_owned(), "é".into()], vec!["10".into(), "long".into()]];
        let mut out = Vec::new();
        table(&mut out, &["n", "name"], &rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), " n  name\n 1  é\n10  long\n");
    }
}

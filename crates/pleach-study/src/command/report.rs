//! What a command reports: one JSON object a line, merged over the lines of a trial.

use std::collections::BTreeMap;

use serde_json::Value as Json;

/// Keys of a report that are not metrics.
pub const RESERVED: [&str; 5] = ["step", "final", "sem", "cost", "features"];

/// One line of a report.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Report {
    /// The step of an intermediate report; `None` in a final one.
    pub step: Option<u64>,
    /// The values by name; NaN and infinities are kept, they mean that the trial diverged.
    pub metrics: BTreeMap<String, f64>,
    /// Standard error of the objective.
    pub sem: Option<f64>,
    /// What the evaluation cost, in the user's unit.
    pub cost: Option<f64>,
    /// Features of the point that only the evaluation knows.
    pub features: Option<Vec<f64>>,
    /// Whether the line says `"final": true`.
    is_final: bool,
}

impl Report {
    /// Reads one line.
    ///
    /// A number may also be written as Python and JavaScript print what JSON cannot hold: `NaN`,
    /// `Infinity`, `-inf`, or `null` for NaN.
    ///
    /// # Errors
    /// What is wrong with the line, as a sentence.
    pub fn parse(line: &str) -> Result<Self, String> {
        let json = serde_json::from_str(line).or_else(|error| {
            let quoted = quote_bare_numbers(line);
            serde_json::from_str(&quoted).map_err(|_| format!("is not JSON: {error}"))
        })?;
        let Json::Object(fields) = json else { return Err("is not a JSON object".into()) };
        let mut report = Self::default();
        for (name, value) in fields {
            let real = |value: &Json| {
                number(value).ok_or_else(|| format!("has a {name} that is not a number: {value}"))
            };
            match name.as_str() {
                "step" => {
                    let step = step(&value);
                    report.step =
                        Some(step.ok_or_else(|| format!("has a step that is not a count: {value}"))?);
                }
                "final" => {
                    let flag = value.as_bool();
                    report.is_final =
                        flag.ok_or_else(|| format!("has a final that is neither true nor false: {value}"))?;
                }
                "sem" => report.sem = Some(real(&value)?),
                "cost" => report.cost = Some(real(&value)?),
                "features" => {
                    let items = value
                        .as_array()
                        .ok_or_else(|| format!("has features that are not a list: {value}"))?;
                    report.features = Some(items.iter().map(real).collect::<Result<_, _>>()?);
                }
                _ => {
                    let real = real(&value)?;
                    report.metrics.insert(name, real);
                }
            }
        }
        Ok(report)
    }
}

/// All that one trial has reported.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Reports {
    /// The final lines, merged; a later value of a name replaces an earlier one.
    pub last: Report,
    /// The newest intermediate value of every name.
    pub intermediate: BTreeMap<String, f64>,
    /// Whether a line said `"final": true`.
    pub is_complete: bool,
    /// The first things that went wrong in reading them.
    pub warnings: Vec<String>,
    /// How many lines could not be read.
    pub n_malformed: u64,
}

/// Warnings that are kept.
const KEPT_WARNINGS: usize = 3;

impl Reports {
    /// Takes in one line; returns it when it is an intermediate report.
    pub(super) fn take(&mut self, line: &[u8]) -> Option<Report> {
        let line = String::from_utf8_lossy(line);
        let line = line.trim();
        if line.is_empty() {
            return None;
        }
        match Report::parse(line) {
            Ok(report) => {
                self.is_complete |= report.is_final;
                if report.step.is_none() || report.is_final {
                    self.last.metrics.extend(report.metrics.clone());
                    self.last.sem = report.sem.or(self.last.sem);
                    self.last.cost = report.cost.or(self.last.cost);
                    self.last.features = report.features.clone().or(self.last.features.take());
                }
                report.step?;
                self.intermediate.extend(report.metrics.clone());
                Some(report)
            }
            Err(error) => {
                self.n_malformed += 1;
                self.warn(format!("the report `{}` {error}", shorten(line, 80)));
                None
            }
        }
    }

    /// Keeps a warning, unless there are many or it is known; true, so that reading goes on.
    pub(super) fn warn(&mut self, warning: String) -> bool {
        if self.warnings.len() < KEPT_WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
        true
    }

    /// The value a trial ended with: the final one, or else the newest intermediate one.
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.last.metrics.get(metric).or_else(|| self.intermediate.get(metric)).copied()
    }
}

/// At most `n` characters of `text`.
pub(super) fn shorten(text: &str, n: usize) -> String {
    match text.char_indices().nth(n) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn number(value: &Json) -> Option<f64> {
    match value {
        Json::Number(number) => number.as_f64(),
        Json::String(text) => not_finite(text),
        Json::Null => Some(f64::NAN),
        _ => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is checked to be a small whole number"
)]
fn step(value: &Json) -> Option<u64> {
    let whole = |x: &f64| *x >= 0.0 && x.fract() == 0.0 && *x < 9e15;
    value.as_u64().or_else(|| value.as_f64().filter(whole).map(|x| x as u64))
}

/// `NaN`, `Infinity`, `-inf` and their spellings.
fn not_finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|x: &f64| !x.is_finite())
}

/// Puts quotes around words such as `NaN` that stand where a number should.
fn quote_bare_numbers(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 8);
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let end = if c == '"' {
            string_end(rest)
        } else if c.is_ascii_alphabetic() || matches!(c, '-' | '+') {
            rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '+' | '.'))
                .unwrap_or(rest.len())
        } else {
            c.len_utf8()
        };
        let (token, tail) = rest.split_at(end);
        if c != '"' && not_finite(token).is_some() {
            out.extend(["\"", token, "\""]);
        } else {
            out.push_str(token);
        }
        rest = tail;
    }
    out
}

/// Length of the string literal at the start of `text`.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return i + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn metrics(line: &str) -> Vec<(String, f64)> {
        Report::parse(line).unwrap().metrics.into_iter().collect()
    }

    fn same(a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
    }

    #[test]
    fn lines_carry_metrics_and_reserved_keys() {
        let report = Report::parse(
            r#"{"step": 3.0, "loss": 1, "acc": 0.5, "sem": 0.1, "cost": 2, "features": [1, 2.5]}"#,
        )
        .unwrap();
        assert_eq!(report.step, Some(3));
        assert_eq!(report.metrics, BTreeMap::from([("loss".into(), 1.0), ("acc".into(), 0.5)]));
        assert_eq!((report.sem, report.cost, report.features), (Some(0.1), Some(2.0), Some(vec![1.0, 2.5])));
    }

    #[test]
    fn numbers_that_json_cannot_hold_are_read() {
        for (token, expected) in [
            ("NaN", f64::NAN),
            ("nan", f64::NAN),
            ("-nan", f64::NAN),
            ("null", f64::NAN),
            ("\"nan\"", f64::NAN),
            ("Infinity", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("+inf", f64::INFINITY),
            ("-inf", f64::NEG_INFINITY),
        ] {
            let read = metrics(&format!(r#"{{"NaN \" inf": 1e-3, "x": {token}, "y":-2}}"#));
            assert_eq!((read[0].1, read[2].1), (1e-3, -2.0));
            assert!(same(read[1].1, expected), "{token}: {read:?}");
        }
    }

    #[test]
    fn malformed_lines_say_what_is_wrong() {
        for (line, message) in [
            ("loss=1", "not JSON"),
            ("[1]", "not a JSON object"),
            (r#"{"loss": "low"}"#, "loss that is not a number"),
            (r#"{"loss": true}"#, "loss that is not a number"),
            (r#"{"step": -1}"#, "step that is not a count"),
            (r#"{"final": 1}"#, "neither true nor false"),
            (r#"{"features": 1}"#, "not a list"),
            (r#"{"a": NaN"#, "not JSON"),
        ] {
            let error = Report::parse(line).unwrap_err();
            assert!(error.contains(message), "{line}: {error}");
        }
    }

    #[test]
    fn lines_merge_and_final_values_win_over_intermediate_ones() {
        let mut reports = Reports::default();
        assert_eq!(reports.take(br#"{"step": 1, "loss": 3, "acc": 0.1}"#).unwrap().step, Some(1));
        assert!(reports.take(br#"{"loss": 2}"#).is_none());
        assert!(reports.take(br#"{"step": 9, "final": true, "time": 5}"#).is_some());
        assert!(reports.take(b"\xff\xfe").is_none());
        assert!(reports.take(b"  \r").is_none());
        assert_eq!(
            (reports.value("loss"), reports.value("acc"), reports.value("time")),
            (Some(2.0), Some(0.1), Some(5.0))
        );
        assert_eq!((reports.value("none"), reports.n_malformed, reports.warnings.len()), (None, 1, 1));
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in ".*") {
            let _ = Report::parse(&line);
            let _ = quote_bare_numbers(&line);
        }

        #[test]
        fn floats_survive_the_round_trip(x in prop::num::f64::ANY) {
            let text = if x.is_finite() { serde_json::to_string(&x).unwrap() } else { format!("{x}") };
            let read = metrics(&format!("{{\"x\": {text}}}"))[0].1;
            prop_assert!(same(read, x));
        }
    }
}

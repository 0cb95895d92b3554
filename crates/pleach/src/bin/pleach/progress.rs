//! What a running study shows: a bar on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use pleach_study::{Progress, State};

use crate::text;
use crate::units::show_duration;

/// Time between two lines where no terminal shows a bar.
const LINE_EVERY: Duration = Duration::from_secs(30);
/// The least time between two lines, however fast the study is.
const LINE_AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// How many characters of parameters are shown.
const PARAMS_WIDTH: usize = 60;

/// Shows progress on standard error.
#[derive(Debug)]
pub(crate) struct Display {
    /// Trials of the study at its end, if that is limited.
    total: Option<u64>,
    /// Name of the objective.
    objective: String,
    started: Instant,
    finished_before: u64,
    output: Output,
}

#[derive(Debug)]
enum Output {
    Bar(ProgressBar),
    Lines { last: Instant, finished: u64 },
    Nothing,
}

impl Display {
    /// A display for a run that starts at `progress`.
    pub(crate) fn new(total: Option<u64>, objective: &str, progress: &Progress, quiet: bool) -> Self {
        let finished_before = progress.finished();
        let output = if quiet {
            Output::Nothing
        } else if std::io::stderr().is_terminal() {
            let (bar, template) = match total {
                Some(total) => (ProgressBar::new(total), "{bar:30} {pos}/{len}  {wide_msg}"),
                None => (ProgressBar::new_spinner(), "{spinner} {pos} trials  {wide_msg}"),
            };
            bar.set_style(ProgressStyle::with_template(template).expect("the template is valid"));
            Output::Bar(bar)
        } else {
            Output::Lines { last: Instant::now(), finished: finished_before }
        };
        Self { total, objective: objective.to_owned(), started: Instant::now(), finished_before, output }
    }

    /// Shows where the study is now.
    pub(crate) fn update(&mut self, progress: &Progress) {
        let finished = progress.finished();
        let message = self.message(progress);
        match &mut self.output {
            Output::Nothing => {}
            Output::Bar(bar) => {
                bar.set_position(finished);
                bar.set_message(message);
            }
            Output::Lines { last, finished: shown } => {
                let step = self.total.map_or(u64::MAX, |total| total.div_ceil(20));
                let waited = last.elapsed();
                let due = waited >= LINE_EVERY || finished >= shown.saturating_add(step);
                if waited >= LINE_AT_MOST_EVERY && due {
                    (*last, *shown) = (Instant::now(), finished);
                    let of = self.total.map(|total| format!("/{total}")).unwrap_or_default();
                    say(&format!("{finished}{of} trials  {message}"));
                }
            }
        }
    }

    /// Says something besides the progress.
    pub(crate) fn note(&self, text: &str) {
        match &self.output {
            Output::Nothing => {}
            Output::Bar(bar) => bar.suspend(|| say(text)),
            Output::Lines { .. } => say(text),
        }
    }

    /// Clears the bar.
    pub(crate) fn finish(&mut self) {
        if let Output::Bar(bar) = &self.output {
            bar.finish_and_clear();
        }
    }

    /// Failures, speed, remaining time and the best point.
    fn message(&self, progress: &Progress) -> String {
        let mut parts = Vec::new();
        let failed =
            progress.count(State::Failed) + progress.count(State::Timeout) + progress.count(State::Lost);
        if failed > 0 {
            parts.push(format!("{failed} failed"));
        }
        let finished = progress.finished();
        let done = finished.saturating_sub(self.finished_before);
        let seconds = self.started.elapsed().as_secs_f64();
        if done > 0 && seconds > 0.1 {
            let rate = done as f64 / seconds;
            parts.push(speed(rate));
            let left = self.total.map(|total| total.saturating_sub(finished) as f64 / rate);
            if let Some(left) =
                left.and_then(|left| Duration::try_from_secs_f64(left).ok()).filter(|left| !left.is_zero())
            {
                parts.push(format!("{} left", show_duration(left)));
            }
        }
        if let Some(best) = &progress.best {
            let mut params = text::line(&best.params);
            if let Some((cut, _)) = params.char_indices().nth(PARAMS_WIDTH) {
                params.truncate(cut);
                params.push('…');
            }
            let broken = if best.feasible { "" } else { " (a limit is broken)" };
            parts.push(format!(
                "best {} {}{broken} at trial {}: {params}",
                self.objective,
                text::number(best.value),
                best.number
            ));
        }
        parts.join("  ")
    }
}

/// Trials per second, minute or hour, whichever reads best.
fn speed(per_second: f64) -> String {
    match per_second {
        rate if rate >= 1.0 => format!("{}/s", text::number((rate * 10.0).round() / 10.0)),
        rate if rate * 60.0 >= 1.0 => format!("{}/min", text::number((rate * 600.0).round() / 10.0)),
        rate => format!("{}/h", text::number((rate * 36000.0).round() / 10.0)),
    }
}

/// A line on standard error; if nobody reads it, that is no fault of the study.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

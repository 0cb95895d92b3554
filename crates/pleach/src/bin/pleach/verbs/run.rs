//! `pleach run`: an experiment, from wherever it stands to its end.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use clap::Args;
use pleach_search::Metric;
use pleach_study::{
    Event, Finish, Lease, RunOptions, State, Stop, Study, Summary, Tell, Urgency, run_simulated, run_workers,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::answer;
use crate::experiment::{Experiment, Limits, Work};
use crate::fault::{Exit, Fault};
use crate::progress::Display;
use crate::storage::{Target, Where};
use crate::units::{duration, show_duration};

/// Run an experiment, or go on with it
///
/// The study is created if it does not exist; the same command goes on after any stop. Any number
/// of these commands may run one study at the same time. The first Ctrl-C finishes the trials that
/// run, the second kills them; they are evaluated again by the next run.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// The experiment file
    file: PathBuf,
    #[command(flatten)]
    place: Where,
    /// Trials at once, instead of `parallel` in [limits]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Limits")]
    workers: Option<u16>,
    /// Run until the study has this many trials
    #[arg(short = 'n', long, value_name = "N", help_heading = "Limits")]
    trials: Option<u64>,
    /// Start no trial after this time, such as 2h
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Limits")]
    wall: Option<Duration>,
    /// Exit with 4 if a limit on time or failures ends the run
    #[arg(long, help_heading = "Limits")]
    strict: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Print the answer as JSON: {"study", "best", "counts", "finish", "seconds"}
    #[arg(long)]
    json: bool,
}

/// Time between two looks at the study for the display.
const LOOK: Duration = Duration::from_millis(200);

impl Run {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let mut target = self.place.find(Some(&self.file))?;
        if let Some(experiment) = &mut target.experiment {
            self.take_the_place_of(&mut experiment.limits);
        }
        let Some(experiment) = &target.experiment else {
            return Err(Fault::usage(format!("{} is not an experiment file", self.file.display()))
                .help("run takes a .toml file; `pleach init` writes one"));
        };
        let stop = Stop::new();
        let mut signals = listen(&stop)?;
        let study = target.open(Lease::Process)?;
        let result = self.evaluate(&study, experiment, &stop);
        signals.close();
        let summary = result?;
        let progress = study.progress()?;
        let spec = study.spec()?;
        study.close()?;

        if self.json {
            let json = serde_json::json!({
                "study": spec.name,
                "best": crate::text::json_best(progress.best.as_ref()),
                "counts": crate::text::json_counts(&progress),
                "finish": finish_name(summary.finish),
                "seconds": summary.elapsed.as_secs_f64(),
            });
            writeln!(out, "{json}")?;
        } else {
            answer::print(out, &spec, &progress, target.builtin())?;
            self.go_on(out, &target, &summary)?;
        }
        Ok(match summary.finish {
            Finish::Stopped => Exit::Interrupted,
            _ if progress.count(State::Done) == 0 => Exit::NoSuccess,
            Finish::Wall | Finish::Failures if self.strict => Exit::Limit,
            _ => Exit::Done,
        })
    }

    /// The limits of this command line come before those of the file.
    fn take_the_place_of(&self, limits: &mut Limits) {
        limits.trials = self.trials.or(limits.trials);
        limits.parallel = self.workers.map_or(limits.parallel, usize::from);
        limits.wall = self.wall.or(limits.wall);
    }

    /// Runs the workers and shows how they get on.
    fn evaluate(&self, study: &Study, experiment: &Experiment, stop: &Stop) -> Result<Summary, Fault> {
        let Limits { trials, wall, parallel, max_failures } = experiment.limits;
        let options = RunOptions {
            workers: parallel,
            trials,
            wall,
            max_failures,
            stop: stop.clone(),
            ..RunOptions::default()
        };
        let evaluator = experiment.evaluator(study)?;
        let before = study.progress()?;
        let objective = experiment.spec.metrics.iter().find(|metric| metric.limit.is_none());
        let objective = objective.map_or("", |metric| metric.name.as_str());
        let display = Mutex::new(Display::new(options.trials, objective, &before, self.quiet));
        let show = |act: &dyn Fn(&mut Display)| {
            act(&mut display.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        };
        if before.trials > 0 {
            show(&|display| display.note(&format!("going on with {}", answer::counts(&before))));
        }
        if options.trials.is_none() && options.wall.is_none() && study_is_endless(experiment) {
            show(&|display| display.note("no limit on trials is given: Ctrl-C ends the run"));
        }
        let observe = |event: &Event<'_>| {
            if let Event::Ended { assignment, state, tell } = event
                && let Some(text) = complaint(*state, tell, &experiment.spec.metrics)
            {
                show(&|display| display.note(&format!("trial {}: {text}", assignment.number)));
            }
        };
        let summary = std::thread::scope(|scope| {
            let (ended, end) = channel::<()>();
            let display = &display;
            scope.spawn(move || watch(study, stop, display, &end));
            let summary = match &experiment.work {
                Work::Builtin(builtin) if builtin.simulate => {
                    run_simulated(study, &|trial| builtin.tell(trial), &options, &observe).map(
                        |(summary, seconds)| {
                            let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
                            let n = options.workers;
                            let text = format!(
                                "simulated time of {n} worker{}: {}",
                                if n == 1 { "" } else { "s" },
                                show_duration(time)
                            );
                            show(&|display| display.note(&text));
                            summary
                        },
                    )
                }
                _ => run_workers(study, &*evaluator, &options, &observe),
            };
            drop(ended);
            summary
        });
        show(&Display::finish);
        Ok(summary?)
    }

    /// Why the run ended, and what to do next.
    fn go_on(&self, out: &mut dyn Write, target: &Target, summary: &Summary) -> Result<(), Fault> {
        let file = self.file.display();
        let took = show_duration(summary.elapsed);
        writeln!(out)?;
        match summary.finish {
            Finish::Trials => {
                writeln!(out, "All trials are done ({took}). More: pleach run {file} --trials N")?;
            }
            Finish::Exhausted => writeln!(out, "Every point of the space has been tried ({took}).")?,
            Finish::Wall => writeln!(out, "The time is over ({took}). Go on: pleach run {file}")?,
            Finish::Failures => {
                writeln!(out, "Too many trials failed ({took}). See them: pleach ls {file} --state failed")?;
            }
            _ => writeln!(out, "Stopped after {took}. Go on: pleach run {file}")?,
        }
        writeln!(out, "Study: {}   All trials: pleach export {file}", target.path.display())?;
        Ok(())
    }
}

/// Whether no limit of the space ends the run.
fn study_is_endless(experiment: &Experiment) -> bool {
    experiment.space().is_ok_and(|space| space.cardinality().is_none())
}

/// The name of a finish in JSON.
fn finish_name(finish: Finish) -> &'static str {
    match finish {
        Finish::Trials => "trials",
        Finish::Exhausted => "exhausted",
        Finish::Wall => "wall",
        Finish::Failures => "failures",
        _ => "stopped",
    }
}

/// What to say about a trial that did not end well.
fn complaint(state: State, tell: &Tell, metrics: &[Metric]) -> Option<String> {
    match (state, tell) {
        (State::Failed, Tell::Failed { class, reason, .. }) => {
            let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            Some(format!("failed ({class}){reason}"))
        }
        (State::Failed, Tell::Done(evaluation)) => {
            let wrong = metrics.iter().find_map(|metric| match evaluation.metrics.get(&metric.name) {
                None => Some(format!("{} was not reported", metric.name)),
                Some(value) => (!value.is_finite()).then(|| format!("{} is {value}", metric.name)),
            });
            Some(format!("failed: {}", wrong.unwrap_or_default()))
        }
        (State::Timeout, _) => Some("ran out of time".to_owned()),
        (State::Lost, _) => Some("lost".to_owned()),
        _ => None,
    }
}

/// Updates the display until the run ends, and says what an interrupt does.
fn watch(study: &Study, stop: &Stop, display: &Mutex<Display>, end: &std::sync::mpsc::Receiver<()>) {
    let mut said = Urgency::None;
    loop {
        let over = end.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout);
        // If the study cannot be asked, the workers meet the same error and say so.
        let progress = study.progress();
        let mut display = display.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let urgency = stop.urgency();
        if urgency > said {
            said = urgency;
            display.note(match urgency {
                Urgency::Kill => "killing the trials that run; the next run evaluates them again",
                _ => "finishing the trials that run; interrupt again to kill them",
            });
        }
        if let Ok(progress) = progress {
            display.update(&progress);
        }
        if over {
            return;
        }
    }
}

/// The thread that turns signals into requests to stop.
struct Listener {
    handle: signal_hook::iterator::Handle,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Listener {
    fn close(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The first interrupt drains, the second kills, the third ends this process; a request to
/// terminate kills at once, because whoever sends it does not wait long.
fn listen(stop: &Stop) -> Result<Listener, Fault> {
    let fault = |error: std::io::Error| Fault::failed(format!("cannot listen to signals: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(fault)?;
    let handle = signals.handle();
    let stop = stop.clone();
    let thread = std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                match (signal, stop.urgency()) {
                    (SIGINT, Urgency::Kill) => std::process::exit(Exit::Interrupted as i32),
                    (SIGINT, _) => {
                        stop.request();
                    }
                    _ => stop.raise(Urgency::Kill),
                }
            }
        })
        .map_err(fault)?;
    Ok(Listener { handle, thread: Some(thread) })
}

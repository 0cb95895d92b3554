//! Studies run by workers: outcomes, retries, limits, and ends of every kind.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use pleach_search::{FailureClass, Goal, Metric, Parameter};
use pleach_study::command::{Command, CommandEvaluator, CommandSpec};
use pleach_study::{
    Assignment, Error, Evaluation, Evaluator, Event, Filter, Finish, Reader, RunOptions, Spec, State, Stop,
    StoreOptions, Study, Summary, Tell, TrialContext, TrialRecord, Urgency, run_workers,
};
use tempfile::TempDir;

use crate::command::until;

/// A study of one float and one metric in a folder of its own.
struct Case {
    root: TempDir,
    options: RunOptions,
}

impl Case {
    fn new(trials: u64, workers: usize) -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
            options: RunOptions { trials: Some(trials), workers, ..RunOptions::default() },
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn study(&self) -> Study {
        open(self.root.path(), vec![Parameter::float("x", 0.0, 1.0)])
    }

    fn run(&self, evaluator: &dyn Evaluator) -> Result<Summary, Error> {
        run_workers(&self.study(), evaluator, &self.options, &|_| {})
    }

    /// Runs a shell script as the command.
    fn script(&self, script: &str, change: impl FnOnce(&mut CommandSpec)) -> Summary {
        let study = self.study();
        let evaluator = script_evaluator(&study, self.root.path(), script, change);
        run_workers(&study, &evaluator, &self.options, &|_| {}).unwrap()
    }

    fn trials(&self) -> Vec<TrialRecord> {
        Reader::open(&self.path("study.db")).unwrap().trials(None, &Filter::default()).unwrap()
    }
}

fn open(root: &Path, parameters: Vec<Parameter>) -> Study {
    let metrics = vec![Metric::objective("loss", Goal::Min)];
    let spec = Spec { parameters, metrics, ..Spec::new("demo", 7) };
    Study::create(&root.join("study.db"), &spec, &StoreOptions::default()).unwrap()
}

fn script_evaluator(
    study: &Study,
    root: &Path,
    script: &str,
    change: impl FnOnce(&mut CommandSpec),
) -> CommandEvaluator {
    let script = script.replace('{', "{{").replace('}', "}}");
    let mut spec = CommandSpec::new(["/bin/sh", "-c", &script, "script", "{x}"]);
    spec.cwd = Some(root.to_owned());
    spec.backoff = Duration::from_millis(1);
    change(&mut spec);
    CommandEvaluator::new(study, Command::new(spec, &["x"]).unwrap()).unwrap()
}

#[expect(clippy::unnecessary_wraps, reason = "other evaluators end a run with an error")]
fn square(assignment: &Assignment, _: &TrialContext<'_>) -> Result<Tell, Error> {
    let x = assignment.f64("x").unwrap();
    Ok(Tell::Done(Evaluation::from([("loss", x * x)])))
}

#[test]
fn every_end_of_a_command_becomes_its_state() {
    let case = Case::new(9, 2);
    let summary = case.script(
        r#"case $PLEACH_TRIAL in
            0) echo '::pleach {"loss": 0.5, "extra": 2, "sem": 0.1}' ;;
            1) echo 'no such layer' >&2; exit 64 ;;
            2) echo 'ValueError: shape' >&2; exit 3 ;;
            3) echo '::pleach {"los": 1}' ;;
            4) echo '::pleach {"loss": NaN}' ;;
            5) exit 75 ;;
            6) kill -SEGV $$ ;;
            7) echo '::pleach nonsense' ;;
            8) echo '::pleach {'; echo '::pleach {"step": 1, "loss": 3}'; echo '::pleach {"step": 2, "loss": 2}' ;;
        esac"#,
        |spec| spec.temporary_retries = 2,
    );
    assert_eq!(summary.finish, Finish::Trials);
    let trials = case.trials();
    let check = |number: usize, state: State, failure: Option<FailureClass>, error: &str| {
        let trial = &trials[number];
        let text = trial.error.as_deref().unwrap_or_default();
        assert_eq!((trial.state, trial.failure), (state, failure), "{trial:?}");
        assert!(text.contains(error), "{number}: {text}");
    };
    check(0, State::Done, None, "");
    check(1, State::Infeasible, None, "no such layer");
    check(2, State::Failed, Some(FailureClass::Crashed), "exit status 3; ValueError: shape");
    check(
        3,
        State::Failed,
        Some(FailureClass::MetricMissing),
        r#"did not report loss; print a line such as ::pleach {"loss": 0.5}"#,
    );
    check(4, State::Failed, Some(FailureClass::Diverged), "loss is NaN");
    check(5, State::Failed, Some(FailureClass::Crashed), "3 attempts");
    check(6, State::Failed, Some(FailureClass::Crashed), "killed by signal 11");
    check(7, State::Failed, Some(FailureClass::MetricMissing), "the report `nonsense` is not JSON");
    check(8, State::Done, None, "the report `{` is not JSON");
    assert_eq!(
        (trials[0].metric("loss"), trials[0].metric("extra"), trials[0].sem),
        (Some(0.5), Some(2.0), Some(0.1))
    );
    assert_eq!(trials[8].metric("loss"), Some(2.0));
    assert_eq!(trials[5].attempt, 3);
}

#[test]
fn a_trial_over_its_time_keeps_what_it_reported() {
    let case = Case::new(1, 1);
    case.script(r#"echo '::pleach {"step": 1, "loss": 4}'; exec sleep 1000"#, |spec| {
        spec.timeout = Some(Duration::from_secs(3));
    });
    let trial = &case.trials()[0];
    assert_eq!((trial.state, trial.failure, trial.metric("loss")), (State::Timeout, None, Some(4.0)));
}

#[test]
fn a_trial_over_its_memory_is_named_as_such() {
    let case = Case::new(1, 1);
    case.script(r"x=$(head -c 150000000 /dev/zero | tr '\0' x); exec sleep 1000", |spec| {
        spec.memory = Some(60 << 20);
    });
    let trial = &case.trials()[0];
    assert_eq!((trial.state, trial.failure), (State::Failed, Some(FailureClass::OutOfMemory)), "{trial:?}");
    assert!(trial.error.as_deref().is_some_and(|error| error.contains("limit")), "{trial:?}");
    assert!(trial.peak_rss_bytes.is_some_and(|bytes| bytes > 60 << 20), "{trial:?}");
}

#[test]
fn a_crash_is_retried_as_often_as_allowed() {
    let case = Case::new(2, 1);
    let script = r#"echo "$PLEACH_ATTEMPT" >>attempts-$PLEACH_TRIAL
        case $PLEACH_TRIAL$PLEACH_ATTEMPT in
            0[123]) echo saved >>"$PLEACH_CKPT_DIR/state"; exit 1 ;;
            04) test "$(wc -l <"$PLEACH_CKPT_DIR/state")" = 3 && echo '::pleach {"loss": 1}' ;;
            *) exit 2 ;;
        esac"#;
    case.script(script, |spec| spec.retries = 3);
    let trials = case.trials();
    assert_eq!((trials[0].state, trials[0].attempt), (State::Done, 4));
    assert_eq!((trials[1].state, trials[1].attempt), (State::Failed, 4));
    assert_eq!(fs::read_to_string(case.path("attempts-0")).unwrap(), "1\n2\n3\n4\n");
    assert!(trials[1].error.as_deref().unwrap().contains("exit status 2"));
}

#[test]
fn measurements_that_cannot_be_used_are_failed_trials_and_no_end_of_the_run() {
    let case = Case::new(4, 1);
    let script = r#"case $PLEACH_TRIAL in
        0) echo '::pleach {"loss": 1, "sem": -1}';;
        1) echo '::pleach {"loss": 1, "features": [1, 2]}';;
        2) echo '::pleach {"loss": 1, "features": [1, 2, 3]}';;
        3) echo '::pleach {"loss": 1, "sem": NaN}';;
    esac"#;
    let summary = case.script(script, |_| {});
    assert_eq!(summary.finish, Finish::Trials);
    let trials = case.trials();
    let states: Vec<State> = trials.iter().map(|trial| trial.state).collect();
    assert_eq!(states, [State::Failed, State::Done, State::Failed, State::Failed]);
    let reason = |number: usize| trials[number].error.clone().unwrap_or_default();
    assert!(reason(0).starts_with("sem must be a finite number"), "{}", reason(0));
    assert!(reason(2).starts_with("2 features expected"), "{}", reason(2));
}

#[test]
fn limits_end_a_run_and_say_so() {
    let fail = |_: &Assignment, _: &TrialContext<'_>| {
        Ok(Tell::Failed { class: FailureClass::Crashed, reason: None, peak_rss_bytes: None })
    };
    let mut case = Case::new(100, 2);
    case.options.max_failures = Some(5);
    let summary = case.run(&fail).unwrap();
    assert_eq!(summary.finish, Finish::Failures);
    assert!((5..=6).contains(&summary.counts[&State::Failed]), "{summary:?}");

    case.options = RunOptions { wall: Some(Duration::ZERO), trials: Some(200), ..RunOptions::default() };
    let summary = case.run(&square).unwrap();
    assert_eq!((summary.finish, summary.counts.len()), (Finish::Wall, 0));

    case.options = RunOptions { trials: Some(20), workers: 8, ..RunOptions::default() };
    assert_eq!(case.run(&square).unwrap().finish, Finish::Trials);
    let trials = case.trials();
    assert!(trials.len() == 20 && trials.iter().all(|trial| trial.state.is_final()), "{trials:?}");
}

#[test]
fn an_exhausted_space_ends_a_run() {
    let root = tempfile::tempdir().unwrap();
    let study = open(root.path(), vec![Parameter::bool("b")]);
    let evaluate = |_: &Assignment, _: &TrialContext<'_>| Ok(Tell::Done(Evaluation::from(1.0)));
    let summary =
        run_workers(&study, &evaluate, &RunOptions { workers: 3, ..RunOptions::default() }, &|_| {}).unwrap();
    assert_eq!((summary.finish, summary.counts), (Finish::Exhausted, BTreeMap::from([(State::Done, 2)])));
}

#[test]
fn a_panic_is_a_failed_trial_and_an_error_ends_the_run() {
    let case = Case::new(3, 2);
    let evaluate = |assignment: &Assignment, context: &TrialContext<'_>| {
        assert_ne!(assignment.number, 1, "no model for one");
        square(assignment, context)
    };
    assert_eq!(case.run(&evaluate).unwrap().counts, BTreeMap::from([(State::Done, 2), (State::Failed, 1)]));
    assert!(case.trials()[1].error.as_deref().unwrap().contains("no model for one"));

    let case = Case::new(50, 2);
    let evaluate = |assignment: &Assignment, context: &TrialContext<'_>| match assignment.number {
        3 => Err(Error::Command { message: "the disk is full".into() }),
        _ => square(assignment, context),
    };
    assert_eq!(case.run(&evaluate).unwrap_err().to_string(), "the disk is full");
    assert_eq!(case.trials()[3].state, State::Waiting);
    assert_eq!(case.run(&square).unwrap().finish, Finish::Trials);
    assert!(case.trials().iter().all(|trial| trial.state == State::Done));
}

#[test]
fn events_tell_the_whole_story() {
    let case = Case::new(1, 1);
    let events = Mutex::new(Vec::new());
    let evaluate = |assignment: &Assignment, context: &TrialContext<'_>| {
        assert!(context.report(1, BTreeMap::from([("loss".into(), 2.0)]))?);
        if assignment.attempt == 1 { Ok(Tell::Retry) } else { square(assignment, context) }
    };
    run_workers(&case.study(), &evaluate, &case.options, &|event| {
        events.lock().unwrap().push(match event {
            Event::Started { assignment } => format!("start {} {}", assignment.number, assignment.attempt),
            Event::Reported { number, step, metrics } => format!("report {number} {step} {metrics:?}"),
            Event::Ended { assignment, state, .. } => format!("end {} {state}", assignment.number),
        });
    })
    .unwrap();
    let report = "report 0 1 {\"loss\": 2.0}";
    let expected = ["start 0 1", report, "end 0 waiting", "start 0 2", report, "end 0 done"];
    assert_eq!(events.into_inner().unwrap(), expected);
}

const WAITING: &str = r#"echo start >>starts-$PLEACH_TRIAL
    while [ ! -e go ] && [ -d "$PWD" ]; do sleep 0.01; done
    echo '::pleach {"loss": 1}'"#;

/// Runs [`WAITING`] on a thread, calls `act` once trial 0 runs, and returns what the run came to.
fn while_running(case: &Case, act: impl FnOnce(&Study, &Stop)) -> Summary {
    let study = case.study();
    let evaluator = script_evaluator(&study, case.root.path(), WAITING, |_| {});
    std::thread::scope(|scope| {
        let run = scope.spawn(|| run_workers(&study, &evaluator, &case.options, &|_| {}).unwrap());
        until("the start of the command", || {
            fs::metadata(case.path("starts-0")).is_ok_and(|meta| meta.len() > 0)
        });
        act(&study, &case.options.stop);
        run.join().unwrap()
    })
}

#[test]
fn the_first_request_to_stop_drains() {
    let case = Case::new(10, 1);
    let summary = while_running(&case, |_, stop| {
        assert_eq!(stop.request(), Urgency::Drain);
        fs::write(case.path("go"), "").unwrap();
    });
    assert_eq!((summary.finish, summary.counts), (Finish::Stopped, BTreeMap::from([(State::Done, 1)])));
    assert_eq!(case.trials().len(), 1);
}

#[test]
fn the_second_request_to_stop_kills_and_the_next_run_goes_on() {
    let mut case = Case::new(1, 1);
    let summary = while_running(&case, |_, stop| {
        stop.request();
        stop.request();
    });
    assert_eq!((summary.finish, summary.counts), (Finish::Stopped, BTreeMap::from([(State::Waiting, 1)])));
    assert_eq!(case.trials()[0].state, State::Waiting);
    fs::write(case.path("go"), "").unwrap();
    case.options.stop = Stop::new();
    assert_eq!(case.script(WAITING, |_| {}).finish, Finish::Trials);
    assert_eq!((case.trials()[0].state, case.trials()[0].attempt), (State::Done, 2));
    assert_eq!(fs::read_to_string(case.path("starts-0")).unwrap(), "start\nstart\n");
}

#[test]
fn a_cancelled_trial_is_ended() {
    let case = Case::new(1, 1);
    let summary = while_running(&case, |study, _| study.cancel(0).unwrap());
    assert_eq!(summary.counts, BTreeMap::from([(State::Cancelled, 1)]));
    assert_eq!(case.trials()[0].state, State::Cancelled);
}

#[test]
fn closures_are_optimised_with_their_errors() {
    let case = Case::new(0, 1);
    let progress = case.study().optimize(12, 3, |trial| {
        if trial.assignment().number == 5 {
            return Err(format!("bad {}", trial.f64("y").unwrap_err()).into());
        }
        trial.report(0, [("loss", 9.0)])?;
        Ok(trial.f64("x")?)
    });
    let progress = progress.unwrap();
    assert_eq!((progress.count(State::Done), progress.count(State::Failed)), (11, 1));
    assert_eq!(
        case.trials()[5].error.as_deref(),
        Some("bad no parameter y is active in this trial; there are x")
    );
}

const ROOT: &str = "PLEACH_TEST_RUN";

/// Not a test: a process that runs a study and is killed. It runs when a test says where.
#[test]
fn runner() {
    if let Some(root) = env::var_os(ROOT).map(PathBuf::from) {
        let study = open(&root, vec![Parameter::float("x", 0.0, 1.0)]);
        let evaluator = script_evaluator(&study, &root, WAITING, |_| {});
        let options = RunOptions { trials: Some(3), workers: 2, ..RunOptions::default() };
        run_workers(&study, &evaluator, &options, &|_| {}).unwrap();
    }
}

fn spawn_runner(case: &Case) -> std::process::Child {
    let mut runner = Process::new(env::current_exe().unwrap());
    runner.args(["--exact", "worker::runner", "--nocapture"]).env(ROOT, case.root.path());
    runner.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn commands_of_a_killed_run_are_adopted() {
    let case = Case::new(3, 2);
    for _ in 0..3 {
        let mut runner = spawn_runner(&case);
        for number in 0..2 {
            let starts = case.path(&format!("starts-{number}"));
            until("the start of the command", || fs::metadata(&starts).is_ok_and(|meta| meta.len() > 0));
        }
        runner.kill().unwrap();
        runner.wait().unwrap();
    }
    fs::write(case.path("go"), "").unwrap();
    assert_eq!(case.script(WAITING, |_| {}).finish, Finish::Trials);
    for trial in case.trials() {
        assert_eq!(trial.state, State::Done);
        let starts = fs::read_to_string(case.path(&format!("starts-{}", trial.number))).unwrap();
        assert_eq!(starts, "start\n", "trial {} ran once", trial.number);
    }
}

#[test]
fn several_processes_share_a_study() {
    let case = Case::new(3, 1);
    fs::write(case.path("go"), "").unwrap();
    let mut runners = [spawn_runner(&case), spawn_runner(&case), spawn_runner(&case)];
    assert!(runners.iter_mut().all(|runner| runner.wait().unwrap().success()));
    let trials = case.trials();
    assert_eq!(trials.len(), 3);
    for trial in trials {
        assert_eq!(trial.state, State::Done);
        assert_eq!(fs::read_to_string(case.path(&format!("starts-{}", trial.number))).unwrap(), "start\n");
    }
}

//! Commands as real processes: every way to report, to end, and to refuse to end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pleach_search::Literal;
use pleach_study::command::{Command, CommandSpec, End, Go, Job, Report, Run, Stdin};
use tempfile::TempDir;

/// A shell script as a command, in a folder of its own.
pub(crate) struct Script {
    pub(crate) root: TempDir,
    pub(crate) spec: CommandSpec,
}

impl Script {
    pub(crate) fn new(script: &str) -> Self {
        let script = script.replace('{', "{{").replace('}', "}}");
        let root = tempfile::tempdir().unwrap();
        let mut spec = CommandSpec::new(["/bin/sh", "-c", &script, "script"]);
        spec.cwd = Some(root.path().to_owned());
        Self { root, spec }
    }

    fn with(mut self, change: impl FnOnce(&mut CommandSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.root.path().join("trials/000003")
    }

    pub(crate) fn run(&self) -> Run {
        self.watch(&mut |_| Go::On)
    }

    pub(crate) fn watch(&self, watch: &mut dyn FnMut(&[Report]) -> Go) -> Run {
        run_in(&self.spec, &self.folder(), "first", watch)
    }
}

pub(crate) fn run_in(
    spec: &CommandSpec,
    folder: &Path,
    study_id: &str,
    watch: &mut dyn FnMut(&[Report]) -> Go,
) -> Run {
    let params =
        [("lr".to_owned(), Literal::Float(1e-3)), ("opt".to_owned(), Literal::Text("adam w".into()))];
    let job = Job { study: "demo", study_id, number: 3, attempt: 1, seed: 9, params: &params, folder };
    let command = Command::new(spec.clone(), &["lr", "opt", "beta"]).unwrap();
    command.run(&job, watch).unwrap()
}

/// Whether no process of a trial is left: each would hold the lock of its log. So does, for a
/// moment, a child that another test of this process is just starting.
pub(crate) fn is_free(folder: &Path) -> bool {
    File::open(folder.join("stdout.log")).unwrap().try_lock().is_ok()
}

/// Waits for something that another process does, and fails when it does not come at all.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{what} did not happen");
}

fn check_end(script: &str, expected: End) -> Run {
    let script = Script::new(script);
    let run = script.run();
    assert_eq!(run.end, expected, "{script:?}", script = script.spec.argv);
    until("the end of every process", || is_free(&script.folder()));
    run
}

#[test]
fn every_exit_status_is_seen() {
    for status in [0, 1, 64, 75, 137, 255] {
        check_end(&format!("exit {status}"), End::Exited(status));
    }
    check_end("kill -KILL $$", End::Exited(137));
    check_end("kill -TERM $$", End::Exited(143));
    check_end("no-such-program", End::Exited(127));
}

#[test]
fn the_last_line_of_standard_error_is_the_complaint() {
    let run = check_end("echo first >&2; printf 'Value\\033[1mError: bad\\n\\n' >&2; exit 1", End::Exited(1));
    assert_eq!(run.complaint.as_deref(), Some("Value[1mError: bad"));
    assert_eq!(check_end("exit 1", End::Exited(1)).complaint, None);
}

#[test]
fn a_command_is_told_its_trial() {
    let script = Script::new(
        r#"printf '%s|' "$@" "$PLEACH_STUDY" "$PLEACH_TRIAL" "$PLEACH_ATTEMPT" "$PLEACH_SEED" "$GREETING" "$(cat)" "$(cat "$PLEACH_CONFIG")"
        test -d "$PLEACH_CKPT_DIR" && echo "$PLEACH_REPORT""#,
    )
    .with(|spec| {
        spec.argv.extend(["--lr={lr}", "{opt}", "--beta", "{beta}", "{config_json_path}", "{trial}"].map(String::from));
        spec.env = vec![("GREETING".into(), "hi $HOME".into()), ("PLEACH_TRIAL".into(), "99".into())];
        spec.stdin = Stdin::Config;
    });
    assert_eq!(script.run().end, End::Exited(0));
    let folder = script.folder();
    let config = r#"{"lr":0.001,"opt":"adam w"}"#;
    let expected = format!(
        "--lr=0.001|adam w|{folder}/config.json|3|demo|3|1|9|hi $HOME|{config}|{config}|{folder}/report.jsonl\n",
        folder = folder.display()
    );
    assert_eq!(fs::read_to_string(folder.join("stdout.log")).unwrap(), expected);
}

#[test]
fn reports_come_by_file_and_by_standard_output() {
    let run = check_end(
        r#"echo '{"step": 1, "loss": 3}' >>"$PLEACH_REPORT"
        echo noise; echo '::pleach {"loss": 2, "sem": 0.5}'; echo 'not ::pleach {"loss": 7}'
        printf '\000\377\n::pleach nonsense\n'
        echo '{"final": true, "time": NaN, "features": [1, 2]}' >>"$PLEACH_REPORT"
        printf '::pleach {"cost": 4}'"#,
        End::Exited(0),
    );
    let reports = run.reports;
    assert_eq!(reports.value("loss"), Some(2.0));
    assert!(reports.value("time").unwrap().is_nan());
    assert_eq!(
        (reports.last.sem, reports.last.cost, reports.last.features),
        (Some(0.5), Some(4.0), Some(vec![1.0, 2.0]))
    );
    assert_eq!((reports.n_malformed, reports.warnings.len()), (1, 1));
}

#[test]
fn a_report_that_is_a_pipe_is_not_waited_for() {
    let script = r#"mkfifo "$PLEACH_REPORT"; echo '::pleach {"loss": 2}'; sleep 0.1"#;
    let run = Script::new(script).run();
    assert_eq!((run.end, run.reports.value("loss")), (End::Exited(0), Some(2.0)));
}

#[test]
fn intermediate_reports_are_seen_while_the_command_runs() {
    let script = Script::new(
        r#"for k in 1 2 3; do
            echo "{\"step\": $k, \"loss\": $k}" >>"$PLEACH_REPORT"
            while [ ! -e seen-$k ] && [ -d "$PWD" ]; do sleep 0.01; done
        done"#,
    );
    let mut seen = BTreeMap::new();
    let run = script.watch(&mut |reports| {
        for report in reports {
            seen.insert(report.step.unwrap(), report.metrics["loss"]);
            fs::write(script.root.path().join(format!("seen-{}", report.step.unwrap())), "").unwrap();
        }
        Go::On
    });
    assert_eq!(run.end, End::Exited(0));
    assert_eq!(seen, BTreeMap::from([(1, 1.0), (2, 2.0), (3, 3.0)]));
}

#[test]
fn a_flood_of_output_is_survived() {
    let run = check_end(
        r#"head -c 60000000 /dev/zero; echo; yes 'a line' | head -n 1000000; yes '::pleach {"step": 1, "loss": 1}' | head -n 5000
        echo '::pleach {"loss": 0}'; head -c 3000000 /dev/urandom >&2"#,
        End::Exited(0),
    );
    assert_eq!(run.reports.value("loss"), Some(0.0));
}

#[test]
fn the_time_limit_ends_stubborn_commands_and_their_children() {
    let stubborn = [
        "exec sleep 1000",
        "trap '' TERM HUP INT; while :; do sleep 1000; done",
        "sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000 & wait' & wait",
        "kill -STOP $$",
        "sleep 1000 | sleep 1000",
    ];
    for text in stubborn {
        let script =
            Script::new(&format!("echo '::pleach {{\"step\": 1, \"loss\": 5}}'; {text}")).with(|spec| {
                spec.timeout = Some(Duration::from_millis(150));
                spec.grace = Duration::from_millis(100);
            });
        let run = script.run();
        assert_eq!(run.end, End::TimedOut, "{text}");
        assert_eq!(run.reports.value("loss"), Some(5.0), "the last value is kept");
        until("the end of every process", || is_free(&script.folder()));
    }
}

#[test]
fn a_command_may_use_its_grace() {
    let script = Script::new(
        r#"trap 'echo "::pleach {\"loss\": 1}"; exit 0' TERM
        echo '::pleach {"step": 1}'; while :; do sleep 0.01; done"#,
    )
    .with(|spec| spec.grace = Duration::from_mins(10));
    let run = script.watch(&mut |reports| if reports.is_empty() { Go::On } else { Go::Stop });
    assert_eq!((run.end, run.reports.value("loss")), (End::Stopped, Some(1.0)));
}

#[test]
fn a_command_can_be_killed_at_once() {
    let script = Script::new("trap '' TERM; sleep 1000 & sleep 1000")
        .with(|spec| spec.grace = Duration::from_mins(10));
    let run = script.watch(&mut |_| Go::Kill);
    assert_eq!(run.end, End::Killed);
    until("the end of every process", || is_free(&script.folder()));
}

#[test]
fn what_a_command_leaves_in_its_group_is_ended() {
    let script = Script::new("sleep 1000 & echo '::pleach {\"loss\": 1}'");
    assert_eq!(script.run().end, End::Exited(0));
    until("the end of every process", || is_free(&script.folder()));
}

#[test]
fn a_daemon_that_keeps_the_log_open_holds_nobody_up() {
    let script =
        Script::new("setsid sh -c 'while [ ! -e end ] && [ -d $PWD ]; do sleep 0.01; done' & exit 3");
    assert_eq!(script.run().end, End::Exited(3));
    fs::write(script.root.path().join("end"), "").unwrap();
    until("the end of the daemon", || is_free(&script.folder()));
}

#[test]
fn a_command_over_its_memory_limit_is_killed() {
    let script = Script::new("x=$(head -c 150000000 /dev/zero | tr '\\0' x); sleep 1000")
        .with(|spec| spec.memory = Some(60 << 20));
    let run = script.run();
    assert_eq!(run.end, End::OverMemory);
    assert!(run.peak_rss_bytes.is_some_and(|bytes| bytes > 60 << 20), "{run:?}");
    until("the end of every process", || is_free(&script.folder()));
}

#[test]
fn the_death_of_the_supervisor_is_noticed() {
    let script = Script::new("kill -KILL $PPID; exec sleep 1000");
    // The subshell that runs the command is replaced by it, so its parent is the supervisor.
    let run = script.run();
    assert_eq!(run.end, End::Lost);
    until("the end of every process", || is_free(&script.folder()));
}

#[test]
fn no_descriptor_stays_open_over_a_thousand_runs() {
    let root = tempfile::tempdir().unwrap();
    let spec = CommandSpec::new(["true"]);
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (root, spec) = (root.path(), &spec);
            scope.spawn(move || {
                for k in 0..500 {
                    let run = run_in(spec, &root.join(format!("{worker}-{k}")), "id", &mut |_| Go::On);
                    assert_eq!(run.end, End::Exited(0));
                }
            });
        }
    });
    let open =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    assert_eq!(open.filter(|path| path.starts_with(root.path())).count(), 0);
}

#[test]
fn a_program_that_does_not_exist_is_told_before_anything_starts() {
    let check = |argv: &[&str], message: &str| {
        let error = Command::new(CommandSpec::new(argv.iter().copied()), &["lr"]).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    };
    check(&[], "the command is empty");
    check(&["no-such-program-here", "{lr}"], "not in PATH");
    check(&["./no-such-script"], "cannot be run");
    check(&["sh", "{wdith}"], "{wdith}");
}

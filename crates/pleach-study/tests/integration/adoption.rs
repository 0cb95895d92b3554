//! Commands that outlive the process that started them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};

use pleach_study::command::{CommandSpec, End, Go};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::command::{Script, is_free, run_in, until};

const ROOT: &str = "PLEACH_TEST_ROOT";

/// Counts its starts, and ends when it is let go.
const WAITING: &str = r#"echo start >>starts
while [ ! -e go ] && [ -d "$PWD" ]; do sleep 0.01; done
echo '{"loss": 1}' >>"$PLEACH_REPORT"
echo end >>ends"#;

/// Not a test: the process that starts a command and is killed. It runs when a test says where.
#[test]
fn parent() {
    if let Some(root) = env::var_os(ROOT).map(PathBuf::from) {
        let script = fs::read_to_string(root.join("script")).unwrap();
        let mut spec = CommandSpec::new(["/bin/sh", "-c", &script]);
        spec.cwd = Some(root.clone());
        run_in(&spec, &root.join("trials/000003"), "first", &mut |_| Go::On);
    }
}

/// A command whose parent was killed once `reached` existed (or had a line, if it is to have one).
fn orphan(reached: &str) -> Script {
    let script = Script::new(WAITING);
    let parent = start_parent(&script);
    let empty_is_fine = reached != "starts";
    until(reached, || {
        fs::metadata(script.root.path().join(reached)).is_ok_and(|meta| empty_is_fine || meta.len() > 0)
    });
    kill(parent);
    script
}

fn start_parent(script: &Script) -> Child {
    fs::write(script.root.path().join("script"), &script.spec.argv[2]).unwrap();
    let mut parent = Process::new(env::current_exe().unwrap());
    parent.args(["--exact", "adoption::parent", "--nocapture"]).env(ROOT, script.root.path());
    parent.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn supervisor(folder: &Path) -> Pid {
    let line = fs::read_to_string(folder.join("run")).unwrap();
    Pid::from_raw(line.split(' ').nth(1).unwrap().parse().unwrap()).unwrap()
}

fn lines(script: &Script, file: &str) -> usize {
    fs::read_to_string(script.root.path().join(file)).unwrap_or_default().lines().count()
}

/// Lets the command end at the first look of a run, and checks that it ended well.
fn finish(script: &Script, expected_starts: usize, adopted: bool) {
    let go = script.root.path().join("go");
    let run = script.watch(&mut |_| {
        fs::write(&go, "").unwrap();
        Go::On
    });
    assert_eq!((run.end, run.reports.value("loss"), run.adopted), (End::Exited(0), Some(1.0), adopted));
    assert_eq!((lines(script, "starts"), lines(script, "ends")), (expected_starts, 1));
    until("the end of every process", || is_free(&script.folder()));
}

#[test]
fn a_running_command_is_waited_for() {
    finish(&orphan("starts"), 1, true);
}

#[test]
fn a_finished_command_gives_its_result() {
    let script = orphan("starts");
    fs::write(script.root.path().join("go"), "").unwrap();
    until("its end", || {
        fs::read_to_string(script.folder().join("run")).is_ok_and(|text| text.ends_with(" exit 0\n"))
    });
    finish(&script, 1, true);
}

#[test]
fn a_command_that_died_without_a_result_is_run_again() {
    let script = orphan("starts");
    kill_process_group(supervisor(&script.folder()), Signal::KILL).unwrap();
    until("its death", || is_free(&script.folder()));
    finish(&script, 2, false);
    assert!(script.folder().join("stdout.log.1").exists(), "the logs of the first attempt are kept");
}

#[test]
fn what_is_left_of_a_command_without_supervisor_is_ended_first() {
    let script = orphan("starts");
    let supervisor = supervisor(&script.folder());
    kill_process(supervisor, Signal::KILL).unwrap();
    until("its death", || {
        let stat = fs::read_to_string(format!("/proc/{supervisor}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
    finish(&script, 2, false);
}

#[test]
fn a_complete_report_of_a_command_without_supervisor_is_taken() {
    let script = orphan("starts");
    let report = script.folder().join("report.jsonl");
    fs::write(report, "{\"loss\": 1, \"final\": true}\n").unwrap();
    kill_process_group(supervisor(&script.folder()), Signal::KILL).unwrap();
    until("its death", || is_free(&script.folder()));
    let run = script.run();
    assert_eq!((run.end, run.adopted, run.reports.is_complete), (End::Lost, true, true));
    assert_eq!((run.reports.value("loss"), lines(&script, "starts")), (Some(1.0), 1));
}

#[test]
fn a_parent_killed_at_any_moment_leaves_one_run() {
    // The moments are in the order in which they are reached; each parent is killed soon after one.
    for reached in [
        "trials/000003",
        "trials/000003/config.json",
        "trials/000003/stdout.log",
        "trials/000003/run",
        "starts",
    ] {
        for _ in 0..4 {
            let script = orphan(reached);
            let go = script.root.path().join("go");
            let run = script.watch(&mut |_| {
                fs::write(&go, "").unwrap();
                Go::On
            });
            assert_eq!((run.end, run.reports.value("loss")), (End::Exited(0), Some(1.0)));
            assert_eq!((lines(&script, "starts"), lines(&script, "ends")), (1, 1), "{reached}");
        }
    }
}

#[test]
fn time_limits_count_from_the_first_start() {
    let mut script = orphan("starts");
    script.spec.timeout = Some(std::time::Duration::from_millis(1));
    assert_eq!(script.run().end, End::TimedOut);
    until("the end of every process", || is_free(&script.folder()));
    let again = script.run();
    assert_eq!((again.end, again.adopted), (End::TimedOut, true), "the reason outlives us");
}

#[test]
fn the_run_of_a_deleted_study_is_not_taken_for_ours() {
    let script = orphan("starts");
    let folder = script.folder();
    let go = script.root.path().join("go");
    let run = run_in(&script.spec, &folder, "second", &mut |_| {
        fs::write(&go, "").unwrap();
        Go::On
    });
    assert_eq!((run.end, run.adopted), (End::Exited(0), false));
    assert_eq!((lines(&script, "starts"), lines(&script, "ends")), (2, 1));
    assert!(folder.with_file_name("000003.old-1").join("config.json").exists(), "its files are kept");
}

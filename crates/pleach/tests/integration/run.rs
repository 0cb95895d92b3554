//! `pleach run`: to the end, again, together, interrupted, killed.

use std::io::Read;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{BRANIN, Bench, SHELL, finish, shell};

#[test]
fn a_run_ends_with_the_answer() {
    let bench = Bench::with(BRANIN);
    let ran = bench.pleach(&["run", "e.toml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for part in [
        "branin: the best of 30 trials is trial ",
        "value",
        "smaller is better",
        "x1 = ",
        "All trials are done",
    ] {
        assert!(ran.stdout.contains(part), "{part} is not in\n{}", ran.stdout);
    }
    assert!(bench.path("e.db").exists());
}

#[test]
fn the_same_command_goes_on_and_changes_nothing_at_the_end() {
    let bench = Bench::with(BRANIN);
    bench.ok(&["run", "e.toml", "--trials", "10"]);
    let first = bench.ok(&["export", "e.toml"]);
    let ran = bench.pleach(&["run", "e.toml"]);
    assert!(ran.stderr.contains("going on with 10 trials"), "{ran:?}");
    let all = bench.ok(&["export", "e.toml"]);
    assert!(all.starts_with(&first), "the first trials stay as they are");
    assert_eq!(all.lines().count(), 31);
    bench.ok(&["run", "e.toml"]);
    assert_eq!(bench.ok(&["export", "e.toml"]), all);

    let whole = Bench::with(BRANIN);
    whole.ok(&["run", "e.toml"]);
    assert_eq!(whole.ok(&["export", "e.toml"]), all, "a run in two parts is a run in one");
}

#[test]
fn json_has_its_fields() {
    let json = Bench::with(BRANIN).json(&["run", "e.toml", "--json"]);
    assert_eq!(
        (&json["study"], &json["finish"], &json["counts"]["done"]),
        (&"branin".into(), &"trials".into(), &30.into())
    );
    assert!(json["best"]["value"].is_f64() && json["best"]["params"]["x1"].is_f64());
}

#[test]
fn a_command_is_run_with_its_arguments_and_reports() {
    let bench = shell();
    let text = bench.ok(&["run", "e.toml", "--workers", "2"]);
    assert!(text.contains("shell: the best of 6 trials"), "{text}");
    assert!(text.contains("limit: at least 3") && text.contains("extra"), "{text}");
    let csv = bench.ok(&["export", "e.toml"]);
    for line in csv.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [_, state, x, k, opt, beta, loss, size] = cells[..] else { panic!("{line}") };
        assert_eq!(state, "done");
        assert_eq!(x, loss, "the value arrives as it was sent");
        assert_eq!(format!("{k}.0"), size);
        assert_eq!(opt == "adamw", !beta.is_empty());
    }
}

#[test]
fn a_study_without_success_exits_with_3() {
    let bench = Bench::with(&SHELL.replace("[\"sh\", \"trial.sh\", ", "[\"sh\", \"-c\", \"exit 3\", "));
    let ran = bench.pleach(&["run", "e.toml"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.contains("no trial succeeded (6 trials (6 failed))"), "{ran:?}");
    assert!(ran.stderr.contains("trial 0: failed (crashed)"), "{ran:?}");
    assert_eq!(bench.pleach(&["best", "e.toml"]).code, 3);
}

#[test]
fn limits_end_a_run_and_count_only_when_strict() {
    let failing = SHELL.replace("[\"sh\", \"trial.sh\", ", "[\"sh\", \"-c\", \"exit 3\", ");
    let bench = Bench::with(&failing.replace("trials = 6", "trials = 6\nmax_failures = 2"));
    let ran = bench.pleach(&["run", "e.toml", "--strict"]);
    assert_eq!(ran.code, 3, "no success outranks the limit: {ran:?}");
    assert_eq!(bench.json(&["study", "ls", "e.toml", "--json"])["counts"]["failed"], 2);

    let bench = shell();
    bench.ok(&["run", "e.toml", "--trials", "1"]);
    let ran = bench.pleach(&["run", "e.toml", "--wall", "0s", "--strict"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert_eq!(bench.pleach(&["run", "e.toml", "--wall", "0s"]).code, 0);
}

#[test]
fn a_small_space_is_exhausted() {
    let bench = Bench::with(
        r#"
pleach = 1
name = "two"
[objective]
loss = "min"
[space]
x = "ordinal(1, 2)"
[trial]
command = ["sh", "trial.sh", "{x}"]
"#,
    );
    bench.write("trial.sh", "echo \"::pleach {\\\"loss\\\": $1}\"");
    let text = bench.ok(&["run", "e.toml"]);
    assert!(text.contains("Every point of the space has been tried"), "{text}");
    assert_eq!(bench.json(&["study", "ls", "e.toml", "--json"])["trials"], 2);
}

#[test]
fn another_experiment_under_the_same_name_is_refused() {
    let bench = Bench::with(BRANIN);
    bench.ok(&["run", "e.toml"]);
    bench.write("e.toml", &BRANIN.replace("seed = 3", "seed = 4"));
    let ran = bench.pleach(&["run", "e.toml"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("exists and differs"), "{ran:?}");
    assert!(ran.stderr.contains("seed"), "{ran:?}");
}

#[test]
fn two_runs_share_one_study() {
    let bench = shell();
    bench.write("e.toml", &SHELL.replace("trials = 6", "trials = 60"));
    let runs = [bench.start(&["run", "e.toml"]), bench.start(&["run", "e.toml"])];
    for ran in runs.map(finish) {
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let csv = bench.ok(&["export", "e.toml"]);
    let states: Vec<&str> = csv.lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect();
    assert_eq!(states, ["done"; 60]);
}

/// A study whose trials wait for the file `go` once they have written `started`.
fn waiting() -> Bench {
    let bench = Bench::with(SHELL);
    bench.write("trial.sh", "touch started; while [ ! -e go ]; do sleep 0.02; done; echo \"::pleach {\\\"loss\\\": $1, \\\"size\\\": $2}\"\n");
    bench
}

/// Waits for something that a process does; a minute is for ever here.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_mins(1), "waited for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Reads what the child says until it says `text`.
fn hear(child: &mut Child, text: &str) {
    let stderr = child.stderr.as_mut().unwrap();
    let mut heard = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&heard).contains(text) {
        assert_eq!(stderr.read(&mut byte).unwrap(), 1, "{text} was not said");
        heard.extend(byte);
    }
}

#[test]
fn the_first_interrupt_drains() {
    let bench = waiting();
    let mut run = bench.start(&["run", "e.toml"]);
    wait_for("the first trial", || bench.path("started").exists());
    signal(&run, Signal::INT);
    hear(&mut run, "finishing the trials that run");
    bench.write("go", "");
    let ran = finish(run);
    assert_eq!(ran.code, 130, "{ran:?}");
    assert!(ran.stdout.contains("Go on: pleach run e.toml"), "{ran:?}");
    assert!(bench.ok(&["export", "e.toml"]).lines().nth(1).unwrap().starts_with("0,done,"));
    bench.ok(&["run", "e.toml"]);
    assert_eq!(bench.ok(&["export", "e.toml"]).lines().count(), 7);
}

#[test]
fn the_second_interrupt_kills_and_nothing_is_lost() {
    let bench = waiting();
    let mut run = bench.start(&["run", "e.toml"]);
    wait_for("the first trial", || bench.path("started").exists());
    signal(&run, Signal::INT);
    hear(&mut run, "finishing the trials that run");
    signal(&run, Signal::INT);
    let ran = finish(run);
    assert_eq!(ran.code, 130, "{ran:?}");
    assert!(bench.ok(&["ls", "e.toml"]).contains("waiting"));
    bench.write("go", "");
    bench.ok(&["run", "e.toml"]);
    let whole = shell();
    whole.ok(&["run", "e.toml"]);
    assert_eq!(bench.ok(&["export", "e.toml"]), whole.ok(&["export", "e.toml"]));
}

#[test]
fn a_killed_run_goes_on_as_if_it_had_not_been() {
    let whole = Bench::with(&BRANIN.replace("trials = 30", "trials = 2000"));
    whole.ok(&["run", "e.toml"]);
    let bench = Bench::with(&BRANIN.replace("trials = 30", "trials = 2000"));
    for kill in 1..=4_u64 {
        let mut run = bench.start(&["run", "e.toml"]);
        // Wherever it is then: the result is the same.
        std::thread::sleep(Duration::from_millis(20 * kill));
        run.kill().unwrap();
        run.wait().unwrap();
    }
    bench.ok(&["run", "e.toml"]);
    assert_eq!(bench.ok(&["export", "e.toml"]), whole.ok(&["export", "e.toml"]));
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let bench =
        Bench::with(&BRANIN.replace("[limits]", "[storage]\nurl = \"sqlite:/proc/none/s.db\"\n[limits]"));
    let ran = bench.pleach(&["run", "e.toml"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("/proc/none") && !ran.stderr.contains("panicked"), "{ran:?}");
}

#[test]
fn storage_is_found_in_the_documented_order() {
    let bench = Bench::with(BRANIN);
    bench.ok(&["run", "e.toml", "--storage", "a.db", "--trials", "1"]);
    let run = bench
        .command(&["run", "e.toml", "--trials", "2"])
        .env("PLEACH_STORAGE", "sqlite:b.db")
        .output()
        .unwrap();
    assert!(run.status.success());
    assert!(bench.path("a.db").exists() && bench.path("b.db").exists() && !bench.path("e.db").exists());
    let several = bench.pleach(&["best"]);
    assert_eq!(several.code, 2);
    assert!(several.stderr.contains("a.db, b.db"), "{several:?}");
    assert_eq!(bench.json(&["study", "ls", "b.db", "--json"])["trials"], 2);
    std::fs::remove_file(bench.path("b.db")).unwrap();
    bench.ok(&["best"]);
}

#[test]
fn what_went_wrong_with_a_trial_is_said() {
    let bench = Bench::with(&SHELL.replace("trials = 6", "trials = 2"));
    for (script, message) in [
        ("echo '::pleach {\"loss\": NaN, \"size\": 4}'", "trial 0: failed"),
        ("echo '::pleach {\"size\": 4}'", "loss"),
        ("echo 'no space left' >&2; exit 1", "no space left"),
    ] {
        bench.write("trial.sh", script);
        let _ = std::fs::remove_file(bench.path("e.db"));
        let ran = bench.pleach(&["run", "e.toml"]);
        assert!(ran.code == 3 && ran.stderr.contains(message), "{message}: {ran:?}");
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn a_command_that_cannot_write_on_a_full_disk_is_run_again() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("disk")).unwrap();
    let file = "pleach = 1\nname = \"full\"\n[objective]\nloss = \"min\"\n[space]\nx = \"uniform(0, 1)\"\n\
        [trial]\ncommand = [\"echo\", \"::pleach {{\\\"loss\\\": {x}}}\"]\n[limits]\ntrials = 200\n";
    bench.write("e.toml", file);
    let script = "mount -t tmpfs -o size=400k tmpfs disk && cp e.toml disk && cd disk || exit 99
        \"$PLEACH\" run e.toml && exit 1
        mount -o remount,size=50m . && \"$PLEACH\" run e.toml && \"$PLEACH\" export e.toml -o ../all.csv";
    let ran = std::process::Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script])
        .env("PLEACH", env!("CARGO_BIN_EXE_pleach"))
        .current_dir(bench.path("."))
        .output();
    let Some(ran) = ran.ok().filter(|ran| !matches!(ran.status.code(), Some(99) | None)) else {
        eprintln!("SKIPPED: small disks cannot be made here");
        return;
    };
    let said = String::from_utf8_lossy(&ran.stderr);
    if said.contains("unshare") {
        eprintln!("SKIPPED: small disks cannot be made here");
        return;
    }
    assert!(ran.status.success() && said.contains("is full"), "{said}");
    let done = bench.read("all.csv").lines().filter(|line| line.contains(",done,")).count();
    assert_eq!(done, 200, "{said}");
}

#[test]
fn many_workers_for_few_trials_are_no_more_than_those() {
    let bench = shell();
    let ran = bench.pleach(&["run", "e.toml", "--workers", "65535"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert_eq!(bench.ok(&["ls", "e.toml", "--all"]).lines().count(), 7);
}

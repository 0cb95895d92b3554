//! `pleach check`: a good file, and where each fault is shown.

use crate::bench::Bench;

/// A file of version 1 that uses every key.
const GOOD: &str = include_str!("../data/experiment-1.toml");

#[test]
fn a_good_file_is_described() {
    let bench = Bench::with(GOOD);
    let text = bench.ok(&["check", "e.toml", "-k", "1"]);
    for line in [
        "e.toml is in order: study good",
        "metric     latency_ms: at most 8",
        "space      6 parameters, unbounded, or too large to count",
        "beta2: float from 0.9 to 0.999 (when opt == 'adamw')",
        "method     random, seed 7, replicates 2",
        "trial      the command sh, at most 2 h 0 min, at most 8.0 GiB, 2 retries",
        "limits     500 trials, 4 at once, at most 1 h 30 min a run",
        "storage    good.db: to be made",
        "sh train.sh --lr ",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!bench.path("good.db").exists());
}

#[test]
fn json_has_its_fields() {
    let json = Bench::with(GOOD).json(&["check", "e.toml", "--json", "-k", "2"]);
    assert_eq!(json["name"], "good");
    assert_eq!(json["parameters"], 6);
    assert!(json["points"].is_null());
    assert!(json["admitted"].as_f64().is_some_and(|share| share > 0.5 && share < 1.0));
    assert_eq!(json["storage"], "good.db");
    assert_eq!(json["samples"][1]["command"][1], "train.sh");
    assert!(json["samples"][1]["params"]["lr"].is_f64());
}

/// Replaces `from` by `to` in the good file: `check` must fail with 2, point at `line` and say `message`.
fn fault(from: &str, to: &str, line: usize, message: &str) {
    assert!(GOOD.contains(from), "{from}");
    let bench = Bench::with(&GOOD.replacen(from, to, 1));
    let ran = bench.pleach(&["check", "e.toml"]);
    // Long messages are wrapped.
    let text: String = ran.stderr.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{text}");
    assert!(text.contains(message), "{message} is not in\n{}", ran.stderr);
    if line > 0 {
        let place = format!("[e.toml:{line}:");
        assert!(text.contains(&place), "{place} is not in\n{}", ran.stderr);
    }
}

#[test]
fn faults_of_syntax_and_keys_are_placed() {
    fault("trials = 500", "trials = many", 34, "string values must be quoted");
    fault("retries = 2", "retires = 2", 28, "did you mean `retries`?");
    fault("[limits]", "[limit]", 33, "did you mean `limits`?");
    fault("retries = 2", "retries = \"two\"", 28, "expected a whole number from 0 on");
    fault("n = 3", "n = 3, m = 2", 14, "unknown key `m`");
    fault("pleach = 1\n", "pleach = 2\n", 1, "reads version 1");
    fault("pleach = 1\n", "", 1, "start the file with `pleach = 1`");
    fault("name = \"good\"", "", 1, "add a line such as `name = \"e\"`");
}

#[test]
fn faults_of_values_are_placed() {
    fault("2h", "2 parsecs", 26, "is not a duration");
    fault("8GiB", "8 potatoes", 27, "is not a size");
    fault("\"max\"", "\"up\"", 5, "\"min\", \"max\" or a table");
    fault("goal = \"min\"", "goal = \"up\"", 6, "unknown value `up`");
    fault("goal = \"min\", ", "", 6, "metric latency_ms has no `goal`");
    fault(", limit = 8.0", "", 4, "give all but one a limit");
    fault("parallel = 4", "parallel = 0", 36, "from 1 to 65535");
    fault("sqlite:good.db", "postgres://host/x", 40, "not in postgres:");
    fault("parallel = 4", "parallel = 1000000", 36, "from 1 to 65535");
    fault("trials = 500", "trials = 99999999999999999999", 34, "the number is too large");
    fault("timeout = \"2h\"", "timeout = 0", 26, "a `timeout` of 0 lets no command run");
    fault("memory = \"8GiB\"", "memory = \"0\"", 27, "a `memory` of 0 lets no command run");
    fault("limit = 8.0", "limit = \"8\"", 6, "expected a number");
    fault("seed = 7", "seed = -7", 21, "whole number from 0 on");
}

#[test]
fn names_that_a_study_or_a_report_could_not_take_are_placed() {
    fault("\"good\"", "\"../good\"", 2, "a study cannot be called");
    fault("accuracy =", "step =", 5, "a metric cannot be called step");
}

#[test]
fn faults_of_the_space_are_placed() {
    fault("low = 16, high = 256", "low = 256, high = 16", 10, "parameter width");
    fault("low = 16, ", "", 10, "type int needs `low`");
    fault("low = 16, ", "low = 1.5, ", 10, "`low` of an int must be a whole number");
    fault("n = 3", "n = 3, low = 2", 14, "`low` means nothing for type permutation");
    fault("type = \"permutation\", ", "", 14, "it has no `type`");
    fault("log(1e-5, 1e-1)", "log(0, 1e-1)", 9, "parameter lr");
    fault("log(1e-5, 1e-1)", "lgo(1, 2)", 9, "there are uniform(low, high)");
    fault("opt == 'adamw'", "opt == 'adam'", 13, "there are sgd, adamw");
    fault("opt == 'adamw'", "opt === 'adamw'", 13, "[e.toml:13:66]");
    fault("width * depth", "width * dept", 17, "no parameter is called dept");
    fault("<= 4096", "<= 4", 17, "keeps the known constraints");
}

#[test]
fn faults_of_descriptors_are_placed() {
    let fault = |text: &str, message: &str| {
        let descriptors = format!("[descriptors]\nsize = \"{text}\"\n[search]");
        self::fault("[search]", &descriptors, 20, message);
    };
    fault("width * dept", "no parameter is called dept");
    fault("width *", "expected a value");
    fault("opt", "expected a number; the options of opt are sgd, adamw");
    fault("nas-bench-201: wl", "six edges with five operations");
    let text = Bench::with(&GOOD.replace("[search]", "[descriptors]\nsize = \"width * depth\"\n[search]"))
        .ok(&["check", "e.toml"]);
    assert!(text.contains("descriptor size: width * depth"), "{text}");
}

#[test]
fn faults_of_search_and_trial_are_placed() {
    fault("\"random\"", "\"randon\"", 20, "did you mean random?");
    fault("replicates = 2", "replicates = 0", 22, "option replicates");
    fault("replicates = 2", "generations = 2", 22, "no such option");
    fault("{lr}", "{rl}", 25, "which is not a parameter");
    fault("\"sh\"", "\"no-such-program\"", 25, "is not in PATH");
    fault("[\"sh\", \"train.sh\"", "[", 25, "");
    fault("command = [", "command = \"sh\" # [", 25, "no shell splits a text");
    fault("[trial]", "[problem]\nname = \"branin\"\n[trial]", 24, "not both");
}

#[test]
fn a_problem_that_is_not_built_in_is_placed() {
    let bench = Bench::with("pleach = 1\nname = \"p\"\n[problem]\nname = \"brainin\"\n");
    let ran = bench.pleach(&["check", "e.toml"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("[e.toml:4:8]") && ran.stderr.contains("did you mean branin?"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_missing_file_says_how_to_make_one() {
    let ran = Bench::new().pleach(&["check", "none.toml"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("there is no file none.toml") && ran.stderr.contains("pleach init"));
}

//! `pleach best`, `ls`, `show`, `logs`, `export`, `study ls`, `doctor`: texts and JSON.

use std::io::Read;
use std::process::Stdio;

use serde_json::Value as Json;

use crate::bench::{BRANIN, Bench, shell};

/// A study of commands that is done.
fn done() -> Bench {
    let bench = shell();
    bench.ok(&["run", "e.toml"]);
    bench
}

fn keys(json: &Json) -> Vec<&str> {
    json.as_object().unwrap().keys().map(String::as_str).collect()
}

const TRIAL_KEYS: [&str; 16] = [
    "number",
    "state",
    "params",
    "metrics",
    "sem",
    "cost",
    "features",
    "failure",
    "origin",
    "attempt",
    "worker",
    "created_ms",
    "started_ms",
    "ended_ms",
    "error",
    "peak_rss_bytes",
];

#[test]
fn json_shapes_are_as_documented() {
    let bench = done();
    let best = bench.json(&["best", "e.toml", "--json"]);
    assert_eq!(keys(&best), ["study", "best"]);
    assert_eq!(keys(&best["best"]), ["number", "value", "sem", "feasible", "params", "metrics"]);
    let ls = bench.ok(&["ls", "e.toml", "--json"]);
    assert_eq!(ls.lines().count(), 6);
    let first: Json = serde_json::from_str(ls.lines().next().unwrap()).unwrap();
    assert_eq!(keys(&first), TRIAL_KEYS);
    assert_eq!(keys(&first["metrics"]), ["loss", "size", "extra"]);
    let show = bench.json(&["show", "e.toml", "0", "--json"]);
    assert_eq!(keys(&show), [&TRIAL_KEYS[..], &["reports"]].concat());
    assert_eq!(keys(&show["reports"][0]), ["step", "metrics"]);
    let studies = bench.json(&["study", "ls", "e.toml", "--json"]);
    assert_eq!(keys(&studies), ["name", "method", "trials", "counts", "best", "created_ms"]);
    let logs = bench.json(&["logs", "e.toml", "3", "--json"]);
    assert_eq!(keys(&logs), ["folder", "stdout", "stderr"]);
    let doctor = bench.json(&["doctor", "e.toml", "--json"]);
    assert!(doctor.as_array().unwrap().iter().all(|finding| keys(finding) == ["check", "ok", "message"]));
    let export = bench.ok(&["export", "e.toml", "--format", "jsonl"]);
    let line: Json = serde_json::from_str(export.lines().next().unwrap()).unwrap();
    assert_eq!(keys(&line), ["number", "state", "params", "metrics"]);
}

#[test]
fn ls_selects_and_sorts() {
    let bench = done();
    let text = bench.ok(&["ls", "e.toml", "--last", "2"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("trial  state") && lines[0].contains("parameters"), "{text}");
    assert!(
        lines[1].trim_start().starts_with("4  done") && lines[3] == "(2 of 6 trials; --all shows all)",
        "{text}"
    );
    assert_eq!(bench.ok(&["ls", "e.toml", "--all"]).lines().count(), 7);
    assert_eq!(bench.ok(&["ls", "e.toml", "--state", "failed", "--json"]), "");
    let top = bench.ok(&["ls", "e.toml", "--top", "1", "--json"]);
    let top: Json = serde_json::from_str(top.trim()).unwrap();
    assert_eq!(top["number"], bench.json(&["best", "e.toml", "--json"])["best"]["number"]);
    assert_eq!(bench.pleach(&["ls", "e.toml", "--state", "unheard-of"]).code, 2);
}

#[test]
fn show_and_logs_tell_of_one_trial() {
    let bench = done();
    let text = bench.ok(&["show", "e.toml", "2"]);
    for part in ["trial 2 of shell: done", "origin", "x = ", "loss = ", "extra = 1.5", "step 1"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(bench.ok(&["logs", "e.toml", "2"]).contains("out 2\n"));
    assert_eq!(bench.ok(&["logs", "e.toml", "2", "--stderr"]), "err 2\n");
    let ran = bench.pleach(&["show", "e.toml", "77"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("no trial 77") && ran.stderr.contains("pleach ls"), "{ran:?}");
    assert_eq!(bench.pleach(&["show", "e.toml", "-1"]).code, 2);

    let builtin = Bench::with(BRANIN);
    builtin.ok(&["run", "e.toml"]);
    assert!(builtin.pleach(&["logs", "0"]).stderr.contains("no logs"));
}

/// A file that leaves the method to Pleach.
const AUTO: &str = r#"
pleach = 1
name = "auto"
[problem]
name = "nas-bench-201"
[descriptors]
convolutions = "edge_0_3 == 'conv_3x3'"
[limits]
trials = 20
"#;

#[test]
fn show_says_why_a_study_has_its_method() {
    let bench = Bench::with(AUTO);
    bench.ok(&["run", "e.toml"]);
    let choice = |bench: &Bench, verb: &str| {
        let json = bench.json(&[verb, "e.toml", "--json"]);
        assert_eq!(json["method"], "auto");
        json["choice"].clone()
    };
    let shown = choice(&bench, "show");
    assert_eq!(keys(&shown), ["method", "rule", "inputs", "alternatives"]);
    assert_eq!(
        (&shown["inputs"]["points"], &shown["inputs"]["budget"]),
        (&"15625".into(), &"20 trials".into())
    );
    let others = shown["alternatives"].as_array().unwrap();
    assert!(!others.is_empty() && others.iter().all(|other| keys(other) == ["method", "why_not"]));
    assert_eq!(choice(&bench, "check"), shown);
    let study = bench.json(&["show", "e.toml", "--json"]);
    assert_eq!(keys(&study), ["study", "method", "options", "seed", "descriptors", "choice", "counts"]);
    assert_eq!(keys(&study["descriptors"]), ["convolutions", "size", "wl"]);
    for verb in ["show", "check"] {
        let text = bench.ok(&[verb, "e.toml"]);
        let rule =
            format!("auto is {}: {}", shown["method"].as_str().unwrap(), shown["rule"].as_str().unwrap());
        for part in [rule.as_str(), "rather than", "method     auto, seed 0, budget 20, parallel 1"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    // More trials than it was made for leave the choice as it is, and the study goes on.
    bench.write("e.toml", &AUTO.replace("trials = 20", "trials = 25"));
    bench.ok(&["run", "e.toml", "--workers", "3"]);
    assert_eq!(bench.json(&["show", "--json"])["counts"]["done"], 25);
    assert_eq!((choice(&bench, "show"), choice(&bench, "check")), (shown.clone(), shown));
    assert_eq!(bench.json(&["show", "--json"])["options"]["budget"], 20);

    // An option of the chosen method goes with it, also where other limits would choose another method.
    let tuned = AUTO.replace("[descriptors]", "[search]\nwarm-up = 6\n[descriptors]");
    let bench = Bench::with(&tuned);
    bench.ok(&["run", "e.toml"]);
    bench.write("e.toml", &tuned.replace("trials = 20", "trials = 100000"));
    bench.ok(&["run", "e.toml", "--trials", "22"]);
    assert_eq!(choice(&bench, "show")["method"], "gp");

    // A study of a method that was named goes on with it where the file names none any more.
    let bench = Bench::with(BRANIN);
    bench.ok(&["run", "e.toml"]);
    bench.write("e.toml", &BRANIN.replace("method = \"random\"", ""));
    bench.ok(&["run", "e.toml", "--trials", "35"]);
    let json = bench.json(&["show", "--json"]);
    assert_eq!((&json["method"], &json["choice"]), (&"random".into(), &Json::Null));
}

#[test]
fn tree_explains_a_partition() {
    let method = "method = \"la-mcts+cmaes\"\nleaf = 10";
    let bench =
        Bench::with(&BRANIN.replace("method = \"random\"", method).replace("trials = 30", "trials = 80"));
    bench.ok(&["run", "e.toml"]);
    let tree = bench.json(&["tree", "e.toml", "--json"]);
    assert_eq!(
        keys(&tree),
        ["study", "method", "asks", "asks_below_root", "bisections", "built_at", "nodes", "trial", "path"]
    );
    let nodes = tree["nodes"].as_array().unwrap();
    assert!(nodes.len() > 1 && nodes[0]["points"] == 80 && nodes[0]["parent"].is_null(), "{tree}");
    let best = bench.json(&["best", "e.toml", "--json"]);
    assert_eq!(nodes[0]["best"], best["best"]["number"]);
    assert_eq!((&tree["trial"], &tree["path"][0]["node"]), (&79.into(), &0.into()));
    let text = bench.ok(&["tree", "e.toml"]);
    for part in [
        "regions, divided anew at",
        "proposals (",
        "the space",
        "trial 79 was proposed by the method",
        "in node",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    // As it was when a trial was asked for: only trials before it are in.
    let then = bench.json(&["tree", "e.toml", "--trial", "60", "--json"]);
    assert_eq!((&then["nodes"][0]["points"], &then["trial"]), (&60.into(), &60.into()));
    assert!(bench.ok(&["tree", "e.toml", "--trial", "60"]).contains("when trial 60 was asked for"));
    assert_eq!(bench.pleach(&["tree", "e.toml", "--trial", "80"]).code, 2);

    // CMA-ES counts what it had to move; other solvers do not.
    assert!(tree["bisections"].is_u64() && text.contains("had to be moved inside"), "{text}");

    // All points of a small space are divided anew for every trial.
    let small = AUTO.replace("[problem]", "[search]\nmethod = \"lanas\"\n[problem]");
    let bench = Bench::with(&small.replace("trials = 20", "trials = 40"));
    bench.ok(&["run", "e.toml"]);
    let then = bench.json(&["tree", "e.toml", "--trial", "35", "--json"]);
    let (nodes, path) = (then["nodes"].as_array().unwrap(), then["path"].as_array().unwrap());
    assert!(nodes.len() >= 5 && nodes[0]["points"] == 35 && then["bisections"].is_null(), "{then}");
    assert_eq!(path.len(), nodes.len() / 2 + 1, "the trial was asked for a leaf: {then}");
    let is_selected = |step: &Json| {
        let node = usize::try_from(step["node"].as_u64().unwrap()).unwrap();
        nodes[node]["selected"] == true
    };
    assert!(path.iter().all(is_selected), "{then}");
    assert!(then["asks_below_root"].as_u64().unwrap() >= 20, "{then}");
    assert!(bench.ok(&["tree", "e.toml"]).contains("predicted rank above"));

    let bench = Bench::with(BRANIN);
    bench.ok(&["run", "e.toml"]);
    let ran = bench.pleach(&["tree", "e.toml"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("no tree is learned") && ran.stderr.contains("la-mcts"), "{}", ran.stderr);
}

#[test]
fn export_writes_a_file_and_all_columns() {
    let bench = done();
    let text = bench.ok(&["export", "e.toml"]);
    assert_eq!(text.lines().next().unwrap(), "number,state,x,k,opt,beta,loss,size");
    bench.ok(&["export", "--all", "--output", "all.csv"]);
    let all = bench.read("all.csv");
    assert!(all.lines().next().unwrap().ends_with(
        "loss,size,sem,cost,failure,origin,attempt,worker,created_ms,started_ms,ended_ms,error,peak_rss_bytes"
    ));
    assert!(all.lines().nth(1).unwrap().contains("method,1,"), "{all}");
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let bench = Bench::with(&BRANIN.replace("trials = 30", "trials = 3000"));
    bench.ok(&["run", "e.toml"]);
    let mut child =
        bench.command(&["export", "e.toml"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    assert_eq!(said, "");
}

#[test]
fn what_is_no_study_is_said_clearly() {
    let bench = Bench::new();
    let none = bench.pleach(&["best"]);
    assert!(none.code == 2 && none.stderr.contains("no study file"), "{none:?}");
    let missing = bench.pleach(&["best", "x.db"]);
    assert!(missing.code == 2 && missing.stderr.contains("no study file x.db"), "{missing:?}");
    bench.write(
        "junk.db",
        "this is not a database, but long enough to look like one to a hasty reader ........",
    );
    let junk = bench.pleach(&["best", "junk.db"]);
    assert!(junk.code == 1 && junk.stderr.contains("is not a study"), "{junk:?}");
    assert_eq!(bench.pleach(&["doctor", "junk.db"]).code, 1);
}

#[test]
fn several_studies_share_a_file() {
    let bench = Bench::with(BRANIN);
    bench.write("f.toml", &BRANIN.replace("name = \"branin\"\n[problem]", "name = \"other\"\n[problem]"));
    bench.ok(&["run", "e.toml", "--trials", "3", "--storage", "s.db"]);
    bench.ok(&["run", "f.toml", "--trials", "4", "--storage", "s.db"]);
    let ran = bench.pleach(&["best"]);
    assert!(ran.code == 2 && ran.stderr.contains("branin, other"), "{ran:?}");
    assert!(bench.ok(&["best", "--study", "other"]).contains("other: the best of 4 trials"));
    assert_eq!(bench.ok(&["study", "ls"]).lines().count(), 3);
    assert_eq!(bench.pleach(&["study", "rm", "other"]).code, 2);
    bench.ok(&["study", "rm", "other", "--yes"]);
    assert!(bench.ok(&["best"]).contains("branin: the best of 3 trials"));
}

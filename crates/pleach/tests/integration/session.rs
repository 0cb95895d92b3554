//! `pleach session --json`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value as Json, json};

use crate::bench::Bench;

struct Session {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl Session {
    fn start(bench: &Bench) -> Self {
        let mut child = bench
            .command(&["session", "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output, id: 0 }
    }

    fn raw(&mut self, line: &str) -> Json {
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    fn send(&mut self, mut request: Json) -> Json {
        self.id += 1;
        request["id"] = self.id.into();
        let answer = self.raw(&request.to_string());
        assert_eq!(answer["id"], self.id, "{answer}");
        answer
    }

    fn ok(&mut self, request: Json) -> Json {
        let answer = self.send(request);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["ok"].clone()
    }

    fn error(&mut self, request: Json) -> String {
        self.send(request)["error"].as_str().unwrap().to_owned()
    }
}

fn create() -> Json {
    json!({
        "op": "create", "path": "s.db", "seed": 3, "method": "random",
        "space": {"x": "uniform(-1, 1)", "opt": {"type": "choice", "values": ["a", "b"]},
                  "y": {"type": "float", "low": 0, "high": 1, "when": "opt == 'b'"}},
        "objectives": {"loss": "min", "size": {"goal": "max", "limit": 1}},
    })
}

#[test]
fn a_study_is_led_by_another_program() {
    let bench = Bench::new();
    let mut session = Session::start(&bench);
    assert_eq!(session.error(json!({"op": "ask"})), "no study is open; send create or open first");
    assert_eq!(session.ok(create()), json!({"name": "s", "trials": 0}));
    assert_eq!(session.ok(json!({"op": "best"})), json!({"best": null}));
    let asked = session.ok(json!({"op": "ask", "n": 3, "limit": 2}));
    assert_eq!(asked["exhausted"], false);
    let trials = asked["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2);
    assert!(trials[0]["params"]["x"].is_f64() && trials[0]["attempt"] == 1 && trials[0]["seed"].is_u64());
    assert_eq!(
        session.ok(json!({"op": "report", "number": 0, "step": 1, "metrics": {"loss": 9}})),
        json!({"continue": true})
    );
    let told =
        session.ok(json!({"op": "tell", "number": 0, "attempt": 1, "metrics": {"loss": 0.5, "size": 2}}));
    assert_eq!(told, json!({"state": "done"}));
    let told =
        session.ok(json!({"op": "tell", "number": 1, "attempt": 1, "metrics": {"loss": "nan", "size": 2}}));
    assert_eq!(told, json!({"state": "failed"}));
    let number =
        session.ok(json!({"op": "enqueue", "params": {"x": 0.25, "opt": "b", "y": 0.5}}))["number"].clone();
    let asked = session.ok(json!({"op": "ask"}));
    assert_eq!(asked["trials"][0]["number"], number);
    assert_eq!(asked["trials"][0]["params"], json!({"x": 0.25, "opt": "b", "y": 0.5}));
    let told = session
        .ok(json!({"op": "tell", "number": number, "attempt": 1, "status": "infeasible", "reason": "no"}));
    assert_eq!(told, json!({"state": "infeasible"}));
    let best = session.ok(json!({"op": "best"}));
    assert_eq!((&best["best"]["number"], &best["best"]["feasible"]), (&0.into(), &true.into()));
    let progress = session.ok(json!({"op": "progress"}));
    assert_eq!(progress["counts"], json!({"done": 1, "infeasible": 1, "failed": 1}));
    assert_eq!(progress["trials"], 3);
    assert_eq!(session.ok(json!({"op": "close"})), json!({}));
    assert!(session.child.wait().unwrap().success());
}

#[test]
fn errors_never_end_a_session() {
    let bench = Bench::new();
    let mut session = Session::start(&bench);
    for line in ["not json", "[]", "{\"op\": \"ask\"}", "{\"id\": \"x\", \"op\": \"ask\"}"] {
        let answer = session.raw(line);
        assert!(answer["id"].is_null() && answer["error"].is_string(), "{answer}");
    }
    for (request, message) in [
        (json!({"op": "frob"}), "no operation `frob`"),
        (json!({"op": "open", "path": "s.db"}), "no study file s.db"),
        (json!({"op": "open", "path": "s.db", "nmae": 1}), "`nmae`"),
        (
            json!({"op": "create", "path": "s.db", "space": {"x": "lgo(1)"}, "objectives": {"l": "min"}}),
            "parameter x",
        ),
        (json!({"op": "create", "path": "s.db", "space": {"x": "bool"}, "objectives": {}}), "no objective"),
        (
            json!({"op": "create", "path": "s.db", "space": {"x": "bool"}, "objectives": {"l": "up"}}),
            "\"min\", \"max\"",
        ),
    ] {
        let error = session.error(request);
        assert!(error.contains(message), "{error}");
    }
    session.ok(create());
    for (request, message) in [
        (json!({"op": "tell", "number": 0, "attempt": 1, "metrics": {"loss": 1, "size": 1}}), "no trial 0"),
        (json!({"op": "tell", "number": 0, "attempt": 1}), "either `metrics` or a `status`"),
        (json!({"op": "tell", "number": 0, "attempt": 1, "metrics": {"loss": "x"}}), "not a number"),
        (json!({"op": "enqueue", "params": {"x": 7.0, "opt": "a"}}), "x"),
        (json!({"op": "ask", "n": -1}), "-1"),
    ] {
        let error = session.error(request);
        assert!(error.contains(message), "{error}");
    }
    drop(session.input);
    assert!(session.child.wait().unwrap().success());
}

#[test]
fn a_trial_of_a_killed_session_is_handed_out_again() {
    let bench = Bench::new();
    let mut session = Session::start(&bench);
    session.ok(create());
    let first = session.ok(json!({"op": "ask"}))["trials"][0].clone();
    session.child.kill().unwrap();
    session.child.wait().unwrap();
    let mut session = Session::start(&bench);
    assert_eq!(session.ok(create()), json!({"name": "s", "trials": 1}));
    let again = session.ok(json!({"op": "ask"}))["trials"][0].clone();
    assert_eq!((&again["number"], &again["params"]), (&first["number"], &first["params"]));
    assert_eq!(again["attempt"], 2);
    drop(session.input);
    session.child.wait().unwrap();
}

#[test]
fn a_finite_space_is_exhausted() {
    let bench = Bench::new();
    let mut session = Session::start(&bench);
    session.ok(json!({"op": "create", "path": "s.db", "method": "random", "space": {"x": "bool"}, "objectives": {"l": "min"}}));
    let asked = session.ok(json!({"op": "ask", "n": 5}));
    assert_eq!((asked["trials"].as_array().unwrap().len(), &asked["exhausted"]), (2, &true.into()));
    assert_eq!(session.ok(json!({"op": "ask"})), json!({"trials": [], "exhausted": true}));
    drop(session.input);
    session.child.wait().unwrap();
}

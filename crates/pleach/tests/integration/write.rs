//! `pleach ask`, `tell`, `enqueue`, `cancel`, `retry`, `study edit-space`.

use serde_json::Value as Json;

use crate::bench::{SHELL, shell};

#[test]
fn a_study_can_be_led_by_hand() {
    let bench = shell();
    let asked = bench.ok(&["ask", "e.toml", "-n", "2", "--json"]);
    let trials: Vec<Json> = asked.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&trials[0]["number"], &trials[1]["number"]), (&0.into(), &1.into()));
    assert!(trials[0]["params"]["x"].is_f64() && trials[0]["params"]["k"].is_i64());
    assert_eq!(bench.ok(&["tell", "1", "loss=0.25", "size=4", "extra=7"]), "trial 1: done\n");
    assert_eq!(bench.ok(&["tell", "0", "--status", "failed", "--reason", "no luck"]), "trial 0: failed\n");
    let best = bench.json(&["best", "--json"]);
    assert_eq!((&best["best"]["number"], &best["best"]["value"]), (&1.into(), &0.25.into()));
    let again = bench.pleach(&["tell", "1", "loss=1", "size=4"]);
    assert!(again.code == 1 && again.stderr.contains("done already"), "{again:?}");
    assert!(bench.ok(&["ask", "e.toml"]).starts_with("trial 2\n  x = "));
}

#[test]
fn what_is_told_wrongly_is_refused() {
    let bench = shell();
    bench.ok(&["ask", "e.toml"]);
    for (args, message) in [
        (&["tell", "0"][..], "nothing to tell"),
        (&["tell", "0", "loss=1"], "size is missing"),
        (&["tell", "0", "loss=abc", "size=1"], "expected a number"),
        (&["tell", "0", "loss"], "name=value"),
        (&["tell", "0", "loss=1", "size=1", "--status", "failed"], "not both"),
        (&["tell", "9", "loss=1", "size=1"], "no trial 9"),
        (&["tell", "loss=1"], "not the number of a trial"),
    ] {
        let ran = bench.pleach(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(message), "{args:?}: {ran:?}");
    }
    assert_eq!(bench.ok(&["tell", "0", "loss=nan", "size=1"]), "trial 0: failed\n");
}

#[test]
fn enqueued_points_come_first() {
    let bench = shell();
    assert_eq!(bench.ok(&["enqueue", "e.toml", "x=0.5", "k=3", "opt=sgd"]), "trial 0: waiting\n");
    bench.ok(&["run", "e.toml", "--trials", "2"]);
    let show = bench.json(&["show", "0", "--json"]);
    assert_eq!(
        (&show["origin"], &show["params"]["x"], &show["state"]),
        (&"enqueued".into(), &0.5.into(), &"done".into())
    );
    for (args, message) in [
        (&["enqueue", "x=2", "k=3", "opt=sgd"][..], "x"),
        (&["enqueue", "x=0", "k=3.5", "opt=sgd"], "expected a whole number"),
        (&["enqueue", "x=0", "k=3", "opt=adam"], "expected one of sgd, adamw"),
        (&["enqueue", "x=0", "k=3"], "opt"),
        (&["enqueue", "x=0", "k=3", "op=sgd"], "did you mean opt?"),
    ] {
        let ran = bench.pleach(args);
        assert!(ran.code > 0 && ran.stderr.contains(message), "{args:?}: {ran:?}");
    }
}

#[test]
fn trials_are_cancelled_and_evaluated_again() {
    let bench = shell();
    bench.ok(&["enqueue", "e.toml", "x=0.5", "k=3", "opt=sgd"]);
    assert_eq!(bench.ok(&["cancel", "0"]), "trial 0: cancelled\n");
    assert!(bench.pleach(&["cancel", "0"]).stderr.contains("cancelled already"));
    assert_eq!(bench.ok(&["retry", "0"]), "trial 0: to be evaluated again as trial 1\n");
    bench.ok(&["run", "e.toml", "--trials", "2"]);
    let show = bench.json(&["show", "1", "--json"]);
    assert_eq!((&show["params"]["x"], &show["state"]), (&0.5.into(), &"done".into()));
}

#[test]
fn a_space_is_extended_by_the_file_or_by_hand() {
    let bench = shell();
    bench.ok(&["run", "e.toml", "--trials", "2"]);
    let wide =
        SHELL.replace("int(1, 9)", "int(1, 99)").replace("choice(sgd, adamw)", "choice(sgd, adamw, lion)");
    bench.write("e.toml", &wide);
    let ran = bench.pleach(&["run", "e.toml"]);
    assert!(ran.code == 2 && ran.stderr.contains("edit-space"), "{ran:?}");
    bench.ok(&["study", "edit-space", "e.toml"]);
    bench.ok(&["run", "e.toml"]);
    bench.ok(&["study", "edit-space", "e.db", "x=uniform(-2, 2)"]);
    bench.ok(&["enqueue", "x=1.5", "k=77", "opt=lion"]);
    let narrow = bench.pleach(&["study", "edit-space", "e.db", "x=uniform(0, 1)"]);
    assert!(narrow.code > 0 && narrow.stderr.contains('x'), "{narrow:?}");
}

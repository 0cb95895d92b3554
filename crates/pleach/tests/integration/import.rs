//! `pleach import`: CSV, and studies of Optuna's.

use crate::bench::{Bench, SHELL, data, shell};

#[test]
fn what_is_exported_can_be_imported() {
    let bench = shell();
    bench.ok(&["run", "e.toml"]);
    let table = bench.ok(&["export", "e.toml"]);
    bench.write("t.csv", &table);
    bench.write("f.toml", SHELL);
    assert_eq!(bench.ok(&["import", "csv", "t.csv", "f.toml"]), "imported 6 trials into shell\n");
    assert_eq!(bench.ok(&["export", "f.toml"]), table);
    let show = bench.json(&["show", "f.db", "0", "--json"]);
    assert_eq!(show["origin"], "imported");
}

#[test]
fn faults_of_a_table_name_the_line() {
    let bench = shell();
    for (table, message) in [
        ("x,k,opt,loss\n0,1,sgd,1\n", "line 1: there is no column for the metric size"),
        ("x,k,loss,size\n0,1,1,1\n", "line 1: there is no column for the parameter opt"),
        ("x,k,opt,loss,size\n0,1,sgd,1,1\n0,1,adam,1,1\n", "line 3: opt = adam: expected one of"),
        ("x,k,opt,loss,size\n0,1,sgd,one,1\n", "line 2: loss = one: expected a number"),
        ("x,k,opt,loss,size\n5,1,sgd,1,1\n", "x"),
        ("x,k,opt,loss,size\n0,1\n", "line"),
    ] {
        bench.write("t.csv", table);
        let ran = bench.pleach(&["import", "csv", "t.csv", "e.toml"]);
        let text = ran.stderr.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(ran.code == 1 && text.contains(message), "{message}: {ran:?}");
    }
}

#[test]
fn a_study_of_optuna_goes_on() {
    let bench = Bench::new();
    let from = data("optuna.sqlite");
    let from = from.to_str().unwrap();
    let text = bench.ok(&["import", "optuna", from, "new.db"]);
    assert_eq!(text, "imported 16 trials of old-search into old-search\n");
    let csv = bench.ok(&["export", "new.db"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "number,state,lr,width,opt,x,beta2,value");
    // The values that Optuna printed for trial 0; trial 5 failed, trial 9 gave infinity.
    assert_eq!(lines[1], "0,done,0.0015965834028940295,192,3,-0.7488293790723275,,4.602032269457464");
    assert!(lines[6].starts_with("5,failed,") && lines[10].starts_with("9,failed,"), "{csv}");
    assert_eq!(bench.json(&["study", "ls", "new.db", "--json"])["counts"]["done"], 13);
    assert!(bench.ok(&["ask", "new.db"]).starts_with("trial 16\n"));
}

#[test]
fn a_study_of_optuna_that_cannot_be_taken_as_it_is_says_what_to_do() {
    let bench = Bench::new();
    for (sql, message) in [
        ("UPDATE studies SET study_name = 'a/b'", "--study NAME"),
        ("DELETE FROM trial_params", "import it into the study of an experiment file"),
        ("PRAGMA foreign_keys = 0; DELETE FROM studies", "holds no study"),
    ] {
        std::fs::copy(data("optuna.sqlite"), bench.path("o.sqlite")).unwrap();
        rusqlite::Connection::open(bench.path("o.sqlite")).unwrap().execute_batch(sql).unwrap();
        let ran = bench.pleach(&["import", "optuna", "o.sqlite", "new.db"]);
        assert!(ran.code > 0, "{sql}");
        let said = ran.stderr.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(message), "{sql}: {said}");
    }
}

#[test]
fn a_study_of_optuna_fills_an_experiment() {
    let from = data("optuna.sqlite");
    let from = from.to_str().unwrap();
    let text = SHELL.replace(
        "x = \"uniform(-1, 1)\"\nk = \"int(1, 9)\"\nopt = \"choice(sgd, adamw)\"\nbeta = { type = \"float\", low = 0.9, high = 0.99, when = \"opt == 'adamw'\" }",
        "lr = \"log(1e-6, 1)\"\nwidth = \"int(1, 512)\"\nopt = \"choice(sgd, adamw, None, 3)\"\nx = \"uniform(-2, 2)\"\nbeta2 = { type = \"float\", low = 0.5, high = 1.0, when = \"opt == 'adamw'\" }",
    );
    let text = text
        .replace("size = { goal = \"max\", limit = 3 }\n", "")
        .replace("\"{x}\", \"{k}\", \"--beta\", \"{beta}\"", "\"{x}\"");
    let bench = Bench::with(&text);
    bench.write("trial.sh", "echo");
    bench.ok(&["import", "optuna", from, "e.toml"]);
    let best = bench.json(&["best", "e.toml", "--json"]);
    assert!(best["best"]["metrics"]["loss"].as_f64().is_some_and(|loss| loss < 1.0), "{best}");

    let other = Bench::with(&text.replace("loss = \"min\"", "loss = \"max\""));
    other.write("trial.sh", "echo");
    let ran = other.pleach(&["import", "optuna", from, "e.toml"]);
    assert!(ran.code == 2 && ran.stderr.contains("other direction"), "{ran:?}");
    let ran = other.pleach(&["import", "optuna", from, "x.db", "--from-study", "nope"]);
    assert!(ran.code == 2 && ran.stderr.contains("there are old-search"), "{ran:?}");
    assert_eq!(other.pleach(&["import", "optuna", "e.toml", "x.db"]).code, 1);
}

//! The files in `examples/` do what they say.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::bench::Bench;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// A folder with a copy of an example.
fn copy(names: &[&str]) -> Bench {
    let bench = Bench::new();
    for name in names {
        bench.write(name, &std::fs::read_to_string(example(name)).unwrap());
    }
    bench
}

#[test]
fn the_showcase_finds_one_of_the_best_cells() {
    let bench = copy(&["nas-bench-201.toml"]);
    let text = bench.ok(&["run", "nas-bench-201.toml", "--workers", "1"]);
    assert!(text.contains("limit: at most 15") && text.contains("|+|"), "{text}");
    // Within 15 ms the best of 5,390 cells has 90.99 %, the 50th 89.81 %; 16 of 16 seeds reach 90.28 %.
    let value = bench.json(&["best", "--json"])["best"]["value"].as_f64().unwrap();
    assert!(value > 90.2, "{value}");
}

#[test]
fn the_command_trains() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        let _ = writeln!(std::io::stderr(), "SKIPPED examples::the_command_trains: there is no python3");
        return;
    }
    let bench = copy(&["command.toml", "train.py"]);
    let text = bench.ok(&["run", "command.toml", "--trials", "4", "--workers", "2"]);
    assert!(
        text.contains("two-spirals: the best of 4 trials") && text.contains("limit: at most 150"),
        "{text}"
    );
}

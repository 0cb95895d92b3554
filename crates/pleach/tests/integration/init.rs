//! `pleach init`, `pleach list`, help and exit codes.

use crate::bench::Bench;

#[test]
fn what_init_writes_is_in_order() {
    let bench = Bench::new();
    bench.ok(&["init"]);
    let text = bench.read("pleach.toml").replace("\"python3\"", "\"sh\"");
    bench.write("pleach.toml", &text);
    bench.ok(&["check", "pleach.toml"]);
    let ran = bench.pleach(&["init"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("--force"));
    bench.ok(&["init", "--force"]);
}

#[test]
fn init_reads_the_options_of_a_script() {
    let bench = Bench::new();
    bench.write(
        "train.py",
        r#"
p.add_argument("--lr", type=float, default=1e-3)
p.add_argument("--weight-decay", type=float, default=0.5)
p.add_argument("--layers", type=int, default=4)
p.add_argument("--opt", choices=["sgd", "adamw"])
p.add_argument("--amp", action="store_true")
"#,
    );
    bench.ok(&["init", "e.toml", "--script", "train.py"]);
    let text = bench.read("e.toml");
    for line in [
        "name = \"train\"",
        "lr = \"log(1e-5, 1e-1)\"",
        "weight_decay = \"uniform(0, 1)\"",
        "layers = \"int(1, 16)\"",
        "opt = { type = \"choice\", values = [\"sgd\", \"adamw\"] }",
        "# --amp takes no value",
        "\"--weight-decay\", \"{weight_decay}\"",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    bench.write("e.toml", &text.replace("\"python3\"", "\"sh\""));
    bench.ok(&["check", "e.toml"]);
}

#[test]
fn list_names_methods_and_problems() {
    let bench = Bench::new();
    let text = bench.ok(&["list"]);
    assert!(text.contains("random: ") && text.contains("branin: ") && text.contains("replicates = 1"));
    let json = bench.json(&["list", "--json"]);
    assert!(json["methods"].as_array().is_some_and(|methods| methods.iter().any(|m| m["name"] == "random")));
    assert!(
        json["problems"].as_array().is_some_and(|problems| problems.iter().any(|p| p["name"] == "branin"))
    );
}

#[test]
fn wrong_usage_exits_with_2_and_help_with_0() {
    let bench = Bench::new();
    assert_eq!(bench.pleach(&["frobnicate"]).code, 2);
    assert_eq!(bench.pleach(&["run"]).code, 2);
    let help = bench.ok(&["--help"]);
    assert!(help.contains("130  interrupted"));
    bench.ok(&["run", "--help"]);
    bench.ok(&["--version"]);
}

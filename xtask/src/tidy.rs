//! Checks what the compiler does not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, root};

/// Which crates of the workspace a crate may depend on.
const LAYERS: &[(&str, &[&str])] = &[
    ("pleach-search", &[]),
    ("pleach-study", &["pleach-search"]),
    ("pleach-tensor", &[]),
    ("pleach-graph", &["pleach-tensor"]),
    ("pleach-memory", &["pleach-graph", "pleach-tensor"]),
    ("pleach-train", &["pleach-memory", "pleach-graph", "pleach-tensor"]),
    ("pleach", &["pleach-search", "pleach-study", "pleach-train", "pleach-graph", "pleach-tensor"]),
    ("xtask", &["pleach-search", "pleach-study", "pleach-train", "pleach-graph", "pleach-tensor"]),
];

/// Runs every check and reports all that is wrong at once.
pub(crate) fn run() -> Result<()> {
    let mut faults = Vec::new();
    layering(&mut faults)?;
    for path in tracked()? {
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        stray_text(&path, &text, &mut faults);
        crate_root(&path, &text, &mut faults);
    }
    docs_tables(&mut faults)?;
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!("{} to tidy:\n{}", faults.len(), faults.join("\n")).into())
}

/// Crates depend on lower layers only, and only the binary's feature brings an argument parser.
fn layering(faults: &mut Vec<String>) -> Result<()> {
    for (name, allowed) in LAYERS {
        let folder = if *name == "xtask" { root().join("xtask") } else { root().join("crates").join(name) };
        let manifest: toml::Table = fs::read_to_string(folder.join("Cargo.toml"))?.parse()?;
        let dependencies =
            manifest.get("dependencies").and_then(toml::Value::as_table).cloned().unwrap_or_default();
        for (dependency, value) in &dependencies {
            if dependency.starts_with("pleach") && !allowed.contains(&dependency.as_str()) {
                faults.push(format!("{name} must not depend on {dependency}"));
            }
            let optional = value.get("optional").and_then(toml::Value::as_bool).unwrap_or(false);
            if dependency == "clap" && *name != "xtask" && !optional {
                faults.push(format!("{name} must not build clap unless the `cli` feature is on"));
            }
        }
    }
    Ok(())
}

/// No trailing white space, no tabs in Rust, a final newline, no marks of unfinished work.
fn stray_text(path: &Path, text: &str, faults: &mut Vec<String>) {
    let here = |line: usize, what: &str| format!("{}:{line}: {what}", path.display());
    let rust = path.extension().is_some_and(|extension| extension == "rs");
    let marks =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("unimpl", "emented!(")];
    for (i, line) in text.lines().enumerate() {
        if line.ends_with([' ', '\t']) {
            faults.push(here(i + 1, "trailing white space"));
        }
        if rust && line.contains('\t') {
            faults.push(here(i + 1, "a tab"));
        }
        if let Some(mark) = marks.iter().find(|mark| line.contains(**mark)) {
            faults.push(here(i + 1, &format!("unfinished work: {mark}")));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        faults.push(here(text.lines().count(), "no newline at the end"));
    }
}

/// Every library says what it is and forbids unsafe code.
fn crate_root(path: &Path, text: &str, faults: &mut Vec<String>) {
    if path.ends_with("src/lib.rs") {
        if !text.starts_with("//!") && !text.starts_with("#![doc") {
            faults.push(format!("{}: no crate documentation", path.display()));
        }
        // Kernels need it, in modules that say why.
        let kernels = path.starts_with("crates/pleach-tensor") && text.contains("#![deny(unsafe_code)]");
        if !kernels && !text.contains("#![forbid(unsafe_code)]") {
            faults.push(format!("{}: does not forbid unsafe code", path.display()));
        }
    }
}

/// What ARCHITECTURE.md and docs/methods.md say of methods agrees with the registry.
fn docs_tables(faults: &mut Vec<String>) -> Result<()> {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md"))?;
    let methods = fs::read_to_string(root().join("docs/methods.md"))?;
    for entry in pleach_search::METHODS {
        let row = format!("| `{}` | {} |", entry.name, entry.summary);
        if !architecture.contains(&row) {
            faults.push(format!("ARCHITECTURE.md: the table of methods lacks the row {row}"));
        }
        let name = format!("`{}`", entry.name);
        if !methods.lines().any(|line| line.starts_with("### ") && line.contains(&name)) {
            faults.push(format!("docs/methods.md: no section is called {name}"));
        }
        for (option, default, meaning) in entry.options {
            let row = format!("| `{option}` | {default} | {meaning} |");
            if !methods.contains(&row) {
                faults.push(format!("docs/methods.md: the options of {name} lack the row {row}"));
            }
        }
    }
    Ok(())
}

/// The files git tracks.
fn tracked() -> Result<Vec<PathBuf>> {
    // The checkout may belong to another user, as it does where root runs the checks.
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cannot run git, which lists the files to check: {error}"))?;
    if !output.status.success() {
        return Err("git ls-files failed; tidy needs a checkout".into());
    }
    let list = String::from_utf8(output.stdout)?;
    Ok(list.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from).collect())
}

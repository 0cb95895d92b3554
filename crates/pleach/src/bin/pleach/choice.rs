//! Why a study has the method it has.

use std::io::{self, Write};

use pleach_search::auto::Choice;
use pleach_study::Spec;
use serde_json::{Value as Json, json};

/// The method of a spec with its seed and options, in one line.
pub(crate) fn method(spec: &Spec) -> String {
    let options = spec.options.iter().map(|(name, value)| format!(", {name} {value}"));
    format!("{}, seed {}{}", spec.method, spec.seed, options.collect::<String>())
}

/// The method that `auto` stands for, the rule, what it goes by, and what else there is.
pub(crate) fn print(out: &mut dyn Write, choice: &Choice) -> io::Result<()> {
    writeln!(out, "auto is {}: {}", choice.method, choice.rule)?;
    writeln!(out, "  since")?;
    for (what, value) in &choice.inputs {
        writeln!(out, "    {what}: {value}")?;
    }
    writeln!(out, "  rather than")?;
    for other in &choice.alternatives {
        writeln!(out, "    {}: {}", other.method, other.why_not)?;
    }
    Ok(())
}

/// The same; null where the method was named.
pub(crate) fn json(choice: Option<&Choice>) -> Json {
    let Some(choice) = choice else { return Json::Null };
    let inputs = choice.inputs.iter().map(|(what, value)| ((*what).to_owned(), json!(value)));
    let alternatives = choice.alternatives.iter();
    json!({
        "method": choice.method,
        "rule": choice.rule,
        "inputs": inputs.collect::<serde_json::Map<_, _>>(),
        "alternatives":
            alternatives.map(|other| json!({ "method": other.method, "why_not": other.why_not })).collect::<Json>(),
    })
}

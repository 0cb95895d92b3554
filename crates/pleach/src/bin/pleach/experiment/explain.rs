//! Errors of libraries, placed in the experiment file they come from.

use std::ops::Range;

use crate::fault::Fault;
use crate::source::Source;

/// A TOML error: wrong syntax, an unknown key, a value of the wrong type.
pub(super) fn syntax(source: &Source, error: &toml::de::Error) -> Fault {
    let message = error
        .message()
        .replace("unknown field", "unknown key")
        .replace("missing field", "missing key")
        .replace("unknown variant", "unknown value")
        .replace("data did not match any variant of untagged enum Literal", UNREADABLE);
    let message = in_plain_words(&message);
    // The lists that serde writes are long; they read better below the message.
    let (message, help) = match message.split_once(", expected ") {
        Some((head, tail)) if message.starts_with("unknown") => {
            let known: Vec<&str> = tail.split('`').skip(1).step_by(2).collect();
            let asked = head.split('`').nth(1).unwrap_or_default();
            let help = match nearest(asked, &known) {
                Some(name) => format!("did you mean `{name}`? There are {}", known.join(", ")),
                None if known.is_empty() => "no keys belong here".to_owned(),
                None => format!("there are {}", known.join(", ")),
            };
            (head.to_owned(), Some(help))
        }
        _ => (message, None),
    };
    let fault = Fault::usage(message).at(source, error.span().unwrap_or(0..0), "");
    match help {
        Some(help) => fault.help(help),
        None => fault,
    }
}

/// What is said of a value, or of one in a list, that is of no type we know.
const UNREADABLE: &str = "expected a text, a number, true or false, or a list of one kind of these";

/// Names the types of Rust as a user would.
fn in_plain_words(message: &str) -> String {
    match message.rsplit_once(", expected ") {
        Some((_, "u64" | "u32" | "usize" | "i64" | "f64")) if message.contains("as i128") => {
            "the number is too large".to_owned()
        }
        Some((head, "u64" | "u32" | "usize")) => format!("{head}, expected a whole number from 0 on"),
        Some((head, "i64")) => format!("{head}, expected a whole number"),
        Some((head, "f64")) => format!("{head}, expected a number"),
        _ => message.to_owned(),
    }
}

/// An error of the search library.
pub(super) fn search(source: &Source, error: &pleach_search::Error) -> Fault {
    use pleach_search::Error;
    let at = |fault: Fault, span: Option<Range<usize>>, label: &str| match span {
        Some(span) => fault.at(source, span, label),
        None => fault,
    };
    match error {
        Error::Parameter { parameter, .. } => {
            let path = ["space", parameter.as_str()];
            at(Fault::usage(error.to_string()), source.value(&path).or_else(|| source.key(&path)), "")
        }
        Error::Expression { expression, column, message } => {
            let fault = Fault::usage(format!("cannot read `{expression}`"));
            at(fault, expression_at(source, expression, *column), message)
        }
        Error::EmptySpace { constraint } => {
            let fault = Fault::usage("no point of the space keeps the known constraints; that is proven")
                .help("relax this constraint, or widen the ranges it speaks of");
            at(fault, expression_at(source, constraint, 0), "cannot be kept")
        }
        Error::NoStart { constraint } => {
            let fault = Fault::usage("no point that keeps the known constraints was found")
                .help("relax this constraint, or `pleach enqueue` a point that keeps it");
            at(fault, expression_at(source, constraint, 0), "the tightest")
        }
        Error::Metrics { message } => at(Fault::usage(message.clone()), source.key(&["objective"]), ""),
        Error::Unknown { kind, name, known } => {
            let path = if *kind == "method" { ["search", "method"] } else { ["problem", "name"] };
            let names: Vec<&str> = known.split(", ").collect();
            let help = match nearest(name, &names) {
                Some(near) => format!("did you mean {near}? There are {known}"),
                None => format!("there are {known}"),
            };
            at(Fault::usage(format!("no {kind} is called {name}")).help(help), source.value(&path), "")
        }
        Error::Option { option, .. } => {
            let of_solver = format!("solver-{option}");
            let places = [["search", option], ["search", &of_solver], ["problem", option]];
            let span = places.iter().find_map(|place| source.key(place));
            at(Fault::usage(error.to_string()), span, "")
        }
        Error::Unsuitable { .. } => {
            at(Fault::usage(error.to_string()), source.value(&["search", "method"]), "")
        }
        other => Fault::from(other.clone()),
    }
}

/// Where an expression stands: from `column` on, or all of it for column 0.
fn expression_at(source: &Source, expression: &str, column: usize) -> Option<Range<usize>> {
    let file: super::raw::File = toml::from_str(source.text()).ok()?;
    let known = file.constraints.known.iter().position(|text| text == expression);
    let place = |path: &[&str]| match column {
        0 => source.value(path),
        _ => source.inside(path, expression, column),
    };
    if let Some(index) = known {
        return place(&["constraints", "known", &index.to_string()]);
    }
    if let Some((name, _)) = file.descriptors.0.iter().find(|(_, text)| text == expression) {
        return place(&["descriptors", name]);
    }
    let (name, _) = file.space.0.iter().find(|(_, definition)| match definition {
        super::raw::Domains::Table(table) => table.when.as_deref() == Some(expression),
        super::raw::Domains::Sugar(_) => false,
    })?;
    place(&["space", name, "when"])
}

/// The name nearest to a mistyped one, if it is near enough to be meant.
pub(crate) fn nearest<'a>(asked: &str, known: &[&'a str]) -> Option<&'a str> {
    let length = asked.chars().count();
    known
        .iter()
        .map(|&name| (distance(asked, name), name))
        .filter(|(distance, _)| *distance <= length / 3 + 1 && *distance < length)
        .min()
        .map(|(_, name)| name)
}

/// The least number of single-letter edits between two words (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        assert_eq!(nearest("cmase", &["cmaes", "random"]), Some("cmaes"));
        assert_eq!(nearest("timout", &["timeout", "retries"]), Some("timeout"));
        assert_eq!(nearest("bayes", &["cmaes", "random", "sobol"]), None);
    }
}

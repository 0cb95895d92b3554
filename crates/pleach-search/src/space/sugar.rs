//! The short text of a domain in an experiment file, such as `log(1e-5, 1e-1)`.

use crate::{Domain, Literal};

const FORMS: &str = "uniform(low, high), uniform(low, high, step), log(low, high), int(low, high), int(low, high, step), \
log_int(low, high), choice(a, b, …), ordinal(1, 2, …), bool, permutation(n)";

impl Domain {
    /// Reads the short text of a domain:
    /// `uniform(0, 1)`, `uniform(0, 1, 0.1)` (by steps of 0.1), `log(1e-5, 1e-1)`, `int(1, 8)`,
    /// `int(16, 256, 16)`, `log_int(1, 1024)`, `choice(sgd, adamw)`, `ordinal(1, 2, 4)`, `bool`,
    /// `permutation(8)`.
    ///
    /// Options may be quoted; unquoted ones are read as numbers or booleans where they can be.
    ///
    /// ```
    /// use pleach_search::Domain;
    /// assert_eq!(Domain::parse("int(1, 8)"), Ok(Domain::Int { low: 1, high: 8, log: false, step: 1 }));
    /// ```
    ///
    /// # Errors
    /// A sentence that says what was expected. Whether the range makes sense is checked by
    /// [`Space::new`](crate::Space::new).
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, items) = split(text)?;
        let expected = |what: &str| format!("{name} takes {what}, got {text}");
        let numbers = || -> Option<Vec<f64>> { items.iter().map(Literal::as_f64).collect() };
        let integers = || -> Option<Vec<i64>> {
            items.iter().map(|item| if let Literal::Int(k) = item { Some(*k) } else { None }).collect()
        };
        match name {
            "uniform" | "float" => match numbers().as_deref() {
                Some(&[low, high]) => Ok(Domain::Float { low, high, log: false, step: None }),
                Some(&[low, high, step]) => Ok(Domain::Float { low, high, log: false, step: Some(step) }),
                _ => Err(expected("two numbers, and a third for the step")),
            },
            "log" | "log_float" => match numbers().as_deref() {
                Some(&[low, high]) => Ok(Domain::Float { low, high, log: true, step: None }),
                _ => Err(expected("two numbers")),
            },
            "int" => match integers().as_deref() {
                Some(&[low, high]) => Ok(Domain::Int { low, high, log: false, step: 1 }),
                Some(&[low, high, step]) => Ok(Domain::Int { low, high, log: false, step }),
                _ => Err(expected("two whole numbers, and a third for the step")),
            },
            "log_int" => match integers().as_deref() {
                Some(&[low, high]) => Ok(Domain::Int { low, high, log: true, step: 1 }),
                _ => Err(expected("two whole numbers")),
            },
            "choice" if !items.is_empty() => Ok(Domain::Choice { values: items }),
            "ordinal" if !items.is_empty() => Ok(Domain::Ordinal { values: items }),
            "choice" | "ordinal" => Err(expected("at least one option")),
            "bool" if items.is_empty() => Ok(Domain::Bool),
            "bool" => Err(expected("nothing")),
            "permutation" => match integers().as_deref() {
                Some(&[n]) => u32::try_from(n)
                    .map(|n| Domain::Permutation { n })
                    .map_err(|_| expected("a small positive number")),
                _ => Err(expected("the number of elements")),
            },
            _ => Err(format!("no domain is written {text}; there are {FORMS}")),
        }
    }
}

/// The name in front of the parentheses, and the items between them.
fn split(text: &str) -> Result<(&str, Vec<Literal>), String> {
    let text = text.trim();
    let Some((name, rest)) = text.split_once('(') else { return Ok((text, Vec::new())) };
    let Some(inner) = rest.strip_suffix(')') else {
        return Err(format!("a closing parenthesis is missing at the end of {text}"));
    };
    let mut items = Vec::new();
    let mut rest = inner.trim();
    while !rest.is_empty() {
        let (item, tail) = item(rest).ok_or_else(|| format!("a quote is not closed in {text}"))?;
        items.push(item.ok_or_else(|| format!("an item is empty or not separated by a comma in {text}"))?);
        rest = match tail.trim_start() {
            "" => "",
            tail => match tail.strip_prefix(',').map(str::trim_start) {
                Some("") | None => {
                    return Err(format!("an item is empty or not separated by a comma in {text}"));
                }
                Some(tail) => tail,
            },
        };
    }
    Ok((name.trim_end(), items))
}

/// The first item and what follows it; the item is `None` if it is empty, and all is if a quote is
/// not closed.
fn item(text: &str) -> Option<(Option<Literal>, &str)> {
    if let Some(quote @ ('\'' | '"')) = text.chars().next() {
        let (inside, tail) = text[1..].split_once(quote)?;
        return Some((Some(Literal::Text(inside.to_owned())), tail));
    }
    let end = text.find(',').unwrap_or(text.len());
    let word = text[..end].trim();
    let literal = match word {
        "" => None,
        "true" => Some(Literal::Bool(true)),
        "false" => Some(Literal::Bool(false)),
        _ => Some(match (word.parse::<i64>(), word.parse::<f64>()) {
            (Ok(k), _) => Literal::Int(k),
            (_, Ok(x)) if x.is_finite() => Literal::Float(x),
            _ => Literal::Text(word.to_owned()),
        }),
    };
    Some((literal, &text[end..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &str) {
        let got = match Domain::parse(text) {
            Ok(domain) => format!("{domain:?}"),
            Err(message) => message,
        };
        assert!(got.contains(expected), "{text}: {got}");
    }

    #[test]
    fn short_texts_become_domains() {
        let cases = [
            ("log(1e-5, 1e-1)", "Float { low: 1e-5, high: 0.1, log: true, step: None }"),
            (" uniform( 0 ,1 ) ", "Float { low: 0.0, high: 1.0, log: false, step: None }"),
            ("uniform(0, 1, 0.1)", "step: Some(0.1)"),
            ("int(-1, 8)", "Int { low: -1, high: 8, log: false, step: 1 }"),
            ("int(16, 256, 16)", "step: 16"),
            ("log_int(1,1024)", "Int { low: 1, high: 1024, log: true, step: 1 }"),
            (
                "choice(a b, 'c, d', \"e\", 3, nan, true)",
                r#"[Text("a b"), Text("c, d"), Text("e"), Int(3), Text("nan"), Bool(true)]"#,
            ),
            ("ordinal(1, 2.5)", "Ordinal { values: [Int(1), Float(2.5)] }"),
            ("bool", "Bool"),
            ("bool()", "Bool"),
            ("permutation(8)", "Permutation { n: 8 }"),
        ];
        for (text, expected) in cases {
            check(text, expected);
        }
    }

    #[test]
    fn errors_say_what_is_expected() {
        let cases = [
            ("normal(0, 1)", "there are uniform(low, high)"),
            ("int(0.5, 8)", "int takes two whole numbers"),
            ("int(1, 8", "closing parenthesis"),
            ("choice()", "at least one option"),
            ("choice(a,)", "an item is empty"),
            ("choice('a' b)", "not separated by a comma"),
            ("choice('a)", "a quote is not closed"),
            ("permutation(-1)", "a small positive number"),
        ];
        for (text, expected) in cases {
            check(text, expected);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "\\PC*", inner in "[a-z0-9'\",.() é-]*") {
            let _ = Domain::parse(&text);
            let _ = Domain::parse(&format!("choice({inner})"));
        }
    }
}

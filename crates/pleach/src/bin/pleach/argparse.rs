//! The options of a Python script, read from its `add_argument` calls without running it.

/// One option of a script.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScriptOption {
    /// The flag as it is passed, such as `--weight-decay`.
    pub(crate) flag: String,
    /// What it holds.
    pub(crate) kind: Kind,
    /// Its default as written in the script, if that is a plain literal.
    pub(crate) default: Option<String>,
}

/// What an option holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Float,
    Int,
    /// One of these, as written.
    Choice(Vec<String>),
    /// Present or absent, without a value.
    Flag,
    /// Text, or something that cannot be told from the call.
    Other,
}

impl ScriptOption {
    /// The name of the parameter: the flag without dashes in front, with underscores inside.
    pub(crate) fn name(&self) -> String {
        self.flag.trim_start_matches('-').replace('-', "_")
    }
}

/// Every option that is passed by a flag, in the order of the script.
pub(crate) fn scan(script: &str) -> Vec<ScriptOption> {
    let mut options = Vec::new();
    let mut rest = script;
    while let Some(at) = find_code(rest, "add_argument(") {
        rest = &rest[at + "add_argument(".len()..];
        let (arguments, length) = split_arguments(rest);
        rest = &rest[length..];
        options.extend(option(&arguments));
    }
    options
}

/// The option of one call; positional arguments of a script give none.
fn option(arguments: &[String]) -> Option<ScriptOption> {
    let flags: Vec<String> = arguments.iter().filter_map(|argument| unquote(argument)).collect();
    let flag = flags
        .iter()
        .find(|flag| flag.starts_with("--"))
        .or_else(|| flags.iter().find(|flag| flag.starts_with('-')))?;
    let keyword = |name: &str| {
        arguments.iter().find_map(|argument| {
            let (key, value) = argument.split_once('=')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    let default =
        keyword("default").and_then(|text| unquote(&text).or_else(|| is_number(&text).then_some(text)));
    let choices = keyword("choices").and_then(|text| {
        let inner = text.strip_prefix(['[', '(', '{'])?;
        let (items, _) = split_arguments(inner);
        let items: Option<Vec<String>> = items
            .iter()
            .map(|item| unquote(item).or_else(|| is_number(item).then(|| item.clone())))
            .collect();
        items.filter(|items| !items.is_empty())
    });
    let integer = |text: &String| text.replace('_', "").parse::<i64>().is_ok();
    let kind = match (choices, keyword("action"), keyword("type").as_deref()) {
        (Some(choices), ..) => Kind::Choice(choices),
        (None, Some(_), _) => Kind::Flag,
        (None, None, Some("float")) => Kind::Float,
        (None, None, Some("int")) => Kind::Int,
        (None, None, None) if default.as_ref().is_some_and(integer) => Kind::Int,
        (None, None, None) if default.as_deref().is_some_and(is_number) => Kind::Float,
        _ => Kind::Other,
    };
    Some(ScriptOption { flag: flag.clone(), kind, default })
}

fn is_number(text: &str) -> bool {
    text.replace('_', "").parse::<f64>().is_ok_and(f64::is_finite)
}

/// The content of a Python string literal without escapes.
fn unquote(text: &str) -> Option<String> {
    let text = text.trim();
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.contains([quote, '\\', '\n'])).then(|| inner.to_owned())
}

/// The first place of `needle` outside comments and strings.
fn find_code(text: &str, needle: &str) -> Option<usize> {
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with(needle) {
            return Some(at);
        }
        at += skip(&text[at..]);
    }
    None
}

/// The length of the comment, the string or the single character that `text` starts with.
fn skip(text: &str) -> usize {
    let Some(first) = text.chars().next() else { return 0 };
    if first == '#' {
        return text.find('\n').unwrap_or(text.len());
    }
    if !matches!(first, '\'' | '"') {
        return first.len_utf8();
    }
    let triple: String = [first; 3].iter().collect();
    let close = if text.starts_with(&triple) { triple } else { first.to_string() };
    let mut at = close.len();
    while at < text.len() && !text[at..].starts_with(&close) {
        at += match text[at..].chars().next() {
            Some('\\') => 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
            Some(c) => c.len_utf8(),
            None => break,
        };
    }
    (at + close.len()).min(text.len())
}

/// Splits at the commas of the outermost level up to the bracket that closes it.
/// Returns the parts and the length read.
fn split_arguments(text: &str) -> (Vec<String>, usize) {
    let (mut parts, mut part, mut depth, mut at) = (Vec::new(), String::new(), 0_usize, 0);
    while at < text.len() {
        let length = skip(&text[at..]);
        let piece = &text[at..at + length];
        at += length;
        match piece {
            ")" | "]" | "}" if depth == 0 => break,
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "," if depth == 0 => {
                parts.push(std::mem::take(&mut part).trim().to_owned());
                continue;
            }
            _ if piece.starts_with('#') => continue,
            _ => {}
        }
        part.push_str(piece);
    }
    parts.push(part.trim().to_owned());
    parts.retain(|part| !part.is_empty());
    (parts, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_from_calls() {
        let script = r#"
            # parser.add_argument("--commented")
            text = "add_argument('--quoted')"
            p.add_argument("data")
            p.add_argument("--lr", type=float, default=1e-3,
                           help="step (of Adam), see [1]")  # a comment, with commas
            p.add_argument('-b', '--batch-size', type=int, default=32)
            p.add_argument("--opt", choices=["sgd", "adamw"], default="sgd")
            p.add_argument("--nesterov", action="store_true")
            p.add_argument("--layers", default=2)
            p.add_argument("--out")
        "#;
        let found = scan(script);
        let shown: Vec<(&str, &Kind, Option<&str>)> =
            found.iter().map(|o| (o.flag.as_str(), &o.kind, o.default.as_deref())).collect();
        assert_eq!(
            shown,
            [
                ("--lr", &Kind::Float, Some("1e-3")),
                ("--batch-size", &Kind::Int, Some("32")),
                ("--opt", &Kind::Choice(vec!["sgd".into(), "adamw".into()]), Some("sgd")),
                ("--nesterov", &Kind::Flag, None),
                ("--layers", &Kind::Int, Some("2")),
                ("--out", &Kind::Other, None),
            ]
        );
        assert_eq!(found[1].name(), "batch_size");
    }

    #[test]
    fn broken_scripts_do_no_harm() {
        for script in [
            "add_argument(",
            "add_argument('--x', \"",
            "add_argument((((",
            "é'add_argument(",
            "add_argument(\"--é\\",
        ] {
            scan(script);
        }
    }
}

//! Arguments with `{name}` in them: parsed once, filled in for each trial, never seen by a shell.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, absolute};

/// Names that every command may use besides the parameters of its space.
pub(super) const NAMES: [&str; 6] = ["config_json_path", "report_path", "ckpt_dir", "study", "trial", "seed"];

/// The arguments of a command.
#[derive(Clone, Debug)]
pub(super) struct Arguments(Vec<Argument>);

type Argument = Vec<Part>;

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Name(String),
}

impl Arguments {
    /// Parses every argument; a name must be one of [`NAMES`] or of `parameters`.
    pub(super) fn parse(argv: &[String], parameters: &[&str]) -> Result<Self, String> {
        let arguments: Vec<Argument> = argv.iter().map(|text| parse(text)).collect::<Result<_, _>>()?;
        for (argument, text) in arguments.iter().zip(argv) {
            for part in argument {
                let Part::Name(name) = part else { continue };
                if !parameters.contains(&name.as_str()) && !NAMES.contains(&name.as_str()) {
                    let known = [parameters, &NAMES].concat().join(", ");
                    return Err(format!(
                        "`{text}` names {{{name}}}, which is not a parameter; there are {known} (write {{{{ for a plain brace)"
                    ));
                }
            }
        }
        Ok(Self(arguments))
    }

    /// Finds the program as `execvp` does, once for all trials, unless it depends on the trial.
    pub(super) fn find_program(&mut self, path: Option<OsString>, cwd: Option<&Path>) -> Result<(), String> {
        let Some([Part::Text(program)]) = self.0.first_mut().map(Vec::as_mut_slice) else { return Ok(()) };
        *program = find_program(program, path, cwd)?;
        Ok(())
    }

    /// The arguments of one trial.
    ///
    /// `value` is `None` for a parameter that is inactive in this trial: arguments that mention it
    /// are left out, together with a flag directly before (`--beta2` of `--beta2 {beta2}`).
    pub(super) fn fill(&self, value: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let mut filled: Vec<String> = Vec::with_capacity(self.0.len());
        let mut after_flag = false;
        for argument in &self.0 {
            let text: Option<String> = argument
                .iter()
                .map(|part| match part {
                    Part::Text(text) => Some(text.clone()),
                    Part::Name(name) => value(name),
                })
                .collect();
            match (text, argument.as_slice()) {
                (Some(text), parts) => {
                    let plain = matches!(parts, [Part::Text(_)]);
                    after_flag = plain && text.starts_with('-') && !text.contains('=') && !filled.is_empty();
                    filled.push(text);
                }
                (None, [Part::Name(_)]) if after_flag => {
                    filled.pop();
                    after_flag = false;
                }
                (None, _) => after_flag = false,
            }
        }
        filled
    }
}

fn parse(argument: &str) -> Result<Argument, String> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = argument;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, brace) = rest.split_at(at);
        text.push_str(before);
        if let Some(after) = brace.strip_prefix("{{").or_else(|| brace.strip_prefix("}}")) {
            text.push_str(&brace[..1]);
            rest = after;
            continue;
        }
        match brace.strip_prefix('{').map(|inside| inside.split_once('}')) {
            Some(Some((name, after))) if !name.is_empty() && !name.contains('{') => {
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                parts.push(Part::Name(name.to_owned()));
                rest = after;
            }
            Some(_) => {
                return Err(format!(
                    "`{argument}` opens a brace and does not name a parameter in it; write {{{{ for a plain brace"
                ));
            }
            None => {
                return Err(format!(
                    "`{argument}` closes a brace that is not open; write }}}} for a plain brace"
                ));
            }
        }
    }
    text.push_str(rest);
    if !text.is_empty() || parts.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(parts)
}

/// The path of `program`, seen from the folder `cwd`.
fn find_program(program: &str, path: Option<OsString>, cwd: Option<&Path>) -> Result<String, String> {
    let executable = |path: &Path| {
        fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if program.is_empty() {
        return Err("the program of the command is an empty text".into());
    }
    if program.contains('/') {
        let path = cwd.map_or_else(|| program.into(), |cwd| cwd.join(program));
        return match fs::metadata(&path) {
            Ok(_) if executable(&path) => Ok(program.to_owned()),
            Ok(_) => Err(format!(
                "{} is not an executable file; make it one (chmod +x), or name its interpreter first",
                path.display()
            )),
            Err(error) => Err(format!("the program {} cannot be run: {error}", path.display())),
        };
    }
    let path = path.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut found =
        env::split_paths(&path).map(|folder| folder.join(program)).filter(|path| executable(path));
    let found = found.find_map(|path| absolute(path).ok()?.to_str().map(str::to_owned));
    found.ok_or_else(|| format!("the program {program} is not in PATH; install it, or write its path"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(argv: &[&str]) -> Result<Arguments, String> {
        let argv: Vec<String> = argv.iter().map(ToString::to_string).collect();
        Arguments::parse(&argv, &["lr", "beta"])
    }

    fn check(argv: &[&str], expected: &[&str]) {
        let filled = arguments(argv).unwrap().fill(|name| match name {
            "lr" => Some("0.1".into()),
            "trial" => Some("7".into()),
            _ => None,
        });
        assert_eq!(filled, expected);
    }

    #[test]
    fn names_are_filled_in_and_doubled_braces_are_braces() {
        check(
            &["train", "--lr={lr}", "{{\"lr\": {lr}}}", "{trial}{lr}", ""],
            &["train", "--lr=0.1", "{\"lr\": 0.1}", "70.1", ""],
        );
    }

    #[test]
    fn arguments_of_an_inactive_parameter_are_left_out() {
        check(&["train", "--beta", "{beta}", "--lr", "{lr}"], &["train", "--lr", "0.1"]);
        check(&["train", "--beta={beta}", "x"], &["train", "x"]);
        check(&["train", "--mode=a", "{beta}", "-v"], &["train", "--mode=a", "-v"]);
        check(&["train", "file", "{beta}"], &["train", "file"]);
    }

    #[test]
    fn mistakes_are_told_with_their_remedy() {
        for (argument, message) in [
            ("{wdith}", "{wdith}, which is not a parameter; there are lr, beta, config_json_path"),
            ("{lr", "opens a brace"),
            ("{lr} {lr", "opens a brace"),
            ("{}", "opens a brace"),
            ("{{lr", ""),
            ("a}", "closes a brace"),
        ] {
            match arguments(&["x", argument]) {
                Ok(_) => assert!(message.is_empty(), "{argument}"),
                Err(error) => assert!(!message.is_empty() && error.contains(message), "{argument}: {error}"),
            }
        }
    }

    #[test]
    fn a_program_must_exist_and_be_executable() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("script"), "").unwrap();
        let find = |program: &str| find_program(program, Some("/no/such:/bin".into()), Some(folder.path()));
        assert_eq!(find("sh").as_deref(), Ok("/bin/sh"));
        assert_eq!(find("/bin/sh").as_deref(), Ok("/bin/sh"));
        assert!(find("./script").unwrap_err().contains("chmod +x"));
        assert!(find("./none").unwrap_err().contains("cannot be run"));
        assert!(find("no-such-program-here").unwrap_err().contains("not in PATH"));
        assert!(find("").is_err());
    }
}

//! The `pleach` command: reads arguments, environment and the user's files, and composes the libraries.

#![forbid(unsafe_code)]
#![expect(clippy::doc_markdown, reason = "the doc comments of arguments are their help text")]

mod answer;
mod argparse;
mod builtin;
mod choice;
mod cli;
mod experiment;
mod fault;
mod log;
mod optuna;
mod progress;
mod source;
mod storage;
mod text;
mod units;
mod verbs;

use std::io::{BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Verb};
use crate::fault::{Exit, Fault};

fn main() -> ExitCode {
    report_bugs();
    log::start();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Printing can only fail for want of a reader.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { Exit::Usage } else { Exit::Done } as u8);
        }
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let result = run(&cli.verb, &mut out).and_then(|exit| {
        out.flush()?;
        Ok(exit)
    });
    match result {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(fault) => {
            let _ = out.flush();
            let exit = fault.exit();
            if !fault.is_quiet() {
                show(fault);
            }
            ExitCode::from(exit as u8)
        }
    }
}

fn run(verb: &Verb, out: &mut dyn Write) -> Result<Exit, Fault> {
    match verb {
        Verb::Init(verb) => verb.run(out),
        Verb::Check(verb) => verb.run(out),
        Verb::Run(verb) => verb.run(out),
        Verb::Best(verb) => verb.run(out),
        Verb::Ls(verb) => verb.run(out),
        Verb::Show(verb) => verb.run(out),
        Verb::Tree(verb) => verb.run(out),
        Verb::Logs(verb) => verb.run(out),
        Verb::Export(verb) => verb.run(out),
        Verb::Import(verb) => verb.run(out),
        Verb::Ask(verb) => verb.run(out),
        Verb::Tell(verb) => verb.run(out),
        Verb::Enqueue(verb) => verb.run(out),
        Verb::Cancel(verb) => verb.run(out),
        Verb::Retry(verb) => verb.run(out),
        Verb::Study(verb) => verb.run(out),
        Verb::Train(verb) => verb.run(out),
        Verb::Eval(verb) => verb.run(out),
        Verb::Profile(verb) => verb.run(out),
        Verb::List(verb) => verb.run(out),
        Verb::Doctor(verb) => verb.run(out),
        Verb::Session(verb) => verb.run(out),
    }
}

/// Prints an error once, on stderr, with its place and the way out.
fn show(fault: Fault) {
    let terminal = std::io::stderr().is_terminal();
    let _ = miette::set_hook(Box::new(move |_| {
        let handler = miette::MietteHandlerOpts::new().terminal_links(false).context_lines(1);
        // Whoever reads a log wraps its lines as they like.
        let handler = if terminal { handler } else { handler.color(false).wrap_lines(false) };
        Box::new(handler.build())
    }));
    let report = miette::Report::new(fault);
    let _ = write!(std::io::stderr(), "{report:?}");
}

/// A panic is a bug of ours; it is said in two lines and without a trace, which nobody can act on.
fn report_bugs() {
    std::panic::set_hook(Box::new(|info| {
        let _ = writeln!(
            std::io::stderr(),
            "pleach: a bug, please report it: {info}\nThe study is safe as of its last commit; the same command goes on."
        );
    }));
}

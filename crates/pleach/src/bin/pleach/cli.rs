//! The command line.

use clap::{Parser, Subcommand};

use crate::verbs;

/// Search for the best point of an expensive function, in a study that survives anything.
#[derive(Parser, Debug)]
#[command(name = "pleach", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the task failed
  2    wrong usage: the command line or a file is at fault
  3    no trial succeeded
  4    a limit stopped the run, and --strict was given
  130  interrupted

Which study: --storage, else a study file given as FILE, else the environment variable
PLEACH_STORAGE, else the storage of an experiment file given as FILE, else the only *.db in this
folder. --study picks one by its name when the file holds several.";

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    Init(verbs::Init),
    Check(verbs::Check),
    Run(verbs::Run),
    Best(verbs::Best),
    Ls(verbs::Ls),
    Show(verbs::Show),
    Tree(verbs::Tree),
    Logs(verbs::Logs),
    Export(verbs::Export),
    Import(verbs::Import),
    Ask(verbs::Ask),
    Tell(verbs::Tell),
    Enqueue(verbs::Enqueue),
    Cancel(verbs::Cancel),
    Retry(verbs::Retry),
    Study(verbs::Study),
    Train(verbs::Train),
    Eval(verbs::Eval),
    Profile(verbs::Profile),
    List(verbs::List),
    Doctor(verbs::Doctor),
    Session(verbs::Session),
}

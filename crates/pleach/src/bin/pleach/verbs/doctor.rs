//! `pleach doctor`: is the study file well?

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use pleach_study::Reader;
use serde_json::{Value as Json, json};

use crate::fault::{Exit, Fault};
use crate::storage::Where;

/// Examine a study file: integrity, leases, locks, file system, clock
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// An experiment file or a study file
    file: Option<PathBuf>,
    #[command(flatten)]
    place: Where,
    /// Print JSON: a list of {"check", "ok", "message"}
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let target = self.place.find(self.file.as_deref())?;
        let findings = Reader::doctor(&target.path);
        if self.json {
            let list: Json = findings
                .iter()
                .map(
                    |finding| json!({ "check": finding.check, "ok": finding.ok, "message": finding.message }),
                )
                .collect();
            writeln!(out, "{list}")?;
        } else {
            writeln!(out, "{}", target.path.display())?;
            let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
            for finding in &findings {
                let mark = if finding.ok { "ok   " } else { "WRONG" };
                writeln!(out, "  {mark}  {:<width$}  {}", finding.check, finding.message)?;
            }
        }
        Ok(if findings.iter().all(|finding| finding.ok) { Exit::Done } else { Exit::Failed })
    }
}

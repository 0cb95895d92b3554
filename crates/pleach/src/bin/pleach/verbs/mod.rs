//! The verbs: one file each, or one for a few that belong together.

mod check;
mod doctor;
mod export;
mod import;
mod init;
mod list;
mod read;
mod run;
mod session;
mod study;
mod train;
mod tree;
mod write;

pub(crate) use check::Check;
pub(crate) use doctor::Doctor;
pub(crate) use export::Export;
pub(crate) use import::Import;
pub(crate) use init::Init;
pub(crate) use list::List;
pub(crate) use read::{Best, Logs, Ls, Show};
pub(crate) use run::Run;
pub(crate) use session::Session;
pub(crate) use study::Study;
pub(crate) use train::{Eval, Profile, Train};
pub(crate) use tree::Tree;
pub(crate) use write::{Ask, Cancel, Enqueue, Retry, Tell};

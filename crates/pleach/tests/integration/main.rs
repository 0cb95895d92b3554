//! The built binary in temporary folders.

mod bench;
mod check;
mod examples;
mod import;
mod init;
mod read;
mod run;
mod session;
mod write;

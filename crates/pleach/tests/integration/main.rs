//! The built binary in temporary folders.

#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

mod bench;
mod check;
mod examples;
mod import;
mod init;
mod read;
mod run;
mod session;
mod write;

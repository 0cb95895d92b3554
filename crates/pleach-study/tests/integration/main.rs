//! Tests that need processes and files.

mod adoption;
mod basics;
mod command;
mod faults;
mod formats;
mod overhead;
mod processes;
mod resume;
mod simulated;
mod support;
mod twins;
mod worker;

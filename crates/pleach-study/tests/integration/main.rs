//! Tests that need processes and files.

mod adoption;
mod basics;
mod command;
mod simulated;
mod support;
mod worker;

//! Tests that need processes and files.

mod adoption;
mod basics;
mod command;
mod support;
mod worker;

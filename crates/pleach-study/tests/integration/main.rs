//! Tests that need processes and files.

mod adoption;
mod command;

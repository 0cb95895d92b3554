//! Networks from the zoo and from files, and the programs made of them.

mod program;
mod zoo;

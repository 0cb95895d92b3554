//! Test problems with known answers.

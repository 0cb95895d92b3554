//! Trainings as users run them.

mod allocations;
mod resume;
mod same_bits;
mod support;

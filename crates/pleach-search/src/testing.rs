//! The conformance suite that every registered method passes.

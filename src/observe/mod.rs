//! Reads what happens each second while something runs.

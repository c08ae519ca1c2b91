//! What can be wrong with a file of pgthaw's own.

use std::io;
use std::path::Path;

use super::super::Error;

/// What is wrong with a file. Whoever reads it knows what it should be, and its path.
#[derive(Debug)]
pub enum Flaw {
    /// It is something else.
    NotOne(String),
    /// It was one.
    Damaged(String),
    /// Its content cannot be.
    Contradiction(String),
    /// A newer pgthaw wrote it.
    NewerFormat { found: u32, known: u32 },
    /// It would take too much memory.
    TooLarge(String),
    /// What could not be done (a verb, such as "read").
    Failed { action: &'static str, source: io::Error },
}

impl Flaw {
    /// The error of a snapshot file.
    pub fn of_snapshot(self, path: &Path) -> Error {
        let path = path.to_owned();
        match self {
            Flaw::NotOne(reason) => Error::NotASnapshot { path, reason },
            Flaw::Damaged(reason) => Error::Damaged { path, reason },
            Flaw::Contradiction(reason) => Error::Contradiction { path, reason },
            Flaw::NewerFormat { found, known } => Error::NewerFormat { path, found, known },
            Flaw::TooLarge(reason) => Error::TooLarge { path, reason },
            Flaw::Failed { action, source } => Error::File { action, path, source },
        }
    }
}

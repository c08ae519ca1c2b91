//! Studies that cannot be read: they are named, and stand in no other's way.

use serde::Serialize;

use super::Error;

/// A study that is damaged in the store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DamagedStudy {
    /// `None`: not even this can be read.
    pub id: Option<String>,
    pub reason: String,
}

impl DamagedStudy {
    pub(super) fn new(id: Option<String>, error: &Error) -> DamagedStudy {
        DamagedStudy { id, reason: error.to_string() }
    }
}

impl Error {
    /// Of a row of the study with this id.
    pub(super) fn of_study(self, id: Option<&str>) -> Error {
        match self {
            Error::Damaged { place, reason } => Error::DamagedStudy { id: id.map(str::to_owned), place, reason },
            error => error,
        }
    }

    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Error::Damaged { .. } | Error::DamagedStudy { .. })
    }
}

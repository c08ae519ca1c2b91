//! Failures of the rooms that only measuring uses, as those of a study.

use crate::lab::{Error, Measuring};
use crate::{cache, model, observe};

impl From<cache::Error> for Error {
    fn from(error: cache::Error) -> Error {
        Error::Measuring(Measuring(Box::new(error)))
    }
}

impl From<observe::Error> for Error {
    fn from(error: observe::Error) -> Error {
        Error::Measuring(Measuring(Box::new(error)))
    }
}

impl From<model::Error> for Error {
    fn from(error: model::Error) -> Error {
        Error::Measuring(Measuring(Box::new(error)))
    }
}

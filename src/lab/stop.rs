//! The user's wish to stop, which every wait of a study listens to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::Error;

/// Shared by whoever hears Ctrl-C and whoever has to tidy up then.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks the study to stop.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error once a stop was asked for.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_requested() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

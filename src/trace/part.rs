//! A part of a film.

use std::fmt;
use std::time::Duration;

/// What is kept of a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub from: Duration,
    /// Exclusive; `None`: its end.
    pub to: Option<Duration>,
}

impl fmt::Display for Part {
    /// `from second 1.5 on`, `from second 0 to 2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.from.as_secs_f64();
        match self.to {
            None => write!(f, "from second {from} on"),
            Some(to) => write!(f, "from second {from} to {}", to.as_secs_f64()),
        }
    }
}

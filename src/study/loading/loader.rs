//! Who brings back what is wanted: each as its user would run it.

use std::fmt;
use std::str::FromStr;

use crate::study::Error;
use crate::study::strategy::{PGTHAW, Strategy};
use crate::warm::Sharing;

/// A way to get pages into the page cache. fio's direct reads, which leave nothing there, are what the device can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// `pgthaw restore --tier os`.
    Pgthaw,
    /// `pgthaw restore`, until shared_buffers are back.
    PgthawBoth,
    /// A read for every range of the snapshot, by 16 threads.
    Ranges,
    /// pgfincore's snapshot, through its loader.
    Pgfincore,
    Cat,
    Vmtouch,
    /// fio, io_uring, in order through the page cache.
    FioBuffered,
    /// fio, io_uring, in order past it.
    FioDirect,
}

impl Loader {
    /// All of them, in the order in which people read about them.
    pub const ALL: [Loader; 8] = [
        Loader::Pgthaw,
        Loader::PgthawBoth,
        Loader::Ranges,
        Loader::Pgfincore,
        Loader::Cat,
        Loader::Vmtouch,
        Loader::FioBuffered,
        Loader::FioDirect,
    ];

    /// The name for the command line, for results and for tables.
    pub fn name(self) -> &'static str {
        match self {
            Loader::Pgthaw => PGTHAW,
            Loader::PgthawBoth => "pgthaw-both",
            Loader::Ranges => "one-read-per-range",
            Loader::Pgfincore => "pgfincore",
            Loader::Cat => "cat",
            Loader::Vmtouch => "vmtouch",
            Loader::FioBuffered => "fio-buffered",
            Loader::FioDirect => "fio-direct",
        }
    }

    /// Does it leave anything in the page cache?
    pub fn fills_cache(self) -> bool {
        self != Loader::FioDirect
    }

    /// Does it bring shared_buffers back too?
    pub fn fills_buffers(self) -> bool {
        self == Loader::PgthawBoth
    }

    pub fn is_fio(self) -> bool {
        matches!(self, Loader::FioBuffered | Loader::FioDirect)
    }

    /// The strategy whose snapshot it needs and whose obstacles it has; `nothing` has none.
    pub fn strategy(self) -> Strategy {
        match self {
            Loader::Pgthaw | Loader::PgthawBoth => Strategy::Pgthaw(Sharing::Fair),
            Loader::Pgfincore => Strategy::Pgfincore,
            Loader::Cat => Strategy::Cat,
            Loader::Vmtouch => Strategy::Vmtouch,
            Loader::Ranges | Loader::FioBuffered | Loader::FioDirect => Strategy::Nothing,
        }
    }
}

impl fmt::Display for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Loader {
    type Err = Error;

    fn from_str(text: &str) -> Result<Loader, Error> {
        Loader::ALL.into_iter().find(|loader| loader.name() == text).ok_or_else(|| Error::UnknownLoader {
            name: text.to_owned(),
            known: Loader::ALL.map(Loader::name).join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for loader in Loader::ALL {
            assert_eq!(loader.name().parse::<Loader>().unwrap(), loader);
        }
        let unknown = "dd".parse::<Loader>().unwrap_err().to_string();
        assert!(unknown.contains("\"dd\"") && unknown.contains("one-read-per-range"), "{unknown}");
    }
}

//! The forks of a relation.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A fork, as PostgreSQL's `src/include/common/relpath.h` numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fork {
    Main = 0,
    Fsm = 1,
    Vm = 2,
    Init = 3,
}

impl Fork {
    /// All forks, in PostgreSQL's order.
    pub const ALL: [Fork; 4] = [Fork::Main, Fork::Fsm, Fork::Vm, Fork::Init];

    /// PostgreSQL's name, which pg_prewarm takes and this prints.
    pub fn name(self) -> &'static str {
        match self {
            Fork::Main => "main",
            Fork::Fsm => "fsm",
            Fork::Vm => "vm",
            Fork::Init => "init",
        }
    }

    /// What the file's name has after the relfilenumber: nothing, `_fsm`, `_vm` or `_init`.
    pub fn suffix(self) -> &'static str {
        match self {
            Fork::Main => "",
            Fork::Fsm => "_fsm",
            Fork::Vm => "_vm",
            Fork::Init => "_init",
        }
    }

    /// The fork of a name such as `main`; `None` for anything else.
    pub fn from_name(name: &str) -> Option<Fork> {
        Fork::ALL.into_iter().find(|fork| fork.name() == name)
    }

    /// The fork of pg_buffercache's `relforknumber`.
    pub fn from_number(number: i16) -> Option<Fork> {
        Fork::ALL.into_iter().find(|fork| *fork as i16 == number)
    }
}

impl fmt::Display for Fork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

//! The quantities that every layer speaks in: bytes, blocks, pages, forks, instants.
//!
//! A *block* is PostgreSQL's unit (8 kB unless the server says otherwise), a *page* the kernel's (4 KiB on the
//! machines this was built on); the two never share a type.

mod bytes;

use std::fmt;
use std::fmt::Display;

use serde::{Deserialize, Serialize};

pub use bytes::{Bytes, ParseBytesError};

// ---- counted ----

/// `1 relation`, `2 relations`: the word gets its plural for anything but one.
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, word: &str) -> String {
    if number == N::from(1) {
        return format!("1 {word}");
    }
    let ending = if ["ch", "s", "x"].iter().any(|end| word.ends_with(end)) { "es" } else { "s" };
    format!("{number} {word}{ending}")
}

// ---- treacherous ----

/// Is it a control character, or one that is invisible or turns the direction of writing?
pub fn is_treacherous(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

// ---- fork ----

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

// ---- range ----

/// A block's number within its fork, from 0. PostgreSQL's BlockNumber: at most 2³² − 2.
pub type BlockNumber = u32;

/// Contiguous blocks `[start, end)` of one fork. `u64` so that the end of the largest relation fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockRange {
    pub start: u64,
    pub end: u64,
}

/// Contiguous kernel pages `[start, end)` of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageRange {
    pub start: u64,
    pub end: u64,
}

impl BlockRange {
    pub fn new(start: u64, end: u64) -> BlockRange {
        BlockRange { start, end }
    }

    /// Blocks in the range.
    pub fn blocks(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

impl PageRange {
    pub fn new(start: u64, end: u64) -> PageRange {
        PageRange { start, end }
    }

    /// Pages in the range.
    pub fn pages(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

#[cfg(test)]
mod counted_tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "relation")), ["0 relations", "1 relation", "2 relations"]);
        assert_eq!([1_u64, 3].map(|number| counted(number, "branch")), ["1 branch", "3 branches"]);
    }
}

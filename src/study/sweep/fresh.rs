//! The database of each trial made anew, as a copy of what was there before the first one.

use serde::{Deserialize, Serialize};

use super::point::Axes;
use super::start::StartAsked;
use crate::units::Bytes;

/// How the copy of a trial was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum CopyWay {
    /// The file system shares the blocks until one is written (FICLONE).
    Reflink,
    /// Every byte was written.
    Copy,
}

impl CopyWay {
    pub fn name(self) -> &'static str {
        match self {
            CopyWay::Reflink => "reflink",
            CopyWay::Copy => "copy",
        }
    }
}

/// The copy that a trial ran on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FreshCopy {
    pub way: CopyWay,
    /// Of the files that were copied.
    pub bytes: Bytes,
    /// Until all of it was on the disk.
    pub seconds: f64,
}

/// A trial that starts as the one before has left the server has no fresh database.
pub fn check_fresh_copy(is_asked: bool, axes: &Axes) -> Result<(), String> {
    match is_asked && axes.start.contains(&StartAsked::AsIs) {
        true => {
            Err("fresh_copy: a trial that starts \"as-is\" has the database that the one before left; write another \
                     start, or remove the key"
                .into())
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::study::sweep::spec::tests::{assert_refused, sweep};

    #[test]
    fn a_fresh_copy_is_for_trials_that_make_their_start() {
        assert!(sweep("fresh_copy = true\n[points]\nstart = \"cold\"\n").unwrap().fresh_copy);
        assert_eq!(sweep("fresh_copy = false\n").unwrap().digest(), sweep("").unwrap().digest());
        assert_refused("fresh_copy = true\n[points]\nstart = [\"warm\", \"as-is\"]\n", &["fresh_copy", "as-is"]);
    }
}

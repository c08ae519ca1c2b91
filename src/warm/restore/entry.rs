//! What somebody wants in the page cache, and what became of it.

use roaring::RoaringBitmap;

use super::files::{ForkFile, Found};
use crate::postgres::RelationPath;
use crate::units::{Bytes, Fork};
use crate::warm::Refusal;
use crate::warm::plan::{Precedence, WantedFork};
use crate::warm::receipt::{FoundAs, SkipReason};

/// One fork that somebody wants in the page cache.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Which relation of the request it belongs to.
    pub relation: usize,
    pub path: RelationPath,
    pub fork: Fork,
    pub found: FoundAs,
    pub precedence: Precedence,
    pub is_index: bool,
    pub asks: Asks,
    /// Blocks asked for that are to outlive what is read once.
    pub hot: RoaringBitmap,
    /// The fork's length when the snapshot was taken.
    pub snapshot_blocks: u64,
}

/// What of a fork is wanted.
#[derive(Clone, Debug, PartialEq)]
pub enum Asks {
    /// These blocks, by heat, coldest first; no block is in two levels.
    Levels(Vec<(f32, RoaringBitmap)>),
    /// All that there are now of a rewritten fork, with this heat; the snapshot asks for so many.
    Whole { heat: f32, asked_blocks: u64 },
    /// None of a rewritten fork, of which the snapshot asks for so many.
    Nothing { asked_blocks: u64 },
}

/// What became of a fork's files.
#[derive(Clone, Debug)]
pub enum State {
    There(Found),
    Missing,
    Refused(Refusal),
}

/// A fork that a plan knows by number, with what its row will say.
#[derive(Debug)]
pub struct Planned {
    pub entry: Entry,
    pub blocks: u64,
    pub wanted_blocks: u64,
    pub truncated_blocks: u64,
    pub resident_before: u64,
}

/// What there is to say of a fork when all is done.
#[derive(Clone, Debug)]
pub struct Row {
    pub relation: usize,
    pub fork: Fork,
    pub found: FoundAs,
    pub asked_blocks: u64,
    pub resident_before: Option<u64>,
    pub resident_after: Option<u64>,
    pub read_bytes: Bytes,
    pub grown_blocks: u64,
    /// Blocks that are not resident, each with the reason and the error's text if there was one.
    pub skips: Vec<(SkipReason, u64, Option<String>)>,
}

impl Asks {
    /// Up to which block there may be something wanted.
    pub fn end(&self) -> u64 {
        match self {
            Asks::Levels(levels) => end_of(levels),
            Asks::Whole { .. } => u64::MAX,
            Asks::Nothing { .. } => 0,
        }
    }

    /// Blocks that the snapshot asks for.
    pub fn blocks(&self) -> u64 {
        match self {
            Asks::Levels(levels) => levels.iter().map(|(_, blocks)| blocks.len()).sum(),
            Asks::Whole { asked_blocks, .. } | Asks::Nothing { asked_blocks } => *asked_blocks,
        }
    }
}

/// One past the last block of any level.
pub fn end_of(levels: &[(f32, RoaringBitmap)]) -> u64 {
    levels.iter().filter_map(|(_, blocks)| blocks.max()).max().map_or(0, |last| u64::from(last) + 1)
}

/// How many of the blocks of `levels` are in `resident`.
pub fn count_resident(levels: &[(f32, RoaringBitmap)], resident: &RoaringBitmap) -> u64 {
    levels.iter().map(|(_, blocks)| blocks.intersection_len(resident)).sum()
}

impl Entry {
    pub fn file(&self) -> ForkFile {
        ForkFile { path: self.path.clone(), fork: self.fork, hot: self.hot.clone() }
    }

    /// For the plan: what is wanted of the blocks that there are.
    pub fn prepare(self, found: Found) -> (Planned, WantedFork) {
        let mut levels = match &self.asks {
            Asks::Levels(levels) => levels.clone(),
            Asks::Whole { heat, .. } => {
                let mut all = RoaringBitmap::new();
                all.insert_range(0..u32::try_from(found.blocks).unwrap_or(u32::MAX));
                vec![(*heat, all)]
            }
            Asks::Nothing { .. } => Vec::new(),
        };
        // A rewrite that left less than was asked for, such as TRUNCATE, has truncated the fork as well.
        let mut truncated_blocks = match self.asks {
            Asks::Levels(_) => 0,
            Asks::Whole { asked_blocks, .. } | Asks::Nothing { asked_blocks } => {
                asked_blocks.saturating_sub(found.blocks)
            }
        };
        if let Ok(end) = u32::try_from(found.blocks) {
            truncated_blocks += levels.iter_mut().map(|(_, blocks)| blocks.remove_range(end..)).sum::<u64>();
        }
        let planned = Planned {
            blocks: found.blocks,
            wanted_blocks: levels.iter().map(|(_, blocks)| blocks.len()).sum(),
            truncated_blocks,
            resident_before: count_resident(&levels, &found.resident),
            entry: self,
        };
        let Entry { precedence, is_index, .. } = planned.entry;
        let (blocks, resident) = (found.blocks, found.resident);
        let wanted = WantedFork { precedence, is_index, blocks, levels, resident, places: Vec::new() };
        (planned, wanted)
    }

    /// The row of a fork that could not even be looked at, or of which nothing is asked.
    pub fn absent_row(&self, why: &Refusal) -> Row {
        let asked_blocks = self.asks.blocks();
        Row {
            relation: self.relation,
            fork: self.fork,
            found: match why.reason {
                SkipReason::Dropped | SkipReason::FileGone => FoundAs::NotFound,
                _ => self.found,
            },
            asked_blocks,
            resident_before: None,
            resident_after: None,
            read_bytes: Bytes(0),
            grown_blocks: 0,
            skips: vec![(why.reason, asked_blocks, why.detail.clone())],
        }
    }
}

impl Planned {
    /// The row of a fork when all is done. `missing` says why what is not resident is not.
    pub fn row(&self, resident_after: Option<u64>, read_bytes: Bytes, mut missing: Vec<Missing>) -> Row {
        missing.push((SkipReason::Truncated, self.truncated_blocks, None));
        missing.push((SkipReason::Rewritten, self.left_out_blocks(), None));
        Row {
            relation: self.entry.relation,
            fork: self.entry.fork,
            found: self.found(),
            asked_blocks: self.wanted_blocks + self.truncated_blocks + self.left_out_blocks(),
            resident_before: Some(self.resident_before),
            resident_after,
            read_bytes,
            grown_blocks: match self.entry.asks {
                Asks::Levels(_) => self.blocks.saturating_sub(self.entry.snapshot_blocks),
                Asks::Whole { .. } | Asks::Nothing { .. } => 0,
            },
            skips: missing,
        }
    }

    fn found(&self) -> FoundAs {
        match self.entry.asks {
            Asks::Levels(_) => self.entry.found,
            _ if self.blocks == 0 => FoundAs::Emptied,
            Asks::Whole { .. } => self.entry.found,
            Asks::Nothing { .. } => FoundAs::NotFound,
        }
    }

    /// Blocks of a rewritten fork that are not asked for any more, though there still is that much of it.
    fn left_out_blocks(&self) -> u64 {
        match self.entry.asks {
            Asks::Nothing { asked_blocks } => asked_blocks - self.truncated_blocks,
            Asks::Levels(_) | Asks::Whole { .. } => 0,
        }
    }
}

/// A reason, blocks, and an error's text.
pub type Missing = (SkipReason, u64, Option<String>);

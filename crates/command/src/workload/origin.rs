//! Whose heat a snapshot found: that of readers, or what a load left.
//!
//! Heat follows from the buffers that a relation had, by Che's approximation (`crates/cache/src/warm/heat.rs`). It holds where lookups brought them,
//! each block as often as it is asked for. A load leaves buffers too: COPY the last of what it wrote (GetAccessStrategy in PostgreSQL's
//! freelist.c), INSERT all of it, CREATE INDEX a small table's that it read, and of the index none. Buffers alone do not tell the two
//! apart, for a table's end is what many workloads read. But a load looks nothing up, and the statistics count what is looked up.
//!
//! So heat is the readers' when the blocks had been looked up several times as often as there are buffers. Then what a load left was
//! pushed out, or is hardly hotter than the rest.

use super::accesses::SMALL_BLOCKS;
use cache::{ForkMap, Map, RelationMap, TierState};

/// Lookups for each buffer. Where all blocks are equally popular, and all find room, so many leave e^-4, 2 %, that nobody has asked for
/// yet: what was loaded does not stand out any more. With one for each it is 37 %.
const LOOKUPS_PER_BUFFER: u64 = 4;

/// Who left a relation's heat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeatOrigin {
    Readers,
    /// It may be a load's: so many blocks had been looked up, and from so many cached ones heat follows.
    Load {
        lookups: u64,
        blocks: u64,
    },
    /// Nobody has counted lookups.
    Unknown,
}

impl HeatOrigin {
    /// That of a relation of the map.
    pub fn of(map: &Map, relation: &RelationMap, main: &ForkMap) -> HeatOrigin {
        let Some(lookups) = map.lookups.of(&relation.relation) else { return HeatOrigin::Unknown };
        // Where shared_buffers were not seen, heat is the page cache's.
        let blocks = if map.buffers == TierState::Measured { main.all_buffers().len() } else { main.os.len() };
        if lookups > 0 && lookups >= blocks.saturating_mul(LOOKUPS_PER_BUFFER) {
            return HeatOrigin::Readers;
        }
        HeatOrigin::Load { lookups, blocks }
    }
}

/// What is by a snapshot, for the line that names it: the restore, and popularity unless it is told, or all heat that matters may be a load's.
pub fn what_it_says(map: &Map, is_popularity_told: bool) -> &'static str {
    if is_popularity_told {
        return "popularity as told, restore by ";
    }
    let counts = |one: &RelationMap| {
        let main = one.main_fork().filter(|main| main.blocks > SMALL_BLOCKS);
        main.is_some_and(|main| !matches!(HeatOrigin::of(map, one, main), HeatOrigin::Load { .. }))
    };
    let mut others = map.relations.iter().filter(|one| !one.relation.is_system);
    if others.any(counts) { "popularity and restore by " } else { "restore by " }
}

/// Relations whose heat counts for nothing, or of which nobody knows whether it should.
#[derive(Debug, Default)]
pub struct Doubts {
    /// Size and name of those whose heat may be a load's; of them all what [`HeatOrigin::Load`] has.
    loaded: Vec<(u64, String)>,
    lookups: u64,
    blocks: u64,
    /// Is there one whose lookups nobody has counted?
    is_unknown: bool,
}

impl Doubts {
    /// Adds a relation of so many blocks.
    pub fn add(&mut self, name: &str, size: u64, origin: HeatOrigin) {
        match origin {
            HeatOrigin::Readers => {}
            HeatOrigin::Load { lookups, blocks } => {
                self.loaded.push((size, name.to_owned()));
                self.lookups = self.lookups.saturating_add(lookups);
                self.blocks = self.blocks.saturating_add(blocks);
            }
            HeatOrigin::Unknown => self.is_unknown = true,
        }
    }

    /// What is taken for granted.
    pub fn describe(&self) -> Vec<String> {
        let mut largest_first: Vec<&(u64, String)> = self.loaded.iter().collect();
        largest_first.sort_by(|one, other| other.cmp(one));
        let names = match &largest_first[..] {
            [] => None,
            [(_, one)] => Some(one.clone()),
            [(_, one), (_, other)] => Some(format!("{one} and {other}")),
            [(_, one), others @ ..] => Some(format!("{one} and {} others", others.len())),
        };
        let loaded = names.map(|names| {
            format!(
                "all blocks of {names} equally popular: their heat in the snapshot may be a load's ({} blocks had been looked up by \
                 then, and {} were cached). One that is taken while clients are at work, or --popularity, tells more",
                self.lookups, self.blocks
            )
        });
        let unknown = self.is_unknown.then(|| {
            "the snapshot's heat is that of lookups, and not of a load: nobody counted them when it was taken"
                .to_owned()
        });
        loaded.into_iter().chain(unknown).collect()
    }
}

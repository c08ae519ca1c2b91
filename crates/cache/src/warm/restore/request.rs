use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures_util::{StreamExt as _, stream};
use roaring::RoaringBitmap;

use crate::files::Found;
use crate::warm::heat::{self, Evidence};
use crate::warm::plan::{Geometry, Precedence, WantedFork};
use crate::warm::receipt::{FoundAs, SkipReason};
use crate::warm::{PlannedDevice, Refusal, Sharing};
use crate::{ForkMap, Identity, Map, TierState, Tiers, compute_identities};
use ::host::units::{Bytes, Fork};
use postgres::{Database, Relation, RelationKind, RelationPath, Result, Server, read_databases, read_relations};

/// Smaller omissions are not reported.
const REMARKED_MIN: Bytes = Bytes(1 << 20);

#[derive(Clone, Copy, Debug, Default)]
pub struct RestoreOptions {
    pub device: PlannedDevice,
    /// Whether the device is rotational and read in physical order.
    pub seeks: bool,
    pub threads: usize,
    pub sharing: Sharing,
    pub connections: usize,
    pub budget: Option<Bytes>,
    /// Bytes to load into shared_buffers; `None` fills the free buffers.
    pub buffers_budget: Option<Bytes>,
    /// Bytes per second from the device.
    pub max_rate: Option<Bytes>,
    pub create_extensions: bool,
    /// Whether to evict from the page cache, afterwards, the pages that are also in shared_buffers.
    pub no_double: bool,
    pub is_dry_run: bool,
    /// Whether the snapshot is of this cluster, so that its paths are valid.
    pub same_cluster: bool,
    /// Whether to query the server first: it may use direct I/O, which bypasses the page cache.
    pub awaits_server: bool,
}

#[derive(Debug)]
pub struct Request {
    pub map: Map,
    pub tiers: Tiers,
    /// Identities in the order of `Map::every_relation`.
    pub identities: Vec<Identity>,
}

impl Request {
    pub fn new(map: Map, tiers: Tiers) -> Request {
        let identities = compute_identities(map.every_relation());
        Request { map, tiers, identities }
    }

    /// One entry per fork with blocks for the page cache, with the relation's path at the time of the snapshot.
    /// Includes the blocks for shared_buffers, because large reads are faster than loads of single blocks.
    pub fn entries(&self) -> Vec<Entry> {
        let evidence = Evidence::of(&self.map);
        let reads_buffers = self.tiers.buffers || self.map.os != TierState::Measured;
        let relations = self.map.relations.iter().enumerate();
        let forks = relations.flat_map(|(place, one)| one.forks.iter().map(move |fork| (place, &one.relation, fork)));
        let entry = |(place, relation, fork): (usize, &Relation, &ForkMap)| {
            let wanted = if reads_buffers { &fork.os | fork.all_buffers() } else { fork.os.clone() };
            let levels = heat::levels(fork, evidence, &wanted);
            (!levels.is_empty()).then(|| Entry {
                relation: place,
                path: relation.path.clone(),
                fork: fork.fork,
                found: FoundAs::SameFile,
                precedence: self.precedence(relation, fork),
                is_index: relation.kind == RelationKind::Index && fork.fork == Fork::Main,
                asks: Asks::Levels(levels),
                hot: heat::hot(fork, self.map.os_heat),
                snapshot_blocks: fork.blocks,
            })
        };
        forks.filter_map(entry).collect()
    }

    /// A catalog without buffers counts as unused. If buffers are unknown, catalogs of template databases count as
    /// unused too. Hundreds of small, unused files would cost reads that users wait for.
    fn precedence(&self, relation: &Relation, fork: &ForkMap) -> Precedence {
        let is_used = match self.map.buffers {
            TierState::Measured => !fork.all_buffers().is_empty(),
            _ => !relation.name.is_of_template(),
        };
        match fork.fork {
            _ if relation.is_system && is_used => Precedence::Catalog,
            Fork::Vm => Precedence::VisibilityMap,
            _ => Precedence::ByHeat,
        }
    }

    /// Forks to load into shared_buffers, each with its relation's place and its number of blocks there. Omits template
    /// databases: their buffers stem from catalog queries, and pg_prewarm created in template1 would spread to new
    /// databases.
    pub fn buffered(&self) -> impl Iterator<Item = (usize, &ForkMap, u64)> {
        let relations = self.map.relations.iter().enumerate().filter(move |_| self.tiers.buffers);
        let relations = relations.filter(|(_, one)| !one.relation.name.is_of_template());
        let forks = relations.flat_map(|(place, one)| one.forks.iter().map(move |fork| (place, fork)));
        forks.map(|(place, fork)| (place, fork, fork.all_buffers().len())).filter(|(_, _, blocks)| *blocks > 0)
    }

    pub fn buffers_bytes(&self) -> Bytes {
        Geometry::of(&self.map.source).bytes(self.buffered().map(|(_, _, blocks)| blocks).sum())
    }

    pub fn remark_templates(&self) -> Option<String> {
        let templates = self.map.forks().filter(|(relation, _)| relation.name.is_of_template());
        let bytes = Geometry::of(&self.map.source).bytes(templates.map(|(_, fork)| fork.all_buffers().len()).sum());
        (self.tiers.buffers && bytes >= REMARKED_MIN)
            .then(|| format!("skipped {bytes} of shared_buffers: template databases (template1)"))
    }

    pub fn buffers_rows(&self, refusal: &Refusal) -> Vec<Row> {
        let row = |(place, fork, blocks): (usize, &ForkMap, u64)| {
            Row::absent(place, fork.fork, FoundAs::SameFile, blocks, refusal)
        };
        self.buffered().map(row).collect()
    }

    pub fn resolve(&self, mut entry: Entry, catalog: &Catalog, same_cluster: bool) -> Result<Entry, Refusal> {
        let relation = &self.map.relations[entry.relation].relation;
        let now = catalog.find(&self.identities[entry.relation], same_cluster.then_some(&relation.path))?;
        entry.found = compare_paths(&relation.path, &now.path, same_cluster);
        match entry.found {
            // The file is the same, but has no blocks.
            FoundAs::SameFile => return Err(Refusal::because(SkipReason::Truncated)),
            FoundAs::WholeRewritten => {
                (entry.asks, entry.hot) = (rewritten(&entry.asks, entry.snapshot_blocks), RoaringBitmap::new());
            }
            FoundAs::Moved | FoundAs::Emptied | FoundAs::NotFound => {}
        }
        entry.path = now.path.clone();
        Ok(entry)
    }
}

/// A move to another tablespace copies blocks in order; any other new file rearranges rows.
pub fn compare_paths(then: &RelationPath, now: &RelationPath, same_cluster: bool) -> FoundAs {
    match same_cluster {
        true if then == now => FoundAs::SameFile,
        true if then.tablespace_oid() != now.tablespace_oid() => FoundAs::Moved,
        _ => FoundAs::WholeRewritten,
    }
}

/// Requests all blocks of a rewritten fork if at least half were requested, else none: their positions are unknown.
fn rewritten(asks: &Asks, snapshot_blocks: u64) -> Asks {
    let asked_blocks = asks.blocks();
    match asks {
        Asks::Levels(levels) if asked_blocks * 2 >= snapshot_blocks => {
            Asks::Whole { heat: heat::mean(levels), asked_blocks }
        }
        _ => Asks::Nothing { asked_blocks },
    }
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub relation: usize,
    pub path: RelationPath,
    pub fork: Fork,
    pub found: FoundAs,
    pub precedence: Precedence,
    pub is_index: bool,
    pub asks: Asks,
    /// Requested blocks that must not be evicted by pages read only once.
    pub hot: RoaringBitmap,
    pub snapshot_blocks: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Asks {
    /// Blocks by heat, coldest first. Levels are disjoint.
    Levels(Vec<(f32, RoaringBitmap)>),
    /// All current blocks, with the same heat, instead of the snapshot's `asked_blocks` blocks.
    Whole { heat: f32, asked_blocks: u64 },
    /// No blocks. The file was rewritten, so the positions of the snapshot's `asked_blocks` blocks are unknown.
    Nothing { asked_blocks: u64 },
}

/// `None` if the file is missing.
pub type State = Result<Option<Found>, Refusal>;

#[derive(Debug)]
pub struct Planned {
    pub entry: Entry,
    pub blocks: u64,
    pub wanted_blocks: u64,
    pub resident_before: u64,
    /// Without the result of the restore.
    row: Row,
}

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
    pub skips: Vec<Missing>,
}

impl Asks {
    pub fn end(&self) -> u64 {
        match self {
            Asks::Levels(levels) => end_of(levels),
            Asks::Whole { .. } => u64::MAX,
            Asks::Nothing { .. } => 0,
        }
    }

    pub fn blocks(&self) -> u64 {
        match self {
            Asks::Levels(levels) => levels.iter().map(|(_, blocks)| blocks.len()).sum(),
            Asks::Whole { asked_blocks, .. } | Asks::Nothing { asked_blocks } => *asked_blocks,
        }
    }
}

pub fn end_of(levels: &[(f32, RoaringBitmap)]) -> u64 {
    levels.iter().filter_map(|(_, blocks)| blocks.max()).max().map_or(0, |last| u64::from(last) + 1)
}

pub fn count_resident(levels: &[(f32, RoaringBitmap)], resident: &RoaringBitmap) -> u64 {
    levels.iter().map(|(_, blocks)| blocks.intersection_len(resident)).sum()
}

impl Entry {
    pub fn prepare(self, found: Found) -> (Planned, WantedFork) {
        let Found { blocks, resident } = found;
        let asked_blocks = self.asks.blocks();
        // Blocks lost by a rewrite such as TRUNCATE.
        let gone = asked_blocks.saturating_sub(blocks);
        let (mut levels, mut truncated_blocks, left_out_blocks, found) = match &self.asks {
            Asks::Levels(levels) => (levels.clone(), 0, 0, self.found),
            _ if blocks == 0 => (Vec::new(), gone, 0, FoundAs::Emptied),
            Asks::Whole { heat, .. } => {
                let mut all = RoaringBitmap::new();
                all.insert_range(0..u32::try_from(blocks).unwrap_or(u32::MAX));
                (vec![(*heat, all)], gone, 0, self.found)
            }
            Asks::Nothing { .. } => (Vec::new(), gone, asked_blocks - gone, FoundAs::NotFound),
        };
        if let Ok(end) = u32::try_from(blocks) {
            truncated_blocks += levels.iter_mut().map(|(_, wanted)| wanted.remove_range(end..)).sum::<u64>();
        }
        let wanted_blocks = levels.iter().map(|(_, blocks)| blocks.len()).sum();
        let resident_before = count_resident(&levels, &resident);
        let is_grown = matches!(self.asks, Asks::Levels(_));
        let row = Row {
            relation: self.relation,
            fork: self.fork,
            found,
            asked_blocks: wanted_blocks + truncated_blocks + left_out_blocks,
            resident_before: Some(resident_before),
            resident_after: None,
            read_bytes: Bytes(0),
            grown_blocks: if is_grown { blocks.saturating_sub(self.snapshot_blocks) } else { 0 },
            skips: vec![
                (SkipReason::Truncated, truncated_blocks, None),
                (SkipReason::Rewritten, left_out_blocks, None),
            ],
        };
        let Entry { precedence, is_index, .. } = self;
        let wanted = WantedFork { precedence, is_index, blocks, levels, resident, places: Vec::new() };
        (Planned { entry: self, blocks, wanted_blocks, resident_before, row }, wanted)
    }

    pub fn absent_row(&self, why: &Refusal) -> Row {
        let found = match why.reason {
            SkipReason::Dropped | SkipReason::FileGone => FoundAs::NotFound,
            _ => self.found,
        };
        Row::absent(self.relation, self.fork, found, self.asks.blocks(), why)
    }
}

impl Row {
    pub fn absent(relation: usize, fork: Fork, found: FoundAs, asked_blocks: u64, why: &Refusal) -> Row {
        Row {
            relation,
            fork,
            found,
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
    pub fn row(&self, resident_after: Option<u64>, read_bytes: Bytes, mut skips: Vec<Missing>) -> Row {
        skips.extend_from_slice(&self.row.skips);
        Row { resident_after, read_bytes, skips, ..self.row.clone() }
    }
}

/// Reason, number of missing blocks, and error text.
pub type Missing = (SkipReason, u64, Option<String>);

// Finds relations by name: one query per database, several at a time.

const CONNECTIONS: usize = 4;

#[derive(Debug, Default)]
pub struct Catalog {
    relations: HashMap<Identity, Relation>,
    /// Relation of each file, to find renamed relations: they keep their file.
    owners: HashMap<RelationPath, Identity>,
    unreachable: BTreeMap<String, Refusal>,
}

impl Catalog {
    pub async fn read(server: &Server, names: &BTreeSet<String>) -> Result<Catalog> {
        let mut connection = server.connect_to(&server.database).await?;
        let all = read_databases(&mut connection).await?;
        let mut catalog = Catalog::default();
        let is_own = |database: &&Database| database.name == server.database;
        if let Some(own) = all.iter().find(is_own) {
            catalog.add(read_relations(&mut connection, own, true).await?);
        }
        drop(connection);
        let others = all.iter().filter(|database| !is_own(database) && names.contains(&database.name));
        let answers = others.map(|database| async move { (database, ask(server, database).await) });
        let mut answers = stream::iter(answers).buffer_unordered(CONNECTIONS);
        while let Some((database, answer)) = answers.next().await {
            match answer {
                Ok(relations) => catalog.add(relations),
                Err(error) => _ = catalog.unreachable.insert(database.name.clone(), Refusal::of(&error)),
            }
        }
        Ok(catalog)
    }

    /// Finds a relation by name, else by `file`. Fails if it was dropped or its database is unreachable.
    pub fn find(&self, identity: &Identity, file: Option<&RelationPath>) -> Result<&Relation, Refusal> {
        let by_file = || self.relations.get(self.owners.get(file?)?);
        self.relations.get(identity).or_else(by_file).ok_or_else(|| {
            let unreachable = self.unreachable.get(&identity.name.database).cloned();
            unreachable.unwrap_or_else(|| Refusal::because(SkipReason::Dropped))
        })
    }

    fn add(&mut self, relations: Vec<Relation>) {
        let identities = compute_identities(relations.iter());
        self.owners.extend(relations.iter().map(|one| one.path.clone()).zip(identities.iter().cloned()));
        self.relations.extend(identities.into_iter().zip(relations));
    }
}

async fn ask(server: &Server, database: &Database) -> Result<Vec<Relation>> {
    read_relations(&mut server.connect_to(&database.name).await?, database, false).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_a_rewrite_unless_it_is_in_another_tablespace() {
        let path = |text: &str| text.parse::<RelationPath>().unwrap();
        let (then, rewritten) = (path("base/5/16384"), path("base/5/16999"));
        let moved = path("pg_tblspc/16390/PG_15_202209061/5/17000");
        assert_eq!(compare_paths(&then, &then, true), FoundAs::SameFile);
        assert_eq!(compare_paths(&then, &rewritten, true), FoundAs::WholeRewritten);
        assert_eq!(compare_paths(&then, &moved, true), FoundAs::Moved);
        assert_eq!(compare_paths(&then, &then, false), FoundAs::WholeRewritten);
    }

    #[test]
    fn half_of_a_rewritten_relation_is_enough() {
        let asks = |blocks: u32| Asks::Levels(vec![(3.0, (0..blocks).collect())]);
        assert_eq!(rewritten(&asks(5), 10), Asks::Whole { heat: 3.0, asked_blocks: 5 });
        assert_eq!(rewritten(&asks(4), 10), Asks::Nothing { asked_blocks: 4 });
    }
}

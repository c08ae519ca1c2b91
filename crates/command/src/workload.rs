//! Forecast input: groups of pages with equal request rates, from a server's counters and a snapshot's heat (estimated
//! request rate of each block).

use roaring::RoaringBitmap;

use cache::warm::plan::{Precedence, WantedFork};
use cache::warm::{Evidence, compute_heat_levels};
use cache::{ForkMap, Map, RelationMap, TierState};
use model::{AccessKind, Bin, Error, PageClass, Popularity};
use postgres::{Activity, RelationActivity, RelationKind};

/// Relations with fewer requests per transaction are ignored.
const FEWEST_ACCESSES: f64 = 1e-4;

/// Assumed share of an index's blocks that are above the leaves.
const INNER_SHARE: f64 = 1.0 / 256.0;

/// Request rate of blocks that are absent from the snapshot, relative to its coldest block.
const ABSENT: f32 = 0.05;

const SHOWN_CLASSES: usize = 8;

/// Blocks of a relation to restore, coldest level first. `Popularity::Measured` has a bin for each level, but hottest
/// first, and a last bin for blocks that are absent from the snapshot.
#[derive(Debug)]
pub struct WantedClass {
    pub class: usize,
    pub fork: WantedFork,
}

pub fn wanted_of(classes: &[PageClass], activity: &Activity, map: &Map) -> Vec<WantedClass> {
    let evidence = Evidence::of(map);
    let wanted = |(class, one): (usize, &PageClass)| {
        let Popularity::Measured(_) = one.popularity else { return None };
        let relation = activity.relations.iter().find(|relation| class_name(relation) == one.name)?;
        let levels = levels_of(find_fork(map, relation)?.1, evidence);
        let fork = WantedFork {
            precedence: Precedence::ByHeat,
            is_index: relation.kind == RelationKind::Index,
            blocks: relation.blocks,
            levels,
            resident: RoaringBitmap::new(),
            places: Vec::new(),
        };
        Some(WantedClass { class, fork })
    };
    classes.iter().enumerate().filter_map(wanted).collect()
}

fn class_name(relation: &RelationActivity) -> String {
    format!("{}.{}", relation.schema, relation.name)
}

pub fn levels_of(fork: &ForkMap, evidence: Evidence) -> Vec<(f32, RoaringBitmap)> {
    compute_heat_levels(fork, evidence, &(&fork.os | &fork.all_buffers()))
}

#[derive(Debug)]
pub struct Classes {
    pub classes: Vec<PageClass>,
    pub assumptions: Vec<String>,
}

impl Classes {
    pub fn describe(&self) -> Vec<String> {
        let mut classes: Vec<&PageClass> = self.classes.iter().collect();
        classes.sort_by(|one, other| other.pages.total_cmp(&one.pages));
        let more = classes.len().saturating_sub(SHOWN_CLASSES);
        let shown = classes.iter().take(SHOWN_CLASSES).map(|class| class.access().to_string());
        let more = (more > 0).then(|| format!("and {more} smaller ones (--json lists them)"));
        shown.chain(more).chain(self.assumptions.iter().cloned()).collect()
    }
}

/// Makes the model's classes of block requests: one per table and two per index. If the server has not counted index
/// scans, treats all requests as point lookups.
///
/// # Errors
/// If a table's scans are too few to account for its block requests.
pub fn make_classes(activity: &Activity, map: Option<&Map>, told: Option<&Popularity>) -> Result<Classes, Error> {
    let made = make_classes_by(|counts, table, name| counts.of_table(table, name), activity, map, told)?;
    if !made.classes.is_empty() {
        return Ok(made);
    }
    make_classes_by(|counts, table, name| Ok(counts.as_points(table, name)), activity, map, told)
}

fn make_classes_by(
    of_table: impl Fn(&Counts, &RelationActivity, &str) -> Result<Accesses, Error>,
    activity: &Activity,
    map: Option<&Map>,
    told: Option<&Popularity>,
) -> Result<Classes, Error> {
    let counts = Counts::new(activity);
    let heat = map.map(|map| (map, Evidence::of(map)));
    let mut made = Classes { classes: Vec::new(), assumptions: Vec::new() };
    let mut doubts = Vec::new();
    for relation in activity.relations.iter().filter(|relation| relation.blocks > 0) {
        if counts.per(relation.requests) < FEWEST_ACCESSES {
            continue;
        }
        let (popularity, origin) = find_popularity(relation, heat, told);
        let name = class_name(relation);
        let blocks = relation.blocks as f64;
        let is_index = relation.kind == RelationKind::Index && blocks >= 2.0;
        let found = if relation.kind == RelationKind::Index {
            counts.of_index(relation, &name)
        } else {
            of_table(&counts, relation, &name)?
        };
        let inner_blocks = if is_index { (blocks * INNER_SHARE).max(1.0) } else { 0.0 };
        let class = |name: String, pages: f64, accesses: f64, run: f64, popularity| {
            let run_pages = run.min(pages).max(1.0);
            let is_asked = accesses >= FEWEST_ACCESSES;
            is_asked.then_some(PageClass { name, pages, accesses, run_pages, popularity })
        };
        let main = class(name.clone(), blocks - inner_blocks, found.blocks, found.run_blocks(), popularity);
        // A full scan reads every block, so heat does not matter.
        let is_chosen_from = |one: &PageClass| one.access().kind != AccessKind::Scan && relation.blocks > SMALL_BLOCKS;
        if let Some(origin) = origin.filter(|_| main.as_ref().is_some_and(is_chosen_from)) {
            doubts.push((relation.blocks, name.clone(), origin));
        }
        made.classes.extend(main);
        let inner = if is_index { found.inner } else { 0.0 };
        made.classes.extend(class(name + ", inner pages", inner_blocks, inner, 1.0, Popularity::Uniform));
        made.assumptions.extend(found.assumptions);
    }
    made.assumptions.extend(describe_doubts(&doubts));
    Ok(made)
}

fn find_popularity(
    relation: &RelationActivity,
    heat: Option<(&Map, Evidence)>,
    told: Option<&Popularity>,
) -> (Popularity, Option<HeatOrigin>) {
    if let Some(told) = told {
        return (told.over(relation.tuples.map(|tuples| tuples / relation.blocks as f64)), None);
    }
    let found = heat.and_then(|(map, evidence)| Some((map, find_fork(map, relation)?, evidence)));
    let Some((map, (warm, fork), evidence)) = found else { return (Popularity::Uniform, None) };
    let origin = HeatOrigin::of(map, warm, fork);
    (measured(fork, evidence, origin, relation.blocks), Some(origin))
}

fn find_fork<'a>(map: &'a Map, relation: &RelationActivity) -> Option<(&'a RelationMap, &'a ForkMap)> {
    let found = map.relations.iter().find(|one| {
        one.relation.oid == relation.oid
            && one.relation.name.name == relation.name
            && one.relation.name.schema == relation.schema
    })?;
    found.main_fork().map(|fork| (found, fork))
}

/// Popularity by heat. If a bulk load may have caused the heat, all bins weigh the same; a restore still follows heat.
fn measured(fork: &ForkMap, evidence: Evidence, origin: HeatOrigin, blocks: u64) -> Popularity {
    let levels = levels_of(fork, evidence);
    let weight = |heat: f32| if matches!(origin, HeatOrigin::Load { .. }) { 1.0 } else { f64::from(heat) };
    let coldest = levels.first().map_or(1.0, |(heat, _)| *heat);
    let hottest_first = levels.iter().rev();
    let mut bins: Vec<Bin> =
        hottest_first.map(|(heat, blocks)| Bin { pages: blocks.len() as f64, weight: weight(*heat) }).collect();
    let resident: u64 = levels.iter().map(|(_, blocks)| blocks.len()).sum();
    let absent = blocks.saturating_sub(resident) as f64;
    bins.push(Bin { pages: absent, weight: weight(coldest * ABSENT) });
    Popularity::Measured(bins)
}

/// Minimum sequential scans per transaction; rarer ones are attributed to another job.
const FEWEST_SCANS: f64 = 0.01;

/// A scan's rows count as contiguous if they occupy at most this multiple of the blocks that contiguous rows would
/// occupy.
const NEIGHBOURS: f64 = 1.25;

/// Relations of up to this many blocks warm up so fast that wrong assumptions hardly matter.
pub const SMALL_BLOCKS: u64 = 32;

/// Some requests for a table's blocks are not explained by any index, bitmap or table scan. It is an error if these
/// requests reach both limits: blocks per transaction, and a share of the table's requests.
const UNEXPLAINED_BLOCKS: f64 = 0.5;
const UNEXPLAINED_SHARE: f64 = 0.6;

/// Assumed maximum of requests to change a row: its block, the visibility map, the free space map and the new version's
/// block, some of them more than once.
const WRITE_BLOCKS: f64 = 8.0;

const SHORTEST_RANGE: f64 = 1.2;

const MANY_DESCENTS: f64 = 8.0;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accesses {
    /// Blocks requested per transaction, and number of contiguous ranges that they form.
    pub blocks: f64,
    pub begins: f64,
    /// Index blocks above the leaves.
    pub inner: f64,
    pub assumptions: Vec<String>,
}

impl Accesses {
    fn add(&mut self, blocks: f64, begins: f64) {
        self.blocks += blocks;
        self.begins += begins;
    }

    fn take_back(&mut self, begins: f64, more_blocks: f64) {
        self.begins = (self.begins - begins).max(0.0);
        self.blocks = (self.blocks - begins - more_blocks).max(self.begins);
    }

    pub fn run_blocks(&self) -> f64 {
        if self.begins > 0.0 { (self.blocks / self.begins).max(1.0) } else { 1.0 }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Counts<'a> {
    activity: &'a Activity,
    transactions: f64,
}

impl<'a> Counts<'a> {
    pub fn new(activity: &'a Activity) -> Counts<'a> {
        Counts { activity, transactions: activity.transactions.max(1) as f64 }
    }

    pub fn per(&self, count: u64) -> f64 {
        count as f64 / self.transactions
    }

    fn indexes(&self, table: &RelationActivity) -> impl Iterator<Item = &'a RelationActivity> {
        let oid = table.oid;
        self.activity.relations.iter().filter(move |one| one.table == Some(oid))
    }

    /// Rows looked up twice and index scans repeated, per transaction. A transaction is assumed to read a row before
    /// changing it.
    fn repeated(&self, table: &RelationActivity) -> (f64, f64) {
        let fetching = || self.indexes(table).filter(|index| index.rows.fetched > 0);
        let rows = self.per(fetching().map(|index| index.rows.fetched).sum::<u64>() + table.rows.fetched);
        let scans = self.per(fetching().map(|index| index.scans).sum());
        let again = self.per(table.rows.changed).min((rows - self.per(table.rows.changed)).max(0.0));
        (again, again.min(scans / 2.0))
    }

    pub fn of_table(&self, table: &RelationActivity, name: &str) -> Result<Accesses, Error> {
        let mut accesses = Accesses::default();
        let scanned = self.add_scans(table, name, &mut accesses);
        let mut lookups: Vec<Lookups> = self.indexes(table).filter_map(|index| self.by_index(table, index)).collect();
        lookups.extend(self.by_bitmap(table));
        let looked: f64 = lookups.iter().map(|one| one.rows).sum();
        let left = (self.per(table.requests) - scanned).max(0.0);
        self.check_explained(table, name, left - looked)?;
        let left = left - WRITE_BLOCKS * self.per(table.rows.changed);
        // A row needs one block; requests beyond one per row are repeats.
        let least: f64 = lookups.iter().map(|one| one.least).sum();
        let more = ((left.min(looked) - least) / (looked - least).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        for one in &lookups {
            let blocks = one.least + more * (one.rows - one.least);
            accesses.add(blocks, one.begins_of(blocks));
            accesses.assumptions.extend(one.describe(name, blocks));
            let run = blocks / one.begins_of(blocks).max(f64::MIN_POSITIVE);
            if run > SHORTEST_RANGE {
                accesses.assumptions.push(format!(
                    "{name}: ranges are assumed to be read forwards; backward reads have no read-ahead and take longer"
                ));
            }
        }
        let (rows, scans) = self.repeated(table);
        if rows > 0.0 && table.blocks > SMALL_BLOCKS {
            accesses.take_back(scans, (rows - scans) / rows_of_a_block(table));
            accesses.assumptions.push(format!("{name}: transactions are assumed to read rows before changing them"));
        }
        Ok(accesses)
    }

    pub fn as_points(&self, table: &RelationActivity, name: &str) -> Accesses {
        let mut accesses = Accesses::default();
        let scanned = self.add_scans(table, name, &mut accesses);
        let left = (self.per(table.requests) - scanned).max(0.0);
        if left > 0.0 {
            accesses.add(left, left);
            let told = "no row lookups were seen; requests are assumed to be random";
            accesses.assumptions.push(format!("{name}: {told}"));
        }
        accesses
    }

    fn by_index(&self, table: &RelationActivity, index: &RelationActivity) -> Option<Lookups> {
        let (rows, scans) = (self.per(index.rows.fetched), self.per(index.scans));
        (rows > 0.0).then(|| Lookups::new(table, rows, scans.min(rows), false))
    }

    fn by_bitmap(&self, table: &RelationActivity) -> Option<Lookups> {
        let bitmaps = self.indexes(table).filter(|index| index.rows.fetched == 0 && index.rows.read > 0);
        let scans = self.per(bitmaps.map(|index| index.scans).sum());
        let rows = self.per(table.rows.fetched);
        (rows > 0.0).then(|| Lookups::new(table, rows, scans.min(rows), scans > 0.0))
    }

    /// Adds the sequential scans unless they are rare. Returns the blocks of all sequential scans.
    fn add_scans(&self, table: &RelationActivity, name: &str, accesses: &mut Accesses) -> f64 {
        let scans = self.per(table.scans);
        let read_share = |tuples: f64| (table.rows.read as f64 / (table.scans.max(1) as f64 * tuples)).min(1.0);
        let blocks = scans * table.blocks as f64 * table.tuples.map_or(1.0, read_share);
        let blocks = blocks.min(self.per(table.requests));
        if scans >= FEWEST_SCANS {
            accesses.add(blocks, scans);
        } else if blocks > UNEXPLAINED_BLOCKS {
            accesses.assumptions.push(format!(
                "{name}: the forecast omits full scans (one in {:.0} transactions), assuming that another job runs them",
                scans.recip()
            ));
        }
        blocks
    }

    fn check_explained(&self, table: &RelationActivity, name: &str, unexplained: f64) -> Result<(), Error> {
        let is_written = table.rows.inserted + table.rows.changed > 0;
        // An index-only scan requests one visibility map page per descent.
        let descents: u64 = self.indexes(table).map(|index| index.scans).sum();
        let unexplained = unexplained - self.per(descents);
        let most = UNEXPLAINED_BLOCKS.max(UNEXPLAINED_SHARE * self.per(table.requests));
        if unexplained < most || is_written || table.blocks <= SMALL_BLOCKS {
            return Ok(());
        }
        Err(Error::UnknownAccess { relation: name.to_owned(), blocks: unexplained })
    }

    pub fn of_index(&self, index: &RelationActivity, name: &str) -> Accesses {
        let mut accesses = Accesses::default();
        let requests = self.per(index.requests);
        let scans = self.per(index.scans);
        if !matches!(index.access_method.as_str(), "" | "btree") {
            accesses.add(requests, requests);
            accesses.assumptions.push(format!("{name} ({}): requests are assumed to be random", index.access_method));
            return accesses;
        }
        let entries = index.rows.read as f64 / index.scans.max(1) as f64;
        let on_a_leaf = rows_of_a_block(index);
        let leaves = (1.0 + (entries - 1.0).max(0.0) / on_a_leaf).min((requests / scans).max(1.0));
        accesses.add((scans * leaves).min(requests), scans.min(requests));
        accesses.inner = requests - accesses.blocks;
        // Repeated lookups are attributed to the index that fetches the most rows.
        let leads = |table: &RelationActivity| self.indexes(table).all(|one| one.rows.fetched <= index.rows.fetched);
        let table = self.activity.relations.iter().find(|one| Some(one.oid) == index.table);
        if let Some(table) = table.filter(|table| leads(table)) {
            let (rows, again) = self.repeated(table);
            accesses.take_back(again, (rows - again) / on_a_leaf);
        }
        if scans > MANY_DESCENTS && index.blocks > SMALL_BLOCKS {
            accesses.assumptions.push(format!(
                "{name}: {scans:.0} index descents per transaction are assumed to be random; if they are ordered, as in a join in table order, the index is warm sooner"
            ));
        }
        accesses
    }
}

/// Infinite if the row count is unknown.
fn rows_of_a_block(relation: &RelationActivity) -> f64 {
    relation.tuples.map_or(f64::INFINITY, |tuples| (tuples / relation.blocks as f64).max(1.0))
}

#[derive(Clone, Copy, Debug)]
struct Lookups {
    rows: f64,
    scans: f64,
    /// Blocks requested if the rows of each scan are contiguous.
    least: f64,
    is_bitmap: bool,
}

impl Lookups {
    fn new(table: &RelationActivity, rows: f64, scans: f64, is_bitmap: bool) -> Lookups {
        let in_a_block = rows_of_a_block(table);
        // If no index scan was counted, each row may be in a block of its own.
        let least = if scans > 0.0 { scans + (rows - scans) / in_a_block } else { rows };
        Lookups { rows, scans, least, is_bitmap }
    }

    fn is_beside(&self, blocks: f64) -> bool {
        blocks <= NEIGHBOURS * self.least
    }

    fn begins_of(&self, blocks: f64) -> f64 {
        if self.is_beside(blocks) && !self.is_bitmap && self.scans > 0.0 { self.scans.min(blocks) } else { blocks }
    }

    fn describe(&self, name: &str, blocks: f64) -> Option<String> {
        let (run, rows) = (blocks / self.scans, self.rows / self.scans);
        if self.scans <= 0.0 || run < 2.0 {
            None
        } else if !self.is_beside(blocks) {
            let filled = self.least / self.scans;
            Some(format!(
                "{name}: {rows:.0} rows of an index scan are in {run:.0} scattered blocks; stored side by side, these rows would fill {filled:.0} blocks"
            ))
        } else {
            self.is_bitmap.then(|| format!("{name}: the {run:.0} blocks of a bitmap scan are read one by one"))
        }
    }
}

// ---- origin ----
//
// Heat is computed from buffers by Che's approximation (`crates/cache/src/warm/heat.rs`), which assumes lookups. But
// bulk loads also leave blocks in buffers: COPY leaves the last blocks that it wrote (GetAccessStrategy in PostgreSQL's
// freelist.c), INSERT leaves all blocks, and CREATE INDEX leaves a whole small table. Buffers alone cannot identify a
// load, as many workloads read a table's end. The number of lookups can, because a load makes none. After several
// lookups per buffer, the loaded blocks have been evicted, or are hardly hotter than other blocks.

/// From this many lookups per buffer on, heat is attributed to readers and not to a load. If all blocks fit and are
/// equally popular, 4 lookups per buffer leave e^-4 (2 %) of the blocks without a request; one lookup leaves 37 %.
const LOOKUPS_PER_BUFFER: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeatOrigin {
    Readers,
    /// A bulk load may have caused the heat: few `lookups` per cached block.
    Load {
        lookups: u64,
        blocks: u64,
    },
    Unknown,
}

impl HeatOrigin {
    pub fn of(map: &Map, relation: &RelationMap, main: &ForkMap) -> HeatOrigin {
        let Some(lookups) = map.lookups.of(&relation.relation) else { return HeatOrigin::Unknown };
        // Without shared_buffers, heat is computed from the page cache.
        let blocks = if map.buffers == TierState::Measured { main.all_buffers().len() } else { main.os.len() };
        if lookups > 0 && lookups >= blocks.saturating_mul(LOOKUPS_PER_BUFFER) {
            return HeatOrigin::Readers;
        }
        HeatOrigin::Load { lookups, blocks }
    }
}

/// Start of the output line that names the snapshot.
pub fn what_it_says(map: &Map, is_popularity_told: bool) -> &'static str {
    if is_popularity_told {
        return "popularity as given, restore by ";
    }
    let counts = |one: &RelationMap| {
        let main = one.main_fork().filter(|main| main.blocks > SMALL_BLOCKS);
        main.is_some_and(|main| !matches!(HeatOrigin::of(map, one, main), HeatOrigin::Load { .. }))
    };
    let mut others = map.relations.iter().filter(|one| !one.relation.is_system);
    if others.any(counts) { "popularity and restore by " } else { "restore by " }
}

fn describe_doubts(doubts: &[(u64, String, HeatOrigin)]) -> Vec<String> {
    let of_load = |(size, name, origin): &(u64, String, HeatOrigin)| match *origin {
        HeatOrigin::Load { lookups, blocks } => Some((*size, name.clone(), lookups, blocks)),
        HeatOrigin::Readers | HeatOrigin::Unknown => None,
    };
    let mut largest_first: Vec<(u64, String, u64, u64)> = doubts.iter().filter_map(of_load).collect();
    largest_first.sort_by(|one, other| other.cmp(one));
    let names = match &largest_first[..] {
        [] => None,
        [(_, one, ..)] => Some(one.clone()),
        [(_, one, ..), (_, other, ..)] => Some(format!("{one} and {other}")),
        [(_, one, ..), others @ ..] => Some(format!("{one} and {} others", others.len())),
    };
    let sum = |of: fn(&(u64, String, u64, u64)) -> u64| largest_first.iter().map(of).fold(0, u64::saturating_add);
    let loaded = names.map(|names| {
        format!(
            "all blocks of {names} are assumed to be equally popular: their heat (estimated request rates) in the snapshot may stem \
             from a bulk load ({} lookups, {} cached blocks). Take a snapshot while clients are active, or give popularity=",
            sum(|one| one.2),
            sum(|one| one.3)
        )
    });
    let unknown = doubts.iter().any(|(.., origin)| *origin == HeatOrigin::Unknown).then(|| {
        "the snapshot's heat is assumed to stem from lookups, not from a bulk load: the snapshot has no lookup counts"
            .to_owned()
    });
    loaded.into_iter().chain(unknown).collect()
}

#[cfg(test)]
mod classes_tests {
    use super::*;
    use cache::fixtures::{self, map_of};
    use cache::{Lookups, TierState};
    use host::units::Fork;
    use postgres::RowCounts;

    const TRANSACTIONS: u64 = 1000;

    fn relation(oid: u32, kind: RelationKind, requests: u64, scans: u64, rows: RowCounts) -> RelationActivity {
        let (blocks, tuples, table) = match kind {
            RelationKind::Index => (2745, 366.0 * 2745.0, Some(1)),
            _ => (16_394, 61.0 * 16_394.0, None),
        };
        let access_method = if table.is_some() { "btree" } else { "heap" }.to_owned();
        let (schema, name, tuples) = ("public".into(), format!("r{oid}"), Some(tuples));
        RelationActivity { oid, schema, name, kind, blocks, requests, scans, rows, table, access_method, tuples }
    }

    fn make(relations: Vec<RelationActivity>) -> Result<Classes, Error> {
        make_classes(&Activity { transactions: TRANSACTIONS, relations, ..Activity::default() }, None, None)
    }

    fn look_up(entries: u64, fetched: u64, blocks: u64) -> Classes {
        let rows = RowCounts { read: entries * TRANSACTIONS, fetched: fetched * TRANSACTIONS, ..RowCounts::default() };
        let leaves = 1 + entries / 366;
        make(vec![
            relation(1, RelationKind::Table, blocks * TRANSACTIONS, 0, RowCounts::default()),
            relation(2, RelationKind::Index, (2 + leaves) * TRANSACTIONS, TRANSACTIONS, rows),
        ])
        .unwrap()
    }

    fn described(classes: &Classes) -> Vec<String> {
        classes.classes.iter().map(|class| class.access().to_string()).collect()
    }

    #[test]
    fn an_index_has_leaves_and_inner_pages() {
        let classes = look_up(1, 1, 1);
        let found: Vec<(&str, f64)> =
            classes.classes.iter().map(|class| (class.name.as_str(), class.accesses)).collect();
        assert_eq!(found, [("public.r1", 1.0), ("public.r2", 1.0), ("public.r2, inner pages", 2.0)]);
        assert_eq!(classes.classes[1].pages + classes.classes[2].pages, 2745.0);
        assert!(classes.assumptions.is_empty(), "{:?}", classes.assumptions);
    }

    #[test]
    fn rows_in_as_few_blocks_as_they_fill_are_a_range() {
        let classes = look_up(600, 600, 11);
        assert_eq!(described(&classes)[0], "public.r1: 16394 blocks, 1.00 ranges of 11.0 blocks per transaction");
        assert_eq!(described(&classes)[1], "public.r2: 2734 blocks, 1.00 ranges of 2.6 blocks per transaction");
        assert!(classes.assumptions[0].contains("read forwards"), "{:?}", classes.assumptions);
    }

    #[test]
    fn rows_in_a_block_each_lie_anywhere() {
        let classes = look_up(600, 600, 590);
        assert_eq!(described(&classes)[0], "public.r1: 16394 blocks, 590.00 single blocks per transaction");
        assert!(classes.assumptions[0].contains("these rows would fill 11 blocks"), "{:?}", classes.assumptions);
    }

    #[test]
    fn an_index_that_answers_alone_needs_no_blocks_of_its_table() {
        let classes = look_up(600, 0, 1);
        assert_eq!(classes.classes[0].name, "public.r2");
    }

    #[test]
    fn a_table_read_from_end_to_end_is_a_scan_unless_that_is_rare() {
        let scanned = |scans: u64| {
            let rows = RowCounts { read: scans * 61 * 16_394, ..RowCounts::default() };
            make(vec![relation(1, RelationKind::Table, scans * 16_394, scans, rows)]).unwrap()
        };
        let often = described(&scanned(TRANSACTIONS));
        assert_eq!(often, ["public.r1: 16394 blocks, 1.00 full scans per transaction"]);
        let rarely = scanned(1);
        assert!(rarely.classes.is_empty() && rarely.assumptions[0].contains("one in 1000 transactions"), "{rarely:?}");
    }

    #[test]
    fn a_table_that_was_only_written_is_taken_for_points() {
        let rows = RowCounts { inserted: 1000 * TRANSACTIONS, ..RowCounts::default() };
        let classes = make(vec![relation(1, RelationKind::Table, 20 * TRANSACTIONS, 0, rows)]).unwrap();
        assert_eq!(described(&classes), ["public.r1: 16394 blocks, 20.00 single blocks per transaction"]);
        assert!(classes.assumptions[0].contains("no row lookups were seen"), "{:?}", classes.assumptions);
    }

    #[test]
    fn a_row_that_is_changed_is_the_one_that_was_read() {
        let rows = RowCounts { changed: TRANSACTIONS, ..RowCounts::default() };
        let looked = RowCounts { read: 2 * TRANSACTIONS, fetched: 2 * TRANSACTIONS, ..RowCounts::default() };
        let classes = make(vec![
            relation(1, RelationKind::Table, 5 * TRANSACTIONS, 0, rows),
            relation(2, RelationKind::Index, 9 * TRANSACTIONS, 2 * TRANSACTIONS, looked),
        ])
        .unwrap();
        assert_eq!(described(&classes)[0], "public.r1: 16394 blocks, 1.00 single blocks per transaction");
        assert_eq!(described(&classes)[1], "public.r2: 2734 blocks, 1.00 single blocks per transaction");
        assert!(classes.assumptions[0].contains("read rows before changing them"), "{:?}", classes.assumptions);
    }

    fn make_of_heat(lookups: Lookups) -> (Vec<Bin>, Vec<WantedClass>, String) {
        let mut fork = ForkMap::empty(Fork::Main, 16_394);
        fork.os.insert_range(0..16_394);
        fork.buffers[1].insert_range(15_000..16_394);
        let mut map = map_of(vec![fixtures::relation(1, fork)]);
        map.buffers = TierState::Measured;
        map.lookups = lookups;
        let rows = RowCounts { read: TRANSACTIONS, fetched: TRANSACTIONS, ..RowCounts::default() };
        let table = relation(1, RelationKind::Table, TRANSACTIONS, 0, RowCounts::default());
        let relations = vec![
            RelationActivity { name: "relation_1".into(), ..table },
            relation(2, RelationKind::Index, 3 * TRANSACTIONS, TRANSACTIONS, rows),
        ];
        let activity = Activity { transactions: TRANSACTIONS, relations, ..Activity::default() };
        let made = make_classes(&activity, Some(&map), None).unwrap();
        let bins = made.classes[0].popularity.bins(16_394.0);
        (bins, wanted_of(&made.classes, &activity, &map), made.assumptions.join("; "))
    }

    #[test]
    fn the_heat_of_a_load_says_nothing_of_popularity_and_a_restore_goes_by_it_all_the_same() {
        for lookups in [0, 4 * 1394 - 1] {
            let (bins, wanted, told) = make_of_heat(Lookups::of_database("app", [(1, lookups)]));
            assert!(bins.iter().all(|bin| bin.weight == bins[0].weight), "{bins:?}");
            let levels = wanted[0].fork.levels.iter().rev().map(|(_, blocks)| blocks.len() as f64);
            assert!(bins.len() > 1 && bins.iter().map(|bin| bin.pages).eq(levels), "{bins:?}");
            let expected = format!("may stem from a bulk load ({lookups} lookups, 1394 cached blocks)");
            assert!(told.contains(&expected) && told.contains("relation_1 are assumed to be equally"), "{told}");
        }
        let (bins, _, told) = make_of_heat(Lookups::of_database("app", [(1, 4 * 1394)]));
        assert!(bins[0].weight > 10.0 * bins[bins.len() - 1].weight && told.is_empty(), "{bins:?} {told}");
        let (of_unknown, _, told) = make_of_heat(Lookups::default());
        assert!(of_unknown == bins && told.contains("no lookup counts"), "{of_unknown:?} {told}");
    }

    #[test]
    fn what_no_scan_explains_is_refused() {
        let by_ctid = relation(1, RelationKind::Table, 5 * TRANSACTIONS, 0, RowCounts::default());
        let refused = make(vec![by_ctid.clone()]).unwrap_err();
        assert_eq!(refused, Error::UnknownAccess { relation: "public.r1".into(), blocks: 5.0 });
        let rows = RowCounts { inserted: TRANSACTIONS, ..RowCounts::default() };
        assert!(make(vec![RelationActivity { rows, ..by_ctid }]).is_ok());
    }
}

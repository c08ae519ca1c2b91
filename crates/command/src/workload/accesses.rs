//! How a transaction asks for the blocks of a relation, by what the server has counted of its scans and rows.

use model::Error;
use postgres::{Activity, RelationActivity};

/// Readings of a whole table that are rarer in a transaction are those of some other job.
const FEWEST_SCANS: f64 = 0.01;

/// Rows that lie side by side take so much more blocks than they fill at most.
const NEIGHBOURS: f64 = 1.25;

/// A table that is small is warm at once, however it is asked for.
pub const SMALL_BLOCKS: u64 = 32;

/// More blocks of a transaction that no scan explains, and a larger part of a table's, are refused.
const UNEXPLAINED_BLOCKS: f64 = 0.5;
const UNEXPLAINED_SHARE: f64 = 0.6;

/// To change a row up to so many blocks are asked for: its own again, those of the visibility map and of the map of free space, and the
/// one where its new version goes.
const WRITE_BLOCKS: f64 = 8.0;

/// Longer ranges are worth a word on their direction.
const SHORTEST_RANGE: f64 = 1.2;

/// More descents of an index in one transaction may be a join's, one after the other to neighbours.
const MANY_DESCENTS: f64 = 8.0;

/// What a transaction asks for of a relation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accesses {
    /// Blocks, and times that it begins anew: what follows are neighbours.
    pub blocks: f64,
    pub begins: f64,
    /// Blocks of an index above its leaves.
    pub inner: f64,
    /// What is taken for granted.
    pub assumptions: Vec<String>,
}

impl Accesses {
    fn add(&mut self, blocks: f64, begins: f64) {
        self.blocks += blocks;
        self.begins += begins;
    }

    /// What is asked for again: so often, and so many blocks after the first of each.
    fn take_back(&mut self, begins: f64, more_blocks: f64) {
        self.begins = (self.begins - begins).max(0.0);
        self.blocks = (self.blocks - begins - more_blocks).max(self.begins);
    }

    /// Blocks of a range on average.
    pub fn run_blocks(&self) -> f64 {
        if self.begins > 0.0 { (self.blocks / self.begins).max(1.0) } else { 1.0 }
    }
}

/// What was counted, for a transaction.
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

    /// Rows that a transaction looks up again, of a table, and scans of indexes that do so: those that it changes are taken for
    /// those that it has read.
    fn repeated(&self, table: &RelationActivity) -> (f64, f64) {
        let fetching = || self.indexes(table).filter(|index| index.rows.fetched > 0);
        let rows = self.per(fetching().map(|index| index.rows.fetched).sum::<u64>() + table.rows.fetched);
        let scans = self.per(fetching().map(|index| index.scans).sum());
        let again = self.per(table.rows.changed).min((rows - self.per(table.rows.changed)).max(0.0));
        (again, again.min(scans / 2.0))
    }

    /// Of a table.
    ///
    /// # Errors
    /// When most of what was asked for was asked for in no way that is counted.
    pub fn of_table(&self, table: &RelationActivity, name: &str) -> Result<Accesses, Error> {
        let mut accesses = Accesses::default();
        let scanned = self.add_scans(table, name, &mut accesses);
        let mut lookups: Vec<Lookups> = self.indexes(table).filter_map(|index| self.by_index(table, index)).collect();
        lookups.extend(self.by_bitmap(table));
        let looked: f64 = lookups.iter().map(|one| one.rows).sum();
        let left = (self.per(table.requests) - scanned).max(0.0);
        self.check_explained(table, name, left - looked)?;
        let left = left - WRITE_BLOCKS * self.per(table.rows.changed);
        // A row is in one block; what is more was asked for again.
        let least: f64 = lookups.iter().map(|one| one.least).sum();
        let more = ((left.min(looked) - least) / (looked - least).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        for one in &lookups {
            let blocks = one.least + more * (one.rows - one.least);
            accesses.add(blocks, one.begins_of(blocks));
            accesses.assumptions.extend(one.describe(name, blocks));
            let run = blocks / one.begins_of(blocks).max(f64::MIN_POSITIVE);
            if run > SHORTEST_RANGE {
                accesses.assumptions.push(format!(
                    "{name}: ranges are read forwards; backwards the kernel reads nothing ahead, and it takes longer"
                ));
            }
        }
        let (rows, scans) = self.repeated(table);
        if rows > 0.0 && table.blocks > SMALL_BLOCKS {
            accesses.take_back(scans, (rows - scans) / rows_of_a_block(table));
            accesses.assumptions.push(format!("{name}: rows that a transaction changes are those that it has read"));
        }
        Ok(accesses)
    }

    /// Of a table of which nothing else is known.
    pub fn as_points(&self, table: &RelationActivity, name: &str) -> Accesses {
        let mut accesses = Accesses::default();
        let scanned = self.add_scans(table, name, &mut accesses);
        let left = (self.per(table.requests) - scanned).max(0.0);
        if left > 0.0 {
            accesses.add(left, left);
            let told = "nobody was seen to look a row up; what was asked for is taken to lie anywhere";
            accesses.assumptions.push(format!("{name}: {told}"));
        }
        accesses
    }

    /// Rows of a table that entries of an index led to, one after the other.
    fn by_index(&self, table: &RelationActivity, index: &RelationActivity) -> Option<Lookups> {
        let (rows, scans) = (self.per(index.rows.fetched), self.per(index.scans));
        (rows > 0.0).then(|| Lookups::new(table, rows, scans.min(rows), false))
    }

    /// Rows of a table that bitmaps led to, in the order of the blocks.
    fn by_bitmap(&self, table: &RelationActivity) -> Option<Lookups> {
        let bitmaps = self.indexes(table).filter(|index| index.rows.fetched == 0 && index.rows.read > 0);
        let scans = self.per(bitmaps.map(|index| index.scans).sum());
        let rows = self.per(table.rows.fetched);
        (rows > 0.0).then(|| Lookups::new(table, rows, scans.min(rows), scans > 0.0))
    }

    /// Readings in the order of the blocks: those that belong to the workload. Returns the blocks of all of them.
    fn add_scans(&self, table: &RelationActivity, name: &str, accesses: &mut Accesses) -> f64 {
        let scans = self.per(table.scans);
        let read_share = |tuples: f64| (table.rows.read as f64 / (table.scans.max(1) as f64 * tuples)).min(1.0);
        let blocks = scans * table.blocks as f64 * table.tuples.map_or(1.0, read_share);
        let blocks = blocks.min(self.per(table.requests));
        if scans >= FEWEST_SCANS {
            accesses.add(blocks, scans);
        } else if blocks > UNEXPLAINED_BLOCKS {
            accesses.assumptions.push(format!(
                "{name}: read from end to end once in {:.0} transactions, by some other job that is left out",
                scans.recip()
            ));
        }
        blocks
    }

    fn check_explained(&self, table: &RelationActivity, name: &str, unexplained: f64) -> Result<(), Error> {
        let is_written = table.rows.inserted + table.rows.changed > 0;
        // Of an index that answers alone, a page of the visibility map for each descent.
        let descents: u64 = self.indexes(table).map(|index| index.scans).sum();
        let unexplained = unexplained - self.per(descents);
        let most = UNEXPLAINED_BLOCKS.max(UNEXPLAINED_SHARE * self.per(table.requests));
        if unexplained < most || is_written || table.blocks <= SMALL_BLOCKS {
            return Ok(());
        }
        Err(Error::UnknownAccess { relation: name.to_owned(), blocks: unexplained })
    }

    /// Of an index: its leaves.
    pub fn of_index(&self, index: &RelationActivity, name: &str) -> Accesses {
        let mut accesses = Accesses::default();
        let requests = self.per(index.requests);
        let scans = self.per(index.scans);
        let is_tree = matches!(index.access_method.as_str(), "" | "btree");
        if !is_tree {
            accesses.add(requests, requests);
            accesses.assumptions.push(format!("{name} ({}): its blocks are asked for anywhere", index.access_method));
            return accesses;
        }
        let entries = index.rows.read as f64 / index.scans.max(1) as f64;
        let on_a_leaf = rows_of_a_block(index);
        let leaves = (1.0 + (entries - 1.0).max(0.0) / on_a_leaf).min((requests / scans).max(1.0));
        accesses.add((scans * leaves).min(requests), scans.min(requests));
        accesses.inner = requests - accesses.blocks;
        // The index that leads to most rows is the one by which they are found again.
        let leads = |table: &RelationActivity| self.indexes(table).all(|one| one.rows.fetched <= index.rows.fetched);
        let table = self.activity.relations.iter().find(|one| Some(one.oid) == index.table);
        if let Some(table) = table.filter(|table| leads(table)) {
            let (rows, again) = self.repeated(table);
            accesses.take_back(again, (rows - again) / on_a_leaf);
        }
        if scans > MANY_DESCENTS && index.blocks > SMALL_BLOCKS {
            accesses.assumptions.push(format!(
                "{name}: its {scans:.0} descents in a transaction lead anywhere; where they follow each other, as a join's in the order of the table, it is warm sooner"
            ));
        }
        accesses
    }
}

/// Rows of a table, or entries of an index, that a block has; infinite where nobody has counted them.
fn rows_of_a_block(relation: &RelationActivity) -> f64 {
    relation.tuples.map_or(f64::INFINITY, |tuples| (tuples / relation.blocks as f64).max(1.0))
}

/// Rows that scans of an index led to, in a transaction.
#[derive(Clone, Copy, Debug)]
struct Lookups {
    rows: f64,
    scans: f64,
    /// Blocks that they are in where those of each scan lie side by side.
    least: f64,
    is_bitmap: bool,
}

impl Lookups {
    fn new(table: &RelationActivity, rows: f64, scans: f64, is_bitmap: bool) -> Lookups {
        let in_a_block = rows_of_a_block(table);
        // What is asked for by nothing that scans is asked for here and there.
        let least = if scans > 0.0 { scans + (rows - scans) / in_a_block } else { rows };
        Lookups { rows, scans, least, is_bitmap }
    }

    fn is_beside(&self, blocks: f64) -> bool {
        blocks <= NEIGHBOURS * self.least
    }

    /// How often so many blocks are begun anew.
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
                "{name}: {rows:.0} rows of a scan of an index are in {run:.0} blocks anywhere, for side by side they would be in {filled:.0}"
            ))
        } else {
            self.is_bitmap.then(|| format!("{name}: the {run:.0} blocks of a bitmap are read one by one"))
        }
    }
}

//! Reads the map of cached blocks: names from the catalogs or the data directory, the page cache from the relations'
//! files, and shared_buffers from pg_buffercache.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use futures_util::{StreamExt as _, stream};
use jiff::Timestamp;
use roaring::RoaringBitmap;

use super::files::{Files, Found};
use super::{
    Error, ForkMap, HeatSource, Lookups, Map, MapSource, RelationMap, Result, Snapshot, TierState, USAGE_COUNTS,
};
use host::failure::{ErrorKind, Explain, name_some};
use host::linux;
use host::linux::page_cache::PageCache;
use host::linux::threads::{count_processors, lock, map_on_threads};
use host::units::{Bytes, Fork, PageRange, counted};
use postgres::{
    BufferSet, DataDirectory, Database, ForkBlocks, PG_BUFFERCACHE, PartitionedTable, Relation, RelationKind,
    RelationPath, Server, ServerFacts, read_buffer_sets, read_fork_blocks, read_partitioned_tables, read_relations,
};

/// A tier is `Unknown` if privileges are missing. Skips relations that are dropped meanwhile.
///
/// # Errors
/// If no source can list the relations, or the server stops.
pub async fn read_map(inputs: MapInputs<'_>) -> Result<Map> {
    read_map_of(inputs, true).await
}

/// Like `read_map`, but reads shared_buffers only if `with_buffers`.
pub async fn read_map_of(inputs: MapInputs<'_>, with_buffers: bool) -> Result<Map> {
    let taken_at = Timestamp::now();
    let mut remarks = Vec::new();
    let os = probe(&inputs);
    let Listed { mut relations, partitioned } = match inputs.server {
        Some(server) => read_catalogs(server, &inputs, os != TierState::Measured, &mut remarks).await?,
        None => read_files(&inputs, &mut remarks)?,
    };
    if os == TierState::Measured {
        read_os_tier(&inputs, &mut relations, &mut remarks);
    }
    let buffers = match inputs.server {
        Some(server) if with_buffers => read_buffer_tier(server, &inputs, &mut relations).await?,
        Some(_) => TierState::Unknown { reason: "not requested".to_owned() },
        None => TierState::Unknown { reason: "there is no server connection".to_owned() },
    };
    let (relations, empty): (Vec<_>, Vec<_>) = relations.into_iter().partition(|one| !one.forks.is_empty());
    if inputs.server.is_none() && inputs.data_directory.is_some() {
        remarks.push(remark_names(&inputs, &relations));
    }
    if inputs.server.is_some_and(|server| server.facts.io_direct) {
        remarks.push(
            "the setting debug_io_direct includes \"data\": this server's reads bypass the OS page cache".to_owned(),
        );
    }
    let empty = empty.into_iter().map(|one| one.relation).collect();
    let (source, os_heat, lookups) = (read_source(&inputs), HeatSource::None, Lookups::default());
    Ok(Map { taken_at, source, os, buffers, os_heat, relations, empty, partitioned, lookups, remarks })
}

fn read_source(inputs: &MapInputs<'_>) -> MapSource {
    let mut source = MapSource::default();
    if let Some(directory) = inputs.data_directory {
        let DataDirectory { system_identifier, version_major, block_size, segment_blocks, .. } = *directory;
        let (version_num, data_directory) = (version_major * 10_000, Some(directory.path.clone()));
        source = MapSource { system_identifier, version_num, block_size, segment_blocks, data_directory, ..source };
    }
    if let Some(Server { facts, .. }) = inputs.server {
        let ServerFacts { system_identifier, version_num, block_size, segment_blocks, timeline, .. } = *facts;
        let lsn = facts.lsn.clone();
        source = MapSource { system_identifier, version_num, block_size, segment_blocks, lsn, timeline, ..source };
    }
    source
}

async fn read_buffer_tier(server: &Server, inputs: &MapInputs<'_>, relations: &mut [RelationMap]) -> Result<TierState> {
    let databases = inputs.databases.iter().filter(|database| database.allows_connections);
    let databases: Vec<String> = databases.map(|database| database.name.clone()).collect();
    let mut connection = match server.connect_with_extension(PG_BUFFERCACHE, &databases).await {
        Ok(connection) => connection,
        Err(error) => return unknown_for(error),
    };
    let index: HashMap<(u32, u32, u32), usize> =
        relations.iter().enumerate().map(|(place, one)| (key_of(&one.relation.path), place)).collect();
    let read = read_buffer_sets(&mut connection, |set| {
        if let Some(relation) = index.get(&set.relation).and_then(|place| relations.get_mut(*place)) {
            add_buffers(&mut relation.forks, &set);
        }
    });
    if let Err(error) = read.await {
        return unknown_for(error);
    }
    relations.iter_mut().flat_map(|relation| &mut relation.forks).for_each(tidy);
    Ok(TierState::Measured)
}

pub fn key_of(path: &RelationPath) -> (u32, u32, u32) {
    (path.tablespace_oid(), path.database_oid, path.relfilenumber)
}

/// The fork may have been created or extended since its size was read.
fn add_buffers(forks: &mut Vec<ForkMap>, set: &BufferSet) {
    let fork = find_fork(forks, set.fork);
    fork.blocks = set.blocks.last().map_or(0, |last| u64::from(*last) + 1).max(fork.blocks);
    fork.buffers[usize::from(set.usage_count).min(USAGE_COUNTS - 1)].extend(&set.blocks);
    if set.dirty {
        fork.dirty.extend(&set.blocks);
    }
}

/// Keeps a block that was seen twice only under its highest usage count.
fn tidy(fork: &mut ForkMap) {
    let mut higher = RoaringBitmap::new();
    for level in fork.buffers.iter_mut().rev() {
        *level -= &higher;
        higher |= &*level;
        level.optimize();
    }
    fork.dirty.optimize();
}

const CONNECTIONS: usize = 4;

/// Queries each database's relations, and their sizes if `with_sizes`. If a database cannot be queried, lists its
/// files, provided that the data directory is known.
async fn read_catalogs<'a>(
    server: &'a Server,
    inputs: &MapInputs<'a>,
    with_sizes: bool,
    remarks: &mut Vec<String>,
) -> Result<Listed> {
    let is_map = inputs.named.is_none();
    let ask =
        |database: &'a Database| async move { (database, read_database(server, database, with_sizes, is_map).await) };
    // Collects the futures first: in a spawned task, no closure may live across an await.
    let is_asked = |database: &&Database| database.allows_connections && inputs.asks(&database.name);
    let asked: Vec<_> = inputs.databases.iter().filter(is_asked).map(ask).collect();
    let answers: Vec<(&Database, Result<Listed, postgres::Error>)> =
        stream::iter(asked).buffered(CONNECTIONS).collect().await;

    let Listed { mut relations, mut partitioned } = Listed::default();
    let mut shared: HashSet<RelationPath> = HashSet::new();
    let mut closed: Vec<&Database> = inputs.databases.iter().filter(|database| !is_asked(database)).collect();
    let mut is_there = answers.iter().any(|(_, answer)| answer.is_ok());
    for (database, answer) in answers {
        match answer {
            // Every database lists the shared catalogs; only the first list counts.
            Ok(found) => {
                partitioned.extend(found.partitioned);
                relations.extend(found.relations.into_iter().filter(|found| {
                    let path = &found.relation.path;
                    !path.is_global() || shared.insert(path.clone())
                }));
            }
            // An error of one database does not stop the others.
            Err(error)
                if error.is_about_database()
                    || is_there
                    || (database.name != server.database && server.is_there().await) =>
            {
                is_there |= !error.is_about_database();
                let told = error.with_hint();
                remarks.push(format!("the relations of database \"{}\" appear without names: {told}", database.name));
                closed.push(database);
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(directory) = inputs.data_directory
        && !closed.is_empty()
    {
        relations.extend(scan(directory, &closed, false, remarks)?);
    }
    Ok(Listed { relations, partitioned })
}

async fn read_database(
    server: &Server,
    database: &Database,
    with_sizes: bool,
    with_partitioned: bool,
) -> Result<Listed, postgres::Error> {
    let mut connection = server.connect_to(&database.name).await?;
    let relations = read_relations(&mut connection, database, true).await?;
    let partitioned = match with_partitioned {
        true => read_partitioned_tables(&mut connection, database).await?,
        false => Vec::new(),
    };
    if !with_sizes {
        if database.name == server.database {
            server.give_back(connection);
        }
        return Ok(Listed { relations: relations.into_iter().map(RelationMap::unread).collect(), partitioned });
    }
    let oids: Vec<u32> = relations.iter().map(|relation| relation.oid).collect();
    let sizes = read_fork_blocks(&mut connection, &oids).await?;
    Ok(Listed { relations: join_sizes(relations, &sizes), partitioned })
}

fn join_sizes(relations: Vec<Relation>, sizes: &[ForkBlocks]) -> Vec<RelationMap> {
    let mut forks: HashMap<u32, Vec<ForkMap>> = HashMap::new();
    for size in sizes {
        find_fork(forks.entry(size.relation_oid).or_default(), size.fork).blocks = size.blocks;
    }
    let mut forks_of = |relation: &Relation| forks.remove(&relation.oid).unwrap_or_default();
    relations.into_iter().map(|relation| RelationMap { forks: forks_of(&relation), relation }).collect()
}

/// PostgreSQL's FirstNormalObjectId: initdb's relations have smaller numbers.
const FIRST_NORMAL_OID: u32 = 16_384;

fn read_files(inputs: &MapInputs<'_>, remarks: &mut Vec<String>) -> Result<Listed> {
    let Some(directory) = inputs.data_directory else { return Ok(Listed::default()) };
    let databases: Vec<&Database> = inputs.databases.iter().collect();
    let relations = scan(directory, &databases, true, remarks)?;
    let Some(snapshot) = inputs.names else { return Ok(Listed { relations, ..Listed::default() }) };
    Ok(Listed { relations: name(relations, snapshot), partitioned: snapshot.map.partitioned.clone() })
}

fn remark_names(inputs: &MapInputs<'_>, relations: &[RelationMap]) -> String {
    let Some(snapshot) = inputs.names else {
        return "the catalogs cannot be read, so relations appear as files; a snapshot of this cluster would provide their names"
            .to_owned();
    };
    let block_size = inputs.data_directory.map_or(0, |directory| directory.block_size);
    let unnamed = relations.iter().filter(|one| one.relation.kind == RelationKind::Unknown);
    let (files, blocks) = unnamed.fold((0, 0), |(files, blocks), one| (files + 1, blocks + one.blocks()));
    let (named, total) = (relations.len() - files, relations.len());
    let rest = match files {
        0 => String::new(),
        1 => format!("; the other relation ({}) appears under its file name", Bytes(blocks * u64::from(block_size))),
        _ => format!("; the other {files} ({}) appear under their file names", Bytes(blocks * u64::from(block_size))),
    };
    let taken_at = snapshot.map.taken_at.strftime("%Y-%m-%d %H:%M:%S UTC");
    format!(
        "the catalogs cannot be read: names are from the snapshot of {taken_at}, which has {named} of {total} relations{rest}"
    )
}

fn scan(
    directory: &DataDirectory,
    databases: &[&Database],
    with_shared: bool,
    remarks: &mut Vec<String>,
) -> Result<Vec<RelationMap>> {
    let mut refused = Vec::new();
    let found = directory.scan(&mut refused)?;
    if let Some(first) = refused.first() {
        let hint = first.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        remarks.push(format!("skipped the relations in inaccessible directories: {}{hint}", name_some(&refused)));
    }
    let list = |mut relation: Relation| {
        match databases.iter().find(|database| database.oid == relation.path.database_oid) {
            Some(database) => relation.name.database.clone_from(&database.name),
            None if with_shared && relation.path.is_global() => {}
            None => return None,
        }
        relation.is_system |= relation.path.relfilenumber < FIRST_NORMAL_OID;
        Some(RelationMap::unread(relation))
    };
    Ok(found.into_iter().filter_map(list).collect())
}

/// Takes names from the snapshot, because a file with the same path is the same relation.
fn name(relations: Vec<RelationMap>, snapshot: &Snapshot) -> Vec<RelationMap> {
    let known: HashMap<&RelationPath, &Relation> =
        snapshot.map.every_relation().map(|known| (&known.path, known)).collect();
    let name = |found: RelationMap| match known.get(&found.relation.path) {
        Some(known) => RelationMap::unread((*known).clone()),
        None => found,
    };
    relations.into_iter().map(name).collect()
}

/// At least one of `server` and `data_directory` is set.
#[derive(Clone, Copy)]
pub struct MapInputs<'a> {
    pub server: Option<&'a Server>,
    pub data_directory: Option<&'a DataDirectory>,
    pub page_cache: &'a dyn PageCache,
    /// The shared catalogs are always read.
    pub databases: &'a [Database],
    /// Names of the databases to query; for others, only files are listed. `None` queries all, and also lists
    /// partitioned tables.
    pub named: Option<&'a [String]>,
    /// Source of relation names without a server.
    pub names: Option<&'a Snapshot>,
    /// Called with the number of relations read so far, and their total.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
}

impl<'a> MapInputs<'a> {
    pub fn of(page_cache: &'a dyn PageCache, databases: &'a [Database]) -> MapInputs<'a> {
        let (server, data_directory, named, names) = Default::default();
        MapInputs { server, data_directory, page_cache, databases, named, names, progress: &|_, _| () }
    }

    pub fn asks(&self, database: &str) -> bool {
        self.named.is_none_or(|named| named.iter().any(|name| name == database))
    }
}

host::debug_by!(MapInputs<'_>: databases);

#[derive(Debug, Default)]
struct Listed {
    pub relations: Vec<RelationMap>,
    pub partitioned: Vec<PartitionedTable>,
}

fn unknown_for<E: Explain + Into<Error>>(error: E) -> Result<TierState> {
    if error.kind() != ErrorKind::Privilege {
        return Err(error.into());
    }
    let hint = error.hint().map(|hint| format!(": {hint}")).unwrap_or_default();
    Ok(TierState::Unknown { reason: format!("{error}{hint}") })
}

/// Locks in the kernel make more threads useless.
const THREADS_MAX: usize = 8;

/// Tests on PG_VERSION, a small file of the same owner, whether cached pages of the cluster's files are visible.
fn probe(inputs: &MapInputs<'_>) -> TierState {
    let Some(directory) = inputs.data_directory else {
        return TierState::Unknown {
            reason: "the data directory is not on this host, or pgthaw cannot find or open it".to_owned(),
        };
    };
    let look = || -> linux::Result<()> {
        if let Some(file) = inputs.page_cache.open(&directory.path.join("PG_VERSION"))? {
            file.read_resident(PageRange::new(0, 1))?;
        }
        Ok(())
    };
    let seen = look().map(|()| TierState::Measured).or_else(unknown_for);
    seen.unwrap_or_else(|error| TierState::Unknown { reason: error.to_string() })
}

/// Maximum number of a fork's segment files read per round. The first one that is not full is the fork's last.
const SEGMENTS_AT_ONCE: usize = 64;

/// An unreadable segment file counts as not cached, and as full if a later one exists.
fn read_os_tier(inputs: &MapInputs<'_>, relations: &mut [RelationMap], remarks: &mut Vec<String>) {
    let Some(directory) = inputs.data_directory else { return };
    let files = Files::of(inputs.page_cache, directory);
    let threads = count_processors().min(THREADS_MAX);
    let failures: Mutex<Vec<linux::Error>> = Mutex::default();
    let mut forks = find_forks(directory, relations);
    let (mut first, mut at_once) = (0, 1);
    while !forks.is_empty() {
        let found = map_on_threads(forks.len() * at_once, threads, |at| {
            let ((relation, fork), segment) = (forks[at / at_once], first + at % at_once);
            if (fork, segment) == (Fork::Main, 0) {
                (inputs.progress)(relation, relations.len());
            }
            let path = &relations[relation].relation.path;
            files.read_segment(path, fork, segment as u32, u64::MAX).map_err(|error| {
                // Segment `u32::MAX` never exists: `open` then returns an error only if the directory is inaccessible.
                let is_of_file = files.open(path, fork, u32::MAX).is_ok();
                if is_of_file || fork == Fork::Main {
                    lock(&failures).push(error);
                }
                is_of_file
            })
        });
        let mut found = found.into_iter();
        forks.retain(|(relation, fork)| {
            let mut goes_on = true;
            for (segment, found) in (first as u64..).zip(found.by_ref().take(at_once)) {
                match found {
                    _ if !goes_on => {}
                    Ok(found) => {
                        let found = found.unwrap_or_default();
                        goes_on = found.blocks == u64::from(directory.segment_blocks);
                        let before = segment * u64::from(directory.segment_blocks);
                        add_segment(&mut relations[*relation].forks, *fork, before, found);
                    }
                    Err(is_of_file) => goes_on = is_of_file,
                }
            }
            goes_on
        });
        (first, at_once) = (first + at_once, SEGMENTS_AT_ONCE);
    }
    remark_failures(failures.into_inner().unwrap_or_else(PoisonError::into_inner), remarks);
}

/// Finds existing forks in directory listings, because most possible forks do not exist. If a listing fails, keeps all
/// possible forks.
fn find_forks(directory: &DataDirectory, relations: &[RelationMap]) -> Vec<(usize, Fork)> {
    let mut lists: HashMap<PathBuf, Option<HashSet<OsString>>> = HashMap::new();
    let all = (0..relations.len()).flat_map(|at| Fork::ALL.map(|fork| (at, fork)));
    all.filter(|(at, fork)| {
        let file = relations[*at].relation.path.segment_file(Path::new(""), *fork, 0);
        let (Some(parent), Some(name)) = (file.parent(), file.file_name()) else { return true };
        if !lists.contains_key(parent) {
            let list = directory.files.directory(parent).and_then(|parent| parent.entries());
            let names = list.map(|list| list.into_iter().map(|entry| entry.name).collect());
            lists.insert(parent.to_owned(), names.ok());
        }
        lists[parent].as_ref().is_none_or(|names| names.contains(name))
    })
    .collect()
}

const REMARKED: usize = 5;

fn remark_failures(failures: Vec<linux::Error>, remarks: &mut Vec<String>) {
    let mut by_directory: BTreeMap<PathBuf, Vec<linux::Error>> = BTreeMap::new();
    for failure in failures {
        by_directory.entry(failure.directory().to_owned()).or_default().push(failure);
    }
    for failures in by_directory.values().take(REMARKED) {
        let files = counted(failures.len(), "file");
        remarks.push(format!("{files} could not be inspected: {}", failures[0].with_hint()));
    }
    let rest: usize = by_directory.values().skip(REMARKED).map(Vec::len).sum();
    remarks.extend(
        (rest > 0).then(|| format!("{} in other directories could not be inspected either", counted(rest, "file"))),
    );
}

fn add_segment(forks: &mut Vec<ForkMap>, fork: Fork, before: u64, segment: Found) {
    if segment.blocks == 0 {
        return;
    }
    let fork = find_fork(forks, fork);
    fork.blocks = before + segment.blocks;
    fork.os |= segment.resident;
}

fn find_fork(forks: &mut Vec<ForkMap>, fork: Fork) -> &mut ForkMap {
    let place = forks.binary_search_by_key(&fork, |one| one.fork).unwrap_or_else(|place| {
        // By default a vector reserves room for four forks, which wastes 70 MB with 100,000 relations.
        forks.reserve_exact(1);
        forks.insert(place, ForkMap::empty(fork, 0));
        place
    });
    &mut forks[place]
}

#[cfg(test)]
mod buffers_tests {
    use super::*;
    use host::units::Fork;

    fn buffer(fork: Fork, block: u32, usage_count: u8) -> BufferSet {
        let dirty = block.is_multiple_of(2);
        BufferSet { relation: (1663, 5, 16_384), fork, usage_count, dirty, blocks: vec![block] }
    }

    #[test]
    fn a_relation_that_grows_meanwhile_is_as_large_as_its_last_buffer() {
        let mut forks = vec![ForkMap::empty(Fork::Main, 4), ForkMap::empty(Fork::Vm, 1)];
        for (fork, block) in [(Fork::Main, 3), (Fork::Main, 9), (Fork::Fsm, 2)] {
            add_buffers(&mut forks, &buffer(fork, block, 1));
        }
        let sizes: Vec<(Fork, u64)> = forks.iter().map(|fork| (fork.fork, fork.blocks)).collect();
        assert_eq!(sizes, [(Fork::Main, 10), (Fork::Fsm, 3), (Fork::Vm, 1)]);
        assert_eq!(forks[1].dirty.iter().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_block_seen_twice_counts_once() {
        let mut forks = vec![ForkMap::empty(Fork::Main, 10)];
        for usage_count in [1, 5, 3] {
            add_buffers(&mut forks, &buffer(Fork::Main, 7, usage_count));
        }
        tidy(&mut forks[0]);
        let counts: Vec<u64> = forks[0].buffers.iter().map(RoaringBitmap::len).collect();
        assert_eq!(counts, [0, 0, 0, 0, 0, 1]);
    }
}

#[cfg(test)]
mod files_tests {
    use super::*;
    use crate::ForkMap;
    use crate::fixtures::{map_of, relation};
    use host::units::Fork;

    #[test]
    fn a_snapshot_lends_its_names_to_the_same_files() {
        let known = relation(16_390, ForkMap::empty(Fork::Main, 1));
        let snapshot = Snapshot::new(map_of(vec![known.clone()]), None);
        let mut unnamed = [known.clone(), known.clone()].map(|one| RelationMap::unread(one.relation));
        unnamed.iter_mut().for_each(|one| one.relation.name.name = one.relation.path.to_string());
        unnamed[1].relation.path = RelationPath::base(5, 16_391);
        let named = name(unnamed.to_vec(), &snapshot);
        assert_eq!(named[0].relation, known.relation);
        assert_eq!(named[1], unnamed[1]);
    }
}

#[cfg(test)]
mod os_tests {
    use super::*;
    use crate::fixtures::relation;
    use host::linux::page_cache::{FakePageCache, FakeRefusal};
    use postgres::DataDirectory;

    const SEGMENT_BLOCKS: u64 = 100;
    const BLOCK: u64 = 8192;

    fn directory() -> DataDirectory {
        DataDirectory {
            block_size: BLOCK as u32,
            segment_blocks: SEGMENT_BLOCKS as u32,
            ..DataDirectory::pretend("/data")
        }
    }

    fn inputs<'a>(cache: &'a FakePageCache, directory: &'a DataDirectory) -> MapInputs<'a> {
        MapInputs {
            server: None,
            data_directory: Some(directory),
            page_cache: cache,
            databases: &[],
            named: None,
            names: None,
            progress: &|_, _| (),
        }
    }

    fn look(cache: &FakePageCache, relations: u32) -> (Vec<RelationMap>, Vec<String>) {
        let unread = |number| RelationMap { forks: Vec::new(), ..relation(number, ForkMap::empty(Fork::Main, 1)) };
        let mut relations: Vec<RelationMap> = (1..=relations).map(unread).collect();
        let mut remarks = Vec::new();
        read_os_tier(&inputs(cache, &directory()), &mut relations, &mut remarks);
        (relations, remarks)
    }

    fn blocks(fork: &ForkMap) -> Vec<u32> {
        fork.os.iter().collect()
    }

    #[test]
    fn a_block_is_resident_when_all_of_its_pages_are() {
        let cache = FakePageCache::new();
        let pages = [PageRange::new(1, 4), PageRange::new(6, 9), PageRange::new(11, 12), PageRange::new(18, 20)];
        cache.insert("/data/base/5/1", 10 * BLOCK, &pages);
        let (relations, remarks) = look(&cache, 1);
        assert_eq!(blocks(&relations[0].forks[0]), [1, 3, 9]);
        assert_eq!(remarks, Vec::<String>::new());
    }

    #[test]
    fn forks_and_segments_belong_together() {
        let cache = FakePageCache::new();
        let segment = SEGMENT_BLOCKS * BLOCK;
        let first = [PageRange::new(0, 2)];
        cache.insert("/data/base/5/1", segment, &first);
        cache.insert("/data/base/5/1.1", segment, &[PageRange::new(0, 200)]);
        cache.insert("/data/base/5/1.2", 5 * BLOCK, &[PageRange::new(8, 10)]);
        cache.insert("/data/base/5/1.3", 5 * BLOCK, &first);
        cache.insert("/data/base/5/1_vm", BLOCK, &first);
        cache.insert("/data/base/5/1_init", 0, &[]);
        cache.insert("/data/base/5/3", segment, &[]);
        let (relations, _) = look(&cache, 3);
        let forks: Vec<(Fork, u64)> = relations[0].forks.iter().map(|fork| (fork.fork, fork.blocks)).collect();
        assert_eq!(forks, [(Fork::Main, 205), (Fork::Vm, 1)], "a segment after a short one is not part of the fork");
        assert_eq!(blocks(&relations[0].forks[0]), [vec![0], (100..200).collect(), vec![204]].concat());
        assert!(relations[1].forks.is_empty(), "a relation dropped meanwhile has no forks");
        assert_eq!(relations[2].forks[0].blocks, SEGMENT_BLOCKS);
    }

    #[test]
    fn a_segment_that_cannot_be_looked_at_ends_no_fork() {
        let segment = SEGMENT_BLOCKS * BLOCK;
        for (refused, blocks_found, resident) in [("1", 205, 105), ("1.1", 205, 105), ("1.2", 200, 200)] {
            let cache = FakePageCache::new();
            for (file, size) in [("1", segment), ("1.1", segment), ("1.2", 5 * BLOCK)] {
                cache.insert(format!("/data/base/5/{file}"), size, &[PageRange::new(0, size / 4096)]);
            }
            cache.refuse(&Path::new("/data/base/5").join(refused), FakeRefusal::Open);
            let (relations, remarks) = look(&cache, 1);
            let fork = &relations[0].forks[0];
            assert_eq!((fork.blocks, fork.os.len()), (blocks_found, resident), "{refused}");
            assert!(remarks[0].starts_with("1 file could not be inspected"), "{remarks:?}");
        }
    }

    #[test]
    fn a_full_or_empty_file_is_only_counted() {
        let cache = FakePageCache::new();
        cache.insert("/data/base/5/1", 50 * BLOCK, &[PageRange::new(0, 100)]);
        cache.insert("/data/base/5/2", 50 * BLOCK, &[]);
        let (relations, _) = look(&cache, 2);
        assert_eq!(relations[0].forks[0].os.len(), 50);
        assert_eq!((cache.calls().counts, cache.calls().lists), (2, 0));
    }

    #[test]
    fn a_file_that_cannot_be_looked_at_is_remarked_on() {
        let cache = FakePageCache::new();
        for number in 1..=3 {
            cache.insert(format!("/data/base/5/{number}"), 50 * BLOCK, &[PageRange::new(0, 100)]);
        }
        cache.refuse(Path::new("/data/base/5/2"), FakeRefusal::Residency);
        let (relations, remarks) = look(&cache, 3);
        let resident: Vec<u64> = relations.iter().map(|one| one.forks.iter().map(|fork| fork.os.len()).sum()).collect();
        assert_eq!(resident, [50, 0, 50]);
        assert!(remarks[0].starts_with("1 file could not be inspected"), "{remarks:?}");
    }

    #[test]
    fn who_may_not_see_the_cache_is_told_so() {
        let cache = FakePageCache::new();
        let directory = directory();
        cache.insert("/data/PG_VERSION", 3, &[]);
        assert_eq!(probe(&inputs(&cache, &directory)), TierState::Measured);
        cache.refuse(Path::new("/data/PG_VERSION"), FakeRefusal::Residency);
        let TierState::Unknown { reason } = probe(&inputs(&cache, &directory)) else { panic!("it was measured") };
        assert!(reason.contains("run pgthaw as the owner"), "{reason}");
        let blind = MapInputs { data_directory: None, ..inputs(&cache, &directory) };
        assert!(matches!(probe(&blind), TierState::Unknown { .. }));
    }
}

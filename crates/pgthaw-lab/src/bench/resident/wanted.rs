//! What a snapshot asks for: pages of files in the page cache, and blocks in shared_buffers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use roaring::RoaringBitmap;
use sqlx::postgres::PgConnection;

use crate::lab::Error;
use cache::{ForkMap, Map};
use host::linux::page_cache::{CachedFile, PageCache, SystemPageCache};
use host::linux::threads::on_threads;
use host::units::{Bytes, Fork, PageRange};
use postgres::{Buffer, read_buffers};

/// The wanted pages of one segment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedFile {
    pub path: PathBuf,
    /// In order, with gaps between them.
    pub runs: Vec<PageRange>,
}

/// What a snapshot asks both tiers for.
#[derive(Debug, Default)]
pub struct Wanted {
    pub files: Vec<WantedFile>,
    pub former: FormerBuffers,
    pub page_bytes: u64,
    /// Of the server's blocks.
    pub block_bytes: u64,
}

impl Wanted {
    /// What `map` has, in the files below `data_directory`.
    pub fn of(map: &Map, data_directory: &Path, page_bytes: u64) -> Wanted {
        Wanted {
            files: find_wanted(map, data_directory, page_bytes),
            former: FormerBuffers::of(map),
            page_bytes,
            block_bytes: map.source.block_size.into(),
        }
    }

    /// Of the page cache.
    pub fn pages(&self) -> u64 {
        self.files.iter().flat_map(|file| &file.runs).map(|run| run.pages()).sum()
    }

    /// How many runs of pages with gaps between them.
    pub fn pieces(&self) -> u64 {
        self.files.iter().map(|file| file.runs.len() as u64).sum()
    }

    /// Of the page cache.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.pages() * self.page_bytes)
    }
}

/// The pages of `map`'s OS tier, by segment file below `data_directory`.
fn find_wanted(map: &Map, data_directory: &Path, page_bytes: u64) -> Vec<WantedFile> {
    let block_size = u64::from(map.source.block_size);
    let segment_blocks = u64::from(map.source.segment_blocks);
    let mut files: Vec<WantedFile> = Vec::new();
    // Shared catalogs lie beside the databases: whoever loads the database's directory does not load them.
    for (relation, fork) in map.forks().filter(|(relation, _)| relation.path.database_oid() != 0) {
        for (segment, start, end) in block_runs(fork, segment_blocks) {
            let path = relation.path.segment_file(data_directory, fork.fork, segment);
            let pages = PageRange::new(start * block_size / page_bytes, (end * block_size).div_ceil(page_bytes));
            match files.last_mut().filter(|last| last.path == path) {
                Some(last) => append(&mut last.runs, pages),
                None => files.push(WantedFile { path, runs: vec![pages] }),
            }
        }
    }
    files
}

/// The resident runs of a fork, cut at the ends of segments: segment, and first and last block + 1 within it.
fn block_runs(fork: &ForkMap, segment_blocks: u64) -> Vec<(u32, u64, u64)> {
    let mut pieces = Vec::new();
    let mut runs = fork.os.iter();
    while let Some(run) = runs.next_range() {
        let (mut start, end) = (u64::from(*run.start()), u64::from(*run.end()) + 1);
        while start < end {
            let segment = start / segment_blocks;
            let first = segment * segment_blocks;
            let stop = end.min(first + segment_blocks);
            pieces.push((segment as u32, start - first, stop - first));
            start = stop;
        }
    }
    pieces
}

/// Where a page holds several blocks, neighbours share one.
fn append(runs: &mut Vec<PageRange>, next: PageRange) {
    match runs.last_mut() {
        Some(last) if next.start <= last.end => last.end = last.end.max(next.end),
        _ => runs.push(next),
    }
}

/// A longer range is read in pieces, as large as those of a restore.
const LARGEST_READ: u64 = 256 << 10;

/// As many as a restore has.
const THREADS: usize = 16;

/// A list of ranges as text: a line with the first byte, the number of bytes and the file.
pub fn write_list(path: &Path, wanted: &Wanted) -> Result<(), Error> {
    let page_bytes = wanted.page_bytes;
    let line = |file: &WantedFile, start: u64, end: u64| {
        format!("{} {} {}\n", start * page_bytes, (end - start) * page_bytes, file.path.display())
    };
    let lines: String =
        wanted.files.iter().flat_map(|file| file.runs.iter().map(|run| line(file, run.start, run.end))).collect();
    std::fs::write(path, lines).map_err(|source| Error::file("write", path, source))
}

/// Reads the ranges of a list with several threads, each taking the next one.
pub fn apply_read_ranges(list: &Path) -> Result<(), Error> {
    let text = std::fs::read_to_string(list).map_err(|source| Error::file("read", list, source))?;
    let damaged = || Error::file("read", list, std::io::ErrorKind::InvalidData.into());
    let cache = SystemPageCache::new();
    let mut files: Vec<(PathBuf, Box<dyn CachedFile>)> = Vec::new();
    let mut reads = Vec::new();
    for line in text.lines() {
        let (start, bytes, path) = parse_line(line).ok_or_else(damaged)?;
        if files.last().is_none_or(|(last, _)| *last != path) {
            let file =
                cache.open(&path)?.ok_or_else(|| Error::file("open", &path, std::io::ErrorKind::NotFound.into()))?;
            files.push((path, file));
        }
        let pieces = (start..start + bytes).step_by(LARGEST_READ as usize);
        reads.extend(pieces.map(|from| (files.len() - 1, from, LARGEST_READ.min(start + bytes - from))));
    }
    let next = AtomicUsize::new(0);
    let work = |_| {
        let mut buffer = vec![0; LARGEST_READ as usize];
        while let Some((file, start, bytes)) = reads.get(next.fetch_add(1, Ordering::Relaxed)) {
            files[*file].1.apply_read(*start, &mut buffer[..*bytes as usize])?;
        }
        Ok(())
    };
    let mut ended = on_threads(THREADS, work).into_iter();
    ended.try_for_each(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn parse_line(line: &str) -> Option<(u64, u64, PathBuf)> {
    let mut words = line.splitn(3, ' ');
    let mut number = || words.next()?.parse().ok();
    let (start, bytes) = (number()?, number()?);
    Some((start, bytes, words.next()?.into()))
}

/// A buffer that had this usage count or a greater one is hot, and is back when it has it again.
pub const HOT_USAGE_COUNT: u8 = 3;

/// This share of the former buffers, and of the hot ones as hot as that, counts as "back".
pub const BACK_SHARE: f64 = 0.9;

/// Whose a buffer is: tablespace, database, relfilenumber, fork.
type Key = (u32, u32, u32, Fork);

/// What was in shared_buffers.
#[derive(Clone, Debug, Default)]
pub struct FormerBuffers {
    all: HashMap<Key, RoaringBitmap>,
    hot: HashMap<Key, RoaringBitmap>,
    pub blocks: u64,
    pub hot_blocks: u64,
}

/// What of it is there now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuffersLook {
    pub blocks: u64,
    /// Of the hot ones, those with a usage count of at least [`HOT_USAGE_COUNT`].
    pub hot_blocks: u64,
}

impl FormerBuffers {
    /// As the snapshot has it.
    pub fn of(map: &Map) -> FormerBuffers {
        let mut former = FormerBuffers::default();
        for (relation, fork) in map.forks() {
            let path = &relation.path;
            let key = (path.tablespace_oid(), path.database_oid(), path.relfilenumber(), fork.fork);
            let hot =
                fork.buffers[usize::from(HOT_USAGE_COUNT)..].iter().fold(RoaringBitmap::new(), |all, one| all | one);
            let all = fork.all_buffers();
            former.blocks += all.len();
            former.hot_blocks += hot.len();
            former.all.insert(key, all);
            former.hot.insert(key, hot);
        }
        former
    }

    /// Looks at all buffers.
    pub async fn look(&self, connection: &mut PgConnection) -> Result<BuffersLook, Error> {
        let mut look = BuffersLook::default();
        read_buffers(connection, |buffer| look.count(self, buffer)).await?;
        Ok(look)
    }

    /// Is enough of it back?
    pub fn is_back(&self, look: BuffersLook) -> bool {
        let is_most = |now: u64, former: u64| now as f64 >= BACK_SHARE * former as f64;
        is_most(look.blocks, self.blocks) && is_most(look.hot_blocks, self.hot_blocks)
    }
}

impl BuffersLook {
    fn count(&mut self, former: &FormerBuffers, buffer: Buffer) {
        let key = (buffer.tablespace_oid, buffer.database_oid, buffer.relfilenumber, buffer.fork);
        let has =
            |blocks: &HashMap<Key, RoaringBitmap>| blocks.get(&key).is_some_and(|known| known.contains(buffer.block));
        self.blocks += u64::from(has(&former.all));
        self.hot_blocks += u64::from(buffer.usage_count >= HOT_USAGE_COUNT && has(&former.hot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::linux::page_cache::read_resident_pages;
    use host::units::{Fork, PageRange};

    #[test]
    fn runs_are_cut_at_segments() {
        let mut fork = ForkMap::empty(Fork::Main, 30);
        fork.os.insert_range(3..5);
        fork.os.insert_range(8..21);
        assert_eq!(block_runs(&fork, 10), [(0, 3, 5), (0, 8, 10), (1, 0, 10), (2, 0, 1)]);
    }

    #[test]
    fn neighbours_on_one_page_are_one_run() {
        let mut runs = vec![PageRange::new(0, 1)];
        append(&mut runs, PageRange::new(0, 2));
        append(&mut runs, PageRange::new(3, 4));
        assert_eq!(runs, [PageRange::new(0, 2), PageRange::new(3, 4)]);
    }

    #[test]
    fn reads_what_the_list_says_and_nothing_else() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let (path, list) = (directory.path().join("a file"), directory.path().join("list"));
        std::fs::write(&path, vec![7; 4096 * 300]).unwrap();
        let cache = SystemPageCache::new();
        let open = || cache.open(&path).unwrap().unwrap();
        open().apply_evict().unwrap();
        let runs = vec![PageRange::new(3, 5), PageRange::new(100, 230)];
        let files = vec![WantedFile { path: path.clone(), runs: runs.clone() }];
        write_list(&list, &Wanted { files, page_bytes: 4096, ..Wanted::default() }).unwrap();
        apply_read_ranges(&list).unwrap();
        assert_eq!(read_resident_pages(&*open(), 4096).unwrap(), runs);
        assert!(apply_read_ranges(&directory.path().join("none")).is_err());
        std::fs::write(&list, "3 many nothing\n").unwrap();
        assert!(apply_read_ranges(&list).is_err());
    }

    fn buffer(block: u32, usage_count: u8) -> Buffer {
        let fork = Fork::Main;
        Buffer { tablespace_oid: 1663, database_oid: 5, relfilenumber: 7, fork, block, usage_count, dirty: false }
    }

    #[test]
    fn what_was_hot_is_back_when_it_is_hot_again() {
        let key = (1663, 5, 7, Fork::Main);
        let blocks = |range: std::ops::Range<u32>| HashMap::from([(key, range.collect())]);
        let former = FormerBuffers { all: blocks(0..10), hot: blocks(0..2), blocks: 10, hot_blocks: 2 };
        let mut look = BuffersLook::default();
        for (block, usage_count) in [(0, 3), (1, 2), (2, 1), (50, 5)] {
            look.count(&former, buffer(block, usage_count));
        }
        assert_eq!(look, BuffersLook { blocks: 3, hot_blocks: 1 });
        assert!(!former.is_back(BuffersLook { blocks: 10, hot_blocks: 1 }));
        assert!(!former.is_back(BuffersLook { blocks: 8, hot_blocks: 2 }));
        assert!(former.is_back(BuffersLook { blocks: 9, hot_blocks: 2 }));
    }
}

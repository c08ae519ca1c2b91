//! What a snapshot asks for: pages of files in the page cache, and blocks in shared_buffers.

use std::path::{Path, PathBuf};

use super::buffers::FormerBuffers;
use crate::cache::{ForkMap, Map};
use crate::units::{Bytes, PageRange};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Fork;

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
}

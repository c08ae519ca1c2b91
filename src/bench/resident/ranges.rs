//! The loader that the plan has to beat: one read for every range that is wanted, in their order, nothing merged.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::wanted::{Wanted, WantedFile};
use crate::lab::Error;
use crate::linux::page_cache::{CachedFile, PageCache, SystemPageCache};
use crate::linux::threads::on_threads;

/// A longer range is read in pieces, as large as those of a restore.
const LARGEST_READ: u64 = 256 << 10;

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

/// Reads the ranges of a list with so many threads, each taking the next one.
pub fn apply_read_ranges(list: &Path, threads: usize) -> Result<(), Error> {
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
    let mut ended = on_threads(threads, work).into_iter();
    ended.try_for_each(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn parse_line(line: &str) -> Option<(u64, u64, PathBuf)> {
    let mut words = line.splitn(3, ' ');
    let mut number = || words.next()?.parse().ok();
    let (start, bytes) = (number()?, number()?);
    Some((start, bytes, words.next()?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::page_cache::read_resident_pages;
    use crate::units::PageRange;

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
        apply_read_ranges(&list, 4).unwrap();
        assert_eq!(read_resident_pages(&*open(), 4096).unwrap(), runs);
        assert!(apply_read_ranges(&directory.path().join("none"), 1).is_err());
        std::fs::write(&list, "3 many nothing\n").unwrap();
        assert!(apply_read_ranges(&list, 1).is_err());
    }
}

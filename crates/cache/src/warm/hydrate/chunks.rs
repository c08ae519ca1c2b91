//! Every file of a data directory in pieces, in the order in which they are wanted.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::path::Path;

use crate::warm::heat::{self, Evidence};
use crate::{ForkMap, Map};
use host::files::{EntryKind, Tree};
use host::linux::Error;
use host::units::Bytes;
use postgres::{DataDirectory, Relation};

/// Bytes of a chunk: what is done again when an interruption comes in its middle.
pub const CHUNK: u64 = 8 << 20;

/// A cluster of 256 TB. A file with holes may say that it has more than any disk, and each piece costs memory.
const CHUNKS_MAX: u64 = 1 << 25;

/// Pieces of files.
#[derive(Debug)]
pub struct Chunks {
    /// Paths below the data directory, and lengths.
    files: Vec<(String, u64)>,
    /// A file's number and the chunk's in it.
    order: Vec<(u32, u32)>,
    /// Directories that this user may not list, by their paths below the data directory.
    pub refused: Vec<(String, Error)>,
}

impl Chunks {
    /// Lists the directory. First what every start of the server needs, then what is hot in `hot`, the write-ahead log last.
    pub fn list(directory: &DataDirectory, hot: Option<&Map>) -> Result<Chunks, Error> {
        let mut found = Found::default();
        found.walk(&directory.files, "")?;
        let Found { mut files, refused } = found;
        files.sort();
        let heat = hot.map(|map| Heat::of(map, directory)).unwrap_or_default();
        let mut order: Vec<((u8, Reverse<i32>), u32, u32)> = Vec::new();
        let total: u64 = files.iter().map(|(_, length)| length.div_ceil(CHUNK)).fold(0, u64::saturating_add);
        if total > CHUNKS_MAX {
            let much = io::Error::other(format!(
                "its files have more than {}: some are empty but in name",
                Bytes(CHUNKS_MAX * CHUNK)
            ));
            return Err(Error::file("hydrate", directory.files.path(), much));
        }
        for (number, (path, length)) in files.iter().enumerate() {
            for chunk in 0..length.div_ceil(CHUNK) as u32 {
                order.push(((class_of(path), Reverse(heat.class(path, chunk))), number as u32, chunk));
            }
        }
        order.sort_unstable();
        Ok(Chunks { files, order: order.into_iter().map(|(_, file, chunk)| (file, chunk)).collect(), refused })
    }

    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// The path of the file of the `nth` chunk, and the chunk's number in it.
    pub fn get(&self, nth: usize) -> (&str, u64) {
        let (file, chunk) = self.order[nth];
        (&self.files[file as usize].0, chunk.into())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        (0..self.order.len()).map(|nth| self.get(nth))
    }

    /// Bytes of the `nth` chunk.
    pub fn length(&self, nth: usize) -> u64 {
        let (file, chunk) = self.order[nth];
        CHUNK.min(self.files[file as usize].1 - u64::from(chunk) * CHUNK)
    }

    /// Bytes of each chunk.
    pub fn lengths(&self) -> impl Iterator<Item = u64> {
        (0..self.order.len()).map(|nth| self.length(nth))
    }
}

/// What is needed first is small: everything but the relations of databases and the write-ahead log.
fn class_of(path: &str) -> u8 {
    match path {
        path if is_wal(path) => 2,
        path if path.starts_with("base/") || path.starts_with("pg_tblspc/") => 1,
        _ => 0,
    }
}

/// What was found below a data directory.
#[derive(Default)]
struct Found {
    files: Vec<(String, u64)>,
    refused: Vec<(String, Error)>,
}

impl Found {
    /// Lists files. Links are followed where PostgreSQL makes them: tablespaces, and a write-ahead log that is elsewhere.
    fn walk(&mut self, root: &Tree, below: &str) -> Result<(), Error> {
        let listed = root.directory(below).and_then(|directory| Ok((directory.entries()?, directory)));
        let (entries, directory) = match listed {
            Ok(listed) => listed,
            // Dropped meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !below.is_empty() => {
                self.refused.push((below.to_owned(), Error::file("list", &root.path().join(below), error)));
                return Ok(());
            }
            Err(error) => return Err(Error::file("list", &root.path().join(below), error)),
        };
        // Beside PostgreSQL's own there may be others' in it: a lost+found, when a file system is mounted there.
        let is_tablespace = Path::new(below).parent() == Some(Path::new("pg_tblspc"));
        for entry in entries {
            let Ok(name) = entry.name.clone().into_string() else { continue };
            if is_tablespace && !name.starts_with("PG_") {
                continue;
            }
            let path = if below.is_empty() { name } else { format!("{below}/{name}") };
            let is_ours = below == "pg_tblspc" || path == "pg_wal";
            match entry.kind {
                EntryKind::Directory => self.walk(root, &path)?,
                EntryKind::Link if is_ours => self.walk_link(root, path)?,
                EntryKind::File => {
                    let facts = directory.facts_of(&entry.name);
                    self.files.extend(facts.ok().map(|facts| (path, facts.st_size.cast_unsigned())));
                }
                EntryKind::Link | EntryKind::Other => {}
            }
        }
        Ok(())
    }

    /// Behind a link is a directory, or nothing that is wanted.
    fn walk_link(&mut self, root: &Tree, path: String) -> Result<(), Error> {
        match root.directory(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(()),
            _ => self.walk(root, &path),
        }
    }
}

/// The heat of chunks, by the path of their files.
#[derive(Default)]
struct Heat {
    of_files: HashMap<String, Vec<f64>>,
}

impl Heat {
    fn of(map: &Map, directory: &DataDirectory) -> Heat {
        let mut heat = Heat::default();
        let evidence = Evidence::of(map);
        for (relation, fork) in map.forks() {
            heat.add(evidence, directory, relation, fork);
        }
        heat
    }

    fn add(&mut self, evidence: Evidence, directory: &DataDirectory, relation: &Relation, fork: &ForkMap) {
        let chunk_blocks = CHUNK / u64::from(directory.block_size);
        let segment_blocks = u64::from(directory.segment_blocks);
        let wanted = &fork.os | fork.all_buffers();
        for (heat, blocks) in heat::levels(fork, evidence, &wanted) {
            let mut next = blocks.min().map(u64::from);
            while let Some(block) = next {
                let (segment, within) = (block / segment_blocks, block % segment_blocks);
                let chunk = within / chunk_blocks;
                let first = segment * segment_blocks + chunk * chunk_blocks;
                let last = (first + chunk_blocks).min((segment + 1) * segment_blocks) - 1;
                let range = first as u32..=last.min(u32::MAX.into()) as u32;
                let path = relation.path.segment_file(Path::new(""), fork.fork, segment as u32);
                let sums = self.of_files.entry(path.to_string_lossy().into_owned()).or_default();
                sums.resize(sums.len().max(chunk as usize + 1), 0.0);
                sums[chunk as usize] += f64::from(heat) * blocks.range_cardinality(range.clone()) as f64;
                next = range.end().checked_add(1).and_then(|from| blocks.range(from..).next()).map(u64::from);
            }
        }
    }

    /// Heats that are nearly the same are one class, so that what is equally hot is read by position.
    fn class(&self, path: &str, chunk: u32) -> i32 {
        let heat = self.of_files.get(path).and_then(|chunks| chunks.get(chunk as usize)).copied().unwrap_or(0.0);
        if heat > 0.0 { heat.log(1.5).floor() as i32 } else { i32::MIN }
    }
}

/// Is this the name of a file that PostgreSQL alone reads, all of it in order, and recycles?
fn is_wal(path: &str) -> bool {
    Path::new(path).starts_with("pg_wal")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::TierState;
    use crate::fixtures::{map_of, relation};
    use host::units::Fork;

    const MEGABYTE: u64 = 1 << 20;

    fn directory(root: &Path) -> DataDirectory {
        DataDirectory::pretend(root)
    }

    fn map(hot: std::ops::Range<u32>) -> Map {
        let mut fork = ForkMap::empty(Fork::Main, 3072);
        fork.os.insert_range(0..3072);
        fork.buffers[5].insert_range(hot);
        let map = map_of(vec![relation(2, fork)]);
        Map { buffers: TierState::Measured, ..map }
    }

    #[test]
    fn everything_is_listed_and_the_hot_part_comes_before_the_rest() {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let write = |path: &str, length: u64| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::File::create(path).unwrap().set_len(length).unwrap();
        };
        write("global/pg_control", 8192);
        write("base/5/1", 9 * MEGABYTE);
        write("base/5/2", 24 * MEGABYTE);
        write("base/5/2_vm", 8192);
        write("pg_wal/000000010000000000000001", 16 * MEGABYTE);
        fs::create_dir_all(elsewhere.path().join("PG_15_202209061/5")).unwrap();
        fs::write(elsewhere.path().join("PG_15_202209061/5/3"), "x").unwrap();
        fs::create_dir(elsewhere.path().join("lost+found")).unwrap();
        fs::write(elsewhere.path().join("lost+found/#12"), "x").unwrap();
        fs::create_dir_all(root.path().join("pg_tblspc")).unwrap();
        symlink(elsewhere.path(), root.path().join("pg_tblspc/16390")).unwrap();
        symlink("/etc", root.path().join("base/6")).unwrap();

        let chunks = Chunks::list(&directory(root.path()), Some(&map(1100..2000))).unwrap();
        let order: Vec<(&str, u64)> = chunks.iter().collect();
        assert_eq!(order[..2], [("global/pg_control", 0), ("base/5/2", 1)]);
        let cold = [("base/5/1", 0), ("base/5/1", 1), ("base/5/2_vm", 0), ("pg_tblspc/16390/PG_15_202209061/5/3", 0)];
        assert!(cold.iter().all(|one| order[4..8].contains(one)), "{order:?}");
        assert!(order[8..].iter().all(|(path, _)| is_wal(path)) && order.len() == 10, "{order:?}");
        assert_eq!(chunks.lengths().sum::<u64>(), 8192 * 2 + 49 * MEGABYTE + 1);
        assert_eq!(chunks.files(), 6);
    }

    #[test]
    fn files_with_holes_beyond_any_disk_are_refused_before_they_cost_memory() {
        let root = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::create_dir_all(root.path().join("base/5")).unwrap();
        // A file of as much as every file system takes.
        let file_bytes = 8 << 40;
        let hollow =
            |number: u64| fs::File::create(root.path().join(format!("base/5/{number}"))).unwrap().set_len(file_bytes);
        if hollow(0).is_err() {
            untested!(machine: "this file system has no such large files");
        }
        (1..=CHUNKS_MAX * CHUNK / file_bytes).for_each(|number| hollow(number).unwrap());
        let refused = Chunks::list(&directory(root.path()), None).unwrap_err().to_string();
        assert!(refused.contains("more than 256 TB"), "{refused}");
    }
}

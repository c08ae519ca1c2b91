//! The files of a cluster that are watched, and which blocks their units are.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cache::Map;
use crate::observe::pages::{WatchedFile, unit_hash};
use crate::postgres::RelationPath;
use crate::trace::event::FilmRelation;
use crate::units::{BlockRange, Fork};

/// How blocks, pages and units of a cluster go together.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    block_size: u64,
    page_bytes: u64,
    segment_blocks: u64,
}

/// One segment of a fork.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// The relation's index in the map.
    pub relation: usize,
    pub fork: Fork,
    pub number: u64,
}

/// The files, in the order in which they are watched.
#[derive(Debug)]
pub struct Files {
    directory: PathBuf,
    units: Units,
    relations: Vec<Arc<FilmRelation>>,
    segments: Vec<Segment>,
}

impl Units {
    pub fn new(block_size: u32, segment_blocks: u32, page_bytes: u64) -> Units {
        Units { block_size: block_size.into(), page_bytes, segment_blocks: segment_blocks.into() }
    }

    /// Of a cluster.
    pub fn of(map: &Map, page_bytes: u64) -> Units {
        Units::new(map.source.block_size, map.source.segment_blocks, page_bytes)
    }

    /// Pages of a unit.
    pub fn unit_pages(self) -> u32 {
        (self.block_size / self.page_bytes).max(1) as u32
    }

    /// Blocks of a unit: more than one where they are smaller than a page.
    pub fn unit_blocks(self) -> u64 {
        (self.page_bytes / self.block_size).max(1)
    }

    /// Units of a segment that is full.
    fn segment_units(self) -> u64 {
        self.segment_blocks.div_ceil(self.unit_blocks())
    }
}

/// What is added to the number of a unit in its fork before it is hashed, to choose the blocks of which every request is told.
pub fn salt_of(path: &RelationPath, fork: Fork) -> u32 {
    unit_hash(path.relfilenumber() ^ unit_hash(fork as u32))
}

impl Files {
    /// Those of a cluster that are there.
    pub fn new(map: &Map, directory: &Path, page_bytes: u64) -> (Files, Vec<WatchedFile>) {
        let film_relation = |one: &crate::cache::RelationMap| {
            Arc::new(FilmRelation { name: one.relation.name.clone(), path: one.relation.path.clone() })
        };
        let mut files = Files {
            directory: directory.to_owned(),
            units: Units::of(map, page_bytes),
            relations: map.relations.iter().map(film_relation).collect(),
            segments: Vec::new(),
        };
        let mut watched = Vec::new();
        for (relation, one) in map.relations.iter().enumerate() {
            for fork in &one.forks {
                // One that is empty may grow.
                for number in 0..fork.blocks.div_ceil(files.units.segment_blocks).max(1) {
                    let segment = Segment { relation, fork: fork.fork, number };
                    watched.extend(files.look(segment).inspect(|_| files.segments.push(segment)));
                }
            }
        }
        (files, watched)
    }

    /// A segment as it is now. `None` where it is not there.
    fn look(&self, segment: Segment) -> Option<WatchedFile> {
        let Segment { relation, fork, number } = segment;
        let path = &self.relations[relation].path;
        let facts = path.segment_file(&self.directory, fork, number as u32).metadata().ok()?;
        let (unit_blocks, segment_units) = (self.units.unit_blocks(), self.units.segment_units());
        let units = facts.len().div_ceil(self.units.block_size * unit_blocks).min(segment_units);
        let salt = salt_of(path, fork).wrapping_add((number * segment_units) as u32);
        Some(WatchedFile { device: facts.dev(), inode: facts.ino(), units, most_units: segment_units, salt })
    }

    /// The segment after this one, if it is there and not watched yet. Whoever watches it has to say so.
    pub fn find_next(&self, file: u32) -> Option<(Segment, WatchedFile)> {
        let segment = self.segments.get(file as usize)?;
        let next = Segment { number: segment.number + 1, ..*segment };
        let is_same = |one: &Segment| (one.relation, one.fork, one.number) == (next.relation, next.fork, next.number);
        if self.segments[file as usize..].iter().any(is_same) {
            return None;
        }
        Some((next, self.look(next)?))
    }

    pub fn unit_blocks(&self) -> u32 {
        self.units.unit_blocks() as u32
    }

    pub fn push(&mut self, segment: Segment) {
        self.segments.push(segment);
    }

    pub fn segment(&self, file: u32) -> Option<Segment> {
        self.segments.get(file as usize).copied()
    }

    pub fn relation(&self, at: usize) -> &Arc<FilmRelation> {
        &self.relations[at]
    }

    /// The blocks of the fork that units of a file are.
    pub fn blocks(&self, segment: Segment, first_unit: u64, units: std::ops::Range<u32>) -> BlockRange {
        let first = segment.number * self.units.segment_blocks;
        let block = |unit: u32| first + (first_unit + u64::from(unit)) * self.units.unit_blocks();
        BlockRange::new(block(units.start), block(units.end))
    }

    /// So many pages in bytes.
    pub fn page_bytes(&self, pages: u64) -> u64 {
        pages * self.units.page_bytes
    }
}

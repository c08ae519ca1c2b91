//! What a film looks like: where in each relation its job was when.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use parquet::file::reader::ChunkReader;

use super::Error;
use super::event::{EventKind, FilmRelation};
use super::film::Film;
use crate::units::Fork;

/// A picture has so many columns, one after the other in time, and at most so many rows, from the relation's first block on.
pub const COLUMNS: u64 = 120;
pub const ROWS: u64 = 32;

/// Relations that get a picture, those with the most blocks.
const PICTURES: usize = 6;

/// The picture of a film.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilmPicture {
    pub relations: Vec<RelationPicture>,
}

/// Where in a relation's main fork its job was when.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationPicture {
    pub relation: Arc<FilmRelation>,
    /// Blocks that one row stands for, a power of two.
    pub row_blocks: u64,
    /// Blocks that were touched, by column and row. Those that were touched again count again.
    pub cells: BTreeMap<(u64, u64), u64>,
}

impl RelationPicture {
    /// Blocks of all cells.
    pub fn blocks(&self) -> u64 {
        self.cells.values().sum()
    }

    fn add(&mut self, column: u64, mut start: u64, end: u64) {
        while (end - 1) / self.row_blocks >= ROWS {
            self.halve();
        }
        while start < end {
            let row = start / self.row_blocks;
            let stop = ((row + 1) * self.row_blocks).min(end);
            *self.cells.entry((column, row)).or_default() += stop - start;
            start = stop;
        }
    }

    /// Makes one row of two.
    fn halve(&mut self) {
        self.row_blocks *= 2;
        for ((column, row), blocks) in std::mem::take(&mut self.cells) {
            *self.cells.entry((column, row / 2)).or_default() += blocks;
        }
    }
}

impl FilmPicture {
    /// Reads all of a film.
    pub fn read<S: ChunkReader + 'static>(film: &Film<S>) -> Result<FilmPicture, Error> {
        let mut pictures: BTreeMap<Arc<FilmRelation>, RelationPicture> = BTreeMap::new();
        let (seconds, recorder_pid) = (film.header().seconds, film.header().recorder_pid);
        film.visit(|event| {
            if event.kind == EventKind::Buffers || event.fork != Fork::Main || event.pid == recorder_pid {
                return;
            }
            let part = event.time.as_secs_f64() / seconds.max(f64::MIN_POSITIVE);
            let column = ((part * COLUMNS as f64) as u64).min(COLUMNS - 1);
            let picture = pictures.entry(Arc::clone(&event.relation)).or_insert_with(|| RelationPicture {
                relation: Arc::clone(&event.relation),
                row_blocks: 1,
                cells: BTreeMap::new(),
            });
            picture.add(column, event.blocks.start, event.blocks.end);
        })?;
        let mut relations: Vec<RelationPicture> = pictures.into_values().collect();
        relations.sort_by_key(|one| Reverse(one.blocks()));
        relations.truncate(PICTURES);
        Ok(FilmPicture { relations })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::ForkMap;
    use crate::cache::fixtures::relation;

    #[test]
    fn rows_become_coarser_as_blocks_lie_farther_away() {
        let of = relation(1, ForkMap::empty(Fork::Main, 1)).relation;
        let relation = Arc::new(FilmRelation { name: of.name, path: of.path });
        let mut picture = RelationPicture { relation, row_blocks: 1, cells: BTreeMap::new() };
        picture.add(0, 0, 4);
        assert_eq!(picture.cells.len(), 4);
        picture.add(1, 60, 130);
        assert_eq!(picture.row_blocks, 8);
        assert_eq!(picture.cells.first_key_value(), Some((&(0, 0), &4)));
        assert_eq!(picture.cells.last_key_value(), Some((&(1, 16), &2)));
        assert_eq!(picture.blocks(), 74);
    }
}

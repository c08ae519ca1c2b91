//! Where a relation is resident, as a strip of pieces that the report can draw.

use std::collections::HashMap;
use std::path::Path;

use crate::lab::Error;
use crate::linux::page_cache::{PageCache, read_resident_pages};
use crate::postgres::{Buffer, Relation};
use crate::study::{RelationResidency, ResidencyStrip};
use crate::units::{Bytes, Fork};

/// Pieces of a strip: as many as a report has room for.
const PIECES: u64 = 64;

/// Relations that get a strip, the largest first.
const RELATIONS: usize = 12;

/// A relation of the benchmark database that is worth a strip.
#[derive(Clone, Debug)]
pub struct StripRelation {
    relation: Relation,
    total_bytes: Bytes,
    block_bytes: u64,
}

impl StripRelation {
    /// The largest of the user's own relations. `sizes` are main forks in blocks, by the relations' oid.
    pub fn choose(relations: Vec<Relation>, sizes: &HashMap<u32, u64>, block_bytes: u64) -> Vec<StripRelation> {
        let mut chosen: Vec<StripRelation> = relations
            .into_iter()
            .filter(|relation| !relation.is_system)
            .filter_map(|relation| {
                let blocks = *sizes.get(&relation.oid)?;
                Some(StripRelation { relation, total_bytes: Bytes(blocks * block_bytes), block_bytes })
            })
            .collect();
        chosen.sort_by_key(|one| std::cmp::Reverse(one.total_bytes));
        chosen.truncate(RELATIONS);
        chosen
    }

    /// The strip as it is now. `buffers` are all used ones; none when the server does not run.
    pub fn read(&self, data: &Path, cache: &dyn PageCache, buffers: &[Buffer]) -> Result<ResidencyStrip, Error> {
        let mut os = Strip::new(self.total_bytes.0);
        let mut segment_start = 0;
        for segment in 0.. {
            let Some(file) = cache.open(&self.relation.path.segment_file(data, Fork::Main, segment))? else { break };
            for run in read_resident_pages(file.as_ref(), cache.page_bytes())? {
                let bytes = |page: u64| segment_start + (page * cache.page_bytes()).min(file.size_bytes());
                os.add(bytes(run.start), bytes(run.end));
            }
            segment_start += file.size_bytes();
        }
        Ok(ResidencyStrip { os: os.shares(), buffers: self.compute_buffer_strip(buffers) })
    }

    fn compute_buffer_strip(&self, buffers: &[Buffer]) -> Vec<f32> {
        let path = &self.relation.path;
        let is_own = |buffer: &&Buffer| {
            (buffer.relfilenumber, buffer.database_oid, buffer.fork)
                == (path.relfilenumber(), path.database_oid(), Fork::Main)
        };
        let mut strip = Strip::new(self.total_bytes.0);
        for buffer in buffers.iter().filter(is_own) {
            let start = u64::from(buffer.block) * self.block_bytes;
            strip.add(start, start + self.block_bytes);
        }
        strip.shares()
    }

    /// Name and size.
    pub fn size(&self) -> (String, Bytes) {
        (self.relation.name.to_string(), self.total_bytes)
    }

    /// Both strips of a trial together.
    pub fn describe(&self, before: ResidencyStrip, after: ResidencyStrip) -> RelationResidency {
        RelationResidency {
            relation: self.relation.name.to_string(),
            kind: self.relation.kind.name().to_owned(),
            total_bytes: self.total_bytes,
            before,
            after,
        }
    }
}

/// Bytes resident in each of equal pieces.
#[derive(Debug)]
struct Strip {
    total: u64,
    resident: Vec<u64>,
}

impl Strip {
    fn new(total: u64) -> Strip {
        Strip { total, resident: vec![0; PIECES as usize] }
    }

    /// Where piece `index` begins. In u128, for a relation may have 32 TB.
    fn edge(&self, index: u64) -> u64 {
        (u128::from(self.total) * u128::from(index) / u128::from(PIECES)) as u64
    }

    /// Counts the bytes `[start, end)`, as far as they are within the total.
    fn add(&mut self, start: u64, end: u64) {
        let end = end.min(self.total);
        for index in 0..PIECES {
            let (from, to) = (start.max(self.edge(index)), end.min(self.edge(index + 1)));
            self.resident[index as usize] += to.saturating_sub(from);
        }
    }

    fn shares(&self) -> Vec<f32> {
        let share = |index: u64| {
            let piece = self.edge(index + 1) - self.edge(index);
            if piece == 0 { 0.0 } else { self.resident[index as usize] as f32 / piece as f32 }
        };
        (0..PIECES).map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_falls_into_the_pieces_it_covers() {
        let mut strip = Strip::new(6400);
        strip.add(0, 100);
        strip.add(150, 300);
        strip.add(6350, 9999);
        let shares = strip.shares();
        assert_eq!(shares[..4], [1.0, 0.5, 1.0, 0.0]);
        assert_eq!(shares[63], 0.5);
        assert_eq!(shares.iter().map(|share| share * 100.0).sum::<f32>(), 300.0);
    }

    #[test]
    fn a_relation_smaller_than_a_strip_has_empty_pieces() {
        let mut strip = Strip::new(10);
        strip.add(0, 10);
        let shares = strip.shares();
        assert_eq!(shares.iter().filter(|share| **share == 1.0).count(), 10);
        assert_eq!(shares.len(), 64);
        assert_eq!(Strip::new(0).shares(), [0.0; 64]);
    }

    #[test]
    fn a_huge_relation_does_not_overflow() {
        let mut strip = Strip::new(32 << 40);
        strip.add(0, 32 << 40);
        assert!(strip.shares().iter().all(|share| *share == 1.0));
    }
}

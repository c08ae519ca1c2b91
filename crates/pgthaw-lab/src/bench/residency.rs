//! Residency strips for the report: the cached share of each equal piece of a relation.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::lab::{Lab, Result, connect_to};
use crate::study::{RelationResidency, ResidencyCourse, ResidencyStrip};
use host::linux::page_cache::{PageCache, read_resident_pages};
use host::units::{Bytes, Fork};
use postgres::{Buffer, Relation, read_buffers, read_databases, read_fork_blocks, read_relations};

/// Equal pieces of a relation in its strip: as many as a report can draw.
const PIECES: u64 = 64;

/// The report draws only the largest relations.
const RELATIONS: usize = 12;

#[derive(Clone, Debug)]
pub struct StripRelation {
    relation: Relation,
    total_bytes: Bytes,
    block_bytes: u64,
}

impl StripRelation {
    /// `buffers`: all used buffers; empty if the server is stopped.
    pub fn read(&self, data: &Path, cache: &dyn PageCache, buffers: &[Buffer]) -> Result<ResidencyStrip> {
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
        Ok(ResidencyStrip { os: os.shares(), buffers: strip.shares() })
    }

    pub fn size(&self) -> (String, Bytes) {
        (self.relation.name.to_string(), self.total_bytes)
    }

    /// Further segments append a number to its name.
    pub fn first_segment(&self, data: &Path) -> PathBuf {
        self.relation.path.segment_file(data, Fork::Main, 0)
    }

    pub fn describe(&self, before: ResidencyStrip, after: ResidencyStrip, resident: &[Bytes]) -> RelationResidency {
        RelationResidency {
            relation: self.relation.name.to_string(),
            kind: self.relation.kind.name().to_owned(),
            total_bytes: self.total_bytes,
            before,
            after,
            course: ResidencyCourse::of(resident, self.total_bytes),
        }
    }
}

pub async fn choose_strips(lab: &Lab) -> Result<Vec<StripRelation>> {
    let (server, mut connection) = connect_to(lab, lab.database()).await?;
    let databases = read_databases(&mut connection).await?;
    let Some(database) = databases.iter().find(|one| one.name == lab.database()) else { return Ok(Vec::new()) };
    let relations = read_relations(&mut connection, database, false).await?;
    let oids: Vec<u32> = relations.iter().map(|relation| relation.oid).collect();
    let forks = read_fork_blocks(&mut connection, &oids).await?;
    let sizes: HashMap<u32, u64> =
        forks.into_iter().filter(|fork| fork.fork == Fork::Main).map(|fork| (fork.relation_oid, fork.blocks)).collect();
    let block_bytes = u64::from(server.facts.block_size);
    let own = relations.into_iter().filter(|relation| !relation.is_system).filter_map(|relation| {
        let total_bytes = Bytes(sizes.get(&relation.oid)? * block_bytes);
        Some(StripRelation { relation, total_bytes, block_bytes })
    });
    let mut chosen: Vec<StripRelation> = own.collect();
    chosen.sort_by_key(|one| std::cmp::Reverse(one.total_bytes));
    chosen.truncate(RELATIONS);
    Ok(chosen)
}

pub async fn read_strips_of_running(lab: &Lab, relations: &[StripRelation]) -> Result<Vec<ResidencyStrip>> {
    if relations.is_empty() {
        return Ok(Vec::new());
    }
    let (_, mut connection) = connect_to(lab, lab.database()).await?;
    let mut buffers = Vec::new();
    // Without pg_buffercache, the report shows no blocks in shared_buffers.
    let _ = read_buffers(&mut connection, |buffer| buffers.push(buffer)).await;
    relations.iter().map(|one| one.read(&lab.data_directory(), &lab.page_cache, &buffers)).collect()
}

#[derive(Debug)]
struct Strip {
    total: u64,
    resident: Vec<u64>,
}

impl Strip {
    fn new(total: u64) -> Strip {
        Strip { total, resident: vec![0; PIECES as usize] }
    }

    fn edge(&self, index: u64) -> u64 {
        (u128::from(self.total) * u128::from(index) / u128::from(PIECES)) as u64
    }

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

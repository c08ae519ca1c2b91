//! Residency strips for the report: the cached share of each equal piece of a relation.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::lab::{Lab, connect_to};
use crate::study::{RelationResidency, ResidencyCourse, ResidencyStrip, Result};
use host::linux::page_cache::{PageCache, read_resident_pages};
use host::units::{Bytes, Fork};
use postgres::{Buffer, Relation, read_buffers, read_databases, read_fork_blocks, read_relations};

/// Equal pieces of a relation in its strip: as many as a report can draw.
const PIECES: usize = 64;

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
        let (mut os, mut in_buffers) = (vec![0; PIECES], vec![0; PIECES]);
        let mut segment_start = 0;
        for segment in 0.. {
            let Some(file) = cache.open(&self.relation.path.segment_file(data, Fork::Main, segment))? else { break };
            let bytes = |page: u64| segment_start + (page * cache.page_bytes()).min(file.size_bytes());
            let runs = read_resident_pages(file.as_ref(), cache.page_bytes())?;
            let resident: Vec<(u64, u64)> = runs.iter().map(|run| (bytes(run.start), bytes(run.end))).collect();
            add_bytes(&mut os, self.total_bytes.0, &resident);
            segment_start += file.size_bytes();
        }
        let path = &self.relation.path;
        let is_own = |buffer: &&Buffer| {
            (buffer.relfilenumber, buffer.database_oid, buffer.fork)
                == (path.relfilenumber, path.database_oid, Fork::Main)
        };
        let starts = buffers.iter().filter(is_own).map(|buffer| u64::from(buffer.block) * self.block_bytes);
        let buffers: Vec<(u64, u64)> = starts.map(|start| (start, start + self.block_bytes)).collect();
        add_bytes(&mut in_buffers, self.total_bytes.0, &buffers);
        let shares = |pieces: &[u64]| compute_shares(self.total_bytes.0, pieces);
        Ok(ResidencyStrip { os: shares(&os), buffers: shares(&in_buffers) })
    }

    pub fn size(&self) -> (String, Bytes) {
        (self.relation.name.to_string(), self.total_bytes)
    }

    /// Further segments append a number to its name.
    pub fn first_segment(&self, data: &Path) -> PathBuf {
        self.relation.path.segment_file(data, Fork::Main, 0)
    }
}

/// `resident`: bytes of each relation at the start and after each second.
pub fn describe_residency(
    before: Vec<(StripRelation, ResidencyStrip)>,
    after: Vec<ResidencyStrip>,
    resident: &[Vec<Bytes>],
) -> Vec<RelationResidency> {
    let describe = |(place, ((one, before), after)): (usize, ((StripRelation, ResidencyStrip), ResidencyStrip))| {
        let course: Vec<Bytes> = resident.iter().skip(1).map(|all| all[place]).collect();
        RelationResidency {
            relation: one.relation.name.to_string(),
            kind: one.relation.kind.name().to_owned(),
            total_bytes: one.total_bytes,
            before,
            after,
            course: ResidencyCourse::of(&course, one.total_bytes),
        }
    };
    before.into_iter().zip(after).enumerate().map(describe).collect()
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

pub async fn read_strips(lab: &Lab, before: &[(StripRelation, ResidencyStrip)]) -> Result<Vec<ResidencyStrip>> {
    if before.is_empty() {
        return Ok(Vec::new());
    }
    let (_, mut connection) = connect_to(lab, lab.database()).await?;
    let mut buffers = Vec::new();
    // Without pg_buffercache, the report shows no blocks in shared_buffers.
    let _ = read_buffers(&mut connection, |buffer| buffers.push(buffer)).await;
    before.iter().map(|(one, _)| one.read(&lab.data_directory(), &lab.page_cache, &buffers)).collect()
}

/// Adds the resident bytes of each piece of a relation. No two of the byte ranges overlap.
fn add_bytes(pieces: &mut [u64], total: u64, resident: &[(u64, u64)]) {
    for (piece, index) in pieces.iter_mut().zip(0..) {
        let (from, to) = (edge(total, index), edge(total, index + 1));
        let within = |(start, end): &(u64, u64)| (*end).min(to).saturating_sub((*start).max(from));
        *piece += resident.iter().map(within).sum::<u64>();
    }
}

fn compute_shares(total: u64, pieces: &[u64]) -> Vec<f32> {
    let share = |(bytes, index): (&u64, u64)| match edge(total, index + 1) - edge(total, index) {
        0 => 0.0,
        length => *bytes as f32 / length as f32,
    };
    pieces.iter().zip(0..).map(share).collect()
}

fn edge(total: u64, piece: u64) -> u64 {
    (u128::from(total) * u128::from(piece) / PIECES as u128) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares_of(total: u64, resident: &[(u64, u64)]) -> Vec<f32> {
        let mut pieces = vec![0; PIECES];
        add_bytes(&mut pieces, total, resident);
        compute_shares(total, &pieces)
    }

    #[test]
    fn a_range_falls_into_the_pieces_it_covers() {
        let shares = shares_of(6400, &[(0, 100), (150, 300), (6350, 9999)]);
        assert_eq!(shares[..4], [1.0, 0.5, 1.0, 0.0]);
        assert_eq!(shares[63], 0.5);
        assert_eq!(shares.iter().map(|share| share * 100.0).sum::<f32>(), 300.0);
    }

    #[test]
    fn a_relation_smaller_than_a_strip_has_empty_pieces() {
        let shares = shares_of(10, &[(0, 10)]);
        assert_eq!(shares.iter().filter(|share| **share == 1.0).count(), 10);
        assert_eq!(shares.len(), 64);
        assert_eq!(shares_of(0, &[]), [0.0; 64]);
    }

    #[test]
    fn a_huge_relation_does_not_overflow() {
        assert!(shares_of(32 << 40, &[(0, 32 << 40)]).iter().all(|share| *share == 1.0));
    }
}

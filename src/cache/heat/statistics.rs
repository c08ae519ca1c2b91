//! Heat from the server's statistics: reads that went past shared_buffers, for each block of a relation. All blocks of a
//! relation have the same.

use std::collections::HashMap;

use super::levels::{GREATEST_HEAT, HeatInputs, HeatOfForks, Levels, USUAL_HEAT};
use crate::cache::Map;
use crate::postgres::read_block_reads;

/// The heat of every fork's cached blocks. `None` when there is no server to ask, or when it has counted nothing.
pub async fn read(map: &Map, inputs: &HeatInputs<'_>) -> Option<HeatOfForks> {
    let server = inputs.server?;
    let mut reads: HashMap<(String, u32), u64> = HashMap::new();
    for database in inputs.databases.iter().filter(|database| database.allows_connections) {
        // One that does not let us in has no heat.
        let Ok(mut connection) = server.connect_to(&database.name).await else { continue };
        for of_relation in read_block_reads(&mut connection).await.unwrap_or_default() {
            let database = if of_relation.is_shared { String::new() } else { database.name.clone() };
            reads.insert((database, of_relation.relation_oid), of_relation.reads);
        }
    }
    let reads_of = |at: usize| {
        let relation = &map.relations[at].relation;
        reads.get(&(relation.name.database.clone(), relation.oid)).copied().unwrap_or(0)
    };
    let cached = |at: usize| map.relations[at].forks.iter().map(|fork| fork.os.len()).sum::<u64>();
    let blocks_of = |at: usize| map.relations[at].forks.iter().map(|fork| fork.blocks).sum::<u64>();
    let seen: Vec<usize> = (0..map.relations.len()).filter(|at| cached(*at) > 0).collect();
    let all_reads: u64 = seen.iter().map(|at| reads_of(*at)).sum();
    let all_blocks: u64 = seen.iter().map(|at| blocks_of(*at)).sum();
    if all_reads == 0 || all_blocks == 0 {
        return None;
    }
    let usual = all_reads as f64 / all_blocks as f64;
    let mut heat = Vec::new();
    for (at, relation) in map.relations.iter().enumerate() {
        let rate = reads_of(at) as f64 / blocks_of(at).max(1) as f64;
        let level = compute_level(rate, usual);
        heat.extend(relation.forks.iter().map(|fork| Levels::from_iter((level > 0).then(|| (level, fork.os.clone())))));
    }
    Some(heat)
}

/// The heat of a rate: one level more for each doubling of the usual one.
fn compute_level(rate: f64, usual: f64) -> u8 {
    let level = f64::from(USUAL_HEAT) + (rate / usual).log2();
    level.round().clamp(0.0, f64::from(GREATEST_HEAT)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubling_is_one_more() {
        let levels: Vec<u8> = [0.0, 0.5, 1.0, 2.0, 4.0, 1e9].map(|rate| compute_level(rate, 1.0)).into();
        assert_eq!(levels, [0, 3, 4, 5, 6, 8]);
    }
}

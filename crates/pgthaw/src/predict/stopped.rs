//! A forecast for a server that does not run: what is asked for is guessed from the snapshot that a restore would take, by what had been
//! looked up by then; sizes are those of its files.

use std::path::Path;

use super::arguments::PredictArguments;
use super::base::Base;
use super::hardware::{read_cores, read_memory_pages};
use super::known::{Known, describe_snapshot, read_heat};
use crate::Target;
use cache::warm::Evidence;
use cache::warm::plan::Geometry;
use cache::{Map, RelationMap};
use command::workload::levels_of;
use command::workload::what_it_says;
use host::units::{Bytes, Fork, counted};
use model::Error;
use postgres::{Activity, DataDirectory, RelationActivity, RelationKind, RowCounts, read_configured_setting};

/// Transactions that the guessed counts stand for: enough that a rare relation is one count.
const TRANSACTIONS: f64 = 1e6;

/// Fewer lookups say nothing of what clients ask for: then each relation of a kind counts by its size.
const FEWEST_LOOKUPS: u64 = 1000;

/// Segments of a relation at most: of 32 TB in files of 1 GB.
const MOST_SEGMENTS: u32 = 32_768;

/// The files of a stopped server, with what the snapshot says of them.
pub async fn make_base(
    arguments: &PredictArguments,
    target: &Target,
    directory: &DataDirectory,
) -> anyhow::Result<Base> {
    let chosen = read_heat(arguments, target).await?.ok_or(Error::NoServer)?;
    let cores = read_cores(arguments);
    let clients = arguments.clients.unwrap_or(1);
    let hit_seconds = arguments.told_hit_seconds(clients.into(), cores).ok_or(Error::StoppedServer)?;
    let (activity, division) = guess_activity(&chosen.snapshot.map, directory, arguments.accesses);
    let mut assumptions = vec![format!(
        "the server does not run: a transaction asks for {} of the {} that the snapshot found warm, {}",
        counted(arguments.accesses, "block"),
        counted(activity.relations.len(), "relation"),
        division.words()
    )];
    let what = what_it_says(&chosen.snapshot.map, arguments.popularity.is_some());
    assumptions.extend(describe_snapshot(what, &chosen));
    assumptions.push(format!(
        "{}, a warm transaction takes {:.3} ms of one of {cores} processors",
        counted(clients as usize, "client"),
        hit_seconds * 1e3
    ));
    let geometry = Geometry { block_size: directory.block_size, segment_blocks: directory.segment_blocks };
    let block_bytes = f64::from(directory.block_size);
    let known = Known {
        activity,
        clients,
        hit_seconds,
        cores,
        memory_pages: read_memory_pages(arguments, true, block_bytes, &mut assumptions),
        buffers_pages: read_buffers_bytes(directory).map_or(f64::INFINITY, |bytes| bytes.0 as f64 / block_bytes),
        geometry,
        directory: Some(directory.path.clone()),
        is_local: true,
        snapshot: Some(chosen),
    };
    known.make_base(arguments, assumptions)
}

/// shared_buffers that the server would start with, where its programs are here to say so: in blocks, or with a unit.
pub fn read_buffers_bytes(directory: &DataDirectory) -> Option<Bytes> {
    let text = read_configured_setting(directory, "shared_buffers").ok()?;
    let blocks = text.parse::<u32>().ok().map(u64::from);
    blocks.map(|blocks| Bytes(blocks * u64::from(directory.block_size))).or_else(|| text.parse().ok())
}

/// How what a transaction asks for is divided among the relations that are warm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Division {
    /// By what had been looked up of each.
    Lookups,
    /// Where nobody has counted that: heat is how often a block is used, relative to the others, so a relation counts by its blocks' sum.
    Heat,
    /// Where too little had been looked up: a lookup asks for a leaf and a row, so indexes get as much as tables.
    Kinds,
}

impl Division {
    /// The one that fits to what is known of these relations.
    fn of(map: &Map, warm: &[(&RelationMap, f64)]) -> Division {
        let lookups: Option<Vec<u64>> = warm.iter().map(|(one, _)| map.lookups.of(&one.relation)).collect();
        match lookups {
            None => Division::Heat,
            Some(counted) if counted.iter().fold(0, |sum: u64, one| sum.saturating_add(*one)) < FEWEST_LOOKUPS => {
                Division::Kinds
            }
            Some(_) => Division::Lookups,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Division::Lookups => "as often as they had been looked up by then",
            Division::Heat => "by their heat",
            Division::Kinds => "half tables' and half indexes', by size, for hardly any had been looked up by then",
        }
    }

    /// What each relation counts, relative to the others. `warm` has them with their heat.
    fn weights(self, map: &Map, warm: &[(&RelationMap, f64)]) -> Vec<f64> {
        let blocks = |one: &RelationMap| one.main_fork().map_or(0.0, |fork| fork.blocks as f64);
        let is_index = |one: &RelationMap| one.relation.kind == RelationKind::Index;
        let of_kind = |wanted| warm.iter().map(|(one, _)| *one).filter(move |one| is_index(one) == wanted);
        let kinds = [false, true].map(|wanted| of_kind(wanted).map(blocks).sum::<f64>());
        let weight = |(one, heat): &(&RelationMap, f64)| match self {
            Division::Lookups => map.lookups.of(&one.relation).unwrap_or(0) as f64,
            Division::Heat => *heat,
            Division::Kinds => blocks(one) / kinds[usize::from(is_index(one))].max(1.0),
        };
        warm.iter().map(weight).collect()
    }
}

/// What a transaction asks for of each relation that is warm, and how that was divided.
fn guess_activity(map: &Map, directory: &DataDirectory, accesses: f64) -> (Activity, Division) {
    let evidence = Evidence::of(map);
    let heat = |relation: &RelationMap| -> f64 {
        let Some(main) = relation.main_fork() else { return 0.0 };
        levels_of(main, evidence).iter().map(|(heat, blocks)| f64::from(*heat) * blocks.len() as f64).sum()
    };
    let warm: Vec<(&RelationMap, f64)> = map
        .relations
        .iter()
        .filter(|relation| !relation.relation.is_system)
        .map(|relation| (relation, heat(relation)))
        .filter(|(_, heat)| *heat > 0.0)
        .collect();
    let division = Division::of(map, &warm);
    let weights = division.weights(map, &warm);
    let total: f64 = weights.iter().sum();
    let relations = warm.iter().zip(weights).map(|((one, _), weight)| {
        let requests = (TRANSACTIONS * accesses * weight / total.max(f64::MIN_POSITIVE)) as u64;
        let relation = &one.relation;
        RelationActivity {
            oid: relation.oid,
            schema: relation.name.schema.clone(),
            name: relation.name.name.clone(),
            kind: relation.kind,
            blocks: read_blocks(one, directory),
            requests,
            // Leaves alone: what is above them is warm at once.
            scans: if relation.kind == RelationKind::Index { requests } else { 0 },
            // Of a table each block is asked for on its own.
            rows: RowCounts { fetched: requests, ..RowCounts::default() },
            table: None,
            access_method: String::new(),
            tuples: None,
        }
    });
    let activity =
        Activity { transactions: TRANSACTIONS as u64, relations: relations.collect(), ..Activity::default() };
    (activity, division)
}

/// Blocks of the main fork as its files are now; where they are gone, as the snapshot saw them.
fn read_blocks(relation: &RelationMap, directory: &DataDirectory) -> u64 {
    let path = &relation.relation.path;
    let size = |segment| {
        let file = path.segment_file(Path::new(&directory.path), Fork::Main, segment);
        std::fs::metadata(file).ok().map(|metadata| metadata.len())
    };
    let bytes: u64 = (0..MOST_SEGMENTS).map_while(size).sum();
    match bytes / u64::from(directory.block_size) {
        0 => relation.main_fork().map_or(0, |fork| fork.blocks),
        blocks => blocks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::Lookups;
    use cache::fixtures::{map_of, relation, third_resident};

    #[test]
    fn what_is_asked_for_is_divided_by_what_is_known_best() {
        let index = |mut one: RelationMap| {
            one.relation.kind = RelationKind::Index;
            one
        };
        let relations = [
            relation(1, third_resident(900)),
            relation(2, third_resident(100)),
            index(relation(3, third_resident(200))),
        ];
        let divide = |lookups: Lookups| {
            let mut map = map_of(relations.to_vec());
            map.lookups = lookups;
            let warm: Vec<(&RelationMap, f64)> = relations.iter().map(|one| (one, 7.0)).collect();
            let division = Division::of(&map, &warm);
            (division, division.weights(&map, &warm))
        };
        let counted = |blocks: [u64; 3]| Lookups::of_database("app", [1, 2, 3].into_iter().zip(blocks));
        assert_eq!(divide(Lookups::default()), (Division::Heat, vec![7.0; 3]));
        assert_eq!(divide(counted([0, 3, 0])), (Division::Kinds, vec![0.9, 0.1, 1.0]));
        assert_eq!(divide(counted([0, 1000, 2000])), (Division::Lookups, vec![0.0, 1000.0, 2000.0]));
    }
}

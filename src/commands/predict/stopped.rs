//! A forecast for a server that does not run: what is asked for is guessed from the snapshot that a restore would take, sizes are
//! those of its files.

use std::path::Path;

use super::arguments::PredictArguments;
use super::base::Base;
use super::classes::levels_of;
use super::hardware::{read_cores, read_memory_pages};
use super::known::{Known, describe_snapshot, read_heat};
use crate::cache::{Map, RelationMap};
use crate::commands::Target;
use crate::model::Error;
use crate::postgres::{Activity, DataDirectory, RelationActivity, RelationKind, RowCounts, read_configured_setting};
use crate::units::{Bytes, Fork, counted};
use crate::warm::Evidence;
use crate::warm::plan::Geometry;

/// Transactions that the guessed counts stand for: enough that a rare relation is one count.
const TRANSACTIONS: f64 = 1e6;

/// Segments of a relation at most: of 32 TB in files of 1 GB.
const MOST_SEGMENTS: u32 = 32_768;

/// The files of a stopped server, with what the snapshot says of them.
pub fn make_base(arguments: &PredictArguments, target: &Target, directory: &DataDirectory) -> anyhow::Result<Base> {
    let chosen = read_heat(arguments, target)?.ok_or(Error::NoServer)?;
    let cores = read_cores(arguments);
    let clients = arguments.clients.unwrap_or(1);
    let hit_seconds = arguments.told_hit_seconds(clients.into(), cores).ok_or(Error::StoppedServer)?;
    let activity = guess_activity(&chosen.snapshot.map, directory, arguments.accesses);
    let mut assumptions = vec![format!(
        "the server does not run: a transaction asks for {} of the {} that the snapshot found warm, by their heat",
        counted(arguments.accesses, "block"),
        counted(activity.relations.len(), "relation")
    )];
    assumptions.extend(describe_snapshot("popularity and restore by ", &chosen));
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

/// Heat is how often a block is used, relative to the others: a relation's share of the accesses is the sum over its blocks.
fn guess_activity(map: &Map, directory: &DataDirectory, accesses: f64) -> Activity {
    let evidence = Evidence::of(map);
    let heat = |relation: &RelationMap| -> f64 {
        let Some(main) = relation.forks.iter().find(|fork| fork.fork == Fork::Main) else { return 0.0 };
        levels_of(main, evidence).iter().map(|(heat, blocks)| f64::from(*heat) * blocks.len() as f64).sum()
    };
    let warm: Vec<(&RelationMap, f64)> = map
        .relations
        .iter()
        .filter(|relation| !relation.relation.is_system)
        .map(|relation| (relation, heat(relation)))
        .filter(|(_, heat)| *heat > 0.0)
        .collect();
    let total: f64 = warm.iter().map(|(_, heat)| heat).sum();
    let relations = warm.into_iter().map(|(one, heat)| {
        let requests = (TRANSACTIONS * accesses * heat / total) as u64;
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
    Activity { transactions: TRANSACTIONS as u64, relations: relations.collect(), ..Activity::default() }
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
        0 => relation.forks.iter().find(|fork| fork.fork == Fork::Main).map_or(0, |fork| fork.blocks),
        blocks => blocks,
    }
}

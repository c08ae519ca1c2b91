//! A row: the blocks of one fork of a relation that one tier holds at one heat.

use roaring::RoaringBitmap;

use crate::{ForkMap, RelationMap};

/// The tiers' names in the file.
pub const OS: &str = "os";
pub const BUFFERS: &str = "buffers";
/// A fork of which no tier holds a block has one row with this, so that its existence and size are kept.
pub const NONE: &str = "none";

/// A row before it is split into columns.
#[derive(Debug)]
pub struct Row<'a> {
    pub relation: &'a RelationMap,
    pub fork: &'a ForkMap,
    pub tier: &'static str,
    pub heat: u8,
    pub bitmap: RoaringBitmap,
}

/// The rows of one relation.
pub fn rows_of(relation: &RelationMap) -> impl Iterator<Item = Row<'_>> {
    relation.forks.iter().flat_map(move |fork| rows_of_fork(relation, fork))
}

fn rows_of_fork<'a>(relation: &'a RelationMap, fork: &'a ForkMap) -> Vec<Row<'a>> {
    let row = |tier, heat: usize, bitmap: &RoaringBitmap| {
        let mut bitmap = bitmap.clone();
        bitmap.optimize();
        Row { relation, fork, tier, heat: heat as u8, bitmap }
    };
    let levels = fork.buffers.iter().enumerate().map(|(heat, bitmap)| (BUFFERS, heat, bitmap));
    let rest = fork.os_heat.values().fold(fork.os.clone(), |rest, blocks| rest - blocks);
    let of_heat = fork.os_heat.iter().map(|(heat, bitmap)| (OS, usize::from(*heat), bitmap));
    let resident =
        std::iter::once((OS, 0, &rest)).chain(of_heat).chain(levels).filter(|(_, _, bitmap)| !bitmap.is_empty());
    let mut rows: Vec<Row<'a>> = resident.map(|(tier, heat, bitmap)| row(tier, heat, bitmap)).collect();
    if rows.is_empty() {
        rows.push(row(NONE, 0, &RoaringBitmap::new()));
    }
    rows
}

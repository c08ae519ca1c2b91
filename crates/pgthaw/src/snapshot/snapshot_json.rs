//! Snapshots for programs. Field names are stable: docs/formats.md.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::map::map_json::{render_source, render_tier};
use crate::snapshot::snapshot_text::{SnapshotLine, Taken};
use cache::{Difference, Error, ForkDifference, RelationDifference, Selected, SnapshotHeader, TierDifference};
use host::units::Bytes;

/// The list of snapshots.
pub fn render_snapshots_json(lines: &[SnapshotLine]) -> Value {
    let render = |line: &SnapshotLine| {
        json!({
            "name": line.generation.name,
            "system_identifier": line.generation.system_identifier.to_string(),
            "path": line.generation.path,
            "file_bytes": line.file_bytes,
            "header": line.header.as_ref().ok().map(render_header_json),
            "error": line.header.as_ref().err(),
            "restore": line.restore,
        })
    };
    json!({ "snapshots": lines.iter().map(render).collect::<Vec<Value>>() })
}

/// What a snapshot says of itself.
pub fn render_header_json(header: &SnapshotHeader) -> Value {
    json!({
        "label": header.label,
        "taken_at": header.taken_at,
        "source": render_source(&header.source),
        "os": render_tier(&header.os),
        "buffers": render_tier(&header.buffers),
        "os_heat": header.os_heat,
        "relation_count": header.relations,
        "os_blocks": header.os_blocks,
        "buffers_blocks": header.buffer_blocks,
        "remarks": header.remarks,
    })
}

/// What was kept, when it was taken.
pub fn render_taken_json(taken: &Taken) -> Value {
    let blocks = |bytes: Option<Bytes>| bytes.map_or(0, |bytes| bytes.0 / u64::from(taken.header.source.block_size));
    let warmer = taken.warmer().map(|one| {
        let (os, buffers) = (blocks(one.os_bytes), blocks(one.buffers_bytes));
        json!({ "name": one.name, "path": one.path, "os_blocks": os, "buffers_blocks": buffers })
    });
    json!({
        "path": taken.path,
        "file_bytes": taken.file_bytes,
        "header": render_header_json(&taken.header),
        "dropped": taken.dropped.iter().map(|old| &old.name).collect::<Vec<&String>>(),
        "warmer": warmer,
        "restore": taken.restore,
    })
}

/// Which of these files are whole.
pub fn render_verdicts_json(verdicts: &[(&PathBuf, Option<&Error>)]) -> Value {
    let render = |(path, error): &(&PathBuf, Option<&Error>)| json!({ "path": path, "is_whole": error.is_none(), "error": error.map(Error::to_string) });
    json!({ "snapshots": verdicts.iter().map(render).collect::<Vec<Value>>() })
}

/// What changed, per relation and fork; relations that are as they were too. `since`: the snapshot, where it was chosen.
pub fn render_difference_json(difference: &Difference<'_>, block_size: u32, since: Option<&Selected>) -> Value {
    let tier = |is_seen: bool, tier: TierDifference| {
        is_seen.then(|| json!({ "gained_blocks": tier.gained, "lost_blocks": tier.lost, "kept_blocks": tier.kept }))
    };
    let render_forks = |one: &RelationDifference<'_>| -> Vec<Value> {
        let render = |fork: &ForkDifference| {
            json!({
                "fork": fork.fork.name(),
                "blocks_before": fork.blocks_before,
                "blocks_after": fork.blocks_after,
                "os": tier(difference.has_os, fork.os),
                "buffers": tier(difference.has_buffers, fork.buffers),
            })
        };
        one.forks.iter().map(render).collect()
    };
    let render = |one: &RelationDifference<'_>| {
        json!({
            "database": one.relation.name.database,
            "schema": one.relation.name.schema,
            "name": one.relation.name.name,
            "kind": one.relation.kind.name(),
            "change": one.change.name(),
            "forks": render_forks(one),
        })
    };
    json!({
        "snapshot": since,
        "block_size": block_size,
        "os": tier(difference.has_os, difference.os()),
        "buffers": tier(difference.has_buffers, difference.buffers()),
        "relations": difference.relations.iter().map(render).collect::<Vec<Value>>(),
    })
}

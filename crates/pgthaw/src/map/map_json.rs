//! The map for programs. Field names are stable: docs/formats.md.

use serde_json::{Value, json};

use cache::{
    BarCell, ForkMap, Group, Map, MapSource, RelationMap, Residency, RolledUp, TierState, compute_bar, compute_groups,
};

/// Cells of a bar in JSON.
const BAR_CELLS: usize = 40;

/// The relations of `map` at `places`, each by itself or rolled up, the largest first; `top` of them, or all when it is 0.
pub fn render_map_json(map: &Map, places: &[usize], rolled_up: RolledUp, top: usize) -> Value {
    let mut groups = compute_groups(map, places, rolled_up);
    groups.sort_by_cached_key(|group| std::cmp::Reverse(group.residency(map).blocks));
    let totals: Residency = groups.iter().map(|group| group.residency(map)).sum();
    let shown = if top == 0 { groups.len() } else { top };
    let render = |group: &Group| match (rolled_up, group.members.as_slice()) {
        (RolledUp::Not, [place]) => render_relation(&map.relations[*place], map),
        _ => render_group(group, map),
    };
    json!({
        "taken_at": map.taken_at,
        "source": render_source(&map.source),
        "os": render_tier(&map.os),
        "buffers": render_tier(&map.buffers),
        "totals": render_residency(&totals, map),
        "by": rolled_up.name(),
        "relation_count": groups.len(),
        "relations": groups.iter().take(shown).map(render).collect::<Vec<Value>>(),
        "remarks": map.remarks,
    })
}

/// Which cluster.
pub fn render_source(source: &MapSource) -> Value {
    json!({
        // A string: JSON's numbers lose its last digits.
        "system_identifier": source.system_identifier.to_string(),
        "version_num": source.version_num,
        "block_size": source.block_size,
        "segment_blocks": source.segment_blocks,
        "data_directory": source.data_directory,
        "lsn": source.lsn,
        "timeline": source.timeline,
    })
}

/// `{"state": "measured"}` or `{"state": "unknown", "reason": …}`.
pub fn render_tier(state: &TierState) -> Value {
    match state {
        TierState::Measured => json!({ "state": "measured" }),
        TierState::Unknown { reason } => json!({ "state": "unknown", "reason": reason }),
    }
}

fn render_relation(one: &RelationMap, map: &Map) -> Value {
    let relation = &one.relation;
    let mut value = json!({
        "database": relation.name.database,
        "schema": relation.name.schema,
        "name": relation.name.name,
        "kind": relation.kind.name(),
        "oid": relation.oid,
        "parent": relation.parent,
        "path": relation.path.to_string(),
        "tablespace": relation.tablespace,
        "is_system": relation.is_system,
        "forks": one.forks.iter().map(|fork| render_fork(fork, map)).collect::<Vec<Value>>(),
    });
    append(&mut value, render_residency(&one.residency(), map));
    value
}

/// A table with what was summed up to it.
fn render_group(group: &Group, map: &Map) -> Value {
    let mut value = json!({
        "database": group.name.database,
        "schema": group.name.schema,
        "name": group.name.name,
        "kind": if group.partitions.is_some() { "partitioned_table" } else { group.kind.name() },
        "is_system": group.is_system,
        "partitions": group.partitions,
        "members": group.relations(map).map(|one| one.relation.name.to_string()).collect::<Vec<String>>(),
    });
    append(&mut value, render_residency(&group.residency(map), map));
    value
}

fn render_fork(fork: &ForkMap, map: &Map) -> Value {
    let bar = compute_bar(&[fork], BAR_CELLS);
    let ratios = |tier: fn(&BarCell) -> f64| -> Vec<f64> {
        bar.iter().map(|cell| (tier(cell) * 1000.0).round() / 1000.0).collect()
    };
    let mut value = json!({
        "fork": fork.fork.name(),
        "os_bar": ratios(|cell| cell.os),
        "buffers_bar": ratios(|cell| cell.buffers),
    });
    append(&mut value, render_residency(&fork.residency(), map));
    value
}

/// Numbers of a tier that was not measured are null: 0 would be a lie.
fn render_residency(residency: &Residency, map: &Map) -> Value {
    let os = (map.os == TierState::Measured).then_some(residency.os);
    let of_buffers = |value: u64| (map.buffers == TierState::Measured).then_some(value);
    json!({
        "blocks": residency.blocks,
        "bytes": residency.blocks * u64::from(map.source.block_size),
        "os_blocks": os,
        "buffers_blocks": of_buffers(residency.buffers),
        "dirty_blocks": of_buffers(residency.dirty),
        "both_blocks": os.and(of_buffers(residency.both)),
        "usage_counts": of_buffers(0).map(|_| residency.usage_counts),
    })
}

fn append(value: &mut Value, more: Value) {
    if let (Value::Object(fields), Value::Object(more)) = (value, more) {
        fields.extend(more);
    }
}

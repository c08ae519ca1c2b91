//! Rows of a snapshot, and what is shown of them: nothing of Parquet stands between the bytes and the checks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use cache::{HeatSource, RolledUp, compute_bar, compute_difference, compute_groups, compute_identities};
use pgthaw_fuzz::{Row, map_of, relations_of};

fuzz_target!(|rows: Vec<Row<'_>>| {
    let Ok(relations) = relations_of(&rows[..rows.len().min(12)], 1 << 20) else { return };
    let map = map_of(relations, HeatSource::None);
    let forks: Vec<_> = map.forks().map(|(_, fork)| fork).collect();
    for cell in compute_bar(&forks, 20) {
        assert!(cell.any <= 1.0 + 1e-9 && cell.os <= cell.any + 1e-9 && cell.buffers <= cell.any + 1e-9, "{cell:?}");
    }
    let places: Vec<usize> = (0..map.relations.len()).collect();
    let groups = compute_groups(&map, &places, RolledUp::default());
    assert_eq!(groups.iter().map(|group| group.residency(&map)).sum::<cache::Residency>(), map.residency());
    assert_eq!(compute_identities(map.every_relation()).len(), map.relations.len());
    // Of two relations with one name either may be held against the other.
    let difference = compute_difference(&map, &map);
    let _ = (difference.os().changed(), difference.buffers().changed());
});

//! The map of a target, for every command that needs one: the work is done in `crates/cache/src/`.

use std::path::PathBuf;

use super::{OutputArguments, Target};
use cache::{HeatInputs, Lookups, Map, MapInputs, Snapshot, SnapshotStore, TierState, read_heat, read_map};
use host::files::EntryKind;
use terminal::Progress;

/// Reads what of the target is resident now. Without a server the names come from the newest snapshot in `snapshots`.
pub async fn read_current_map(
    target: &Target,
    snapshots: &SnapshotStore,
    output: OutputArguments,
) -> anyhow::Result<Map> {
    let names = match (&target.server, target.system_identifier()) {
        (None, Some(cluster)) => read_newest(snapshots, cluster),
        _ => None,
    };
    let databases = target.databases().await?;
    let progress = Progress::steps_when_slow("looking", output.shows_progress());
    let inputs = MapInputs {
        server: target.server.as_ref(),
        data_directory: target.data_directory.as_ref(),
        page_cache: &target.page_cache(),
        databases: &databases,
        named: None,
        names: names.as_ref(),
        progress: &|done, total| progress.reach(done as u64, total as u64),
    };
    let map = read_map(inputs).await;
    progress.finish();
    let mut map = map?;
    if let (TierState::Unknown { reason }, Some(why)) = (&mut map.os, &target.directory_refusal) {
        *reason = why.detail.clone().unwrap_or_default();
    }
    map.remarks.splice(0..0, target.remarks.iter().cloned());
    Ok(map)
}

/// Adds to a target's map how hot the blocks of its page cache are, and how often its relations had been looked up by then.
pub async fn add_heat(map: &mut Map, target: &Target, snapshots: &SnapshotStore) -> anyhow::Result<()> {
    let earlier = snapshots.read_generations(map.source.system_identifier).unwrap_or_default();
    let earlier: Vec<PathBuf> =
        earlier.into_iter().filter(|one| one.kind == EntryKind::File).map(|one| one.path).collect();
    let databases = target.databases().await?;
    let inputs = HeatInputs {
        server: target.server.as_ref(),
        data_directory: target.data_directory.as_ref(),
        page_cache: &target.page_cache(),
        databases: &databases,
        earlier: &earlier,
    };
    read_heat(map, inputs).await;
    if let Some(server) = &target.server {
        map.lookups = Lookups::read(server, &databases).await;
    }
    Ok(())
}

/// The newest snapshot that can be read and that knows names. They are a convenience, and a damaged file is no reason to
/// go without.
fn read_newest(store: &SnapshotStore, cluster: u64) -> Option<Snapshot> {
    let generations = store.read_generations(cluster).ok()?;
    let readable = generations.iter().filter_map(|generation| generation.read().ok());
    readable.into_iter().find(|snapshot| snapshot.map.relations.iter().any(|one| one.relation.oid != 0))
}

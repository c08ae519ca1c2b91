//! `pgthaw snapshot list`: the work is done in `crates/cache/src/`.

use super::place::SnapshotPlace;
use crate::snapshot::snapshot_json::render_snapshots_json;
use crate::snapshot::snapshot_text::SnapshotLine;
use crate::snapshot::snapshot_text::render_snapshots;
use crate::{OutputArguments, describe};
use cache::{Candidates, kept_elsewhere};
use terminal::Canvas;

/// Lists the snapshots, and marks of each cluster the one that a restore would take.
pub async fn list(place: &SnapshotPlace, output: OutputArguments) -> anyhow::Result<()> {
    let store = place.snapshots.open();
    let mut lines: Vec<SnapshotLine> = store.read_all()?.into_iter().map(SnapshotLine::read).collect();
    mark_taken(&mut lines, place).await?;
    match output.json {
        true => terminal::print_json(&render_snapshots_json(&lines))?,
        false if lines.is_empty() => {
            let directory = store.root().display();
            let more = match place.snapshots.find_owners(&place.connection) {
                Some(elsewhere) => format!("; {}", kept_elsewhere(&elsewhere)),
                None => " yet: `pgthaw snapshot take` makes one".to_owned(),
            };
            terminal::print_line(&format!("there is no snapshot in {directory}{more}"));
        }
        false => terminal::print_line(&render_snapshots(&lines, Canvas::of_stdout(false))),
    }
    Ok(())
}

async fn mark_taken(lines: &mut [SnapshotLine], place: &SnapshotPlace) -> anyhow::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let (known, unanswered) = place.ask_situation().await?;
    if let Some(error) = unanswered {
        terminal::print_remark(&format!("note: {}; these are the snapshots of every server", describe(&error)));
    }
    for of_cluster in
        lines.chunk_by_mut(|one, other| one.generation.system_identifier == other.generation.system_identifier)
    {
        let mut candidates = Candidates::default();
        for line in of_cluster.iter() {
            if let Ok(header) = &line.header {
                candidates.add(line.generation.clone(), header.clone());
            }
        }
        let selected = candidates.select(&known.of(of_cluster[0].generation.system_identifier));
        let taken = of_cluster
            .iter_mut()
            .find(|line| selected.as_ref().is_some_and(|selected| selected.holding.path == line.generation.path));
        taken.into_iter().for_each(|line| line.restore.clone_from(&selected));
    }
    Ok(())
}

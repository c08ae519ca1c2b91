//! Steps of the agent that use the table of the warm set or the history.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use jiff::Timestamp;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde_json::{Value, json};

use super::status::{name_of, render_history_name};
use crate::snapshot::take_into;
use crate::top::record_history;
use crate::{ExitStatus, OutputArguments, SnapshotPlace, Target, read_current_map};
use cache::{LastStart, Map, Snapshot, SnapshotHeader, compute_share, compute_warmth, decode_warm_set};
use host::failure::Explain as _;
use host::units::Bytes;
use observe::top::HistoryWriter;
use postgres::{Error, has_warm_set, read_warm_set, write_warm_set};

/// Labels of the agent's own snapshots, and of those from the primary.
pub const OWN_LABEL: &str = "agent";
pub const PRIMARY_LABEL: &str = "primary";

pub const KEPT: u16 = 12;
const KEPT_OF_PRIMARY: usize = 2;

pub async fn prepare_switchover(place: &SnapshotPlace, output: OutputArguments) -> Result<ExitStatus> {
    let target = Target::open(&place.connection).await?;
    let server = target.require_server()?;
    if server.facts.in_recovery {
        bail!("this server is a standby, and only the primary can write the warm set: run the command there");
    }
    let store = place.snapshots.open();
    let (snapshot, _) = take_into(&target, &store, Some(OWN_LABEL.to_owned()), KEPT, output).await?;
    let Some(answer) = write(&target, &snapshot.map, true, is_partial(place)).await? else {
        bail!(Error::NoWarmSet { database: server.database.clone() });
    };
    terminal::print_answer(&answer, output.json, || {
        format!(
            "wrote {} rows of the warm set ({}); each standby gets them with the WAL",
            answer["rows"],
            answer["bytes_text"].as_str().unwrap_or_default()
        )
    })?;
    Ok(ExitStatus::Done)
}

pub async fn share(snapshot: &Path, place: &SnapshotPlace, output: OutputArguments) -> Result<ExitStatus> {
    let target = Target::open(&place.connection).await?;
    let answer = write(&target, &Snapshot::read(snapshot)?.map, false, is_partial(place)).await?;
    let answer = answer.unwrap_or_else(|| json!({ "rows": null }));
    terminal::print_answer(&answer, output.json, || answer.to_string())?;
    Ok(ExitStatus::Done)
}

/// With `-d`, the snapshot lacks other databases.
fn is_partial(place: &SnapshotPlace) -> bool {
    place.connection.databases().is_ok_and(|databases| !databases.is_empty())
}

/// `None` without the table.
async fn write(target: &Target, map: &Map, everything: bool, is_partial: bool) -> Result<Option<Value>> {
    let server = target.require_server()?;
    let mut connection = server.connect_to(&server.database).await?;
    if !has_warm_set(&mut connection).await? {
        return Ok(None);
    }
    let old = read_warm_set(&mut connection).await?;
    let started_at = if let LastStart::At(start) = target.last_start() { start } else { Timestamp::UNIX_EPOCH };
    let share = compute_share(old.as_ref(), map, started_at, everything, is_partial);
    if let Some(state) = &share.state {
        write_warm_set(&mut connection, state, &share.changed, &share.gone).await?;
    }
    Ok(Some(json!({
        "taken_at": map.taken_at,
        "rows": share.changed.len(),
        "removed": share.gone.len(),
        "postponed": share.postponed,
        "is_colder": share.state.is_none(),
        "bytes": share.written,
        "bytes_text": share.written.to_string(),
    })))
}

pub async fn record(history: Duration, place: &SnapshotPlace) -> Result<ExitStatus> {
    // The agent may get SIGKILL.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let target = Target::open(&place.connection).await?;
    let server = target.require_server()?;
    let directory = place.snapshots.open().cluster_directory(server.facts.system_identifier);
    let name = name_of(&server.describe(), place.connection.container.as_deref());
    let path = directory.join(render_history_name(&name));
    record_history(target, HistoryWriter::new(path, history)).await?;
    Ok(ExitStatus::Done)
}

pub async fn receive(place: &SnapshotPlace, output: OutputArguments) -> Result<ExitStatus> {
    let target = Target::open(&place.connection).await?;
    let server = target.require_server()?;
    let store = place.snapshots.open();
    let mut connection = server.connect_to(&server.database).await?;
    let Some(set) = read_warm_set(&mut connection).await? else {
        terminal::print_json(&json!({ "warmth": null }))?;
        return Ok(ExitStatus::Done);
    };
    drop(connection);
    let now = read_current_map(&target, &store, false).await?;
    let (identifier, rows) = (set.state.system_identifier, set.rows.len() + set.refused);
    if identifier != now.source.system_identifier {
        bail!(Error::WarmSetOfOther { identifier });
    }
    let (wanted, refused) = decode_warm_set(set, now.source.clone());
    if rows > 0 && wanted.relations.is_empty() {
        bail!("no row of the warm set is readable ({rows} rows)");
    }
    let warmth = compute_warmth(&wanted, &now);
    let bytes = |blocks: u64| Bytes(blocks * u64::from(now.source.block_size));
    let mut stored = store.read_generations(now.source.system_identifier)?;
    stored.retain(|one| one.label() == Some(PRIMARY_LABEL));
    let taken_at = wanted.taken_at;
    // Another standby on this host may remove its own snapshots.
    let is_known = |header: SnapshotHeader| {
        header.taken_at == taken_at && header.source.data_directory == now.source.data_directory
    };
    let known = stored.iter().find(|one| one.read_unverified().is_ok_and(is_known));
    let (name, failure) = match known {
        Some(known) => (Some(known.name.clone()), None),
        None => match store.keep(&Snapshot::new(wanted, Some(PRIMARY_LABEL.to_owned()))) {
            Ok(generation) => {
                let _ = store.prune(&generation, KEPT_OF_PRIMARY, None);
                (Some(generation.name), None)
            }
            // On a full disk, an older snapshot is better than none.
            Err(error) => (stored.first().map(|one| one.name.clone()), Some(error.with_hint())),
        },
    };
    let text = format!("left out {refused} of {rows} rows of the warm set, which are not readable");
    let failure = failure.or((refused > 0).then_some(text));
    let answer = json!({
        "snapshot": name,
        "failure": failure,
        "taken_at": taken_at,
        "rows": rows,
        "refused_rows": refused,
        "warmth": warmth,
        "wanted_bytes": bytes(warmth.wanted_blocks),
        "missing_bytes": bytes(warmth.missing_blocks),
        "os_bytes": bytes(now.os_blocks()),
        "buffers_bytes": bytes(now.buffer_blocks()),
    });
    terminal::print_answer(&answer, output.json, || answer.to_string())?;
    Ok(ExitStatus::Done)
}

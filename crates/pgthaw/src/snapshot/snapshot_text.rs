use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::map::view::merge;
use cache::{
    Change, Difference, Error, ForkDifference, Generation, Holding, Reason, RelationDifference, Selected,
    SnapshotHeader, TierDifference, TierState,
};
use host::failure::quote_argument;
use host::units::{Bytes, counted};
use terminal::{Canvas, Column, database_column, pasted_path, printable, render_age, render_columns};

#[derive(Debug)]
pub struct SnapshotLine {
    pub generation: Generation,
    pub file_bytes: Bytes,
    pub header: Result<SnapshotHeader, String>,
    /// `Some` only for the snapshot that a restore would choose.
    pub restore: Option<Selected>,
}

impl SnapshotLine {
    pub fn read(generation: Generation) -> SnapshotLine {
        let header = generation.read_header().map_err(|error| error.to_string());
        let file_bytes = Bytes(std::fs::metadata(&generation.path).map_or(0, |metadata| metadata.len()));
        SnapshotLine { generation, file_bytes, header, restore: None }
    }
}

#[derive(Debug)]
pub struct Taken {
    pub header: SnapshotHeader,
    pub path: PathBuf,
    pub file_bytes: Bytes,
    pub keep: u16,
    pub dropped: Vec<Generation>,
    pub restore: Option<Selected>,
}

impl Taken {
    /// For a snapshot in a file that the user chose, not in the directory of snapshots.
    pub fn alone(header: SnapshotHeader, path: PathBuf) -> std::io::Result<Taken> {
        let file_bytes = Bytes(std::fs::metadata(&path)?.len());
        Ok(Taken { header, path, file_bytes, keep: 0, dropped: Vec::new(), restore: None })
    }

    /// The snapshot that a restore would choose instead; if it would choose this one, `Selected::warmer`.
    pub fn warmer(&self) -> Option<&Holding> {
        let selected = self.restore.as_ref()?;
        match selected.holding.path == self.path {
            true => selected.warmer.as_ref(),
            false => Some(&selected.holding),
        }
    }
}

pub fn render_snapshots(lines: &[SnapshotLine], canvas: Canvas) -> String {
    let texts = |text: &dyn Fn(&SnapshotLine) -> String| -> Vec<String> { lines.iter().map(text).collect() };
    let of_header = |text: &dyn Fn(&SnapshotHeader) -> String| -> Vec<String> {
        texts(&|line| line.header.as_ref().map(text).unwrap_or_default())
    };
    let bytes = |header: &SnapshotHeader, state: &TierState, blocks: u64| match state {
        TierState::Measured => bytes_of(header, blocks).to_string(),
        TierState::Unknown { .. } => "?".to_owned(),
    };
    let marks = texts(&|line| if line.restore.is_some() { "*" } else { "" }.to_owned());
    let mut columns = vec![Column::word("", 0, marks)];
    columns.push(Column::text("snapshot", 24, texts(&|line| printable(&line.generation.name).into_owned())));
    let first = lines.first().map(|line| line.generation.system_identifier);
    let has_several = lines.iter().any(|line| Some(line.generation.system_identifier) != first);
    if has_several {
        columns.push(Column::word("cluster", 1, texts(&|line| line.generation.system_identifier.to_string())));
    }
    columns.push(Column::word("taken (UTC)", 3, of_header(&|header| header.taken_at.strftime("%F %T").to_string())));
    columns.push(Column::number("relations", 4, of_header(&|header| header.relations.to_string())));
    columns.push(Column::number("OS", 1, of_header(&|header| bytes(header, &header.os, header.os_blocks))));
    let buffers = of_header(&|header| bytes(header, &header.buffers, header.buffer_blocks));
    columns.push(Column::number("buffers", 1, buffers));
    columns.push(Column::number("file", 2, texts(&|line| line.file_bytes.to_string())));
    let trouble = texts(&|line| line.header.as_ref().err().map(|why| printable(why).into_owned()).unwrap_or_default());
    if trouble.iter().any(|why| !why.is_empty()) {
        columns.push(Column::text("cannot be read", 20, trouble));
    }
    let mut table = render_columns(columns, canvas.width, canvas.mark());
    for (line, selected) in lines.iter().filter_map(|line| Some((line, line.restore.as_ref()?))) {
        let cluster = has_several.then_some(line.generation.system_identifier);
        table.extend(prefix(&list_mark(selected, cluster), render_selected(selected)));
    }
    table.join("\n")
}

/// Mentions `pgthaw restore` only if it would restore this cluster.
fn list_mark(selected: &Selected, cluster: Option<u64>) -> String {
    match (selected.reason, cluster) {
        (Reason::WarmestStartUnknown, Some(cluster)) => format!("* a restore of cluster {cluster} uses "),
        (Reason::WarmestStartUnknown, None) => "* once its server runs, `pgthaw restore` uses ".to_owned(),
        _ => "* `pgthaw restore` uses ".to_owned(),
    }
}

pub fn render_snapshot_head(name: &str, header: &SnapshotHeader) -> String {
    let source = &header.source;
    // Names in the store end with the label.
    let label = header.label.as_ref().filter(|label| !name.ends_with(*label));
    let label = label.map(|label| format!(" ({})", printable(label))).unwrap_or_default();
    let place = match source.lsn.as_str() {
        "" => String::new(),
        lsn => format!(", LSN {} on timeline {}", printable(lsn), source.timeline),
    };
    format!(
        "snapshot {} of {} UTC{label}: PostgreSQL {}, cluster {}{place}",
        printable(name),
        header.taken_at.strftime("%F %T"),
        source.version_num / 10_000,
        source.system_identifier
    )
}

pub fn render_taken(taken: &Taken) -> String {
    let Taken { header, path, file_bytes, keep, dropped, .. } = taken;
    let amount = |state: &TierState, blocks| (*state == TierState::Measured).then(|| bytes_of(header, blocks));
    let content = match (amount(&header.os, header.os_blocks), amount(&header.buffers, header.buffer_blocks)) {
        (Some(os), Some(buffers)) => format!("{os} of the OS page cache and {buffers} of shared_buffers"),
        (Some(os), None) => format!("{os} of the OS page cache, without shared_buffers (not visible)"),
        (None, Some(buffers)) => format!("{buffers} of shared_buffers, without the OS page cache (not visible)"),
        (None, None) => "neither cache (not visible)".to_owned(),
    };
    let mut lines = vec![format!(
        "snapshot of {content} ({})\n  {} ({file_bytes})",
        counted(header.relations as usize, "relation"),
        pasted_path(path)
    )];
    lines.extend(dropped.iter().map(|old| format!("dropped {} (--keep {keep})", old.name)));
    lines.join("\n")
}

pub fn render_other(shown: &Path, selected: &Selected) -> Option<String> {
    let Holding { name, path, .. } = &selected.holding;
    (path != shown).then(|| format!("note: `pgthaw restore` uses another snapshot: {}", printable(name)))
}

pub fn render_dropped(dropped: &Generation, was_taken: bool, restore: Option<&Selected>) -> String {
    let mut lines = vec![format!("dropped {}", pasted_path(&dropped.path))];
    match restore {
        Some(selected) if was_taken => lines.extend(prefix("`pgthaw restore` now uses ", render_selected(selected))),
        None if was_taken => lines.push("no snapshot is left for `pgthaw restore`".to_owned()),
        _ => {}
    }
    lines.join("\n")
}

pub fn render_passed_over(taken: &Taken) -> Vec<String> {
    let Some(selected) = &taken.restore else { return Vec::new() };
    match (selected.holding.path == taken.path, &selected.warmer) {
        (true, None) => Vec::new(),
        // The server never restarted, so the newest snapshot is chosen although another is warmer.
        (true, Some(_)) => prefix("note: `pgthaw restore` uses this ", render_selected(selected)),
        (false, _) => prefix("note: `pgthaw restore` does not use this new snapshot, but ", render_selected(selected)),
    }
}

pub fn prefix(before: &str, mut lines: Vec<String>) -> Vec<String> {
    lines.iter_mut().take(1).for_each(|line| line.insert_str(0, before));
    lines
}

fn bytes_of(header: &SnapshotHeader, blocks: u64) -> Bytes {
    Bytes(blocks * u64::from(header.source.block_size))
}

pub fn render_verdicts(verdicts: &[(PathBuf, Option<Error>)], directory: &Path) -> String {
    let render = |(path, error): &(PathBuf, Option<Error>)| match error {
        None => format!("intact   {}", pasted_path(path)),
        Some(error) if error.is_damage() => format!("DAMAGED  {}", printable(&error.to_string())),
        Some(error) => format!("UNREAD   {}", printable(&error.to_string())),
    };
    match verdicts {
        [] => format!("there is no snapshot to verify in {}", printable(&directory.display().to_string())),
        verdicts => verdicts.iter().map(render).collect::<Vec<String>>().join("\n"),
    }
}

/// Changed relations, most changed first; `top` of 0 means all.
pub fn render_difference(difference: &Difference<'_>, block_size: u32, top: usize, canvas: Canvas) -> String {
    let mut changed: Vec<&RelationDifference<'_>> =
        difference.relations.iter().filter(|one| weight(one) > 0 || one.change != Change::Same).collect();
    changed.sort_by_key(|one| std::cmp::Reverse(weight(one)));
    let shown = if top == 0 { changed.len() } else { top.min(changed.len()) };
    let (rows, rest) = changed.split_at(shown);
    let mut lines = render_columns(difference_columns(difference, rows, block_size), canvas.width, canvas.mark());
    if !rest.is_empty() {
        lines.push(format!("and {} with smaller changes", counted(rest.len(), "relation")));
    }
    let same = difference.relations.len() - changed.len();
    lines.push(format!("{} unchanged", counted(same, "relation")));
    let unseen = [(difference.has_os, "the OS page cache"), (difference.has_buffers, "shared_buffers")];
    let unseen = unseen.iter().filter(|(is_seen, _)| !is_seen);
    lines.extend(unseen.map(|(_, tier)| format!("note: {tier} is unknown in one of the two snapshots")));
    lines.join("\n")
}

fn weight(one: &RelationDifference<'_>) -> u64 {
    one.os().changed() + one.buffers().changed()
}

fn difference_columns(difference: &Difference<'_>, rows: &[&RelationDifference<'_>], block_size: u32) -> Vec<Column> {
    let bytes = |blocks: u64| Bytes(blocks * u64::from(block_size)).to_string();
    let texts = |text: &dyn Fn(&RelationDifference<'_>) -> String, total: String| -> Vec<String> {
        rows.iter().map(|one| text(one)).chain([total]).collect()
    };
    let size = |one: &RelationDifference<'_>| match one.blocks() {
        (before, after) if before == after => bytes(after),
        // Both sizes would be rounded to the same text.
        (before, after) if bytes(before) == bytes(after) => {
            let sign = if after > before { "+" } else { "-" };
            format!("{} ({sign}{})", bytes(after), bytes(before.abs_diff(after)))
        }
        (before, after) => format!("{} > {}", bytes(before), bytes(after)),
    };
    let name = |one: &RelationDifference<'_>| match one.relation.name.schema.is_empty() {
        true => printable(&one.relation.name.name).into_owned(),
        false => printable(&one.relation.name.to_string()).into_owned(),
    };
    let names: Vec<String> = rows.iter().map(|one| name(one)).collect();
    let mut columns = vec![
        Column::text("relation", 24, texts(&name, "total".to_owned())),
        database_column(
            6,
            texts(&|one| printable(&one.relation.name.database).into_owned(), String::new()),
            names.iter().zip(rows).map(|(name, one)| (&**name, &*one.relation.name.database)),
        ),
        // Distinguishes dropped relations from evicted ones.
        Column::word("change", 1, texts(&|one| one.change.name().to_owned(), String::new())),
        Column::word("size", 5, texts(&size, String::new())),
    ];
    let amount = |sign: &str, blocks: u64| if blocks == 0 { String::new() } else { format!("{sign}{}", bytes(blocks)) };
    let mut tier =
        |titles: [&'static str; 3], of: &dyn Fn(&RelationDifference<'_>) -> TierDifference, total: TierDifference| {
            let gained = texts(&|one| amount("+", of(one).gained), amount("+", total.gained));
            let lost = texts(&|one| amount("-", of(one).lost), amount("-", total.lost));
            let kept = texts(&|one| amount("", of(one).kept), amount("", total.kept));
            columns.push(Column::number(titles[0], 1, gained));
            columns.push(Column::number(titles[1], 1, lost));
            columns.push(Column::number(titles[2], 4, kept));
        };
    if difference.has_os {
        tier(["OS +", "OS -", "OS kept"], &|one| one.os(), difference.os());
    }
    if difference.has_buffers {
        tier(["buffers +", "buffers -", "buffers kept"], &|one| one.buffers(), difference.buffers());
    }
    columns
}

/// All lines but the first are indented.
pub fn render_selected(selected: &Selected) -> Vec<String> {
    let Selected { holding, warmer, .. } = selected;
    let head = format!("snapshot {}, {}", printable(&holding.name), render_when(holding));
    let mut lines = vec![head, format!("  {}", render_held(holding)), format!("  why: {}", render_reason(selected))];
    if !selected.dropped_databases.is_empty() {
        let names: Vec<String> = selected.dropped_databases.iter().map(|name| printable(name).into()).collect();
        lines.push(format!("    not counted (databases dropped since then): {}", names.join(", ")));
    }
    if let Some(warmer) = warmer {
        let name = printable(&warmer.name);
        lines.push(format!("  a warmer one: {name}, {}", render_when(warmer)));
        lines.push(format!("    {}", render_held(warmer)));
        lines.push(format!("    `pgthaw restore {}`", quote_argument(&warmer.name)));
    }
    lines
}

pub fn render_reason(selected: &Selected) -> String {
    let start = selected.server_started_at.map(|at| format!(" of {} UTC", at.strftime("%F %H:%M"))).unwrap_or_default();
    match selected.reason {
        Reason::Named => "given by name".to_owned(),
        Reason::NewestReadable => "the newest readable one, as requested".to_owned(),
        Reason::WarmestBeforeStart => format!("the warmest from before the server's start{start}"),
        Reason::AsWarmSinceStart => format!("the newest, 95 % as warm as any before the start{start}"),
        Reason::NewestSinceStart => "the newest non-empty snapshot; none is from before the server's start".to_owned(),
        Reason::WarmestOfAll => "the warmest of all: while no server runs, any snapshot may be chosen".to_owned(),
        Reason::WarmestStartUnknown => {
            "the warmest of all; no server responds, so its start time is unknown".to_owned()
        }
    }
}

fn render_when(holding: &Holding) -> String {
    match holding.age_seconds {
        ..0 => format!("dated {} UTC, in the future", holding.taken_at.strftime("%F %T")),
        _ => format!("taken {}", render_age(holding.taken_at)),
    }
}

fn render_held(holding: &Holding) -> String {
    match (holding.os_bytes, holding.buffers_bytes) {
        (Some(os), Some(buffers)) => format!("holds {os} of the page cache and {buffers} of shared_buffers"),
        (Some(os), None) => format!("holds {os} of the page cache; shared_buffers were not visible"),
        (None, Some(buffers)) => format!("holds {buffers} of shared_buffers; the page cache was not visible"),
        (None, None) => "holds nothing".to_owned(),
    }
}

// Field names are stable: docs/formats.md.

pub fn render_snapshots_json(lines: &[SnapshotLine]) -> Value {
    let render = |line: &SnapshotLine| {
        json!({
            "name": line.generation.name,
            "system_identifier": line.generation.system_identifier.to_string(),
            "path": line.generation.path,
            "file_bytes": line.file_bytes,
            "header": line.header.as_ref().ok(),
            "error": line.header.as_ref().err(),
            "restore": line.restore,
        })
    };
    json!({ "snapshots": lines.iter().map(render).collect::<Vec<Value>>() })
}

pub fn render_taken_json(taken: &Taken) -> Value {
    let blocks = |bytes: Option<Bytes>| bytes.map_or(0, |bytes| bytes.0 / u64::from(taken.header.source.block_size));
    let warmer = taken.warmer().map(|one| {
        let (os, buffers) = (blocks(one.os_bytes), blocks(one.buffers_bytes));
        json!({ "name": one.name, "path": one.path, "os_blocks": os, "buffers_blocks": buffers })
    });
    json!({
        "path": taken.path,
        "file_bytes": taken.file_bytes,
        "header": taken.header,
        "dropped": taken.dropped.iter().map(|old| &old.name).collect::<Vec<&String>>(),
        "warmer": warmer,
        "restore": taken.restore,
    })
}

pub fn render_verdicts_json(verdicts: &[(PathBuf, Option<Error>)]) -> Value {
    let render = |(path, error): &(PathBuf, Option<Error>)| json!({ "path": path, "is_whole": error.is_none(), "error": error.as_ref().map(Error::to_string) });
    json!({ "snapshots": verdicts.iter().map(render).collect::<Vec<Value>>() })
}

/// Includes unchanged relations. `since`: why pgthaw chose the earlier snapshot; `None` if the user did.
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
        let (kind, change) = (one.relation.kind.name(), one.change.name());
        merge([json!(one.relation.name), json!({ "kind": kind, "change": change, "forks": render_forks(one) })])
    };
    json!({
        "snapshot": since,
        "block_size": block_size,
        "os": tier(difference.has_os, difference.os()),
        "buffers": tier(difference.has_buffers, difference.buffers()),
        "relations": difference.relations.iter().map(render).collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod the_one_that_is_restored_tests {
    use jiff::Timestamp;

    use super::*;
    use host::units::Bytes;

    #[test]
    fn every_line_fits_a_terminal() {
        let holding = Holding {
            name: "20261122-213005.123-before-the-upgrade".into(),
            path: "x.parquet".into(),
            taken_at: Timestamp::UNIX_EPOCH,
            age_seconds: 1,
            os_bytes: Some(Bytes(12_345_678_901)),
            buffers_bytes: None,
        };
        let name = "20261122-213005.123-$(before-upgrade)".to_owned();
        let over_sql = Holding { name, os_bytes: None, buffers_bytes: Some(Bytes(999_900_000_000)), ..holding.clone() };
        let to_come = Holding { name: "20261122-213005.123".into(), age_seconds: -1, ..holding.clone() };
        for reason in [
            Reason::Named,
            Reason::NewestReadable,
            Reason::WarmestBeforeStart,
            Reason::AsWarmSinceStart,
            Reason::NewestSinceStart,
            Reason::WarmestOfAll,
            Reason::WarmestStartUnknown,
        ] {
            for holding in [&holding, &over_sql, &to_come] {
                let selected = Selected {
                    holding: holding.clone(),
                    reason,
                    server_started_at: Some(Timestamp::UNIX_EPOCH),
                    warmer: Some(over_sql.clone()),
                    dropped_databases: vec!["shop".into(), "archive_2025".into()],
                };
                let lines = render_selected(&selected);
                assert!(lines.iter().all(|line| line.len() < 80), "{lines:#?}");
                let command = "    `pgthaw restore '20261122-213005.123-$(before-upgrade)'`";
                assert_eq!(lines.last().map(String::as_str), Some(command));
            }
        }
    }
}

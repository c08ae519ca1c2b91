//! `pgthaw evict`; the work is in `crates/cache/src/warm/evict.rs`.

use std::collections::BTreeMap;

use clap::Args;

use super::restore::tiers;
use super::{
    ConnectionArguments, ExitStatus, LabArguments, OutputArguments, PositionalArguments, SelectionArguments,
    SnapshotsArguments, Target, read_current_map, require_lab_server,
};
use crate::map::view::keep_places;
use crate::warm_progress::{WarmProgress, end_in_good_order};
use cache::warm::Error;
use cache::warm::evict::{BuffersStay, EvictReceipt, EvictedFork, EvictedTier, Eviction, Stay, StayReason};
use cache::{Map, Selection};
use host::failure::ErrorKind;
use host::units::Bytes;
use postgres::RelationName;
use terminal::{Canvas, Column, printable, render_columns};

/// Evict relations, databases or the cluster from both caches
///
/// Prepares measurements of cold starts. Evicting from the OS page cache needs no root; pgthaw flushes the files first. Evicting from
/// shared_buffers needs PostgreSQL 17 or later. A server of an older version must be restarted (exit status 3 unless --tier os).
/// pgthaw then checks both caches, and prints which blocks remain and why. Servers other than lab servers require --yes.
#[derive(Debug, Args)]
pub struct EvictArguments {
    #[command(flatten)]
    positional: PositionalArguments,

    #[command(flatten)]
    selection: SelectionArguments,

    /// Evict all relations of all databases
    #[arg(long)]
    all: bool,

    /// Cache to evict from: os, buffers or both (default)
    #[arg(long, value_parser = ["os", "buffers", "both"], default_value = "both")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    tier: String,

    /// Drop the whole page cache of this machine (root only)
    ///
    /// This includes other programs' files.
    #[arg(long)]
    drop_caches: bool,

    /// Print the cached data; evict nothing
    #[arg(long)]
    dry_run: bool,

    /// Print a row for every relation
    #[arg(short, long, hide_short_help = true)]
    verbose: bool,

    #[command(flatten)]
    snapshots: SnapshotsArguments,

    #[command(flatten)]
    lab: LabArguments,

    #[command(flatten)]
    connection: ConnectionArguments,
}

pub async fn run(arguments: EvictArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let (named, selection) = (arguments.named(), arguments.selection.selection());
    if !arguments.all && named.databases.is_empty() && selection == Selection::default() {
        return Err(Error::NothingNamed.into());
    }
    let target = Target::open(&named).await?;
    if !arguments.dry_run {
        require_lab_server(&target, &arguments.lab, "evicting")?;
    }
    let control = end_in_good_order();
    let map =
        arguments.choose(read_current_map(&target, &arguments.snapshots.open(), output.shows_progress()).await?)?;
    let progress = WarmProgress::new(output.shows_progress());
    let eviction = Eviction {
        map: &map,
        tiers: tiers(&arguments.tier),
        is_whole_cluster: arguments.all,
        drop_caches: arguments.drop_caches,
        is_dry_run: arguments.dry_run,
        server: target.server.as_ref(),
        directory: target.data_directory.as_ref().map(|directory| &*directory.path),
        page_cache: &target.page_cache(),
        control: &control,
        watcher: &progress,
    };
    let receipt = eviction.run().await;
    progress.finish();
    let mut receipt = receipt?;
    receipt.remarks.splice(0..0, map.remarks);
    terminal::print_answer(&receipt, output.json, || {
        render_evict_receipt(&receipt, arguments.verbose, Canvas::of_stdout(false).width)
    })?;
    Ok(match receipt {
        EvictReceipt { is_interrupted: true, .. } => ExitStatus::Because(ErrorKind::Interrupted),
        // The server's version cannot evict from shared_buffers, so they stay warm.
        EvictReceipt { buffers_stay: true, .. } => ExitStatus::Because(ErrorKind::Privilege),
        _ => ExitStatus::Done,
    })
}

impl EvictArguments {
    pub fn named(&self) -> ConnectionArguments {
        self.connection.clone().with(self.positional.clone())
    }

    /// Keeps only relations to evict. With `-d`, this excludes the shared catalogs, which other commands include.
    fn choose(&self, mut map: Map) -> anyhow::Result<Map> {
        let places = map.select(&self.selection.selection())?;
        let databases = self.named().databases()?;
        keep_places(&mut map, &places, |one| {
            self.all || databases.is_empty() || databases.contains(&one.relation.name.database)
        });
        Ok(map)
    }
}

pub fn render_evict_receipt(receipt: &EvictReceipt, is_verbose: bool, width: Option<usize>) -> String {
    let mut lines = Vec::new();
    if is_verbose && !receipt.relations.is_empty() {
        lines.extend(render_relations(&receipt.relations, width));
        lines.push(String::new());
    }
    lines.extend(receipt.os.map(|tier| tier_line("page cache", tier, receipt.is_dry_run)));
    lines.extend(receipt.buffers.map(|tier| tier_line("shared_buffers", tier, receipt.is_dry_run)));
    lines.extend(render_stayed(&receipt.stayed));
    lines.extend(render_buffers_stayed(&receipt.buffers_stayed));
    if receipt.is_interrupted {
        lines.push("stopped early: interrupted".to_owned());
    }
    lines.extend(receipt.remarks.iter().map(|remark| format!("note: {}", printable(remark))));
    lines.join("\n")
}

fn tier_line(name: &str, tier: EvictedTier, is_dry_run: bool) -> String {
    let amount = |bytes: Option<Bytes>| bytes.map_or("unknown".to_owned(), |bytes| bytes.to_string());
    let before = amount(tier.resident_before_bytes);
    match tier.resident_after_bytes {
        None if is_dry_run => format!("{name}: would evict {before}"),
        after => format!("{name}: {before} before, {} after", amount(after)),
    }
}

fn render_relations(forks: &[EvictedFork], width: Option<usize>) -> Vec<String> {
    let cells = |cell: &dyn Fn(&EvictedFork) -> String| forks.iter().map(cell).collect::<Vec<String>>();
    let after = |row: &EvictedFork| row.resident_after_bytes.map_or("unknown".to_owned(), |bytes| bytes.to_string());
    let columns = vec![
        Column::text("relation", 32, cells(&|row| printable(&row.name.to_string()).into_owned())),
        Column::word("fork", 0, cells(&|row| row.fork.to_string())),
        Column::number("before", 0, cells(&|row| row.resident_before_bytes.to_string())),
        Column::number("after", 0, cells(&after)),
    ];
    render_columns(columns, width, "…")
}

fn render_stayed(stayed: &[Stay]) -> Vec<String> {
    let mut reasons: BTreeMap<StayReason, Vec<&Stay>> = BTreeMap::new();
    stayed.iter().for_each(|stay| reasons.entry(stay.reason).or_default().push(stay));
    let line = |(reason, stays): (StayReason, Vec<&Stay>)| {
        let bytes: Bytes = stays.iter().map(|stay| stay.bytes).sum();
        let names = render_names(stays.iter().map(|stay| &stay.name));
        let detail = stays.iter().find_map(|stay| stay.detail.as_deref());
        let detail = detail.map(|detail| format!(": {}", printable(detail))).unwrap_or_default();
        format!("{bytes} of {names} stayed in the page cache: {}{detail}", reason_words(reason))
    };
    reasons.into_iter().map(line).collect()
}

/// Reports buffers that remain: pinned, or read again, such as catalogs for a new connection.
fn render_buffers_stayed(stayed: &[BuffersStay]) -> Option<String> {
    let bytes: Bytes = stayed.iter().map(|stay| stay.bytes).sum();
    let names = render_names(stayed.iter().map(|stay| &stay.name));
    let text = format!("{bytes} of {names} stayed in shared_buffers: the server was using them or read them again");
    (!stayed.is_empty()).then_some(text)
}

pub fn render_names<'a>(names: impl Iterator<Item = &'a RelationName>) -> String {
    let mut names: Vec<String> = names.map(|name| printable(&name.to_string()).into_owned()).collect();
    names.dedup();
    let more = names.len().saturating_sub(3);
    names.truncate(3);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.join(", ") + &more
}

fn reason_words(reason: StayReason) -> &'static str {
    match reason {
        StayReason::Dirty => "modified again after the flush",
        StayReason::Writeback => "still being written to disk",
        StayReason::ServerRuns => "the running server was using it or read it again",
        StayReason::InUse => "another process has mapped or locked the pages",
        StayReason::Refused => "the eviction failed",
    }
}

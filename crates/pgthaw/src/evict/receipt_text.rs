//! The receipt of an eviction, as text.

use std::collections::BTreeMap;

use cache::warm::evict::{BuffersStay, EvictReceipt, EvictedFork, EvictedTier, Stay, StayReason};
use host::units::Bytes;
use postgres::RelationName;
use terminal::{Column, printable, render_columns};

/// What went and what stayed, in a few lines; with `is_verbose` also a row for every fork, no wider than `width`.
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
    match is_dry_run {
        true => format!("{name}: would evict {before}"),
        false => format!("{name}: {before} before, {} after", amount(tier.resident_after_bytes)),
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
        format!("stayed: {bytes} of {names}: {}{detail}", reason_words(reason))
    };
    reasons.into_iter().map(line).collect()
}

/// Pinned buffers, and those that the server has read again since: it does when a connection looks at its catalogs.
fn render_buffers_stayed(stayed: &[BuffersStay]) -> Option<String> {
    let bytes: Bytes = stayed.iter().map(|stay| stay.bytes).sum();
    let names = render_names(stayed.iter().map(|stay| &stay.name));
    let text = format!("stayed in shared_buffers: {bytes} of {names}: the server was using them, or read them again");
    (!stayed.is_empty()).then_some(text)
}

/// The first three, and how many more there are.
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
        StayReason::Dirty => "written again since",
        StayReason::Writeback => "being written",
        StayReason::ServerRuns => "the server runs and read it again, or was using it",
        StayReason::InUse => "another process has it mapped or locked",
        StayReason::Refused => "refused",
    }
}

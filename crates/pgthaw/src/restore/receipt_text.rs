//! The receipt of a restore as text.

use std::collections::BTreeMap;

use crate::snapshot::snapshot_text::render_selected;
use cache::warm::plan::Forecast;
use cache::warm::{
    BuffersForecast, DeviceProfile, FoundAs, MemoryReceipt, PlannedDevice, ProfileSource, Receipt, RelationReceipt,
    SkipReason, Skipped, StopReason, Tier, TierReceipt, TrafficReceipt,
};
use host::linux::machine::MemoryBound;
use host::units::{Bytes, Fork, counted};
use terminal::{Column, printable, render_age, render_columns};

const DETAILS_MAX: usize = 3;

/// `is_verbose` adds a row for every relation. Tables are at most `width` cells wide.
pub fn render_receipt(receipt: &Receipt, is_verbose: bool, width: Option<usize>) -> String {
    let mut lines: Vec<String> = receipt.snapshot.iter().flat_map(render_selected).collect();
    if is_verbose {
        lines.push(String::new());
        lines.extend(render_relations(receipt, width));
        lines.push(String::new());
    }
    match receipt.is_dry_run {
        true => lines.extend(render_forecast(receipt)),
        false => lines.extend(render_tiers(receipt, width)),
    }
    lines.extend(receipt.os.map(|_| render_planned_device(&receipt.device)));
    lines.extend(render_rewritten(receipt));
    lines.extend(receipt.no_double.map(|double| {
        format!(
            "of what is in shared_buffers the page cache holds {}, {} before",
            double.cached_after_bytes, double.cached_before_bytes
        )
    }));
    lines.extend(render_skipped(receipt));
    lines.extend(render_traffic(&receipt.traffic));
    lines.extend(render_reread(receipt.memory.reread_bytes));
    lines.extend(render_read_over(receipt.memory));
    lines.extend(receipt.stopped_by.map(|reason| format!("stopped early: {}", stop_words(reason, receipt.memory))));
    lines.extend(receipt.remarks.iter().map(|remark| format!("note: {}", printable(remark))));
    lines.join("\n")
}

fn render_forecast(receipt: &Receipt) -> Vec<String> {
    let resident = |tier: &TierReceipt| match (tier.asked_bytes, tier.resident_before_bytes) {
        (Bytes(0), _) => "nothing is asked for".to_owned(),
        (asked, Some(before)) => format!("{before} of {asked} asked for are resident already"),
        (asked, None) => format!("{asked} are asked for; how much of it is resident already is unknown"),
    };
    let os = receipt.os.map(|os| {
        let Forecast { read_bytes, reads, seconds, .. } = receipt.forecast;
        let resident = resident(&os);
        format!("would read {read_bytes} in {}, {seconds:.1} s of the device; {resident}", counted(reads, "read"))
    });
    let buffers = receipt.buffers.zip(receipt.buffers_forecast).map(|(buffers, forecast)| {
        let BuffersForecast { load_bytes, statements, .. } = forecast;
        let resident = resident(&buffers);
        format!("would load {load_bytes} into shared_buffers in {statements} statements; {resident}")
    });
    os.into_iter().chain(buffers).collect()
}

fn render_planned_device(device: &PlannedDevice) -> String {
    let DeviceProfile { reads_per_second, bandwidth, largest_read, .. } = device.profile;
    let source = match device.source {
        ProfileSource::Told => "as told".to_owned(),
        ProfileSource::Probed { measured_at } => format!("measured {}", render_age(measured_at)),
        ProfileSource::Default => "a common cloud volume; `pgthaw doctor --probe` measures this one".to_owned(),
    };
    let bandwidth = bandwidth.per_second();
    format!("planned for {reads_per_second:.0} reads/s and {bandwidth}, reads up to {largest_read}: {source}")
}

fn render_tiers(receipt: &Receipt, width: Option<usize>) -> Vec<String> {
    let tiers = [(Tier::Os, receipt.os), (Tier::Buffers, receipt.buffers)];
    let tiers: Vec<(Tier, TierReceipt)> = tiers.into_iter().filter_map(|(tier, sums)| Some((tier, sums?))).collect();
    let cells = |cell: &dyn Fn(&(Tier, TierReceipt)) -> String| tiers.iter().map(cell).collect::<Vec<String>>();
    let columns = vec![
        Column::word("tier", 0, cells(&|(tier, _)| tier.name().to_owned())),
        Column::number("asked", 0, cells(&|(_, sums)| sums.asked_bytes.to_string())),
        Column::number("before", 0, cells(&|(_, sums)| share(sums.resident_before_bytes, sums.asked_bytes))),
        Column::number("after", 0, cells(&|(_, sums)| share(sums.resident_after_bytes, sums.asked_bytes))),
        Column::number("read", 1, cells(&|(_, sums)| sums.read_bytes.to_string())),
        Column::number("reads", 3, cells(&|(_, sums)| sums.reads.to_string())),
        Column::number("seconds", 2, cells(&|(_, sums)| format!("{:.1}", sums.seconds))),
    ];
    render_columns(columns, width, "…")
}

fn render_relations(receipt: &Receipt, width: Option<usize>) -> Vec<String> {
    let rows = &receipt.relations;
    let cells = |cell: &dyn Fn(&RelationReceipt) -> String| rows.iter().map(cell).collect::<Vec<String>>();
    let columns = vec![
        Column::text("relation", 32, cells(&|row| relation_name(&row.name.database, &row.name.to_string()))),
        Column::word("fork", 0, cells(&|row| row.fork.to_string())),
        Column::word("tier", 0, cells(&|row| row.tier.name().to_owned())),
        Column::number("asked", 0, cells(&|row| row.asked_bytes.to_string())),
        Column::number("before", 2, cells(&|row| share(row.resident_before_bytes, row.asked_bytes))),
        Column::number("after", 0, cells(&|row| share(row.resident_after_bytes, row.asked_bytes))),
        Column::number("read", 3, cells(&|row| row.read_bytes.to_string())),
        Column { priority: 1, ..Column::text("found", 12, cells(&|row| found_words(row, receipt.is_other_cluster))) },
    ];
    render_columns(columns, width, "…")
}

fn relation_name(database: &str, relation: &str) -> String {
    match database {
        "" => printable(relation).into_owned(),
        database => printable(&format!("{database}.{relation}")).into_owned(),
    }
}

/// `1.2 GB (80 %)`, rounded down: 100 % means all.
fn share(part: Option<Bytes>, whole: Bytes) -> String {
    match (part, whole.0) {
        (None, _) => "unknown".to_owned(),
        (Some(part), 0) => part.to_string(),
        (Some(part), whole) => format!("{part} ({} %)", (part.0 as f64 / whole as f64 * 100.0) as u64),
    }
}

fn found_words(row: &RelationReceipt, is_other_cluster: bool) -> String {
    let found = match row.found {
        FoundAs::SameFile => "",
        FoundAs::Moved => "in another tablespace",
        FoundAs::Emptied => "emptied",
        FoundAs::WholeRewritten if is_other_cluster => "another cluster's: all of it",
        FoundAs::WholeRewritten => "rewritten: all of it",
        FoundAs::NotFound => "not found",
    };
    match row.grown_blocks {
        0 => found.to_owned(),
        grown => format!("{found} grown by {}", counted(grown, "block")).trim_start().to_owned(),
    }
}

fn render_traffic(traffic: &TrafficReceipt) -> Option<String> {
    let TrafficReceipt { waiting_seconds, flowing_seconds, yielded_seconds, cost_seconds, .. } = traffic;
    let found = match (traffic.flowing_share, traffic.flowing_gain) {
        (Some(share), Some(gain)) if gain > 1.0 => format!(
            "; it took {:.0} % of the bandwidth in the end, for beside that the server worked {gain:.2} times as much as beside 93 %",
            share * 100.0
        ),
        _ => String::new(),
    };
    (*cost_seconds >= 0.1).then(|| {
        format!(
            "live traffic waited for the disk for {waiting_seconds:.1} s and flowed for {flowing_seconds:.1} s; yielding to it \
             for {yielded_seconds:.1} s cost {cost_seconds:.1} s (--pace full does not yield){found}"
        )
    })
}

fn render_rewritten(receipt: &Receipt) -> Option<String> {
    let is_rewritten =
        |row: &&RelationReceipt| row.tier == Tier::Os && row.fork == Fork::Main && row.found == FoundAs::WholeRewritten;
    let rewritten: Vec<&RelationReceipt> = receipt.relations.iter().filter(is_rewritten).collect();
    let asked: Bytes = rewritten.iter().map(|row| row.asked_bytes).sum();
    let sum = |of: fn(&RelationReceipt) -> Option<Bytes>| rewritten.iter().map(|row| of(row)).sum::<Option<Bytes>>();
    let before = sum(|row| row.resident_before_bytes);
    let came = match (before, sum(|row| row.resident_after_bytes)) {
        (Some(before), _) if receipt.is_dry_run => format!("{before} of it resident already"),
        (Some(before), Some(after)) => format!("{before} of it resident before and {after} after"),
        _ => "how much of it is resident is unknown".to_owned(),
    };
    let why = match receipt.is_other_cluster {
        true => "the snapshot is of another cluster, whose blocks lie otherwise",
        false => "rewritten since the snapshot, so that blocks lie otherwise",
    };
    let relations = counted(rewritten.len(), "relation");
    (!rewritten.is_empty()).then(|| format!("{why}: {relations} wanted as a whole, {asked}, {came}"))
}

fn render_skipped(receipt: &Receipt) -> Vec<String> {
    let block_size = u64::from(receipt.block_size);
    let asked = receipt.buffers.map_or(Bytes(0), |buffers| buffers.asked_bytes);
    let mut reasons: BTreeMap<(Tier, SkipReason), Vec<&Skipped>> = BTreeMap::new();
    for one in &receipt.skipped {
        reasons.entry((one.tier, one.reason)).or_default().push(one);
    }
    let mut lines = Vec::new();
    for ((tier, reason), skipped) in reasons {
        let blocks: u64 = skipped.iter().map(|one| one.blocks).sum();
        let bytes = Bytes(blocks * block_size);
        lines.push(format!(
            "not in {}: {bytes} of {}: {}{}",
            tier_words(tier),
            counted(skipped.len(), "file"),
            reason_words(tier, reason, receipt.is_other_cluster),
            render_buffers_budget(asked, reason, bytes)
        ));
        let mut details: Vec<&str> = skipped.iter().filter_map(|one| one.detail.as_deref()).collect();
        details.dedup();
        lines.extend(details.iter().take(DETAILS_MAX).map(|detail| format!("  {}", printable(detail))));
    }
    lines
}

/// The budget that would load the rest, if worth the evictions.
fn render_buffers_budget(asked: Bytes, reason: SkipReason, left: Bytes) -> String {
    let budget = format!("--budget buffers={}MB", left.0.div_ceil(1 << 20));
    match reason {
        SkipReason::NoFreeBuffer if left.0 as f64 >= TRIFLE * asked.0 as f64 => {
            format!("; a restore with {budget} pushes others out for it")
        }
        SkipReason::FreeBuffersUnknown => format!("; {budget} loads it all the same"),
        _ => String::new(),
    }
}

/// Share of the request that is not worth evictions.
const TRIFLE: f64 = 0.01;

fn tier_words(tier: Tier) -> &'static str {
    match tier {
        Tier::Os => "the page cache",
        Tier::Buffers => "shared_buffers",
    }
}

fn reason_words(tier: Tier, reason: SkipReason, is_other_cluster: bool) -> &'static str {
    match reason {
        SkipReason::Dropped if is_other_cluster => "this cluster has none of that name",
        SkipReason::Rewritten if is_other_cluster && tier == Tier::Os => {
            "another cluster's, and less than half of it had been resident"
        }
        SkipReason::Rewritten if is_other_cluster => "another cluster's: its blocks are not where they were",
        SkipReason::Dropped => "dropped since",
        SkipReason::FileGone => "its file is gone: dropped or rewritten since",
        SkipReason::Rewritten if tier == Tier::Os => "rewritten since, and less than half of it had been resident",
        SkipReason::Rewritten => "rewritten or truncated since: its blocks are not where they were",
        SkipReason::Truncated => "truncated since",
        SkipReason::DatabaseUnreachable => "its database lets nobody in",
        SkipReason::NoPermission => "no permission; run pgthaw as the owner of the files (usually postgres) or as root",
        SkipReason::ReadFailed => "could not be read",
        SkipReason::TooFewFiles => {
            "no more files may be open; raise ulimit -n, of a service LimitNOFILE= (1024 is usual)"
        }
        SkipReason::OverBudget => "over the budget; the hottest came first",
        SkipReason::NoMemory => "no memory that it could stay in",
        SkipReason::DidNotStay => "was read and did not stay",
        SkipReason::Interrupted => "interrupted",
        SkipReason::DirectIo => "the server bypasses the page cache (debug_io_direct)",
        SkipReason::NoServer => "no server runs; once it does, `pgthaw restore` loads it",
        SkipReason::ServerGone => "the server went away or does not answer",
        SkipReason::LoginRefused => "the server does not let pgthaw in",
        SkipReason::NoPrivilege => "the role lacks a privilege",
        SkipReason::NoPrewarm => "the database has no pg_prewarm; --create-extensions creates it, on the primary alone",
        SkipReason::NoFreeBuffer => "no buffer is free",
        SkipReason::FreeBuffersUnknown => "cannot see what is free there",
        SkipReason::NoDataDirectory => "the data directory is not on this host; --tier buffers does without it",
    }
}

const MENTIONED: Bytes = Bytes(1 << 20);

fn render_read_over(memory: MemoryReceipt) -> Option<String> {
    let MemoryReceipt { read_over_bytes, let_go_bytes, .. } = memory;
    (read_over_bytes >= MENTIONED).then(|| {
        format!("{read_over_bytes} that nobody asked for was read over in gaps; {let_go_bytes} of it was let go again")
    })
}

/// Blocks evicted soon after and read again.
fn render_reread(reread_bytes: Bytes) -> Option<String> {
    (reread_bytes >= MENTIONED).then(|| format!("{reread_bytes} had gone again soon after and were read once more"))
}

fn stop_words(reason: StopReason, memory: MemoryReceipt) -> String {
    let whose = match memory.bound {
        Some(MemoryBound::Cgroup) => "the memory limit of the cgroup",
        Some(MemoryBound::Machine) | None => "the machine's memory",
    };
    match (reason, memory.room_bytes) {
        (StopReason::Interrupted, _) => "interrupted".to_owned(),
        (StopReason::NoMemory, Some(room)) => format!("{whose} had room for {room}"),
        (StopReason::NoMemory, None) => format!("{whose} had no room left"),
        (StopReason::Evicted, _) => {
            "the kernel took back what was loaded as more came: there is no room for it".to_owned()
        }
        (StopReason::DirectIo, _) => "the server bypasses the page cache (debug_io_direct)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_pushed_out_for_what_is_worth_it_and_by_how_much_is_told() {
        let told = |left| render_buffers_budget(Bytes(1 << 30), SkipReason::NoFreeBuffer, Bytes(left));
        assert_eq!(told(100 << 20), "; a restore with --budget buffers=100MB pushes others out for it");
        assert_eq!(told((100 << 20) + 1), "; a restore with --budget buffers=101MB pushes others out for it");
        assert_eq!(told(3 << 20), "");
        let unknown = render_buffers_budget(Bytes(1 << 30), SkipReason::FreeBuffersUnknown, Bytes(1 << 30));
        assert_eq!(unknown, "; --budget buffers=1024MB loads it all the same");
    }
}

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
            "the page cache also holds {} of the blocks in shared_buffers ({} before the restore)",
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
        (Bytes(0), _) => "nothing requested".to_owned(),
        (asked, Some(before)) => format!("{before} of the requested {asked} already resident"),
        (asked, None) => format!("{asked} requested; the resident part is unknown"),
    };
    let os = receipt.os.map(|os| {
        let Forecast { read_bytes, reads, seconds, .. } = receipt.forecast;
        let resident = resident(&os);
        format!("would read {read_bytes} in {}, {seconds:.1} s of device time; {resident}", counted(reads, "read"))
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
        ProfileSource::Told => "as given".to_owned(),
        ProfileSource::Probed { measured_at } => format!("measured {}", render_age(measured_at)),
        ProfileSource::Cgroup => "limit of the cgroup".to_owned(),
        ProfileSource::Default => {
            "assumed figures of a typical cloud volume; `pgthaw doctor --probe` measures this device".to_owned()
        }
    };
    let bandwidth = bandwidth.per_second();
    format!(
        "planned for a device with {reads_per_second:.0} reads/s and {bandwidth}, reads up to {largest_read}: {source}"
    )
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
        FoundAs::WholeRewritten if is_other_cluster => "another cluster's: all blocks",
        FoundAs::WholeRewritten => "rewritten: all blocks",
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
            "; the restore was finally limited to {:.0} % of the bandwidth, and the server did {gain:.2} times as much work as with a limit of 93 %",
            share * 100.0
        ),
        _ => String::new(),
    };
    (*cost_seconds >= 0.1).then(|| {
        format!(
            "most of the busy server processes waited for the disk during {waiting_seconds:.1} s, and ran during {flowing_seconds:.1} s; the restore read more slowly for {yielded_seconds:.1} s to leave the disk to the server, and so took {cost_seconds:.1} s longer (--pace full prevents this){found}"
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
        (Some(before), _) if receipt.is_dry_run => format!("{before} already resident"),
        (Some(before), Some(after)) => format!("{before} resident before and {after} after"),
        _ => "the resident part is unknown".to_owned(),
    };
    let why = match receipt.is_other_cluster {
        true => "the snapshot is from another cluster with another block layout",
        false => "rewritten since the snapshot, with a new block layout",
    };
    let relations = counted(rewritten.len(), "relation");
    (!rewritten.is_empty()).then(|| format!("{why}: {relations} requested in full, {asked}, {came}"))
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
            if tier == Tier::Os { "the page cache" } else { "shared_buffers" },
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

/// Names the option that loads the skipped blocks, unless these are too few to justify evictions.
fn render_buffers_budget(asked: Bytes, reason: SkipReason, left: Bytes) -> String {
    let budget = format!("--budget buffers={}MB", left.0.div_ceil(1 << 20));
    match reason {
        SkipReason::NoFreeBuffer if left.0 as f64 >= TRIFLE * asked.0 as f64 => {
            format!("; a restore with {budget} loads the rest, and evicts other buffers")
        }
        SkipReason::FreeBuffersUnknown => format!("; {budget} loads the blocks anyway"),
        _ => String::new(),
    }
}

/// If the skipped blocks are below this share of the request, pgthaw does not suggest evicting other buffers for them.
const TRIFLE: f64 = 0.01;

fn reason_words(tier: Tier, reason: SkipReason, is_other_cluster: bool) -> &'static str {
    match reason {
        SkipReason::Dropped if is_other_cluster => "this cluster has no relation of this name",
        SkipReason::Rewritten if is_other_cluster && tier == Tier::Os => {
            "the snapshot is another cluster's, and less than half of the relation was resident"
        }
        SkipReason::Rewritten if is_other_cluster => "the snapshot is another cluster's, with another block layout",
        SkipReason::Dropped => "dropped since the snapshot",
        SkipReason::FileGone => "its file no longer exists: dropped or rewritten since the snapshot",
        SkipReason::Rewritten if tier == Tier::Os => {
            "rewritten since the snapshot, and less than half of the relation was resident"
        }
        SkipReason::Rewritten => "rewritten or truncated since the snapshot, with another block layout",
        SkipReason::Truncated => "truncated since the snapshot",
        SkipReason::DatabaseUnreachable => "its database allows no connections",
        SkipReason::NoPermission => "no permission; run pgthaw as the owner of the files (usually postgres) or as root",
        SkipReason::ReadFailed => "could not be read",
        SkipReason::TooFewFiles => "too many open files; raise ulimit -n, or LimitNOFILE= of a service (often 1024)",
        SkipReason::OverBudget => "over the budget; hotter blocks were loaded first",
        SkipReason::NoMemory => "not enough memory to keep it",
        SkipReason::DidNotStay => "was read but is not resident",
        SkipReason::Interrupted => "interrupted",
        SkipReason::DirectIo => "the server bypasses the page cache (debug_io_direct)",
        SkipReason::NoServer => "no server runs; start the server, then `pgthaw restore` loads the blocks",
        SkipReason::ServerGone => "the server stopped or does not respond",
        SkipReason::LoginRefused => "the server refused the login",
        SkipReason::NoPrivilege => "the role lacks a privilege",
        SkipReason::NoPrewarm => "the database has no pg_prewarm; --create-extensions creates it, on the primary only",
        SkipReason::NoFreeBuffer => "no free buffer",
        SkipReason::FreeBuffersUnknown => "the number of free buffers is unknown",
        SkipReason::NoDataDirectory => "the data directory is not on this host; --tier buffers does not need it",
    }
}

const MENTIONED: Bytes = Bytes(1 << 20);

fn render_read_over(memory: MemoryReceipt) -> Option<String> {
    let MemoryReceipt { read_over_bytes, let_go_bytes, .. } = memory;
    (read_over_bytes >= MENTIONED).then(|| {
        format!("also read {read_over_bytes} in gaps between requested blocks; {let_go_bytes} of it were evicted again")
    })
}

fn render_reread(reread_bytes: Bytes) -> Option<String> {
    (reread_bytes >= MENTIONED).then(|| format!("{reread_bytes} were evicted soon after the read and were read again"))
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
            "the kernel evicted loaded pages while more were read: not enough memory".to_owned()
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
        assert_eq!(told(100 << 20), "; a restore with --budget buffers=100MB loads the rest, and evicts other buffers");
        assert_eq!(
            told((100 << 20) + 1),
            "; a restore with --budget buffers=101MB loads the rest, and evicts other buffers"
        );
        assert_eq!(told(3 << 20), "");
        let unknown = render_buffers_budget(Bytes(1 << 30), SkipReason::FreeBuffersUnknown, Bytes(1 << 30));
        assert_eq!(unknown, "; --budget buffers=1024MB loads the blocks anyway");
    }
}

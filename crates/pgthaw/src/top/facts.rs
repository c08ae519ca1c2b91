//! Text of the screen: the figures of one step (the time between two updates), cut to the width, and the help.

use console::truncate_str;

use super::state::Kind;
use crate::waits::culprit_text::{describe_state, held_relation, name_session};
use crate::waits::time_text::{render_given_up, render_reduction};
use host::units::{Bytes, counted, group_digits};
use observe::time::{ProbeCost, Tier};
use observe::top::{CheckpointPhase, MachineStep, TopFrame};
use observe::{GivenUp, looks_after, render_looks};
use terminal::{printable, render_ns, wrap_text};

pub(super) const LABEL_CELLS: usize = 11;

/// Minimum width, in cells, of a text like `12 wait for 4711 alice@shop`. The number of waiters and the process id fit.
const NAME_CELLS: usize = 20;

/// Server figures older than this are shown with their age.
const STALE_MS: i64 = 3000;

/// Line whose parts have ranks. A narrow screen drops the highest ranks first, and rank 0 never.
#[derive(Debug)]
pub(super) struct Fact {
    pub label: &'static str,
    parts: Vec<(u8, String)>,
}

impl Fact {
    fn of(label: &'static str) -> Fact {
        Fact { label, parts: Vec::new() }
    }

    fn unseen(label: &'static str) -> Fact {
        Fact { label, parts: vec![(0, "not visible".to_owned())] }
    }

    fn add(&mut self, priority: u8, text: impl Into<String>) {
        self.parts.push((priority, text.into()));
    }

    fn add_if(&mut self, is_shown: bool, priority: u8, text: String) {
        self.parts.extend(is_shown.then_some((priority, text)));
    }

    fn add_some<T>(&mut self, priority: u8, value: Option<T>, text: impl FnOnce(T) -> String) {
        self.parts.extend(value.map(|value| (priority, text(value))));
    }

    pub fn text(&self, width: usize) -> String {
        let mut parts = self.parts.clone();
        let join = |parts: &[(u8, String)]| parts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("  ");
        while join(&parts).chars().count() > width
            && let Some(least) = (0..parts.len()).filter(|at| parts[*at].0 > 0).max_by_key(|at| parts[*at].0)
        {
            parts.remove(least);
        }
        join(&parts)
    }
}

pub(super) fn facts_of(frame: &TopFrame, server_at_ms: i64, width: usize, mark: &str) -> Vec<Fact> {
    let mut facts = vec![throughput_of(frame, server_at_ms)];
    facts.extend(locks_of(frame, width, mark));
    facts.extend(temporary_files_of(frame));
    facts.extend([hits_of(frame), device_of(frame), checkpoint_of(frame), machine_of(frame), cost_of(frame)]);
    facts
}

/// The worst blocker. Shortens its state, then its name. If still too wide, drops the state, then the relation.
fn locks_of(frame: &TopFrame, width: usize, mark: &str) -> Option<Fact> {
    let worst = frame.blockers.first()?;
    let session = &worst.process.session;
    let count = worst.count();
    let mut fact = Fact::of(if count > 0 { "locks" } else { "idle in tx" });
    let name = name_session(session);
    let name = if count > 0 { format!("{count} wait for {name}") } else { name };
    let (length, name_cells) = (name.chars().count(), NAME_CELLS.min(name.chars().count()));
    let mut rest = [describe_state(session), held_relation(worst).map(|relation| format!("holds {relation}"))];
    let room = |rest: &[Option<String>; 2]| {
        width.saturating_sub(rest.iter().flatten().map(|part| part.chars().count() + 2).sum())
    };
    if room(&rest) < length
        && let Some(state) = &mut rest[0]
    {
        *state = state.replace("idle in transaction", "idle in tx");
        // Drops the wait event, as in `active for 2 s in IO:WALSync`.
        state.truncate(state.rfind(" in ").filter(|at| state[*at..].contains(':')).unwrap_or(state.len()));
    }
    for part in 0..rest.len() {
        if room(&rest) < name_cells {
            rest[part] = None;
        }
    }
    fact.add(0, truncate_str(&name, room(&rest).max(name_cells), mark));
    rest.into_iter().flatten().for_each(|part| fact.add(1, part));
    fact.add(3, "(l)");
    fact.add_some(4, session.query.as_deref(), |query| printable(query).into_owned());
    Some(fact)
}

fn temporary_files_of(frame: &TopFrame) -> Option<Fact> {
    let most = frame.temporary_files.first()?;
    let mut fact = Fact::of("temp files");
    fact.add(0, format!("{} of {}", most.bytes, name_session(&most.session)));
    let others = frame.temporary_files.len() - 1;
    fact.add_if(others > 0, 2, format!("and of {others} more"));
    fact.add_some(1, most.session.query.as_deref(), |query| printable(query).into_owned());
    Some(fact)
}

fn throughput_of(frame: &TopFrame, server_at_ms: i64) -> Fact {
    let mut fact = Fact::of("throughput");
    let rates = &frame.rates;
    let window = window_of(frame).map(|window| format!(" {window}")).unwrap_or_default();
    let tps = rates.transactions_per_second.map(|tps| format!("{} tps{window}", number(tps)));
    fact.add(0, tps.unwrap_or_else(|| "- tps".to_owned()));
    if let Some(server) = &frame.server {
        let seconds = server.length_ns as f64 / 1e9;
        let now = server.transactions().max(0.0) / seconds.max(1e-9);
        fact.add(6, format!("(last step {})", number(now)));
    }
    fact.add_some(1, rates.commands_per_second, |rate| format!("{} commands/s", number(rate)));
    fact.add_some(2, rates.command_ns, |ns| format!("{} each", render_ns(ns as u64)));
    fact.add_some(4, rates.transaction_ns, |ns| format!("{} a transaction{window}", render_ns(ns as u64)));
    if let Some(server) = &frame.server {
        match server.hidden {
            0 => fact.add(1, format!("{} {} active", counted(server.clients, "client"), server.active)),
            hidden => fact.add(1, format!("{} hidden from this role", counted(hidden, "session"))),
        }
        let idle = server.idle_in_transaction;
        fact.add_if(idle > 0, 5, format!("{idle} idle in a transaction"));
        fact.add_some(7, server.longest_query_ns, |ns| format!("oldest query {}", render_ns(ns)));
        fact.add_some(8, server.longest_transaction_ns, |ns| format!("oldest transaction {}", render_ns(ns)));
    }
    let age = frame.at_ms.saturating_sub(server_at_ms);
    if frame.failure.is_none() && age > STALE_MS {
        fact.add(0, format!("last response from the server {} s ago", age / 1000));
    }
    fact
}

/// Averaging time of the rates; other figures are of one step.
fn window_of(frame: &TopFrame) -> Option<String> {
    match frame.rates.over_ns as f64 / 1e9 {
        0.0 => None,
        seconds @ ..0.95 => Some(format!("({seconds:.1} s)")),
        seconds => Some(format!("({seconds:.0} s)")),
    }
}

fn hits_of(frame: &TopFrame) -> Fact {
    let mut fact = Fact::of("hits");
    let rates = &frame.rates;
    let percent = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1} %", 100.0 * ratio));
    fact.add(0, format!("shared_buffers {}", percent(rates.buffers_hit_ratio)));
    fact.add(0, format!("page cache {}", percent(rates.page_cache_hit_ratio)));
    fact.add_some(2, rates.fetched_bytes_per_second, |bytes| format!("fetched {}", Bytes(bytes as u64).per_second()));
    fact.add_some(3, window_of(frame), |window| window);
    if let Some(server) = &frame.server {
        fact.add_if(server.temporary_bytes.0 > 0, 3, format!("temporary files {}", server.temporary_bytes));
        fact.add_if(server.deadlocks > 0, 1, counted(server.deadlocks, "deadlock"));
    }
    fact
}

fn device_of(frame: &TopFrame) -> Fact {
    let mut fact = Fact::of("device");
    let Some(machine) = &frame.machine else { return Fact::unseen("device") };
    match &machine.gauges.device {
        Some(device) => {
            fact.add_some(5, machine.device_name.as_deref(), |name| printable(name).into_owned());
            let length = |us: f64| render_ns((us * 1e3) as u64);
            fact.add(0, format!("{} reads/s {}", device.reads, device.read_bytes.per_second()));
            fact.add_some(6, device.read_await_us, |us| format!("{} each", length(us)));
            fact.add(0, format!("{} writes/s {}", device.writes, device.written_bytes.per_second()));
            fact.add_some(6, device.write_await_us, |us| format!("{} each", length(us)));
            fact.add(2, format!("queue {:.1}", device.queue));
            fact.add(1, format!("busy {:.0} %", 100.0 * device.busy_ratio));
        }
        None => fact.add(0, "the data directory is on no block device"),
    }
    for (name, part) in &machine.gauges.parts {
        let (name, busy) = (printable(name), 100.0 * part.busy_ratio);
        fact.add(7, format!("{name}: {} reads/s, {} writes/s, busy {busy:.0} %", part.reads, part.writes));
    }
    fact
}

fn checkpoint_of(frame: &TopFrame) -> Fact {
    let mut fact = Fact::of("checkpoint");
    let Some(step) = &frame.checkpoint else { return Fact::unseen("checkpoint") };
    let block_size = frame.server.map_or(8192, |server| server.block_size);
    // The number of buffers is unknown if the checkpoint was first seen while writing.
    let written = match step.buffers {
        0 => String::new(),
        buffers => format!(", {} ({})", counted(buffers, "buffer"), Bytes(buffers.saturating_mul(block_size.into()))),
    };
    let since = step.running_ns.map(|ns| format!(" for {}", render_ns(ns))).unwrap_or_default();
    let left = step.timeout_seconds - step.since_seconds;
    let phase = match step.phase {
        CheckpointPhase::Writing => format!("writing{since}{written}"),
        CheckpointPhase::Syncing => format!("synchronising{since}{written}"),
        CheckpointPhase::Idle if left > 0.0 => format!("next within {left:.0} s"),
        // A checkpoint without work is skipped.
        CheckpointPhase::Idle => "none needed".to_owned(),
        CheckpointPhase::Unknown => "phase not visible".to_owned(),
    };
    fact.add(0, phase);
    fact.add(1, format!("WAL {} of {}", Bytes(step.wal_bytes), Bytes(step.max_wal_bytes)));
    if let Some(last) = step.last {
        let ago = frame.at_ms.saturating_sub(last.ended_at_ms) / 1000;
        let (write, sync) = (last.write_ms / 1e3, last.sync_ms / 1e3);
        fact.add(3, format!("last {ago} s ago: {}", counted(last.buffers, "buffer")));
        fact.add(4, format!("written in {write:.1} s, synchronised in {sync:.2} s"));
    }
    fact
}

fn machine_of(frame: &TopFrame) -> Fact {
    let mut fact = Fact::of("memory");
    let Some(MachineStep { gauges: machine, .. }) = &frame.machine else { return Fact::unseen("memory") };
    fact.add(0, format!("dirty {}", machine.dirty_bytes));
    fact.add(0, format!("writeback {}", machine.writeback_bytes));
    fact.add(2, format!("available {}", machine.available_bytes));
    fact.add(4, format!("page cache {}", machine.cached_bytes));
    let (busy, all) = (machine.processors_busy_seconds, frame.cost.processors);
    fact.add(1, format!("processors {busy:.2} of {all:.0} busy"));
    let stolen = machine.processors_steal_seconds;
    fact.add_if(stolen >= 0.005, 3, format!("taken by the hypervisor {stolen:.2}"));
    let pressure = machine.pressure;
    for (name, ratio) in [("processor", pressure.cpu_some), ("I/O", pressure.io_some), ("memory", pressure.memory_some)]
    {
        fact.add_some(6, ratio, |ratio| format!("{name} pressure {:.0} %", 100.0 * ratio));
    }
    fact
}

fn cost_of(frame: &TopFrame) -> Fact {
    let mut fact = Fact::of("pgthaw");
    let cost = &frame.cost;
    let processors = counted(cost.processors as u32, "processor");
    fact.add_some(0, cost.share(frame.length_ns), |share| format!("costs {:.2} % of {processors}", 100.0 * share));
    fact.add_some(3, cost.kernel.as_ref().map(ProbeCost::total_ns), |ns| format!("{} in the kernel", render_ns(ns)));
    fact.add(1, source_of(frame));
    fact.add_some(4, frame.explained, |share| format!("explained {:.2} %", 100.0 * share));
    let imperfect = &frame.imperfect;
    fact.add(2, format!("lost {}", imperfect.lost_processes.saturating_add(frame.lost_frames)));
    fact.add_if(imperfect.recovered > 0, 5, format!("recovered {}", imperfect.recovered));
    fact.add_if(imperfect.wakes_missed > 0, 6, format!("wakes missed {}", imperfect.wakes_missed));
    fact
}

fn source_of(frame: &TopFrame) -> String {
    match frame.source {
        Some(Tier::Bpf) if frame.cost.kernel_refusal.is_some() => "bpf, its cost unknown".to_owned(),
        Some(Tier::Bpf) if frame.reductions.iter().any(|one| one.given_up == GivenUp::Receives) => {
            "bpf: everything but commands counted".to_owned()
        }
        Some(Tier::Bpf) => "bpf: everything counted".to_owned(),
        Some(Tier::Memory) => format!("memory: {} samples/s, estimates", render_looks(looks_after(&frame.reductions))),
        Some(Tier::Sql) => "SQL only: samples, estimates".to_owned(),
        None => "no server".to_owned(),
    }
}

pub(super) fn missing_line(frame: &TopFrame) -> Option<String> {
    let given_up = frame.reductions.last().map(|one| format!("above the budget, {}", render_given_up(one)));
    let missing = frame.missing.iter().map(|one| printable(&one.what).into_owned());
    let what: Vec<String> = given_up.into_iter().chain(missing).collect();
    (!what.is_empty()).then(|| format!("not visible (? shows why): {}", what.join("; ")))
}

fn number(value: f64) -> String {
    match value {
        ..9.95 => format!("{value:.1}"),
        ..9999.5 => format!("{value:.0}"),
        _ => group_digits(format_args!("{value:.0}")),
    }
}

const KEYS: [&str; 7] = [
    "← →        one step back or forward",
    "PgUp PgDn  one minute back or forward",
    "Home End   the oldest step, and now",
    "↑ ↓        scroll the table",
    "l          sessions that block others or are idle in a transaction, instead of chart and table",
    "s  i       s sorts by the next column; i shows or hides idle processes",
    "?  q       ? opens or closes this help; q quits, like Ctrl-C",
];

const LIVE: &str = "p          pause the display: measuring continues, and the last hour is kept";
const RECORD: &str = "p  f       p stops or resumes; f plays faster";

const FIGURES: [&str; 15] = [
    "(10 s)          averaged over this time instead of one step: sessions report their transactions and blocks about once a second",
    "tps             transactions per second from pg_stat_database",
    "commands/s      commands received from clients in this step, counted in the kernel",
    "each            mean server time of a command: the client backends' time without their waits for clients (or the network), divided by commands",
    "a transaction   mean time spent in statements, per transaction (PostgreSQL 14 and later)",
    "shared_buffers  share of the requested blocks that were in shared_buffers",
    "page cache      share of the bytes read into shared_buffers without a device read; read-ahead lowers this share",
    "the chart       mean number of processes by activity in each step, without those that wait for clients or for work",
    "COUNT           completed waits; in rows named processor, how often a process got a processor",
    "SHARE           share of the time of all client backends",
    "AVERAGE         mean time of completed waits within this step",
    "MAX             longest wait; if an earlier step had a longer wait, the value is an estimate, at most twice the true value; + means that the wait still lasts",
    "P99             99th percentile: the upper bound of a histogram bucket, up to twice the true value",
    "recovered       intervals on a processor whose start the kernel did not report; their length is known",
    "lost            processes not measured because there were too many, and screen updates left out",
];

pub(super) fn help_lines(frame: &TopFrame, kind: Kind, with_unicode: bool, width: usize) -> Vec<String> {
    let mut lines: Vec<String> =
        KEYS.iter().map(|key| if with_unicode { (*key).to_owned() } else { plain(key) }).collect();
    lines.push(if kind == Kind::Live { LIVE } else { RECORD }.to_owned());
    lines.push(String::new());
    lines.extend(frame.stalls.iter().rev().map(|stall| told(&format!("stall           {stall}"), with_unicode)));
    lines.extend(frame.reductions.iter().map(|one| format!("given up        {}", render_reduction(one))));
    lines.extend(frame.missing.iter().map(|one| {
        let remedy = one.remedy.as_ref().map(|remedy| format!(" ({})", printable(remedy))).unwrap_or_default();
        format!("not visible     {}: {}{remedy}", printable(&one.what), printable(&one.why))
    }));
    lines.push(String::new());
    lines.extend(FIGURES.map(str::to_owned));
    lines.iter().flat_map(|line| wrap_text(line, Some(width)).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

pub(super) fn told(sentence: &str, with_unicode: bool) -> String {
    let sentence = printable(sentence).into_owned();
    if with_unicode { sentence } else { sentence.replace('–', "-").replace('…', "...") }
}

fn plain(key: &str) -> String {
    key.replace("← →  ", "<- ->").replace("↑ ↓", "k j")
}

#[cfg(test)]
mod tests {
    use super::super::fixture::frame;
    use super::*;
    use observe::Reduction;

    fn texts(frame: &TopFrame, width: usize) -> Vec<String> {
        facts_of(frame, frame.at_ms, width, "…")
            .iter()
            .map(|fact| format!("{}: {}", fact.label, fact.text(width)))
            .collect()
    }

    #[test]
    fn lines_have_what_fits() {
        let lines = texts(&frame(9), 69);
        assert_eq!(
            lines,
            [
                "throughput: 2413 tps (10 s)  16,893 commands/s  420 µs each  16 clients 12 active",
                "hits: shared_buffers 98.2 %  page cache 71.0 %  fetched 12.3 MB/s  (10 s)",
                "device: 1203 reads/s 9.4 MB/s  402 writes/s 12 MB/s  queue 3.2  busy 87 %",
                "checkpoint: writing for 12.0 s, 9812 buffers (76.7 MB)  WAL 123 MB of 1 GB",
                "memory: dirty 123 MB  writeback 2 MB  processors 1.84 of 2 busy",
                "pgthaw: costs 0.60 % of 2 processors  bpf: everything counted  lost 0",
            ]
        );
        assert!(texts(&frame(9), 100)[2].starts_with("device: nvme0n1  1203"));
        assert!(texts(&frame(9), 188)[5].contains("8.00 ms in the kernel"));
        assert!(texts(&frame(9), 197)[0].ends_with("oldest query 3.00 s  oldest transaction 4.00 s"));
    }

    #[test]
    fn the_length_of_a_mean_stands_beside_it() {
        let mut frame = frame(9);
        for (over_ns, shown) in [
            (250_000_000, "2413 tps (0.2 s)"),
            (1_990_000_000, "2413 tps (2 s)"),
            (60_000_000_000, "2413 tps (60 s)"),
            (0, "2413 tps"),
        ] {
            frame.rates.over_ns = over_ns;
            assert_eq!(texts(&frame, 20)[0], format!("throughput: {shown}"));
        }
    }

    #[test]
    fn what_is_not_there_is_said() {
        let mut bare = frame(9);
        (bare.machine, bare.checkpoint, bare.server, bare.source) = (None, None, None, Some(Tier::Sql));
        bare.rates = Default::default();
        let lines = texts(&bare, 69);
        assert_eq!(lines[0], "throughput: - tps");
        assert_eq!((lines[2].as_str(), lines[3].as_str()), ("device: not visible", "checkpoint: not visible"));
        assert!(lines[5].contains("SQL only"), "{lines:#?}");
        let stale = facts_of(&frame(9), 1000, 200, "…")[0].text(200);
        assert!(stale.ends_with("last response from the server 8 s ago"), "{stale}");
    }

    #[test]
    fn what_was_given_up_is_not_called_counted() {
        let mut frame = frame(9);
        let reduction = Reduction {
            after_ns: 2_000_000_000,
            given_up: GivenUp::Receives,
            share: 0.03,
            budget: 0.02,
            looks_per_second: None,
        };
        frame.reductions = vec![reduction, Reduction { given_up: GivenUp::NothingLeft, ..reduction }];
        assert!(texts(&frame, 69)[5].contains("bpf: everything but commands counted"), "{:#?}", texts(&frame, 69));
    }

    #[test]
    fn numbers_are_read_at_a_glance() {
        assert_eq!(
            [0.0, 9.94, 9.96, 9999.0, 10_000.0, 1_234_567.0].map(number),
            ["0.0", "9.9", "10", "9999", "10,000", "1,234,567"]
        );
    }

    #[test]
    fn it_fits_and_says_what_is_not_seen_and_why() {
        for (width, with_unicode) in [(60, true), (80, false), (200, true)] {
            let lines = help_lines(&frame(1), Kind::Live, with_unicode, width);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
            let text = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
            assert!(text.contains("waits without sleep") && text.contains("spinlocks"), "{text}");
            assert_eq!(text.is_ascii(), !with_unicode);
        }
    }
}

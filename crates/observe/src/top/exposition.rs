//! Totals as Prometheus reads them: the text format 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>).

use std::fmt::{Display, Write as _};

use super::checkpoint::CheckpointPhase;
use super::totals::{Name, Totals};
use crate::statistic::{BUCKETS, Statistic, upper_bound};
use crate::time::Tier;
use host::units::is_treacherous;

/// All metrics. What is not known is left out.
pub fn render_metrics(totals: &Totals) -> String {
    let mut page = Page(String::new());
    render_source(&mut page, totals);
    render_times(&mut page, totals);
    render_server(&mut page, totals);
    render_checkpoints(&mut page, totals);
    render_machine(&mut page, totals);
    render_cost(&mut page, totals);
    page.0
}

/// The page as far as it is written.
struct Page(String);

impl Page {
    /// What a metric is, before its samples.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // A String takes all that is written to it.
        let _ = writeln!(self.0, "# HELP {name} {}\n# TYPE {name} {kind}", escape(help, false));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escape(value, true))).collect();
        let _ = match labels.is_empty() {
            true => writeln!(self.0, "{name} {value}"),
            false => writeln!(self.0, "{name}{{{}}} {value}", labels.join(",")),
        };
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.one(name, "counter", help, value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.one(name, "gauge", help, value);
    }
}

/// The format knows no escape for this, and the page may be read on a terminal, which would obey it.
const MARK: char = char::REPLACEMENT_CHARACTER;

/// Backslashes and ends of lines; of a label's value quotes too. Whatever else a terminal would obey is told by its number behind a mark,
/// and so is the mark itself: names that differ stay two.
fn escape(text: &str, is_label: bool) -> String {
    let escape = |character: char| match character {
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '"' if is_label => "\\\"".to_owned(),
        character if is_treacherous(character) || character == MARK => format!("{MARK}{{{:x}}}", u32::from(character)),
        character => character.to_string(),
    };
    text.chars().map(escape).collect()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn render_source(page: &mut Page, totals: &Totals) {
    let last = &totals.last;
    page.gauge("pgthaw_up", "Whether the server answered in the last step.", u8::from(last.failure.is_none()));
    page.counter("pgthaw_steps_total", "Readings since pgthaw began.", totals.steps);
    if let Some(source) = last.source {
        let source = format!("{source:?}").to_lowercase();
        page.family(
            "pgthaw_source_info",
            "gauge",
            "Where the times come from: bpf counts all, memory and sql look now and then.",
        );
        page.sample("pgthaw_source_info", &[("source", &source), ("version", env!("CARGO_PKG_VERSION"))], 1);
    }
    if let Some(explained) = last.explained {
        page.gauge(
            "pgthaw_explained_ratio",
            "Part of the processes' time in the last step that is explained.",
            explained,
        );
    }
}

fn render_times(page: &mut Page, totals: &Totals) {
    let label = |name: &Name| [("where", name.0.clone()), ("class", name.1.clone()), ("event", name.2.clone())];
    page.family(
        "pgthaw_process_time_seconds_total",
        "counter",
        "Time that processes of the server spent so, waits that last included.",
    );
    for (name, statistic) in &totals.statistics {
        let labels = label(name);
        let labels: Vec<(&str, &str)> = labels.iter().map(|(label, value)| (*label, value.as_str())).collect();
        page.sample("pgthaw_process_time_seconds_total", &labels, seconds(statistic.total_ns));
    }
    let timed: Vec<(&Name, &Statistic)> =
        totals.statistics.iter().filter(|(_, one)| one.longest_ns().is_some()).collect();
    if !timed.is_empty() {
        page.family(
            "pgthaw_wait_duration_seconds",
            "histogram",
            "Lengths of waits that have ended; the sum has the time of those that last too.",
        );
    }
    for (name, statistic) in timed {
        let labels = label(name);
        let labels: Vec<(&str, &str)> = labels.iter().map(|(label, value)| (*label, value.as_str())).collect();
        render_histogram(page, "pgthaw_wait_duration_seconds", &labels, statistic);
    }
    page.counter(
        "pgthaw_lived_seconds_total",
        "Time that processes of the server lived, by a clock outside.",
        seconds(totals.lived_ns),
    );
    page.counter(
        "pgthaw_unknown_seconds_total",
        "Time in a wait whose event could not be read.",
        seconds(totals.unknown_ns),
    );
    // One that is counted no more would look like one that stands still.
    if let Some(commands) = totals.last.time.commands.and(totals.commands) {
        page.counter("pgthaw_commands_total", "Receipts from clients, where the source counts them.", commands);
    }
    page.gauge("pgthaw_processes", "Processes of the server in the last step.", totals.last.processes);
    let lost = totals.last.imperfect.lost_processes;
    page.gauge("pgthaw_lost_processes", "Processes that were not followed, for there were too many.", lost);
    // Who looks now and then is told of neither.
    if totals.last.source == Some(Tier::Bpf) {
        let what = "Times on a processor whose begin the kernel did not tell.";
        page.counter("pgthaw_recovered_total", what, totals.recovered);
        page.counter("pgthaw_missed_wakes_total", "Waits whose end the kernel did not tell.", totals.wakes_missed);
    }
}

/// Buckets are cumulative: how many were at most so long.
fn render_histogram(page: &mut Page, name: &str, labels: &[(&str, &str)], statistic: &Statistic) {
    let mut below = 0;
    for (bucket, count) in statistic.histogram.iter().enumerate() {
        below += count;
        let bound = match bucket {
            _ if bucket == BUCKETS - 1 => "+Inf".to_owned(),
            _ => seconds(upper_bound(bucket)).to_string(),
        };
        page.sample(&format!("{name}_bucket"), &[labels, &[("le", bound.as_str())]].concat(), below);
    }
    page.sample(&format!("{name}_sum"), labels, seconds(statistic.total_ns));
    page.sample(&format!("{name}_count"), labels, below);
}

fn render_server(page: &mut Page, totals: &Totals) {
    let sum = &totals.server;
    page.family("pgthaw_transactions_total", "counter", "Transactions that ended, by pg_stat_database.");
    page.sample("pgthaw_transactions_total", &[("outcome", "commit")], sum.commits);
    page.sample("pgthaw_transactions_total", &[("outcome", "rollback")], sum.rollbacks);
    page.counter("pgthaw_buffer_hits_total", "Blocks that were found in shared_buffers.", sum.blocks_hit);
    page.counter("pgthaw_buffer_reads_total", "Blocks that were read into shared_buffers.", sum.blocks_read);
    page.counter("pgthaw_temporary_bytes_total", "Written to temporary files.", sum.temporary_bytes);
    page.counter("pgthaw_deadlocks_total", "Deadlocks that were found.", sum.deadlocks);
    if let Some(bytes) = totals.fetched_bytes {
        page.counter("pgthaw_fetched_bytes_total", "Fetched from storage for the server's processes.", bytes);
    }
    if let Some(server) = &totals.last.server {
        page.family("pgthaw_sessions", "gauge", "Sessions of clients, but for pgthaw's own.");
        let idle = server.clients.saturating_sub(server.active).saturating_sub(server.idle_in_transaction);
        for (state, count) in
            [("active", server.active), ("idle in transaction", server.idle_in_transaction), ("idle", idle)]
        {
            page.sample("pgthaw_sessions", &[("state", state)], count);
        }
        let longest = seconds(server.longest_transaction_ns.unwrap_or(0));
        page.gauge("pgthaw_longest_transaction_seconds", "Age of the oldest transaction of a client.", longest);
    }
}

fn render_checkpoints(page: &mut Page, totals: &Totals) {
    let Some(last) = &totals.last.checkpoint else { return };
    let sum = &totals.server;
    page.family("pgthaw_checkpoints_total", "counter", "Checkpoints that began.");
    page.sample("pgthaw_checkpoints_total", &[("reason", "timed")], sum.checkpoints_timed);
    page.sample("pgthaw_checkpoints_total", &[("reason", "requested")], sum.checkpoints_requested);
    page.counter(
        "pgthaw_checkpoint_write_seconds_total",
        "Time in which checkpoints that ended wrote.",
        sum.checkpoint_write_seconds,
    );
    page.counter(
        "pgthaw_checkpoint_sync_seconds_total",
        "Time in which checkpoints that ended synchronised.",
        sum.checkpoint_sync_seconds,
    );
    page.counter("pgthaw_checkpoint_buffers_total", "Buffers that checkpoints wrote.", sum.checkpoint_buffers);
    let is_running = matches!(last.phase, CheckpointPhase::Writing | CheckpointPhase::Syncing);
    page.gauge("pgthaw_checkpoint_running", "Whether a checkpoint runs.", u8::from(is_running));
    page.gauge(
        "pgthaw_wal_since_checkpoint_bytes",
        "WAL since the redo point of the last checkpoint that ended.",
        last.wal_bytes,
    );
}

fn render_machine(page: &mut Page, totals: &Totals) {
    if let Some(sum) = &totals.device {
        page.counter("pgthaw_device_reads_total", "Reads of the server's device, for anybody.", sum.reads.round());
        page.counter("pgthaw_device_read_bytes_total", "Bytes read from the server's device.", sum.read_bytes.round());
        page.counter("pgthaw_device_writes_total", "Writes to the server's device.", sum.writes.round());
        page.counter(
            "pgthaw_device_written_bytes_total",
            "Bytes written to the server's device.",
            sum.written_bytes.round(),
        );
        page.counter("pgthaw_device_busy_seconds_total", "Time in which the device had requests.", sum.busy_seconds);
        page.counter(
            "pgthaw_device_queue_seconds_total",
            "Time of requests in the device's queue, added up.",
            sum.queue_seconds,
        );
    }
    if let Some(machine) = &totals.last.machine {
        page.family(
            "pgthaw_memory_bytes",
            "gauge",
            "The machine's memory: available, files in the page cache, of them changed and on their way to a disk.",
        );
        for (state, bytes) in [
            ("available", machine.available_bytes),
            ("cached", machine.cached_bytes),
            ("dirty", machine.dirty_bytes),
            ("writeback", machine.writeback_bytes),
        ] {
            page.sample("pgthaw_memory_bytes", &[("state", state)], bytes.0);
        }
    }
}

fn render_cost(page: &mut Page, totals: &Totals) {
    page.counter("pgthaw_own_cpu_seconds_total", "Processor time of pgthaw itself.", seconds(totals.own_cpu_ns));
    if totals.programs.is_empty() {
        return;
    }
    page.family("pgthaw_probe_runs_total", "counter", "Runs of pgthaw's programs in the kernel.");
    for (program, cost) in &totals.programs {
        page.sample("pgthaw_probe_runs_total", &[("program", program)], cost.runs);
    }
    page.family("pgthaw_probe_seconds_total", "counter", "Time of pgthaw's programs in the kernel, by its own count.");
    for (program, cost) in &totals.programs {
        page.sample("pgthaw_probe_seconds_total", &[("program", program)], seconds(cost.total_ns));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::frame::tests::{SECOND, span};
    use super::super::frame::{Activity, MachineStep, ServerStep, TopFrame, TopStatistic};
    use super::*;
    use host::units::Bytes;

    fn totals(steps: usize) -> Totals {
        let mut totals = Totals::default();
        let mut frame = TopFrame {
            length_ns: SECOND,
            source: Some(Tier::Bpf),
            time: span().clients,
            activity: Activity::of(&span()),
            statistics: TopStatistic::all_of(&span()),
            server: Some(ServerStep { length_ns: SECOND, commits: 7, clients: 4, active: 3, ..ServerStep::default() }),
            machine: Some(MachineStep { length_ns: SECOND, fetched_bytes: Some(Bytes(5)), ..MachineStep::default() }),
            checkpoint: Some(Default::default()),
            ..TopFrame::default()
        };
        frame.statistics[0].named.place = "a \"role\"\\\nof two lines".into();
        (0..steps).for_each(|_| totals.add(&frame));
        totals
    }

    /// Samples by name and labels, after the format was checked line by line.
    fn parse(page: &str) -> BTreeMap<String, f64> {
        let mut types = BTreeMap::<&str, &str>::new();
        let mut helped = BTreeSet::new();
        let mut samples = BTreeMap::new();
        for line in page.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                assert!(helped.insert(help.split(' ').next().unwrap()), "{line}: twice");
                continue;
            }
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                assert!(helped.contains(name) && types.insert(name, kind).is_none(), "{line}");
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end).filter(|family| types.get(family) == Some(&"histogram")));
            let kind = types[family.unwrap_or(name)];
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            assert!(name.starts_with("pgthaw_") && !name.contains("_ns") && !name.contains("_ms"), "{line}");
            assert!(series.ends_with('}') || !series.contains('{'), "{line}");
            assert!(samples.insert(series.to_owned(), value.parse().unwrap()).is_none(), "{line}: twice");
        }
        samples
    }

    #[test]
    fn the_page_is_what_prometheus_reads() {
        let samples = parse(&render_metrics(&totals(3)));
        assert_eq!(samples["pgthaw_transactions_total{outcome=\"commit\"}"], 21.0);
        assert_eq!(samples["pgthaw_sessions{state=\"idle\"}"], 1.0);
        assert_eq!(samples["pgthaw_fetched_bytes_total"], 15.0);
        let lock = "{where=\"client backend\",class=\"Lock\",event=\"transactionid\"}";
        assert_eq!(samples[&format!("pgthaw_process_time_seconds_total{lock}")], 3.0);
        assert!(samples.keys().any(|name| name.contains(r#"where="a \"role\"\\\nof two lines""#)), "{samples:?}");
    }

    #[test]
    fn no_name_is_obeyed_by_a_terminal_and_names_that_differ_stay_two() {
        let name = |place: &str| escape(place, true);
        assert_eq!(name("a\u{1b}[31mb\r\t\u{202e}é"), "a\u{fffd}{1b}[31mb\u{fffd}{d}\u{fffd}{9}\u{fffd}{202e}é");
        assert_eq!(escape("of \"x\"\n\\", false), "of \"x\"\\n\\\\");
        let mut totals = totals(1);
        let mut frame = totals.last.clone();
        frame.statistics = TopStatistic::all_of(&span());
        frame.statistics.truncate(2);
        for (one, place) in frame.statistics.iter_mut().zip(["a\u{7}\u{9b}2J", "a\u{fffd}{7}\u{fffd}{9b}2J"]) {
            one.named.place = place.into();
        }
        totals.add(&frame);
        let page = render_metrics(&totals);
        assert!(!page.contains(|c: char| is_treacherous(c) && c != '\n'), "{page:?}");
        // Both are told, and neither twice.
        parse(&page);
    }

    #[test]
    fn buckets_only_grow_and_the_last_has_all() {
        let samples = parse(&render_metrics(&totals(2)));
        let of = |le: &str| {
            samples[&format!(
                "pgthaw_wait_duration_seconds_bucket{{where=\"walwriter\",class=\"IO\",event=\"WALSync\",le=\"{le}\"}}"
            )]
        };
        // Four of a quarter of a second.
        assert_eq!((of("0.000001024"), of("0.134217728"), of("0.268435456"), of("+Inf")), (0.0, 0.0, 4.0, 4.0));
        let count = "pgthaw_wait_duration_seconds_count{where=\"walwriter\",class=\"IO\",event=\"WALSync\"}";
        assert_eq!((samples[count], samples[&count.replace("_count", "_sum")]), (4.0, 1.0));
        assert!(
            !samples.keys().any(|name| name.contains("duration") && name.contains("running")),
            "lengths are not known"
        );
    }

    #[test]
    fn names_are_bounded() {
        let mut totals = totals(1);
        for number in 0..3000 {
            let mut frame = TopFrame { statistics: TopStatistic::all_of(&span()), ..TopFrame::default() };
            frame.statistics.truncate(1);
            frame.statistics[0].named.place = format!("role {number}");
            totals.add(&frame);
        }
        assert!(totals.statistics.len() <= 2001, "{}", totals.statistics.len());
        let further = Name::from(("further".into(), "further".into(), "further".into()));
        assert!(totals.statistics[&further].total_ns > 900 * SECOND / 2);
    }
}

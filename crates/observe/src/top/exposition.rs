//! Metrics of `top`, summed over all steps, in Prometheus's text format 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>). Does no I/O.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use super::checkpoint::CheckpointStep;
use super::frame::{ServerStep, TopFrame};
use crate::gauges::{DeviceUse, OsSample};
use crate::statistic::{BUCKETS, Statistic, upper_bound};
use crate::time::{ProgramCost, Tier};
use host::units::{Bytes, is_treacherous};

/// Names beyond this number are summed under `FURTHER`.
const NAMES_MAX: usize = 2000;

const FURTHER: &str = "further";

/// Place, class and event.
type Name = (String, String, String);

/// Name with an optional label, help text, and reader of a step's value. Counters (`_total`) sum the steps; gauges keep
/// the last value. Equal names must be adjacent. Device figures are per second.
enum Metric {
    Step(&'static str, &'static str, fn(&TopFrame) -> Option<f64>),
    Server(&'static str, &'static str, fn(&ServerStep) -> u64),
    Checkpoint(&'static str, &'static str, fn(&CheckpointStep) -> f64),
    Device(&'static str, &'static str, fn(&DeviceUse) -> f64),
    Memory(&'static str, &'static str, fn(&OsSample) -> Bytes),
}

use Metric::{Checkpoint, Device, Memory, Server, Step};

impl Metric {
    fn name_and_help(&self) -> (&'static str, &'static str) {
        let (Step(name, help, _)
        | Server(name, help, _)
        | Checkpoint(name, help, _)
        | Device(name, help, _)
        | Memory(name, help, _)) = *self;
        (name, help)
    }

    fn family(&self) -> &'static str {
        let (name, _) = self.name_and_help();
        name.split_once('{').map_or(name, |(family, _)| family)
    }

    fn is_counter(&self) -> bool {
        self.family().ends_with("_total")
    }

    fn read(&self, step: &TopFrame) -> Option<f64> {
        let machine = step.machine.as_ref();
        match self {
            Step(.., of) => of(step),
            Server(.., of) => count(of(step.server.as_ref()?)),
            Checkpoint(.., of) => Some(of(step.checkpoint.as_ref()?)),
            Device(.., of) => Some(of(machine?.gauges.device.as_ref()?) * machine?.length_ns as f64 / 1e9),
            Memory(.., of) => count(of(&machine?.gauges).0),
        }
    }
}

const TRANSACTIONS: &str = "Finished transactions according to pg_stat_database, without pgthaw's own.";
const SESSIONS: &str = "Client sessions, without pgthaw's own.";
const CHECKPOINTS: &str = "Checkpoints started.";
const MEMORY: &str = "The machine's memory: available, used for cached files, dirty, or being written back.";

const METRICS: [Metric; 39] = [
    Step("pgthaw_up", "Whether the server answered in the last step.", |step| flag(step.failure.is_none())),
    Step("pgthaw_steps_total", "Steps since pgthaw started.", |_| Some(1.0)),
    Step(
        "pgthaw_explained_ratio",
        "Share of the processes' time in the last step that pgthaw could attribute to a state.",
        |step| step.explained,
    ),
    Step(
        "pgthaw_lived_seconds_total",
        "Total lifetime of the server's processes, measured independently of their states.",
        |step| seconds(step.time.lived_ns),
    ),
    Step("pgthaw_unknown_seconds_total", "Time in a wait whose event could not be read.", |step| {
        seconds(step.time.unknown_ns)
    }),
    Step("pgthaw_commands_total", "Commands received from clients; absent if pgthaw cannot count them.", |step| {
        step.time.commands.map(|commands| commands as f64)
    }),
    Step("pgthaw_processes", "Processes of the server in the last step.", |step| Some(step.processes.into())),
    Step("pgthaw_lost_processes", "Processes that pgthaw did not measure because there were too many.", |step| {
        count(step.imperfect.lost_processes)
    }),
    Step("pgthaw_recovered_total", "How often the kernel did not report when a process got a processor.", |step| {
        count(step.imperfect.recovered).filter(|_| is_counted(step))
    }),
    Step("pgthaw_missed_wakes_total", "Waits whose end the kernel did not report.", |step| {
        count(step.imperfect.wakes_missed).filter(|_| is_counted(step))
    }),
    Server("pgthaw_transactions_total{outcome=\"commit\"}", TRANSACTIONS, |one| one.commits),
    Server("pgthaw_transactions_total{outcome=\"rollback\"}", TRANSACTIONS, |one| one.rollbacks),
    Server("pgthaw_buffer_hits_total", "Blocks found in shared_buffers.", |one| one.blocks_hit),
    Server("pgthaw_buffer_reads_total", "Blocks read into shared_buffers.", |one| one.blocks_read),
    Server("pgthaw_temporary_bytes_total", "Bytes written to temporary files.", |one| one.temporary_bytes.0),
    Server("pgthaw_deadlocks_total", "Deadlocks detected.", |one| one.deadlocks),
    Step("pgthaw_fetched_bytes_total", "Bytes fetched from storage for the server's processes.", |step| {
        count(step.machine.as_ref()?.fetched_bytes?.0)
    }),
    Server("pgthaw_sessions{state=\"active\"}", SESSIONS, |one| one.active.into()),
    Server("pgthaw_sessions{state=\"idle in transaction\"}", SESSIONS, |one| one.idle_in_transaction.into()),
    Server("pgthaw_sessions{state=\"idle\"}", SESSIONS, |one| {
        one.clients.saturating_sub(one.active).saturating_sub(one.idle_in_transaction).into()
    }),
    Step("pgthaw_longest_transaction_seconds", "Age of the oldest client transaction.", |step| {
        seconds(step.server?.longest_transaction_ns.unwrap_or(0))
    }),
    Checkpoint("pgthaw_checkpoints_total{reason=\"timed\"}", CHECKPOINTS, |one| one.timed_added as f64),
    Checkpoint("pgthaw_checkpoints_total{reason=\"requested\"}", CHECKPOINTS, |one| one.requested_added as f64),
    Checkpoint("pgthaw_checkpoint_write_seconds_total", "Write time of finished checkpoints.", |one| {
        one.write_ms_added / 1e3
    }),
    Checkpoint("pgthaw_checkpoint_sync_seconds_total", "Sync time of finished checkpoints.", |one| {
        one.sync_ms_added / 1e3
    }),
    Checkpoint("pgthaw_checkpoint_buffers_total", "Buffers written by checkpoints.", |one| one.buffers_added as f64),
    Step("pgthaw_checkpoint_running", "Whether a checkpoint is running.", |step| {
        flag(step.checkpoint?.phase.is_running())
    }),
    Checkpoint(
        "pgthaw_wal_since_checkpoint_bytes",
        "WAL since the redo point of the last finished checkpoint.",
        |one| one.wal_bytes as f64,
    ),
    Device("pgthaw_device_reads_total", "Reads of the server's device, by any process.", |one| one.reads as f64),
    Device("pgthaw_device_read_bytes_total", "Bytes read from the server's device.", |one| one.read_bytes.0 as f64),
    Device("pgthaw_device_writes_total", "Writes to the server's device.", |one| one.writes as f64),
    Device("pgthaw_device_written_bytes_total", "Bytes written to the server's device.", |one| {
        one.written_bytes.0 as f64
    }),
    Device("pgthaw_device_busy_seconds_total", "Time in which the device had requests.", |one| one.busy_ratio),
    Device("pgthaw_device_queue_seconds_total", "Total time of requests in the device's queue.", |one| one.queue),
    Memory("pgthaw_memory_bytes{state=\"available\"}", MEMORY, |one| one.available_bytes),
    Memory("pgthaw_memory_bytes{state=\"cached\"}", MEMORY, |one| one.cached_bytes),
    Memory("pgthaw_memory_bytes{state=\"dirty\"}", MEMORY, |one| one.dirty_bytes),
    Memory("pgthaw_memory_bytes{state=\"writeback\"}", MEMORY, |one| one.writeback_bytes),
    Step("pgthaw_own_cpu_seconds_total", "Processor time of pgthaw itself.", |step| seconds(step.cost.own_cpu_ns)),
];

fn flag(is_so: bool) -> Option<f64> {
    Some(f64::from(u8::from(is_so)))
}

fn count(number: u64) -> Option<f64> {
    Some(number as f64)
}

fn seconds(ns: u64) -> Option<f64> {
    Some(ns as f64 / 1e9)
}

fn is_counted(step: &TopFrame) -> bool {
    step.source == Some(Tier::Bpf)
}

#[derive(Clone, Debug, Default)]
pub struct Totals {
    statistics: BTreeMap<Name, Statistic>,
    programs: BTreeMap<String, ProgramCost>,
    /// By index in `METRICS`; only known values.
    counters: BTreeMap<usize, f64>,
    last: TopFrame,
}

impl Totals {
    pub fn add(&mut self, frame: &TopFrame) {
        for (place, metric) in METRICS.iter().enumerate().filter(|(_, metric)| metric.is_counter()) {
            if let Some(more) = metric.read(frame) {
                *self.counters.entry(place).or_default() += more;
            }
        }
        for one in &frame.statistics {
            let mut name = (one.named.place.clone(), one.named.part.clone(), one.named.detail.clone());
            if self.statistics.len() >= NAMES_MAX && !self.statistics.contains_key(&name) {
                name = (FURTHER.into(), FURTHER.into(), FURTHER.into());
            }
            self.statistics.entry(name).or_default().merge(&one.named.statistic);
        }
        for program in frame.cost.kernel.iter().flat_map(|kernel| &kernel.programs) {
            let sum = self.programs.entry(program.name.clone()).or_default();
            (sum.runs, sum.total_ns) = (sum.runs + program.runs, sum.total_ns + program.total_ns);
        }
        // Keeps earlier values if this step has no new ones.
        let before = std::mem::replace(&mut self.last, frame.clone());
        if frame.failure.is_none() {
            self.last.server = self.last.server.or(before.server);
            self.last.checkpoint = self.last.checkpoint.or(before.checkpoint);
            self.last.machine = self.last.machine.take().or(before.machine);
        }
        self.last.statistics = Vec::new();
    }

    fn value(&self, place: usize, metric: &Metric) -> Option<f64> {
        let now = metric.read(&self.last);
        match metric.is_counter() {
            // Omits counters whose source is gone, because they would look constant. While the server is down, keeps
            // all.
            true => self.counters.get(&place).copied().filter(|_| now.is_some() || self.last.failure.is_some()),
            false => now,
        }
    }
}

pub fn render_metrics(totals: &Totals) -> String {
    let mut page = Page(String::new());
    let mut told = "";
    for (place, metric) in METRICS.iter().enumerate() {
        let Some(value) = totals.value(place, metric) else { continue };
        let (name, help) = metric.name_and_help();
        if metric.family() != told {
            told = metric.family();
            page.family(told, if metric.is_counter() { "counter" } else { "gauge" }, help);
        }
        page.sample(name, &[], value);
    }
    if let Some(source) = totals.last.source {
        let what = "How pgthaw measures times: bpf measures every wait; memory and sql take samples.";
        page.family("pgthaw_source_info", "gauge", what);
        page.sample("pgthaw_source_info", &[("source", source.name()), ("version", env!("CARGO_PKG_VERSION"))], 1);
    }
    render_times(&mut page, totals);
    if !totals.programs.is_empty() {
        page.family("pgthaw_probe_runs_total", "counter", "Runs of pgthaw's BPF programs.");
        for (program, cost) in &totals.programs {
            page.sample("pgthaw_probe_runs_total", &[("program", program)], cost.runs);
        }
        let what = "Run time of pgthaw's BPF programs, by the kernel's count.";
        page.family("pgthaw_probe_seconds_total", "counter", what);
        for (program, cost) in &totals.programs {
            page.sample("pgthaw_probe_seconds_total", &[("program", program)], cost.total_ns as f64 / 1e9);
        }
    }
    page.0
}

struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
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
}

/// Precedes the code of a character that terminals interpret and the format cannot escape.
const MARK: char = char::REPLACEMENT_CHARACTER;

/// Replaces control characters, and `MARK` itself, by their codes, so that distinct names stay distinct.
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

fn render_times(page: &mut Page, totals: &Totals) {
    fn labels((place, class, event): &Name) -> [(&str, &str); 3] {
        [("where", place), ("class", class), ("event", event)]
    }
    let (time, duration) = ("pgthaw_process_time_seconds_total", "pgthaw_wait_duration_seconds");
    page.family(time, "counter", "Time of the server's processes, including waits in progress.");
    for (name, statistic) in &totals.statistics {
        page.sample(time, &labels(name), statistic.total_ns as f64 / 1e9);
    }
    let mut timed = totals.statistics.iter().filter(|(_, one)| one.max_ns.is_some()).peekable();
    if timed.peek().is_some() {
        let what = "Lengths of finished waits; the sum includes waits in progress.";
        page.family(duration, "histogram", what);
    }
    timed.for_each(|(name, statistic)| render_histogram(page, duration, &labels(name), statistic));
}

/// Buckets are cumulative.
fn render_histogram(page: &mut Page, name: &str, labels: &[(&str, &str)], statistic: &Statistic) {
    let mut below = 0;
    for (bucket, count) in statistic.histogram.iter().enumerate() {
        below += count;
        let seconds = || (upper_bound(bucket) as f64 / 1e9).to_string();
        let bound = if bucket == BUCKETS - 1 { "+Inf".to_owned() } else { seconds() };
        page.sample(&format!("{name}_bucket"), &[labels, &[("le", bound.as_str())]].concat(), below);
    }
    page.sample(&format!("{name}_sum"), labels, statistic.total_ns as f64 / 1e9);
    page.sample(&format!("{name}_count"), labels, below);
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::top::frame::tests::{SECOND, span};
    use crate::top::frame::{Activity, MachineStep, TopStatistic};

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

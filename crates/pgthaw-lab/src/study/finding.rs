//! Part of `--json`: never rename findings or figures.

use serde::{Deserialize, Serialize};
use strum::{EnumMessage, IntoStaticStr};

use super::others::Others;
use crate::{JsonSchema, TS};
use host::units::{Bytes, counted};
use model::Undecided;
use postgres::keep_record;

/// A doubt about a measurement. Ratios are 0 to 1 unless stated otherwise.
// The error text is the sentence, `message` the remedy, `detailed_message` the remedy for imports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, EnumMessage, IntoStaticStr, thiserror::Error, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Finding {
    /// The trial reached no steady level, or only a cold server's. `verdict` is `degrading` or `not_reached`, `start`
    /// the requested start state. `undecided` and `should_have_run_seconds` are as in `pgthaw judge`.
    #[error("the trial never became steady (verdict: {}): {reason}", verdict.replace('_', " "))]
    NeverSteady {
        verdict: String,
        reason: String,
        undecided: Option<Undecided>,
        should_have_run_seconds: Option<f64>,
        start: String,
    },
    /// The start state was not the requested one. `memory_bytes` is the machine's memory.
    #[error("the start was {found} instead of {asked}: {resident_bytes} of {total_bytes} were in the page cache")]
    StartNotAsAsked {
        asked: String,
        found: String,
        resident_bytes: Bytes,
        total_bytes: Bytes,
        memory_bytes: Option<Bytes>,
    },
    /// The trials of a study differ in checkpoints. The fields are the fewest and the most in any trial.
    #[error(
        "the trials differ: {fewest} to {most} checkpoints, {fewest_cycles} to {most_cycles} complete checkpoint cycles"
    )]
    #[strum(
        message = "make each trial last several times checkpoint_timeout; `pgthaw results compare` then uses only complete checkpoint cycles"
    )]
    UnequalCheckpoints { fewest: u32, most: u32, fewest_cycles: u32, most_cycles: u32 },
    /// pgbench limited the throughput.
    #[error("{}", .0.sentence())]
    #[strum(message = "give pgbench more threads (points.jobs), or run it on processors of its own")]
    GeneratorSaturated(Saturation),
    /// Too few transactions for a `percentile` (0 to 1).
    #[error(
        "{} too few for the {}th percentile, which needs {needed}",
        if *transactions == 1 { "1 transaction is".to_owned() } else { format!("{transactions} transactions are") },
        percentile * 100.0
    )]
    #[strum(message = "run the trial longer (points.seconds), or use a lower percentile")]
    #[strum(detailed_message = "run the trial longer (pgbench -T), or use a lower percentile")]
    TooFewTransactions { percentile: f64, transactions: u64, needed: u64 },
    /// The trial is too short. After `needed_seconds`, the model predicts a warm server.
    #[error("the trial lasts {seconds} s, but the model predicts a warm server only after {needed_seconds:.0} s")]
    RuntimeTooShort { seconds: u32, needed_seconds: f64 },
    /// The database fits into a `cache` (`shared_buffers` or `memory`) that it should exceed.
    #[error(
        "the database ({database_bytes}) fits into {cache} ({cache_bytes}), but [exceeds] in the study requires a larger database"
    )]
    #[strum(message = "choose a larger scale, or make the cache smaller")]
    FitsCache { cache: String, database_bytes: Bytes, cache_bytes: Bytes },
    /// Autovacuum ran in the trial.
    #[error("autovacuum ran {} during the trial, on {}", counted(*runs, "time"), tables.join(", "))]
    #[strum(
        message = "make trials long enough to include complete autovacuum runs, or leave autovacuum off (a study's default)"
    )]
    Autovacuum { runs: u32, tables: Vec<String> },
    /// Updates and deletes bloated `tables`, the worst first. `grown_ratio` is their growth, `dead_ratio` their share
    /// of dead rows. Tables with inserts do not count.
    #[error(
        "updates and deletes bloated {}: the tables grew by {}, and {} of their rows are dead",
        tables.join(", "), percent(*grown_ratio), percent(*dead_ratio)
    )]
    #[strum(
        message = "compare trials of the same length, or turn autovacuum on and make trials long enough to include its runs"
    )]
    Bloat { grown_ratio: f64, dead_ratio: f64, tables: Vec<String> },
    /// Servers of a study were built with assertions. `servers` is empty if the study has one server.
    #[error("{} built with assertions, which cost time", who_was(servers))]
    #[strum(message = "use a server that was built without --enable-cassert (--bin-dir, or [servers])")]
    AssertionsEnabled { servers: Vec<String> },
    /// Servers of a study were built without optimisation. `servers` is empty if the study has one server. `level` is
    /// the last `-O…` of the compiler's flags, or empty.
    #[error(
        "{} built for debugging, which costs time: the compiler flags contain {}",
        who_was(servers), if level.is_empty() { "no -O" } else { level }
    )]
    #[strum(message = "use a server that was built with -O2, as packages are (--bin-dir, or [servers])")]
    UnoptimisedBuild { servers: Vec<String>, level: String },
    /// fsync was off.
    #[error("fsync is off: the server did not flush its writes to disk")]
    #[strum(message = "set fsync = on, unless the study is about it")]
    FsyncOff,
    /// A requested setting, limit or read-ahead (`what`) is not in force. A finding about a disk can concern a whole
    /// study.
    #[error("{what} is not in force: {reason}")]
    #[strum(message = "the figures do not reflect the requested value: fix the cause and measure again")]
    NotInForce { what: String, reason: String },
    /// pgbench and the server share processors. `busy_ratio` and `generator_ratio` are shares of the time of all
    /// processors.
    #[error(
        "server and pgbench share {}, which {} {} busy; pgbench used {} of the processor time",
        counted(*processors, "processor"), if *processors == 1 { "was" } else { "were" }, percent(*busy_ratio), percent(*generator_ratio)
    )]
    #[strum(message = "compare only points of the same machine, or run pgbench and the server on separate processors")]
    SharedProcessors { busy_ratio: f64, generator_ratio: f64, processors: u32 },
    /// Repeats of a point differ. `ratio` is the median, over the points, of the highest throughput ÷ the lowest.
    #[error(
        "of {repeats} repeats of a point, the fastest is {} faster than the slowest (median of the points): smaller differences may be noise",
        percent(ratio - 1.0)
    )]
    #[strum(message = "use more repeats and longer trials, and run fewer other programs")]
    NoiseFloor { ratio: f64, repeats: u32 },
    /// A study with one trial per point shows no spread.
    #[error("one trial per point shows no spread")]
    #[strum(message = "set repeats = 3 or more")]
    #[strum(detailed_message = "import three or more runs of each point")]
    OneRepeat,
    /// The compared trials are from two studies.
    #[error("the compared trials are from two sweeps: if the machine changed in between, that looks like a difference")]
    #[strum(message = "measure both sides in one sweep")]
    TwoSweeps,
    /// At one point of the comparison, there are too few pairs of trials.
    #[error("{} cannot show a difference at p < 0.05, however large it is", counted(*pairs, "pair"))]
    TooFewPairs { pairs: u32, needed: u32 },
    /// `within` of the compared differences may be noise: identical points (`--aa`) differ by ratios up to
    /// `floor_ratio` (above 1).
    #[error(
        "{within} of {} {} within the noise floor: a sweep that measured each point twice (--aa) differs from itself by up to {:.1} %",
        counted(*differences, "difference"), if *within == 1 { "is" } else { "are" }, 100.0 * (floor_ratio - 1.0)
    )]
    #[strum(message = "treat these differences as noise, or lower the noise floor with more repeats and longer trials")]
    WithinNoise { within: u32, differences: u32, floor_ratio: f64 },
    /// In `unequal` of the compared pairs, the trials differ in checkpoints, and their figures are not limited to
    /// complete checkpoint cycles.
    #[error(
        "in {unequal} of {}, one trial had more checkpoints than the other, and the figures include incomplete checkpoint cycles",
        counted(*pairs, "pair")
    )]
    #[strum(
        message = "make each trial last several times checkpoint_timeout, and compare tps or worst-second: for these metrics, pgthaw can leave out incomplete checkpoint cycles"
    )]
    UncutCheckpoints { unequal: u32, pairs: u32 },
    /// Other processes used the machine.
    #[error("{}", .0.sentence())]
    Others(Others),
    /// pgthaw read the counters late, by at most `worst_ms`.
    #[error(
        "{late} of {} were up to {worst_ms} ms late, so pgthaw scaled their values to one second",
        counted(*readings, "per-second reading")
    )]
    #[strum(message = "run fewer other programs")]
    LateReadings { late: usize, readings: usize, worst_ms: u64 },
    /// Bytes were read during the start of the server.
    #[error("the trial had a head start: {bytes} were read while the server started, before the measurement")]
    #[strum(
        message = "when comparing bytes read, add the bytes read during the server's start to those read in the trial"
    )]
    HeadStart { bytes: Bytes },
    /// The strategy ended with an error.
    #[error("{strategy} failed: {reason}")]
    #[strum(message = "fix this error and measure again: this trial does not measure the strategy")]
    StrategyFailed { strategy: String, reason: String },
    /// The study skipped a warmer that is not installed. `how` is the advice to install it.
    #[error("skipped {strategy}")]
    StrategyLeftOut { strategy: String, how: String },
    /// The warmer did not load all pages of the snapshot.
    #[error("only {resident_bytes} of the snapshot's {wanted_bytes} became resident")]
    #[strum(message = "check the warmer's output, or give it more time (points.seconds)")]
    NotBroughtBack { resident_bytes: Bytes, wanted_bytes: Bytes },
    /// Loaded bytes were evicted before the trial ended.
    #[error("{bytes} were evicted from the page cache again before the trial ended")]
    #[strum(message = "stop the kernel from paging out idle memory (DAMON), or leave more memory free")]
    TakenBack { bytes: Bytes },
    /// The kernel of the study's machine pages out idle memory.
    #[error("the kernel pages out idle memory (DAMON): a warm start may not stay warm")]
    #[strum(message = "while measuring, stop DAMON's scheme (/sys/kernel/mm/damon/admin) or the module damon_reclaim")]
    IdleMemoryPagedOut,
    /// pgbench's threads on these hosts were not visible.
    #[error(
        "cannot determine whether pgbench was the limit: pgbench's threads on {} are not visible",
        hosts.join(", ")
    )]
    #[strum(message = "check processor use on these hosts, or set points.rate: late transactions then show saturation")]
    GeneratorsUnseen { hosts: Vec<String> },
    /// pgbench did not start at the same time on all hosts. `uncertainty_ms` is the clocks' uncertainty.
    #[error(
        "the load generators started {spread_ms:.0} ms apart (± {uncertainty_ms:.0} ms), so the load was incomplete at first"
    )]
    #[strum(
        message = "reduce other load on the hosts, and make trials long enough that the different start times do not matter"
    )]
    GeneratorsApart { spread_ms: f64, uncertainty_ms: f64 },
    /// The trial lasted longer or shorter than requested.
    #[error(
        "the load lasted {lasted_seconds:.1} s instead of {asked_seconds:.0} s: it began late, or its last transactions took long"
    )]
    #[strum(message = "run fewer other programs, and make trials longer")]
    OtherDuration { asked_seconds: f64, lasted_seconds: f64 },
    /// The requested rate was not reached. Figures are transactions per second.
    #[error("reached {reached:.0} of the requested {asked:.0} transactions per second")]
    #[strum(message = "request a lower rate, or find the cause on the trial's page (`pgthaw report`)")]
    #[strum(detailed_message = "request a lower rate (pgbench -R); the imported files do not show the cause")]
    RateNotReached { asked: f64, reached: f64 },
    /// The hosts have different versions of pgbench.
    #[error("the hosts have different versions of pgbench: {}", versions.join(", "))]
    #[strum(message = "install the same version everywhere, or set its path (generators.pgbench)")]
    GeneratorsDiffer { versions: Vec<String> },
    /// No transaction succeeded.
    #[error(
        "the server completed no transaction in {lasted_seconds:.0} s{}",
        if *failed == 0 { String::new() } else { format!(", and {failed} failed") }
    )]
    #[strum(message = "find the cause in the server's log")]
    #[strum(detailed_message = "find the cause in pgbench's messages and in the server's log")]
    NothingServed { lasted_seconds: f64, failed: u64 },
    /// The trial is short: it lasted less than a minute, with fewer than 100,000 transactions.
    #[error(
        "the trial lasted less than a minute and served fewer than 100,000 transactions: too short to be representative"
    )]
    #[strum(message = "set points.seconds = 60 or more")]
    #[strum(detailed_message = "run pgbench for a minute (-T 60) or longer")]
    ShortRun { lasted_seconds: f64, transactions: u64 },
    /// More clients than branches. `waiting` is the mean number of clients that wait for another client's row.
    #[error(
        "{clients} clients update {} of pgbench_branches: on average, {waiting:.1} of them waited for a row lock",
        counted(*scale, "row")
    )]
    #[strum(message = "use scale >= clients, or a script that does not update pgbench_branches (simple-update)")]
    ClientsBeyondScale { clients: u32, scale: u32, waiting: f64 },
    /// Accounting for the server's time was expensive: it used the share `ratio` of all processors.
    #[error("pgthaw used {} of all processors to measure where the server's time went", percent(*ratio))]
    #[strum(message = "no action needed: this affects all trials alike; time = false in a study file avoids it")]
    DearAccount { ratio: f64 },
    /// The measured times need more processors than exist.
    #[error(
        "pgthaw measured the server's time wrongly: the measured times need {used:.2} processors, but the server has {}",
        counted(*processors, "processor")
    )]
    #[strum(
        message = "do not rely on this trial's running and waiting times, and report this with the kernel's version"
    )]
    ProcessorsExceeded { used: f64, processors: u32 },
    /// Databases of a study fit into caches. All fields count points; points that start cold are not included.
    #[error(
        "the database fits into shared_buffers at {in_shared_buffers} of the study's {}, and into memory at {in_memory} of them: a warm server then reads nothing from the disk",
        counted(*points, "point")
    )]
    #[strum(
        message = "no action needed if this is intended; otherwise use larger scales; [exceeds] in the study file sets the smallest scale whose database must be larger than shared_buffers or memory"
    )]
    FitsCaches { in_shared_buffers: u32, in_memory: u32, points: u32 },
    // The kinds below occur only in imports.
    /// The imported log has gaps.
    #[error(
        "the log has no data for {seconds} of its {of_seconds} s; the longest gap is {longest_seconds} s, from second {} on: the server stalled, or a part of the log is missing",
        longest_after_seconds + 1
    )]
    #[strum(
        message = "check the server's log for a stall; if there was none, import the complete files or another run"
    )]
    LogGaps { seconds: u32, of_seconds: u32, longest_seconds: u32, longest_after_seconds: u32 },
    /// The imported log is incomplete: it has `logged` of `transactions` transactions and `clients` of `of_clients`
    /// clients (0 of 0 with `--aggregate-interval`).
    #[error("{}", partial_sentence(*logged, *transactions, *clients, *of_clients))]
    #[strum(message = "import the logs of all threads; if the log is a sample, use only its percentiles")]
    LogPartial { logged: u64, transactions: u64, clients: u32, of_clients: u32 },
    /// The clock was set back by `seconds` in an imported log.
    #[error("the timestamps jump back by {seconds:.1} s: the clock was set back, or the file holds several runs")]
    #[strum(message = "import each log as pgbench wrote it, from a run without a clock change")]
    ClockSetBack { seconds: f64 },
    /// pgbench aborted clients of an imported run.
    #[error("{}", aborted_sentence(*aborted_clients, *clients, *transactions, *asked_transactions))]
    #[strum(message = "find the cause in pgbench's messages and in the server's log, and measure again")]
    RunAborted { aborted_clients: u32, clients: Option<u32>, transactions: u64, asked_transactions: Option<u64> },
    /// An import or study lacks information. `what` was assumed, `how` is a way to supply it.
    #[error("{what}")]
    Assumed { what: String, how: String },
}

impl Finding {
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// True if the trial measured something other than requested.
    pub fn is_refusing(&self) -> bool {
        matches!(
            self,
            Finding::StartNotAsAsked { .. }
                | Finding::NotInForce { .. }
                | Finding::StrategyFailed { .. }
                | Finding::GeneratorSaturated(_)
                | Finding::FitsCache { .. }
        )
    }

    /// Distinguishes findings of the same kind; may be empty.
    pub fn subject(&self) -> &str {
        match self {
            Finding::NotInForce { what, .. } => what,
            Finding::StrategyLeftOut { strategy, .. } => strategy,
            Finding::FitsCache { cache, .. } => cache,
            Finding::Assumed { what, .. } => what,
            _ => "",
        }
    }

    pub fn remedy(&self, is_imported: bool) -> String {
        let text = match self {
            Finding::NeverSteady { verdict, start, should_have_run_seconds, .. } => {
                let option = if is_imported { "pgbench -T" } else { "points.seconds" };
                return steady_remedy(verdict, start, *should_have_run_seconds, option);
            }
            Finding::StartNotAsAsked { asked, total_bytes, memory_bytes, .. } => {
                return start_remedy(asked, *total_bytes, *memory_bytes);
            }
            Finding::GeneratorSaturated(Saturation { sign: SaturationSign::ScheduleLag, .. }) => {
                "request a lower rate, give pgbench more threads (points.jobs), or run it on processors of its own"
            }
            Finding::RuntimeTooShort { needed_seconds, .. } => {
                return format!("set points.seconds = {:.0}, or use a smaller scale", 1.2 * needed_seconds + 10.0);
            }
            Finding::TooFewPairs { needed, .. } => return format!("set repeats = {needed} or more"),
            Finding::Others(others) => return others.remedy(),
            Finding::StrategyLeftOut { how, .. } | Finding::Assumed { how, .. } => how,
            other if is_imported => other.get_detailed_message().or(other.get_message()).unwrap_or_default(),
            other => other.get_message().unwrap_or_default(),
        };
        text.to_owned()
    }
}

fn who_was(servers: &[String]) -> String {
    match servers {
        [] => "the server was".to_owned(),
        [one] => format!("the server {one} was"),
        several => format!("the servers {} were", several.join(", ")),
    }
}

/// A trial that started warm needs no advice to start warm. A degrading server needs more than a longer trial.
fn steady_remedy(verdict: &str, start: &str, should_have_run_seconds: Option<f64>, option: &str) -> String {
    let length = should_have_run_seconds.map_or("longer".to_owned(), |seconds| format!("for {seconds:.0} s"));
    let longer = format!("run the trial {length} ({option})");
    match start {
        _ if verdict == "degrading" => {
            format!("find what slows the server down over time (bloat, checkpoints, other programs), or {longer}")
        }
        "warm" | "restored" => longer,
        _ => format!("{longer}, or start with a warm server"),
    }
}

fn start_remedy(asked: &str, total: Bytes, memory: Option<Bytes>) -> String {
    match memory {
        _ if asked == "cold" => "make sure that nothing else reads the cluster's files, and repeat".to_owned(),
        Some(memory) if total >= memory => format!(
            "{total} do not fit into the machine's memory of {memory}: choose a smaller scale, or start = \"cold\""
        ),
        _ => "make sure that the database fits into memory, and that no other program needs that memory".to_owned(),
    }
}

fn partial_sentence(logged: u64, transactions: u64, clients: u32, of_clients: u32) -> String {
    let parts = [
        (logged < transactions).then(|| format!("{logged} of {}", counted(transactions, "transaction"))),
        (clients < of_clients).then(|| format!("{clients} of {}", counted(of_clients, "client"))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let cause = if clients < of_clients {
        "logs of threads are"
    } else {
        "it is a sample (pgbench --sampling-rate), or a part is"
    };
    format!("the log holds {}: {cause} missing", parts.join(", and "))
}

fn aborted_sentence(aborted: u32, clients: Option<u32>, transactions: u64, asked: Option<u64>) -> String {
    let of = clients.map_or_else(String::new, |clients| format!(" of {clients}"));
    let who = if aborted == 0 { "pgbench".to_owned() } else { format!("{aborted}{of} clients") };
    let done = match asked.filter(|asked| transactions < *asked) {
        Some(asked) => format!("{transactions} of {asked} transactions were completed"),
        None => "the load was lower than requested".to_owned(),
    };
    format!("{who} aborted before the end: {done}")
}

/// A problem of a trial, study, comparison or import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[ts(type = "{ kind: string, sentence: string, remedy: string }")]
pub struct MeasurementVerdict {
    #[serde(flatten)]
    pub finding: Finding,
    pub sentence: String,
    pub remedy: String,
}

impl From<Finding> for MeasurementVerdict {
    fn from(finding: Finding) -> MeasurementVerdict {
        MeasurementVerdict::new(finding, false)
    }
}

impl MeasurementVerdict {
    pub fn of_import(finding: Finding) -> MeasurementVerdict {
        MeasurementVerdict::new(finding, true)
    }

    fn new(finding: Finding, is_imported: bool) -> MeasurementVerdict {
        let (sentence, remedy) = (finding.to_string(), finding.remedy(is_imported));
        let mut verdict = MeasurementVerdict { sentence, remedy, finding };
        keep_record(&mut verdict);
        verdict
    }

    pub fn text(&self) -> String {
        format!("{}: {}", self.sentence, self.remedy)
    }
}

pub fn texts_of(verdicts: &[MeasurementVerdict]) -> Vec<String> {
    verdicts.iter().map(MeasurementVerdict::text).collect()
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Saturation {
    pub sign: SaturationSign,
    pub threads: u32,
    /// Median share of time that the busiest thread was on a processor.
    pub cpu_ratio: f64,
    /// Median share of time that the busiest thread waited for a processor.
    pub run_delay_ratio: f64,
    /// Share of client backends that wait for pgbench; `None` if unknown, or if pauses or a rate explain it.
    pub idle_backends_ratio: Option<f64>,
    /// Share of the response time that passed before transactions began; `None` without a rate.
    pub lag_ratio: Option<f64>,
    /// Throughput of pgbench with an empty statement.
    pub empty_tps: Option<f64>,
    /// Hosts whose threads are not included.
    pub unseen_hosts: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SaturationSign {
    /// A thread used nearly as much of a core as when pgbench runs empty statements.
    NearOneCore,
    /// A thread was never idle, and backends waited for it.
    NeverIdle,
    /// Transactions began late, and a thread of pgbench was never idle. If the threads on some hosts were not visible,
    /// it is enough that transactions began late and half of the backends waited for pgbench.
    ScheduleLag,
}

impl Saturation {
    pub fn sentence(&self) -> String {
        let Saturation { threads, cpu_ratio, run_delay_ratio, .. } = self;
        let who = match threads {
            1 => "pgbench's thread".to_owned(),
            _ => format!("the busiest of pgbench's {threads} threads"),
        };
        let (ran, waited) = (percent(*cpu_ratio), percent(*run_delay_ratio));
        let seen = format!("{who} ran {ran} of the time and waited for a processor {waited}");
        let busy = match self.unseen_hosts.is_empty() {
            true => seen,
            false if *threads == 0 => format!("pgbench's threads on {} are not visible", self.unseen_hosts.join(", ")),
            false => format!("{seen} (the threads on {} are not visible)", self.unseen_hosts.join(", ")),
        };
        let idle = |ratio| format!(", while {} of the backends waited for pgbench", percent(ratio));
        let why = match self.sign {
            SaturationSign::NearOneCore => String::new(),
            SaturationSign::NeverIdle => idle(self.idle_backends_ratio.unwrap_or_default()),
            SaturationSign::ScheduleLag => {
                let idle = self.idle_backends_ratio.map(idle).unwrap_or_default();
                let lag = percent(self.lag_ratio.unwrap_or_default());
                format!(", and {lag} of the response time passed before transactions began{idle}")
            }
        };
        let empty = self.empty_tps.map(|tps| format!("; pgbench can run {tps:.0} empty statements per second"));
        format!("pgbench itself is the limit: {busy}{why}{}", empty.unwrap_or_default())
    }
}

fn percent(ratio: f64) -> String {
    format!("{:.0} %", 100.0 * ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_is_one_for_this_trial() {
        let steady = |verdict: &str, start: &str| {
            let (verdict, start) = (verdict.to_owned(), start.to_owned());
            Finding::NeverSteady {
                verdict,
                reason: String::new(),
                undecided: None,
                should_have_run_seconds: Some(70.0),
                start,
            }
            .remedy(false)
        };
        assert_eq!(steady("not_reached", "warm"), "run the trial for 70 s (points.seconds)");
        assert_eq!(
            steady("not_reached", "cold"),
            "run the trial for 70 s (points.seconds), or start with a warm server"
        );
        assert!(steady("degrading", "cold").starts_with("find what slows the server down"));
        let start = |asked: &str, memory: Option<u64>| {
            let memory_bytes = memory.map(Bytes);
            let (asked, found) = (asked.to_owned(), "lukewarm".to_owned());
            Finding::StartNotAsAsked { asked, found, resident_bytes: Bytes(1), total_bytes: Bytes(9), memory_bytes }
                .remedy(false)
        };
        assert!(start("warm", Some(9)).starts_with("9 bytes do not fit into the machine's memory of 9 bytes"));
        assert!(start("warm", Some(10)).contains("no other program"));
        assert!(start("cold", Some(1)).contains("nothing else reads the cluster's files"));
    }
}

#[cfg(test)]
mod measurement_verdict_tests {
    use super::*;

    #[test]
    fn a_verdict_comes_back_as_it_was_kept() {
        let saturation = Saturation {
            sign: SaturationSign::NeverIdle,
            threads: 1,
            cpu_ratio: 0.75,
            run_delay_ratio: 0.2,
            idle_backends_ratio: Some(0.8),
            lag_ratio: None,
            empty_tps: Some(40_000.4),
            unseen_hosts: vec!["bench1".into()],
        };
        for finding in [
            Finding::GeneratorSaturated(saturation),
            Finding::FsyncOff,
            Finding::GeneratorsApart { spread_ms: 120.5, uncertainty_ms: 2.5 },
            Finding::GeneratorsUnseen { hosts: vec!["bench1".into()] },
            Finding::FitsCache { cache: "memory".into(), database_bytes: Bytes(5), cache_bytes: Bytes(10) },
            Finding::Autovacuum { runs: 2, tables: vec!["pgbench_accounts".into()] },
            Finding::StrategyLeftOut { strategy: "vmtouch".into(), how: "apt-get install vmtouch".into() },
            Finding::StrategyFailed { strategy: "cat".into(), reason: "no".into() },
            Finding::NotInForce { what: "the limit".into(), reason: "no".into() },
        ] {
            let verdict = MeasurementVerdict::from(finding);
            let text = serde_json::to_string(&verdict).unwrap();
            for field in ["\"kind\"", "\"sentence\"", "\"remedy\""] {
                assert_eq!(text.matches(field).count(), 1, "{text}");
            }
            assert!(!verdict.remedy.is_empty() && verdict.text().contains(&verdict.sentence));
            assert_eq!(serde_json::from_str::<MeasurementVerdict>(&text).unwrap(), verdict);
        }
    }
}

//! Findings about a measurement. Names of findings and figures are part of `--json` (docs/formats.md): add, never
//! rename.

use serde::{Deserialize, Serialize};
use strum::{EnumMessage, IntoStaticStr};

use super::others::Others;
use host::units::{Bytes, counted};
use model::Undecided;

/// The error text is the sentence, `message` the remedy, and `detailed_message` the remedy for imports. Ratios are 0 to
/// 1 unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, EnumMessage, IntoStaticStr, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Finding {
    // `verdict`: `not_reached` or `degrading`. `undecided`: why it is open. `start`: as in the study file.
    #[error("never steady ({}): {reason}", verdict.replace('_', " "))]
    NeverSteady {
        verdict: String,
        reason: String,
        undecided: Option<Undecided>,
        should_have_run_seconds: Option<f64>,
        start: String,
    },
    #[error("it was to start {asked} and started {found}: {resident_bytes} of {total_bytes} were in the page cache")]
    StartNotAsAsked {
        asked: String,
        found: String,
        resident_bytes: Bytes,
        total_bytes: Bytes,
        memory_bytes: Option<Bytes>,
    },
    #[error(
        "the trials saw {fewest} to {most} checkpoints, and {fewest_cycles} to {most_cycles} whole cycles of them: they are not alike"
    )]
    #[strum(
        message = "let trials last several times checkpoint_timeout: results compare cuts pairs to whole cycles where both trials have some"
    )]
    UnequalCheckpoints { fewest: u32, most: u32, fewest_cycles: u32, most_cycles: u32 },
    #[error("{}", .0.sentence())]
    #[strum(message = "give pgbench more threads (points.jobs), or run it on processors of its own")]
    GeneratorSaturated(Saturation),
    #[error(
        "{} too few for the {}th percentile, which needs {needed}",
        if *transactions == 1 { "1 transaction is".to_owned() } else { format!("{transactions} transactions are") },
        percentile * 100.0
    )]
    #[strum(message = "let the trial last longer (points.seconds), or read a lower percentile")]
    #[strum(detailed_message = "let the trial last longer (pgbench -T), or read a lower percentile")]
    TooFewTransactions { percentile: f64, transactions: u64, needed: u64 },
    #[error("it lasts {seconds} s, and by the model is warm after {needed_seconds:.0} s")]
    RuntimeTooShort { seconds: u32, needed_seconds: f64 },
    #[error("the database has {database_bytes} and fits into {cache}, {cache_bytes}, which it was to exceed")]
    #[strum(message = "choose a larger scale, or make the cache smaller")]
    FitsCache { cache: String, database_bytes: Bytes, cache_bytes: Bytes },
    #[error("autovacuum worked {} meanwhile, on {}", counted(*runs, "time"), tables.join(", "))]
    #[strum(
        message = "let trials last long enough to have all of it, or leave autovacuum off (the default of a study)"
    )]
    Autovacuum { runs: u32, tables: Vec<String> },
    // Tables without inserts: shares of their size and rows.
    #[error(
        "updates and deletes left something behind in {}: the tables grew by {}, and {} of their rows are dead",
        tables.join(", "), percent(*grown_ratio), percent(*dead_ratio)
    )]
    #[strum(
        message = "compare trials of the same length, or turn autovacuum on and let them last long enough to have all of it"
    )]
    Bloat { grown_ratio: f64, dead_ratio: f64, tables: Vec<String> },
    // Empty if the study has one server.
    #[error("{} built with assertions, which cost time", who_was(servers))]
    #[strum(message = "use a server that was built without --enable-cassert (--bin-dir, or [servers])")]
    AssertionsEnabled { servers: Vec<String> },
    // `level`: last `-O…` of the compiler's flags, empty without one.
    #[error(
        "{} built for debugging, which costs time: the compiler's flags have {}",
        who_was(servers), if level.is_empty() { "no -O" } else { level }
    )]
    #[strum(message = "use a server that was built with -O2, as packages are (--bin-dir, or [servers])")]
    UnoptimisedBuild { servers: Vec<String>, level: String },
    #[error("fsync is off: what was written did not have to reach the disk")]
    #[strum(message = "fsync = on, unless it is what the study is about")]
    FsyncOff,
    #[error("{what} is not in force: {reason}")]
    #[strum(message = "see that it can be had here; what was measured is without it")]
    NotInForce { what: String, reason: String },
    // Shares of all processors' time.
    #[error(
        "server and pgbench share {}, which {} {} busy; pgbench took {} of the time",
        counted(*processors, "processor"), if *processors == 1 { "was" } else { "were" }, percent(*busy_ratio), percent(*generator_ratio)
    )]
    #[strum(message = "compare points of one machine alone, or keep pgbench and the server on processors of their own")]
    SharedProcessors { busy_ratio: f64, generator_ratio: f64, processors: u32 },
    // `ratio`: median over the points of largest ÷ smallest.
    #[error(
        "the fastest of {repeats} repeats of a point is {} faster than the slowest in the median: smaller differences between points may be noise",
        percent(ratio - 1.0)
    )]
    #[strum(message = "more repeats, longer trials, and fewer other programs")]
    NoiseFloor { ratio: f64, repeats: u32 },
    #[error("one trial per point shows no spread")]
    #[strum(message = "repeats = 3, or more")]
    #[strum(detailed_message = "import three runs of each point, or more")]
    OneRepeat,
    #[error("the sides are of two sweeps, one after the other: a drift of the machine looks like a difference")]
    #[strum(message = "measure both in one sweep")]
    TwoSweeps,
    #[error("{} cannot show a difference at p < 0.05, however large it is", counted(*pairs, "pair"))]
    TooFewPairs { pairs: u32, needed: u32 },
    // `floor_ratio` is above 1.
    #[error(
        "{within} of {} {} within the noise floor: equal sides of the sweep differ by up to {:.1} %",
        counted(*differences, "difference"), if *within == 1 { "is" } else { "are" }, 100.0 * (floor_ratio - 1.0)
    )]
    #[strum(message = "take them for none, or measure with more repeats and longer trials until the floor is lower")]
    WithinNoise { within: u32, differences: u32, floor_ratio: f64 },
    #[error(
        "in {unequal} of {} one trial saw more checkpoints than the other, and they were not cut to whole cycles",
        counted(*pairs, "pair")
    )]
    #[strum(message = "let trials last several times checkpoint_timeout, and compare tps or worst-second")]
    UncutCheckpoints { unequal: u32, pairs: u32 },
    #[error("{}", .0.sentence())]
    Others(Others),
    #[error("{late} of {} came late, by up to {worst_ms} ms, and were scaled", counted(*readings, "reading"))]
    #[strum(message = "run fewer other programs")]
    LateReadings { late: usize, readings: usize, worst_ms: u64 },
    #[error("{bytes} were read while the server started, before the clock did: a head start")]
    #[strum(message = "count it with what the trial read")]
    HeadStart { bytes: Bytes },
    #[error("{strategy} failed: {reason}")]
    #[strum(message = "see to what it says, and measure anew: the trial warmed itself")]
    StrategyFailed { strategy: String, reason: String },
    // `how` is the installation advice.
    #[error("without {strategy}")]
    StrategyLeftOut { strategy: String, how: String },
    #[error("only {resident_bytes} of {wanted_bytes} became resident")]
    #[strum(message = "see what it says, or let it take longer (points.seconds)")]
    NotBroughtBack { resident_bytes: Bytes, wanted_bytes: Bytes },
    #[error("{bytes} were taken from the page cache again before the end")]
    #[strum(message = "stop what pages out idle memory (DAMON), or leave more of it free")]
    TakenBack { bytes: Bytes },
    #[error("the kernel pages out memory that was idle for a while (DAMON): a warm start may not stay so")]
    #[strum(message = "stop the scheme (/sys/kernel/mm/damon/admin) or the module damon_reclaim while measuring")]
    IdleMemoryPagedOut,
    // These hosts' threads are not visible, and without a rate nothing else shows saturation.
    #[error("whether pgbench was the limit is not known: its threads on {} are not seen", hosts.join(", "))]
    #[strum(message = "look at the processors there, or ask for a rate (points.rate): being late shows it from here")]
    GeneratorsUnseen { hosts: Vec<String> },
    #[error(
        "the generators began {spread_ms:.0} ms apart (± {uncertainty_ms:.0} ms), so not all of the load was there at once"
    )]
    #[strum(message = "give the hosts less else to do, and let trials last so long that it does not matter")]
    GeneratorsApart { spread_ms: f64, uncertainty_ms: f64 },
    #[error(
        "the load lasted {lasted_seconds:.1} s instead of {asked_seconds:.0}: it began late, or its last transactions took long"
    )]
    #[strum(message = "run fewer other programs, and let trials last longer")]
    OtherDuration { asked_seconds: f64, lasted_seconds: f64 },
    #[error("{asked:.0} transactions per second were asked for, and there were {reached:.0}")]
    #[strum(message = "ask for a lower rate, or read what held them up on the trial's page")]
    #[strum(detailed_message = "ask for a lower rate (pgbench -R); what held them up is not in what was imported")]
    RateNotReached { asked: f64, reached: f64 },
    #[error("the hosts have not the same pgbench: {}", versions.join(", "))]
    #[strum(message = "install the same one everywhere, or say where it is (generators.pgbench)")]
    GeneratorsDiffer { versions: Vec<String> },
    #[error(
        "not one transaction was served in {lasted_seconds:.0} s{}",
        if *failed == 0 { String::new() } else { format!(", and {failed} failed") }
    )]
    #[strum(message = "see in the server's log what kept it from serving any")]
    #[strum(detailed_message = "see in pgbench's messages and in the server's log what kept it from serving any")]
    NothingServed { lasted_seconds: f64, failed: u64 },
    // Warm starts only. Without figures, the sentence is the same for all trials and printed once.
    #[error(
        "it lasted less than a minute and served fewer than 100,000 transactions: too little to stand for the server"
    )]
    #[strum(message = "points.seconds = 60, or more")]
    #[strum(detailed_message = "let pgbench run for a minute (-T 60), or longer")]
    ShortRun { lasted_seconds: f64, transactions: u64 },
    // The script updates a branch in each transaction. `waiting` is a mean.
    #[error(
        "{clients} clients update {}: in the mean {waiting:.1} of them waited for another's row",
        counted(*scale, "branch")
    )]
    #[strum(message = "a scale of at least the clients, or a script that updates no branch (simple-update)")]
    ClientsBeyondScale { clients: u32, scale: u32, waiting: f64 },
    #[error("to tell where the server's time goes took {} of all processors", percent(*ratio))]
    #[strum(message = "leave it, for every trial bears it alike; time = false in a study file does without")]
    DearAccount { ratio: f64 },
    #[error(
        "by the account of its time the server used {used:.2} of {}: it is wrong",
        counted(*processors, "processor")
    )]
    #[strum(message = "take none of its kinds of time for sure, and tell of it with the kernel's version")]
    ProcessorsExceeded { used: f64, processors: u32 },
    // Only points that do not start cold.
    #[error(
        "the database fits into shared_buffers at {in_shared_buffers} of {}, and into memory at {in_memory}: a warm server reads nothing from the disk there",
        counted(*points, "point")
    )]
    #[strum(
        message = "no action needed if this is intended; otherwise use larger scales, and [exceeds] for the scale from which on it may not"
    )]
    FitsCaches { in_shared_buffers: u32, in_memory: u32, points: u32 },
    // From here on only for imports.
    #[error(
        "nothing is told of {seconds} of its {of_seconds} s, the longest stretch {longest_seconds} s from second {} on: the server stood still, or a part is missing",
        longest_after_seconds + 1
    )]
    #[strum(
        message = "see in the server's log whether it stood still; else import the whole of it, or a run that is whole"
    )]
    LogGaps { seconds: u32, of_seconds: u32, longest_seconds: u32, longest_after_seconds: u32 },
    #[error("{}", partial_sentence(*logged, *transactions, *clients, *of_clients))]
    #[strum(message = "import the logs of all threads; of a sample nothing but its percentiles stands for the whole")]
    LogPartial { logged: u64, transactions: u64, clients: u32, of_clients: u32 },
    #[error("its times go back by {seconds:.1} s: the clock was set meanwhile, or several runs stand in one file")]
    #[strum(message = "import each log as pgbench wrote it, of a run during which nobody set the clock")]
    ClockSetBack { seconds: f64 },
    #[error("{}", aborted_sentence(*aborted_clients, *clients, *transactions, *asked_transactions))]
    #[strum(message = "see in pgbench's messages and in the server's log what ended it, and measure anew")]
    RunAborted { aborted_clients: u32, clients: Option<u32>, transactions: u64, asked_transactions: Option<u64> },
    // A value assumed in place of missing information. `how` is the remedy.
    #[error("{what}")]
    Assumed { what: String, how: String },
}

impl Finding {
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// Whether something else was measured than requested.
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

    /// Distinguishes several findings of one kind.
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
                "ask for a lower rate, give pgbench more threads (points.jobs), or run it on processors of its own"
            }
            Finding::RuntimeTooShort { needed_seconds, .. } => {
                return format!("points.seconds = {:.0}, or a smaller scale", 1.2 * needed_seconds + 10.0);
            }
            Finding::TooFewPairs { needed, .. } => return format!("repeats = {needed} or more"),
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

/// A warm start cannot get warmer, and waiting does not cure degradation.
fn steady_remedy(verdict: &str, start: &str, should_have_run_seconds: Option<f64>, option: &str) -> String {
    let longer = match should_have_run_seconds {
        Some(seconds) => format!("let the trial last {seconds:.0} s ({option})"),
        None => format!("let the trial last longer ({option})"),
    };
    match start {
        _ if verdict == "degrading" => {
            format!("see what makes it slower the longer it runs (bloat, checkpoints, other programs), or {longer}")
        }
        "warm" | "restored" => longer,
        _ => format!("{longer}, or start it warm"),
    }
}

fn start_remedy(asked: &str, total: Bytes, memory: Option<Bytes>) -> String {
    match memory {
        _ if asked == "cold" => "see that nothing else reads the cluster's files, and repeat".to_owned(),
        Some(memory) if total >= memory => format!(
            "{total} do not fit into the machine's memory of {memory}: choose a smaller scale, or start = \"cold\""
        ),
        _ => "see that the database fits into memory, and that nothing else uses it".to_owned(),
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
        Some(asked) => format!("{transactions} of {asked} transactions were done"),
        None => "the load was less than was asked for".to_owned(),
    };
    format!("{who} gave up before the end: {done}")
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(type = "{ kind: string, sentence: string, remedy: string }"))]
pub struct MeasurementVerdict {
    #[serde(flatten)]
    pub finding: Finding,
    pub sentence: String,
    pub remedy: String,
}

impl From<Finding> for MeasurementVerdict {
    fn from(finding: Finding) -> MeasurementVerdict {
        MeasurementVerdict { sentence: finding.to_string(), remedy: finding.remedy(false), finding }
    }
}

impl MeasurementVerdict {
    pub fn of_import(finding: Finding) -> MeasurementVerdict {
        MeasurementVerdict { sentence: finding.to_string(), remedy: finding.remedy(true), finding }
    }

    pub fn text(&self) -> String {
        format!("{}: {}", self.sentence, self.remedy)
    }
}

pub fn texts_of(verdicts: &[MeasurementVerdict]) -> Vec<String> {
    verdicts.iter().map(MeasurementVerdict::text).collect()
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saturation {
    pub sign: SaturationSign,
    pub threads: u32,
    /// Medians for the busiest thread: on a processor, and waiting for one.
    pub cpu_ratio: f64,
    pub run_delay_ratio: f64,
    /// Share of client backends waiting for pgbench; `None` if not meaningful.
    pub idle_backends_ratio: Option<f64>,
    /// Share of the response before the begin; `None` without a rate.
    pub lag_ratio: Option<f64>,
    pub empty_tps: Option<f64>,
    pub unseen_hosts: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaturationSign {
    /// Nearly as much of a core as with an empty statement.
    NearOneCore,
    /// A thread was never idle, and backends waited for it.
    NeverIdle,
    /// Transactions began late while a thread was never idle or, without visible threads, while backends waited for
    /// pgbench.
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
            false if *threads == 0 => format!("its threads on {} are not seen", self.unseen_hosts.join(", ")),
            false => format!("{seen} (those on {} are not seen)", self.unseen_hosts.join(", ")),
        };
        let why = match self.sign {
            SaturationSign::NearOneCore => String::new(),
            SaturationSign::NeverIdle => {
                let idle = percent(self.idle_backends_ratio.unwrap_or_default());
                format!(", while {idle} of the backends waited for it")
            }
            SaturationSign::ScheduleLag => {
                let idle =
                    self.idle_backends_ratio.map(|idle| format!(" while {} of the backends wait", percent(idle)));
                let lag = percent(self.lag_ratio.unwrap_or_default());
                format!(", and {lag} of the response is being begun late{}", idle.unwrap_or_default())
            }
        };
        let empty = self.empty_tps.map(|tps| format!("; an empty statement it does {tps:.0} times a second"));
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
        assert_eq!(steady("not_reached", "warm"), "let the trial last 70 s (points.seconds)");
        assert_eq!(steady("not_reached", "cold"), "let the trial last 70 s (points.seconds), or start it warm");
        assert!(steady("degrading", "cold").starts_with("see what makes it slower"));
        let start = |asked: &str, memory: Option<u64>| {
            let memory_bytes = memory.map(Bytes);
            let (asked, found) = (asked.to_owned(), "lukewarm".to_owned());
            Finding::StartNotAsAsked { asked, found, resident_bytes: Bytes(1), total_bytes: Bytes(9), memory_bytes }
                .remedy(false)
        };
        assert!(start("warm", Some(9)).starts_with("9 bytes do not fit into the machine's memory of 9 bytes"));
        assert!(start("warm", Some(10)).contains("nothing else uses it"));
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

//! What can speak against a measurement: every kind with its figures, its sentence and its remedy.
//!
//! Names of kinds and figures are part of `--json` (docs/formats.md): add, never rename.

mod account;
mod comparison;
mod imported;
mod size;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::others::Others;
use super::saturation::{Saturation, SaturationSign, percent};
use host::units::{Bytes, counted};
use model::Undecided;

/// What was found, of a trial or of a whole sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, IntoStaticStr)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Finding {
    /// Throughput did not keep a level: `not_reached` or `degrading`, and why.
    NeverSteady {
        verdict: String,
        reason: String,
        /// Why it is open; `None` where it is not.
        undecided: Option<Undecided>,
        should_have_run_seconds: Option<f64>,
        /// How the trial started, by the word of the study file.
        start: String,
    },
    StartNotAsAsked {
        asked: String,
        found: String,
        resident_bytes: Bytes,
        total_bytes: Bytes,
        /// Of the machine; `None` where it is not known.
        memory_bytes: Option<Bytes>,
    },
    /// Points that are compared saw different numbers of checkpoints, and of whole cycles from one's beginning to the next.
    UnequalCheckpoints {
        fewest: u32,
        most: u32,
        fewest_cycles: u32,
        most_cycles: u32,
    },
    GeneratorSaturated(Saturation),
    /// Too few transactions lie beyond the percentile (0 to 1) that is shown.
    TooFewTransactions {
        percentile: f64,
        transactions: u64,
        needed: u64,
    },
    /// By the model a trial of this size needs so many seconds until it is warm.
    RuntimeTooShort {
        seconds: u32,
        needed_seconds: f64,
    },
    /// The database was meant to exceed this cache, and does not.
    FitsCache {
        cache: String,
        database_bytes: Bytes,
        cache_bytes: Bytes,
    },
    /// Autovacuum worked meanwhile on these tables.
    Autovacuum {
        runs: u32,
        tables: Vec<String>,
    },
    /// Tables that nothing was inserted into grew, or dead rows piled up in them: shares of their size, and of their rows.
    Bloat {
        grown_ratio: f64,
        dead_ratio: f64,
        tables: Vec<String>,
    },
    /// These servers; none is named where the study has one alone.
    AssertionsEnabled {
        servers: Vec<String>,
    },
    /// The same; `level` is the last `-O…` of the compiler's flags, empty where there is none.
    UnoptimisedBuild {
        servers: Vec<String>,
        level: String,
    },
    FsyncOff,
    /// What was asked for is not so.
    NotInForce {
        what: String,
        reason: String,
    },
    /// Generator and server used up the processors that they share. Shares are of all processors' time.
    SharedProcessors {
        busy_ratio: f64,
        generator_ratio: f64,
        processors: u32,
    },
    /// Repeats of the same point differ by so much: the median over the points of largest ÷ smallest.
    NoiseFloor {
        ratio: f64,
        repeats: u32,
    },
    OneRepeat,
    /// Of a comparison: its sides were measured one after the other.
    TwoSweeps,
    /// Of a comparison: no difference is so large that so many pairs show it.
    TooFewPairs {
        pairs: u32,
        needed: u32,
    },
    /// Of a comparison: so many of its differences are no larger than what equal sides reach, a ratio above 1.
    WithinNoise {
        within: u32,
        differences: u32,
        floor_ratio: f64,
    },
    /// Of a comparison: in so many of its pairs one trial saw more checkpoints, and they were not cut to whole cycles.
    UncutCheckpoints {
        unequal: u32,
        pairs: u32,
    },
    /// Others on the machine, or beside it.
    Others(Others),
    LateReadings {
        late: usize,
        readings: usize,
        worst_ms: u64,
    },
    /// Read while the server started, before the clock did.
    HeadStart {
        bytes: Bytes,
    },
    /// What was to warm the server failed.
    StrategyFailed {
        strategy: String,
        reason: String,
    },
    /// Asked for, and not there: it was left out. `how` gets it.
    StrategyLeftOut {
        strategy: String,
        how: String,
    },
    /// Of a warmer of an idle server: not so much of what is wanted became resident as it should.
    NotBroughtBack {
        resident_bytes: Bytes,
        wanted_bytes: Bytes,
    },
    /// What was seen resident, and was gone when all was over.
    TakenBack {
        bytes: Bytes,
    },
    /// The kernel pages out memory that was idle (DAMON).
    IdleMemoryPagedOut,
    /// Nobody saw what pgbench's threads did on these hosts, and without a rate nothing else tells of it.
    GeneratorsUnseen {
        hosts: Vec<String>,
    },
    /// The hosts began so far apart; the clocks leave so much open.
    GeneratorsApart {
        spread_ms: f64,
        uncertainty_ms: f64,
    },
    /// The load did not last as long as it was asked to: it began late, or its last transactions took long.
    OtherDuration {
        asked_seconds: f64,
        lasted_seconds: f64,
    },
    /// Transactions per second that were asked for, and those that there were.
    RateNotReached {
        asked: f64,
        reached: f64,
    },
    /// The hosts have not the same pgbench: what each of them said of itself.
    GeneratorsDiffer {
        versions: Vec<String>,
    },
    /// The load ran, and served nothing.
    NothingServed {
        lasted_seconds: f64,
        /// Transactions that failed.
        failed: u64,
    },
    /// A trial that started warm was over so soon, and served so little, that no figure of it stands for the server.
    ShortRun {
        lasted_seconds: f64,
        transactions: u64,
    },
    /// More clients than branches, of a script that updates a branch in each transaction: so many of them, in the mean, waited for
    /// another's row.
    ClientsBeyondScale {
        clients: u32,
        scale: u32,
        waiting: f64,
    },
    /// The account of the server's time took so large a share (0 to 1) of all processors.
    DearAccount {
        ratio: f64,
    },
    /// By the account of its time the server used more processors than there are.
    ProcessorsExceeded {
        used: f64,
        processors: u32,
    },
    /// Of a sweep: at so many of its points that do not start cold the database fits into shared_buffers, or into memory.
    FitsCaches {
        in_shared_buffers: u32,
        in_memory: u32,
        points: u32,
    },
    /// Of what was imported: nothing is told of so many seconds in its midst. The longest stretch of them begins so many seconds
    /// after the start.
    LogGaps {
        seconds: u32,
        of_seconds: u32,
        longest_seconds: u32,
        longest_after_seconds: u32,
    },
    /// Of what was imported: the log holds so many of the transactions that there were, and of the clients.
    LogPartial {
        logged: u64,
        transactions: u64,
        clients: u32,
        of_clients: u32,
    },
    /// The same: the time goes back by so much.
    ClockSetBack {
        seconds: f64,
    },
    /// The same: pgbench gave up before it had done what was asked for. Clients that did, of how many; transactions that were done, and
    /// asked for.
    RunAborted {
        aborted_clients: u32,
        clients: Option<u32>,
        transactions: u64,
        asked_transactions: Option<u64>,
    },
    /// Of what was imported: what stands for something that its files do not say. `how` says it.
    Assumed {
        what: String,
        how: String,
    },
}

impl Finding {
    /// The kind's name, as in `--json`.
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// Was something else measured than was asked for? Its figures answer another question.
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

    /// What it is about, where one kind can be told of several things.
    pub fn subject(&self) -> &str {
        match self {
            Finding::NotInForce { what, .. } => what,
            Finding::StrategyLeftOut { strategy, .. } => strategy,
            Finding::FitsCache { cache, .. } => cache,
            Finding::Assumed { what, .. } => what,
            _ => "",
        }
    }

    /// What is so.
    pub fn sentence(&self) -> String {
        match self {
            Finding::NeverSteady { verdict, reason, .. } => {
                format!("never steady ({}): {reason}", verdict.replace('_', " "))
            }
            Finding::StartNotAsAsked { asked, found, resident_bytes, total_bytes, .. } => format!(
                "it was to start {asked} and started {found}: {resident_bytes} of {total_bytes} were in the page cache"
            ),
            Finding::UnequalCheckpoints { fewest, most, fewest_cycles, most_cycles } => format!(
                "the trials saw {fewest} to {most} checkpoints, and {fewest_cycles} to {most_cycles} whole cycles of them: they are not alike"
            ),
            Finding::GeneratorSaturated(saturation) => saturation.sentence(),
            Finding::TooFewTransactions { percentile, transactions, needed } => format!(
                "{} too few for the {}th percentile, which needs {needed}",
                if *transactions == 1 {
                    "1 transaction is".to_owned()
                } else {
                    format!("{transactions} transactions are")
                },
                percentile * 100.0
            ),
            Finding::RuntimeTooShort { seconds, needed_seconds } => {
                format!("it lasts {seconds} s, and by the model is warm after {needed_seconds:.0} s")
            }
            Finding::FitsCache { cache, database_bytes, cache_bytes } => format!(
                "the database has {database_bytes} and fits into {cache}, {cache_bytes}, which it was to exceed"
            ),
            Finding::Autovacuum { runs, tables } => {
                format!("autovacuum worked {} meanwhile, on {}", counted(*runs, "time"), tables.join(", "))
            }
            Finding::Bloat { grown_ratio, dead_ratio, tables } => bloat_sentence(*grown_ratio, *dead_ratio, tables),
            Finding::AssertionsEnabled { servers } => {
                format!("{} built with assertions, which cost time", who_was(servers))
            }
            Finding::UnoptimisedBuild { servers, level } => unoptimised_sentence(servers, level),
            Finding::FsyncOff => "fsync is off: what was written did not have to reach the disk".into(),
            Finding::NotInForce { what, reason } => format!("{what} is not in force: {reason}"),
            Finding::SharedProcessors { busy_ratio, generator_ratio, processors } => {
                shared_sentence(*busy_ratio, *generator_ratio, *processors)
            }
            Finding::NoiseFloor { ratio, repeats } => noise_sentence(*ratio, *repeats),
            Finding::OneRepeat => "one trial per point shows no spread".into(),
            Finding::Others(others) => others.sentence(),
            Finding::LateReadings { late, readings, worst_ms } => {
                format!(
                    "{late} of {} came late, by up to {worst_ms} ms, and were scaled",
                    counted(*readings, "reading")
                )
            }
            Finding::StrategyFailed { strategy, reason } => format!("{strategy} failed: {reason}"),
            Finding::StrategyLeftOut { strategy, .. } => format!("without {strategy}"),
            Finding::HeadStart { bytes } => {
                format!("{bytes} were read while the server started, before the clock did: a head start")
            }
            Finding::NotBroughtBack { resident_bytes, wanted_bytes } => {
                format!("only {resident_bytes} of {wanted_bytes} became resident")
            }
            Finding::TakenBack { bytes } => format!("{bytes} were taken from the page cache again before the end"),
            Finding::IdleMemoryPagedOut => {
                "the kernel pages out memory that was idle for a while (DAMON): a warm start may not stay so".into()
            }
            _ => self.further_words().0,
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Finding::NeverSteady { verdict, start, should_have_run_seconds, .. } => {
                steady_remedy(verdict, start, *should_have_run_seconds, "points.seconds")
            }
            Finding::StartNotAsAsked { asked, total_bytes, memory_bytes, .. } => {
                start_remedy(asked, *total_bytes, *memory_bytes)
            }
            Finding::UnequalCheckpoints { .. } => {
                "let trials last several times checkpoint_timeout: results compare cuts pairs to whole cycles where both trials have some"
                    .into()
            }
            Finding::GeneratorSaturated(Saturation { sign: SaturationSign::ScheduleLag, .. }) => {
                "ask for a lower rate, give pgbench more threads (points.jobs), or run it on processors of its own"
                    .into()
            }
            Finding::GeneratorSaturated(_) => {
                "give pgbench more threads (points.jobs), or run it on processors of its own".into()
            }
            Finding::TooFewTransactions { .. } => {
                "let the trial last longer (points.seconds), or read a lower percentile".into()
            }
            Finding::RuntimeTooShort { needed_seconds, .. } => {
                format!("points.seconds = {:.0}, or a smaller scale", 1.2 * needed_seconds + 10.0)
            }
            Finding::FitsCache { .. } => "choose a larger scale, or make the cache smaller".into(),
            Finding::Autovacuum { .. } => {
                "let trials last long enough to have all of it, or leave autovacuum off (the default of a study)".into()
            }
            Finding::Bloat { .. } => {
                "compare trials of the same length, or turn autovacuum on and let them last long enough to have all of it".into()
            }
            Finding::AssertionsEnabled { .. } => {
                "use a server that was built without --enable-cassert (--bin-dir, or [servers])".into()
            }
            Finding::UnoptimisedBuild { .. } => {
                "use a server that was built with -O2, as packages are (--bin-dir, or [servers])".into()
            }
            Finding::FsyncOff => "fsync = on, unless it is what the study is about".into(),
            Finding::NotInForce { .. } => "see that it can be had here; what was measured is without it".into(),
            Finding::SharedProcessors { .. } => {
                "compare points of one machine alone, or keep pgbench and the server on processors of their own".into()
            }
            Finding::NoiseFloor { .. } => "more repeats, longer trials, and fewer other programs".into(),
            Finding::OneRepeat => "repeats = 3, or more".into(),
            Finding::Others(others) => others.remedy(),
            Finding::LateReadings { .. } => "run fewer other programs".into(),
            Finding::HeadStart { .. } => "count it with what the trial read".into(),
            Finding::StrategyFailed { .. } => "see to what it says, and measure anew: the trial warmed itself".into(),
            Finding::StrategyLeftOut { how, .. } => how.clone(),
            Finding::NotBroughtBack { .. } => "see what it says, or let it take longer (points.seconds)".into(),
            Finding::TakenBack { .. } => "stop what pages out idle memory (DAMON), or leave more of it free".into(),
            Finding::IdleMemoryPagedOut => {
                "stop the scheme (/sys/kernel/mm/damon/admin) or the module damon_reclaim while measuring".into()
            }
            _ => self.further_words().1,
        }
    }
}

impl Finding {
    /// Sentence and remedy of kinds that stand together.
    fn further_words(&self) -> (String, String) {
        match self {
            Finding::TwoSweeps
            | Finding::TooFewPairs { .. }
            | Finding::WithinNoise { .. }
            | Finding::UncutCheckpoints { .. } => self.comparison_words(),
            Finding::LogGaps { .. }
            | Finding::LogPartial { .. }
            | Finding::ClockSetBack { .. }
            | Finding::RunAborted { .. }
            | Finding::Assumed { .. } => self.import_words(),
            Finding::DearAccount { .. } | Finding::ProcessorsExceeded { .. } => self.account_words(),
            Finding::ShortRun { .. } | Finding::ClientsBeyondScale { .. } | Finding::FitsCaches { .. } => {
                self.size_words()
            }
            _ => self.load_words(),
        }
    }

    /// Sentence and remedy of what is found of the load and of those who made it; empty of all else.
    fn load_words(&self) -> (String, String) {
        match self {
            Finding::OtherDuration { asked_seconds, lasted_seconds } => (
                format!(
                    "the load lasted {lasted_seconds:.1} s instead of {asked_seconds:.0}: it began late, or its last transactions took long"
                ),
                "run fewer other programs, and let trials last longer".into(),
            ),
            Finding::RateNotReached { asked, reached } => (
                format!("{asked:.0} transactions per second were asked for, and there were {reached:.0}"),
                "ask for a lower rate, or read what held them up on the trial's page".into(),
            ),
            Finding::GeneratorsUnseen { hosts } => (
                format!("whether pgbench was the limit is not known: its threads on {} are not seen", hosts.join(", ")),
                "look at the processors there, or ask for a rate (points.rate): being late shows it from here".into(),
            ),
            Finding::GeneratorsApart { spread_ms, uncertainty_ms } => (
                format!(
                    "the generators began {spread_ms:.0} ms apart (± {uncertainty_ms:.0} ms), so not all of the load was there at once"
                ),
                "give the hosts less else to do, and let trials last so long that it does not matter".into(),
            ),
            Finding::GeneratorsDiffer { versions } => (
                format!("the hosts have not the same pgbench: {}", versions.join(", ")),
                "install the same one everywhere, or say where it is (generators.pgbench)".into(),
            ),
            Finding::NothingServed { lasted_seconds, failed } => (
                match failed {
                    0 => format!("not one transaction was served in {lasted_seconds:.0} s"),
                    failed => format!("not one transaction was served in {lasted_seconds:.0} s, and {failed} failed"),
                },
                "see in the server's log what kept it from serving any".into(),
            ),
            _ => (String::new(), String::new()),
        }
    }
}

fn who_was(servers: &[String]) -> String {
    match servers {
        [] => "the server was".to_owned(),
        [one] => format!("the server {one} was"),
        several => format!("the servers {} were", several.join(", ")),
    }
}

fn unoptimised_sentence(servers: &[String], level: &str) -> String {
    let flags = if level.is_empty() { "no -O" } else { level };
    format!("{} built for debugging, which costs time: the compiler's flags have {flags}", who_was(servers))
}

fn bloat_sentence(grown_ratio: f64, dead_ratio: f64, tables: &[String]) -> String {
    format!(
        "updates and deletes left something behind in {}: the tables grew by {}, and {} of their rows are dead",
        tables.join(", "),
        percent(grown_ratio),
        percent(dead_ratio)
    )
}

fn shared_sentence(busy_ratio: f64, generator_ratio: f64, processors: u32) -> String {
    format!(
        "server and pgbench share {}, which {} {} busy; pgbench took {} of the time",
        counted(processors, "processor"),
        if processors == 1 { "was" } else { "were" },
        percent(busy_ratio),
        percent(generator_ratio)
    )
}

fn noise_sentence(ratio: f64, repeats: u32) -> String {
    format!(
        "the fastest of {repeats} repeats of a point is {} faster than the slowest in the median: smaller differences between points may be noise",
        percent(ratio - 1.0)
    )
}

/// A trial that started warm cannot be started warmer, and one that becomes slower is not cured by patience alone. `option` is what
/// makes it longer.
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
            .remedy()
        };
        assert_eq!(steady("not_reached", "warm"), "let the trial last 70 s (points.seconds)");
        assert_eq!(steady("not_reached", "cold"), "let the trial last 70 s (points.seconds), or start it warm");
        assert!(steady("degrading", "cold").starts_with("see what makes it slower"));
        let start = |asked: &str, memory: Option<u64>| {
            let memory_bytes = memory.map(Bytes);
            let (asked, found) = (asked.to_owned(), "lukewarm".to_owned());
            Finding::StartNotAsAsked { asked, found, resident_bytes: Bytes(1), total_bytes: Bytes(9), memory_bytes }
                .remedy()
        };
        assert!(start("warm", Some(9)).starts_with("9 bytes do not fit into the machine's memory of 9 bytes"));
        assert!(start("warm", Some(10)).contains("nothing else uses it"));
        assert!(start("cold", Some(1)).contains("nothing else reads the cluster's files"));
    }
}

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::Error;
use crate::statistic::Statistic;
use crate::time::event_word::EventWord;
use crate::{JsonSchema, TS};
use host::units::Fork;
use postgres::{RelationPath, Session};

/// Maximum interval between queries for the server's processes and, with stall detection, between readings of wait
/// times. A shorter-lived process may stay unknown.
pub(crate) const LOOK: Duration = Duration::from_millis(250);

/// Source of the times, the least exact first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[derive(Serialize, Deserialize, clap::ValueEnum, IntoStaticStr, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Tier {
    /// Samples pg_stat_activity.
    #[default]
    Sql,
    /// Samples the wait event in each process's memory, and its run state.
    Memory,
    /// Accounts for every nanosecond, with a BPF program in the kernel.
    Bpf,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitEvent {
    /// PostgreSQL's number of the event, with its class in the highest byte. 0: off the processor without an event.
    Number(u32),
    Named(String, String),
    Unknown,
    /// An event beyond those that the source distinguishes.
    Further,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenWait {
    pub event: WaitEvent,
    pub length_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum FileCallKind {
    Fsync,
    Fdatasync,
    SyncFileRange,
    Write,
}

/// A file call in which the process slept. Times are monotonic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCall {
    pub pid: u32,
    pub kind: FileCallKind,
    /// When the process first slept.
    pub begin_ns: u64,
    /// `None` while in progress.
    pub end_ns: Option<u64>,
    pub file: FileName,
    /// Device of the file system, as `stat` reports it.
    pub device: (u32, u32),
    /// Data written between the file's last sync and this call. `None` without a write tracepoint.
    pub unsynced: Option<Written>,
}

/// Number and bytes of writes. `bytes` is 0 if the file system does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Written {
    pub writes: u64,
    pub bytes: u64,
}

impl Written {
    pub fn and(self, more: Written) -> Written {
        Written { writes: self.writes + more.writes, bytes: self.bytes + more.bytes }
    }

    pub fn since(self, earlier: Written) -> Written {
        Written { writes: self.writes.saturating_sub(earlier.writes), bytes: self.bytes.saturating_sub(earlier.bytes) }
    }
}

/// Data that all followed processes have written so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WrittenTo {
    pub wal: Written,
    pub temporary: Written,
    pub others: Written,
}

impl WrittenTo {
    pub fn and(self, more: WrittenTo) -> WrittenTo {
        host::fieldwise!(WrittenTo, self.and(more): wal, temporary, others)
    }

    pub fn since(self, earlier: WrittenTo) -> WrittenTo {
        host::fieldwise!(WrittenTo, self.since(earlier): wal, temporary, others)
    }
}

/// Calls to one file, or to all temporary files of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileTimes {
    #[serde(flatten)]
    pub file: FileName,
    pub relation: Option<String>,
    /// Syncs in which a process slept.
    pub syncs: Statistic,
    /// Whether a sync is in progress. It is counted with its length so far.
    pub lasts: bool,
    /// Number of writes and sync_file_range calls in which a process slept.
    pub sleeps: u64,
    /// Time slept in the calls counted in `sleeps`.
    pub slept_ns: u64,
    /// Writes by the server's processes. Zero if the file system has no write tracepoint.
    pub written: Written,
    /// Writes since the start of the last sync in which a process slept.
    pub unsynced: Written,
}

impl FileTimes {
    pub fn of_call(call: &FileCall, at_ns: u64) -> FileTimes {
        let length_ns = call.end_ns.unwrap_or(at_ns).saturating_sub(call.begin_ns);
        let mut times = FileTimes { file: call.file.clone(), ..FileTimes::default() };
        // The BPF program counts likewise.
        if matches!(call.kind, FileCallKind::Fsync | FileCallKind::Fdatasync) {
            times.syncs.total_ns = length_ns;
            times.syncs.count(length_ns);
            times.lasts = call.end_ns.is_none();
        } else {
            (times.sleeps, times.slept_ns) = (1, length_ns);
        }
        times
    }

    pub fn merge(files: Vec<FileTimes>) -> Vec<FileTimes> {
        let mut merged: BTreeMap<FileName, FileTimes> = BTreeMap::new();
        for mut one in files {
            if let Some(directory) = one.file.temporary_directory() {
                one.file = directory;
            }
            match merged.entry(one.file.clone()) {
                Entry::Vacant(place) => _ = place.insert(one),
                Entry::Occupied(mut known) => known.get_mut().add(&one),
            }
        }
        merged.into_values().collect()
    }

    /// Limits the times of syncs to the observation, because calls may begin slightly before it.
    pub fn within(mut self, look_ns: u64) -> FileTimes {
        self.syncs.bound(look_ns);
        self.syncs.total_ns = self.syncs.total_ns.min(self.syncs.count.saturating_mul(look_ns));
        self
    }

    fn add(&mut self, other: &FileTimes) {
        self.syncs.merge(&other.syncs);
        self.sleeps += other.sleeps;
        self.slept_ns += other.slept_ns;
        self.written = self.written.and(other.written);
        self.unsynced = self.unsynced.and(other.unsynced);
        self.lasts |= other.lasts;
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTimes {
    pub pid: u32,
    /// Start time since boot, in the source's own unit. Unique with the pid.
    pub birth: u64,
    /// Monotonic times of the first observation and of the end.
    pub started_ns: u64,
    pub ended_ns: Option<u64>,
    pub running_ns: u64,
    /// Time spent waiting for a processor. `None` if unknown.
    pub ready_ns: Option<u64>,
    pub switches: u64,
    /// Number of receives from the client.
    pub commands: u64,
    /// Times of commands, from receipt until the wait for the next. Totals include the command in progress.
    pub handled: Statistic,
    /// Age of the command in progress.
    pub handling_ns: Option<u64>,
    /// Totals include the wait in progress; counts do not.
    pub waits: Vec<(WaitEvent, Statistic)>,
    pub open: Option<OpenWait>,
    pub call: Option<FileCall>,
    /// Runs on a processor whose start the kernel did not report. The scheduler knows their length.
    pub recovered: u64,
    pub recovered_ns: u64,
    /// Waits whose end the kernel did not report. Their time includes the following wait for a processor.
    pub wakes_missed: u64,
}

impl ProcessTimes {
    pub fn waits_for(&self, event: &WaitEvent) -> Statistic {
        self.waits.iter().find(|(known, _)| known == event).map(|(_, waits)| *waits).unwrap_or_default()
    }

    /// A process that serves no client receives messages that are not commands.
    pub fn without_commands(self) -> ProcessTimes {
        ProcessTimes { commands: 0, handled: Statistic::default(), handling_ns: None, ..self }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Monotonic clock.
    pub at_ns: u64,
    pub processes: Vec<ProcessTimes>,
    /// Whether commands were counted since the last reading.
    pub counts_commands: bool,
    /// Processes not followed, because there were too many.
    pub lost: u64,
    /// Slow calls that ended since the last reading.
    pub slow_calls: Vec<FileCall>,
    pub written: WrittenTo,
    /// Slow calls not read in time.
    pub lost_calls: u64,
    /// Calls and writes not attributed, because of too many files.
    pub lost_of_files: u64,
    /// First reading of the new source, if the source has changed.
    pub begins_from: Option<Box<Reading>>,
}

/// Minimum length of a reported file call, and bytes of their ring buffer: a power of two, at least a page. It holds
/// about 3,000 calls.
pub const SLOW_CALLS: (Duration, u32) = (Duration::from_millis(10), 1 << 18);

/// Cost of the probe, by the kernel's own count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeCost {
    pub programs: Vec<ProgramCost>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
pub struct ProgramCost {
    pub name: String,
    pub runs: u64,
    pub total_ns: u64,
}

host::named!(Tier);

impl ProbeCost {
    pub fn total_ns(&self) -> u64 {
        self.programs.iter().fold(0, |sum, program| sum.saturating_add(program.total_ns))
    }

    pub fn and(mut self, more: ProbeCost) -> ProbeCost {
        for one in more.programs {
            match self.programs.iter_mut().find(|known| known.name == one.name) {
                Some(known) => {
                    known.runs = known.runs.saturating_add(one.runs);
                    known.total_ns = known.total_ns.saturating_add(one.total_ns);
                }
                None => self.programs.push(one),
            }
        }
        self
    }

    pub fn since(&self, earlier: &ProbeCost) -> ProbeCost {
        let grown = |now: &ProgramCost| {
            let before = earlier.programs.iter().find(|one| one.name == now.name).cloned().unwrap_or_default();
            ProgramCost {
                name: now.name.clone(),
                runs: now.runs.saturating_sub(before.runs),
                total_ns: now.total_ns.saturating_sub(before.total_ns),
            }
        };
        ProbeCost { programs: self.programs.iter().map(grown).collect() }
    }
}

pub trait TimeSource: Send {
    fn tier(&self) -> Tier;

    /// A process that ended since the last reading is included once.
    fn read(&mut self) -> Result<Reading, Error>;

    /// Location of the event numbers; `None` if the source reports names.
    fn event_word(&self) -> Option<EventWord> {
        None
    }

    /// `None` if the kernel does not count it.
    fn cost(&self) -> Option<ProbeCost> {
        None
    }

    fn cost_refusal(&self) -> Option<String> {
        None
    }

    fn files(&mut self) -> Result<Vec<FileTimes>, Error> {
        Ok(Vec::new())
    }

    /// Stops counting the commands from clients, to reduce the cost. Returns false if the source did not count them.
    fn drop_receives(&mut self) -> bool {
        false
    }

    /// Minimum interval of pgthaw's queries for processes, because each answer lists all of them.
    fn ask_every(&self) -> Duration {
        LOOK
    }

    /// Receives each answer, `None` after failures.
    fn see(&mut self, _sessions: Option<&[Session]>) {}

    fn failure(&self) -> Option<String> {
        None
    }

    /// Halves the sampling rate and returns the new one, per second. `None` if halving is impossible.
    fn look_less(&mut self) -> Option<f64> {
        None
    }

    fn look_at_most(&mut self, _looks_per_second: f64) {}
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    Relation,
    Wal,
    /// Transaction status: pg_xact, pg_multixact, pg_subtrans, pg_commit_ts.
    TransactionStatus,
    /// Data that exceeded work_mem.
    Temporary,
    #[default]
    Other,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct FileName {
    /// Path below the data directory, such as `base/16386/16387.1`; for temporary files, their directory. Empty if
    /// unreadable.
    pub path: String,
    pub kind: FileKind,
    /// Database oid, 0 for shared catalogs, and relfilenode.
    #[serde(skip)]
    pub relation: Option<(u32, u32)>,
}

impl FileName {
    /// `names`: the file's own, then its directories, innermost first.
    pub fn of_names(names: &[impl AsRef<str>]) -> FileName {
        let at = |place: usize| names.get(place).map(AsRef::as_ref).unwrap_or_default();
        let (own, parent, above) = (at(0), at(1), at(2));
        let database: Option<u32> = match parent {
            "global" => Some(0),
            _ if above == "base" || above.starts_with("PG_") => parent.parse().ok(),
            _ => None,
        };
        let (kind, depth) = match parent {
            _ if above.starts_with("pgsql_tmp") => (FileKind::Temporary, 4),
            _ if parent.starts_with("pgsql_tmp") => (FileKind::Temporary, 3),
            _ if is_wal(own) => (FileKind::Wal, 2),
            "pg_xact" | "pg_subtrans" | "pg_commit_ts" => (FileKind::TransactionStatus, 2),
            _ if above == "pg_multixact" => (FileKind::TransactionStatus, 3),
            _ => match database.zip(relation_number(own)) {
                None => (FileKind::Other, 2),
                Some((0, _)) if parent == "global" => (FileKind::Relation, 2),
                Some(_) => (FileKind::Relation, 3),
            },
        };
        let relation = database.zip(relation_number(own)).filter(|_| kind == FileKind::Relation);
        let shown = names.iter().take(depth).rev().map(AsRef::as_ref).filter(|name| !name.is_empty());
        FileName { path: shown.collect::<Vec<&str>>().join("/"), kind, relation }
    }

    /// Directory that stands for all temporary files in it.
    pub fn temporary_directory(&self) -> Option<FileName> {
        let (directory, _) = self.path.split_once("pgsql_tmp").filter(|_| self.kind == FileKind::Temporary)?;
        Some(FileName { path: format!("{directory}pgsql_tmp"), kind: FileKind::Temporary, relation: None })
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.path.is_empty() { "a file without a name" } else { &self.path })
    }
}

/// Timeline, log, segment (`XLogFileName` in `src/include/access/xlog_internal.h`).
fn is_wal(name: &str) -> bool {
    name.len() == 24 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Accepts `16387`, `16387.1`, `16387_vm`, `16387_fsm.2`.
fn relation_number(name: &str) -> Option<u32> {
    let of_fork = name.split_once('.').map_or(name, |(of_fork, _)| of_fork);
    let number = match of_fork.split_once('_') {
        Some((number, fork)) => Fork::from_name(fork).map(|_| number)?,
        None => of_fork,
    };
    format!("global/{number}").parse::<RelationPath>().ok().map(|path| path.relfilenumber)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_that_lasts_is_one_of_its_file() {
        let file = FileName::of_names(&["16384", "5", "base"]);
        let mut syncs = Statistic::of_time(0, 100);
        syncs.count(100);
        let written = Written { writes: 3, bytes: 24_576 };
        let known = FileTimes { file: file.clone(), syncs, written, unsynced: written, ..FileTimes::default() };
        let call = FileCall {
            pid: 7,
            kind: FileCallKind::Fsync,
            begin_ns: 1000,
            end_ns: None,
            file,
            device: (8, 1),
            unsynced: None,
        };
        let write = FileCall { kind: FileCallKind::Write, ..call.clone() };
        let files =
            FileTimes::merge([vec![known], [call, write].map(|call| FileTimes::of_call(&call, 5000)).into()].concat());
        assert_eq!(files.len(), 1);
        let FileTimes { syncs, sleeps, slept_ns, written: still, lasts, .. } = &files[0];
        assert!(lasts);
        assert_eq!((syncs.count, syncs.total_ns, syncs.max_ns), (2, 4100, Some(4000)));
        assert_eq!((*sleeps, *slept_ns, *still), (1, 4000, written));
        let short = files[0].clone().within(3000).syncs;
        assert_eq!((short.count, short.total_ns, short.max_ns), (2, 4100, Some(3000)));
        let shorter = files[0].clone().within(50).syncs;
        assert_eq!((shorter.total_ns, shorter.max_ns, shorter.min_ns), (100, Some(50), Some(50)));
    }
}

#[cfg(test)]
mod file_name_tests {
    use super::*;

    #[test]
    fn names_say_what_a_file_is_for() {
        for (names, path, kind, relation) in [
            (&["16387.1", "16386", "base", "data"][..], "base/16386/16387.1", FileKind::Relation, Some((16386, 16387))),
            (&["16387_vm", "5", "base", "data"], "base/5/16387_vm", FileKind::Relation, Some((5, 16387))),
            (&["1262", "global", "data", "lib"], "global/1262", FileKind::Relation, Some((0, 1262))),
            (&["9", "5", "PG_15_2", "fast"], "PG_15_2/5/9", FileKind::Relation, Some((5, 9))),
            (&["00000001000000000000002A", "pg_wal", "data"], "pg_wal/00000001000000000000002A", FileKind::Wal, None),
            (&["0000", "pg_xact", "data", "x"], "pg_xact/0000", FileKind::TransactionStatus, None),
            (&["0000", "offsets", "pg_multixact", "x"], "pg_multixact/offsets/0000", FileKind::TransactionStatus, None),
            (&["pgsql_tmp7.0", "pgsql_tmp", "base", "x"], "base/pgsql_tmp/pgsql_tmp7.0", FileKind::Temporary, None),
            (
                &["i1of4.p0.0", "pgsql_tmp7.0.fileset", "pgsql_tmp", "base"],
                "base/pgsql_tmp/pgsql_tmp7.0.fileset/i1of4.p0.0",
                FileKind::Temporary,
                None,
            ),
            (&["pg_control", "global", "data", "x"], "global/pg_control", FileKind::Other, None),
            (&["t3_16400", "5", "base", "data"], "5/t3_16400", FileKind::Other, None),
            (&[], "", FileKind::Other, None),
        ] {
            let named = FileName::of_names(names);
            assert_eq!((named.path.as_str(), named.kind, named.relation), (path, kind, relation));
        }
        let temporary = FileName::of_names(&["i1of4.p0.0", "pgsql_tmp7.0.fileset", "pgsql_tmp", "base"]);
        let directory = temporary.temporary_directory().unwrap();
        assert_eq!(
            (directory.path.as_str(), directory.temporary_directory()),
            ("base/pgsql_tmp", Some(directory.clone()))
        );
        assert_eq!(FileName::default().to_string(), "a file without a name");
    }
}

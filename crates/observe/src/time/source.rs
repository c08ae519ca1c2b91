//! Where the times of a server's processes come from: one trait, whether the kernel counts them, or somebody looks now and then.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::Error;
use crate::statistic::Statistic;
use crate::time::event_word::EventWord;
use host::units::Fork;
use postgres::RelationPath;

/// How the times come to be known, the least exact first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Tier {
    /// Looks at pg_stat_activity.
    Sql,
    /// Looks at the wait event in each process's memory, and at whether it runs.
    Memory,
    /// A program in the kernel charges every nanosecond.
    Bpf,
}

/// What a process waits for, as its source names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitEvent {
    /// As PostgreSQL has it in its memory: the class in the highest byte. 0: off the processor without an event.
    Number(u32),
    /// As pg_stat_activity names it: the class, and the event.
    Named(String, String),
    /// The process's memory could not be read.
    Unknown,
    /// It waited for more different things than are kept apart.
    Further,
}

/// A wait that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenWait {
    pub event: WaitEvent,
    /// So far.
    pub length_ns: u64,
}

/// What a process asked of a file, by the system call's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum FileCallKind {
    Fsync,
    Fdatasync,
    SyncFileRange,
    Write,
}

/// A call of a file in which its process slept. Times are by the monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCall {
    pub pid: u32,
    pub kind: FileCallKind,
    /// When the process slept first.
    pub begin_ns: u64,
    /// `None` while it lasts.
    pub end_ns: Option<u64>,
    pub file: FileName,
    /// The file system's device, as `stat` has it.
    pub device: (u32, u32),
    /// By all processes since the file's last sync, when the call began; `None` where the file system does not tell of writes.
    pub unsynced: Option<Written>,
}

/// Writes, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Written {
    pub writes: u64,
    pub bytes: u64,
}

impl Written {
    /// Both.
    pub fn and(self, more: Written) -> Written {
        Written { writes: self.writes + more.writes, bytes: self.bytes + more.bytes }
    }

    /// What was added since `earlier`.
    pub fn since(self, earlier: Written) -> Written {
        Written { writes: self.writes.saturating_sub(earlier.writes), bytes: self.bytes.saturating_sub(earlier.bytes) }
    }
}

/// What was written so far by all processes that are followed, by what it was written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WrittenTo {
    pub wal: Written,
    pub temporary: Written,
    pub others: Written,
}

impl WrittenTo {
    /// Both.
    pub fn and(self, more: WrittenTo) -> WrittenTo {
        self.each_with(more, Written::and)
    }

    /// What was added since `earlier`.
    pub fn since(self, earlier: WrittenTo) -> WrittenTo {
        self.each_with(earlier, Written::since)
    }

    fn each_with(self, other: WrittenTo, of: fn(Written, Written) -> Written) -> WrittenTo {
        WrittenTo {
            wal: of(self.wal, other.wal),
            temporary: of(self.temporary, other.temporary),
            others: of(self.others, other.others),
        }
    }
}

/// What all processes had of one file. Temporary files have that of their directory, all together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileTimes {
    #[serde(flatten)]
    pub file: FileName,
    /// What the server calls the relation that it is of, where it was asked.
    pub relation: Option<String>,
    /// Syncs in which a process slept: the time that it did.
    pub syncs: Statistic,
    /// One of them has not ended: it is counted with the length that it has by now.
    pub lasts: bool,
    /// Other calls that slept, writes as a rule: their number and the sum of their lengths.
    pub sleeps: u64,
    pub slept_ns: u64,
    /// By the server's processes, as far as the file system tells; and since the last sync that slept.
    pub written: Written,
    pub unsynced: Written,
}

impl FileTimes {
    /// With the calls that last at `at_ns`, each with the length that it has by then.
    pub fn with_lasting(mut files: Vec<FileTimes>, lasting: &[FileCall], at_ns: u64) -> Vec<FileTimes> {
        files.extend(lasting.iter().map(|call| FileTimes::of_call(call, at_ns)));
        FileTimes::merge(files)
    }

    /// What one call was for its file; of one that lasts, by `at_ns`.
    pub fn of_call(call: &FileCall, at_ns: u64) -> FileTimes {
        let length_ns = call.end_ns.unwrap_or(at_ns).saturating_sub(call.begin_ns);
        let mut times = FileTimes { file: call.file.clone(), ..FileTimes::default() };
        // As the program in the kernel has it.
        if matches!(call.kind, FileCallKind::Fsync | FileCallKind::Fdatasync) {
            times.syncs.total_ns = length_ns;
            times.syncs.count(length_ns);
            times.lasts = call.end_ns.is_none();
        } else {
            (times.sleeps, times.slept_ns) = (1, length_ns);
        }
        times
    }

    /// Those of one file are one, and so are the temporary ones of a directory.
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

    /// Of a look that lasted so long: calls are seen from a little before it on, and no sync is longer than the look.
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

/// What one process has had of each kind of time since it is followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTimes {
    pub pid: u32,
    /// When it was born, since the machine booted: with the pid it names a process for good. The unit is the source's own.
    pub birth: u64,
    /// When it began to be followed, and when it ended, by the monotonic clock.
    pub started_ns: u64,
    pub ended_ns: Option<u64>,
    pub running_ns: u64,
    /// Ready to run, waiting for a processor. `None` where the source cannot know.
    pub ready_ns: Option<u64>,
    /// How often it came on a processor.
    pub switches: u64,
    /// What it received from its client, each time.
    pub commands: u64,
    /// Of each, the time from its receipt until the process waited for the next one, or had received that. The total has the time of one
    /// that is handled now too. Nothing where the source cannot know.
    pub handled: Statistic,
    /// How long the one has been handled that is now.
    pub handling_ns: Option<u64>,
    /// Waits by their events. Their totals have the time of one that has not ended too; their counts do not.
    pub waits: Vec<(WaitEvent, Statistic)>,
    pub open: Option<OpenWait>,
    /// What it asks of a file, and sleeps in.
    pub call: Option<FileCall>,
    /// Times on a processor of which the kernel did not tell the beginning: they are known from the scheduler's account.
    pub recovered: u64,
    pub recovered_ns: u64,
    /// Ends of waits that the kernel did not tell: what was waited for a processor then counts as the wait.
    pub wakes_missed: u64,
}

impl ProcessTimes {
    /// Its waits for one event.
    pub fn waits_for(&self, event: &WaitEvent) -> Statistic {
        self.waits.iter().find(|(known, _)| known == event).map(|(_, waits)| *waits).unwrap_or_default()
    }

    /// Of one that serves no client: what it received were no commands.
    pub fn without_commands(self) -> ProcessTimes {
        ProcessTimes { commands: 0, handled: Statistic::default(), handling_ns: None, ..self }
    }
}

/// All processes at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// By the monotonic clock.
    pub at_ns: u64,
    pub processes: Vec<ProcessTimes>,
    /// Are commands counted since the reading before?
    pub counts_commands: bool,
    /// Processes that could not be followed, for there were too many.
    pub lost: u64,
    /// Calls of files that ended since the last reading, the slow ones alone.
    pub slow_calls: Vec<FileCall>,
    pub written: WrittenTo,
    /// Slow calls that could not be told, for nobody read them in time; and calls and writes of files that could not be added up, for
    /// there were too many files.
    pub lost_calls: u64,
    pub lost_of_files: u64,
    /// What this source told when it began, where it is another than that of the reading before.
    pub begins_from: Option<Box<Reading>>,
}

/// What a caller chooses of calls of files that the time probe tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeOptions {
    /// A call that is as long is told by itself; all are added up.
    pub slow_call: Duration,
    /// How much the kernel keeps of them until they are read: a power of two, a page at least.
    pub slow_call_bytes: u32,
}

impl Default for ProbeOptions {
    fn default() -> ProbeOptions {
        // Some 3,000 calls.
        ProbeOptions { slow_call: Duration::from_millis(10), slow_call_bytes: 1 << 18 }
    }
}

/// What looking on costs, by the kernel's own count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeCost {
    /// Of each program: its name, how often it ran, and for how long.
    pub programs: Vec<ProgramCost>,
}

/// What one program in the kernel cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "typescript"), derive(ts_rs::TS))]
pub struct ProgramCost {
    pub name: String,
    pub runs: u64,
    pub total_ns: u64,
}

impl Tier {
    /// As it is written.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl ProbeCost {
    /// All programs together.
    pub fn total_ns(&self) -> u64 {
        self.programs.iter().fold(0, |sum, program| sum.saturating_add(program.total_ns))
    }

    /// Both: of programs of the same name the sum.
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

    /// What was added since `earlier`.
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

/// Something that knows what the server's processes have had of each kind of time.
pub trait TimeSource: Send {
    /// How it knows.
    fn tier(&self) -> Tier;

    /// What all processes have had so far, those too that ended since the last reading. A process that has ended is told once.
    fn read(&mut self) -> Result<Reading, Error>;

    /// Where processes have the numbers of their events; `None` where the source has names.
    fn event_word(&self) -> Option<EventWord> {
        None
    }

    /// What it costs by the kernel's own count; `None` where there is none.
    fn cost(&self) -> Option<ProbeCost> {
        None
    }

    /// Why the kernel does not count what it costs there; `None` where it does, or there is nothing to count.
    fn cost_refusal(&self) -> Option<String> {
        None
    }

    /// What was asked of each file so far; nothing where files are not seen.
    fn files(&mut self) -> Result<Vec<FileTimes>, Error> {
        Ok(Vec::new())
    }

    /// Counts what clients send no more, which costs less. Whether it did so until now.
    fn drop_receives(&mut self) -> bool {
        false
    }

    /// Is who reads it to ask the server seldom who its processes are? Each answer has all of them, which costs as well.
    fn asks_seldom(&self) -> bool {
        false
    }

    /// Why it cannot go on, where its session with the server has ended.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Looks half as often, which costs less: how often a second from now on. `None` where it does not look now and then, or hardly ever
    /// does.
    fn look_less(&mut self) -> Option<f64> {
        None
    }

    /// Looks no more often a second than this, where it looks now and then.
    fn look_at_most(&mut self, _looks_per_second: f64) {}
}

// ---- which of the server's files it is ----

/// What a file of the server is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A segment of a fork of a table or an index.
    Relation,
    /// A segment of the write-ahead log.
    Wal,
    /// Which transactions have committed, and the like: pg_xact, pg_multixact, pg_subtrans, pg_commit_ts.
    TransactionStatus,
    /// What did not fit in work_mem.
    Temporary,
    #[default]
    Other,
}

/// Where a file is, below the data directory as a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct FileName {
    /// `base/16386/16387.1`; empty where no name could be read.
    pub path: String,
    pub kind: FileKind,
    /// What of a relation it is: the file of its main fork's first segment, and the database's oid, 0 of a shared catalog.
    #[serde(skip)]
    pub relation: Option<(u32, u32)>,
}

impl FileName {
    /// From its own name, that of its directory, and so on. Names above the data directory may be among them.
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
        FileName { path: join(names, depth), kind, relation }
    }

    /// What temporary files are in, as they come and go by thousands.
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

/// The last names, the outermost first.
fn join(names: &[impl AsRef<str>], depth: usize) -> String {
    let shown: Vec<&str> = names.iter().take(depth).rev().map(AsRef::as_ref).filter(|name| !name.is_empty()).collect();
    shown.join("/")
}

/// 24 digits: time line, log, segment (`XLogFileName` of `src/include/access/xlog_internal.h`).
fn is_wal(name: &str) -> bool {
    name.len() == 24 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Of `16387`, `16387.1`, `16387_vm`, `16387_fsm.2`.
fn relation_number(name: &str) -> Option<u32> {
    let of_fork = name.split_once('.').map_or(name, |(of_fork, _)| of_fork);
    let number = match of_fork.split_once('_') {
        Some((number, fork)) => Fork::from_name(fork).map(|_| number)?,
        None => of_fork,
    };
    format!("global/{number}").parse::<RelationPath>().ok().map(|path| path.relfilenumber())
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
        let files = FileTimes::with_lasting(vec![known], &[call, write], 5000);
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

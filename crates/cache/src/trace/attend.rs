//! Attends a running job: finds its sessions by their client processes. On request, isolates the sessions, and limits
//! them to the share of the device that other processes leave.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::whose::{IO_WORKER, Verdict, Wanted, Whose};
use crate::warm::DeviceProfile;
use host::linux::block_device::Devices;
use host::linux::cgroup::{Isolation, ReadUsage, read_limit_of};
use host::linux::machine::read_unused_memory;
use host::linux::threads::{Over, lock};
use host::linux::{DeviceCounters, DeviceNumber, Error, ReadLimit, process};
use host::units::{Bytes, counted};
use postgres::{DataDirectory, leader_of};

pub const LOOK: Duration = Duration::from_millis(25);

/// Maximum wait for sessions that outlive the job. The wait ends early if they read nothing for `QUIET_FOR`.
pub const WAITED_FOR: Duration = Duration::from_secs(10);
const QUIET_FOR: Duration = Duration::from_secs(1);
const TOLD_FROM: Duration = Duration::from_millis(500);

/// Intervals, in multiples of `LOOK`, at which pgthaw counts waiting processes, adjusts the job's device share, and
/// adjusts the job's page cache limit.
const LOOKS_PER_WAIT: u32 = 2;
const LOOKS_PER_STEP: u32 = 8;
const LOOKS_PER_BOUND: u32 = 40;

const OTHERS_MAX: usize = 64;

/// Page cache limit of an isolated job: `UNUSED_SHARE` of unused memory, but at least 1/`LIMIT_PARTS` of the server's
/// memory limit. That minimum is between `CACHE_MIN`, which read-ahead needs, and `CACHE_MAX`, because other processes
/// lose the memory.
const CACHE_MIN: u64 = 8 << 20;
const CACHE_MAX: u64 = 64 << 20;
const LIMIT_PARTS: u64 = 100;
const UNUSED_SHARE: f64 = 0.6;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct Isolated {
    /// Final limit of the job's page cache. `None` without a limit.
    pub cache_bytes: Option<Bytes>,
    /// The job's mean share of the disk, 0 to 1.
    pub share_mean: f64,
    /// The job's least share of the disk, 0 to 1.
    pub share_min: f64,
    /// Reads from the disk, including those of the preload.
    pub reads: u64,
    /// Bytes read from the disk, including those of the preload.
    pub read_bytes: Bytes,
}

/// The job's processes in the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct Attended {
    /// Sessions of the command.
    pub sessions: usize,
    /// Number of parallel workers. It may miss those that ran for less than 25 ms.
    pub workers: usize,
    /// Bytes requested from files, cached or not.
    pub requested_bytes: Bytes,
    /// `None` if not requested or not possible.
    pub isolated: Option<Isolated>,
    #[serde(skip)]
    pub remarks: Vec<String>,
}

impl Attended {
    /// The requested bytes, if below half of the preloaded bytes: the preload did not fit this job.
    pub fn requested_little(&self, preloaded: Bytes) -> Option<Bytes> {
        Some(self.requested_bytes).filter(|bytes| self.sessions > 0 && bytes.0 < preloaded.0 / 2)
    }
}

#[derive(Debug, Default)]
pub struct Progress {
    pub requested_bytes: AtomicU64,
    pub fetched_bytes: AtomicU64,
    pub sessions_seen: AtomicUsize,
    pub workers_seen: AtomicUsize,
    /// The job's page cache limit; 0 without isolation.
    pub cache_bytes: AtomicU64,
    /// The job ended, or will not start.
    pub is_over: AtomicBool,
    /// Whether pgthaw should not wait for sessions that outlive the job.
    pub goes_on: AtomicBool,
}

impl Progress {
    pub fn requested(&self) -> Option<Bytes> {
        let is_known = self.sessions_seen.load(Ordering::Relaxed) > 0;
        is_known.then(|| Bytes(self.requested_bytes.load(Ordering::Relaxed)))
    }
}

#[derive(Debug)]
pub struct Attend {
    pub directory: DataDirectory,
    pub sessions: Sessions,
    pub isolation: Option<Isolation>,
    pub device: Option<DeviceNumber>,
    pub profile: Option<DeviceProfile>,
    /// Sessions found by `--application-name`, even if another client opened them.
    pub named: Arc<Mutex<BTreeSet<u32>>>,
    pub progress: Arc<Progress>,
    /// Whether the caches are restored. If so, pgthaw first waits for sessions outliving the job.
    pub is_protected: bool,
    pub over: Over,
}

impl Attend {
    /// Runs until the job is over. Afterwards all sessions are back in their original cgroup.
    pub fn run(mut self) -> Attended {
        let mut remarks = Vec::new();
        let isolation = self.isolation.take();
        let mut apart = isolation.map(|isolation| self.set_apart(isolation));
        let mut looks: u32 = 0;
        loop {
            self.look(apart.as_mut());
            looks = looks.wrapping_add(1);
            if let Some(apart) = &mut apart {
                apart.look(&self.sessions, looks);
            }
            if self.over.wait(LOOK) {
                break;
            }
        }
        if self.is_protected {
            remarks.extend(self.wait_for_sessions(apart.as_mut()));
        }
        let isolated = apart.map(|apart| apart.end(&mut remarks));
        let trouble = self.sessions.whose.trouble.as_deref();
        remarks.extend(trouble.map(|why| format!("some sessions of the job may be missing: {why}")));
        let requested_bytes = Bytes(self.sessions.read_asked().requested);
        let Progress { sessions_seen, workers_seen, .. } = &*self.progress;
        let (sessions, workers) = (sessions_seen.load(Ordering::Relaxed), workers_seen.load(Ordering::Relaxed));
        Attended { sessions, workers, requested_bytes, isolated, remarks }
    }

    fn wait_for_sessions(&mut self, mut apart: Option<&mut Apart>) -> Option<String> {
        let begun = Instant::now();
        let (mut read_at, mut requested) = (begun, self.sessions.read_asked().requested);
        loop {
            self.look(apart.as_deref_mut());
            let before = std::mem::replace(&mut requested, self.progress.requested_bytes.load(Ordering::Relaxed));
            if requested > before {
                read_at = Instant::now();
            }
            let waited = begun.elapsed();
            let is_given_up = self.progress.goes_on.load(Ordering::Relaxed) || read_at.elapsed() > QUIET_FOR;
            match self.sessions.count_there() {
                0 if waited < TOLD_FROM => return None,
                0 => {
                    let waited = waited.as_secs_f64();
                    return Some(format!(
                        "pgthaw waited {waited:.1} s after the end of the job for its last session to finish"
                    ));
                }
                there if waited > WAITED_FOR || is_given_up => {
                    let there = counted(there as u64, "session");
                    return Some(format!(
                        "{there} of the job did not end with it: data that the job's sessions read from now on stays cached (pg_terminate_backend ends a session)"
                    ));
                }
                // Most sessions end within milliseconds.
                _ => std::thread::sleep((waited / 4).clamp(Duration::from_millis(1), LOOK)),
            }
        }
    }

    fn set_apart(&self, isolation: Isolation) -> Apart {
        let ceiling = self.device.and_then(|device| read_limit_of(self.sessions.postmaster, device).ok());
        let mut apart = Apart {
            isolation,
            devices: Devices::from(self.device),
            share: Share::new(self.profile, ceiling.unwrap_or_default()),
            progress: Arc::clone(&self.progress),
            bound: Bytes(CACHE_MAX),
            last: Seen { at: Instant::now(), own: ReadUsage::default(), others: ReadUsage::default() },
            waiting: 0,
            shares: Vec::new(),
            trouble: None,
        };
        apart.choose_bound(self.sessions.postmaster);
        apart.last = apart.see();
        apart.limit(Step::default());
        apart
    }

    fn look(&mut self, apart: Option<&mut Apart>) {
        if !process::is_alive(self.sessions.postmaster)
            && let Some(postmaster) = self.directory.find_postmaster_pid()
        {
            self.sessions.postmaster = postmaster;
        }
        let named = lock(&self.named).clone();
        let changed = self.sessions.look(&named);
        if let Some(apart) = apart {
            changed.joined.iter().for_each(|pid| apart.join(*pid));
            changed.left.iter().for_each(|pid| apart.isolation.leave(*pid));
        }
        let Asked { requested, fetched } = self.sessions.read_asked();
        self.progress.requested_bytes.store(requested, Ordering::Relaxed);
        self.progress.fetched_bytes.store(fetched, Ordering::Relaxed);
    }
}

struct Apart {
    isolation: Isolation,
    devices: Devices,
    share: Share,
    progress: Arc<Progress>,
    bound: Bytes,
    last: Seen,
    /// Waiting processes, except the job's: sum of all counts since the last adjustment.
    waiting: u64,
    shares: Vec<f64>,
    trouble: Option<Error>,
}

#[derive(Clone, Copy)]
struct Seen {
    at: Instant,
    own: ReadUsage,
    others: ReadUsage,
}

impl Apart {
    fn join(&mut self, pid: u32) {
        let failed = self.isolation.join(pid).err().filter(|_| process::is_alive(pid));
        self.note(failed);
    }

    fn note(&mut self, failed: Option<Error>) {
        self.trouble = self.trouble.take().or(failed);
    }

    fn look(&mut self, sessions: &Sessions, looks: u32) {
        let failed = self.isolation.bound_cache(self.bound).err();
        self.note(failed);
        if looks.is_multiple_of(LOOKS_PER_WAIT) {
            let others: Vec<u32> = sessions.others().into_iter().take(OTHERS_MAX).collect();
            self.waiting += u64::from(process::count_busy(&others).waiting);
        }
        if looks.is_multiple_of(LOOKS_PER_STEP) {
            self.step();
        }
        if looks.is_multiple_of(LOOKS_PER_BOUND) {
            self.choose_bound(sessions.postmaster);
        }
    }

    fn see(&self) -> Seen {
        let own = self.isolation.read_usage().unwrap_or_default();
        // If the server has a read limit, the job competes only with the server's reads; otherwise with all users of
        // the device.
        let home = self.isolation.read_home_usage().filter(|_| self.share.has_ceiling);
        let others = home.unwrap_or_else(|| {
            let DeviceCounters { reads, read_bytes, .. } = self.devices.read().ok().flatten().unwrap_or_default();
            since(ReadUsage { reads, read_bytes }, own)
        });
        Seen { at: Instant::now(), own, others }
    }

    fn step(&mut self) {
        let now = self.see();
        let before = std::mem::replace(&mut self.last, now);
        let others_waiting = self.waiting as f64 * f64::from(LOOKS_PER_WAIT) / f64::from(LOOKS_PER_STEP);
        self.waiting = 0;
        let seconds = (now.at - before.at).as_secs_f64();
        let (own, others) = (since(now.own, before.own), since(now.others, before.others));
        self.limit(Step { seconds, own, others, others_waiting });
    }

    fn limit(&mut self, step: Step) {
        let limit = self.share.next(step);
        let failed = self.isolation.limit_reads(limit).err();
        self.note(failed);
        self.shares.push(self.share.ratio);
    }

    fn choose_bound(&mut self, postmaster: u32) {
        let own = self.isolation.read_cached().unwrap_or_default();
        if let Some(bound) = read_cache_bound(postmaster, own) {
            self.bound = bound;
            self.progress.cache_bytes.store(bound.0, Ordering::Relaxed);
        }
    }

    fn end(self, remarks: &mut Vec<String>) -> Isolated {
        let ReadUsage { reads, read_bytes } = self.isolation.read_usage().unwrap_or_default();
        let cache_bytes = self.isolation.can_bound_cache().then_some(self.bound);
        let share_mean = self.shares.iter().sum::<f64>() / self.shares.len() as f64;
        let share_min = self.shares.iter().copied().fold(1.0, f64::min);
        if let Err(error) = self.isolation.remove() {
            remarks.push(format!("a cgroup was not removed: {error}; the next run tries again"));
        }
        remarks.extend(self.trouble.map(|error| format!("the job's disk reads were not always limited: {error}")));
        Isolated { cache_bytes, share_mean, share_min, reads, read_bytes }
    }
}

/// Page cache limit of an isolated job. `own`: bytes cached by the job. `None` if memory usage cannot be read.
pub fn read_cache_bound(postmaster: u32, own: Bytes) -> Option<Bytes> {
    let (unused, limit) = read_unused_memory(postmaster).ok()?;
    let least = limit.map_or(CACHE_MAX, |limit| (limit.0 / LIMIT_PARTS).clamp(CACHE_MIN, CACHE_MAX));
    let free = ((unused.0 + own.0) as f64 * UNUSED_SHARE) as u64;
    Some(Bytes(free.max(least)))
}

fn since(now: ReadUsage, before: ReadUsage) -> ReadUsage {
    ReadUsage {
        reads: now.reads.saturating_sub(before.reads),
        read_bytes: Bytes(now.read_bytes.0.saturating_sub(before.read_bytes.0)),
    }
}

/// Minimum of the job's share of the device, so that the job ends.
const SHARE_MIN: f64 = 0.1;

/// The job's share of the device until the reads of other processes are measured.
const SHARE_FIRST: f64 = 0.7;

/// Maximum rise of the job's share per adjustment. A fall is not limited.
const STEP: f64 = 0.1;

/// Other processes' reads are ignored if they take less than this share of the device.
const USED_MIN: f64 = 0.01;

/// Share of the device left free so that other processes' reads do not queue. While other server processes wait for
/// the disk, `SPARE_WAITED_FOR` applies instead.
const SPARE: f64 = 0.05;
const SPARE_WAITED_FOR: f64 = 0.2;

/// Minimum mean number of waiting server processes, except the job's, for `SPARE_WAITED_FOR` to apply.
const WAITING_MIN: f64 = 0.1;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    pub seconds: f64,
    pub own: ReadUsage,
    pub others: ReadUsage,
    pub others_waiting: f64,
}

#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Share of the capacity, 0 to 1.
    ratio: f64,
    /// Device capacity; if unknown, the maximum measured so far.
    capacity: DeviceProfile,
    is_known: bool,
    /// Whether the server has a read limit, which does not apply to isolated processes.
    has_ceiling: bool,
}

impl Share {
    pub fn new(profile: Option<DeviceProfile>, ceiling: ReadLimit) -> Share {
        let mut capacity =
            profile.unwrap_or(DeviceProfile { bandwidth: Bytes(1), reads_per_second: 1.0, ..DeviceProfile::default() });
        let has_ceiling = ceiling != ReadLimit::default();
        if let Some(reads) = ceiling.reads_per_second {
            capacity.reads_per_second = reads as f64;
        }
        if let Some(bytes) = ceiling.read_bytes_per_second {
            capacity.bandwidth = bytes;
        }
        let both = ceiling.reads_per_second.is_some() && ceiling.read_bytes_per_second.is_some();
        Share { ratio: SHARE_FIRST, capacity, is_known: profile.is_some() || both, has_ceiling }
    }

    pub fn next(&mut self, step: Step) -> ReadLimit {
        if step.seconds > 0.0 {
            self.learn(step);
            let wanted = self.wanted(step);
            self.ratio = wanted.min(self.ratio + STEP);
        }
        self.limit()
    }

    fn learn(&mut self, step: Step) {
        if !self.is_known {
            let per_second = |count: u64| count as f64 / step.seconds;
            let capacity = &mut self.capacity;
            capacity.reads_per_second = capacity.reads_per_second.max(per_second(step.own.reads + step.others.reads));
            let bytes = per_second(step.own.read_bytes.0 + step.others.read_bytes.0);
            capacity.bandwidth = capacity.bandwidth.max(Bytes(bytes as u64));
        }
    }

    fn wanted(&self, step: Step) -> f64 {
        let used = self.capacity.seconds(step.others.reads, step.others.read_bytes) / step.seconds;
        let waits = step.others_waiting >= WAITING_MIN;
        if used < USED_MIN && !waits {
            return 1.0;
        }
        let spare = if waits { SPARE_WAITED_FOR } else { SPARE };
        (1.0 - used - spare).max(SHARE_MIN)
    }

    fn limit(&self) -> ReadLimit {
        // A job with the whole device needs no limit. If the device's capacity is unknown, no limit can be computed.
        let is_free = self.ratio >= 1.0 && !self.has_ceiling;
        if is_free || (!self.is_known && self.capacity.reads_per_second <= 1.0) {
            return ReadLimit::default();
        }
        let of = |whole: f64| ((whole * self.ratio).round() as u64).max(1);
        ReadLimit {
            reads_per_second: Some(of(self.capacity.reads_per_second)),
            read_bytes_per_second: Some(Bytes(of(self.capacity.bandwidth.0 as f64))),
        }
    }
}

/// Prefix of a backend's process title. A new process has the postmaster's title at first.
const TITLE: &str = "postgres: ";

const KNOWN_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Sessions {
    pub postmaster: u32,
    whose: Whose,
    children: HashMap<u32, Child>,
    ended: Asked,
    progress: Arc<Progress>,
}

#[derive(Debug)]
struct Child {
    since: Instant,
    kind: Kind,
    first: Asked,
    last: Asked,
}

impl Child {
    fn new(kind: Kind) -> Child {
        Child { since: Instant::now(), kind, first: Asked::default(), last: Asked::default() }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub requested: u64,
    pub fetched: u64,
}

impl Asked {
    fn add_since(&mut self, last: Asked, first: Asked) {
        self.requested += last.requested.saturating_sub(first.requested);
        self.fetched += last.fetched.saturating_sub(first.fetched);
    }

    fn read(pid: u32) -> Option<Asked> {
        let (requested, fetched) = process::read_asked_bytes(pid).ok()?;
        Some(Asked { requested: requested.0, fetched: fetched.0 })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unknown,
    Session,
    Named,
    Worker,
    Other,
}

impl Kind {
    fn is_own(self) -> bool {
        matches!(self, Kind::Session | Kind::Named | Kind::Worker)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    pub joined: Vec<u32>,
    pub left: Vec<u32>,
}

impl Sessions {
    /// `job`: pid of the command. It and its children are the clients.
    pub fn new(postmaster: u32, job: u32, progress: Arc<Progress>) -> Sessions {
        let mut whose = Whose::new(Wanted::command(&Arc::new(job.into())), Some(postmaster));
        whose.know_earlier();
        let children = whose.strangers.iter().map(|pid| (*pid, Child::new(Kind::Other))).collect();
        Sessions { postmaster, whose, children, ended: Asked::default(), progress }
    }

    pub fn count_there(&self) -> usize {
        self.children.values().filter(|child| child.kind == Kind::Session).count()
    }

    pub fn look(&mut self, named: &BTreeSet<u32>) -> Changed {
        self.whose.postmaster_pid = Some(self.postmaster);
        let there: BTreeSet<u32> =
            process::read_listed_children(self.postmaster).unwrap_or_default().into_iter().collect();
        self.whose.look_at_family();
        for (pid, gone) in self.children.extract_if(|pid, _| !there.contains(pid)) {
            self.whose.forget(pid);
            self.ended.add_since(gone.last, gone.first);
        }
        let mut changed = Changed::default();
        // The pids ascend, so leaders precede their workers.
        for pid in there {
            let child = self.children.entry(pid).or_insert_with(|| Child::new(Kind::Unknown));
            let (before, since) = (child.kind, child.since);
            let now = self.find_kind(pid, before, since, named);
            let Some(child) = self.children.get_mut(&pid) else { continue };
            child.kind = now;
            match (before.is_own(), now.is_own()) {
                (false, true) => {
                    // The process's requests before it joined were not the job's.
                    child.first = Asked::read(pid).unwrap_or_default();
                    child.last = child.first;
                    let Progress { sessions_seen, workers_seen, .. } = &*self.progress;
                    (if now == Kind::Worker { workers_seen } else { sessions_seen }).fetch_add(1, Ordering::Relaxed);
                    changed.joined.push(pid);
                }
                (true, false) => {
                    self.ended.add_since(child.last, child.first);
                    (child.first, child.last) = Default::default();
                    changed.left.push(pid);
                }
                _ => {}
            }
        }
        changed
    }

    fn find_kind(&mut self, pid: u32, before: Kind, since: Instant, named: &BTreeSet<u32>) -> Kind {
        match before {
            Kind::Session | Kind::Worker => return before,
            _ if named.contains(&pid) => return Kind::Named,
            Kind::Named | Kind::Other => return Kind::Other,
            Kind::Unknown => {}
        }
        let title = process::read_title(pid).unwrap_or_default();
        match leader_of(&title) {
            Some(leader) if self.children.get(&leader).is_some_and(|leader| leader.kind.is_own()) => Kind::Worker,
            Some(_) => Kind::Other,
            // The process may become a parallel worker, which its title does not show yet.
            None if !title.starts_with(TITLE) && since.elapsed() < KNOWN_WITHIN => Kind::Unknown,
            None if title.contains(IO_WORKER) => Kind::Other,
            None if self.whose.of_listed(pid) == Verdict::Wanted => Kind::Session,
            None => Kind::Other,
        }
    }

    /// The job's bytes so far, without requests served by shared_buffers.
    pub fn read_asked(&mut self) -> Asked {
        let mut sum = self.ended;
        for (pid, child) in self.children.iter_mut().filter(|(_, child)| child.kind.is_own()) {
            child.last = Asked::read(*pid).unwrap_or(child.last);
            sum.add_since(child.last, child.first);
        }
        sum
    }

    pub fn others(&self) -> Vec<u32> {
        self.children.iter().filter(|(_, child)| !child.kind.is_own()).map(|(pid, _)| *pid).collect()
    }
}

#[cfg(test)]
mod share_tests {
    use super::*;

    const GP3: ReadLimit = ReadLimit { reads_per_second: Some(3000), read_bytes_per_second: Some(Bytes(125 << 20)) };

    fn step(own: u64, others: u64, others_waiting: f64) -> Step {
        let usage = |reads: u64| ReadUsage { reads, read_bytes: Bytes(reads * 8192) };
        Step { seconds: 0.2, own: usage(own), others: usage(others), others_waiting }
    }

    #[test]
    fn who_is_alone_with_the_device_has_all_of_it() {
        let mut share = Share::new(Some(DeviceProfile::default()), ReadLimit::default());
        let limits: Vec<ReadLimit> = (0..6).map(|_| share.next(step(300, 0, 0.0))).collect();
        assert_eq!(limits[0].reads_per_second, Some(2400));
        assert_eq!(limits[5], ReadLimit::default(), "no limit at all");
        let mut share = Share::new(None, GP3);
        assert_eq!((0..6).map(|_| share.next(step(300, 0, 0.0))).last(), Some(GP3));
    }

    #[test]
    fn what_others_use_is_theirs_and_more_where_they_wait() {
        let mut share = Share::new(None, GP3);
        (0..10).for_each(|_| _ = share.next(step(300, 0, 0.0)));
        let beside = share.next(step(300, 240, 0.0)).reads_per_second.unwrap();
        assert!((1600..=1700).contains(&beside), "{beside}");
        let waiting = share.next(step(300, 240, 2.0)).reads_per_second.unwrap();
        assert!((1100..=1250).contains(&waiting), "{waiting}");
        assert_eq!(share.next(step(60, 600, 8.0)).reads_per_second, Some(300), "a tenth is left to the job");
        let again = share.next(step(60, 0, 0.0)).reads_per_second.unwrap();
        assert!((500..=620).contains(&again), "given back step by step: {again}");
    }

    #[test]
    fn a_device_that_nobody_knows_is_limited_when_others_wait() {
        let mut share = Share::new(None, ReadLimit::default());
        assert_eq!(share.next(Step { seconds: 0.2, ..Step::default() }), ReadLimit::default());
        (0..10).for_each(|_| _ = share.next(step(4000, 0, 0.0)));
        assert_eq!(share.next(step(4000, 0, 0.0)), ReadLimit::default());
        let limit = share.next(step(3000, 1000, 3.0));
        assert!(limit.reads_per_second.is_some_and(|reads| reads < 12_000), "{limit:?}");
    }
}

#[cfg(test)]
mod sessions_tests {
    use super::*;
    use std::process::{Child as Started, Command};

    fn sleep() -> Started {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[test]
    fn who_is_called_so_is_the_jobs_until_he_is_not() {
        let (mut job, mut other) = (sleep(), sleep());
        let progress = Arc::<Progress>::default();
        let mut sessions = Sessions::new(std::process::id(), job.id(), Arc::clone(&progress));
        let named = BTreeSet::from([other.id()]);
        assert_eq!(sessions.look(&named).joined, [other.id()]);
        assert_eq!(sessions.look(&named), Changed::default());
        assert!(!sessions.others().contains(&other.id()));
        sessions.read_asked();
        assert_eq!(sessions.look(&BTreeSet::new()).left, [other.id()]);
        assert_eq!(sessions.look(&named).joined, [other.id()], "and again");
        for one in [&mut job, &mut other] {
            one.kill().unwrap();
            one.wait().unwrap();
        }
        assert_eq!(sessions.look(&named), Changed::default());
        assert_eq!(
            (progress.sessions_seen.load(Ordering::Relaxed), progress.workers_seen.load(Ordering::Relaxed)),
            (2, 0)
        );
    }
}

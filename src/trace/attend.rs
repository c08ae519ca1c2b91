//! Attends a job while it runs: finds its sessions on the server, and sets them apart from the others if it is asked to.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::sessions::{Asked, Sessions};
use super::share::{Share, Step};
use crate::linux::block_device::Devices;
use crate::linux::cgroup::{Isolation, ReadUsage, read_limit_of};
use crate::linux::memory::{LoadableMemory, read_unused_memory};
use crate::linux::ready::Over;
use crate::linux::{DeviceCounters, DeviceNumber, Error, process};
use crate::postgres::DataDirectory;
use crate::units::{Bytes, counted};
use crate::warm::{DeviceProfile, Room};

/// Time from look to look: a session or a worker is found within this.
pub const LOOK: Duration = Duration::from_millis(25);

/// A session whose client has ended misses him only when it answers: within a long statement it works on. It is waited for so long while
/// it asks files for something, no longer than this when it does not, and told from so long on.
pub const WAITED_FOR: Duration = Duration::from_secs(10);
const QUIET_FOR: Duration = Duration::from_secs(1);
const TOLD_FROM: Duration = Duration::from_millis(500);

/// Looks after which it is seen whether others wait, those after which the share of the device is chosen anew, and those after which the
/// bound on the page cache is.
const LOOKS_PER_WAIT: u32 = 2;
const LOOKS_PER_STEP: u32 = 8;
const LOOKS_PER_BOUND: u32 = 40;

/// Others that are looked at for whether they wait: more of them tell nothing more.
const OTHERS_MAX: usize = 64;

/// The page cache of a job that is set apart is never bounded to less: read-ahead takes some of it. Beyond that it is a hundredth of
/// what the server may have, and 64 MB at most, for that is what others lose and have to read again; and the part of what nobody uses
/// that is sure to stay.
const CACHE_MIN: u64 = 8 << 20;
const CACHE_MAX: u64 = 64 << 20;
const LIMIT_PARTS: u64 = 100;
const UNUSED_SHARE: f64 = 0.6;

/// How a job that was set apart fared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Isolated {
    /// What of the page cache it could have, at the end.
    pub cache_bytes: Bytes,
    /// Its share of the device, 0 to 1: on the mean and at the least.
    pub share_mean: f64,
    pub share_min: f64,
    /// What it read of the device, with what was preloaded for it.
    pub reads: u64,
    pub read_bytes: Bytes,
}

/// What was seen of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Attended {
    /// Sessions that served it, and parallel workers.
    pub sessions: usize,
    pub workers: usize,
    /// What they asked files for, cached or not.
    pub requested_bytes: Bytes,
    /// `None` where that was not asked for, or could not be done.
    pub isolated: Option<Isolated>,
    #[serde(skip)]
    pub remarks: Vec<String>,
}

/// How far a job is, for who paces himself by it.
#[derive(Debug, Default)]
pub struct Progress {
    /// What its sessions have asked files for so far.
    pub requested_bytes: AtomicU64,
    /// What they had the device fetch of it.
    pub fetched_bytes: AtomicU64,
    /// Sessions and parallel workers that have served it.
    pub sessions_seen: AtomicUsize,
    pub workers_seen: AtomicUsize,
    /// The page cache that it may have; 0 where it is not set apart.
    pub cache_bytes: AtomicU64,
    /// Sessions that work on after the job's end are not to be waited for.
    pub goes_on: AtomicBool,
}

impl Progress {
    /// What it has asked files for; `None` where no session of it is known.
    pub fn requested(&self) -> Option<Bytes> {
        let is_known = self.sessions_seen.load(Ordering::Relaxed) > 0;
        is_known.then(|| Bytes(self.requested_bytes.load(Ordering::Relaxed)))
    }
}

/// The page cache that a preload may fill: the room that there is, and no more than the job may have.
#[derive(Debug)]
pub struct BoundedRoom<R> {
    pub room: R,
    pub progress: Arc<Progress>,
}

impl<R: Room> Room for BoundedRoom<R> {
    fn read_room(&self) -> Option<LoadableMemory> {
        let room = self.room.read_room();
        match self.progress.cache_bytes.load(Ordering::Relaxed) {
            0 => room,
            most => room.map(|room| LoadableMemory { bytes: room.bytes.min(Bytes(most)), ..room }),
        }
    }

    fn idle_age(&self) -> Option<Duration> {
        self.room.idle_age()
    }
}

/// A job that is going to be attended.
#[derive(Debug)]
pub struct Attend {
    pub directory: DataDirectory,
    pub sessions: Sessions,
    /// Where it is set apart.
    pub isolation: Option<Isolation>,
    pub device: Option<DeviceNumber>,
    /// What the device gives, if somebody has said or measured it.
    pub profile: Option<DeviceProfile>,
    /// Sessions that call themselves as the job's do.
    pub named: Arc<Mutex<BTreeSet<u32>>>,
    pub progress: Arc<Progress>,
    /// What it brought goes when it has ended: whether it goes on to bring more is told.
    pub is_protected: bool,
    /// Tells when the job has ended.
    pub over: Over,
}

impl Attend {
    /// Does so until it is stopped. Then everybody is back where he was.
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
        let (sessions, workers) = self.sessions.counts();
        remarks
            .extend(self.sessions.trouble().map(|why| format!("sessions of the job may not have been found: {why}")));
        let requested_bytes = Bytes(self.sessions.read_asked().requested);
        Attended { sessions, workers, requested_bytes, isolated, remarks }
    }

    /// Waits for the job's sessions to end, at most [`WAITED_FOR`] and while they read, and tells what that was like.
    fn wait_for_sessions(&mut self, mut apart: Option<&mut Apart>) -> Option<String> {
        let begun = Instant::now();
        let mut last = (begun, self.sessions.read_asked().requested);
        loop {
            self.look(apart.as_deref_mut());
            let requested = self.sessions.read_asked().requested;
            if requested > last.1 {
                last = (Instant::now(), requested);
            }
            let waited = begun.elapsed();
            let is_given_up = self.progress.goes_on.load(Ordering::Relaxed) || last.0.elapsed() > QUIET_FOR;
            match self.sessions.count_there() {
                0 if waited < TOLD_FROM => return None,
                0 => {
                    let waited = waited.as_secs_f64();
                    return Some(format!(
                        "a session of the job worked on for {waited:.1} s after its end, and was waited for"
                    ));
                }
                there if waited > WAITED_FOR || is_given_up => {
                    let there = counted(there as u64, "session");
                    return Some(format!(
                        "{there} of the job did not end with it: what is read from now on stays cached (pg_terminate_backend ends one)"
                    ));
                }
                _ => std::thread::sleep(LOOK),
            }
        }
    }

    fn set_apart(&self, isolation: Isolation) -> Apart {
        let ceiling = self.device.and_then(|device| read_limit_of(self.sessions.postmaster(), device).ok());
        let ceiling = ceiling.unwrap_or_default();
        let mut apart = Apart {
            isolation,
            devices: Devices::from(self.device),
            share: Share::new(self.profile, ceiling),
            progress: Arc::clone(&self.progress),
            bound: Bytes(CACHE_MAX),
            last: Seen::default(),
            waiting: 0,
            shares: Vec::new(),
            trouble: None,
        };
        apart.choose_bound(self.sessions.postmaster());
        apart.last = apart.see();
        apart.limit(Step::default());
        apart.shares.push(apart.share.ratio());
        apart
    }

    /// Who came and who went.
    fn look(&mut self, apart: Option<&mut Apart>) {
        if !process::is_alive(self.sessions.postmaster())
            && let Some(postmaster) = self.directory.find_postmaster_pid()
        {
            self.sessions.move_to(postmaster);
        }
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let changed = self.sessions.look(&named);
        if let Some(apart) = apart {
            changed.joined.iter().for_each(|pid| apart.join(*pid));
            changed.left.iter().for_each(|pid| apart.isolation.leave(*pid));
        }
        let Asked { requested, fetched } = self.sessions.read_asked();
        self.progress.requested_bytes.store(requested, Ordering::Relaxed);
        self.progress.fetched_bytes.store(fetched, Ordering::Relaxed);
        let (sessions, workers) = self.sessions.counts();
        self.progress.sessions_seen.store(sessions, Ordering::Relaxed);
        self.progress.workers_seen.store(workers, Ordering::Relaxed);
    }
}

/// A job that is set apart.
struct Apart {
    isolation: Isolation,
    devices: Devices,
    share: Share,
    progress: Arc<Progress>,
    bound: Bytes,
    /// When the share was last chosen.
    last: Seen,
    /// Others that were seen to wait since then, added up over the looks.
    waiting: u64,
    /// What it began with, and what was chosen in each step.
    shares: Vec<f64>,
    trouble: Option<Error>,
}

/// What was read by then.
#[derive(Clone, Copy, Default)]
struct Seen {
    at: Option<Instant>,
    own: ReadUsage,
    /// Whoever read.
    all: DeviceCounters,
    /// Of the cgroup that the job's sessions come from.
    home: Option<ReadUsage>,
}

impl Apart {
    fn join(&mut self, pid: u32) {
        if let Err(error) = self.isolation.join(pid)
            && process::is_alive(pid)
        {
            self.trouble.get_or_insert(error);
        }
    }

    fn note(&mut self, done: Result<(), Error>) {
        if let Err(error) = done {
            self.trouble.get_or_insert(error);
        }
    }

    fn look(&mut self, sessions: &Sessions, looks: u32) {
        let bounded = self.isolation.bound_cache(self.bound).map(drop);
        self.note(bounded);
        if looks.is_multiple_of(LOOKS_PER_WAIT) {
            let others: Vec<u32> = sessions.others().into_iter().take(OTHERS_MAX).collect();
            self.waiting += u64::from(process::count_busy(&others).waiting);
        }
        if looks.is_multiple_of(LOOKS_PER_STEP) {
            self.step();
        }
        if looks.is_multiple_of(LOOKS_PER_BOUND) {
            self.choose_bound(sessions.postmaster());
        }
    }

    fn see(&self) -> Seen {
        Seen {
            at: Some(Instant::now()),
            own: self.isolation.read_usage().unwrap_or_default(),
            all: self.devices.read().ok().flatten().unwrap_or_default(),
            home: self.isolation.read_home_usage(),
        }
    }

    fn step(&mut self) {
        let now = self.see();
        let before = std::mem::replace(&mut self.last, now);
        let seconds = before.at.zip(now.at).map_or(0.0, |(before, now)| (now - before).as_secs_f64());
        let own = since(now.own, before.own);
        let all = |counters: DeviceCounters| ReadUsage { reads: counters.reads, read_bytes: counters.read_bytes };
        // Under a limit of its own the server has only what it reads itself; elsewhere everybody is in its way.
        let others = match now.home.zip(before.home).filter(|_| self.share.has_ceiling()) {
            Some((now, before)) => since(now, before),
            None => since(since(all(now.all), all(before.all)), own),
        };
        let others_waiting = self.waiting as f64 * f64::from(LOOKS_PER_WAIT) / f64::from(LOOKS_PER_STEP);
        self.waiting = 0;
        self.limit(Step { seconds, own, others, others_waiting });
        self.shares.push(self.share.ratio());
    }

    fn limit(&mut self, step: Step) {
        let limit = self.share.next(step);
        let done = self.isolation.limit_reads(limit);
        self.note(done);
    }

    /// What the job may have of the page cache: a little, and of what nobody uses the part that is sure to stay.
    fn choose_bound(&mut self, postmaster: u32) {
        let own = self.isolation.read_cached().unwrap_or_default();
        if let Some(bound) = read_cache_bound(postmaster, own) {
            self.bound = bound;
            self.progress.cache_bytes.store(bound.0, Ordering::Relaxed);
        }
    }

    fn end(self, remarks: &mut Vec<String>) -> Isolated {
        let ReadUsage { reads, read_bytes } = self.isolation.read_usage().unwrap_or_default();
        let shares = || self.shares.iter().copied();
        let isolated = Isolated {
            cache_bytes: self.bound,
            share_mean: shares().sum::<f64>() / self.shares.len().max(1) as f64,
            share_min: shares().reduce(f64::min).unwrap_or_default(),
            reads,
            read_bytes,
        };
        if let Err(error) = self.isolation.remove() {
            remarks.push(format!("a cgroup was left: {error}; the next run tries again"));
        }
        remarks.extend(self.trouble.map(|error| format!("the job was not set apart all the time: {error}")));
        isolated
    }
}

/// What of the page cache a job may have that is set apart on the server that runs as `postmaster`, and has `own` of it; `None` where
/// memory cannot be looked at.
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

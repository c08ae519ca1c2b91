//! How a restore is watched and stopped from outside. The domain itself prints nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::receipt::StopReason;
use super::traffic::Traffic;
use host::linux::machine::LoadableMemory;
use host::linux::page_cache::PageCache;

/// Who waits looks this often whether to stop.
const LOOK: Duration = Duration::from_millis(50);

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Looking at what is resident; counts relations' forks.
    Measuring,
    /// Reading into the page cache; counts bytes.
    Reading,
    /// Looking again; counts forks.
    Verifying,
    /// Loading into shared_buffers; counts bytes.
    Buffers,
    /// Making cold; counts files.
    Evicting,
    /// Reading a volume for the first time; counts bytes.
    Hydrating,
}

/// Told how far a restore or an eviction is. Called from several threads.
pub trait Watcher: Send + Sync {
    /// A phase begins, of this many bytes or forks.
    fn begin(&self, _phase: Phase, _total: u64) {}

    /// So much more of the phase is done.
    fn advance(&self, _amount: u64) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Watcher for Unwatched {}

/// Stops a restore: within one read of each thread.
#[derive(Debug, Default)]
pub struct Control {
    interrupted: AtomicBool,
    os_stop: OnceLock<StopReason>,
}

impl Control {
    /// The user wants it to end.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
    }

    /// What the user wanted to end has ended: what comes next goes on until he says so again.
    pub fn go_on(&self) {
        self.interrupted.store(false, Ordering::Relaxed);
    }

    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// What `work` comes to, or `None` when the user does not want to wait for it any longer.
    pub async fn unless_interrupted<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let interrupted = async {
            while !self.is_interrupted() {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            done = work => Some(done),
            () = interrupted => None,
        }
    }

    /// The OS tier makes no sense any more; the other goes on. The first reason counts.
    pub fn stop_os(&self, reason: StopReason) {
        // A second reason changes nothing.
        let _ = self.os_stop.set(reason);
    }

    /// Why the OS tier is to stop, if it is.
    pub fn os_stopped_by(&self) -> Option<StopReason> {
        self.is_interrupted().then_some(StopReason::Interrupted).or_else(|| self.os_stop.get().copied())
    }
}

/// How much of the machine's memory a restore may fill.
pub trait Room: Send + Sync {
    /// What can be cached and stay, what is cached already included; `None` when nobody knows.
    fn read_room(&self) -> Option<LoadableMemory>;

    /// The age from which on a page may be gone though there is memory, because it was idle; `None` when none goes for that.
    fn idle_age(&self) -> Option<Duration>;
}

/// What a restore acts on and is watched by.
#[derive(Clone)]
pub struct Host {
    pub page_cache: Arc<dyn PageCache>,
    pub room: Arc<dyn Room>,
    pub traffic: Arc<dyn Traffic>,
    pub control: Arc<Control>,
    pub watcher: Arc<dyn Watcher>,
}

host::debug_by!(Host: control);

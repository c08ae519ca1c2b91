use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::receipt::StopReason;
use super::traffic::Traffic;
use host::linux::machine::LoadableMemory;
use host::linux::page_cache::PageCache;

const LOOK: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Measures residency; progress counts forks.
    Measuring,
    /// Reads into the page cache; progress counts bytes.
    Reading,
    /// Measures residency again; progress counts forks.
    Verifying,
    /// Loads into shared_buffers; progress counts bytes.
    Buffers,
    /// Evicts; progress counts forks.
    Evicting,
    /// Reads a volume for the first time; progress counts bytes.
    Hydrating,
}

/// Receives progress, from several threads.
pub trait Watcher: Send + Sync {
    fn begin(&self, _phase: Phase, _total: u64) {}

    fn advance(&self, _amount: u64) {}
}

#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Watcher for Unwatched {}

/// Stops a restore once each thread has finished its current read.
#[derive(Debug, Default)]
pub struct Control {
    interrupted: AtomicBool,
    os_stop: OnceLock<StopReason>,
}

impl Control {
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
    }

    /// Clears the interrupt. Call after the interrupted task has ended.
    pub fn go_on(&self) {
        self.interrupted.store(false, Ordering::Relaxed);
    }

    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

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

    /// Stops loading the page cache, but not shared_buffers. The first reason wins.
    pub fn stop_os(&self, reason: StopReason) {
        let _ = self.os_stop.set(reason);
    }

    pub fn os_stopped_by(&self) -> Option<StopReason> {
        self.is_interrupted().then_some(StopReason::Interrupted).or_else(|| self.os_stop.get().copied())
    }
}

pub trait Room: Send + Sync {
    /// Memory for cached pages, including those already cached; `None` if unknown.
    fn read_room(&self) -> Option<LoadableMemory>;

    /// Age from which idle pages may be evicted despite free memory; `None` if they stay cached.
    fn idle_age(&self) -> Option<Duration>;
}

#[derive(Clone)]
pub struct Host {
    pub page_cache: Arc<dyn PageCache>,
    pub room: Arc<dyn Room>,
    pub traffic: Arc<dyn Traffic>,
    pub control: Arc<Control>,
    pub watcher: Arc<dyn Watcher>,
}

host::debug_by!(Host: control);

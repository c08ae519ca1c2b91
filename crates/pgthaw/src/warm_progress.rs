//! How far a restore is, and how it is interrupted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cache::warm::{Control, Phase, Watcher};
use host::units::Bytes;
use terminal::Progress;

/// What a signal interrupts from now on, to be ended in good order. Until then a signal ends this process at once.
pub fn end_in_good_order() -> Arc<Control> {
    let control = Arc::new(Control::default());
    let interrupted = Arc::clone(&control);
    tokio::spawn(terminal::interrupt_then_exit(move || interrupted.interrupt()));
    control
}

/// A bar for the phase that is going on.
#[derive(Debug)]
pub struct WarmProgress {
    is_visible: bool,
    now: Mutex<Option<Bar>>,
    done: AtomicU64,
}

#[derive(Clone, Debug)]
struct Bar {
    progress: Progress,
    /// Steps of a phase that is usually over before a person wonders.
    steps: Option<u64>,
}

impl WarmProgress {
    pub fn new(is_visible: bool) -> WarmProgress {
        WarmProgress { is_visible, now: Mutex::new(None), done: AtomicU64::new(0) }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = self.lock().take() {
            bar.progress.finish();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Bar>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher for WarmProgress {
    fn begin(&self, phase: Phase, total: u64) {
        self.finish();
        self.done.store(0, Ordering::Relaxed);
        let bytes = |label| Bar { progress: Progress::bytes(label, Bytes(total), self.is_visible), steps: None };
        let steps = |label| Bar { progress: Progress::steps_when_slow(label, self.is_visible), steps: Some(total) };
        *self.lock() = Some(match phase {
            Phase::Measuring => steps("looking"),
            Phase::Reading => bytes("page cache"),
            Phase::Verifying => steps("verifying"),
            Phase::Buffers => bytes("buffers"),
            Phase::Evicting => steps("evicting"),
            Phase::Hydrating => bytes("hydrating"),
        });
    }

    fn advance(&self, amount: u64) {
        let done = self.done.fetch_add(amount, Ordering::Relaxed) + amount;
        match &*self.lock() {
            Some(Bar { progress, steps: Some(total) }) => progress.reach(done, *total),
            Some(Bar { progress, steps: None }) => progress.advance(amount),
            None => {}
        }
    }
}

use std::sync::{Arc, Mutex};

use cache::warm::{Control, Phase, Watcher};
use host::linux::threads::lock;
use host::units::Bytes;
use terminal::Progress;

/// Makes signals interrupt the work cleanly instead of ending the process.
pub fn end_in_good_order() -> Arc<Control> {
    let control = Arc::new(Control::default());
    let interrupted = Arc::clone(&control);
    tokio::spawn(terminal::interrupt_then_exit(move || interrupted.interrupt()));
    control
}

#[derive(Debug)]
pub struct WarmProgress {
    is_visible: bool,
    now: Mutex<Option<(Progress, u64, u64)>>,
}

impl WarmProgress {
    pub fn new(is_visible: bool) -> WarmProgress {
        WarmProgress { is_visible, now: Mutex::new(None) }
    }

    pub fn finish(&self) {
        if let Some((bar, ..)) = lock(&self.now).take() {
            bar.finish();
        }
    }
}

impl Watcher for WarmProgress {
    fn begin(&self, phase: Phase, total: u64) {
        self.finish();
        let bytes = |label| Progress::bytes(label, Bytes(total), self.is_visible);
        // Measuring, verifying and evicting are usually too short for a bar.
        let steps = |label| Progress::steps_when_slow(label, self.is_visible);
        let bar = match phase {
            Phase::Measuring => steps("measuring"),
            Phase::Reading => bytes("page cache"),
            Phase::Verifying => steps("verifying"),
            Phase::Buffers => bytes("buffers"),
            Phase::Evicting => steps("evicting"),
            Phase::Hydrating => bytes("hydrating"),
        };
        *lock(&self.now) = Some((bar, 0, total));
    }

    fn advance(&self, amount: u64) {
        if let Some((bar, done, total)) = &mut *lock(&self.now) {
            *done += amount;
            bar.reach(*done, *total);
        }
    }
}

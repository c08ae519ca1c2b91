//! What a study tells whoever watches it.

use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, UnboundedSender, channel};

use super::calibration::Calibration;
use super::sweep::{SweepRun, SweepTrial, Until};
use host::units::Bytes;
use postgres::keep_text;

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A step of the preparation begins; in words for people.
    Step(String),
    /// How much of the step is done, 0 to 1.
    StepShare(f64),
    /// Something to know, that is no reason to stop.
    Remark(String),
    /// What the warm server showed, before the first trial.
    Calibrated(Box<Calibration>),
    Second(LiveSecond),
    /// A sweep is known by its name, before anything that takes long; its trials begin; one of them begins, and ends.
    SweepOpened(SweepOpened),
    SweepStarted(Box<SweepRun>),
    SweepTrialStarted(SweepTrialStarted),
    SweepTrialEnded(Box<SweepTrial>),
}

/// A sweep that goes on after a kill once it is kept: whoever keeps it says so.
#[derive(Clone, Debug)]
pub struct SweepOpened {
    pub run: Box<SweepRun>,
    kept: Sender<()>,
}

impl SweepOpened {
    /// The other end hears that it was kept; when nobody keeps it, that nothing comes any more.
    pub fn new(run: SweepRun) -> (SweepOpened, Receiver<()>) {
        let (kept, is_kept) = channel(1);
        (SweepOpened { run: Box::new(run), kept }, is_kept)
    }

    /// From now on it goes on after a kill.
    pub fn note_kept(&self) {
        // Nobody waits for it when the sweep was stopped meanwhile.
        let _ = self.kept.try_send(());
    }
}

/// A trial of a sweep begins: first of all its start state is made.
#[derive(Clone, Debug)]
pub struct SweepTrialStarted {
    /// The point, by what varies.
    pub label: String,
    /// From 1, of `repeats`.
    pub repeat: u32,
    pub repeats: u32,
    /// From 1, of `trials`, those that ended earlier included.
    pub position: u32,
    pub trials: u32,
    /// Seconds that it lasts; `None` when it ends by its transactions.
    pub seconds: Option<u32>,
    /// What ends it before, if anything does.
    pub until: Option<Until>,
    /// Until the whole sweep is over, and those that follow it.
    pub left: Duration,
}

/// A second of a trial, for a live display: what is kept comes with the trial's end.
#[derive(Clone, Copy, Debug)]
pub struct LiveSecond {
    /// From 0, which is the start.
    pub second: u32,
    /// Transactions per second; `None` until pgbench says something.
    pub tps: Option<f64>,
    /// Read from the device in this second.
    pub device_read_bytes: Bytes,
    pub os_resident_bytes: Bytes,
    pub until_warm: UntilWarm,
}

/// Where events go. Nobody has to listen.
#[derive(Clone, Debug)]
pub struct Events(Option<UnboundedSender<Event>>);

impl Events {
    pub fn to(sender: UnboundedSender<Event>) -> Events {
        Events(Some(sender))
    }

    pub fn tell(&self, event: Event) {
        let event = match event {
            Event::Step(text) => Event::Step(keep_text(text)),
            Event::Remark(text) => Event::Remark(keep_text(text)),
            Event::SweepTrialStarted(trial) => {
                Event::SweepTrialStarted(SweepTrialStarted { label: keep_text(trial.label), ..trial })
            }
            other => other,
        };
        if let Some(sender) = &self.0 {
            // The listener may have gone; the study goes on.
            let _ = sender.send(event);
        }
    }
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UntilWarm {
    /// Too early to say, or nothing says it.
    Unknown,
    /// About so many seconds.
    Seconds(f64),
    /// Fewer than 1 % of transactions read from the device in the last three seconds.
    Warm,
}

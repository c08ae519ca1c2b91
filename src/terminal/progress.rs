//! A progress bar with time left, on standard error, and only where a person looks.

use std::fmt;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::units::Bytes;

/// Progress of one long step. Draws nothing when standard error is no terminal or `--json` or `--quiet` was given.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// When it begins to be drawn, if it is not drawn from the start.
    late: Option<Late>,
}

/// Something that is usually over before a person wonders.
#[derive(Clone, Debug)]
struct Late {
    started_at: Instant,
    drawn: Arc<Once>,
}

/// Who waits longer than this wants to know how long still.
const PATIENCE: Duration = Duration::from_secs(2);

/// Both fit a terminal of 80 columns.
const BYTES: &str = "{prefix:>10} [{bar:16}] {done:>9} of {total} {rate} {eta} left {wide_msg}";
const STEPS: &str = "{prefix:>10} [{bar:16}] {pos:>4} of {len}  {eta} left  {wide_msg}";

impl Progress {
    /// Counts bytes up to `total`.
    pub fn bytes(label: &'static str, total: Bytes, visible: bool) -> Progress {
        Progress::new(label, total.0, BYTES, visible)
    }

    /// Counts steps up to `total`.
    pub fn steps(label: &'static str, total: u64, visible: bool) -> Progress {
        Progress::new(label, total, STEPS, visible)
    }

    /// Counts steps, and is drawn only when they take more than two seconds. [`Progress::reach`] says how many there are.
    pub fn steps_when_slow(label: &'static str, visible: bool) -> Progress {
        let late = visible.then(|| Late { started_at: Instant::now(), drawn: Arc::new(Once::new()) });
        Progress { late, ..Progress::new(label, 0, STEPS, false) }
    }

    fn new(label: &'static str, total: u64, template: &str, visible: bool) -> Progress {
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total), target).with_prefix(label);
        // The templates are constants, and a test draws each.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let style = style
            .with_key("done", |state: &ProgressState, text: &mut dyn fmt::Write| {
                let _ = write!(text, "{}", Bytes(state.pos()));
            })
            .with_key("total", |state: &ProgressState, text: &mut dyn fmt::Write| {
                let _ = write!(text, "{}", Bytes(state.len().unwrap_or(0)));
            })
            .with_key("rate", |state: &ProgressState, text: &mut dyn fmt::Write| {
                let _ = text.write_str(&Bytes(state.per_sec() as u64).per_second());
            });
        bar.set_style(style.progress_chars("█▌ "));
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, late: None }
    }

    /// Adds to what is done.
    pub fn advance(&self, amount: u64) {
        self.bar.inc(amount);
    }

    /// Says how much of how much is done.
    pub fn reach(&self, done: u64, total: u64) {
        if let Some(late) = &self.late
            && late.started_at.elapsed() > PATIENCE
        {
            late.drawn.call_once(|| self.bar.set_draw_target(ProgressDrawTarget::stderr()));
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Says what is being done now.
    pub fn say(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        assert!(ProgressStyle::with_template(BYTES).is_ok());
        assert!(ProgressStyle::with_template(STEPS).is_ok());
    }
}

//! A progress bar with time left, on standard error, and only where a person looks.

use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState};

use super::moving_line::{Part, new_bar, time_left};
use host::units::Bytes;

/// Progress of one long step. Draws nothing when standard error is no terminal or `--json` or `--quiet` was given.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// What is being done now.
    said: Arc<Mutex<String>>,
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

/// How far it is, as the bar knows it.
#[derive(Clone, Copy, Debug)]
struct State {
    done: u64,
    total: u64,
    per_second: f64,
    /// Nobody knows it before anything is done.
    left: Option<Duration>,
}

impl State {
    fn of(state: &ProgressState) -> State {
        let left = (state.pos() > 0).then(|| state.eta());
        State { done: state.pos(), total: state.len().unwrap_or(0), per_second: state.per_sec(), left }
    }

    fn share(self) -> f64 {
        self.done as f64 / self.total.max(1) as f64
    }
}

impl Progress {
    /// Counts bytes up to `total`.
    pub fn bytes(label: &'static str, total: Bytes, visible: bool) -> Progress {
        Progress::new(label, total.0, byte_parts, visible)
    }

    /// Counts steps up to `total`.
    pub fn steps(label: &'static str, total: u64, visible: bool) -> Progress {
        Progress::new(label, total, step_parts, visible)
    }

    /// Counts steps, and is drawn only when they take more than two seconds. [`Progress::reach`] says how many there are.
    pub fn steps_when_slow(label: &'static str, visible: bool) -> Progress {
        let late = visible.then(|| Late { started_at: Instant::now(), drawn: Arc::new(Once::new()) });
        Progress { late, ..Progress::new(label, 0, step_parts, false) }
    }

    fn new(label: &'static str, total: u64, parts: fn(State) -> Vec<Part>, visible: bool) -> Progress {
        let said: Arc<Mutex<String>> = Arc::default();
        let shown = Arc::clone(&said);
        let line = move |state: &ProgressState| {
            let said = shown.lock().unwrap_or_else(PoisonError::into_inner);
            let mut line = vec![Part::text("", 1, label)];
            line.extend(parts(State::of(state)));
            line.push(Part::text("  ", 4, said.as_str()));
            line
        };
        let bar = new_bar(total, visible, line);
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, said, late: None }
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
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// `[████    ] 312 MB of 1.20 GB, 125 MB/s, 8 s left`
fn byte_parts(state: State) -> Vec<Part> {
    let done = Bytes(state.done);
    let rate = Bytes(state.per_second as u64).per_second();
    let told = [
        Part::bar(3, state.share()),
        Part::figure(format!("{done} of {}", Bytes(state.total)), done.to_string()).after(" "),
        Part::figure(rate.clone(), rate),
    ];
    told.into_iter().chain(state.left.map(time_left)).collect()
}

/// `[████    ] 3 of 12, 8 s left`
fn step_parts(state: State) -> Vec<Part> {
    let done = format!("{} of {}", state.done, state.total);
    let told = [Part::bar(3, state.share()), Part::figure(done.clone(), done).after(" ")];
    told.into_iter().chain(state.left.map(time_left)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::moving_line::render_parts;
    use super::*;

    #[test]
    fn bytes_have_their_rate_and_the_time_left_at_any_width() {
        let state =
            State { done: 312_000_000, total: 1_200_000_000, per_second: 125e6, left: Some(Duration::from_secs(8)) };
        for width in [30, 40, 60, 80] {
            let line = render_parts(&byte_parts(state), width);
            assert!(console::measure_text_width(&line) <= width, "{line}");
            for figure in [Bytes(state.done).to_string(), Bytes(125_000_000).per_second(), "8 s left".into()] {
                assert!(line.contains(&figure), "{width}: {line}");
            }
        }
        assert!(render_parts(&step_parts(state), 80).ends_with("312000000 of 1200000000, 8 s left"));
        let begun = State { done: 0, left: None, ..state };
        assert!(render_parts(&step_parts(begun), 80).ends_with("0 of 1200000000"));
    }
}

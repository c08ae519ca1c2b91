//! A progress bar with time left, on standard error, and only where a person looks.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use console::measure_text_width;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::printable::shorten_middle;
use super::screen::stderr_width;
use host::linux::threads::lock;
use host::units::Bytes;

/// Progress of one long step. Draws nothing when standard error is no terminal or `--json` or `--quiet` was given.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// What is being done now.
    said: Arc<Mutex<String>>,
    /// The start of something that is usually over before a person wonders: it is drawn only from [`PATIENCE`] on.
    late: Option<Instant>,
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
        let late = visible.then(Instant::now);
        Progress { late, ..Progress::new(label, 0, step_parts, false) }
    }

    fn new(label: &'static str, total: u64, parts: fn(State) -> Vec<Part>, visible: bool) -> Progress {
        let said: Arc<Mutex<String>> = Arc::default();
        let shown = Arc::clone(&said);
        let line = move |state: &ProgressState| {
            let said = lock(&shown);
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
        if self.bar.is_hidden() && self.late.is_some_and(|started_at| started_at.elapsed() > PATIENCE) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Says what is being done now.
    pub fn say(&self, what: impl Into<String>) {
        *lock(&self.said) = what.into();
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

// ---- moving line ----
//
// The line that is drawn again and again while something runs. Where the terminal is too narrow for all of it, what matters
// least goes first: throughput, what is warm and the time left stay.

/// Cells of a bar, and the fewest that it shrinks to before it goes.
const BAR: usize = 16;
const SHORTEST_BAR: usize = 6;

/// Eighths of a cell.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A piece of the line.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    text: String,
    /// The same in fewer cells.
    shorter: String,
    is_bar: bool,
    /// What stands between it and the piece before.
    joint: &'static str,
    /// The greatest goes first; 0 stays.
    priority: u8,
}

impl Part {
    /// What may go, the greatest `priority` first.
    pub fn text(joint: &'static str, priority: u8, text: impl Into<String>) -> Part {
        let text = text.into();
        Part { shorter: text.clone(), text, is_bar: false, joint, priority }
    }

    /// What stays, shorter if it has to be.
    pub fn figure(text: impl Into<String>, shorter: impl Into<String>) -> Part {
        Part { text: text.into(), shorter: shorter.into(), is_bar: false, joint: ", ", priority: 0 }
    }

    /// This part with something else than a comma in front.
    pub fn after(self, joint: &'static str) -> Part {
        Part { joint, ..self }
    }

    /// How much is done: 0 to 1.
    pub fn bar(priority: u8, share: f64) -> Part {
        let (text, shorter) = (render_bar(share, BAR), render_bar(share, SHORTEST_BAR));
        Part { text, shorter, is_bar: true, joint: " ", priority }
    }
}

/// The parts in a line of at most `width` cells: bars shrink, then what has the greatest priority goes, then figures are
/// written shorter.
pub fn render_parts(parts: &[Part], width: usize) -> String {
    let mut parts: Vec<&Part> = parts.iter().filter(|part| !part.text.is_empty()).collect();
    loop {
        let ways: [fn(&Part) -> bool; 2] = [|_| false, |part| part.is_bar];
        let fitting =
            ways.map(|is_short| join(&parts, is_short)).into_iter().find(|line| measure_text_width(line) <= width);
        if let Some(line) = fitting {
            return line;
        }
        let least =
            (0..parts.len()).filter(|place| parts[*place].priority > 0).max_by_key(|place| parts[*place].priority);
        match least {
            Some(least) => parts.remove(least),
            None => return shorten_middle(&join(&parts, |_| true), width, "…"),
        };
    }
}

fn join(parts: &[&Part], is_short: fn(&Part) -> bool) -> String {
    let mut line = String::new();
    for part in parts {
        let joint = if line.is_empty() { "" } else { part.joint };
        line.extend([joint, if is_short(part) { &*part.shorter } else { &*part.text }]);
    }
    line
}

fn render_bar(share: f64, cells: usize) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (cells * 8) as f64) as usize;
    let mut full = "█".repeat(eighths / 8);
    full.extend(EIGHTHS.get(eighths % 8).filter(|part| **part != ' '));
    format!("[{full:cells$}]")
}

/// `3 min 20 s`
pub fn render_duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `3 min 20 s`, of which a short line has the first half.
pub fn time_left(left: Duration) -> Part {
    let shorter = match left.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    };
    Part::figure(format!("{} left", render_duration(left)), format!("{shorter} left"))
}

/// Draws the line on standard error, as wide as its terminal is at that moment.
#[derive(Clone, Debug)]
pub struct MovingLine {
    bar: ProgressBar,
    parts: Arc<Mutex<Vec<Part>>>,
}

impl MovingLine {
    /// Shows the parts that it was given last.
    pub fn new(is_drawn: bool) -> MovingLine {
        let parts: Arc<Mutex<Vec<Part>>> = Arc::default();
        let shown = Arc::clone(&parts);
        let bar = new_bar(1, is_drawn, move |_| lock(&shown).clone());
        MovingLine { bar, parts }
    }

    /// Replaces what is shown.
    pub fn show(&self, parts: Vec<Part>) {
        *lock(&self.parts) = parts;
        self.bar.tick();
    }

    /// Prints something above it.
    pub fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Removes it.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A bar that draws what `parts` makes of its state.
pub fn new_bar(
    total: u64,
    is_drawn: bool,
    parts: impl Fn(&ProgressState) -> Vec<Part> + Clone + Send + Sync + 'static,
) -> ProgressBar {
    let target = if is_drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(total), target);
    // The template is a constant, and a test takes it.
    let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
    let line = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        // Writing to a String cannot fail.
        let _ = out.write_str(&render_parts(&parts(state), stderr_width().unwrap_or(usize::MAX)));
    };
    bar.set_style(style.with_key("line", line));
    bar
}

const TEMPLATE: &str = "{line}";

#[cfg(test)]
mod progress_tests {
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

#[cfg(test)]
mod moving_line_tests {
    use super::*;

    fn parts() -> Vec<Part> {
        vec![
            Part::text("", 2, "3 of 10"),
            Part::bar(4, 0.5),
            Part::text(" ", 1, "cat:"),
            Part::text(", ", 3, "125 MB/s from the device"),
            Part::figure("1234 tps", "1234 tps"),
            Part::figure("830 MB resident", "830 MB"),
            time_left(Duration::from_secs(200)),
        ]
    }

    #[test]
    fn the_template_is_valid() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }

    #[test]
    fn what_matters_least_goes_first() {
        let line = |width| render_parts(&parts(), width);
        assert_eq!(
            line(200),
            "3 of 10 [████████        ] cat:, 125 MB/s from the device, 1234 tps, 830 MB resident, 3 min 20 s left"
        );
        assert!(line(95).contains("[███   ]"), "{}", line(95));
        assert_eq!(line(42), "1234 tps, 830 MB resident, 3 min 20 s left");
        assert_eq!(line(41), "1234 tps, 830 MB, 4 min left");
        assert_eq!(line(20), "1234 tps, … min left");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in 5..120 {
            let line = render_parts(&parts(), width);
            assert!(measure_text_width(&line) <= width, "{width}: {line}");
            assert!(width < 28 || ["1234 tps", "830 MB", " left"].iter().all(|figure| line.contains(figure)), "{line}");
        }
    }

    #[test]
    fn bars_fill_from_left_to_right() {
        assert_eq!(
            [0.0, 0.5, 0.56, 1.0, 7.0].map(|share| render_bar(share, 4)),
            ["[    ]", "[██  ]", "[██▏ ]", "[████]", "[████]"]
        );
    }

    #[test]
    fn durations_have_two_units() {
        let text = [59, 60, 3599, 3660].map(|seconds| render_duration(Duration::from_secs(seconds)));
        assert_eq!(text, ["59 s", "1 min 0 s", "59 min 59 s", "1 h 1 min"]);
    }
}

//! Progress bar with remaining time, on standard error if that is a terminal.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use console::measure_text_width;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::printable::shorten_middle;
use super::screen::stderr_width;
use host::linux::threads::lock;
use host::units::Bytes;

/// Draws nothing without a terminal, or with `--json` or `--quiet`.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
    said: Arc<Mutex<String>>,
    /// Start time, if the bar is drawn only after `PATIENCE`.
    late: Option<Instant>,
}

const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
struct State {
    done: u64,
    total: u64,
    per_second: f64,
    /// Time left; unknown before anything is done.
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
    pub fn bytes(label: &'static str, total: Bytes, visible: bool) -> Progress {
        Progress::new(label, total.0, byte_parts, visible)
    }

    pub fn steps(label: &'static str, total: u64, visible: bool) -> Progress {
        Progress::new(label, total, step_parts, visible)
    }

    /// Drawn only if the steps take over two seconds. `reach` sets the total.
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

    pub fn advance(&self, amount: u64) {
        self.bar.inc(amount);
    }

    pub fn reach(&self, done: u64, total: u64) {
        if self.bar.is_hidden() && self.late.is_some_and(|started_at| started_at.elapsed() > PATIENCE) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    pub fn say(&self, what: impl Into<String>) {
        *lock(&self.said) = what.into();
    }

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

fn step_parts(state: State) -> Vec<Part> {
    let done = format!("{} of {}", state.done, state.total);
    let told = [Part::bar(3, state.share()), Part::figure(done.clone(), done).after(" ")];
    told.into_iter().chain(state.left.map(time_left)).collect()
}

// A line redrawn while something runs. In a narrow terminal the least important parts are dropped.

/// Widths of a bar in cells: long and short.
const BAR: usize = 16;
const SHORTEST_BAR: usize = 6;

const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    text: String,
    shorter: String,
    is_bar: bool,
    joint: &'static str,
    /// Parts with greater numbers are dropped first; 0 is never dropped.
    priority: u8,
}

impl Part {
    pub fn text(joint: &'static str, priority: u8, text: impl Into<String>) -> Part {
        let text = text.into();
        Part { shorter: text.clone(), text, is_bar: false, joint, priority }
    }

    pub fn figure(text: impl Into<String>, shorter: impl Into<String>) -> Part {
        Part { text: text.into(), shorter: shorter.into(), is_bar: false, joint: ", ", priority: 0 }
    }

    pub fn after(self, joint: &'static str) -> Part {
        Part { joint, ..self }
    }

    /// `share` is 0 to 1.
    pub fn bar(priority: u8, share: f64) -> Part {
        let (text, shorter) = (render_bar(share, BAR), render_bar(share, SHORTEST_BAR));
        Part { text, shorter, is_bar: true, joint: " ", priority }
    }
}

/// Fits `width` cells: first bars shrink, then parts are dropped by priority, then figures are shortened.
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

pub fn render_duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

pub fn time_left(left: Duration) -> Part {
    let shorter = match left.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    };
    Part::figure(format!("{} left", render_duration(left)), format!("{shorter} left"))
}

#[derive(Clone, Debug)]
pub struct MovingLine {
    bar: ProgressBar,
    parts: Arc<Mutex<Vec<Part>>>,
}

impl MovingLine {
    pub fn new(is_drawn: bool) -> MovingLine {
        let parts: Arc<Mutex<Vec<Part>>> = Arc::default();
        let shown = Arc::clone(&parts);
        let bar = new_bar(1, is_drawn, move |_| lock(&shown).clone());
        MovingLine { bar, parts }
    }

    pub fn show(&self, parts: Vec<Part>) {
        *lock(&self.parts) = parts;
        self.bar.tick();
    }

    pub fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

pub fn new_bar(
    total: u64,
    is_drawn: bool,
    parts: impl Fn(&ProgressState) -> Vec<Part> + Clone + Send + Sync + 'static,
) -> ProgressBar {
    let target = if is_drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(total), target);
    // The template is a constant under test.
    let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
    let line = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
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

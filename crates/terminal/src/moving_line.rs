//! The line that is drawn again and again while something runs. Where the terminal is too narrow for all of it, what matters
//! least goes first: throughput, what is warm and the time left stay.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use console::measure_text_width;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::printable::shorten_middle;
use super::screen::stderr_width;

/// Cells of a bar, and the fewest that it shrinks to before it goes.
const BAR: usize = 16;
const SHORTEST_BAR: usize = 6;

/// Eighths of a cell.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A piece of the line.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    what: What,
    /// What stands between it and the piece before.
    joint: &'static str,
    /// The greatest goes first; 0 stays.
    priority: u8,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    Text(String),
    /// The second text says the same in fewer cells.
    Figure(String, String),
    /// A share, 0 to 1.
    Bar(f64),
}

impl Part {
    /// What may go, the greatest `priority` first.
    pub fn text(joint: &'static str, priority: u8, text: impl Into<String>) -> Part {
        Part { what: What::Text(text.into()), joint, priority }
    }

    /// What stays, shorter if it has to be.
    pub fn figure(text: impl Into<String>, shorter: impl Into<String>) -> Part {
        Part { what: What::Figure(text.into(), shorter.into()), joint: ", ", priority: 0 }
    }

    /// This part with something else than a comma in front.
    pub fn after(self, joint: &'static str) -> Part {
        Part { joint, ..self }
    }

    /// How much is done: 0 to 1.
    pub fn bar(priority: u8, share: f64) -> Part {
        Part { what: What::Bar(share), joint: " ", priority }
    }

    fn render(&self, size: Size) -> String {
        match (&self.what, size) {
            (What::Text(text) | What::Figure(text, _), Size::Full) | (What::Text(text), _) => text.clone(),
            (What::Figure(_, shorter), Size::Short) => shorter.clone(),
            (What::Bar(share), Size::Full) => render_bar(*share, BAR),
            (What::Bar(share), Size::Short) => render_bar(*share, SHORTEST_BAR),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Size {
    Full,
    Short,
}

/// The parts in a line of at most `width` cells: bars shrink, then what has the greatest priority goes, then figures are
/// written shorter.
pub fn render_parts(parts: &[Part], width: usize) -> String {
    let mut parts: Vec<&Part> = parts.iter().filter(|part| !part.render(Size::Full).is_empty()).collect();
    let is_bar = |part: &Part| matches!(part.what, What::Bar(_));
    let full = |_: &Part| Size::Full;
    let short_bars = |part: &Part| if is_bar(part) { Size::Short } else { Size::Full };
    loop {
        for size in [&full as &dyn Fn(&Part) -> Size, &short_bars] {
            let line = join(&parts, size);
            if measure_text_width(&line) <= width {
                return line;
            }
        }
        let least =
            (0..parts.len()).filter(|place| parts[*place].priority > 0).max_by_key(|place| parts[*place].priority);
        match least {
            Some(least) => parts.remove(least),
            None => return shorten_middle(&join(&parts, &|_| Size::Short), width, "…"),
        };
    }
}

fn join(parts: &[&Part], size: &dyn Fn(&Part) -> Size) -> String {
    let mut line = String::new();
    for part in parts {
        let joint = if line.is_empty() { "" } else { part.joint };
        // Writing to a String cannot fail.
        let _ = write!(line, "{joint}{}", part.render(size(part)));
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
        let bar = new_bar(1, is_drawn, move |_| shown.lock().unwrap_or_else(PoisonError::into_inner).clone());
        MovingLine { bar, parts }
    }

    /// Replaces what is shown.
    pub fn show(&self, parts: Vec<Part>) {
        *self.parts.lock().unwrap_or_else(PoisonError::into_inner) = parts;
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
mod tests {
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

//! A sweep while it runs: what is being done, how fast the server is now, and how long the whole still takes.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use super::moving_line::{MovingLine, Part, time_left};
use super::printable::printable;
use super::tournament_live::{prepare_parts, render_tps};
use crate::study::{Event, LiveSecond, SweepTrial, SweepTrialStarted};

/// Shows events as they come. Where standard error is no terminal it prints a line per step and per trial instead.
#[derive(Debug)]
pub struct SweepDisplay {
    line: MovingLine,
    is_shown: bool,
    is_drawn: bool,
    /// What is being prepared.
    step: String,
    current: Option<(SweepTrialStarted, Instant)>,
}

impl SweepDisplay {
    pub fn new(is_shown: bool) -> SweepDisplay {
        let is_drawn = is_shown && std::io::stderr().is_terminal();
        SweepDisplay { line: MovingLine::new(is_drawn), is_shown, is_drawn, step: String::new(), current: None }
    }

    /// Shows one event.
    pub fn show(&mut self, event: &Event) {
        match event {
            Event::Step(what) => self.show_step(what),
            Event::StepShare(share) => self.line.show(prepare_parts(&self.step, *share)),
            Event::Remark(remark) => self.print(remark),
            Event::SweepTrialStarted(trial) => self.start(trial),
            Event::Second(second) => self.show_second(*second),
            Event::SweepTrialEnded(trial) => self.end(trial),
            _ => {}
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.line.finish();
    }

    fn show_step(&mut self, what: &str) {
        what.clone_into(&mut self.step);
        self.line.show(prepare_parts(what, 0.0));
        if !self.is_drawn {
            self.print(what);
        }
    }

    fn start(&mut self, trial: &SweepTrialStarted) {
        let mut parts = head_parts(trial);
        parts.extend([Part::text(": ", 4, "making its start state"), time_left(trial.left)]);
        self.line.show(parts);
        self.current = Some((trial.clone(), Instant::now()));
    }

    fn show_second(&mut self, second: LiveSecond) {
        let Some((trial, began)) = &self.current else { return };
        self.line.show(second_parts(trial, second, began.elapsed()));
    }

    fn end(&mut self, ended: &SweepTrial) {
        if let Some((trial, _)) = self.current.take() {
            self.print(&render_ended(&trial, ended));
        }
    }

    fn print(&self, line: &str) {
        if self.is_shown {
            self.line.suspend(|| super::print_remark(line));
        }
    }
}

/// `3 of 12 [██    ]  scale 10, clients 4`
fn head_parts(trial: &SweepTrialStarted) -> Vec<Part> {
    vec![
        Part::text("", 2, format!("{} of {}", trial.position, trial.trials)),
        Part::bar(5, f64::from(trial.position - 1) / f64::from(trial.trials.max(1))),
        Part::text("  ", 1, printable(&trial.label)),
    ]
}

/// `3 of 12 [██    ]  scale 10, clients 4 (repeat 2): 12 of 20 s, 1234 tps, 830 MB resident, 3 min 20 s left`
fn second_parts(trial: &SweepTrialStarted, second: LiveSecond, elapsed: Duration) -> Vec<Part> {
    let of = trial.seconds.map(|seconds| format!(" of {seconds}")).unwrap_or_default();
    let tps = render_tps(second);
    let mut parts = head_parts(trial);
    parts.extend([
        Part::text(" ", 6, format!("(repeat {})", trial.repeat)),
        Part::text(": ", 3, format!("{}{of} s", second.second)),
        Part::figure(tps.clone(), tps),
    ]);
    // Where pgbench runs on other hosts nobody counts.
    let resident = Some(second.os_resident_bytes).filter(|bytes| bytes.0 > 0);
    parts.extend(resident.map(|bytes| Part::figure(format!("{bytes} resident"), bytes.to_string())));
    parts.push(time_left(trial.left.saturating_sub(elapsed)));
    parts
}

/// `  3 of 12  scale 10, clients 4    1234 tps  p99 2.50 ms; 2 min 0 s left`
fn render_ended(trial: &SweepTrialStarted, ended: &SweepTrial) -> String {
    let position = format!("{} of {}", trial.position, trial.trials);
    let head = format!("{position:>11}  {} (repeat {})", printable(&trial.label), trial.repeat);
    if let Some(failure) = &ended.failure {
        return format!("{head}  FAILED: {}", printable(failure));
    }
    let p99 = ended.latency.as_ref().and_then(|latency| latency.percentile(0.99));
    let p99 = p99.map(|p99| format!("  p99 {:.2} ms", p99.us as f64 / 1000.0));
    let warnings = match ended.warnings.len() {
        0 => String::new(),
        1 => "  1 verdict against it".to_owned(),
        count => format!("  {count} verdicts against it"),
    };
    format!("{head}  {:.0} tps{}{warnings}", ended.tps, p99.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::moving_line::render_parts;
    use super::*;
    use crate::study::UntilWarm;
    use crate::units::Bytes;

    #[test]
    fn a_second_is_told_with_the_time_left() {
        let trial = SweepTrialStarted {
            label: "scale 10".into(),
            repeat: 2,
            position: 3,
            trials: 12,
            seconds: Some(20),
            left: Duration::from_secs(200),
        };
        let second = LiveSecond {
            second: 12,
            tps: Some(1234.4),
            device_read_bytes: Bytes(0),
            os_resident_bytes: Bytes(0),
            until_warm: UntilWarm::Unknown,
        };
        let line =
            |second: LiveSecond, width| render_parts(&second_parts(&trial, second, Duration::from_secs(20)), width);
        assert_eq!(
            line(second, usize::MAX),
            "3 of 12 [██▋             ]  scale 10 (repeat 2): 12 of 20 s, 1234 tps, 3 min 0 s left"
        );
        let warm = LiveSecond { os_resident_bytes: Bytes(830_000_000), ..second };
        for width in [30, 40, 60, 80] {
            let line = line(warm, width);
            assert!(console::measure_text_width(&line) <= width, "{line}");
            let figures = ["1234 tps", &warm.os_resident_bytes.to_string(), " left"];
            assert!(figures.iter().all(|figure| line.contains(figure)), "{width}: {line}");
        }
    }
}

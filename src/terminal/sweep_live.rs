//! A sweep while it runs: what is being done, how fast the server is now, and how long the whole still takes.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::printable::printable;
use super::tournament_live::render_duration;
use crate::bench::{Event, LiveSecond, SweepTrial, SweepTrialStarted};

const TEMPLATE: &str = "{prefix:>11} [{bar:20}] {wide_msg}";

/// Shows events as they come. Where standard error is no terminal it prints a line per step and per trial instead.
#[derive(Debug)]
pub struct SweepDisplay {
    bar: ProgressBar,
    is_shown: bool,
    is_drawn: bool,
    current: Option<(SweepTrialStarted, Instant)>,
}

impl SweepDisplay {
    pub fn new(is_shown: bool) -> SweepDisplay {
        let is_drawn = is_shown && std::io::stderr().is_terminal();
        let target = if is_drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(1000), target);
        // The template is a constant, and a test draws it.
        let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("█▌ "));
        SweepDisplay { bar, is_shown, is_drawn, current: None }
    }

    /// Shows one event.
    pub fn show(&mut self, event: &Event) {
        match event {
            Event::Step(what) => self.show_step(what),
            Event::StepShare(share) => self.bar.set_position((share * 1000.0) as u64),
            Event::Remark(remark) => self.print(remark),
            Event::SweepTrialStarted(trial) => self.start(trial),
            Event::Second(second) => self.show_second(*second),
            Event::SweepTrialEnded(trial) => self.end(trial),
            _ => {}
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn show_step(&mut self, what: &str) {
        self.bar.set_prefix("prepare");
        self.bar.set_position(0);
        self.bar.set_message(what.to_owned());
        if !self.is_drawn {
            self.print(what);
        }
    }

    fn start(&mut self, trial: &SweepTrialStarted) {
        self.bar.set_prefix(format!("{} of {}", trial.position, trial.trials));
        self.bar.set_position(u64::from(trial.position - 1) * 1000 / u64::from(trial.trials.max(1)));
        let left = render_duration(trial.left);
        self.bar.set_message(format!("{}: making its start state; {left} left", printable(&trial.label)));
        self.current = Some((trial.clone(), Instant::now()));
    }

    fn show_second(&mut self, second: LiveSecond) {
        let Some((trial, began)) = &self.current else { return };
        self.bar.set_message(render_second(trial, second, began.elapsed()));
    }

    fn end(&mut self, ended: &SweepTrial) {
        if let Some((trial, _)) = self.current.take() {
            self.print(&render_ended(&trial, ended));
        }
    }

    fn print(&self, line: &str) {
        if self.is_shown {
            self.bar.suspend(|| super::print_remark(line));
        }
    }
}

/// `scale 10, clients 4 (repeat 2): 12 of 20 s, 1234 tps; 3 min 20 s left`
fn render_second(trial: &SweepTrialStarted, second: LiveSecond, elapsed: Duration) -> String {
    let tps = second.tps.map_or("–".to_owned(), |tps| format!("{tps:.0}"));
    let of = trial.seconds.map(|seconds| format!(" of {seconds}")).unwrap_or_default();
    let left = render_duration(trial.left.saturating_sub(elapsed));
    let label = printable(&trial.label);
    format!("{label} (repeat {}): {}{of} s, {tps} tps; {left} left", trial.repeat, second.second)
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
    use super::*;
    use crate::bench::UntilWarm;
    use crate::units::Bytes;

    #[test]
    fn the_template_is_valid() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }

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
        assert_eq!(
            render_second(&trial, second, Duration::from_secs(20)),
            "scale 10 (repeat 2): 12 of 20 s, 1234 tps; 3 min 0 s left"
        );
    }
}

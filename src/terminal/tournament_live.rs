//! A tournament while it runs: what is being done, how fast the server is now, and how long the whole still takes.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use super::forecasts::render_study_forecast;
use super::moving_line::{MovingLine, Part, render_duration, time_left as left_part};
use crate::model::tell_after;
use crate::study::{Event, LiveSecond, LoadStarted, Run, Trial, TrialStarted, UntilWarm};
use crate::units::Bytes;

/// Stop, evict, start and tidy up around a trial, until the first trials show what it really takes.
const EXPECTED_OVERHEAD: Duration = Duration::from_secs(3);

/// Shows events as they come. Where standard error is no terminal it prints a line per step and per trial instead.
#[derive(Debug)]
pub struct TournamentDisplay {
    line: MovingLine,
    is_shown: bool,
    is_drawn: bool,
    /// What is being prepared.
    step: String,
    trials_began: Option<Instant>,
    current: Option<TrialStarted>,
}

impl TournamentDisplay {
    pub fn new(is_shown: bool) -> TournamentDisplay {
        let is_drawn = is_shown && std::io::stderr().is_terminal();
        let line = MovingLine::new(is_drawn);
        TournamentDisplay { line, is_shown, is_drawn, step: String::new(), trials_began: None, current: None }
    }

    /// Shows one event.
    pub fn show(&mut self, event: &Event) {
        match event {
            Event::Step(what) => self.show_step(what),
            Event::StepShare(share) => self.line.show(prepare_parts(&self.step, *share)),
            Event::Remark(remark) => self.print(remark),
            Event::Calibrated(_) => {}
            Event::RunStarted(run) => self.start_trials(run),
            Event::TrialStarted(trial) => self.current = Some(trial.clone()),
            Event::Second(second) => self.show_second(*second),
            Event::TrialEnded(trial) => self.end_trial(trial),
            Event::RunEnded(_) => {}
            Event::LoadStarted(started) => self.start_load(*started),
            Event::LoadEnded(trial) => self.print(&super::loading::render_load_ended(trial)),
            // Sweeps have a display of their own.
            Event::LoadingStarted(_)
            | Event::SweepOpened(_)
            | Event::SweepStarted(_)
            | Event::SweepTrialStarted(_)
            | Event::SweepTrialEnded(_) => {}
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

    fn start_trials(&mut self, run: &Run) {
        self.trials_began = Some(Instant::now());
        if let Some(forecast) = &run.study.forecast {
            self.print(&format!("forecast of a cold start that nothing warms: {}", render_study_forecast(forecast)));
        }
        for line in render_skipped(&run.study.skipped_strategies) {
            self.print(&line);
        }
    }

    fn show_second(&mut self, second: LiveSecond) {
        let (Some(trial), Some(began)) = (&self.current, self.trials_began) else { return };
        self.line.show(second_parts(trial, second, time_left(trial, second.second, began.elapsed())));
    }

    fn end_trial(&mut self, ended: &Trial) {
        if let Some(trial) = self.current.take() {
            self.print(&render_ended(&trial, ended));
        }
    }

    fn start_load(&mut self, started: LoadStarted) {
        let LoadStarted { loader, position, trials, left, .. } = started;
        let done = f64::from(position - 1) / f64::from(trials.max(1));
        let head =
            [Part::text("", 2, format!("{position} of {trials}")), Part::bar(3, done), Part::text("  ", 1, loader)];
        self.line.show(head.into_iter().chain(left.map(left_part)).collect());
    }

    fn print(&self, line: &str) {
        if self.is_shown {
            self.line.suspend(|| super::print_remark(line));
        }
    }
}

/// What is being prepared, and how far that is.
pub(super) fn prepare_parts(what: &str, share: f64) -> Vec<Part> {
    vec![Part::text("", 2, "prepare"), Part::bar(1, share), Part::figure(what, what).after(" ")]
}

/// `warm in about 12 s`, with what that means when the trial ends before.
fn render_until_warm(trial: &TrialStarted, second: LiveSecond) -> String {
    match second.until_warm {
        UntilWarm::Unknown => String::new(),
        UntilWarm::Warm => "warm".to_owned(),
        UntilWarm::Seconds(left) if f64::from(second.second) + left > f64::from(trial.seconds) => {
            format!("warm in about {} (after its end)", render_duration(Duration::from_secs_f64(left)))
        }
        UntilWarm::Seconds(left) => format!("warm in about {}", render_duration(Duration::from_secs_f64(left))),
    }
}

/// `3 of 10 [████  ]  cat (repeat 2): 12 of 20 s, 1234 tps, warm in about 6 s, 125 MB/s from the device, 830 MB resident,
/// 3 min 20 s left`
fn second_parts(trial: &TrialStarted, second: LiveSecond, left: Duration) -> Vec<Part> {
    let done = f64::from(trial.position - 1) + f64::from(second.second) / f64::from(trial.seconds.max(1));
    let tps = render_tps(second);
    let at_most = if trial.until_steady { "at most " } else { "" };
    let resident = second.os_resident_bytes;
    vec![
        Part::text("", 2, format!("{} of {}", trial.position, trial.trials)),
        Part::bar(5, done / f64::from(trial.trials.max(1))),
        Part::text("  ", 1, trial.strategy),
        Part::text(" ", 6, format!("(repeat {})", trial.repeat)),
        Part::text(": ", 3, format!("{} of {at_most}{} s", second.second, trial.seconds)),
        Part::figure(tps.clone(), tps),
        Part::text(", ", 4, render_until_warm(trial, second)),
        Part::text(", ", 7, format!("{} from the device", second.device_read_bytes.per_second())),
        Part::figure(format!("{resident} resident"), resident.to_string()),
        left_part(left),
    ]
}

/// `1234 tps`; before pgbench has said anything `– tps`.
pub(super) fn render_tps(second: LiveSecond) -> String {
    second.tps.map_or("– tps".to_owned(), |tps| format!("{tps:.0} tps"))
}

/// From what the trials so far took; before the first has ended, from what is expected.
fn time_left(trial: &TrialStarted, second: u32, elapsed: Duration) -> Duration {
    let ended = trial.position - 1;
    let in_trial = Duration::from_secs(second.into());
    let planned = Duration::from_secs(trial.seconds.into());
    let each = match ended {
        0 => planned + EXPECTED_OVERHEAD,
        _ => elapsed.saturating_sub(in_trial) / ended,
    };
    (each * (trial.trials - ended)).saturating_sub(in_trial) + Duration::from_secs(trial.later_seconds.into())
}

/// ` 3 of 10  cat                  warm after 11.3 s     207431 served  from a lukewarm start`
fn render_ended(trial: &TrialStarted, ended: &Trial) -> String {
    let warm = match ended.warm_after_seconds {
        Some(seconds) => format!("warm {:<11}", tell_after(seconds, &format!("{seconds:>4.1} s"))),
        None => format!("{:<16}", format!("not warm in {:>2} s", trial.seconds)),
    };
    let position = format!("{} of {}", trial.position, trial.trials);
    let mut line = format!("{position:>9}  {:<20} {warm}  {:>9} served", trial.strategy, ended.served);
    if trial.start_state.verdict != "cold" {
        // Writing to a String cannot fail.
        let _ = write!(line, "  from a {} start", trial.start_state.verdict);
    }
    if let Some(failure) = &ended.outcome.failure {
        let _ = write!(line, "  FAILED: {failure}");
    }
    line
}

/// A line per strategy that is left out, and the one command that gets everything.
fn render_skipped(skipped: &[(String, String)]) -> Vec<String> {
    let mut packages: Vec<&str> =
        skipped.iter().filter_map(|(_, how)| Some(how.split_once("apt-get install ")?.1)).collect();
    packages.sort_unstable();
    packages.dedup();
    let mut lines: Vec<String> = skipped.iter().map(|(name, how)| format!("without {name}: {how}")).collect();
    if packages.len() > 1 {
        lines.push(format!("to have them all: apt-get install {}", packages.join(" ")));
    }
    lines
}

/// What `bench warmup` says below its table: where the numbers are, and how to draw them.
pub fn render_where_kept(id: &str, store: &dyn std::fmt::Display) -> String {
    format!("kept as {id} in {store}; draw it: pgthaw report {id}")
}

/// What was left in place, for whoever asked for it.
pub fn render_kept_cluster(directory: &std::path::Path, bytes: Bytes) -> String {
    format!("the cluster ({bytes}) stays in {}", directory.display())
}

#[cfg(test)]
mod tests {
    use super::super::moving_line::render_parts;
    use super::*;
    use crate::study::StartState;

    fn trial(position: u32) -> TrialStarted {
        let start_state = StartState { os_resident_bytes: Bytes(0), total_bytes: Bytes(1), verdict: "cold".into() };
        TrialStarted {
            strategy: "cat",
            repeat: 2,
            position,
            trials: 10,
            seconds: 20,
            later_seconds: 0,
            until_steady: false,
            start_state,
        }
    }

    #[test]
    fn time_left_learns_from_the_trials_that_ended() {
        assert_eq!(time_left(&trial(1), 0, Duration::ZERO), Duration::from_secs(230));
        assert_eq!(time_left(&trial(1), 5, Duration::from_secs(6)), Duration::from_secs(225));
        // Four trials took 25 s each.
        assert_eq!(time_left(&trial(5), 10, Duration::from_secs(110)), Duration::from_secs(140));
        let with_later = TrialStarted { later_seconds: 90, ..trial(5) };
        assert_eq!(time_left(&with_later, 10, Duration::from_secs(110)), Duration::from_secs(230));
    }

    #[test]
    fn a_second_is_told_in_one_line() {
        let second = LiveSecond {
            second: 12,
            tps: Some(1234.4),
            device_read_bytes: Bytes(125_000_000),
            os_resident_bytes: Bytes(830 << 20),
            until_warm: UntilWarm::Seconds(6.2),
        };
        let resident = second.os_resident_bytes.to_string();
        let line =
            |trial: &TrialStarted, width| render_parts(&second_parts(trial, second, Duration::from_secs(200)), width);
        assert_eq!(
            line(&trial(1), usize::MAX),
            format!(
                "1 of 10 [▉               ]  cat (repeat 2): 12 of 20 s, 1234 tps, warm in about 6 s, {} from the device, \
                 {resident} resident, 3 min 20 s left",
                second.device_read_bytes.per_second()
            )
        );
        assert_eq!(
            line(&trial(1), 80),
            format!("1 of 10  cat: 12 of 20 s, 1234 tps, {resident} resident, 3 min 20 s left")
        );
        for width in [30, 40, 60, 80, 100] {
            for strategy in ["cat", "pg_prewarm-prefetch"] {
                let line = line(&TrialStarted { strategy, ..trial(1) }, width);
                assert!(console::measure_text_width(&line) <= width, "{line}");
                assert!(["1234 tps", &resident, " left"].iter().all(|figure| line.contains(figure)), "{width}: {line}");
            }
        }
        let later = LiveSecond { until_warm: UntilWarm::Seconds(90.0), ..second };
        assert_eq!(render_until_warm(&trial(1), later), "warm in about 1 min 30 s (after its end)");
    }

    #[test]
    fn one_command_gets_all_that_is_missing() {
        let skipped = |name: &str, how: &str| (name.to_owned(), how.to_owned());
        let lines = render_skipped(&[
            skipped("vmtouch", "no vmtouch in PATH: apt-get install vmtouch"),
            skipped("pgfincore", "this server has no pgfincore: apt-get install postgresql-15-pgfincore"),
        ]);
        assert_eq!(lines[2], "to have them all: apt-get install postgresql-15-pgfincore vmtouch");
        assert_eq!(render_skipped(&[skipped("x", "no y")]), ["without x: no y"]);
    }
}

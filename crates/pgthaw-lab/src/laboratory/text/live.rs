use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use super::curves::render_study_forecast;
use super::figures::render_count;
use crate::study::{
    Disk, Event, Finding, Job, LiveSecond, MeasurementVerdict, RelationResidency, ResidencyStrip, SweepTrial,
    SweepTrialStarted, Until, UntilWarm, Warming,
};
use crate::verdict::{Metric, PointSummary};
use host::units::{Bytes, counted};
use model::tell_after;
use terminal::{MovingLine, Part, printable, render_duration, stdout_width, time_left};

/// Prints a line per step and trial if standard error is not a terminal.
#[derive(Debug)]
pub struct StudyDisplay {
    line: MovingLine,
    is_shown: bool,
    is_drawn: bool,
    step: String,
    current: Option<(SweepTrialStarted, Instant)>,
}

impl StudyDisplay {
    pub fn new(is_shown: bool) -> StudyDisplay {
        let is_drawn = is_shown && std::io::stderr().is_terminal();
        StudyDisplay { line: MovingLine::new(is_drawn), is_shown, is_drawn, step: String::new(), current: None }
    }

    pub fn show(&mut self, event: &Event) {
        match event {
            Event::Step(what) => {
                what.clone_into(&mut self.step);
                self.line.show(prepare_parts(what, 0.0));
                if !self.is_drawn {
                    self.print(what);
                }
            }
            Event::StepShare(share) => self.line.show(prepare_parts(&self.step, *share)),
            Event::Remark(remark) => self.print(remark),
            Event::SweepStarted(run) => {
                if let Some(forecast) = run.warmup.as_ref().and_then(|warmup| warmup.forecast.as_ref()) {
                    let forecast = render_study_forecast(forecast);
                    self.print(&format!("forecast of a cold start without a warmer: {forecast}"));
                }
                render_left_out(&run.verdicts).iter().for_each(|line| self.print(line));
            }
            Event::SweepTrialStarted(trial) => {
                let mut parts = head_parts(trial);
                parts.extend([
                    Part::text(": ", 4, "preparing its start state"),
                    time_left(Duration::from_secs_f64(trial.left_seconds)),
                ]);
                self.line.show(parts);
                self.current = Some((trial.clone(), Instant::now()));
            }
            Event::Second(second) => {
                if let Some((trial, began)) = &self.current {
                    self.line.show(second_parts(trial, *second, began.elapsed()));
                }
            }
            Event::SweepTrialEnded(ended) => {
                if let Some((trial, _)) = self.current.take() {
                    self.print(&render_ended(&trial, ended));
                }
            }
            Event::Calibrated(_) | Event::SweepOpened { .. } => {}
        }
    }

    pub fn finish(&self) {
        self.line.finish();
    }

    fn print(&self, line: &str) {
        if self.is_shown {
            self.line.suspend(|| terminal::print_remark(line));
        }
    }
}

fn prepare_parts(what: &str, share: f64) -> Vec<Part> {
    vec![Part::text("", 2, "prepare"), Part::bar(1, share), Part::figure(what, what).after(" ")]
}

fn head_parts(trial: &SweepTrialStarted) -> Vec<Part> {
    vec![
        Part::text("", 2, format!("{} of {}", trial.position, trial.trials)),
        Part::bar(5, f64::from(trial.position - 1) / f64::from(trial.trials.max(1))),
        Part::text("  ", 1, printable(&trial.label)),
    ]
}

/// `3 of 12 [██    ]  cat (repeat 2): 12 of 20 s, 1234 tps, …, 3 min 20 s left`
fn second_parts(trial: &SweepTrialStarted, second: LiveSecond, elapsed: Duration) -> Vec<Part> {
    let at_most = if trial.until.is_some() { "at most " } else { "" };
    let of = trial.seconds.map(|seconds| format!(" of {at_most}{seconds}")).unwrap_or_default();
    let is_idle = trial.until == Some(Until::Resident);
    let tps = second.tps.map_or("– tps".to_owned(), |tps| format!("{tps:.0} tps"));
    let mut parts = head_parts(trial);
    parts.extend([Part::text("", 6, render_repeat(trial)), Part::text(": ", 3, format!("{}{of} s", second.second))]);
    if !is_idle {
        parts.extend([Part::figure(tps.clone(), tps), Part::text(", ", 4, render_until_warm(trial, second))]);
    }
    let read = Some(second.device_read_bytes).filter(|bytes| bytes.0 > 0);
    parts.extend(read.map(|read| Part::text(", ", 7, format!("{} from the device", read.per_second()))));
    let resident = Some(second.os_resident_bytes).filter(|bytes| bytes.0 > 0);
    parts.extend(resident.map(|bytes| Part::figure(format!("{bytes} resident"), bytes.to_string())));
    let left = (trial.left_seconds - elapsed.as_secs_f64()).max(0.0);
    parts.push(time_left(Duration::from_secs_f64(left)));
    parts
}

fn render_until_warm(trial: &SweepTrialStarted, second: LiveSecond) -> String {
    let in_about = |left: f64| format!("warm in about {}", render_duration(Duration::from_secs_f64(left)));
    let ends_before = |left: f64| trial.seconds.is_some_and(|seconds| f64::from(second.second) + left > seconds.into());
    match second.until_warm {
        UntilWarm::Unknown => String::new(),
        UntilWarm::Warm => "warm".to_owned(),
        UntilWarm::Seconds(left) if ends_before(left) => format!("{} (after the trial)", in_about(left)),
        UntilWarm::Seconds(left) => in_about(left),
    }
}

fn render_repeat(trial: &SweepTrialStarted) -> String {
    if trial.repeats > 1 { format!(" (repeat {})", trial.repeat) } else { String::new() }
}

/// `  3 of 12  scale 10, clients 4 (repeat 2)  1234 tps  p99 2.50 ms`
fn render_ended(trial: &SweepTrialStarted, ended: &SweepTrial) -> String {
    let position = format!("{} of {}", trial.position, trial.trials);
    let head = format!("{position:>8}  {}{}", printable(&trial.label), render_repeat(trial));
    if let Some(failure) = &ended.failure {
        return format!("{head}  FAILED: {}", printable(failure));
    }
    if let Some(warming) = &ended.warming {
        // Width of the position, the longest strategy name and the repeat.
        let width = if trial.repeats > 1 { 40 } else { 29 };
        return format!("{head:<width$}  {}", render_warmed(ended, warming));
    }
    let p99 = ended.latency.as_ref().and_then(|latency| latency.percentile(0.99));
    let p99 = p99.map(|p99| format!("  p99 {:.2} ms", p99.us as f64 / 1000.0));
    let warnings = match ended.warnings.len() {
        0 => String::new(),
        count => format!("  {}", counted(count, "verdict")),
    };
    format!("{head}  {:.0} tps{}{warnings}", ended.tps, p99.unwrap_or_default())
}

/// `warm after 11.3 s   207 k served  lukewarm start`, `resident after 2.31 s, shared_buffers back after 3.00 s`
fn render_warmed(ended: &SweepTrial, warming: &Warming) -> String {
    let found = ended.start_state.as_ref().map(|start| start.verdict.as_str()).filter(|verdict| *verdict != "cold");
    let start = found.map(|verdict| format!("  {verdict} start")).unwrap_or_default();
    let failure = ended.strategy_outcome.as_ref().and_then(|outcome| outcome.failure.as_ref());
    let failure = failure.map(|failure| format!("  FAILED: {}", printable(failure))).unwrap_or_default();
    if let Some(brought) = &warming.figures.brought {
        let resident = match (brought.resident_after_seconds, brought.own_seconds) {
            (Some(seconds), _) => format!("resident after {seconds:.2} s"),
            (None, Some(seconds)) => format!("took {seconds:.2} s by its own report"),
            (None, None) => format!("{} became resident", brought.resident_bytes),
        };
        let back = brought.buffers_after_seconds.map(|seconds| format!(", shared_buffers back after {seconds:.2} s"));
        return format!("{resident}{}{start}{failure}", back.unwrap_or_default());
    }
    if let Some(job) = warming.figures.job.filter(Job::is_without_curve) {
        let before = job.whole_seconds - job.load_seconds;
        let before = if before > 0.0 { format!(", {before:.2} s of it before the load began") } else { String::new() };
        return format!("done after {:.2} s{before}{start}{failure}", job.whole_seconds);
    }
    let warm = match warming.figures.warm_after_seconds {
        Some(seconds) => format!("warm {:<11}", tell_after(seconds, &format!("{seconds:>4.1} s"))),
        None => format!("{:<16}", format!("not warm in {:>2} s", warming.figures.measured_seconds)),
    };
    let served: u64 = ended.samples.iter().map(|sample| sample.transactions).sum();
    format!("{warm} {:>6} served{start}{failure}", render_count(served as f64))
}

fn render_left_out(verdicts: &[MeasurementVerdict]) -> Vec<String> {
    let left_out: Vec<&MeasurementVerdict> =
        verdicts.iter().filter(|one| matches!(one.finding, Finding::StrategyLeftOut { .. })).collect();
    let commands = left_out.iter().filter_map(|one| one.remedy.split_once("apt-get install "));
    let packages: BTreeSet<&str> = commands.map(|(_, package)| package.trim_end_matches('`')).collect();
    let mut lines: Vec<String> = left_out.iter().map(|one| one.text()).collect();
    if packages.len() > 1 {
        lines.push(format!("to install them all: `apt-get install {}`", Vec::from_iter(packages).join(" ")));
    }
    lines
}

const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Maximum width of a relation's residency strip, and width of the rest of its line.
const STRIP_CHARACTERS: usize = 32;
const BESIDE_STRIPS: usize = "    shared_buffers  []  []".len();

const RELATIONS: usize = 4;

pub fn render_demo_plan(scale: u32, database: Bytes, disk: &Disk) -> String {
    let disk = super::sweep::render_disk(disk);
    format!(
        "pgthaw creates a scratch PostgreSQL with a database of scale {scale} ({database}) on the disk {disk}.\n\
         Each strategy starts from the same verified cold state, while pgbench runs against the server. In the first \
         act, the load reads everything; in the second act, 99 % of the transactions read the newest tenth of the rows.\n\
         Ctrl-C stops the demo at any time and cleans up."
    )
}

pub fn render_served(title: &str, points: &[PointSummary]) -> String {
    let mut served: Vec<(&str, f64)> =
        points.iter().filter_map(|one| Some((one.label.as_str(), one.median(Metric::Served)?))).collect();
    served.sort_by(|one, other| other.1.total_cmp(&one.1));
    let served: Vec<String> = served.iter().map(|(name, count)| format!("{name} {}", render_count(*count))).collect();
    format!("transactions served, {title}: {}", served.join(", "))
}

pub fn render_before_and_after(trial: &SweepTrial) -> String {
    let room = stdout_width().map_or(STRIP_CHARACTERS, |width| width.saturating_sub(BESIDE_STRIPS) / 2);
    let mut text = format!("in memory before and after {}:", trial.point.strategy);
    for one in trial.warming.iter().flat_map(|warming| &warming.residency).take(RELATIONS) {
        let _ = write!(text, "\n{}", render_relation(one, room.clamp(1, STRIP_CHARACTERS)));
    }
    text
}

fn render_relation(one: &RelationResidency, characters: usize) -> String {
    let tier = |name: &str, of: fn(&ResidencyStrip) -> &Vec<f32>| {
        let [before, after] = [&one.before, &one.after].map(|strip| render_strip(of(strip), characters));
        format!("    {name:14}  [{before}]  [{after}]")
    };
    let os = tier("page cache", |strip| &strip.os);
    let buffers = tier("shared_buffers", |strip| &strip.buffers);
    format!("  {}, {}\n{os}\n{buffers}", one.relation, one.total_bytes)
}

/// Bars of the shares in memory: blank only at 0 %, full only from 99.9 %.
fn render_strip(shares: &[f32], characters: usize) -> String {
    let each = shares.len().div_ceil(characters).max(1);
    shares.chunks(each).map(|chunk| LEVELS[level(chunk.iter().sum::<f32>() / chunk.len() as f32)]).collect()
}

fn level(share: f32) -> usize {
    match share {
        empty if empty <= 0.0 => 0,
        full if full >= 0.999 => 8,
        partly => ((partly * 8.0).round() as usize).clamp(1, 7),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::units::Bytes;
    use terminal::render_parts;

    fn started() -> SweepTrialStarted {
        SweepTrialStarted {
            label: "cat".into(),
            repeat: 2,
            repeats: 3,
            position: 3,
            trials: 12,
            seconds: Some(20),
            until: None,
            left_seconds: 220.0,
        }
    }

    #[test]
    fn a_second_is_told_in_one_line_with_the_time_left() {
        let bare = LiveSecond {
            second: 12,
            tps: Some(1234.4),
            device_read_bytes: Bytes(0),
            os_resident_bytes: Bytes(0),
            until_warm: UntilWarm::Unknown,
        };
        let line = |trial: &SweepTrialStarted, second: LiveSecond, width| {
            render_parts(&second_parts(trial, second, Duration::from_secs(20)), width)
        };
        let trial = started();
        assert_eq!(
            line(&trial, bare, usize::MAX),
            "3 of 12 [██▋             ]  cat (repeat 2): 12 of 20 s, 1234 tps, 3 min 20 s left"
        );
        let second = LiveSecond {
            device_read_bytes: Bytes(125_000_000),
            os_resident_bytes: Bytes(830 << 20),
            until_warm: UntilWarm::Seconds(6.2),
            ..bare
        };
        let (read, resident) = (second.device_read_bytes.per_second(), second.os_resident_bytes.to_string());
        let steady = SweepTrialStarted { until: Some(Until::Steady), ..started() };
        assert_eq!(
            line(&steady, second, usize::MAX),
            format!(
                "3 of 12 [██▋             ]  cat (repeat 2): 12 of at most 20 s, 1234 tps, warm in about 6 s, {read} from \
                 the device, {resident} resident, 3 min 20 s left"
            )
        );
        for width in [30, 40, 60, 80, 100] {
            for label in ["cat", "pg_prewarm-prefetch"] {
                let line = line(&SweepTrialStarted { label: label.into(), ..started() }, second, width);
                assert!(console::measure_text_width(&line) <= width, "{line}");
                assert!(["1234 tps", &resident, " left"].iter().all(|figure| line.contains(figure)), "{width}: {line}");
            }
        }
        let later = LiveSecond { until_warm: UntilWarm::Seconds(90.0), ..second };
        assert_eq!(render_until_warm(&trial, later), "warm in about 1 min 30 s (after the trial)");
    }

    #[test]
    fn a_trial_that_ended_has_one_line_of_a_terminal() {
        use crate::study::WarmingFigures;
        use crate::study::record::tests::trial;
        let mut ended = trial();
        ended.warming = Some(Warming {
            figures: WarmingFigures { measured_seconds: 20, warm_after_seconds: Some(13.25), ..Default::default() },
            ..Warming::default()
        });
        for repeats in [1, 3] {
            let trial = SweepTrialStarted { label: "pg_prewarm-prefetch".into(), repeats, ..started() };
            let line = render_ended(&trial, &ended);
            assert!(console::measure_text_width(&line) <= 80, "{line}");
            assert_eq!(line.contains("(repeat 2)"), repeats > 1, "{line}");
        }
    }

    #[test]
    fn one_command_gets_all_that_is_missing() {
        let left_out = |strategy: &str, remedy: &str| {
            let (strategy, remedy) = (strategy.to_owned(), remedy.to_owned());
            MeasurementVerdict::from(Finding::StrategyLeftOut { strategy, how: remedy })
        };
        let lines = render_left_out(&[
            left_out("vmtouch", "no vmtouch in PATH: apt-get install vmtouch"),
            Finding::OneRepeat.into(),
            left_out("pgfincore", "this server has no pgfincore: apt-get install postgresql-15-pgfincore"),
        ]);
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2], "to install them all: `apt-get install postgresql-15-pgfincore vmtouch`");
        assert_eq!(render_left_out(&[left_out("x", "no y")]), ["skipped x: no y"]);
    }
}

#[cfg(test)]
mod demo_tests {
    use super::*;

    #[test]
    fn a_strip_is_honest_at_its_ends() {
        assert_eq!(render_strip(&[0.0, 0.0, 1.0, 1.0], 32), "  ██");
        assert_eq!(render_strip(&[0.001, 0.99], 32), "▁▇");
        assert_eq!(render_strip(&[0.5; 64], 32), "▄".repeat(32));
        assert_eq!(render_strip(&[], 32), "");
    }

    #[test]
    fn relations_have_a_strip_per_tier() {
        let strip = |share: f32| ResidencyStrip { os: vec![share; 64], buffers: vec![0.0; 64] };
        let relation = RelationResidency {
            course: None,
            relation: "public.pgbench_accounts".into(),
            kind: "table".into(),
            total_bytes: Bytes(640 << 20),
            before: strip(0.0),
            after: strip(1.0),
        };
        let size = relation.total_bytes;
        let (cold, warm) = (" ".repeat(32), "█".repeat(32));
        assert_eq!(
            render_relation(&relation, 32),
            format!(
                "  public.pgbench_accounts, {size}\n    page cache      [{cold}]  [{warm}]\n    shared_buffers  [{cold}]  [{cold}]"
            )
        );
        let narrow = render_relation(&relation, (80 - BESIDE_STRIPS) / 2);
        assert!(narrow.lines().all(|line| console::measure_text_width(line) <= 80), "{narrow}");
    }
}

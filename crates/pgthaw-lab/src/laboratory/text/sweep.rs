use std::time::Duration;

use super::figures::figure_columns;
use super::told;
use super::warmers::{render_ratios, render_traffic, render_trial_verdicts, render_warm_legend};
use crate::report::StudyData;
use crate::study::{DatabaseMaking, Disk, Machine, NOTHING, PlannedPoint, SweepPlan, SweepRun};
use crate::verdict::{
    CellComparison, Metric, Noise, NoiseCell, PointSummary, PointVerdict, SweepComparison, render_ratio,
};
use host::units::{Bytes, counted};
use terminal::{Canvas, Column, printable, render_columns, render_duration};

/// Maximum number of table lines; `--json` has all.
const LINES_MAX: usize = 60;

pub fn render_sweep_plan(plan: &SweepPlan, width: Option<usize>) -> String {
    let shown = &plan.points[..plan.points.len().min(LINES_MAX)];
    let cells = |cell: &dyn Fn(&PlannedPoint) -> String| shown.iter().map(cell).collect::<Vec<_>>();
    let warm = |point: &PlannedPoint| point.warm_after_seconds.map(render_seconds).unwrap_or_default();
    let columns = vec![
        Column::number("point", 0, cells(&|point| point.number.to_string())),
        Column::text("what", 20, cells(&|point| told(&point.label))),
        Column::number("a trial", 0, cells(&|point| render_seconds(point.expected_seconds))),
        Column::number("warm by the model", 1, cells(&warm)),
    ];
    let mut lines = Vec::new();
    if !plan.question.is_empty() {
        lines.extend([told(&plan.question), String::new()]);
    }
    lines.extend(render_columns(columns, width, "…"));
    if shown.len() < plan.points.len() {
        lines.push(format!("… {} more: --json", counted(plan.points.len() - shown.len(), "point")));
    }
    let order: Vec<String> = plan.order.iter().take(LINES_MAX).map(u32::to_string).collect();
    let more = if plan.order.len() > LINES_MAX { " …" } else { "" };
    let order = match plan.seed {
        Some(seed) => format!("{}{more} (seed {seed}; every point once in each repeat)", order.join(" ")),
        None => "random, every point once in each repeat (the run chooses a seed)".to_owned(),
    };
    let (points, repeats) = (counted(plan.points.len(), "point"), counted(plan.repeats, "repeat"));
    let (trials, takes) = (plan.points.len() as u64 * u64::from(plan.repeats), render_seconds(plan.expected_seconds));
    let SweepPlan { database_bytes, needed_bytes, free_bytes, .. } = plan;
    lines.extend([
        String::new(),
        format!("order     {order}"),
        format!("trials    {points} × {repeats} = {trials}, about {takes}"),
        format!("disk      {database_bytes} of databases, {needed_bytes} needed with the WAL, {free_bytes} free"),
    ]);
    if !plan.hosts.is_empty() {
        lines.push(format!("hosts     {}: each runs its share of the load", told(&plan.hosts.join(", "))));
    }
    if needed_bytes > free_bytes {
        lines.push("          NOT ENOUGH: choose smaller scales, or another directory with --dir".to_owned());
    }
    lines.extend(plan.remarks.iter().map(|remark| format!("warning   {}", told(remark))));
    lines.join("\n")
}

pub fn render_sweep_head(study: &StudyData) -> String {
    let (run, trials) = (&study.sweep, study.trials.len());
    let took = study.total_seconds.map(|seconds| format!(", {} in all", render_seconds(seconds))).unwrap_or_default();
    let planned = counted(run.points.saturating_mul(run.repeats), "trial");
    let state = match run.ended_at {
        // A complete study may have fewer trials than planned: a warmer that cannot run has none.
        Some(_) => format!("{}{took}", counted(trials, "trial")),
        None => format!("{trials} of {planned}{took}: the same `pgthaw bench` command resumes the study"),
    };
    let Machine { hostname, cores, cpu_model, memory_bytes, kernel, .. } = &run.machine;
    let mut lines = vec![
        format!("sweep    {}, {} UTC, {state}", run.id, run.started_at.strftime("%Y-%m-%d %H:%M:%S")),
        format!("machine  {hostname}, {cores} × {cpu_model}, {memory_bytes} memory, Linux {kernel}"),
        format!("server   PostgreSQL {}; {}", run.server.version, run.pgbench_version),
        format!("study    {} × {}, seed {}", counted(run.points, "point"), counted(run.repeats, "repeat"), run.seed),
    ];
    lines.extend(render_warmup(run));
    lines.extend(study.remarks.iter().map(|warning| format!("warning  {warning}")));
    lines.extend(render_makings(&run.databases));
    if !study.subject.is_empty() {
        lines.insert(0, format!("{}\n", told(&study.subject)));
    }
    let head = if run.verdicts.is_empty() { "warning" } else { "verdict" };
    lines.extend(run.warnings.iter().map(|warning| format!("{head}  {}", told(warning))));
    lines.join("\n")
}

fn render_warmup(run: &SweepRun) -> Vec<String> {
    let (Some(found), Some(axes)) = (&run.warmup, run.axes()) else { return Vec::new() };
    let point = axes.point(0);
    let (script, clients) = (told(&point.script_name()), counted(point.clients, "client"));
    let seconds = point.seconds.unwrap_or_default();
    let until = if run.study["until"] == "steady" { "until steady, at most " } else { "" };
    let mut lines = vec![
        format!(
            "load     scale {} ({}), {script} ({}) with {clients}, {until}{seconds} s",
            point.scale, found.database_bytes, point.query_mode
        ),
        format!("disk     {}", render_disk(&found.disk)),
    ];
    let memory = run.study["memory"].as_u64().map(Bytes);
    lines.extend(memory.map(|memory| format!("memory   the server may use at most {memory} in every trial")));
    let forecast = found.forecast.as_ref().map(super::curves::render_study_forecast);
    lines.extend(forecast.map(|forecast| format!("forecast {NOTHING}: {forecast}")));
    lines
}

pub fn render_disk(disk: &Disk) -> String {
    let reads = disk.riops.map(|riops| format!("{riops} reads/s"));
    let bandwidth = disk.rbps.map(Bytes::per_second);
    let limits: Vec<String> = reads.into_iter().chain(bandwidth).collect();
    let limits = if limits.is_empty() { "no limit".to_owned() } else { limits.join(", ") };
    let limits = match &disk.not_enforced {
        Some(why) => format!("{} ({limits}) is NOT in force: {why}", disk.name),
        None => format!("{}: {limits}", disk.name),
    };
    let Some(read_ahead) = disk.read_ahead.map(|bytes| format!("read-ahead {bytes}")) else {
        return limits;
    };
    match &disk.read_ahead_not_enforced {
        Some(why) => format!("{limits}; {read_ahead} is NOT in force: {why}"),
        None => format!("{limits}, {read_ahead}"),
    }
}

pub fn render_sweep_line(run: &SweepRun, trials: usize, headline: &str) -> String {
    let when = run.started_at.strftime("%Y-%m-%d %H:%M");
    let what = if run.varied.is_empty() { "one point".to_owned() } else { run.varied.join(" × ") };
    let trials = match run.ended_at {
        Some(_) => counted(trials, "trial"),
        None => format!("{trials} of {}", counted(run.points.saturating_mul(run.repeats), "trial")),
    };
    let subject = Some(run.subject()).filter(|subject| !subject.is_empty());
    let subject = subject.map(|subject| format!("  {}", told(&subject))).unwrap_or_default();
    format!("{}  {when}  {}  {trials}{subject}\n  {}", run.id, told(&what), told(headline))
}

pub fn render_sweep_points(study: &StudyData, canvas: Canvas) -> String {
    let StudyData { sweep: run, points, .. } = study;
    let is_of_warmers = run.compares_warmers() && points.iter().any(|point| point.figure(Metric::WarmAfter).is_some());
    let cells = |cell: &dyn Fn(&PointSummary) -> String| points.iter().map(cell).collect::<Vec<_>>();
    let mut columns: Vec<Column> = Vec::new();
    for (place, axis) in run.varied.iter().enumerate() {
        let values = cells(&|point| point.values.get(place).map(|value| told(value)).unwrap_or_default());
        columns.push(Column::text(told(axis), 8, values));
    }
    if columns.is_empty() {
        columns.push(Column::text("point", 8, cells(&|point| told(&point.label))));
    }
    columns.extend(figure_columns(points, is_of_warmers));
    if points.is_empty() {
        return "No trial has ended yet.".to_owned();
    }
    let mut lines = vec![told(&study.headline), String::new()];
    lines.extend(render_columns(columns, canvas.width, "…"));
    lines.extend(is_of_warmers.then(|| render_warm_legend(points)));
    lines.extend(render_ratios(&study.ratios, canvas.width));
    lines.extend(render_traffic(&study.traffic, canvas.width));
    if is_of_warmers {
        lines.extend(render_trial_verdicts(points, &study.trials));
    }
    lines.push(String::new());
    let common = find_common(points);
    let is_new = |verdict: &&PointVerdict| !run.verdicts.iter().any(|told| told.sentence == verdict.sentence);
    let render = |of: &str, PointVerdict { trials, sentence, remedy, .. }: &PointVerdict, all: u32| {
        format!("verdict  {} ({trials} of {all}): {}: {}", told(of), told(sentence), told(remedy))
    };
    let all = points.iter().map(|point| point.trials).sum();
    lines.extend(common.iter().filter(is_new).map(|verdict| render("every point", verdict, all)));
    let is_told = |verdict: &PointVerdict| common.iter().any(|one| is_alike(one, verdict));
    for point in points {
        let own = point.verdicts.iter().filter(is_new).filter(|verdict| !is_told(verdict));
        lines.extend(own.map(|verdict| render(&point.label, verdict, point.trials)));
        let warning = |(warning, trials): (&String, &u32)| {
            format!("warning  {} ({trials} of {}): {}", told(&point.label), point.trials, told(warning))
        };
        lines.extend(point.warnings.iter().map(warning));
    }
    lines.join("\n")
}

fn find_common(points: &[PointSummary]) -> Vec<PointVerdict> {
    let [first, others @ ..] = points else { return Vec::new() };
    let told = first.verdicts.iter().filter(|_| !others.is_empty()).filter_map(|verdict| {
        let of = |point: &PointSummary| point.verdicts.iter().find(|one| is_alike(one, verdict)).map(|one| one.trials);
        let trials: Option<u32> = points.iter().map(of).sum();
        Some(PointVerdict { trials: trials?, ..verdict.clone() })
    });
    told.collect()
}

fn is_alike(one: &PointVerdict, other: &PointVerdict) -> bool {
    (&one.sentence, &one.remedy) == (&other.sentence, &other.remedy)
}

fn render_seconds(seconds: f64) -> String {
    render_duration(Duration::from_secs_f64(seconds.clamp(0.0, 1e9)))
}

const SHOWN_MAX: usize = 10;

/// `made     scale 10 in 3.2 s: client-side generate 2.1 s, …`.
pub fn render_makings(all: &[DatabaseMaking]) -> Vec<String> {
    let mut lines: Vec<String> = all.iter().take(SHOWN_MAX).map(|one| render_making(one, all)).collect();
    if all.len() > SHOWN_MAX {
        lines.push(format!("made     … {} more: --json", all.len() - SHOWN_MAX));
    }
    lines
}

type Part = fn(&DatabaseMaking) -> &str;

fn render_making(making: &DatabaseMaking, all: &[DatabaseMaking]) -> String {
    let differ = |of: Part| all.iter().any(|one| of(one) != of(making));
    let mut name = format!("scale {}", making.scale);
    let parts: [(&str, Part); 3] =
        [("database", |one| &one.database), ("file system", |one| &one.file_system), ("server", |one| &one.server)];
    for (word, of) in parts {
        if differ(of) {
            name.push_str(&format!(", {word} {}", printable(of(making))));
        }
    }
    let steps: Vec<String> =
        making.steps.iter().map(|step| format!("{} {:.2} s", printable(&step.step), step.seconds)).collect();
    let steps = if steps.is_empty() { String::new() } else { format!(": {}", steps.join(", ")) };
    format!("made     {name} in {:.2} s{steps}", making.seconds)
}

pub fn render_sweep_comparison(comparison: &SweepComparison, width: Option<usize>) -> String {
    let cells = |cell: &dyn Fn(&CellComparison) -> String| comparison.cells.iter().map(cell).collect::<Vec<_>>();
    let cycles = |cell: &CellComparison| if cell.cycles == 0 { String::new() } else { cell.cycles.to_string() };
    let columns = vec![
        Column::text("where", 12, cells(&|cell| render_label(&cell.label))),
        Column::number("B ÷ A", 0, cells(&|cell| render_ratio(&cell.ratio).0)),
        Column::number("interval", 0, cells(&|cell| render_ratio(&cell.ratio).1.unwrap_or_default())),
        Column::number("holds in", 3, cells(&|cell| format!("{:.0} %", 100.0 * cell.ratio.coverage))),
        Column::number("p", 2, cells(&|cell| format!("{:.3}", cell.p))),
        Column::number("p (Holm)", 0, cells(&|cell| format!("{:.3}", cell.p_holm))),
        Column::number("detectable", 1, cells(&|cell| render_change(cell.smallest_detectable))),
        Column::number("pairs", 0, cells(&|cell| cell.ratio.pairs.to_string())),
        Column::number("cycles", 4, cells(&cycles)),
    ];
    let mut lines = vec![
        format!("{} of B against A", comparison.metric.name()),
        format!("A  {}", printable(&comparison.a)),
        format!("B  {}", printable(&comparison.b)),
        String::new(),
    ];
    lines.extend(render_columns(columns, width, "…"));
    let floor = comparison.noise_floor.map(|floor| render_change(Some(floor)));
    lines.extend(floor.map(|floor| format!("noise floor of the sweep: {floor}")));
    lines.extend(comparison.warnings.iter().map(|warning| format!("verdict  {warning}")));
    lines.join("\n")
}

pub fn render_noise(sweep: &str, noises: &[Noise], width: Option<usize>) -> String {
    let rows: Vec<(&Noise, &NoiseCell)> =
        noises.iter().flat_map(|noise| noise.cells.iter().map(move |cell| (noise, cell))).collect();
    let cells = |cell: &dyn Fn(&NoiseCell) -> String| rows.iter().map(|(_, row)| cell(row)).collect::<Vec<_>>();
    // Percentage of simulated studies of eight pairs that report a difference although none exists.
    let alarms = |cell: &NoiseCell| cell.false_share.map(|share| format!("{:.1} %", 100.0 * share)).unwrap_or_default();
    let columns = vec![
        Column::word("of", 0, rows.iter().map(|(noise, _)| noise.metric.name().to_owned()).collect()),
        Column::text("where", 12, cells(&|cell| render_label(&cell.label))),
        Column::number("A' ÷ A", 0, cells(&|cell| render_ratio(&cell.ratio).0)),
        Column::number("interval", 2, cells(&|cell| render_ratio(&cell.ratio).1.unwrap_or_default())),
        Column::number("p", 0, cells(&|cell| format!("{:.3}", cell.p))),
        Column::number("noise floor", 0, cells(&|cell| render_change(cell.floor))),
        Column::number("detectable", 1, cells(&|cell| render_change(cell.smallest_detectable))),
        Column::number("false alarms", 3, cells(&alarms)),
        Column::number("pairs", 0, cells(&|cell| cell.ratio.pairs.to_string())),
    ];
    let mut lines = vec![format!("A' against A (two measurements of each point) in {sweep}"), String::new()];
    lines.extend(render_columns(columns, width, "…"));
    lines.join("\n")
}

fn render_label(label: &str) -> String {
    if label.is_empty() { "the whole".to_owned() } else { printable(label).into_owned() }
}

/// Larger ratios are shown as `> 10 ×`: they come from too few pairs to be meaningful.
const TOLD_RATIO: f64 = 10.0;

/// Renders 1.031, a change in either direction, as `± 3.1 %`.
fn render_change(ratio: Option<f64>) -> String {
    let told = |ratio: f64| match ratio {
        ..TOLD_RATIO => format!("± {:.1} %", 100.0 * (ratio - 1.0)),
        _ => "> 10 ×".to_owned(),
    };
    ratio.map(told).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::record;
    use crate::verdict::ServedSeconds;

    #[test]
    fn a_sweep_without_a_trial_has_no_table() {
        let run = SweepRun { varied: vec!["places".to_owned()], ..record::tests::run() };
        let canvas = Canvas { width: None, ..Canvas::of_stdout(true) };
        let study = StudyData::new(run, Vec::new(), Vec::new(), &ServedSeconds::new());
        assert!(render_sweep_points(&study, canvas).starts_with("No trial has ended"));
    }

    #[test]
    fn what_every_point_would_say_is_said_once() {
        let verdict = |sentence: &str, trials| PointVerdict {
            kind: "short_run",
            trials,
            sentence: sentence.to_owned(),
            remedy: String::new(),
            is_refusing: false,
        };
        let point = |verdicts: &[PointVerdict]| PointSummary { verdicts: verdicts.to_vec(), ..PointSummary::default() };
        let points = [point(&[verdict("short", 3), verdict("own", 1)]), point(&[verdict("short", 2)])];
        assert_eq!(find_common(&points), [verdict("short", 5)]);
        assert!(find_common(&points[..1]).is_empty() && find_common(&[]).is_empty());
    }
}

#[cfg(test)]
mod making_tests {
    use super::*;
    use crate::study::MakingStep;

    fn making(scale: u32, server: &str) -> DatabaseMaking {
        DatabaseMaking {
            database: "default".into(),
            scale,
            file_system: "native".into(),
            server: server.into(),
            seconds: 3.456,
            steps: vec![MakingStep { step: "vacuum".into(), seconds: 0.1 }],
        }
    }

    #[test]
    fn databases_are_named_by_what_they_differ_in() {
        assert_eq!(render_makings(&[making(10, "default")]), ["made     scale 10 in 3.46 s: vacuum 0.10 s"]);
        let two = render_makings(&[making(10, "15"), making(10, "17")]);
        assert_eq!(two[1], "made     scale 10, server 17 in 3.46 s: vacuum 0.10 s");
        let many: Vec<DatabaseMaking> = (1..=12).map(|scale| making(scale, "15")).collect();
        assert_eq!(render_makings(&many).last().unwrap(), "made     … 2 more: --json");
    }
}

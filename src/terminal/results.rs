//! What earlier runs measured: the list of runs, and the head of one.

use comfy_table::{ColumnConstraint, ContentArrangement, Table};
use console::measure_text_width;
use jiff::Timestamp;

use super::making::render_makings;
use super::screen::Canvas;
use super::tournament::STYLE;
use crate::postgres::ServerFacts;
use crate::study::{Disk, Machine, NOTHING, Run};
use crate::units::{Bytes, counted};

/// A run in the list, with what its trials say.
#[derive(Debug)]
pub struct RunLine<'a> {
    pub run: &'a Run,
    pub trials: usize,
    pub headline: String,
}

/// The runs, one per row. Where the terminal is narrow, what the name of a run or `results show` tells too is left out,
/// and the sentence at the end takes more lines.
pub fn render_runs(lines: &[RunLine<'_>], canvas: Canvas) -> String {
    let all = RUN_COLUMNS.len();
    let kept = |priority: u8| RUN_COLUMNS.iter().filter(move |column| column.2 <= priority);
    let needed = |priority: u8| {
        let width = |column: &&RunColumn| {
            let cells = lines.iter().map(|line| measure_text_width(&column.1(line)));
            cells.chain([column.0.len()]).max().unwrap_or(0) + PADDING
        };
        kept(priority).map(|column| width(&column)).sum::<usize>() + SHORTEST_SENTENCE + PADDING
    };
    let fits = |priority: &u8| canvas.width.is_none_or(|width| needed(*priority) <= width);
    let priority = (0..=all as u8).rev().find(fits).unwrap_or(0);

    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = canvas.width {
        table.set_width(width.try_into().unwrap_or(u16::MAX));
    }
    table.set_header(kept(priority).map(|column| column.0).chain(["what it showed"]));
    for line in lines {
        table.add_row(kept(priority).map(|column| column.1(line)).chain([line.headline.clone()]));
    }
    // Only the sentence at the end gives way.
    table.set_constraints(kept(priority).map(|_| ColumnConstraint::ContentWidth));
    table.trim_fmt()
}

/// A title, a cell, and a number: the columns with the greatest are left out first, those with 0 never.
type RunColumn = (&'static str, fn(&RunLine<'_>) -> String, u8);

const RUN_COLUMNS: [RunColumn; 6] = [
    ("run", |line| line.run.id.clone(), 0),
    // The name begins with it.
    ("when (UTC)", |line| line.run.started_at.strftime("%Y-%m-%d %H:%M").to_string(), 4),
    ("scale", |line| line.run.study.scale.to_string(), 1),
    ("disk", |line| line.run.study.disk.name.clone(), 1),
    ("strategies", |line| line.run.study.strategies.len().to_string(), 3),
    ("trials", render_trials, 2),
];

/// Left and right of every cell.
const PADDING: usize = 2;

/// The least width of the sentence.
const SHORTEST_SENTENCE: usize = 28;

fn render_trials(line: &RunLine<'_>) -> String {
    let study = &line.run.study;
    let planned = study.strategies.len() * study.repeats as usize;
    if line.trials == planned { planned.to_string() } else { format!("{} of {planned}", line.trials) }
}

/// What a run was: machine, server, study, disk, and what it says against itself.
pub fn render_run_head(run: &Run) -> String {
    let study = &run.study;
    let [machine, server] = render_place(&run.machine, &run.server);
    let mut lines = vec![
        render_when(&run.id, run.started_at, run.ended_at),
        machine,
        server,
        format!(
            "study    {}scale {} ({}), {}{} with {}, {}{} s × {}, seed {}",
            study.title.as_ref().map(|title| format!("{title}: ")).unwrap_or_default(),
            study.scale,
            study.database_bytes,
            study.script,
            study.query_mode.map(|mode| format!(" ({mode})")).unwrap_or_default(),
            counted(study.clients as usize, "client"),
            if study.until_steady { "until steady, at most " } else { "" },
            study.seconds,
            counted(study.repeats as usize, "repeat"),
            study.seed
        ),
        format!("disk     {}", render_disk(&study.disk)),
    ];
    lines.extend(study.memory.map(|memory| format!("memory   {memory} of the server in its trials")));
    lines.extend(render_makings(&run.databases));
    let forecast = study.forecast.as_ref().map(super::render_study_forecast);
    lines.extend(forecast.map(|forecast| format!("forecast {NOTHING}: {forecast}")));
    lines.extend(study.skipped_strategies.iter().map(|(name, how)| format!("skipped  {name}: {how}")));
    lines.extend(run.warnings.iter().map(|warning| format!("warning  {warning}")));
    lines.join("\n")
}

/// `run      20261122-050413-5561, 2026-11-22 05:04:13 UTC, 3 minutes`
pub(super) fn render_when(id: &str, started_at: Timestamp, ended_at: Option<Timestamp>) -> String {
    let state = match ended_at {
        Some(ended) => {
            let seconds = (ended.as_second() - started_at.as_second()).max(0) as usize;
            counted((seconds + 30) / 60, "minute")
        }
        None => "did not end".to_owned(),
    };
    format!("run      {id}, {} UTC, {state}", started_at.strftime("%Y-%m-%d %H:%M:%S"))
}

/// A line for the machine and one for the server.
pub(super) fn render_place(machine: &Machine, server: &ServerFacts) -> [String; 2] {
    [
        format!(
            "machine  {}, {} × {}, {} memory, Linux {}, {} on {}",
            machine.hostname,
            machine.cores,
            machine.cpu_model,
            machine.memory_bytes,
            machine.kernel,
            machine.file_system,
            machine.device.name
        ),
        format!("server   PostgreSQL {}, shared_buffers {}", server.version, server.shared_buffers_bytes),
    ]
}

/// `gp3: 3000 reads/s, 131 MB/s, read-ahead 128 kB`, or why that is not in force.
pub fn render_disk(disk: &Disk) -> String {
    let reads = disk.riops.map(|riops| format!("{riops} reads/s"));
    let bandwidth = disk.rbps.map(Bytes::per_second);
    let limits: Vec<String> = reads.into_iter().chain(bandwidth).collect();
    let limits = if limits.is_empty() { "no limit".to_owned() } else { limits.join(", ") };
    let limits = match &disk.not_enforced {
        Some(why) => format!("{} ({limits}) is NOT in force: {why}", disk.name),
        None => format!("{}: {limits}", disk.name),
    };
    // In the kernel's unit, which is that of /sys/block/NAME/queue/read_ahead_kb.
    let Some(read_ahead) = disk.read_ahead.map(|bytes| format!("read-ahead {bytes}")) else {
        return limits;
    };
    match &disk.read_ahead_not_enforced {
        Some(why) => format!("{limits}; {read_ahead} is NOT in force: {why}"),
        None => format!("{limits}, {read_ahead}"),
    }
}

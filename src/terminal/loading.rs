//! Loaders: how long each took until what was wanted was resident, and pgthaw's ratios to the others.

use comfy_table::Cell;

use super::printable;
use super::results::{render_disk, render_place, render_when};
use super::screen::stdout_width;
use super::tournament::{Column, name_cell, render_count, render_fitting, spread_cell};
use crate::study::LoadingRun;
use crate::units::Bytes;
use crate::verdict::{LoaderRatio, LoaderSummary, LoadingSummary, RatioOf, Spread, render_ratio};

/// Columns that give way first where the terminal is too narrow for all.
const GIVING_WAY: [&str; 4] = ["device\nreads", "CPU s\nper GB", "device\nread", "rate\nper s"];

/// What a run of loaders was: machine, server, what was wanted, disk, and what it says against itself.
pub fn render_loading_head(run: &LoadingRun) -> String {
    let study = &run.study;
    let [machine, server] = render_place(&run.machine, &run.server);
    let source = match &study.script {
        Some(script) => {
            format!("what {} s of {script} with {} clients read from cold", study.script_seconds, study.clients)
        }
        None => "everything".to_owned(),
    };
    let mut lines = vec![
        render_when(&run.id, run.started_at, run.ended_at),
        machine,
        server,
        format!(
            "wanted   {source}: {} in {} pages and {} pieces, of scale {} ({})",
            study.wanted_bytes, study.wanted_pages, study.wanted_pieces, study.scale, study.database_bytes
        ),
        format!("study    {} rounds, seed {}", study.rounds, study.seed),
        format!("disk     {}", render_disk(&study.disk)),
    ];
    lines.extend(study.bound.map(|bound| {
        format!(
            "bound    {:.2} s: the best merging of gaps has {} reads of {} in all",
            bound.seconds, bound.reads, bound.read_bytes
        )
    }));
    lines.extend(study.skipped_loaders.iter().map(|(name, how)| format!("skipped  {name}: {how}")));
    lines.extend(run.warnings.iter().map(|warning| format!("warning  {warning}")));
    lines.join("\n")
}

/// The table of the loaders, and the ratios.
pub fn render_loading(run: &LoadingRun, summary: &LoadingSummary) -> String {
    let width = stdout_width().unwrap_or(usize::MAX);
    let (table, left_out) = render_fitting(make_columns(run, &summary.loaders), &GIVING_WAY, width);
    let mut lines = vec![table, render_legend(run, summary)];
    lines.extend(left_out);
    for loader in &summary.loaders {
        lines.extend(loader.caveats.iter().map(|caveat| format!("  {}: {caveat}", loader.loader)));
    }
    if !summary.ratios.is_empty() {
        lines.push("\nmedian of the rounds' ratios, and its 95 % interval".to_owned());
        lines.extend(summary.ratios.iter().map(render_pair));
    }
    lines.join("\n")
}

fn make_columns(run: &LoadingRun, loaders: &[LoaderSummary]) -> Vec<Column> {
    let beyond = format!("> {}", run.study.patience_seconds);
    let column = |title: &str, cell: &dyn Fn(&LoaderSummary) -> Cell| Column {
        title: title.to_owned(),
        cells: loaders.iter().map(cell).collect(),
    };
    let seconds = |value: Option<Spread>| spread_cell(value, &beyond, |value| format!("{value:.2}"));
    let rate = |value: Spread| spread_cell(Some(value), "", |value| Bytes(value as u64).per_second());
    let bytes = |value: Option<Spread>| spread_cell(value, "", |value| Bytes(value as u64).to_string());
    vec![
        column("loader", &|one| name_cell(&one.loader)),
        column("resident\nafter, s", &|one| seconds(one.resident_after_seconds)),
        column("buffers back\nafter, s", &|one| seconds(one.buffers_after_seconds)),
        column("rate", &|one| rate(one.bytes_per_second)),
        column("CPU s\nper GB", &|one| seconds(one.cpu_seconds_per_gb)),
        column("device\nread", &|one| bytes(one.device_read_bytes)),
        column("device\nreads", &|one| spread_cell(one.device_reads, "", render_count)),
    ]
}

fn render_legend(run: &LoadingRun, summary: &LoadingSummary) -> String {
    let study = &run.study;
    let mut legend = format!(
        "medians, with the smallest and the largest of the rounds · resident: {:.0} % of the wanted pages, each looked at · \
         CPU: the loader's own processes",
        study.resident_share * 100.0
    );
    if summary.loaders.iter().any(|loader| loader.buffers_after_seconds.is_some()) {
        legend += &format!(
            " · back: 90 % of the {} that were in shared_buffers, and of the {} with a usage count of 3 or more as many again",
            study.former_buffers_bytes, study.former_hot_bytes
        );
    }
    legend
}

/// `  pgthaw ÷ bound               1.16 (1.12–1.20), 6 pairs: seconds`
fn render_pair(pair: &LoaderRatio) -> String {
    let what = match pair.of {
        RatioOf::Seconds => "seconds",
        RatioOf::BuffersSeconds => "seconds, shared_buffers to page cache alone",
        RatioOf::BytesPerSecond => "bytes per second",
    };
    let (median, interval) = render_ratio(&pair.ratio);
    let interval = interval.map_or(String::new(), |interval| format!(" ({interval})"));
    let names = format!("{} ÷ {}", pair.dividend, pair.divisor);
    format!("  {names:<28} {median}{interval}, {} pairs: {what}", pair.ratio.pairs)
}

/// A run of loaders in the list of runs.
pub fn render_loading_line(run: &LoadingRun, trials: usize) -> String {
    let study = &run.study;
    let when = run.started_at.strftime("%Y-%m-%d %H:%M");
    let planned = study.loaders.len() * study.rounds as usize;
    let what =
        study.script.as_deref().map_or("everything".to_owned(), |script| format!("what {} reads", printable(script)));
    let (loaders, disk, scale) = (study.loaders.len(), printable(&study.disk.name), study.scale);
    format!(
        "{}  {when}  residency of {what}, scale {scale}, {disk}: {loaders} loaders  {trials} of {planned} trials",
        run.id
    )
}

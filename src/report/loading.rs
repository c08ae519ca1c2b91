//! The page of a run of loaders: bars of their seconds and of the ratios between them, without any script.

use std::fmt::Write as _;

use serde_json::json;

use super::Error;
use super::document::{class_of, render_document};
use super::page::{PageKind, escape_text};
use crate::bench::{
    LoaderRatio, LoaderSummary, LoadingRun, LoadingSummary, LoadingTrial, PGTHAW, RatioOf, Spread, render_ratio,
};

/// A drawing's width in its own units; where its bars begin and end, and the height of a row.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 290.0;
const RIGHT: f64 = 730.0;
const ROW: f64 = 34.0;

/// Half of a bar's thickness, and of a whisker's end.
const BAR: f64 = 8.0;
const WHISKER: f64 = 5.0;

/// Beside the longest bar.
const BEYOND: f64 = 1.05;

/// A bar, what is drawn across it, and the text beside it.
struct Row {
    name: String,
    /// From, to; in units of the drawing. A dashed outline is what was not reached.
    bar: (f64, f64),
    is_open: bool,
    whisker: Option<(f64, f64)>,
    text: String,
    class: String,
}

/// The run as one HTML document. Whatever names it holds, they stay text.
pub fn render_loading_report(
    run: &LoadingRun,
    summary: &LoadingSummary,
    trials: &[LoadingTrial],
    kind: PageKind,
) -> Result<String, Error> {
    let json = serde_json::to_string(&json!({ "format": 1, "run": run, "summary": summary, "trials": trials }))?;
    let mut body = format!("<h1>{}</h1>", escape_text(&describe_wanted(run)));
    body += &render_facts(run);
    body += "<h2>Seconds until resident</h2>";
    body += &render_seconds(run, &summary.loaders);
    body += "<p>Medians; the whisker is from the shortest to the longest round. Dashed: not reached by half of the rounds. The line \
             across is the bound: the least that the disk allows for the best merging of gaps.</p>";
    if !summary.ratios.is_empty() {
        body += "<h2>Ratios</h2>";
        body += &render_ratios(&summary.ratios);
        body += "<p>The median of the rounds' ratios and its 95 % interval, on a logarithmic scale; the line is 1. Fewer than three \
                 rounds have no interval.</p>";
    }
    body += &render_table(&summary.loaders);
    Ok(render_document(kind, &format!("residency {}", run.id), &body, &json))
}

fn describe_wanted(run: &LoadingRun) -> String {
    let study = &run.study;
    let what = match &study.script {
        Some(script) => format!("what {} s of {script} with {} clients read", study.script_seconds, study.clients),
        None => "everything".to_owned(),
    };
    format!("Until {what} was resident again: {} in {} pieces", study.wanted_bytes, study.wanted_pieces)
}

fn render_facts(run: &LoadingRun) -> String {
    let (study, machine) = (&run.study, &run.machine);
    let mut facts = vec![
        format!("run {}, {}", run.id, run.started_at.strftime("%Y-%m-%d %H:%M UTC")),
        format!(
            "{}: {} × {}, {} memory, Linux {}, {} on {}",
            machine.hostname,
            machine.cores,
            machine.cpu_model,
            machine.memory_bytes,
            machine.kernel,
            machine.file_system,
            machine.device.name
        ),
        format!("PostgreSQL {}, scale {} ({})", run.server.version, study.scale, study.database_bytes),
        format!("disk {}, {} rounds, seed {}", study.disk.name, study.rounds, study.seed),
    ];
    facts.extend(study.skipped_loaders.iter().map(|(name, how)| format!("without {name}: {how}")));
    facts.extend(run.warnings.iter().map(|warning| format!("warning: {warning}")));
    let items: String = facts.iter().map(|fact| format!("<li>{}</li>", escape_text(fact))).collect();
    format!("<ul>{items}</ul>")
}

/// pgthaw has a colour of its own.
fn class_of_loader(loader: &str) -> String {
    class_of(usize::from(loader.starts_with(PGTHAW)))
}

fn render_seconds(run: &LoadingRun, loaders: &[LoaderSummary]) -> String {
    let both = |loader: &LoaderSummary| {
        let named =
            |spread: Option<Spread>, what: &str| spread.map(|spread| (format!("{}{what}", loader.loader), spread));
        [named(loader.resident_after_seconds, ""), named(loader.buffers_after_seconds, ": shared_buffers back")]
    };
    let spreads: Vec<(String, Spread)> = loaders.iter().flat_map(both).flatten().collect();
    let bound = run.study.bound.map(|bound| bound.seconds);
    let known = spreads.iter().flat_map(|(_, spread)| [spread.median, spread.max]).flatten().chain(bound);
    let longest = known.fold(f64::MIN_POSITIVE, f64::max) * BEYOND;
    let x = |seconds: f64| LEFT + (RIGHT - LEFT) * (seconds / longest).min(1.0);
    let rows: Vec<Row> = spreads
        .iter()
        .map(|(name, spread)| Row {
            name: name.clone(),
            bar: (LEFT, spread.median.map_or(RIGHT, x)),
            is_open: spread.median.is_none(),
            whisker: spread.min.filter(|_| spread.repeats > 1).map(|min| (x(min), spread.max.map_or(RIGHT, x))),
            text: match spread.median {
                Some(median) => format!("{median:.2} s"),
                None => format!("> {} s", run.study.patience_seconds),
            },
            class: class_of_loader(name),
        })
        .collect();
    let line = bound.map(|bound| (x(bound), format!("bound {bound:.2} s")));
    render_rows("seconds until resident", &rows, line)
}

fn render_ratios(ratios: &[LoaderRatio]) -> String {
    let ends = |ratio: &LoaderRatio| {
        let limits = [Some(ratio.ratio.median), ratio.ratio.interval];
        limits.into_iter().flatten().flat_map(|limits| [Some(limits.at_least), limits.at_most])
    };
    let known = ratios.iter().flat_map(ends).flatten().filter(|ratio| *ratio > 0.0);
    let (low, high) = known.fold((0.5_f64, 2.0_f64), |(low, high), ratio| (low.min(ratio), high.max(ratio)));
    let (low, high) = (low / BEYOND, high * BEYOND);
    let x = |ratio: f64| LEFT + (RIGHT - LEFT) * (ratio.clamp(low, high) / low).ln() / (high / low).ln();
    let rows: Vec<Row> = ratios
        .iter()
        .map(|one| {
            let (median, interval) = render_ratio(&one.ratio);
            let limits = one.ratio.median;
            let end = limits.at_most.unwrap_or(high);
            let what = match one.of {
                RatioOf::Seconds => "seconds",
                RatioOf::BuffersSeconds => "both tiers to one",
                RatioOf::BytesPerSecond => "bytes per second",
            };
            Row {
                name: format!("{} ÷ {}, {what}", one.dividend, one.divisor),
                bar: (x(1.0), x(if limits.at_most.is_some() { end } else { limits.at_least.max(low) })),
                is_open: limits.at_most != Some(limits.at_least),
                whisker: one.ratio.interval.map(|limits| (x(limits.at_least), x(limits.at_most.unwrap_or(high)))),
                text: interval.map_or(median.clone(), |interval| format!("{median} ({interval})")),
                class: class_of_loader(PGTHAW),
            }
        })
        .collect();
    render_rows("ratios", &rows, Some((x(1.0), "1".to_owned())))
}

/// One bar below the other, and a line across all of them.
fn render_rows(label: &str, rows: &[Row], line: Option<(f64, String)>) -> String {
    let height = ROW * (rows.len() as f64 + 1.0);
    let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">"#);
    for (place, row) in (0..).zip(rows) {
        let y = ROW * (f64::from(place) + 1.5);
        let (from, to) = (row.bar.0.min(row.bar.1), row.bar.0.max(row.bar.1));
        let paint = match row.is_open {
            true => format!(r#"class="open {}" stroke-dasharray="4 3""#, row.class),
            false => format!(r#"class="bar {}""#, row.class),
        };
        let (text, top, width) = (y + 4.0, y - BAR, (to - from).max(1.0));
        // Writing into a string does not fail.
        let _ = write!(
            svg,
            r#"<text x="{:.1}" y="{text:.1}" text-anchor="end">{}</text><rect x="{from:.1}" y="{top:.1}" width="{width:.1}" height="{:.1}" {paint}/>"#,
            LEFT - 8.0,
            escape_text(&row.name),
            2.0 * BAR
        );
        if let Some((low, high)) = row.whisker {
            for (x1, x2, y1, y2) in
                [(low, high, y, y), (low, low, y - WHISKER, y + WHISKER), (high, high, y - WHISKER, y + WHISKER)]
            {
                let _ = write!(svg, r#"<line class="line" x1="{x1:.1}" x2="{x2:.1}" y1="{y1:.1}" y2="{y2:.1}"/>"#);
            }
        }
        let _ = write!(svg, r#"<text x="{:.1}" y="{text:.1}">{}</text>"#, RIGHT + 8.0, escape_text(&row.text));
    }
    if let Some((x, name)) = line {
        let _ = write!(
            svg,
            r#"<line class="line" stroke-dasharray="2 3" x1="{x:.1}" x2="{x:.1}" y1="{ROW}" y2="{height}"/><text x="{x:.1}" y="{:.1}" text-anchor="middle">{name}</text>"#,
            ROW - 8.0
        );
    }
    format!(r#"<div class="drawing">{svg}</svg></div>"#)
}

fn render_table(loaders: &[LoaderSummary]) -> String {
    let mut table = String::from(
        "<h2>Numbers</h2><div class=\"table\"><table><tr><th>loader</th><th>rounds</th><th>MB/s</th><th>CPU s per GB</th>\
         <th>device MB</th><th>device reads</th></tr>",
    );
    let cell = |value: Option<f64>, digits: usize| value.map_or("–".to_owned(), |value| format!("{value:.digits$}"));
    let median = |spread: Option<Spread>| spread.and_then(|spread| spread.median);
    for loader in loaders {
        let _ = write!(
            table,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape_text(&loader.loader),
            loader.rounds,
            cell(loader.bytes_per_second.median.map(|bytes| bytes / 1e6), 0),
            cell(median(loader.cpu_seconds_per_gb), 2),
            cell(median(loader.device_read_bytes).map(|bytes| bytes / f64::from(1 << 20)), 0),
            cell(median(loader.device_reads), 0)
        );
    }
    table += "</table></div>";
    let caveats =
        loaders.iter().flat_map(|loader| loader.caveats.iter().map(|caveat| format!("{}: {caveat}", loader.loader)));
    let caveats: String = caveats.map(|caveat| format!("<li>{}</li>", escape_text(&caveat))).collect();
    if caveats.is_empty() { table } else { format!("{table}<ul>{caveats}</ul>") }
}

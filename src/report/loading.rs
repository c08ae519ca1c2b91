//! The page of a run of loaders: bars of their seconds and of the ratios between them, without any script.

use std::fmt::Write as _;

use serde_json::json;

use super::Error;
use super::document::{class_of, render_document};
use super::page::{PageKind, escape_text};
use crate::study::{LoadingRun, LoadingTrial, PGTHAW};
use crate::verdict::{LoaderRatio, LoaderSummary, LoadingSummary, RatioOf, Spread, render_ratio};

/// A drawing's width in its own units; where its bars begin and end, and the height of a row.
const WIDTH: f64 = 420.0;
const LEFT: f64 = 4.0;
const RIGHT: f64 = 290.0;
const ROW: f64 = 46.0;

/// A name stands above its bar, so that the drawing fits a phone.
const NAME_ABOVE: f64 = 14.0;

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
    let _ = write!(body, "<p class=\"answer\">{}</p>", escape_text(&describe_answer(run, summary)));
    body += &render_against(run, &summary.loaders);
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
    body += &render_facts(run);
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
    let items: String = facts.iter().map(|fact| format!("<li>{}</li>", escape_text(fact))).collect();
    format!("<details><summary>Machine, server and study</summary><ul>{items}</ul></details>")
}

/// The answer: pgthaw beside the bound and the soonest of the others.
fn describe_answer(run: &LoadingRun, summary: &LoadingSummary) -> String {
    let after = |loader: &LoaderSummary| loader.resident_after_seconds.and_then(|spread| spread.median);
    let tell = |loader: &LoaderSummary| match after(loader) {
        Some(seconds) => format!("{} had it resident after {seconds:.2} s", loader.loader),
        None => format!("{} did not have it resident within {} s", loader.loader, run.study.patience_seconds),
    };
    let of_pgthaw = summary.loaders.iter().find(|loader| loader.loader == PGTHAW);
    let others = summary.loaders.iter().filter(|loader| !loader.loader.starts_with(PGTHAW));
    let soonest = others.filter_map(|loader| Some((after(loader)?, loader)));
    let soonest = soonest.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, loader)| tell(loader));
    let bound = run.study.bound.map(|bound| format!("the disk allows no less than {:.2} s", bound.seconds));
    let told: Vec<String> = of_pgthaw.map(tell).into_iter().chain(soonest).chain(bound).collect();
    if told.is_empty() { String::new() } else { format!("{}.", told.join("; ")) }
}

/// What speaks against the run, and then against loaders: the same of several rounds once, with how many they are.
fn render_against(run: &LoadingRun, loaders: &[LoaderSummary]) -> String {
    let mut against: Vec<(String, u32)> = run.warnings.iter().map(|warning| (warning.clone(), 1)).collect();
    let of_loaders = loaders.iter().flat_map(|loader| loader.caveats.iter().map(move |caveat| (loader, caveat)));
    let mut seen: Vec<String> = Vec::new();
    let first_own = against.len();
    for (loader, caveat) in of_loaders {
        // Rounds differ in their numbers alone.
        let kind = format!("{}: {}", loader.loader, caveat.replace(|c: char| c.is_ascii_digit(), ""));
        match seen.iter().position(|known| *known == kind) {
            Some(place) => against[first_own + place].1 += 1,
            None => {
                seen.push(kind);
                against.push((format!("{}: {caveat}", loader.loader), 1));
            }
        }
    }
    if against.is_empty() {
        return "<p class=\"soft\">Nothing speaks against these numbers.</p>".into();
    }
    let items: String = against
        .iter()
        .map(|(text, times)| {
            let more = if *times > 1 { format!(" (the first of {times} that say so)") } else { String::new() };
            format!("<li>{}{more}</li>", escape_text(text))
        })
        .collect();
    format!("<h2>What speaks against these numbers</h2><ul class=\"against\">{items}</ul>")
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
            r#"<text x="{LEFT:.1}" y="{:.1}">{}</text><rect x="{from:.1}" y="{top:.1}" width="{width:.1}" height="{:.1}" {paint}/>"#,
            y - NAME_ABOVE,
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
        "<h2>Numbers</h2><div class=\"table\"><table><tr><th>loader</th><th>rounds</th><th>loaded (MB/s)</th><th>CPU (s per GB)</th>\
         <th>read from the device, by anybody (MB)</th><th>reads of the device, by anybody</th></tr>",
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
    table + "</table></div>"
}

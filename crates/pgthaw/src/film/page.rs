//! The page of a film: where its job was when, its working set, and how much memory would have sufficed; without any script.

use std::fmt::Write as _;

use serde::Serialize;

use cache::trace::{COLUMNS, FilmHeader, FilmPicture, FilmSummary, MissRatioCurve, ROWS, RelationPicture};
use command::document::{Error, class_of, escape_text, render_document};

/// A drawing's size in its own units, and the room for the axes' numbers.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 32.0;
const TOP: f64 = 12.0;

/// Of a picture of a relation.
const PICTURE_HEIGHT: f64 = 160.0;

/// Steps from the palest cell to the darkest: each is four times as many blocks.
const SHADES: u32 = 4;

/// Lines of the grid, above the axis.
const GRID: u32 = 4;

/// The film as one HTML document. `json` is what `film show --json` has of it. Whatever names it holds, they stay text.
///
/// # Errors
/// When the numbers cannot be written.
pub fn render_film_page(
    header: &FilmHeader,
    summary: &FilmSummary,
    picture: &FilmPicture,
    json: &impl Serialize,
) -> Result<String, Error> {
    let job = if header.job.is_empty() { "whatever ran" } else { &header.job };
    let mut body = format!("<h1>Film of {}</h1>", escape_text(job));
    let _ = write!(
        body,
        "<p>{:.1} s, recorded {} {}.</p>",
        header.seconds,
        header.recorded_at.strftime("%F %T UTC"),
        escape_text(&header.recorder)
    );
    body += "<h2>Where it was when</h2><p>From the first block of each relation at the top to the last one touched. The darker, the more \
             blocks.</p>";
    for relation in &picture.relations {
        body += &render_relation(header, relation);
    }
    body += "<h2>Working set</h2><p>What was touched since the beginning, and since the moment before (dashed).</p>";
    body += &render_working_set(header, summary);
    if let Some(curve) = &summary.curve {
        body += &render_sufficient(header, curve);
    }
    body += &render_table(header, summary);
    Ok(render_document("film of a job", &body, &serde_json::to_string(json)?))
}

fn render_relation(header: &FilmHeader, picture: &RelationPicture) -> String {
    let rows = picture.cells.keys().map(|(_, row)| row + 1).max().unwrap_or(1).clamp(1, ROWS);
    let (width, height) = ((WIDTH - LEFT) / COLUMNS as f64, (PICTURE_HEIGHT - TOP - BOTTOM) / rows as f64);
    let mut shades = vec![String::new(); SHADES as usize];
    for ((column, row), blocks) in &picture.cells {
        let part = *blocks as f64 / picture.row_blocks as f64;
        let shade = (SHADES as f64 + part.log(4.0)).floor().clamp(0.0, f64::from(SHADES - 1));
        let (x, y) = (LEFT + *column as f64 * width, TOP + *row as f64 * height);
        let _ = write!(shades[shade as usize], "M{x:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}z");
    }
    let name = escape_text(&picture.relation.name.to_string());
    let mut svg = format!(
        r#"<h3>{name}</h3><div class="drawing"><svg viewBox="0 0 {WIDTH} {PICTURE_HEIGHT}" role="img" aria-label="positions in {name} over time">"#
    );
    for (shade, path) in shades.into_iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let opacity = (shade + 1) as f64 / f64::from(SHADES);
        let class = class_of(0);
        let _ = write!(svg, r#"<path class="{class}" fill="currentColor" fill-opacity="{opacity:.2}" d="{path}"/>"#);
    }
    let (bottom, last) = (PICTURE_HEIGHT - BOTTOM, header.bytes(rows * picture.row_blocks));
    let _ = write!(
        svg,
        r#"<text x="{:.1}" y="{:.1}" text-anchor="end">0</text><text x="{:.1}" y="{bottom:.1}" text-anchor="end">{last}</text>"#,
        LEFT - 6.0,
        TOP + 10.0,
        LEFT - 6.0,
    );
    svg + &time_axis(header.seconds, bottom) + "</svg></div>"
}

/// The times below a drawing.
fn time_axis(seconds: f64, bottom: f64) -> String {
    (0..=GRID).fold(String::new(), |mut axis, line| {
        let share = f64::from(line) / f64::from(GRID);
        let anchor = if line == GRID { "end" } else { "middle" };
        let (x, y, time) = (LEFT + (WIDTH - LEFT) * share, bottom + 18.0, seconds * share);
        let _ = write!(axis, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{time:.1} s</text>"#);
        axis
    })
}

/// Lines across, each with what `label` says of its share of the height.
fn value_axis(label: impl Fn(f64) -> String) -> String {
    (0..=GRID).fold(String::new(), |mut axis, line| {
        let share = f64::from(line) / f64::from(GRID);
        let y = TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - share);
        let _ = write!(
            axis,
            r#"<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1}" y2="{y:.1}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
            LEFT - 6.0,
            y + 4.0,
            label(share)
        );
        axis
    })
}

/// A curve through these points, each 0 to 1 from the left and from below.
fn polyline(series: usize, points: impl Iterator<Item = (f64, f64)>) -> String {
    let points = points.fold(String::new(), |mut points, (x, y)| {
        let (x, y) = (LEFT + (WIDTH - LEFT) * x, TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - y));
        let _ = write!(points, "{x:.1},{y:.1} ");
        points
    });
    format!(r#"<polyline class="curve {}" points="{points}"/>"#, class_of(series))
}

fn drawing(label: &str, inside: &str) -> String {
    format!(
        r#"<div class="drawing"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{inside}</svg></div>"#
    )
}

fn render_working_set(header: &FilmHeader, summary: &FilmSummary) -> String {
    let most = summary.moments.last().map_or(0, |moment| moment.blocks).max(1) as f64;
    let place = |seconds: f64| seconds / header.seconds.max(f64::MIN_POSITIVE);
    let at = |blocks: fn(&cache::trace::Moment) -> u64| {
        let points = summary.moments.iter().map(move |one| (place(one.time.as_secs_f64()), blocks(one) as f64 / most));
        std::iter::once((0.0, 0.0)).chain(points)
    };
    let inside = value_axis(|share| header.bytes((most * share) as u64).to_string())
        + &time_axis(header.seconds, HEIGHT - BOTTOM)
        + &polyline(0, at(|one| one.blocks))
        + &polyline(1, at(|one| one.recent_blocks));
    drawing("what was touched over time", &inside)
}

fn render_sufficient(header: &FilmHeader, curve: &MissRatioCurve) -> String {
    let sufficient = curve.sufficient_blocks();
    let mut text = "<h2>How much memory would have sufficed</h2>".to_owned();
    if sufficient == 0 {
        return text + "<p>Hardly a block was asked for again: more memory than its own would have spared nothing.</p>";
    }
    let _ = write!(
        text,
        "<p>{} of page cache. The curve tells of which part of the requests the block would have been missing, by the size of the \
         page cache; what was asked for the first time always is.</p>",
        header.bytes(sufficient)
    );
    // From a megabyte or so on, each size twice the one before.
    let most = curve.points.last().map_or(1, |point| point.blocks).max(256);
    let (first, last) = (7.0, (most as f64).log2().ceil().max(8.0));
    let x = |blocks: f64| (blocks.log2() - first) / (last - first);
    let mut points = vec![(0.0, curve.miss_ratio(128).unwrap_or_default())];
    for point in curve.points.iter().filter(|point| point.blocks > 128) {
        let (_, before) = points[points.len() - 1];
        let after = point.missed as f64 / curve.requests as f64;
        points.extend([(x(point.blocks as f64), before), (x(point.blocks as f64), after)]);
    }
    points.push((1.0, points[points.len() - 1].1));
    let sizes = (0..=GRID).fold(String::new(), |mut axis, line| {
        let share = f64::from(line) / f64::from(GRID);
        let blocks = (first + (last - first) * share).exp2();
        let anchor = if line == GRID { "end" } else { "middle" };
        let (x, y) = (LEFT + (WIDTH - LEFT) * share, HEIGHT - BOTTOM + 18.0);
        let size = header.bytes(blocks as u64);
        let _ = write!(axis, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{size}</text>"#);
        axis
    });
    let inside = value_axis(|share| format!("{:.0} %", share * 100.0)) + &sizes + &polyline(0, points.into_iter());
    text + &drawing("missed requests by the size of the page cache", &inside)
}

fn render_table(header: &FilmHeader, summary: &FilmSummary) -> String {
    let mut table = String::from(
        "<h2>Relations</h2><div class=\"table\"><table><tr><th>relation</th><th>database</th><th>touched</th><th>first (s)</th><th>last (s)</th></tr>",
    );
    for one in summary.relations.iter().filter(|one| one.blocks > 0) {
        let second =
            |at: Option<std::time::Duration>| at.map(|at| format!("{:.1}", at.as_secs_f64())).unwrap_or_default();
        let _ = write!(
            table,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape_text(&one.relation.name.to_string()),
            escape_text(&one.relation.name.database),
            header.bytes(one.blocks),
            second(one.span.map(|(first, _)| first)),
            second(one.span.map(|(_, last)| last)),
        );
    }
    table + "</table></div>"
}

//! Films as text, JSON and a script-free HTML page.

use std::path::Path;

use serde_json::{Value, json};

use cache::Generation;
use cache::trace::{COLUMNS, Error, FilmHeader, FilmSummary, MOMENTS, MissRatioCurve, Moment, ROWS, RelationTouches};
use command::document::{class_of, escape_text, render_document};
use host::units::counted;
use terminal::{Canvas, Column, pasted_path, printable, render_columns, without_advice};

/// Minimum width of a film's name: time and number (22 cells), and part of its label.
const NAME_SHORTEST: usize = 40;

#[derive(Debug)]
pub struct FilmLine {
    pub generation: Generation,
    pub header: Result<FilmHeader, Error>,
}

pub fn render_recorded(path: &Path, header: &FilmHeader) -> String {
    let mut lines = vec![format!("kept a film: {}", render_content(header)), format!("  {}", pasted_path(path))];
    lines.extend(header.remarks.iter().map(|remark| format!("note: {}", printable(remark))));
    lines.join("\n")
}

fn render_content(header: &FilmHeader) -> String {
    let totals = header.totals;
    let mut parts = vec![format!("{} fetched in {:.1} s", header.bytes(totals.fetched_blocks), header.seconds)];
    let more = |blocks: u64, what: &str| (blocks > 0).then(|| format!("{} {what}", header.bytes(blocks)));
    let again = header.fetched_again.filter(|again| again.0 > 0);
    parts.extend(again.map(|again| format!("{again} fetched again")));
    parts.extend(more(totals.requested_blocks, "requested and already cached"));
    parts.extend(more(totals.preloaded_blocks, "preloaded by pgthaw, not counting gaps between the job's blocks"));
    parts.extend(more(
        totals.buffers_blocks,
        "in shared_buffers before the recording (the film does not show whether they were used)",
    ));
    parts.extend(header.device_reads.map(|reads| format!("{} by all processes", counted(reads, "device read"))));
    parts.push(match header.lost_events {
        0 => "no event lost".to_owned(),
        lost => format!("{} lost", counted(lost, "event")),
    });
    parts.extend(header.probe.filter(|probe| probe.runs > 0).map(|probe| {
        format!("{} ns of kernel time for each of {}", probe.total_ns / probe.runs, counted(probe.runs, "event"))
    }));
    parts.join(", ")
}

/// Minimum width in cells of a shortened system identifier.
const CLUSTER_SHORTEST: usize = 9;

/// `own` is the system identifier of the user's server. If the films are of several clusters, `*` marks those of this
/// server.
pub fn render_films(lines: &[FilmLine], own: Option<u64>, canvas: Canvas) -> String {
    let texts = |text: &dyn Fn(&FilmLine) -> String| -> Vec<String> { lines.iter().map(text).collect() };
    let of_header = |text: &dyn Fn(&FilmHeader) -> String| -> Vec<String> {
        texts(&|line| line.header.as_ref().map(text).unwrap_or_default())
    };
    let of = |line: &FilmLine| line.generation.system_identifier;
    let has_several = lines.iter().any(|line| of(line) != of(&lines[0]));
    let has_own = has_several && lines.iter().any(|line| Some(of(line)) == own);
    let marks = texts(&|line| if Some(of(line)) == own { "*" } else { "" }.to_owned());
    let mut columns: Vec<Column> = has_own.then(|| Column::word("", 0, marks)).into_iter().collect();
    columns.extend([
        // On a narrow terminal, the job is shortened first, then columns with counts are dropped.
        Column::text("film", NAME_SHORTEST, texts(&|line| printable(&line.generation.name).into_owned())),
        Column::number("seconds", 2, of_header(&|header| format!("{:.1}", header.seconds))),
        Column::number("fetched", 0, of_header(&|header| header.bytes(header.totals.fetched_blocks).to_string())),
        Column::number("preloaded", 3, of_header(&|header| header.bytes(header.totals.preloaded_blocks).to_string())),
        Column::number("lost", 4, of_header(&|header| header.lost_events.to_string())),
        Column::text("job", 10, of_header(&|header| without_advice(&printable(&header.job)))),
    ]);
    if has_several {
        let clusters = Column::text("cluster", CLUSTER_SHORTEST, texts(&|line| of(line).to_string()));
        columns.insert(usize::from(has_own) + 1, clusters);
    }
    let trouble = texts(&|line| {
        line.header.as_ref().err().map(|why| printable(&why.to_string()).into_owned()).unwrap_or_default()
    });
    if trouble.iter().any(|why| !why.is_empty()) {
        columns.push(Column::text("cannot be read", 20, trouble));
    }
    let mut table = render_columns(columns, canvas.width, canvas.mark());
    table.extend(has_own.then(|| "* from this server's cluster; preferred if several films share a name".to_owned()));
    table.join("\n")
}

fn job_of(header: &FilmHeader) -> &str {
    if header.job.is_empty() { "server activity" } else { &header.job }
}

pub fn render_film(path: &Path, header: &FilmHeader, summary: &FilmSummary, canvas: Canvas) -> String {
    let mut lines = vec![
        format!("film of {}", without_advice(&printable(job_of(header)))),
        format!("  {}", pasted_path(path)),
        format!("recorded {} {}", header.recorded_at.strftime("%F %T UTC"), printable(&header.recorder)),
        render_content(header),
    ];
    lines.extend(header.remarks.iter().map(|remark| format!("note: {}", printable(remark))));
    lines.push(String::new());
    let (touched, others): (Vec<_>, Vec<_>) = summary.relations.iter().partition(|one| one.blocks > 0);
    if !touched.is_empty() {
        lines.extend(render_columns(relation_columns(header, &touched), canvas.width, canvas.mark()));
    }
    lines.extend(render_in_buffers(header, &others));
    let moments: Vec<&Moment> = summary.moments.iter().filter(|one| one.recent_blocks > 0).collect();
    if !moments.is_empty() {
        lines.push(String::new());
        lines.extend(render_columns(moment_columns(header, &moments), canvas.width, canvas.mark()));
    }
    lines.extend(summary.curve.as_ref().into_iter().flat_map(|curve| render_curve(header, curve, canvas)));
    lines.join("\n")
}

fn render_in_buffers(header: &FilmHeader, others: &[&RelationTouches]) -> Option<String> {
    let blocks: u64 = others.iter().map(|one| one.buffers_blocks).sum();
    (blocks > 0).then(|| {
        let more = counted(others.len(), "relation");
        format!("never fetched: {more}; {} of them were in shared_buffers before the recording", header.bytes(blocks))
    })
}

fn render_curve(header: &FilmHeader, curve: &MissRatioCurve, canvas: Canvas) -> Vec<String> {
    let share = |missed: u64| format!("{:.1} %", missed as f64 * 100.0 / curve.requests.max(1) as f64);
    let sizes = std::iter::successors(Some(128), |blocks: &u64| Some(blocks * 2)).take(40);
    let most = curve.most_blocks();
    let sizes: Vec<u64> = sizes.take_while(|blocks| *blocks < most * 2).collect();
    let how = match curve.sampling {
        0 => "computed from all requests".to_owned(),
        shift => format!("estimated from the requests for one in {} blocks", 1_u64 << shift),
    };
    let first = share(curve.first_requests);
    let mut lines = vec![String::new()];
    if curve.sufficient_blocks() == 0 {
        lines.push(format!("almost no block was requested again, so more page cache would not have helped ({how})"));
        return lines;
    }
    let sufficient = header.bytes(curve.sufficient_blocks());
    let with_less = if sizes.is_empty() { "" } else { "; with a smaller page cache:" };
    lines.push(format!(
        "with {sufficient} of page cache, almost no request would have missed, except the first for each block; first requests are {first} of all requests ({how}){with_less}"
    ));
    if sizes.is_empty() {
        return lines;
    }
    let missed = |blocks: &u64| curve.miss_ratio(*blocks).map(|ratio| format!("{:.1} %", ratio * 100.0));
    let columns = vec![
        Column::number("page cache", 0, sizes.iter().map(|blocks| header.bytes(*blocks).to_string()).collect()),
        Column::number("missed", 0, sizes.iter().map(|blocks| missed(blocks).unwrap_or_default()).collect()),
    ];
    lines.extend(render_columns(columns, canvas.width, canvas.mark()));
    lines
}

fn moment_columns(header: &FilmHeader, moments: &[&Moment]) -> Vec<Column> {
    let cells = |text: &dyn Fn(&Moment) -> String| moments.iter().map(|one| text(one)).collect::<Vec<_>>();
    let step = header.seconds / MOMENTS as f64;
    let digits = match step {
        0.1.. => 1,
        0.01.. => 2,
        _ => 3,
    };
    vec![
        Column::number("until, s", 0, cells(&|one| format!("{:.digits$}", one.seconds))),
        Column::number("touched", 0, cells(&|one| header.bytes(one.blocks).to_string())),
        Column::number("since previous line", 0, cells(&|one| header.bytes(one.recent_blocks).to_string())),
    ]
}

fn relation_columns(header: &FilmHeader, relations: &[&RelationTouches]) -> Vec<Column> {
    let cells = |text: &dyn Fn(&RelationTouches) -> String| relations.iter().map(|one| text(one)).collect::<Vec<_>>();
    let second = |seconds: Option<f64>| seconds.map(|seconds| format!("{seconds:.1}")).unwrap_or_default();
    let buffers = |one: &RelationTouches| match one.buffers_blocks {
        0 => String::new(),
        blocks => header.bytes(blocks).to_string(),
    };
    vec![
        Column::text("relation", 16, cells(&|one| printable(&one.relation.name.to_string()).into_owned())),
        Column::text("database", 8, cells(&|one| printable(&one.relation.name.database).into_owned())),
        Column::number("blocks", 0, cells(&|one| one.blocks.to_string())),
        Column::number("size", 1, cells(&|one| header.bytes(one.blocks).to_string())),
        Column::number("pieces", 0, cells(&|one| one.events.to_string())),
        Column::number("first, s", 2, cells(&|one| second(one.first_seconds))),
        Column::number("last, s", 2, cells(&|one| second(one.last_seconds))),
        Column::number("in buffers", 3, cells(&buffers)),
    ]
}

pub fn render_film_json(path: &Path, header: &FilmHeader) -> Value {
    let (source, mut json) = (&header.source, json!(header));
    json["path"] = json!(path);
    json["system_identifier"] = source.system_identifier.to_string().into();
    json["version_num"] = source.version_num.into();
    json["block_size"] = source.block_size.into();
    json["lsn"] = source.lsn.as_str().into();
    json["timeline"] = source.timeline.into();
    json
}

pub fn render_films_json(lines: &[FilmLine]) -> Value {
    let film = |FilmLine { generation, header }: &FilmLine| {
        let error = header.as_ref().err().map(ToString::to_string);
        let header = header.as_ref().ok().map(|header| render_film_json(&generation.path, header));
        let cluster = generation.system_identifier.to_string();
        json!({ "name": generation.name, "path": generation.path, "system_identifier": cluster, "header": header, "error": error })
    };
    json!({ "films": lines.iter().map(film).collect::<Vec<_>>() })
}

pub fn render_film_summary_json(path: &Path, header: &FilmHeader, summary: &FilmSummary) -> Value {
    let mut json = json!(summary);
    json["header"] = render_film_json(path, header);
    if let Some(curve) = &summary.curve {
        json["curve"]["sufficient_blocks"] = curve.sufficient_blocks().into();
    }
    json
}

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 32.0;
const TOP: f64 = 12.0;

const PICTURES: usize = 6;
const PICTURE_HEIGHT: f64 = 160.0;

const SHADES: u32 = 4;

const GRID: u32 = 4;

/// Escapes all names from the film.
pub fn render_film_page(path: &Path, header: &FilmHeader, summary: &FilmSummary) -> String {
    let mut body = format!(
        "<h1>Film of {}</h1><p>{:.1} s, recorded {} {}.</p><h2>Positions over time</h2><p>Each relation from its first block (top) to its last touched block. Darker means more blocks.</p>",
        escape_text(job_of(header)),
        header.seconds,
        header.recorded_at.strftime("%F %T UTC"),
        escape_text(&header.recorder)
    );
    let drawn = summary.relations.iter().filter(|one| !one.picture.cells.is_empty()).take(PICTURES);
    drawn.for_each(|one| body += &render_picture(header, one));
    body += "<h2>Working set</h2><p>Data touched since the start, and in each interval (dashed).</p>";
    body += &render_working_set(header, summary);
    body += &summary.curve.as_ref().map_or_else(String::new, |curve| draw_curve(header, curve));
    let touched: Vec<&RelationTouches> = summary.relations.iter().filter(|one| one.blocks > 0).collect();
    body += &render_table(&relation_columns(header, &touched));
    render_document("film of a job", &body, &render_film_summary_json(path, header, summary).to_string())
}

fn render_picture(header: &FilmHeader, RelationTouches { relation, picture, .. }: &RelationTouches) -> String {
    let rows = picture.cells.keys().map(|(_, row)| row + 1).max().unwrap_or(1).clamp(1, ROWS);
    let (width, height) = ((WIDTH - LEFT) / COLUMNS as f64, (PICTURE_HEIGHT - TOP - BOTTOM) / rows as f64);
    let mut shades = vec![String::new(); SHADES as usize];
    for ((column, row), blocks) in &picture.cells {
        let part = *blocks as f64 / picture.row_blocks as f64;
        let shade = (SHADES as f64 + part.log(4.0)).floor().clamp(0.0, f64::from(SHADES - 1));
        let (x, y) = (LEFT + *column as f64 * width, TOP + *row as f64 * height);
        shades[shade as usize] += &format!("M{x:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}z");
    }
    let (place, top, bottom, class) = (LEFT - 6.0, TOP + 10.0, PICTURE_HEIGHT - BOTTOM, class_of(0));
    let last = header.bytes(rows * picture.row_blocks);
    let mut inside = format!(
        r#"<text x="{place}" y="{top}" text-anchor="end">0</text><text x="{place}" y="{bottom}" text-anchor="end">{last}</text>"#
    );
    for (shade, path) in shades.into_iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let opacity = (shade + 1) as f64 / f64::from(SHADES);
        inside += &format!(r#"<path class="{class}" fill="currentColor" fill-opacity="{opacity:.2}" d="{path}"/>"#);
    }
    let name = escape_text(&relation.name.to_string());
    let axis = axis_below(bottom, |share| format!("{:.1} s", header.seconds * share));
    format!("<h3>{name}</h3>{}", drawing(PICTURE_HEIGHT, &format!("positions in {name} over time"), &(inside + &axis)))
}

/// `label` formats the value at a position on the axis, 0 (left) to 1 (right).
fn axis_below(bottom: f64, label: impl Fn(f64) -> String) -> String {
    let number = |line: u32| {
        let share = f64::from(line) / f64::from(GRID);
        let anchor = if line == GRID { "end" } else { "middle" };
        let (x, y, label) = (LEFT + (WIDTH - LEFT) * share, bottom + 18.0, label(share));
        format!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{label}</text>"#)
    };
    (0..=GRID).map(number).collect()
}

fn axis_beside(label: impl Fn(f64) -> String) -> String {
    let number = |line: u32| {
        let share = f64::from(line) / f64::from(GRID);
        let (x, y, label) = (LEFT - 6.0, TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - share), label(share));
        format!(
            r#"<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1}" y2="{y:.1}"/><text x="{x:.1}" y="{:.1}" text-anchor="end">{label}</text>"#,
            y + 4.0
        )
    };
    (0..=GRID).map(number).collect()
}

/// Coordinates are 0 to 1, from the left and from below.
fn polyline(series: usize, points: impl Iterator<Item = (f64, f64)>) -> String {
    let point = |(x, y)| format!("{:.1},{:.1} ", LEFT + (WIDTH - LEFT) * x, TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - y));
    format!(r#"<polyline class="curve {}" points="{}"/>"#, class_of(series), points.map(point).collect::<String>())
}

fn drawing(height: f64, label: &str, inside: &str) -> String {
    format!(
        r#"<div class="drawing"><svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{inside}</svg></div>"#
    )
}

fn render_working_set(header: &FilmHeader, summary: &FilmSummary) -> String {
    let most = summary.moments.last().map_or(0, |moment| moment.blocks).max(1) as f64;
    let curve = |series, blocks: fn(&Moment) -> u64| {
        let point = |one: &Moment| (one.seconds / header.seconds.max(f64::MIN_POSITIVE), blocks(one) as f64 / most);
        polyline(series, std::iter::once((0.0, 0.0)).chain(summary.moments.iter().map(point)))
    };
    let inside = axis_beside(|share| header.bytes((most * share) as u64).to_string())
        + &axis_below(HEIGHT - BOTTOM, |share| format!("{:.1} s", header.seconds * share))
        + &curve(0, |one| one.blocks)
        + &curve(1, |one| one.recent_blocks);
    drawing(HEIGHT, "data touched over time", &inside)
}

fn draw_curve(header: &FilmHeader, curve: &MissRatioCurve) -> String {
    let title = "<h2>Missed requests by page cache size</h2>";
    let sufficient = curve.sufficient_blocks();
    if sufficient == 0 {
        return format!("{title}<p>Almost no block was requested again, so more page cache would not have helped.</p>");
    }
    // The memory axis is logarithmic, from 2^7 blocks (about 1 MB) on.
    let most = curve.most_blocks().max(256);
    let (first, last) = (7.0, (most as f64).log2().ceil().max(8.0));
    let mut points = vec![(0.0, curve.miss_ratio(128).unwrap_or_default())];
    for point in curve.points.iter().filter(|point| point.blocks > 128) {
        let x = ((point.blocks as f64).log2() - first) / (last - first);
        points.extend([(x, points[points.len() - 1].1), (x, point.missed as f64 / curve.requests as f64)]);
    }
    points.push((1.0, points[points.len() - 1].1));
    let size = |share: f64| header.bytes((first + (last - first) * share).exp2() as u64).to_string();
    let inside = axis_beside(|share| format!("{:.0} %", share * 100.0))
        + &axis_below(HEIGHT - BOTTOM, size)
        + &polyline(0, points.into_iter());
    format!(
        "{title}<p>The curve shows the share of requests that miss. The first request for a block always misses; with {} of page cache, almost no other would have missed.</p>{}",
        header.bytes(sufficient),
        drawing(HEIGHT, "missed requests by the size of the page cache", &inside)
    )
}

fn render_table(columns: &[Column]) -> String {
    let row = |tag: &str, cells: Vec<&String>| {
        let cells = cells.into_iter().map(|cell| format!("<{tag}>{}</{tag}>", escape_text(cell)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let titles = row("th", columns.iter().map(|column| &column.title).collect());
    let rows = (0..columns.first().map_or(0, |column| column.cells.len()))
        .map(|at| row("td", columns.iter().map(|column| &column.cells[at]).collect()));
    format!("<h2>Relations</h2><div class=\"table\"><table>{titles}{}</table></div>", rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::trace::{CurvePoint, FilmStore};

    fn lines_of(films: &[(u64, &str)]) -> Vec<FilmLine> {
        let directory = tempfile::tempdir().unwrap();
        for (cluster, name) in films {
            let cluster = directory.path().join(cluster.to_string());
            std::fs::create_dir_all(&cluster).unwrap();
            std::fs::write(cluster.join(format!("{name}.parquet")), "").unwrap();
        }
        let line = |generation| FilmLine {
            generation,
            header: Ok(FilmHeader { job: "psql -X -d shop -f report.sql".to_owned(), ..FilmHeader::for_tests() }),
        };
        FilmStore::at(directory.path().to_owned()).read_all().unwrap().films.into_iter().map(line).collect()
    }

    #[test]
    fn a_films_name_is_whole_on_eighty_columns() {
        let names = ["20261126-103049.123.12-nightly-report", "20261126-113049.123.13-nightly-report"];
        let lines = lines_of(&names.map(|name| (7, name)));
        let canvas = Canvas { width: Some(80), height: None, colours: false, unicode: true };
        let text = render_films(&lines, Some(7), canvas);
        assert!(text.lines().all(|line| console::measure_text_width(line) <= 80), "{text}");
        assert!(names.iter().all(|name| text.contains(name)), "{text}");
        assert!(!text.contains("cluster") && !text.contains('*'), "all are of one: {text}");
    }

    #[test]
    fn a_jobs_command_is_no_advice() {
        let mut lines = lines_of(&[(7, "20261126-103049.123.12-x")]);
        let job = "psql -d shop -c x";
        lines.iter_mut().flat_map(|line| &mut line.header).for_each(|header| header.job = job.to_owned());
        let canvas = Canvas { width: None, height: None, colours: false, unicode: true };
        let list = render_films(&lines, Some(7), canvas);
        let header = lines[0].header.as_ref().unwrap();
        let film = render_film(Path::new("f"), header, &FilmSummary::default(), canvas);
        assert!(list.contains(&without_advice(job)) && film.contains(&without_advice(job)), "{list}\n{film}");
    }

    #[test]
    fn of_several_clusters_it_is_told_which_films_are_whose() {
        let clusters = [7_391_827_364_501_928_374, 7_391_827_364_501_928_999];
        let name = "20261126-103049.123.12-nightly-report";
        let lines = lines_of(&clusters.map(|cluster| (cluster, name)));
        let canvas = |width| Canvas { width, height: None, colours: false, unicode: true };
        let text = render_films(&lines, Some(clusters[0]), canvas(Some(80)));
        assert!(text.lines().all(|line| console::measure_text_width(line) <= 80), "{text}");
        let rows: Vec<&str> = text.lines().filter(|line| line.contains(name)).collect();
        assert!(rows.len() == 2 && rows[0] != rows[1] && text.contains("cluster"), "{text}");
        let (marked, others): (Vec<&str>, Vec<&str>) = rows.into_iter().partition(|row| row.starts_with('*'));
        assert!(marked.len() == 1 && marked[0].contains("374") && others[0].contains("999"), "{text}");
        let whole = render_films(&lines, None, canvas(None));
        assert!(clusters.iter().all(|cluster| whole.contains(&cluster.to_string())), "{whole}");
        assert!(!whole.contains('*'), "{whole}");
    }

    #[test]
    fn moments_are_told_apart_and_amounts_for_what_they_are() {
        let moments = |seconds: f64| -> Vec<String> {
            let header = FilmHeader { seconds, ..FilmHeader::for_tests() };
            let time = |at: usize| seconds * at as f64 / MOMENTS as f64;
            let moments: Vec<Moment> =
                (1..=MOMENTS).map(|at| Moment { seconds: time(at), blocks: 1, recent_blocks: 1 }).collect();
            moment_columns(&header, &moments.iter().collect::<Vec<_>>())[0].cells.clone()
        };
        for seconds in [0.05, 0.3, 2.0, 7.5, 600.0] {
            let mut told = moments(seconds);
            told.dedup();
            assert_eq!(told.len(), MOMENTS, "{seconds}: {told:?}");
        }
        assert_eq!(moments(2.0)[0], "0.1");
        let totals = cache::trace::Totals { preloaded_blocks: 128, ..Default::default() };
        let header = FilmHeader { totals, device_reads: Some(2), ..FilmHeader::for_tests() };
        let told = render_content(&header);
        assert!(told.contains("1 MB preloaded by pgthaw, not counting gaps"), "{told}");
        assert!(told.contains("2 device reads by all processes"), "{told}");
    }

    #[test]
    fn where_any_memory_suffices_there_is_no_table_of_less() {
        let curve = |blocks| {
            let points = vec![CurvePoint { blocks: 1, missed: 1000 }, CurvePoint { blocks, missed: 900 }];
            MissRatioCurve { requests: 1000, first_requests: 900, sampling: 0, points }
        };
        let canvas = Canvas { width: None, height: None, colours: false, unicode: true };
        let lines = |blocks| render_curve(&FilmHeader::for_tests(), &curve(blocks), canvas);
        assert!(lines(2).len() == 2 && !lines(2)[1].contains("with a smaller"), "{:?}", lines(2));
        assert!(lines(1024).len() > 3 && lines(1024)[1].ends_with("with a smaller page cache:"), "{:?}", lines(1024));
    }
}

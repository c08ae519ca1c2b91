//! Films: the list of them, and what one of them says.

use std::path::Path;

use serde_json::{Value, json};

use super::columns::{Column, render_columns};
use super::printable::printable;
use super::screen::Canvas;
use crate::cache::Generation;
use crate::trace::{Error, FilmHeader, FilmSummary, Moment, RelationTouches};
use crate::units::{Bytes, counted};

/// A film in the list: what it says of itself, or why it cannot be read.
#[derive(Debug)]
pub struct FilmLine {
    pub generation: Generation,
    pub header: Result<FilmHeader, Error>,
}

/// What was recorded, in a line or two.
pub fn render_recorded(path: &Path, header: &FilmHeader) -> String {
    let mut lines = vec![format!("kept film {}: {}", printable(&path.display().to_string()), render_content(header))];
    lines.extend(header.remarks.iter().map(|remark| format!("note: {}", printable(remark))));
    lines.join("\n")
}

/// How much a film holds.
fn render_content(header: &FilmHeader) -> String {
    let totals = header.totals;
    let mut parts = vec![format!("{} came in {:.1} s", header.bytes(totals.fetched_blocks), header.seconds)];
    let more = |blocks: u64, what: &str| (blocks > 0).then(|| format!("{} {what}", header.bytes(blocks)));
    parts.extend(more(totals.preloaded_blocks, "brought by pgthaw"));
    parts.extend(more(totals.buffers_blocks, "in shared_buffers before, not proven"));
    parts.extend(header.device_reads.map(|reads| format!("{} of the device", counted(reads, "read"))));
    parts.push(match header.lost_events {
        0 => "no event lost".to_owned(),
        lost => format!("{} lost", counted(lost, "event")),
    });
    parts.join(", ")
}

/// The films, one per row.
pub fn render_films(lines: &[FilmLine], canvas: Canvas) -> String {
    let texts = |text: &dyn Fn(&FilmLine) -> String| -> Vec<String> { lines.iter().map(text).collect() };
    let of_header = |text: &dyn Fn(&FilmHeader) -> String| -> Vec<String> {
        texts(&|line| line.header.as_ref().map(text).unwrap_or_default())
    };
    let mut columns = vec![
        Column::text("film", 24, texts(&|line| printable(&line.generation.name).into_owned())),
        Column::number("seconds", 2, of_header(&|header| format!("{:.1}", header.seconds))),
        Column::number("came", 0, of_header(&|header| header.bytes(header.totals.fetched_blocks).to_string())),
        Column::number("preloaded", 3, of_header(&|header| header.bytes(header.totals.preloaded_blocks).to_string())),
        Column::number("lost", 4, of_header(&|header| header.lost_events.to_string())),
        Column::text("job", 10, of_header(&|header| printable(&header.job).into_owned())),
    ];
    let trouble = texts(&|line| {
        line.header.as_ref().err().map(|why| printable(&why.to_string()).into_owned()).unwrap_or_default()
    });
    if trouble.iter().any(|why| !why.is_empty()) {
        columns.push(Column::text("cannot be read", 20, trouble));
    }
    render_columns(columns, canvas.width, canvas.mark()).join("\n")
}

/// A film, relation by relation, and its working set over time.
pub fn render_film(path: &Path, header: &FilmHeader, summary: &FilmSummary, canvas: Canvas) -> String {
    let job = if header.job.is_empty() { "whatever ran".to_owned() } else { printable(&header.job).into_owned() };
    let mut lines = vec![
        format!("{}: {job}", printable(&path.display().to_string())),
        format!("recorded {} {}", header.recorded_at.strftime("%F %T UTC"), printable(&header.recorder)),
        render_content(header),
    ];
    lines.extend(header.remarks.iter().map(|remark| format!("note: {}", printable(remark))));
    lines.push(String::new());
    lines.extend(render_columns(relation_columns(header, &summary.relations), canvas.width, canvas.mark()));
    lines.push(String::new());
    let cells = |text: &dyn Fn(&Moment) -> String| summary.moments.iter().map(text).collect::<Vec<_>>();
    let moments = vec![
        Column::number("by second", 0, cells(&|one| format!("{:.1}", one.time.as_secs_f64()))),
        Column::number("touched", 0, cells(&|one| header.bytes(one.blocks).to_string())),
        Column::number("since the line above", 0, cells(&|one| header.bytes(one.recent_blocks).to_string())),
    ];
    lines.extend(render_columns(moments, canvas.width, canvas.mark()));
    lines.join("\n")
}

fn relation_columns(header: &FilmHeader, relations: &[RelationTouches]) -> Vec<Column> {
    let cells = |text: &dyn Fn(&RelationTouches) -> String| relations.iter().map(text).collect::<Vec<_>>();
    let second = |one: &RelationTouches, last: bool| {
        one.span.map(|(from, to)| format!("{:.1}", if last { to } else { from }.as_secs_f64())).unwrap_or_default()
    };
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
        Column::number("first, s", 2, cells(&|one| second(one, false))),
        Column::number("last, s", 2, cells(&|one| second(one, true))),
        Column::number("in buffers", 3, cells(&buffers)),
    ]
}

/// What a film says of itself, for programs.
pub fn render_film_json(path: &Path, header: &FilmHeader) -> Value {
    json!({
        "path": path,
        "label": header.label,
        "recorded_at": header.recorded_at,
        "system_identifier": header.source.system_identifier.to_string(),
        "version_num": header.source.version_num,
        "block_size": header.source.block_size,
        "lsn": header.source.lsn,
        "timeline": header.source.timeline,
        "job": header.job,
        "recorder": header.recorder,
        "seconds": header.seconds,
        "lost_events": header.lost_events,
        "totals": header.totals,
        "device_reads": header.device_reads,
        "device_bytes": header.device_bytes.map(|Bytes(bytes)| bytes),
        "remarks": header.remarks,
    })
}

/// The list of films, for programs.
pub fn render_films_json(lines: &[FilmLine]) -> Value {
    let film = |line: &FilmLine| {
        let (header, error) = match &line.header {
            Ok(header) => (render_film_json(&line.generation.path, header), Value::Null),
            Err(error) => (Value::Null, error.to_string().into()),
        };
        json!({ "name": line.generation.name, "path": line.generation.path, "header": header, "error": error })
    };
    json!({ "films": lines.iter().map(film).collect::<Vec<_>>() })
}

/// A film with its relations and its working set, for programs.
pub fn render_film_summary_json(path: &Path, header: &FilmHeader, summary: &FilmSummary) -> Value {
    let relation = |one: &RelationTouches| {
        json!({
            "database": one.relation.name.database,
            "schema": one.relation.name.schema,
            "name": one.relation.name.name,
            "path": one.relation.path,
            "blocks": one.blocks,
            "pieces": one.events,
            "buffers_blocks": one.buffers_blocks,
            "first_seconds": one.span.map(|(first, _)| first.as_secs_f64()),
            "last_seconds": one.span.map(|(_, last)| last.as_secs_f64()),
        })
    };
    let moment = |one: &Moment| json!({ "seconds": one.time.as_secs_f64(), "blocks": one.blocks, "recent_blocks": one.recent_blocks });
    json!({
        "header": render_film_json(path, header),
        "relations": summary.relations.iter().map(relation).collect::<Vec<_>>(),
        "moments": summary.moments.iter().map(moment).collect::<Vec<_>>(),
    })
}

//! The map as a table.

use std::collections::BTreeSet;

use console::measure_text_width;

use super::columns::{Column, render_columns};
use super::counted::counted;
use super::map_bar::{Seen, render_bar, render_legend};
use super::printable::printable;
use super::screen::Canvas;
use crate::cache::{BarCell, ForkMap, Map, RelationMap, Residency, TierState, compute_bar};
use crate::postgres::RelationKind;
use crate::units::{Bytes, Fork};

/// The least width that names are cut to before columns are dropped.
const SHORTEST_NAME: usize = 28;

/// Lines around the rows: the time, titles, two of what is folded, the total, two of the legend with a line before it.
const FRAME_LINES: usize = 8;

/// What of the map is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct MapView {
    /// Rows at most; 0 for all.
    pub top: usize,
    /// A row per fork instead of one per relation.
    pub with_forks: bool,
    /// System catalogs as rows of their own.
    pub with_system: bool,
}

/// The relations of `map` at `places`, the largest first, with totals and remarks.
pub fn render_map(map: &Map, places: &[usize], view: MapView, canvas: Canvas) -> String {
    let selected = places.iter().filter_map(|place| map.relations.get(*place));
    let (system, mut shown): (Vec<&RelationMap>, Vec<&RelationMap>) =
        selected.partition(|one| one.relation.is_system && !view.with_system);
    shown.sort_by_key(|one| std::cmp::Reverse(one.blocks()));
    let mut rows = render_rows(map, &shown, view, canvas);
    if !system.is_empty() {
        rows.push(Row::folded(format!("system catalogs ({})", system.len()), &system));
    }
    let all: Vec<&RelationMap> = shown.iter().chain(&system).copied().collect();
    rows.push(Row::folded(format!("total ({})", counted(all.len(), "relation")), &all));
    let mark = if canvas.unicode { "…" } else { "~" };
    let mut lines = render_columns(columns(map, &rows, canvas), canvas.width, mark);
    lines.push(String::new());
    lines.push(render_legend(Seen::of(map), canvas));
    lines.extend(render_states(map));
    lines.join("\n")
}

/// Why a tier is unknown, and what else the reader should know.
pub fn render_states(map: &Map) -> Vec<String> {
    let state = |tier: &str, state: &TierState| match state {
        TierState::Measured => None,
        TierState::Unknown { reason } => Some(format!("{tier}: unknown, {}", printable(reason))),
    };
    let states = [state("OS page cache", &map.os), state("shared_buffers", &map.buffers)];
    let remarks = map.remarks.iter().map(|remark| format!("note: {}", printable(remark)));
    states.into_iter().flatten().chain(remarks).collect()
}

/// A line of the table.
struct Row<'a> {
    name: String,
    database: &'a str,
    kind: &'static str,
    fork: &'static str,
    residency: Residency,
    bar: Option<&'a ForkMap>,
}

impl<'a> Row<'a> {
    fn relation(one: &'a RelationMap) -> Row<'a> {
        Row { residency: one.residency(), fork: "", ..Row::fork(one, one.forks.first()) }
    }

    fn fork(one: &'a RelationMap, fork: Option<&'a ForkMap>) -> Row<'a> {
        Row {
            name: printable(&display_name(one)).into_owned(),
            database: &one.relation.name.database,
            kind: short_kind(one.relation.kind),
            fork: fork.map_or("", |fork| fork.fork.name()),
            residency: fork.map(ForkMap::residency).unwrap_or_default(),
            bar: fork.filter(|fork| fork.fork == Fork::Main || fork.blocks > 0),
        }
    }

    /// One line for several relations.
    fn folded(name: String, relations: &[&RelationMap]) -> Row<'a> {
        let residency = relations.iter().map(|one| one.residency()).sum();
        Row { name, database: "", kind: "", fork: "", residency, bar: None }
    }
}

/// The rows of relations or forks, and one for those that are too many.
fn render_rows<'a>(map: &Map, shown: &[&'a RelationMap], view: MapView, canvas: Canvas) -> Vec<Row<'a>> {
    let fitting = canvas.height.map(|height| height.saturating_sub(FRAME_LINES + states_height(map, canvas)).max(1));
    let top = [view.top, fitting.unwrap_or(0)].into_iter().filter(|limit| *limit > 0).min().unwrap_or(usize::MAX);
    let rows_of = |one: &'a RelationMap| match view.with_forks {
        true => one.forks.iter().map(|fork| Row::fork(one, Some(fork))).collect(),
        false => vec![Row::relation(one)],
    };
    let mut rows = Vec::new();
    for (place, one) in shown.iter().enumerate() {
        let more = rows_of(one);
        if rows.len() + more.len() > top {
            let rest = &shown[place..];
            rows.push(Row::folded(counted(rest.len(), "smaller one"), rest));
            break;
        }
        rows.extend(more);
    }
    rows
}

/// Lines of the terminal that the states and remarks take: they may be longer than one.
fn states_height(map: &Map, canvas: Canvas) -> usize {
    let lines = |text: &String| canvas.width.map_or(1, |width| measure_text_width(text).div_ceil(width.max(1)).max(1));
    render_states(map).iter().map(lines).sum()
}

/// `schema.name`; of a file without a name its path.
fn display_name(one: &RelationMap) -> String {
    let name = &one.relation.name;
    if name.schema.is_empty() { name.name.clone() } else { name.to_string() }
}

fn short_kind(kind: RelationKind) -> &'static str {
    match kind {
        RelationKind::MaterializedView => "matview",
        RelationKind::Unknown => "file",
        other => other.name(),
    }
}

/// What goes first when the terminal is narrow has the greatest number.
fn columns(map: &Map, rows: &[Row<'_>], canvas: Canvas) -> Vec<Column> {
    let texts = |text: &dyn Fn(&Row<'_>) -> String| -> Vec<String> { rows.iter().map(text).collect() };
    let block_size = u64::from(map.source.block_size);
    let bytes = |blocks: u64| Bytes(blocks * block_size).to_string();
    let databases: BTreeSet<&str> = rows.iter().map(|row| row.database).filter(|name| !name.is_empty()).collect();
    let mut columns = vec![Column::text("relation", SHORTEST_NAME, texts(&|row| row.name.clone()))];
    if databases.len() > 1 {
        columns.push(Column::word("database", 3, texts(&|row| printable(row.database).into_owned())));
    }
    columns.push(Column::word("kind", 5, texts(&|row| row.kind.to_owned())));
    if rows.iter().any(|row| !row.fork.is_empty()) {
        columns.push(Column::word("fork", 0, texts(&|row| row.fork.to_owned())));
    }
    columns.push(Column::number("size", 0, texts(&|row| bytes(row.residency.blocks))));
    let has_os = map.os == TierState::Measured;
    let has_buffers = map.buffers == TierState::Measured;
    if has_os {
        columns.push(Column::number("OS", 0, texts(&|row| render_percent(row.residency.os_ratio()))));
    }
    if has_buffers {
        columns.push(Column::number("buffers", 0, texts(&|row| render_percent(row.residency.buffers_ratio()))));
    }
    if has_os && has_buffers {
        columns.push(Column::number("both", 4, texts(&|row| render_percent(row.residency.both_ratio()))));
    }
    if has_buffers {
        let dirty = |row: &Row<'_>| if row.residency.dirty > 0 { bytes(row.residency.dirty) } else { String::new() };
        columns.push(Column::number("dirty", 6, texts(&dirty)));
        columns.push(Column::word("usage", 7, texts(&|row| render_usage(&row.residency))));
    }
    let cells = bar_cells(canvas.width);
    let bar = |row: &Row<'_>| {
        let cells: Vec<BarCell> = row.bar.map(|fork| compute_bar(fork, cells)).unwrap_or_default();
        render_bar(&cells, Seen::of(map), canvas)
    };
    columns.push(Column::word("where", 2, texts(&bar)));
    columns
}

/// A wide terminal shows more precisely where.
fn bar_cells(width: Option<usize>) -> usize {
    match width {
        Some(..110) => 20,
        Some(110..140) => 30,
        _ => 40,
    }
}

/// A share in whole percent. 0 % and 100 % mean none and all.
pub fn render_percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    match percent {
        0.0 => "0%".to_owned(),
        ..1.0 => "<1%".to_owned(),
        100.0.. => "100%".to_owned(),
        _ => format!("{}%", (percent.round() as u64).min(99)),
    }
}

/// The two most frequent usage counts, the higher first, with their shares of the relation's buffers: `u5 12% u1 80%`.
fn render_usage(residency: &Residency) -> String {
    let mut levels: Vec<(usize, u64)> = residency.usage_counts.iter().copied().enumerate().collect();
    levels.retain(|(_, blocks)| *blocks > 0);
    levels.sort_by_key(|(_, blocks)| std::cmp::Reverse(*blocks));
    levels.truncate(2);
    levels.sort_by_key(|(usage_count, _)| std::cmp::Reverse(*usage_count));
    let share = |blocks: u64| render_percent(blocks as f64 / residency.buffers as f64);
    let texts: Vec<String> =
        levels.into_iter().map(|(usage_count, blocks)| format!("u{usage_count} {}", share(blocks))).collect();
    texts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::MapSource;
    use crate::postgres::{Relation, RelationName, RelationPath};

    fn relation(number: u32, name: &str, is_system: bool, blocks: u64) -> RelationMap {
        let name = RelationName { database: "app".into(), schema: "public".into(), name: name.into() };
        let relation = Relation {
            name,
            kind: RelationKind::MaterializedView,
            oid: number,
            path: RelationPath::Base { database_oid: 5, relfilenumber: number },
            tablespace: "pg_default".into(),
            parent: None,
            is_system,
        };
        let mut main = ForkMap::empty(Fork::Main, blocks);
        main.os.insert_range(0..blocks as u32 / 2);
        main.buffers[1].insert_range(0..blocks as u32 / 4);
        main.buffers[5].insert(blocks as u32 - 1);
        main.dirty.insert(0);
        RelationMap { relation, forks: vec![main, ForkMap::empty(Fork::Vm, 1)] }
    }

    fn map() -> Map {
        let source = MapSource {
            system_identifier: 7,
            version_num: 150_018,
            block_size: 8192,
            segment_blocks: 131_072,
            data_directory: None,
            lsn: String::new(),
            timeline: 1,
        };
        let long = "a_name_as_long_as_postgresql_lets_one_be_which_is_63_characters";
        Map {
            taken_at: jiff::Timestamp::UNIX_EPOCH,
            source,
            os: TierState::Measured,
            buffers: TierState::Measured,
            os_heat: Default::default(),
            relations: vec![
                relation(1, "small", false, 10),
                relation(2, long, false, 100_000),
                relation(3, "pg_class", true, 20),
            ],
            remarks: Vec::new(),
        }
    }

    const WIDE: Canvas = Canvas { width: None, height: None, colours: false, unicode: true };

    fn lines(map: &Map, view: MapView, canvas: Canvas) -> Vec<String> {
        let places: Vec<usize> = (0..map.relations.len()).collect();
        render_map(map, &places, view, canvas).lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_largest_is_first_and_catalogs_are_one_line() {
        let lines = lines(&map(), MapView::default(), WIDE);
        let starts =
            ["relation ", "public.a_name_as_long", "public.small ", "system catalogs (1)", "total (3 relations)"];
        for (line, start) in lines.iter().zip(starts) {
            assert!(line.starts_with(start), "{lines:#?}");
        }
        for part in ["matview", "781 MB", "50%", "25%", "8 kB", "u5 <1% u1 99%", "███"] {
            assert!(lines[1].contains(part), "{part}: {}", lines[1]);
        }
    }

    #[test]
    fn it_fits_every_terminal() {
        for width in 62..200 {
            for view in [MapView::default(), MapView { with_forks: true, with_system: true, top: 2 }] {
                for line in lines(&map(), view, Canvas { width: Some(width), ..WIDE }) {
                    assert!(measure_text_width(&line) <= width.max(75), "{width}: {line}");
                }
            }
        }
        let narrow = &lines(&map(), MapView::default(), Canvas { width: Some(80), ..WIDE })[1];
        assert!(narrow.starts_with("public.a_name_") && narrow.contains('…') && narrow.contains('▓'), "{narrow}");
        for height in 10..14 {
            let view = MapView { with_forks: true, with_system: true, top: 0 };
            let lines = lines(&map(), view, Canvas { width: Some(80), height: Some(height), ..WIDE });
            assert!(lines.len() < height, "{height}: {lines:#?}");
        }
    }

    #[test]
    fn what_is_unknown_is_not_drawn_as_cold() {
        let mut map = map();
        map.os = TierState::Unknown { reason: "a managed server".into() };
        map.remarks = vec!["look \x1b here".into()];
        let lines = lines(&map, MapView::default(), WIDE);
        assert!(!lines[0].contains("OS") && lines[0].contains("buffers") && !lines[0].contains("both"), "{lines:#?}");
        assert!(!lines[1].contains('·') && lines[1].contains('?'), "{lines:#?}");
        let end = &lines[lines.len() - 2..];
        assert_eq!(end, ["OS page cache: unknown, a managed server", "note: look \\u{1b} here"]);
    }

    #[test]
    fn percent_never_rounds_to_none_or_all() {
        let texts = [0.0, 0.0001, 0.01, 0.5, 0.999, 1.0].map(render_percent);
        assert_eq!(texts, ["0%", "<1%", "1%", "50%", "99%", "100%"]);
    }
}

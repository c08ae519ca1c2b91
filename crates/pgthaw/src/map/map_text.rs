use std::collections::BTreeSet;

use console::{Color, Style, measure_text_width};

use cache::{
    BarCell, Difference, ForkDifference, ForkMap, Group, Map, RelationDifference, Residency, RolledUp, TierDifference,
    TierState, compute_bar, compute_difference, compute_groups,
};
use host::units::{Bytes, Fork, counted};
use postgres::RelationKind;
use terminal::{Canvas, Column, database_column, printable, render_columns, wrap_text};

/// Minimum width to which names are cut before columns are dropped.
const SHORTEST_NAME: usize = 28;

/// Lines of the map other than relations: time, titles, two summary rows, total, and a legend of three lines.
const FRAME_LINES: usize = 8;

/// Lines of the column legend, which is omitted on terminals with fewer than `TALL` lines.
const COLUMN_LEGEND_LINES: usize = 4;
const TALL: usize = 16;

const CHANGES: &str = "+-";

#[derive(Clone, Copy, Debug, Default)]
pub struct MapView<'a> {
    /// The previous sample; adds columns of changes.
    pub before: Option<&'a Map>,
    /// Number of rows; 0 for all.
    pub top: usize,
    pub rolled_up: RolledUp,
    pub with_forks: bool,
    pub with_system: bool,
}

pub fn render_map(map: &Map, places: &[usize], view: MapView<'_>, canvas: Canvas) -> String {
    let difference = view.before.map(|before| compute_difference(before, map));
    let changes = difference.as_ref().map_or(&[][..], |difference| &difference.relations);
    let groups = compute_groups(map, places, if view.with_forks { RolledUp::Not } else { view.rolled_up });
    let (system, mut shown): (Vec<&Group>, Vec<&Group>) =
        groups.iter().partition(|one| one.is_system && !view.with_system);
    shown.sort_by_cached_key(|one| std::cmp::Reverse(one.residency(map).blocks));
    let mut rows = render_rows(map, changes, &shown, view, canvas);
    let relations = |groups: &[&Group]| -> usize { groups.iter().map(|one| one.members.len()).sum() };
    if !system.is_empty() {
        rows.push(Row::folded(format!("system catalogs ({})", relations(&system)), map, changes, &system));
    }
    let all: Vec<&Group> = shown.iter().chain(&system).copied().collect();
    rows.push(Row::folded(format!("total ({})", counted(relations(&all), "relation")), map, changes, &all));
    let mut lines = render_columns(columns(map, &rows, difference.as_ref(), canvas), canvas.width, canvas.mark());
    let titles = lines.first().cloned().unwrap_or_default();
    let mut legend: Vec<String> =
        is_there(&titles, "where").then(|| render_legend(Seen::of(map), canvas)).into_iter().collect();
    if is_tall(canvas) {
        let of_columns = render_column_legend(&titles, &rows);
        legend.extend(of_columns.iter().map(|told| wrap_text(told, canvas.width)));
    }
    lines.extend((!legend.is_empty()).then(String::new).into_iter().chain(legend));
    lines.extend(render_states(map));
    lines.join("\n")
}

fn is_there(titles: &str, title: &str) -> bool {
    titles.split_whitespace().any(|one| one == title)
}

fn render_column_legend(titles: &str, rows: &[Row<'_>]) -> Vec<String> {
    let is_there = |title| is_there(titles, title);
    let mut lines = Vec::new();
    if is_there(CHANGES) {
        lines.push("+-: loads (+) and evictions (-) since the last update, in the cache to the left".to_owned());
    }
    if is_there("both") {
        lines.push("both: in shared_buffers and also in the OS page cache, so twice in memory".to_owned());
    }
    if is_there("usage")
        && let Some(usage) = rows.iter().map(|row| render_usage(&row.residency)).find(|usage| !usage.is_empty())
    {
        let mut words = usage.split(' ');
        let (count, share) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let number = count.trim_start_matches('u');
        lines.push(format!("{count} {share}: {share} of the row's buffers have usage count {number} (of 0 to 5)"));
    }
    if is_there("kind")
        && let Some(row) = rows.iter().find(|row| row.parts > 0)
    {
        let what = match row.parts {
            1 => "an index or a TOAST table".to_owned(),
            parts => format!("{parts} other relations (indexes, TOAST tables)"),
        };
        let unfold = if rows.iter().any(|row| row.is_partitioned) {
            "details: --by partition or --by relation"
        } else {
            "--by relation splits the row"
        };
        lines.push(format!("+{}: with {what}; {unfold}", row.parts));
    }
    lines
}

pub fn render_states(map: &Map) -> Vec<String> {
    let state = |tier: &str, state: &TierState| match state {
        TierState::Measured => None,
        TierState::Unknown { reason } => Some(format!("{tier}: unknown, {}", printable(reason))),
    };
    let states = [state("OS page cache", &map.os), state("shared_buffers", &map.buffers)];
    let remarks = map.remarks.iter().map(|remark| format!("note: {}", printable(remark)));
    states.into_iter().flatten().chain(remarks).collect()
}

fn render_change(change: TierDifference, block_size: u64) -> String {
    let part = |sign: char, blocks: u64| (blocks > 0).then(|| format!("{sign}{}", Bytes(blocks * block_size)));
    let parts: Vec<String> = [part('+', change.gained), part('-', change.lost)].into_iter().flatten().collect();
    parts.join(" ")
}

struct Row<'a> {
    name: String,
    database: &'a str,
    kind: String,
    /// Number of indexes and TOAST tables included.
    parts: usize,
    is_partitioned: bool,
    fork: &'static str,
    residency: Residency,
    changes: Vec<&'a ForkDifference>,
    bar: Vec<&'a ForkMap>,
}

impl<'a> Row<'a> {
    fn group(group: &'a Group, map: &'a Map, changes: &'a [RelationDifference<'a>]) -> Row<'a> {
        Row {
            name: display_name(group),
            database: &group.name.database,
            kind: match group.parts(map) {
                0 => short_kind(group.kind).to_owned(),
                parts => format!("{} +{parts}", short_kind(group.kind)),
            },
            parts: group.parts(map),
            is_partitioned: group.partitions.is_some(),
            fork: "",
            residency: group.residency(map),
            changes: changes_of(group, changes, None),
            bar: group.forks(map),
        }
    }

    fn fork(group: &'a Group, map: &'a Map, changes: &'a [RelationDifference<'a>], fork: &'a ForkMap) -> Row<'a> {
        let of_fork = changes_of(group, changes, Some(fork.fork));
        let of_group = Row::group(group, map, changes);
        Row { fork: fork.fork.name(), residency: fork.residency(), changes: of_fork, bar: vec![fork], ..of_group }
    }

    fn folded(name: String, map: &Map, changes: &'a [RelationDifference<'a>], groups: &[&Group]) -> Row<'a> {
        let residency = groups.iter().map(|one| one.residency(map)).sum();
        let changes = groups.iter().flat_map(|one| changes_of(one, changes, None)).collect();
        let (kind, bar) = (String::new(), Vec::new());
        Row { name, database: "", kind, parts: 0, is_partitioned: false, fork: "", residency, changes, bar }
    }
}

fn changes_of<'a>(group: &Group, changes: &'a [RelationDifference<'a>], fork: Option<Fork>) -> Vec<&'a ForkDifference> {
    let of_members = group.members.iter().filter_map(|place| changes.get(*place)).flat_map(|one| &one.forks);
    of_members.filter(|one| fork.is_none_or(|fork| fork == one.fork)).collect()
}

fn render_rows<'a>(
    map: &'a Map,
    changes: &'a [RelationDifference<'a>],
    shown: &[&'a Group],
    view: MapView<'_>,
    canvas: Canvas,
) -> Vec<Row<'a>> {
    let legend = if is_tall(canvas) { COLUMN_LEGEND_LINES } else { 0 };
    let around = FRAME_LINES + legend + states_height(map, canvas);
    let fitting = canvas.height.map(|height| height.saturating_sub(around).max(1));
    let top = [view.top, fitting.unwrap_or(0)].into_iter().filter(|limit| *limit > 0).min().unwrap_or(usize::MAX);
    let rows_of = |one: &'a Group| match view.with_forks {
        true => one
            .relations(map)
            .flat_map(|relation| &relation.forks)
            .map(|fork| Row::fork(one, map, changes, fork))
            .collect(),
        false => vec![Row::group(one, map, changes)],
    };
    let mut rows = Vec::new();
    for (place, one) in shown.iter().enumerate() {
        let more = rows_of(one);
        if rows.len() + more.len() > top {
            let rest = &shown[place..];
            rows.push(Row::folded(counted(rest.len(), "smaller one"), map, changes, rest));
            break;
        }
        rows.extend(more);
    }
    rows
}

fn is_tall(canvas: Canvas) -> bool {
    canvas.height.is_none_or(|height| height >= TALL)
}

fn states_height(map: &Map, canvas: Canvas) -> usize {
    let lines = |text: &String| canvas.width.map_or(1, |width| measure_text_width(text).div_ceil(width.max(1)).max(1));
    render_states(map).iter().map(lines).sum()
}

fn display_name(group: &Group) -> String {
    let name = group.name.to_string();
    let name = printable(&name);
    match group.partitions {
        Some(partitions) => format!("{name} ({})", counted(partitions, "partition")),
        None => name.into_owned(),
    }
}

fn short_kind(kind: RelationKind) -> &'static str {
    match kind {
        RelationKind::MaterializedView => "matview",
        RelationKind::Unknown => "file",
        other => other.name(),
    }
}

/// A narrow terminal drops the columns with the highest priority numbers first.
fn columns(map: &Map, rows: &[Row<'_>], difference: Option<&Difference<'_>>, canvas: Canvas) -> Vec<Column> {
    let texts = |text: &dyn Fn(&Row<'_>) -> String| -> Vec<String> { rows.iter().map(text).collect() };
    let block_size = u64::from(map.source.block_size);
    let bytes = |blocks: u64| Bytes(blocks * block_size).to_string();
    let databases: BTreeSet<&str> = rows.iter().map(|row| row.database).filter(|name| !name.is_empty()).collect();
    let mut columns = vec![Column::text("relation", SHORTEST_NAME, texts(&|row| row.name.clone()))];
    if databases.len() > 1 {
        let of_rows = rows.iter().filter(|row| !row.database.is_empty()).map(|row| (&*row.name, row.database));
        columns.push(database_column(3, texts(&|row| printable(row.database).into_owned()), of_rows));
    }
    columns.push(Column::word("kind", 5, texts(&|row| row.kind.clone())));
    if rows.iter().any(|row| !row.fork.is_empty()) {
        columns.push(Column::word("fork", 0, texts(&|row| row.fork.to_owned())));
    }
    columns.push(Column::number("size", 0, texts(&|row| bytes(row.residency.blocks))));
    let Seen { os: has_os, buffers: has_buffers } = Seen::of(map);
    let change = |is_known: bool, tier: fn(&ForkDifference) -> TierDifference| {
        let sum = |row: &Row<'_>| row.changes.iter().filter(|_| is_known).map(|fork| tier(fork)).sum();
        Column::number(CHANGES, 1, texts(&|row| format!("{:>7}", render_change(sum(row), block_size))))
    };
    if has_os {
        columns.push(Column::number("OS", 0, texts(&|row| render_percent(row.residency.os_ratio()))));
        columns.extend(difference.map(|all| change(all.has_os, |fork| fork.os)));
    }
    if has_buffers {
        columns.push(Column::number("buffers", 0, texts(&|row| render_percent(row.residency.buffers_ratio()))));
        columns.extend(difference.map(|all| change(all.has_buffers, |fork| fork.buffers)));
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
        let cells = if row.bar.is_empty() { Vec::new() } else { compute_bar(&row.bar, cells) };
        render_bar(&cells, Seen::of(map), canvas)
    };
    columns.push(Column::word("where", 2, texts(&bar)));
    columns
}

fn bar_cells(width: Option<usize>) -> usize {
    match width {
        Some(..110) => 20,
        Some(110..140) => 30,
        _ => 40,
    }
}

/// Renders 0 % only for 0, and 100 % only for 1.
fn render_percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    match percent {
        0.0 => "0%".to_owned(),
        ..1.0 => "<1%".to_owned(),
        100.0.. => "100%".to_owned(),
        _ => format!("{}%", (percent.round() as u64).min(99)),
    }
}

/// The two most frequent usage counts: `u5 12% u1 80%`.
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

/// Glyphs of cells cached mostly in shared_buffers. Their height shows the cached share.
const BUFFERS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const BUFFERS_ASCII: [char; 3] = ['o', 'O', '#'];

/// Glyphs of cells cached mostly in the page cache alone. Their density shows the cached share.
const OS: [char; 3] = ['░', '▒', '▓'];
const OS_ASCII: [char; 3] = ['-', '~', '='];

const COLD: [char; 1] = ['·'];
const COLD_ASCII: [char; 1] = ['.'];

/// Glyph if one cache is not visible and the other has no block of the cell.
const UNKNOWN: [char; 1] = ['?'];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    pub os: bool,
    pub buffers: bool,
}

impl Seen {
    pub fn of(map: &Map) -> Seen {
        Seen { os: map.os == TierState::Measured, buffers: map.buffers == TierState::Measured }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellLook {
    Cold,
    Unknown,
    Os,
    Buffers,
}

impl CellLook {
    fn of(cell: BarCell, seen: Seen) -> CellLook {
        match cell {
            BarCell { any: 0.0, .. } if seen.os && seen.buffers => CellLook::Cold,
            BarCell { any: 0.0, .. } => CellLook::Unknown,
            _ if cell.buffers * 2.0 >= cell.any => CellLook::Buffers,
            _ => CellLook::Os,
        }
    }

    fn style(self) -> Style {
        match self {
            CellLook::Cold | CellLook::Unknown => Style::new().dim(),
            CellLook::Os => Style::new().fg(Color::Cyan),
            CellLook::Buffers => Style::new().fg(Color::Yellow),
        }
    }
}

fn render_bar(cells: &[BarCell], seen: Seen, canvas: Canvas) -> String {
    let look = |cell: &BarCell| CellLook::of(*cell, seen);
    let run = |cells: &[BarCell]| {
        let glyphs: String = cells.iter().map(|cell| glyph(*cell, look(cell), canvas.unicode)).collect();
        match canvas.colours {
            true => look(&cells[0]).style().force_styling(true).apply_to(glyphs).to_string(),
            false => glyphs,
        }
    };
    cells.chunk_by(|one, other| look(one) == look(other)).map(run).collect()
}

fn render_legend(seen: Seen, canvas: Canvas) -> String {
    let growing = |os: f64, buffers: f64| {
        let cells = [0.3, 0.6, 1.0].map(|any| BarCell { os: os * any, buffers: buffers * any, any });
        render_bar(&cells, seen, canvas)
    };
    let nothing = render_bar(&[BarCell::default()], seen, canvas);
    let nothing = match seen {
        Seen { os: true, buffers: true } => format!("{nothing} cold"),
        Seen { os: true, buffers: false } => format!("{nothing} not cached, shared_buffers not visible"),
        Seen { os: false, buffers: true } => format!("{nothing} not cached, OS page cache not visible"),
        Seen { os: false, buffers: false } => format!("{nothing} not visible"),
    };
    let buffers = seen.buffers.then(|| format!("{} shared_buffers", growing(0.0, 1.0)));
    let os = seen.os.then(|| format!("{} OS page cache", growing(1.0, 0.0)));
    let glyphs: Vec<String> = buffers.into_iter().chain(os).chain([nothing]).collect();
    let order = "blocks in file order, indexes last; a fuller cell has more cached blocks";
    format!("{}\n{order}", glyphs.join("  "))
}

/// Chooses a glyph by the cached share. Only a share of 1 gets the last glyph.
fn glyph(cell: BarCell, look: CellLook, unicode: bool) -> char {
    let glyphs: &[char] = match (look, unicode) {
        (CellLook::Unknown, _) => &UNKNOWN,
        (CellLook::Cold, true) => &COLD,
        (CellLook::Cold, false) => &COLD_ASCII,
        (CellLook::Os, true) => &OS,
        (CellLook::Os, false) => &OS_ASCII,
        (CellLook::Buffers, true) => &BUFFERS,
        (CellLook::Buffers, false) => &BUFFERS_ASCII,
    };
    let place = (cell.any * (glyphs.len() - 1) as f64).floor() as usize;
    glyphs[place.min(glyphs.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::{MapSource, RelationMap};
    use host::units::Fork;
    use postgres::{Relation, RelationName, RelationPath};

    fn relation(number: u32, name: &str, is_system: bool, blocks: u64) -> RelationMap {
        let name = RelationName { database: "app".into(), schema: "public".into(), name: name.into() };
        let relation = Relation {
            name,
            kind: RelationKind::MaterializedView,
            oid: number,
            path: RelationPath::base(5, number),
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
            empty: Vec::new(),
            partitioned: Vec::new(),
            lookups: Default::default(),
            remarks: Vec::new(),
        }
    }

    const WIDE: Canvas = Canvas { width: None, height: None, colours: false, unicode: true };

    fn lines(map: &Map, view: MapView<'_>, canvas: Canvas) -> Vec<String> {
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
    fn what_came_and_went_since_the_look_before_has_columns() {
        let before = map();
        let mut map = map();
        map.relations[0].forks[0].os.insert_range(5..8);
        map.relations[1].forks[0].os.remove_range(0..1536);
        let view = MapView { before: Some(&before), ..Default::default() };
        let shown = lines(&map, view, WIDE);
        assert_eq!(shown[0].matches("+-").count(), 2, "{shown:#?}");
        for (line, change) in [(1, " -12 MB "), (2, " +24 kB "), (4, " +24 kB -12 MB ")] {
            assert!(shown[line].contains(change), "{change}: {shown:#?}");
        }
        let shown = lines(&map, MapView { with_forks: true, ..view }, WIDE).join("\n");
        assert!(shown.contains("+-: loads (+)") && shown.matches("+24 kB").count() == 2, "{shown}");
        for width in 62..200 {
            for line in lines(&map, view, Canvas { width: Some(width), ..WIDE }) {
                assert!(measure_text_width(&line) <= width.max(75), "{width}: {line}");
            }
        }
        let same = MapView { before: Some(&map), ..Default::default() };
        assert!(!lines(&map, same, WIDE)[1].contains('+'), "{:#?}", lines(&map, same, WIDE));
    }

    #[test]
    fn it_fits_every_terminal() {
        for width in 62..200 {
            for view in
                [MapView::default(), MapView { with_forks: true, with_system: true, top: 2, ..Default::default() }]
            {
                for line in lines(&map(), view, Canvas { width: Some(width), ..WIDE }) {
                    assert!(measure_text_width(&line) <= width.max(75), "{width}: {line}");
                }
            }
        }
        let narrow = &lines(&map(), MapView::default(), Canvas { width: Some(80), ..WIDE })[1];
        assert!(narrow.starts_with("public.a_name_") && narrow.contains('…') && narrow.contains('▓'), "{narrow}");
        for height in 10..20 {
            let view = MapView { with_forks: true, with_system: true, top: 0, ..Default::default() };
            let lines = lines(&map(), view, Canvas { width: Some(80), height: Some(height), ..WIDE });
            assert!(lines.len() < height, "{height}: {lines:#?}");
        }
    }

    #[test]
    fn the_legend_tells_of_what_is_shown_and_of_nothing_else() {
        let mut map = map();
        let shown = lines(&map, MapView::default(), WIDE).join("\n");
        assert!(shown.contains("\nboth: ") && shown.contains("\nu5 <1%: <1% of the row's buffers"), "{shown}");
        assert!(!shown.contains("--by relation splits"), "{shown}");
        map.relations[0].relation.kind = RelationKind::Index;
        map.relations[0].relation.parent = Some(map.relations[1].relation.name.to_string());
        let shown = lines(&map, MapView::default(), WIDE).join("\n");
        assert!(shown.contains("+1: with an index or a TOAST table; --by relation splits the row"), "{shown}");
        map.os = TierState::Unknown { reason: "not seen".into() };
        assert!(!lines(&map, MapView::default(), WIDE).join("\n").contains("both"));
        map.buffers = map.os.clone();
        assert!(!lines(&map, MapView::default(), WIDE).join("\n").contains("usage"));
    }

    #[test]
    fn a_bar_is_of_all_that_its_row_counts() {
        let mut map = map();
        map.relations[0].relation.kind = RelationKind::Index;
        map.relations[0].relation.parent = Some(map.relations[1].relation.name.to_string());
        map.relations[1].relation.kind = RelationKind::Table;
        map.relations[0].forks = vec![ForkMap::empty(Fork::Main, 300)];
        map.relations[0].forks[0].os.insert_range(0..300);
        map.relations[1].forks = vec![ForkMap::empty(Fork::Main, 100)];
        let view = MapView { rolled_up: RolledUp::ToPartition, ..Default::default() };
        let row = lines(&map, view, WIDE).swap_remove(1);
        assert!(row.contains(" 75% ") && row.contains(&("·".repeat(10) + &"▓".repeat(30))), "{row}");
    }

    #[test]
    fn databases_stay_where_names_repeat_and_a_legend_goes_with_its_column() {
        let mut map = map();
        let narrow = Canvas { width: Some(60), ..WIDE };
        map.relations[0].relation.name.database = "other".into();
        let shown = lines(&map, MapView::default(), narrow);
        assert!(!shown[0].contains("database"), "{shown:#?}");
        map.relations[0].relation.name.name = map.relations[1].relation.name.name.clone();
        let shown = lines(&map, MapView::default(), narrow);
        assert!(shown[0].contains("database") && !shown[0].contains("where"), "{shown:#?}");
        assert!(!shown.join("\n").contains("in shared_buffers and also in"), "{shown:#?}");
        assert!(!shown.join("\n").contains("blocks in file order"), "{shown:#?}");
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

#[cfg(test)]
mod bar_tests {
    use super::*;

    const PLAIN: Canvas = Canvas { width: None, height: None, colours: false, unicode: true };

    const BOTH: Seen = Seen { os: true, buffers: true };

    fn cells() -> Vec<BarCell> {
        let cell = |os: f64, buffers: f64, any: f64| BarCell { os, buffers, any };
        vec![
            cell(0.0, 0.0, 0.0),
            cell(0.001, 0.0, 0.001),
            cell(0.5, 0.0, 0.5),
            cell(1.0, 0.4, 1.0),
            cell(1.0, 0.5, 1.0),
            cell(0.0, 0.01, 0.01),
            cell(0.0, 0.99, 0.99),
        ]
    }

    #[test]
    fn glyphs_tell_the_tiers_apart() {
        assert_eq!(render_bar(&cells(), BOTH, PLAIN), "·░▒▓█▁▇");
        assert_eq!(render_bar(&cells(), BOTH, Canvas { unicode: false, ..PLAIN }), ".-~=#oO");
    }

    #[test]
    fn what_was_not_seen_is_not_called_cold() {
        let os_alone = Seen { os: true, buffers: false };
        assert_eq!(render_bar(&cells()[..3], os_alone, PLAIN), "?░▒");
        let legend = render_legend(os_alone, PLAIN);
        assert!(legend.contains("░▒▓ OS page cache  ? not cached") && !legend.contains("cold"), "{legend}");
        assert!(render_legend(BOTH, PLAIN).contains("▃▅█ shared_buffers"), "{}", render_legend(BOTH, PLAIN));
    }

    #[test]
    fn colours_tell_them_apart_too_and_change_no_glyph() {
        let coloured = render_bar(&cells(), BOTH, Canvas { colours: true, ..PLAIN });
        assert_eq!(console::strip_ansi_codes(&coloured), "·░▒▓█▁▇");
        assert_eq!(coloured.matches("\x1b[36m").count(), 1);
        assert_eq!(coloured.matches("\x1b[33m").count(), 1);
    }
}

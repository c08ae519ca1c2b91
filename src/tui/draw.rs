//! Drawing the live map: what is looked at, the rows that fit, what the keys do.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table};

use super::changes::{Changed, render_change};
use super::live_map::LiveMap;
use super::rows::Row;
use crate::cache::{Map, Residency, TierState, compute_bar};
use crate::terminal::{
    Canvas, CellLook, Seen, database_priority, printable, render_bar_runs, render_percent, render_states,
    shorten_middle,
};
use crate::units::{Bytes, Fork, counted};

/// What names are cut to before columns are left out.
const SHORTEST_NAME: usize = 30;
/// Lines that what the reader has to know may take from the table.
const MESSAGE_LINES: usize = 4;
/// The title of what came and went since the last look.
const CHANGES: &str = "+-";
/// The title of the bars.
const BARS: &str = "where";
/// What the keys do, in the words that there is room for.
const KEYS: [&str; 3] = [
    "q quit  Enter unfold  s sort  b by  / filter  f forks  c catalogs  p pause",
    "q quit  Enter open  s sort  b by  / find  f fork  c cat  p pause",
    "q quit Enter open s sort b by / find f fork c cat p pause",
];
const BAR_CELLS: usize = 10;
const BAR_CELLS_WIDE: usize = 24;

/// Draws everything.
pub fn draw_map(frame: &mut Frame<'_>, live: &mut LiveMap, canvas: Canvas) {
    let states = state_lines(live, frame.area().width.into());
    let heights = [1, 1, u16::try_from(states.len()).unwrap_or(0)].map(Constraint::Length);
    let [status, total, messages] = heights;
    let areas =
        Layout::vertical([status, total, Constraint::Min(2), messages, Constraint::Length(1), Constraint::Length(1)]);
    let [status, total, table, messages, legend, keys] = areas.areas(frame.area());
    live.scroll(usize::from(table.height.saturating_sub(1)));
    frame.render_widget(Paragraph::new(status_line(live)).style(Modifier::BOLD), status);
    frame.render_widget(Paragraph::new(total_line(live)), total);
    let has_bars = draw_table(frame, live, table, canvas);
    let failure = if canvas.colours { Style::new().fg(Color::Red) } else { Style::new() };
    frame.render_widget(
        Paragraph::new(states).style(if live.failure.is_some() { failure } else { Style::new() }),
        messages,
    );
    frame.render_widget(Paragraph::new(legend_line(&live.look.map, has_bars, canvas)), legend);
    frame.render_widget(Paragraph::new(key_line(live, frame.area().width.into())).style(Modifier::REVERSED), keys);
}

/// `13:05:22, every 2 s, 628 relations by table, largest first, filter "ord"`
fn status_line(live: &LiveMap) -> String {
    let mut parts = vec![
        live.look.at.strftime("%T").to_string(),
        if live.is_paused { "paused".to_owned() } else { format!("every {} s", live.view.pause.as_secs()) },
        format!("{} by {}", counted(live.look.places.len(), "relation"), live.view.rolled_up.name()),
        live.order.name().to_owned() + if live.order.name().starts_with("by") { "" } else { " first" },
    ];
    if !live.filter.is_empty() && !live.is_typing {
        parts.push(format!("filter \"{}\"", printable(&live.filter)));
    }
    parts.join(", ")
}

/// All relations that are meant, whatever is filtered.
fn total_line(live: &LiveMap) -> String {
    let map = &live.look.map;
    let mut changed = Changed::default();
    live.look.places.iter().for_each(|place| changed += live.look.changes[*place]);
    let residency: Residency = live.look.places.iter().map(|place| live.look.residencies[*place]).sum();
    let size = Bytes(residency.blocks * u64::from(map.source.block_size));
    let mut text = size.to_string();
    let mut tier = |name: &str, state: &TierState, ratio: f64, change: String| {
        if *state == TierState::Measured {
            text += &format!(", {name} {}", render_percent(ratio));
            text += &if change.is_empty() { String::new() } else { format!(" ({change})") };
        }
    };
    let block_size = map.source.block_size;
    tier("page cache", &map.os, residency.os_ratio(), render_change(changed.os, block_size));
    tier("shared_buffers", &map.buffers, residency.buffers_ratio(), render_change(changed.buffers, block_size));
    text
}

/// What the reader has to know: why a look failed, what cannot be seen.
fn state_lines(live: &LiveMap, width: usize) -> Vec<Line<'static>> {
    let failure = live.failure.as_ref().map(|reason| {
        let at = live.look.at.strftime("%T");
        format!("the last look failed, this is of {at}: {}", printable(reason))
    });
    let texts = failure.into_iter().chain(render_states(&live.look.map));
    texts.flat_map(|text| wrap(&text, width)).take(MESSAGE_LINES).map(Line::from).collect()
}

/// Lines of whole words that are no wider than `width`, but for a word that is wider itself.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if Line::from(line.as_str()).width() + 1 + Line::from(word).width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The line of keys, as long as fits.
fn key_line(live: &LiveMap, width: usize) -> String {
    if live.is_typing {
        return format!("filter: {}_   Enter keeps it, Esc leaves it", printable(&live.filter));
    }
    let lines = KEYS.iter().filter(|line| line.len() <= width);
    lines.max_by_key(|line| line.len()).unwrap_or(&KEYS[KEYS.len() - 1]).to_string()
}

/// What the bars mean, where there are any, and what the changes are.
fn legend_line(map: &Map, has_bars: bool, canvas: Canvas) -> Line<'static> {
    let seen = Seen::of(map);
    let sample = |os: f64, buffers: f64| {
        let cells = [0.3, 0.6, 1.0].map(|any| crate::cache::BarCell { os: os * any, buffers: buffers * any, any });
        bar_spans(render_bar_runs(&cells, seen, canvas.unicode), canvas)
    };
    let mut spans = Vec::new();
    if seen.buffers && has_bars {
        spans.extend(sample(0.0, 1.0));
        spans.push(Span::from(" shared_buffers  "));
    }
    if seen.os && has_bars {
        spans.extend(sample(1.0, 0.0));
        spans.push(Span::from(" page cache  "));
    }
    spans.push(Span::from("+ came, - went since the last look"));
    Line::from(spans)
}

fn bar_spans(runs: Vec<(CellLook, String)>, canvas: Canvas) -> Vec<Span<'static>> {
    let style = |look: CellLook| match look {
        _ if !canvas.colours => Style::new(),
        CellLook::Os => Style::new().fg(Color::Cyan),
        CellLook::Buffers => Style::new().fg(Color::Yellow),
        CellLook::Cold | CellLook::Unknown => Style::new().add_modifier(Modifier::DIM),
    };
    runs.into_iter().map(|(look, glyphs)| Span::styled(glyphs, style(look))).collect()
}

/// A column of texts; the greatest priority goes first when the screen is narrow.
struct Column {
    title: &'static str,
    priority: u8,
    is_number: bool,
    cells: Vec<Line<'static>>,
}

impl Column {
    fn width(&self) -> usize {
        // Changes come and go: the columns stay where they are.
        let least = if self.title == CHANGES { "+1008 kB".len() } else { self.title.len() };
        self.cells.iter().map(Line::width).chain([least]).max().unwrap_or(0)
    }
}

/// Draws the rows that fit, and tells whether there was room for their bars.
fn draw_table(frame: &mut Frame<'_>, live: &LiveMap, area: Rect, canvas: Canvas) -> bool {
    let end = (live.first + live.fitting).min(live.rows.len());
    let shown = &live.rows[live.first.min(end)..end];
    let width = usize::from(area.width);
    let mut columns = columns_of(&live.look.map, shown, width, canvas);
    let used = |columns: &[Column]| columns.iter().map(|column| column.width() + 1).sum::<usize>();
    while used(&columns) + SHORTEST_NAME > width
        && let Some(least) =
            (0..columns.len()).filter(|at| columns[*at].priority > 0).max_by_key(|at| columns[*at].priority)
    {
        columns.remove(least);
    }
    let name_width = width.saturating_sub(used(&columns));
    let mark = if canvas.unicode { "…" } else { "~" };
    let rows = shown.iter().enumerate().map(|(at, row)| {
        let name = Cell::from(shorten_middle(&name_of(row), name_width, mark));
        let rest = columns.iter().map(|column| {
            let line = column.cells.get(at).cloned().unwrap_or_default();
            Cell::from(if column.is_number { line.right_aligned() } else { line })
        });
        let style = if live.first + at == live.selected { Modifier::REVERSED } else { Modifier::empty() };
        TableRow::new(std::iter::once(name).chain(rest)).style(style)
    });
    let titles = columns.iter().map(|column| {
        let line = Line::from(column.title);
        Cell::from(if column.is_number { line.right_aligned() } else { line })
    });
    let header = TableRow::new(std::iter::once(Cell::from("relation")).chain(titles)).style(Modifier::UNDERLINED);
    let widths = columns.iter().map(|column| Constraint::Length(u16::try_from(column.width()).unwrap_or(u16::MAX)));
    let name_width = Constraint::Length(u16::try_from(name_width).unwrap_or(u16::MAX));
    let table = Table::new(rows, std::iter::once(name_width).chain(widths)).header(header).column_spacing(1);
    frame.render_widget(table, area);
    columns.iter().any(|column| column.title == BARS)
}

fn name_of(row: &Row) -> String {
    let mark = match (row.can_unfold, row.is_unfolded) {
        (false, _) => ' ',
        (true, false) => '+',
        (true, true) => '-',
    };
    format!("{}{mark} {}", "  ".repeat(row.key.depth), row.text)
}

fn columns_of(map: &Map, rows: &[Row], width: usize, canvas: Canvas) -> Vec<Column> {
    let bytes = |blocks: u64| Bytes(blocks * u64::from(map.source.block_size)).to_string();
    let texts = |text: &dyn Fn(&Row) -> String| rows.iter().map(|row| Line::from(text(row))).collect();
    let number = |title, priority, text: &dyn Fn(&Row) -> String| Column {
        title,
        priority,
        is_number: true,
        cells: texts(text),
    };
    let seen = Seen::of(map);
    let block_size = map.source.block_size;
    let mut columns = vec![
        Column { title: "kind", priority: 4, is_number: false, cells: texts(&|row| row.kind.clone()) },
        number("size", 0, &|row| bytes(row.residency.blocks)),
    ];
    if seen.os {
        columns.push(number("OS", 0, &|row| render_percent(row.residency.os_ratio())));
        columns.push(number(CHANGES, 1, &|row| render_change(row.changed.os, block_size)));
    }
    if seen.buffers {
        columns.push(number("buffers", 0, &|row| render_percent(row.residency.buffers_ratio())));
        columns.push(number(CHANGES, 1, &|row| render_change(row.changed.buffers, block_size)));
        let dirty = |row: &Row| if row.residency.dirty > 0 { bytes(row.residency.dirty) } else { String::new() };
        columns.push(number("dirty", 3, &dirty));
    }
    let databases = |row: &Row| printable(&row.key.name.database).into_owned();
    if rows.windows(2).any(|two| two[0].key.name.database != two[1].key.name.database) {
        let priority = database_priority(
            5,
            rows.iter().map(|row| {
                let name = &row.key.name;
                ((&name.schema, &name.name, row.key.fork), &*name.database)
            }),
        );
        columns.insert(0, Column { title: "database", priority, is_number: false, cells: texts(&databases) });
    }
    let cells = if width < 110 { BAR_CELLS } else { BAR_CELLS_WIDE };
    let bar =
        |row: &Row| Line::from(bar_spans(render_bar_runs(&bar_of(row, map, cells), seen, canvas.unicode), canvas));
    columns.push(Column { title: BARS, priority: 2, is_number: false, cells: rows.iter().map(bar).collect() });
    // What nobody has a value for takes no room, but for the changes, which come and go.
    columns.retain(|column| column.title == CHANGES || column.cells.iter().any(|cell| cell.width() > 0));
    columns
}

fn bar_of(row: &Row, map: &Map, cells: usize) -> Vec<crate::cache::BarCell> {
    let fork = row.key.fork.unwrap_or(Fork::Main);
    let forks: Vec<_> = match row.key.fork {
        None => row.group.main_forks(map),
        Some(_) => row.group.relations(map).flat_map(|one| &one.forks).filter(|one| one.fork == fork).collect(),
    };
    compute_bar(&forks, cells)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::keys::Key;
    use super::super::live_map::LiveView;
    use super::super::rows_fixture::{grown, map};
    use super::*;

    const PLAIN: Canvas = Canvas { width: None, height: None, colours: false, unicode: true };

    fn live() -> LiveMap {
        let map = map();
        let places = (0..map.relations.len()).collect();
        LiveMap::new(map, places, LiveView { pause: Duration::from_secs(2), ..LiveView::default() })
    }

    fn screen(live: &mut LiveMap, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw_map(frame, live, PLAIN)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        cells.chunks(width.into()).map(|line| line.concat().trim_end().to_owned()).collect()
    }

    #[test]
    fn it_fits_a_terminal_of_80_columns_and_24_lines() {
        let mut live = live();
        let lines = screen(&mut live, 80, 24);
        assert!(lines[2].ends_with("where") && lines[22].contains("▃▅█ shared_buffers"), "{lines:#?}");
        live.take(Ok((grown(live.look.map.clone()), vec![0, 1, 2, 3, 4])));
        live.press(Key::Enter);
        let lines = screen(&mut live, 80, 24);
        let text = lines.join("\n");
        for part in ["every 2 s, 5 relations by table, largest first", "page cache 52% (+240 kB -40 kB)", "+240 kB"] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(lines[2].contains("relation") && lines[2].contains("buffers"), "{text}");
        assert!(
            lines[3].starts_with("- public.orders (2 partitions)") && lines[4].starts_with("    public.orders_2"),
            "{text}"
        );
        assert!(lines[23].starts_with("q quit") && lines[23].contains("p pause"), "{text}");
    }

    #[test]
    fn bars_are_explained_where_there_are_bars() {
        let mut live = live();
        let (mut with, mut without) = (0, 0);
        for width in 40..=120 {
            let lines = screen(&mut live, width, 24);
            let (has_bars, is_told) = (lines[2].contains(BARS), lines[22].contains("▃▅█"));
            assert_eq!(has_bars, is_told, "{width}: {lines:#?}");
            assert!(lines[22].contains("+ came, - went"), "{width}: {lines:#?}");
            *(if has_bars { &mut with } else { &mut without }) += 1;
        }
        assert!(with > 0 && without > 0, "{with} {without}");
    }

    #[test]
    fn every_key_is_told_at_60_columns() {
        let mut live = live();
        for width in [60, 70, 80] {
            let keys = screen(&mut live, width, 24).pop().unwrap();
            for key in ["q quit", "Enter", "s sort", "b by", "/ fi", "f fork", "c cat", "p pause"] {
                assert!(keys.contains(key), "{width}: {key}: {keys}");
            }
        }
    }

    #[test]
    fn a_failed_look_is_told_beside_what_was_seen() {
        let mut live = live();
        live.take(Err("the server is shutting down".into()));
        let text = screen(&mut live, 80, 24).join("\n");
        assert!(text.contains("the last look failed") && text.contains("shutting down"), "{text}");
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert!(text.contains("public.orders"), "{text}");
    }

    #[test]
    fn a_filter_is_seen_while_it_is_typed() {
        let mut live = live();
        "/lo".chars().for_each(|key| _ = live.press(Key::Character(key)));
        let lines = screen(&mut live, 80, 24);
        assert!(lines[23].starts_with("filter: lo_") && !lines.join("\n").contains("orders"), "{lines:#?}");
    }

    #[test]
    fn no_size_is_too_small_to_draw() {
        let mut live = live();
        live.press(Key::Enter);
        for (width, height) in [(1, 1), (20, 5), (40, 10), (200, 60), (80, 3)] {
            screen(&mut live, width, height);
        }
    }
}

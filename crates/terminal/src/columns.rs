//! Tables that fit the terminal. Drops the least important columns, lists them below, then cuts the widest texts.

use std::collections::HashMap;

use console::{Alignment, measure_text_width, pad_str};

use super::printable::{shorten_apart, shorten_middle};
use super::wrap::wrap_text;

const GAP: &str = "  ";

#[derive(Clone, Debug)]
pub struct Column {
    pub title: String,
    pub alignment: Alignment,
    /// Columns with greater numbers are dropped first; 0 is never dropped.
    pub priority: u8,
    /// Minimum width in cells; `None` if the column must not be cut.
    pub shortest: Option<usize>,
    pub cells: Vec<String>,
}

impl Column {
    pub fn text(title: impl Into<String>, shortest: usize, cells: Vec<String>) -> Column {
        Column { title: title.into(), alignment: Alignment::Left, priority: 0, shortest: Some(shortest), cells }
    }

    pub fn number(title: impl Into<String>, priority: u8, cells: Vec<String>) -> Column {
        Column { title: title.into(), alignment: Alignment::Right, priority, shortest: None, cells }
    }

    pub fn word(title: impl Into<String>, priority: u8, cells: Vec<String>) -> Column {
        Column { title: title.into(), alignment: Alignment::Left, priority, shortest: None, cells }
    }

    fn width(&self) -> usize {
        let texts = self.cells.iter().chain([&self.title]);
        texts.map(|text| measure_text_width(text)).max().unwrap_or(0)
    }
}

/// `of_rows` yields the row's name and database, if it has one.
pub fn database_column<'a>(
    priority: u8,
    cells: Vec<String>,
    mut of_rows: impl Iterator<Item = (&'a str, &'a str)>,
) -> Column {
    // If a name is in two databases, only this column distinguishes the rows.
    let mut databases: HashMap<&str, &str> = HashMap::new();
    let repeats = of_rows.any(|(name, database)| *databases.entry(name).or_insert(database) != database);
    Column { priority: if repeats { 0 } else { priority }, ..Column::text("database", 8, cells) }
}

pub fn render_columns(mut columns: Vec<Column>, width: Option<usize>, mark: &str) -> Vec<String> {
    columns.retain(|column| column.priority == 0 || column.cells.iter().any(|cell| !cell.is_empty()));
    let mut widths: Vec<usize> = columns.iter().map(Column::width).collect();
    let mut left_out = Vec::new();
    if let Some(width) = width {
        while total(&widths, &columns, true) > width {
            let Some(least) = (0..columns.len())
                .filter(|place| columns[*place].priority > 0)
                .max_by_key(|place| columns[*place].priority)
            else {
                break;
            };
            left_out.push(columns.remove(least).title);
            widths.remove(least);
        }
        shorten(&mut widths, &columns, width);
    }
    for (column, width) in columns.iter_mut().zip(&widths).filter(|(column, _)| column.shortest.is_some()) {
        column.cells = shorten_apart(&column.cells, *width, mark);
    }
    let titles: Vec<&str> = columns.iter().map(|column| column.title.as_str()).collect();
    let rows = columns.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    let mut lines = vec![render_line(&columns, &widths, &titles, mark)];
    for row in 0..rows {
        let cells: Vec<&str> = columns.iter().map(|column| column.cells.get(row).map_or("", String::as_str)).collect();
        lines.push(render_line(&columns, &widths, &cells, mark));
    }
    lines.extend(render_left_out(&left_out).map(|told| wrap_text(&told, width)));
    lines
}

pub fn render_left_out(titles: &[String]) -> Option<String> {
    (!titles.is_empty()).then(|| format!("left out because the terminal is narrow: {}", titles.join("; ")))
}

fn total(widths: &[usize], columns: &[Column], cut: bool) -> usize {
    let of = |(width, column): (&usize, &Column)| match column.shortest {
        Some(shortest) if cut => shortest.min(*width),
        _ => *width,
    };
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    widths.iter().zip(columns).map(of).sum::<usize>() + gaps
}

/// Minimum width in cells if the columns' own minimums do not fit.
const LEAST: usize = 8;

fn shorten(widths: &mut [usize], columns: &[Column], width: usize) {
    let mut excess = total(widths, columns, false).saturating_sub(width);
    for least in [usize::MAX, LEAST] {
        while excess > 0 {
            let can_give =
                |place: &usize| columns[*place].shortest.is_some_and(|shortest| widths[*place] > shortest.min(least));
            let Some(widest) = (0..widths.len()).filter(can_give).max_by_key(|place| widths[*place]) else { break };
            widths[widest] -= 1;
            excess -= 1;
        }
    }
}

fn render_line(columns: &[Column], widths: &[usize], cells: &[&str], mark: &str) -> String {
    let cell = |((column, width), cell): ((&Column, &usize), &&str)| {
        let text = if column.shortest.is_some() { shorten_middle(cell, *width, mark) } else { (*cell).to_owned() };
        pad_str(&text, *width, column.alignment, None).into_owned()
    };
    let line: Vec<String> = columns.iter().zip(widths).zip(cells).map(cell).collect();
    line.join(GAP).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        let cells = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        vec![
            Column::text("relation", 8, cells(["public.a_rather_long_name", "public.b"])),
            Column::word("kind", 2, cells(["table", "index"])),
            Column::number("size", 0, cells(["1.50 GB", "8 kB"])),
            Column::number("dirty", 1, cells(["3", ""])),
            Column::number("void", 1, cells(["", ""])),
        ]
    }

    #[test]
    fn a_wide_terminal_shows_all() {
        let expected = [
            "relation                   kind      size  dirty",
            "public.a_rather_long_name  table  1.50 GB      3",
            "public.b                   index     8 kB",
        ];
        assert_eq!(render_columns(columns(), None, "…"), expected);
    }

    #[test]
    fn a_narrow_one_loses_columns_and_then_the_middle_of_names() {
        let narrow =
            ["relation   kind      size  dirty", "publ…name  table  1.50 GB      3", "public.b   index     8 kB"];
        assert_eq!(render_columns(columns(), Some(32), "…"), narrow);
        let narrower = [
            "relation      size  dirty",
            "publ…name  1.50 GB      3",
            "public.b      8 kB",
            "left out because the\n  terminal is narrow:\n  kind",
        ];
        assert_eq!(render_columns(columns(), Some(25), "…"), narrower);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in 20..60 {
            for line in render_columns(columns(), Some(width), "…").iter().flat_map(|line| line.lines()) {
                assert!(measure_text_width(line) <= width, "{width}: {line}");
            }
        }
    }
}

//! How densely rows lie, as a table.

use std::collections::BTreeSet;

use serde::Serialize;

use host::units::Bytes;
use model::{FillTime, RowDensity};
use terminal::{Column, printable, render_columns, render_seconds, render_short, wrap_text};

/// What `map --rows --json` prints.
#[derive(Debug, Serialize)]
pub struct RowsTable {
    /// The one that pgthaw came in by.
    pub database: String,
    /// Random reads of a block that the device serves.
    pub reads_per_second: f64,
    /// Of a warm transaction.
    pub hit_seconds: f64,
    /// The largest first.
    pub relations: Vec<RowsOfTable>,
    pub remarks: Vec<String>,
}

/// A table, without its indexes and what is kept out of line.
#[derive(Debug, Serialize)]
pub struct RowsOfTable {
    pub database: String,
    pub relation: String,
    pub rows: f64,
    pub bytes: Bytes,
    #[serde(flatten)]
    pub density: RowDensity,
    #[serde(flatten)]
    pub fill: FillTime,
}

/// A row for each table, no wider than `width`.
pub fn render_rows(rows: &RowsTable, width: Option<usize>) -> String {
    let cells = |cell: &dyn Fn(&RowsOfTable) -> String| rows.relations.iter().map(cell).collect::<Vec<String>>();
    let databases: BTreeSet<&str> = rows.relations.iter().map(|row| row.database.as_str()).collect();
    let mut columns = vec![
        Column::text("table", 16, cells(&|row| printable(&row.relation).into_owned())),
        Column::number("rows", 0, cells(&|row| render_short(row.rows))),
        Column::number("size", 0, cells(&|row| row.bytes.to_string())),
        Column::number("bytes/row", 2, cells(&|row| format!("{:.0}", row.density.bytes_per_row))),
        Column::number("rows/page", 3, cells(&|row| format!("{:.1}", row.density.rows_per_page))),
        Column::number("rows/MB", 0, cells(&|row| format!("{:.0}", row.density.rows_per_mb))),
        Column::number("rows/s", 1, cells(&|row| render_short(row.fill.rows_per_second))),
        Column::number("fill", 0, cells(&|row| render_seconds(row.fill.fill_seconds))),
        Column::number("warm", 0, cells(&|row| render_seconds(row.fill.warm_after_seconds))),
    ];
    if databases.len() > 1 {
        columns.insert(0, Column::text("database", 8, cells(&|row| printable(&row.database).into_owned())));
    }
    let mut lines = match rows.relations.is_empty() {
        true => {
            vec!["there is no table with rows that were counted: ANALYZE counts them".to_owned()]
        }
        false => render_columns(columns, width, "…"),
    };
    let legend = "fill: by the pgbench slides, rows ÷ rows/s, where random reads bring all rows of what they read; \
                  warm: by the model, one client asks for rows at random, through the index, until fewer than 1 % of them are read";
    lines.push(String::new());
    lines.extend([legend.to_owned()].iter().chain(&rows.remarks).map(|text| wrap_text(&printable(text), width)));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The legend says that fill follows from it.
    #[test]
    fn rows_a_second_are_there_at_80_columns_beside_databases() {
        let row = |database: &str| RowsOfTable {
            database: database.into(),
            relation: "public.pgbench_accounts".into(),
            rows: 1e8,
            bytes: Bytes(13 << 30),
            density: RowDensity { bytes_per_row: 134.0, rows_per_page: 61.1, rows_per_mb: 7825.0 },
            fill: FillTime { rows_per_second: 183_000.0, fill_seconds: 546.0, warm_after_seconds: 1234.0 },
        };
        let (reads_per_second, hit_seconds, remarks) = (3000.0, 1e-4, Vec::new());
        let relations = vec![row("shop"), row("archive")];
        let table = RowsTable { database: "shop".into(), reads_per_second, hit_seconds, relations, remarks };
        let shown = render_rows(&table, Some(80));
        let titles = shown.lines().next().unwrap();
        assert!(titles.contains("rows/s ") && titles.contains("database"), "{shown}");
    }
}

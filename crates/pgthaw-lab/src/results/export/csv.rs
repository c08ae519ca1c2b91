//! CSV: a line of names, then a line for each row; NULL is an empty field.

use std::io::Write;

use super::table::ExportTable;
use command::table::{Cell, RowWriter};

/// Rows as lines.
pub(super) struct CsvRows<W: Write> {
    lines: csv::Writer<W>,
}

impl<W: Write> CsvRows<W> {
    pub fn new(table: ExportTable, output: W) -> std::io::Result<CsvRows<W>> {
        let mut lines = csv::Writer::from_writer(output);
        lines.write_record(table.columns().iter().map(|column| column.name))?;
        Ok(CsvRows { lines })
    }
}

impl<W: Write> RowWriter for CsvRows<W> {
    fn write(&mut self, rows: Vec<Vec<Cell>>) -> std::io::Result<()> {
        for row in rows {
            self.lines.write_record(row.into_iter().map(render))?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> std::io::Result<()> {
        self.lines.flush()
    }
}

fn render(cell: Cell) -> String {
    match cell {
        Cell::Text(text) => text.unwrap_or_default(),
        Cell::Integer(number) => number.map(|number| number.to_string()).unwrap_or_default(),
        Cell::Float(number) => number.map(|number| number.to_string()).unwrap_or_default(),
    }
}

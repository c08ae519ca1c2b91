//! JSON: one list with an object for each row.

use std::io::Write;

use serde_json::{Map, Value};

use super::table::ExportTable;
use command::table::{Cell, RowWriter};

/// Rows as objects, each on a line of its own.
pub(super) struct JsonRows<W: Write> {
    table: ExportTable,
    output: W,
    has_any: bool,
}

impl<W: Write> JsonRows<W> {
    pub fn new(table: ExportTable, output: W) -> JsonRows<W> {
        JsonRows { table, output, has_any: false }
    }
}

impl<W: Write> RowWriter for JsonRows<W> {
    fn write(&mut self, rows: Vec<Vec<Cell>>) -> std::io::Result<()> {
        for row in rows {
            let columns = self.table.columns().iter().map(|column| column.name.to_owned());
            let object: Map<String, Value> = columns.zip(row.into_iter().map(value_of)).collect();
            self.output.write_all(if self.has_any { b",\n" } else { b"[\n" })?;
            serde_json::to_writer(&mut self.output, &object)?;
            self.has_any = true;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> std::io::Result<()> {
        self.output.write_all(if self.has_any { b"\n]\n" } else { b"[]\n" })?;
        self.output.flush()
    }
}

fn value_of(cell: Cell) -> Value {
    match cell {
        Cell::Text(text) => text.into(),
        Cell::Integer(number) => number.into(),
        Cell::Float(number) => number.into(),
    }
}

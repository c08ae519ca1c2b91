//! Tables for other programs: columns with their types, cells, and the file that rows go to.

mod error;
mod file;
mod parquet;

pub use error::Error;
pub use file::ExportFile;
pub use parquet::ParquetRows;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct ExportColumn {
    pub name: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Integer,
    Float,
}

/// One value; `None` is SQL's NULL.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(Option<String>),
    Integer(Option<i64>),
    Float(Option<f64>),
}

/// Writes groups of rows, and what belongs behind them.
pub trait RowWriter {
    fn write(&mut self, rows: Vec<Vec<Cell>>) -> std::io::Result<()>;
    fn finish(self: Box<Self>) -> std::io::Result<()>;
}

impl ExportColumn {
    /// Of text.
    pub const fn text(name: &'static str) -> ExportColumn {
        ExportColumn { name, kind: Kind::Text }
    }

    /// Of whole numbers, 64 bits with a sign.
    pub const fn integer(name: &'static str) -> ExportColumn {
        ExportColumn { name, kind: Kind::Integer }
    }

    /// Of numbers with a point.
    pub const fn float(name: &'static str) -> ExportColumn {
        ExportColumn { name, kind: Kind::Float }
    }
}

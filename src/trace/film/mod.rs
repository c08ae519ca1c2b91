//! The film's file: one Parquet file, a row per event, zstd, with a checksum inside. docs/formats.md has the columns and the
//! metadata. It is written and read row group after row group, so that neither takes memory for all of it.

mod columns;
mod header;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use header::{FilmHeader, ProbeShare, Sampled, Totals};
pub use read::Film;
pub use write::FilmWriter;

/// The version of the format. A reader refuses a greater one. Until 2 no column was kept as its differences.
const FORMAT_VERSION: u32 = 3;

/// A row group ends at this many rows: some 30 MB in memory, and 10⁹ events have a footer of some 8 MB.
const ROWS_PER_GROUP: usize = 131_072;

//! The snapshot file: one Parquet file, a row per (relation, fork, tier, heat), zstd, with a checksum inside.
//!
//! docs/formats.md has the columns and the metadata; what such a file has in common with others is in `sealed_file`.

mod columns;
mod header;
mod read;
mod row;
mod write;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;

#[cfg(fuzzing)]
pub use self::{
    columns::Columns,
    read::{collect, read_snapshot_from},
};
pub use write::write_draft;

/// The version of the format. A reader refuses any other.
const FORMAT_VERSION: u32 = 1;

/// A row group ends at this many rows …
const ROWS_PER_GROUP: usize = 16_384;

/// … or when its bitmaps have this many bytes.
const BITMAP_BYTES_PER_GROUP: usize = 8 << 20;

//! The snapshot file: one Parquet file, a row per (relation, fork, tier, heat), zstd, with a checksum inside.
//!
//! docs/formats.md has the columns and the metadata. What this module writes is plain Parquet that any reader takes;
//! what it reads is less, and deliberately so, because a snapshot file is untrusted input: the columns are required,
//! plainly encoded and in one page per column and row group. Whatever decides on memory is checked before memory is
//! asked for.

mod checksum;
mod columns;
mod header;
mod pages;
mod read;
mod row;
mod thrift;
mod write;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;

#[cfg(fuzzing)]
pub use self::{
    checksum::mend,
    columns::Columns,
    read::{collect, read_snapshot_from},
};
pub use write::{DRAFT_PREFIX, write_draft};

/// The version of the format. A reader refuses a greater one.
const FORMAT_VERSION: u32 = 1;

/// A row group ends at this many rows …
const ROWS_PER_GROUP: usize = 16_384;

/// … or when its bitmaps have this many bytes.
const BITMAP_BYTES_PER_GROUP: usize = 8 << 20;

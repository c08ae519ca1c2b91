//! Columns of a row group from an untrusted file: one page each, looked at before it is unpacked.

use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageReader as _};
use parquet::data_type::ByteArray;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;

use super::deltas::decode_deltas;
use super::thrift::{PAGE_HEADER, PAGE_HEADER_BYTES};

/// A page of a few rows may have as much: numbers that are kept as differences come in blocks, whose parts are filled up.
const PAGE_BYTES_MIN: u64 = 1024;

/// What the pages of a row group may unpack to.
#[derive(Clone, Copy, Debug)]
pub struct PageLimits {
    /// Bytes of each row, in any column but a last one that has a limit of its own.
    pub row_bytes: u64,
    /// Bytes of the last column's page, if it has a limit of its own.
    pub last_page_bytes: Option<u64>,
}

/// Reads a row group's columns one after the other, in the schema's order. What is wrong with one is said in words.
#[derive(Debug)]
pub struct GroupReader<'a, S> {
    source: Arc<S>,
    group: &'a RowGroupMetaData,
    rows: usize,
    limits: PageLimits,
    next_column: usize,
}

impl<'a, S: ChunkReader + 'static> GroupReader<'a, S> {
    /// A reader of a group whose number of rows was found acceptable.
    pub fn new(source: Arc<S>, group: &'a RowGroupMetaData, rows: usize, limits: PageLimits) -> GroupReader<'a, S> {
        GroupReader { source, group, rows, limits, next_column: 0 }
    }

    /// What the group takes when all of its columns are unpacked, in bytes: its rows, and their bitmaps.
    pub fn compute_unpacked_bytes(&self) -> Result<(u64, u64), String> {
        let columns = self.group.columns().iter().enumerate();
        let unpacked = columns.map(|(place, column)| {
            let (_, unpacked) =
                self.locate_page(column, self.max_bytes(place)).map_err(|reason| in_column(column, reason))?;
            Ok(unpacked)
        });
        let mut unpacked = unpacked.collect::<Result<Vec<u64>, String>>()?;
        let bitmaps = unpacked.pop().unwrap_or_default();
        Ok((unpacked.iter().sum(), bitmaps))
    }

    /// The next column's texts or bitmaps.
    pub fn take_bytes(&mut self) -> Result<Vec<ByteArray>, String> {
        self.take(|page, rows| {
            let mut start = 0;
            let mut take_one = || {
                let length = page.data().get(start..start + 4)?.try_into().ok().map(u32::from_le_bytes)?;
                let value = start + 4..start + 4 + length as usize;
                page.data().get(value.clone())?;
                start = value.end;
                Some(page.slice(value.start, value.len()))
            };
            (0..rows).map(|_| take_one()).collect()
        })
    }

    /// The next column's 64-bit numbers.
    pub fn take_longs(&mut self) -> Result<Vec<i64>, String> {
        self.take(decode_longs)
    }

    /// The next column's 64-bit numbers, plain or as differences.
    pub fn take_longs_or_deltas(&mut self) -> Result<Vec<i64>, String> {
        self.take_of(&[Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED], |encoding, page, rows| match encoding {
            Encoding::PLAIN => decode_longs(page, rows),
            _ => decode_deltas(page.data(), rows),
        })
    }

    /// The next column's 32-bit numbers.
    pub fn take_integers(&mut self) -> Result<Vec<i32>, String> {
        self.take(|page, rows| {
            let values = page.data().as_chunks::<4>();
            (values.0.len() == rows).then(|| values.0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect())
        })
    }

    /// The next column's truth values, one bit each.
    pub fn take_booleans(&mut self) -> Result<Vec<bool>, String> {
        self.take(|page, rows| {
            let bit = |row: usize| page.data().get(row / 8).map(|byte| byte >> (row % 8) & 1 == 1);
            (0..rows).map(bit).collect()
        })
    }

    /// Unpacks the next column's plain page and has `decode` make the values of it: `None` when there are too few bytes.
    fn take<T>(&mut self, decode: impl Fn(&ByteArray, usize) -> Option<Vec<T>>) -> Result<Vec<T>, String> {
        self.take_of(&[Encoding::PLAIN], |_, page, rows| decode(page, rows))
    }

    /// The same of a page in one of these encodings, which `decode` is told.
    fn take_of<T>(
        &mut self,
        encodings: &[Encoding],
        decode: impl Fn(Encoding, &ByteArray, usize) -> Option<Vec<T>>,
    ) -> Result<Vec<T>, String> {
        let max_bytes = self.max_bytes(self.next_column);
        let column = self.group.columns().get(self.next_column).ok_or("a column is missing")?;
        self.next_column += 1;
        let values = self.read_page(column, max_bytes, encodings).and_then(|(encoding, page)| {
            decode(encoding, &page, self.rows).ok_or_else(|| format!("its page does not hold {} values", self.rows))
        });
        values.map_err(|reason| in_column(column, reason))
    }

    /// What a column's page may unpack to.
    fn max_bytes(&self, place: usize) -> u64 {
        let is_last = place + 1 == self.group.num_columns();
        let of_last = self.limits.last_page_bytes.filter(|_| is_last);
        of_last.unwrap_or((self.rows as u64 * self.limits.row_bytes).max(PAGE_BYTES_MIN))
    }

    fn read_page(
        &self,
        column: &ColumnChunkMetaData,
        max_bytes: u64,
        encodings: &[Encoding],
    ) -> Result<(Encoding, ByteArray), String> {
        let (location, _) = self.locate_page(column, max_bytes)?;
        let pages = SerializedPageReader::new(Arc::clone(&self.source), column, self.rows, Some(vec![location]));
        match pages.and_then(|mut pages| pages.get_next_page()).map_err(|error| error.to_string())? {
            Some(Page::DataPage { buf, num_values, encoding, .. })
                if num_values as usize == self.rows && encodings.contains(&encoding) =>
            {
                Ok((encoding, ByteArray::from(buf)))
            }
            _ => Err("it is not one page, encoded as pgthaw does it".to_owned()),
        }
    }

    /// Where the column's only page is, when neither it nor what it unpacks to is too large, and how much that is.
    fn locate_page(&self, column: &ColumnChunkMetaData, max_bytes: u64) -> Result<(PageLocation, u64), String> {
        let file_bytes = self.source.len();
        let offset = u64::try_from(column.data_page_offset()).map_err(|_| "it begins before the file")?;
        let bytes = u64::try_from(column.compressed_size()).map_err(|_| "it has a negative size")?;
        if !matches!(column.compression(), Compression::ZSTD(_)) || column.dictionary_page_offset().is_some() {
            return Err("it is not packed as pgthaw packs".to_owned());
        }
        if offset.checked_add(bytes).is_none_or(|end| end > file_bytes) {
            return Err("it reaches past the end of the file".to_owned());
        }
        let header = self.source.get_bytes(offset, bytes.min(PAGE_HEADER_BYTES as u64) as usize);
        let header = header.map_err(|error| error.to_string())?;
        PAGE_HEADER
            .check(&header)
            .map_err(|what| format!("its page begins with what pgthaw does not write: {what}"))?;
        let unpacked = find_unpacked_size(&header)?;
        if unpacked > max_bytes || bytes > max_bytes + 1024 {
            return Err(format!("{bytes} bytes that unpack to {unpacked}, of at most {max_bytes}"));
        }
        let compressed_page_size = i32::try_from(bytes).map_err(|_| "it is too large")?;
        Ok((PageLocation { offset: offset as i64, compressed_page_size, first_row_index: 0 }, unpacked))
    }
}

/// The size that a page's header announces, and that the unpacking allocates. The header is a thrift struct in compact form: its
/// first two fields are the page's type and this size, each a byte 0x15 (next field, an i32) and a zigzag varint.
fn find_unpacked_size(header: &[u8]) -> Result<u64, String> {
    let after_type = take_number(header).ok_or("its page has no header")?.1;
    let (size, _) = take_number(after_type).ok_or("its page has no size")?;
    Ok(size)
}

fn decode_longs(page: &ByteArray, rows: usize) -> Option<Vec<i64>> {
    let values = page.data().as_chunks::<8>();
    (values.0.len() == rows).then(|| values.0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
}

fn in_column(column: &ColumnChunkMetaData, reason: String) -> String {
    format!("column {}: {reason}", column.column_path().string())
}

/// Takes an i32 field that is not negative from the front of thrift's bytes.
fn take_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let digits = bytes.strip_prefix(&[0x15])?;
    let length = digits.iter().take(5).position(|byte| byte & 0x80 == 0)? + 1;
    let zigzag = digits[..length].iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f));
    (zigzag % 2 == 0).then_some((zigzag / 2, &digits[length..]))
}

//! Columns of a row group from an untrusted file: one page each, looked at before it is unpacked.

use std::sync::Arc;

use Shape::{I16, I32, I64, List, Struct, Text};
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageReader as _};
use parquet::data_type::ByteArray;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;

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

    /// The next column's 64-bit numbers, kept as their differences.
    pub fn take_deltas(&mut self) -> Result<Vec<i64>, String> {
        self.take_of(Encoding::DELTA_BINARY_PACKED, |page, rows| decode_deltas(page.data(), rows))
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
        self.take_of(Encoding::PLAIN, decode)
    }

    /// The same of a page in this encoding.
    fn take_of<T>(
        &mut self,
        encoding: Encoding,
        decode: impl Fn(&ByteArray, usize) -> Option<Vec<T>>,
    ) -> Result<Vec<T>, String> {
        let max_bytes = self.max_bytes(self.next_column);
        let column = self.group.columns().get(self.next_column).ok_or("a column is missing")?;
        self.next_column += 1;
        let values = self.read_page(column, max_bytes, encoding).and_then(|page| {
            decode(&page, self.rows).ok_or_else(|| format!("its page does not hold {} values", self.rows))
        });
        values.map_err(|reason| in_column(column, reason))
    }

    /// What a column's page may unpack to.
    fn max_bytes(&self, place: usize) -> u64 {
        let is_last = place + 1 == self.group.num_columns();
        let of_last = self.limits.last_page_bytes.filter(|_| is_last);
        of_last.unwrap_or((self.rows as u64 * self.limits.row_bytes).max(PAGE_BYTES_MIN))
    }

    fn read_page(&self, column: &ColumnChunkMetaData, max_bytes: u64, expected: Encoding) -> Result<ByteArray, String> {
        let (location, _) = self.locate_page(column, max_bytes)?;
        let pages = SerializedPageReader::new(Arc::clone(&self.source), column, self.rows, Some(vec![location]));
        match pages.and_then(|mut pages| pages.get_next_page()).map_err(|error| error.to_string())? {
            Some(Page::DataPage { buf, num_values, encoding, .. })
                if num_values as usize == self.rows && encoding == expected =>
            {
                Ok(ByteArray::from(buf))
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

// ---- thrift ----
//
// Thrift's compact form, looked at before the library reads it: only what pgthaw writes may stand there.
//
// The library skips fields that it does not know, and a truth value in a list costs it no byte: a list of five bytes says that
// it has 2³¹ of them, and lists of such lists keep it busy for years. What has the shape below takes a byte at least for
// everything that it says to hold. The form: <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

/// What a value is.
#[derive(Debug)]
pub enum Shape {
    I16,
    I32,
    I64,
    Text,
    List(&'static Shape),
    /// Numbers of fields, and what they are.
    Struct(&'static [(u64, Shape)]),
}

/// `FileMetaData` of Parquet's format: version, schema, rows, row groups, key-value metadata, writer, orders of the columns.
pub const FOOTER: Shape = Struct(&[
    (1, I32),
    (2, List(&SCHEMA_ELEMENT)),
    (3, I64),
    (4, List(&ROW_GROUP)),
    (5, List(&Struct(&[(1, Text), (2, Text)]))),
    (6, Text),
    (7, List(&Struct(&[(1, Struct(&[]))]))),
]);

/// Type, repetition, name, children, converted type, logical type (text).
const SCHEMA_ELEMENT: Shape =
    Struct(&[(1, I32), (3, I32), (4, Text), (5, I32), (6, I32), (10, Struct(&[(1, Struct(&[]))]))]);

/// Columns, bytes, rows, offset, packed bytes, number.
const ROW_GROUP: Shape = Struct(&[(1, List(&COLUMN_CHUNK)), (2, I64), (3, I64), (5, I64), (6, I64), (7, I16)]);

/// Offset and metadata of a column: type, encodings, path, codec, values, bytes, packed bytes, first page, encodings of pages.
const COLUMN_CHUNK: Shape = Struct(&[
    (2, I64),
    (
        3,
        Struct(&[
            (1, I32),
            (2, List(&I32)),
            (3, List(&Text)),
            (4, I32),
            (5, I64),
            (6, I64),
            (7, I64),
            (9, I64),
            (13, List(&Struct(&[(1, I32), (2, I32), (3, I32)]))),
        ]),
    ),
]);

/// `PageHeader` of a data page: type, bytes, packed bytes; values and three encodings.
pub const PAGE_HEADER: Shape =
    Struct(&[(1, I32), (2, I32), (3, I32), (5, Struct(&[(1, I32), (2, I32), (3, I32), (4, I32)]))]);

/// More than any header of a page has, in bytes.
pub const PAGE_HEADER_BYTES: usize = 64;

impl Shape {
    /// Has what these bytes begin with this shape? Otherwise: why not.
    pub fn check(&self, bytes: &[u8]) -> Result<(), String> {
        self.walk(bytes).map(drop)
    }

    /// The form's number of the type.
    fn number(&self) -> u8 {
        match self {
            I16 => 4,
            I32 => 5,
            I64 => 6,
            Text => 8,
            List(_) => 9,
            Struct(_) => 12,
        }
    }

    /// What is behind the value.
    fn walk<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], String> {
        match self {
            I16 | I32 | I64 => Ok(take_varint(bytes)?.1),
            Text => {
                let (length, rest) = take_varint(bytes)?;
                usize::try_from(length).ok().and_then(|length| rest.get(length..)).ok_or_else(too_short)
            }
            List(element) => {
                let (head, mut rest) = bytes.split_first().ok_or_else(too_short)?;
                let mut count = u64::from(head >> 4);
                if count == 15 {
                    (count, rest) = take_varint(rest)?;
                }
                // Some write an empty list without a type.
                if head & 15 != element.number() && *head != 0 {
                    return Err(format!("a list of type {}", head & 15));
                }
                (0..count).try_fold(rest, |rest, _| element.walk(rest))
            }
            Struct(fields) => walk_struct(fields, bytes),
        }
    }
}

fn walk_struct<'a>(fields: &[(u64, Shape)], mut bytes: &'a [u8]) -> Result<&'a [u8], String> {
    let mut field = 0;
    loop {
        let (head, rest) = bytes.split_first().ok_or_else(too_short)?;
        if *head == 0 {
            return Ok(rest);
        }
        // None is the long form of a field's number, for those that leap by more than 15 or back.
        let leap = Some(u64::from(head >> 4)).filter(|leap| *leap > 0).ok_or("a field out of order")?;
        field += leap;
        let shape = fields.iter().find(|(number, shape)| *number == field && shape.number() == head & 15);
        let (_, shape) = shape.ok_or_else(|| format!("a field {field} of type {}", head & 15))?;
        bytes = shape.walk(rest)?;
    }
}

fn too_short() -> String {
    "too few bytes".to_owned()
}

/// Seven bits a byte, the lowest first.
pub fn take_varint(bytes: &[u8]) -> Result<(u64, &[u8]), String> {
    let length = bytes.iter().take(10).position(|byte| byte & 0x80 == 0).ok_or_else(too_short)? + 1;
    let value = bytes[..length].iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f));
    Ok((value, &bytes[length..]))
}

// ---- deltas ----
//
// Numbers that are kept as their differences: Parquet's DELTA_BINARY_PACKED, from an untrusted file. A block has its least difference,
// and what each exceeds it by in as few bits as the largest of a part of the block takes. The form:
// <https://github.com/apache/parquet-format/blob/master/Encodings.md>.

/// A block of more numbers than this is none that any writer makes.
const BLOCK_MAX: u64 = 1 << 16;

/// How a page's numbers are laid out.
struct Layout {
    /// Parts of a block, and numbers in each.
    parts: usize,
    part_values: usize,
}

impl Layout {
    fn new(block_values: u64, parts: u64) -> Option<Layout> {
        let is_possible = (1..=BLOCK_MAX).contains(&block_values) && (1..=block_values).contains(&parts);
        let part_values = is_possible.then(|| block_values / parts)?;
        let is_whole = part_values * parts == block_values && part_values.is_multiple_of(32);
        is_whole.then_some(Layout { parts: parts as usize, part_values: part_values as usize })
    }
}

/// The numbers of a page that holds exactly so many; `None` where it does not.
pub fn decode_deltas(page: &[u8], rows: usize) -> Option<Vec<i64>> {
    let (block_values, rest) = take_varint(page).ok()?;
    let (parts, rest) = take_varint(rest).ok()?;
    let (count, rest) = take_varint(rest).ok()?;
    let (first, mut rest) = take_signed(rest)?;
    let layout = Layout::new(block_values, parts).filter(|_| rows > 0 && count == rows as u64)?;
    let mut values = Vec::with_capacity(rows);
    values.push(first);
    while values.len() < rows {
        rest = decode_block(rest, &layout, rows, &mut values)?;
    }
    rest.is_empty().then_some(values)
}

/// Adds a block's numbers to `values`, of which there will be `rows`, and returns what is behind it.
fn decode_block<'a>(bytes: &'a [u8], layout: &Layout, rows: usize, values: &mut Vec<i64>) -> Option<&'a [u8]> {
    let (least, rest) = take_signed(bytes)?;
    let (widths, mut rest) = rest.split_at_checked(layout.parts)?;
    for width in widths.iter().map(|width| usize::from(*width)) {
        let left = rows - values.len();
        // Behind the last number there are no parts, whatever their width would be.
        if left == 0 {
            break;
        }
        let (packed, behind) = rest.split_at_checked(layout.part_values / 8 * width).filter(|_| width <= 64)?;
        rest = behind;
        let mut last = *values.last()?;
        values.extend((0..layout.part_values.min(left)).map(|at| {
            last = last.wrapping_add(least).wrapping_add(bits(packed, at * width, width) as i64);
            last
        }));
    }
    Some(rest)
}

/// So many bits, 64 at most, the lowest first.
fn bits(packed: &[u8], start: usize, width: usize) -> u64 {
    let mut bytes = [0; 16];
    let end = packed.len().min(start / 8 + 9);
    let covering = &packed[start / 8..end];
    bytes[..covering.len()].copy_from_slice(covering);
    (u128::from_le_bytes(bytes) >> (start % 8) & ((1 << width) - 1)) as u64
}

/// A number of which the lowest bit is the sign.
fn take_signed(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (zigzag, rest) = take_varint(bytes).ok()?;
    Some(((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64), rest))
}

#[cfg(test)]
mod thrift_tests {
    use super::*;

    const PERSON: Shape = Struct(&[(1, Text), (3, I64), (4, List(&I32)), (5, Struct(&[]))]);

    #[test]
    fn what_has_the_shape_is_taken_and_nothing_else() {
        let whole = [0x18, 2, b'o', b'k', 0x26, 0x80, 1, 0x19, 0x25, 7, 9, 0x1c, 0, 0, 99];
        PERSON.check(&whole).unwrap();
        assert_eq!(PERSON.walk(&whole).unwrap(), [99]);
        for end in 0..whole.len() - 1 {
            assert!(PERSON.check(&whole[..end]).is_err(), "{end}");
        }
        let refused: [(&[u8], &str); 6] = [
            (&[0x15, 2, 0], "a field 1 of type 5"),
            (&[0x28, 0, 0], "a field 2 of type 8"),
            // Truth values, 2³¹ − 1 of them, in a field that is not known, and in one that is.
            (&[0x99, 0xf1, 0xff, 0xff, 0xff, 0xff, 7, 0], "a field 9 of type 9"),
            (&[0x49, 0xf1, 0xff, 0xff, 0xff, 0xff, 7, 0], "a list of type 1"),
            // Numbers, 2⁶⁴ − 1 of them.
            (&[0x49, 0xf5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0], "too few bytes"),
            // The first field once more: 0x02 is 1 in the long form.
            (&[0x18, 0, 0x08, 2, 0, 0], "a field out of order"),
        ];
        for (bytes, reason) in refused {
            assert_eq!(PERSON.check(bytes).unwrap_err(), reason, "{bytes:x?}");
        }
    }
}

#[cfg(test)]
mod deltas_tests {
    use super::*;

    /// 5, 7, 9 and so on: a block of 128 differences in four parts, of which three are used. The 65th and last is 2 and `more`.
    fn page(more: u8) -> Vec<u8> {
        vec![0x80, 1, 4, 66, 10, 4, 0, 0, 1, 0, 0b10 | more, 0, 0, 0]
    }

    #[test]
    fn differences_are_added_up() {
        for more in [0, 1] {
            let expected: Vec<i64> = (0..66).map(|at| 5 + 2 * at + i64::from(more) * i64::from(at == 65)).collect();
            assert_eq!(decode_deltas(&page(more), 66).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_no_such_page_is_refused() {
        let whole = page(1);
        assert!(decode_deltas(&whole, 66).is_some());
        assert_eq!(
            (decode_deltas(&whole, 65), decode_deltas(&whole, 67), decode_deltas(&whole, 0)),
            (None, None, None)
        );
        for end in 0..whole.len() {
            assert_eq!(decode_deltas(&whole[..end], 66), None, "{end}");
        }
        assert_eq!(decode_deltas(&[&whole[..], &[0]].concat(), 66), None, "more than it holds");
        // Whatever stands there is refused or some numbers.
        for at in 0..whole.len() {
            for byte in 0..=u8::MAX {
                let mut changed = whole.clone();
                changed[at] = byte;
                assert!(decode_deltas(&changed, 66).is_none_or(|values| values.len() == 66));
            }
        }
        for (at, byte) in [(0, 0xff), (2, 0), (2, 3), (3, 67), (8, 65)] {
            let mut changed = whole.clone();
            changed[at] = byte;
            assert_eq!(decode_deltas(&changed, 66), None, "{byte} at {at}");
        }
    }
}

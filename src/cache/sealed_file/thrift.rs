//! Thrift's compact form, looked at before the library reads it: only what pgthaw writes may stand there.
//!
//! The library skips fields that it does not know, and a truth value in a list costs it no byte: a list of five bytes says that
//! it has 2³¹ of them, and lists of such lists keep it busy for years. What has the shape below takes a byte at least for
//! everything that it says to hold. The form: <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

use Shape::{I16, I32, I64, List, Struct, Text};

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

#[cfg(test)]
mod tests {
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

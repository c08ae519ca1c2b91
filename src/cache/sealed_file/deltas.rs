//! Numbers that are kept as their differences: Parquet's DELTA_BINARY_PACKED, from an untrusted file. A block has its least difference,
//! and what each exceeds it by in as few bits as the largest of a part of the block takes. The form:
//! <https://github.com/apache/parquet-format/blob/master/Encodings.md>.

use super::thrift::take_varint;

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
mod tests {
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

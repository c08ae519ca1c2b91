//! What several targets share: rows of a snapshot made of arbitrary bytes.

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use cache::fuzzing::{RawRow, read_rows};
use cache::{HeatSource, Map, MapSource, RelationMap, TierState};
use roaring::RoaringBitmap;

/// A row that is mostly sound: what is wrong with all of it is found at once, and nothing behind it.
#[derive(Arbitrary, Clone, Debug)]
pub struct Row<'a> {
    relation: u8,
    name: Text<'a>,
    path: Text<'a>,
    parent: Text<'a>,
    kind: u8,
    fork: u8,
    tier: u8,
    heat: u8,
    relation_blocks: Blocks,
    bitmap: Bitmap<'a>,
    lie: Lie,
}

#[derive(Arbitrary, Clone, Debug)]
enum Text<'a> {
    Usual,
    Empty,
    Bytes(&'a [u8]),
}

#[derive(Arbitrary, Clone, Debug)]
enum Blocks {
    Enough,
    Few(u16),
    Any(i64),
}

#[derive(Arbitrary, Clone, Debug)]
enum Bitmap<'a> {
    Ranges(Vec<(u16, u16)>),
    Far(u32, u16),
    Bytes(&'a [u8]),
}

/// What a row says that the others do not bear out.
#[derive(Arbitrary, Clone, Debug)]
enum Lie {
    None,
    Blocks(i64),
    Heat(i32),
    Oid(i64),
    Relfilenumber(i64),
    System,
}

const KINDS: [&[u8]; 7] = [b"table", b"index", b"toast", b"materialized_view", b"sequence", b"unknown", b"view"];
const FORKS: [&[u8]; 5] = [b"main", b"fsm", b"vm", b"init", b"spoon"];
const TIERS: [&[u8]; 4] = [b"os", b"buffers", b"none", b"tape"];

/// Reads rows as those of a file; blocks beyond `most` are left out, so that what is computed of them takes no seconds.
pub fn relations_of(rows: &[Row<'_>], most: u32) -> Result<Vec<RelationMap>, String> {
    let paths: Vec<String> = rows.iter().map(|row| format!("base/5/{}", 16384 + u32::from(row.relation))).collect();
    let names: Vec<String> = rows.iter().map(|row| format!("relation_{}", row.relation)).collect();
    read_rows(rows.iter().zip(&paths).zip(&names).map(|((row, path), name)| row.raw(path, name, most)))
}

impl Row<'_> {
    fn raw<'b>(&'b self, path: &'b str, name: &'b str, most: u32) -> RawRow<'b> {
        let (bitmap, blocks) = self.bitmap.serialize(most);
        let end = match self.relation_blocks {
            Blocks::Enough => i64::from(most),
            Blocks::Few(blocks) => blocks.into(),
            Blocks::Any(blocks) => blocks,
        };
        let mut raw = RawRow {
            database: b"app",
            schema: b"public",
            name: self.name.or(name.as_bytes()),
            kind: pick(&KINDS, self.kind),
            oid: 16384 + i64::from(self.relation),
            parent: self.parent.or(b""),
            path: self.path.or(path.as_bytes()),
            relfilenumber: 16384 + i64::from(self.relation),
            tablespace: b"pg_default",
            is_system: false,
            fork: pick(&FORKS, self.fork),
            relation_blocks: end,
            tier: pick(&TIERS, self.tier),
            heat: i32::from(self.heat % 8),
            blocks,
            bitmap,
        };
        match self.lie {
            Lie::None => {}
            Lie::Blocks(blocks) => raw.blocks = blocks,
            Lie::Heat(heat) => raw.heat = heat,
            Lie::Oid(oid) => raw.oid = oid,
            Lie::Relfilenumber(number) => raw.relfilenumber = number,
            Lie::System => raw.is_system = true,
        }
        raw
    }
}

/// The first more often than the others, and the last, which nobody knows, seldom.
fn pick<'b>(words: &[&'b [u8]], place: u8) -> &'b [u8] {
    let place = usize::from(place);
    if place == 255 { words[words.len() - 1] } else { words[place % (words.len() - 1)] }
}

impl Text<'_> {
    fn or<'b>(&'b self, usual: &'b [u8]) -> &'b [u8] {
        match self {
            Text::Usual => usual,
            Text::Empty => b"",
            Text::Bytes(bytes) => bytes,
        }
    }
}

impl Bitmap<'_> {
    /// As a file holds it, with the blocks that it has.
    fn serialize(&self, most: u32) -> (Vec<u8>, i64) {
        let mut blocks = RoaringBitmap::new();
        match self {
            Bitmap::Bytes(bytes) => {
                let known = RoaringBitmap::deserialize_from(*bytes).map_or(0, |blocks| blocks.len());
                return (bytes.to_vec(), known as i64);
            }
            Bitmap::Far(start, length) => {
                let start = start % most;
                blocks.insert_range(start..start.saturating_add(u32::from(*length)).min(most));
            }
            Bitmap::Ranges(ranges) => ranges.iter().take(32).for_each(|(start, length)| {
                let start = u32::from(*start) % most;
                blocks.insert_range(start..(start + u32::from(length % 512)).min(most));
            }),
        }
        blocks.optimize();
        let mut bytes = Vec::with_capacity(blocks.serialized_size());
        blocks.serialize_into(&mut bytes).unwrap();
        (bytes, blocks.len() as i64)
    }
}

/// A map of these relations.
pub fn map_of(relations: Vec<RelationMap>, os_heat: HeatSource) -> Map {
    Map {
        taken_at: jiff::Timestamp::UNIX_EPOCH,
        source: MapSource {
            system_identifier: 7,
            version_num: 150_018,
            block_size: 8192,
            segment_blocks: 131_072,
            data_directory: None,
            lsn: "0/1A2B3C4".into(),
            timeline: 1,
        },
        os: TierState::Measured,
        buffers: TierState::Measured,
        os_heat,
        relations,
        empty: Vec::new(),
        partitioned: Vec::new(),
        lookups: Default::default(),
        remarks: Vec::new(),
    }
}

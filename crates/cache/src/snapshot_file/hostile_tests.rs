//! Malicious files with correct checksums.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::ByteArray;
use parquet::file::metadata::{
    KeyValue, ParquetMetaDataBuilder, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use super::tests::written;
use super::*;
use crate::fixtures::{map_of, relation, third_resident};
use crate::sealed_file::{ZEROS, apply_checksum, properties};
use crate::{Error, Snapshot, SnapshotHeader};

/// Indexes in `Columns::texts`, then in `Columns::longs`.
const NAME: usize = 2;
const KIND: usize = 3;
const PATH: usize = 5;
const FORK: usize = 7;
const TIER: usize = 8;
const OID: usize = 0;
const RELFILENUMBER: usize = 1;
const RELATION_BLOCKS: usize = 2;
const BLOCKS: usize = 3;

struct Forgery {
    columns: Columns,
    metadata: Vec<KeyValue>,
}

impl Forgery {
    fn new() -> Forgery {
        let relations = (1..=3).map(|number| relation(number, third_resident(1000))).collect();
        let snapshot = Snapshot::new(map_of(relations), None);
        let mut columns = Columns::default();
        snapshot.map.relations.iter().flat_map(rows_of).for_each(|row| {
            let mut bytes = Vec::new();
            row.bitmap.serialize_into(&mut bytes).unwrap();
            columns.push(&row, bytes);
        });
        Forgery { columns, metadata: encode_header(&snapshot.header()) }
    }

    fn set(&mut self, key: &str, value: &str) {
        self.metadata.iter_mut().find(|pair| pair.key == key).unwrap().value = Some(value.to_owned());
    }

    fn refusal(self) -> Error {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("forged.parquet");
        self.write(&path);
        Snapshot::read(&path).expect_err("it was read")
    }

    fn write(self, path: &Path) {
        let file = File::create_new(path).unwrap();
        let properties = properties(&COLUMNS).unwrap().set_key_value_metadata(Some(self.metadata)).build();
        let mut writer =
            SerializedFileWriter::new(&file, build_schema("snapshot", &COLUMNS).unwrap(), Arc::new(properties))
                .unwrap();
        self.columns.write(&COLUMNS, writer.next_row_group().unwrap()).unwrap();
        writer.close().unwrap();
        sign(path);
    }
}

fn sign(path: &Path) {
    apply_checksum(&OpenOptions::new().read(true).write(true).open(path).unwrap()).unwrap();
}

fn refusal_of(falsify: impl FnOnce(&mut Forgery)) -> String {
    let mut forgery = Forgery::new();
    falsify(&mut forgery);
    let error = forgery.refusal();
    assert!(matches!(error, Error::Flawed { flaw: Flaw::Contradiction(_), .. }), "{error:?}");
    error.to_string()
}

fn expect(message: &str, part: &str) {
    assert!(message.contains(part), "{message}");
}

#[test]
fn a_small_file_that_says_it_is_huge_is_not_hashed() {
    let directory = tempfile::tempdir().unwrap();
    let (small, huge) = (directory.path().join("small.parquet"), directory.path().join("huge.parquet"));
    Forgery::new().write(&small);
    let bytes = fs::read(&small).unwrap();
    let file = File::create_new(&huge).unwrap();
    file.write_all_at(&bytes[..4], 0).unwrap();
    // Hashing this file would take some two hours.
    file.write_all_at(&bytes[4..], 4 << 40).unwrap();
    for error in [Snapshot::read(&huge).err(), SnapshotHeader::read(&huge).err()] {
        assert!(
            matches!(&error, Some(Error::Flawed { flaw: Flaw::Damaged(reason), .. }) if reason.contains("sparse")),
            "{error:?}"
        );
    }
}

#[test]
fn an_unfalsified_one_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("honest.parquet");
    Forgery::new().write(&path);
    assert_eq!(Snapshot::read(&path).unwrap().map.relations.len(), 3);
}

#[test]
fn another_format_names_both_versions() {
    for version in [0, 2] {
        let mut forgery = Forgery::new();
        forgery.set("pgthaw.format_version", &version.to_string());
        let error = forgery.refusal();
        assert!(
            matches!(error, Error::Flawed { flaw: Flaw::OtherFormat { found, known: 1 }, .. } if found == version),
            "{error}"
        );
    }
}

#[test]
fn a_path_cannot_leave_the_data_directory() {
    for hostile in ["../../etc/shadow", "/etc/shadow", "base/5/../../../x", "base/5/1\n"] {
        expect(&refusal_of(|one| one.columns.texts[PATH][1] = ByteArray::from(hostile)), "not a relation's path");
    }
}

#[test]
fn numbers_must_agree_with_each_other() {
    expect(&refusal_of(|one| one.columns.longs[RELFILENUMBER][0] = 99), "relfilenumber 99");
    expect(&refusal_of(|one| one.columns.longs[OID][0] = -1), "-1 is no oid");
    expect(&refusal_of(|one| one.columns.longs[OID][0] = 1 << 32), "is no oid");
    expect(&refusal_of(|one| one.columns.longs[BLOCKS][2] = 5), "has 334 blocks instead of 5");
    expect(&refusal_of(|one| one.columns.longs[BLOCKS][2] = -1), "has 334 blocks");
    expect(&refusal_of(|one| one.columns.longs[RELATION_BLOCKS][2] = 999), "reaches past the relation's 999 blocks");
    expect(&refusal_of(|one| one.columns.longs[RELATION_BLOCKS][2] = -1), "no relation has -1 blocks");
    expect(&refusal_of(|one| one.columns.longs[RELATION_BLOCKS][2] = i64::MAX), "no relation has");
    expect(&refusal_of(|one| one.set("pgthaw.relations", "4")), "do not add up");
    expect(&refusal_of(|one| one.set("pgthaw.os_blocks", "1")), "do not add up");
}

#[test]
fn words_must_be_known() {
    expect(&refusal_of(|one| one.columns.texts[TIER][0] = ByteArray::from("tape")), "\"tape\" is no tier");
    expect(&refusal_of(|one| one.columns.texts[KIND][0] = ByteArray::from("view")), "\"view\" is no kind");
    expect(&refusal_of(|one| one.columns.texts[FORK][0] = ByteArray::from("spoon")), "\"spoon\" is no fork");
    expect(&refusal_of(|one| one.columns.texts[NAME][0] = ByteArray::from(vec![0xff])), "not UTF-8");
    expect(&refusal_of(|one| one.columns.integers[0] = 256), "256 is no heat");
    expect(&refusal_of(|one| one.columns.integers[0] = -1), "-1 is no heat");
    expect(&refusal_of(|one| one.columns.texts[TIER][0] = ByteArray::from("none")), "\"none\" is no tier");
}

#[test]
fn a_usage_count_ends_at_five() {
    let falsify = |one: &mut Forgery| {
        one.columns.texts[TIER][0] = ByteArray::from("buffers");
        one.columns.integers[0] = 6;
    };
    expect(&refusal_of(falsify), "6 is no usage count");
}

#[test]
fn a_block_is_at_one_heat_only() {
    let falsify = |one: &mut Forgery| {
        for column in [NAME, PATH] {
            one.columns.texts[column][1] = one.columns.texts[column][0].clone();
        }
        one.columns.longs[OID][1] = one.columns.longs[OID][0];
        one.columns.longs[RELFILENUMBER][1] = one.columns.longs[RELFILENUMBER][0];
        one.columns.texts[TIER][..2].fill(ByteArray::from("buffers"));
        one.columns.integers[1] = 1;
    };
    expect(&refusal_of(falsify), "in tier buffers twice");
}

#[test]
fn a_file_belongs_to_one_relation() {
    let falsify = |one: &mut Forgery| {
        one.columns.texts[PATH][2] = one.columns.texts[PATH][0].clone();
        one.columns.longs[RELFILENUMBER][2] = one.columns.longs[RELFILENUMBER][0];
    };
    expect(&refusal_of(falsify), "base/5/1 appears twice");
}

#[test]
fn a_bitmap_must_be_one() {
    let of = |bytes: Vec<u8>| refusal_of(|one| one.columns.bytes[0] = ByteArray::from(bytes));
    expect(&of(vec![]), "its bitmap");
    expect(&of(b"not a bitmap at all".to_vec()), "its bitmap");
    expect(&of([12346_u32.to_le_bytes(), u32::MAX.to_le_bytes()].concat()), "its bitmap");
    expect(&of([12346_u32.to_le_bytes(), 65_536_u32.to_le_bytes()].concat()), "its bitmap");
    let mut longer = Forgery::new().columns.bytes[0].data().to_vec();
    longer.push(0);
    expect(&of(longer), "1 bytes follow its bitmap");
}

#[test]
fn metadata_must_make_sense() {
    for (key, value) in [
        ("pgthaw.block_size", "0"),
        ("pgthaw.block_size", "8191"),
        ("pgthaw.block_size", "4294967296"),
        ("pgthaw.segment_blocks", "0"),
        ("pgthaw.system_identifier", "-1"),
        ("pgthaw.taken_at", "yesterday"),
        ("pgthaw.os_tier", "perhaps"),
        ("pgthaw.remarks", "[1"),
        ("pgthaw.lookups", "{\"app\":{\"-1\":1}}"),
        ("pgthaw.format_version", "one"),
    ] {
        expect(&refusal_of(|one| one.set(key, value)), key);
    }
}

#[test]
fn a_label_cannot_pose_as_the_checksum() {
    let mut forgery = Forgery::new();
    let posing = String::from_utf8([b"pgthaw.sha256\x18\x40", ZEROS.as_bytes()].concat()).unwrap();
    forgery.set("pgthaw.label", &posing);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("forged.parquet");
    forgery.write(&path);
    assert_eq!(Snapshot::read(&path).unwrap().label, Some(posing));
}

#[test]
fn other_parquet_files_are_no_snapshots() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.parquet");
    let other = Arc::new(parse_message_type("message sales { required int64 amount; }").unwrap());
    for metadata in [None, Some(Forgery::new().metadata)] {
        let properties = properties(&COLUMNS).unwrap().set_key_value_metadata(metadata).build();
        let file = File::create(&path).unwrap();
        SerializedFileWriter::new(&file, Arc::clone(&other), Arc::new(properties)).unwrap().close().unwrap();
        if file.metadata().unwrap().len() > 500 {
            sign(&path);
        }
        let error = Snapshot::read(&path).unwrap_err();
        assert!(matches!(error, Error::Flawed { flaw: Flaw::NotOne(_), .. }), "{error}");
    }
}

fn replace_groups(path: &Path, replace: impl FnOnce(&[RowGroupMetaData]) -> Vec<RowGroupMetaData>) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    let groups = replace(metadata.row_groups());
    let metadata = ParquetMetaDataBuilder::new(metadata.file_metadata().clone()).set_row_groups(groups).build();
    let mut footer = Vec::new();
    ParquetMetaDataWriter::new(&mut footer, &metadata).finish().unwrap();
    file.write_all_at(&footer, file.metadata().unwrap().len()).unwrap();
    sign(path);
}

#[test]
fn ten_million_relations_are_refused_before_they_are_read() {
    let (_directory, path, _) = written(10_000);
    replace_groups(&path, |groups| vec![groups[0].clone(); 1000]);
    let error = Snapshot::read(&path).unwrap_err();
    assert!(matches!(error, Error::Flawed { flaw: Flaw::TooLarge(_), .. }), "{error}");
    expect(&error.to_string(), "has 10000000 rows, but may have at most");
}

#[test]
fn a_row_group_cannot_announce_more_rows_than_ours_have() {
    for rows in [-1, 0, ROWS_PER_GROUP as i64 + 1, i64::MAX] {
        let (_directory, path, _) = written(3);
        let falsify = |group: &RowGroupMetaData| group.clone().into_builder().set_num_rows(rows).build().unwrap();
        replace_groups(&path, |groups| groups.iter().map(falsify).collect());
        let error = Snapshot::read(&path).unwrap_err();
        assert!(matches!(error, Error::Flawed { flaw: Flaw::Contradiction(_), .. }), "{error}");
    }
}

#[test]
fn a_page_that_unpacks_to_gigabytes_is_not_unpacked() {
    let megabytes = |one: &mut Forgery| one.columns.texts[NAME].fill(ByteArray::from(vec![b'x'; 1 << 20]));
    expect(&refusal_of(megabytes), "unpack to 3145740 bytes, but at most 3072 are allowed");

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bomb.parquet");
    let mut forgery = Forgery::new();
    megabytes(&mut forgery);
    forgery.write(&path);
    let mut bytes = fs::read(&path).unwrap();
    let announced = find(&bytes, &zigzag(3_145_740));
    bytes[announced..announced + 4].copy_from_slice(&[0x90, 0x80, 0x80, 0x00]);
    fs::write(&path, &bytes).unwrap();
    sign(&path);
    let error = Snapshot::read(&path).unwrap_err();
    assert!(matches!(error, Error::Flawed { flaw: Flaw::Contradiction(_), .. }), "{error}");
}

#[test]
fn a_few_bytes_cannot_say_that_they_hold_milliards() {
    let (_directory, path, _) = written(3);
    let mut bytes = fs::read(&path).unwrap();
    // 14 lists of 2³¹ − 1 booleans each at the footer's end, which the library would count.
    bytes.truncate(bytes.len() - 8 - 1);
    bytes.extend([0x19, 0xe9]);
    (0..14).for_each(|_| bytes.extend([0xf1, 0xff, 0xff, 0xff, 0xff, 7]));
    bytes.push(0);
    let metadata = bytes.windows(5).rposition(|window| window == [0x15, 2, 0x19, 0xfc, 17]).unwrap();
    let length = u32::try_from(bytes.len() - metadata).unwrap();
    bytes.extend(length.to_le_bytes());
    bytes.extend(b"PAR1");
    fs::write(&path, &bytes).unwrap();
    sign(&path);
    for error in [
        Snapshot::read(&path).map(drop),
        SnapshotHeader::read_unverified(&path).map(drop),
        SnapshotHeader::read(&path).map(drop),
    ] {
        expect(&error.unwrap_err().to_string(), "its footer is not as pgthaw writes it: a value of unknown type 1");
    }

    let (_directory, path, _) = written(3);
    let mut bytes = fs::read(&path).unwrap();
    let values = 4 + find(&bytes[4..], &[0x2c, 0x15]);
    bytes[values..values + 8].copy_from_slice(&[0x79, 0xe9, 0xf1, 0xff, 0xff, 0xff, 0xff, 7]);
    fs::write(&path, &bytes).unwrap();
    sign(&path);
    expect(&Snapshot::read(&path).unwrap_err().to_string(), "its page header is not as pgthaw writes it");
}

fn zigzag(value: u64) -> Vec<u8> {
    let mut rest = value * 2;
    let mut bytes = Vec::new();
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

fn find(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).unwrap()
}

fn signed_garbage(changes: &[(usize, u8)]) -> (tempfile::TempDir, PathBuf) {
    let (directory, path, _) = written(3);
    let mut bytes = fs::read(&path).unwrap();
    let length = bytes.len();
    changes.iter().for_each(|(place, value)| bytes[place % length] = *value);
    fs::write(&path, &bytes).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    // The change may have damaged what the checksum depends on.
    let _ = apply_checksum(&file);
    (directory, path)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn garbage_never_panics(changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4)) {
        let (_directory, path) = signed_garbage(&changes);
        let _ = Snapshot::read(&path);
        let _ = SnapshotHeader::read(&path);
    }
}

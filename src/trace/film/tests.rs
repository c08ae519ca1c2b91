//! Films as they are written and read, and films that were made to do harm.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes as Memory;
use parquet::file::properties::WriterPropertiesBuilder;

use super::columns::film_properties;
use super::{Film, FilmHeader, FilmWriter, ROWS_PER_GROUP, Totals};
use crate::cache::fixtures::map_of;
use crate::cache::sealed_file::{mend, properties};
use crate::files::draft_beside;
use crate::trace::fixtures::{self, film_relation as relation};
use crate::trace::{Error, Event, EventKind, FilmRelation};
use crate::units::Bytes;

fn event(millisecond: u64, relation: &Arc<FilmRelation>, first: u64, blocks: u64, kind: EventKind) -> Event {
    let job_bytes = Bytes(millisecond * 8192);
    Event { job_bytes, ..fixtures::event(millisecond, relation, first..first + blocks, kind) }
}

/// A file of these events.
fn written(directory: &Path, events: impl Iterator<Item = Event>) -> PathBuf {
    written_as(directory, film_properties().unwrap(), events)
}

fn written_as(directory: &Path, properties: WriterPropertiesBuilder, events: impl Iterator<Item = Event>) -> PathBuf {
    let path = directory.join("film.parquet");
    let writer = FilmWriter::begin_as(draft_beside(&path).unwrap(), &path, properties).unwrap();
    fixtures::place(fixtures::record(writer, &FilmHeader::for_tests(), events).draft, &path);
    path
}

fn read(path: &Path) -> Result<Vec<Event>, Error> {
    let film = Film::open(path)?;
    let mut events = Vec::new();
    film.visit(|event| events.push(event)).map(|()| events)
}

#[test]
fn a_film_is_read_as_it_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let (one, two) = (relation(1), relation(2));
    let own = Event { pid: std::process::id(), ..event(9, &two, 0, 2, EventKind::Fetched) };
    let events = vec![
        event(0, &two, 7, 1, EventKind::Buffers),
        event(1, &one, 4_294_967_294, 1, EventKind::Fetched),
        event(2, &two, 7, 100, EventKind::Requested),
        event(3, &one, 0, 5, EventKind::Fetched),
        own,
        event(9, &two, 7, 3, EventKind::Again),
    ];
    let path = written(directory.path(), events.clone().into_iter());
    assert_eq!(read(&path).unwrap(), events);
    let totals = Totals {
        events: 6,
        fetched_blocks: 6,
        requested_blocks: 100,
        again_blocks: 3,
        preloaded_blocks: 2,
        buffers_blocks: 1,
    };
    let databases = Some(vec![one.name.database.clone()]);
    let expected = FilmHeader { totals, databases, recorder_pid: std::process::id(), ..FilmHeader::for_tests() };
    assert_eq!(*Film::open(&path).unwrap().header(), expected);
    assert_eq!(FilmHeader::read_unverified(&path).unwrap(), expected);
}

#[test]
fn a_film_with_holes_is_not_even_listed() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(directory.path(), std::iter::empty());
    let film = fs::read(&path).unwrap();
    // A footer that is whole behind what was never written.
    let file = File::create(&path).unwrap();
    file.set_len(1 << 20).unwrap();
    file.write_all_at(&film, 1 << 20).unwrap();
    for read in [FilmHeader::read_unverified(&path).map(drop), Film::open(&path).map(drop)] {
        assert!(read.unwrap_err().to_string().contains("holes"));
    }
}

#[test]
fn a_long_film_has_several_groups_and_an_empty_one_none() {
    let directory = tempfile::tempdir().unwrap();
    let one = relation(1);
    let count = ROWS_PER_GROUP as u64 * 2 + 3;
    let path = written(directory.path(), (0..count).map(|at| event(at / 100, &one, at, 1, EventKind::Fetched)));
    let film = Film::open(&path).unwrap();
    let mut next = 0;
    film.visit(|event| {
        assert_eq!(event.blocks.start, next);
        next += 1;
    })
    .unwrap();
    assert_eq!(next, count);
    assert_eq!(film.sealed_groups(), 3);
    let file_bytes = fs::metadata(&path).unwrap().len();
    assert!(file_bytes < count * 4, "{file_bytes} bytes for {count} events");
    fs::remove_file(&path).unwrap();
    assert_eq!(read(&written(directory.path(), std::iter::empty())).unwrap(), []);
}

#[test]
fn a_touch_in_no_order_takes_four_bytes_at_most_and_older_films_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let one = relation(1);
    // As an index leads through a table: four in a millisecond, each somewhere else.
    let events: Vec<Event> = (0..60_000_u64)
        .map(|at| Event {
            job_bytes: Bytes(at * 8192),
            ..event(at / 4, &one, at * 2_654_435_761 % 60_013, 1, EventKind::Fetched)
        })
        .collect();
    let bytes_of = |path: &Path| fs::metadata(path).unwrap().len();
    let path = written(directory.path(), events.iter().cloned());
    let bytes = bytes_of(&path);
    assert!(bytes < 4 * events.len() as u64, "{bytes} bytes");
    assert_eq!(read(&path).unwrap(), events);
    fs::remove_file(&path).unwrap();
    // One of the formats until 2, in which every number is encoded plainly.
    let older = written_as(directory.path(), properties().unwrap(), events.iter().cloned());
    assert!(bytes_of(&older) > bytes * 3 / 2, "{} bytes", bytes_of(&older));
    assert_eq!(read(&older).unwrap(), events);
}

#[test]
fn numbers_of_any_size_are_read_as_they_were_written() {
    let directory = tempfile::tempdir().unwrap();
    let one = relation(1);
    let sizes = [0, 1, u64::MAX >> 1, 7, 1 << 62, 12_345, 3];
    let events: Vec<Event> = (0..1000)
        .map(|at| Event {
            job_bytes: Bytes(sizes[at % sizes.len()]),
            pid: if at % 3 == 0 { u32::MAX } else { at as u32 },
            ..event(
                (at as u64 * 7919) % 1000,
                &one,
                4_294_967_294 - (at as u64 % 2) * 4_294_967_000,
                1,
                EventKind::Again,
            )
        })
        .collect();
    // Blocks of differences that are full and those that are not.
    for count in [1, 2, 65, 256, 257, 258, 1000] {
        let path = written(directory.path(), events[..count].iter().cloned());
        assert_eq!(read(&path).unwrap(), events[..count], "{count}");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn what_is_cut_off_or_changed_is_told_from_a_film() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(directory.path(), (0..100).map(|at| event(at, &relation(1), at, 1, EventKind::Fetched)));
    let whole = fs::read(&path).unwrap();
    for (bytes, said) in [
        (&whole[..whole.len() / 2], "it was cut off, or changed"),
        (&whole[..0], "it is empty"),
        (&b"select 1; select 2;"[..], "not a Parquet file"),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("film.parquet"), "{error}");
    }
    // Wherever a byte is another one, it is found out before anything is believed.
    for at in (4..whole.len() - 8).step_by(97) {
        let mut changed = whole.clone();
        changed[at] ^= 0x20;
        assert!(Film::new(Memory::from(changed), &path).is_err(), "byte {at}");
    }
}

#[test]
fn what_was_made_to_do_harm_gets_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(directory.path(), (0..100).map(|at| event(at, &relation(1), at, 1, EventKind::Fetched)));
    let whole = fs::read(&path).unwrap();
    // With its checksum put right, whatever stands there is an error or a film, and neither a panic nor the machine's memory.
    let mut refused = 0;
    for at in 4..whole.len() - 8 {
        let mut changed = whole.clone();
        changed[at] = changed[at].wrapping_add(1);
        let film = Film::new(Memory::from(mend(&changed)), &path);
        refused += usize::from(film.and_then(|film| film.visit(drop)).is_err());
    }
    assert!(refused > 100, "{refused} of {}", whole.len());
}

#[test]
fn a_snapshot_is_no_film() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("snapshot.parquet");
    crate::cache::Snapshot::new(map_of(Vec::new()), None).write(&path).unwrap();
    let error = read(&path).unwrap_err();
    assert!(matches!(error, Error::NotAFilm { .. }), "{error}");
}

//! Films for tests.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::film::{Event, EventKind, Film, FilmHeader, FilmRelation, FilmWriter, Recorded};
use crate::ForkMap;
use crate::fixtures::relation;
use host::files::{Draft, draft_beside};
use host::units::{BlockRange, Bytes, Fork};

pub fn film_relation(number: u32) -> Arc<FilmRelation> {
    let of = relation(number, ForkMap::empty(Fork::Main, 1)).relation;
    Arc::new(FilmRelation { name: of.name, path: of.path })
}

/// An event of an unknown process.
pub fn event(millisecond: u64, relation: &Arc<FilmRelation>, blocks: Range<u64>, kind: EventKind) -> Event {
    Event {
        time: Duration::from_millis(millisecond),
        relation: Arc::clone(relation),
        fork: Fork::Main,
        blocks: BlockRange::new(blocks.start, blocks.end),
        kind,
        pid: 0,
        job_bytes: Bytes(0),
    }
}

pub fn record(mut writer: FilmWriter, told: &FilmHeader, events: impl IntoIterator<Item = Event>) -> Recorded {
    events.into_iter().for_each(|event| writer.push(&event).unwrap());
    writer.finish(told.clone()).unwrap()
}

pub fn writer(path: &Path) -> FilmWriter {
    FilmWriter::begin(draft_beside(path).unwrap(), path).unwrap()
}

pub fn place(draft: Draft, path: &Path) -> Film<File> {
    draft.place(path.file_name().unwrap()).unwrap();
    Film::open(path).unwrap()
}

pub fn film(path: &Path, told: &FilmHeader, events: impl IntoIterator<Item = Event>) -> Film<File> {
    place(record(writer(path), told, events).draft, path)
}

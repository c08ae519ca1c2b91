//! What a film is made of.

use std::sync::Arc;
use std::time::Duration;

use crate::postgres::{RelationName, RelationPath};
use crate::units::{BlockRange, Bytes, Fork};

/// What is known of blocks that are in a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// They were asked for, and were in the OS page cache before the film began, or pgthaw had brought them.
    Requested,
    /// They were asked for again. In a film only of some blocks, chosen by a hash.
    Again,
    /// They came into the OS page cache; where it is seen what is asked for, they were asked for too.
    Fetched,
    /// They were in shared_buffers before the job began. Whether it used them is not proven.
    Buffers,
}

impl EventKind {
    const ALL: [EventKind; 4] = [EventKind::Requested, EventKind::Again, EventKind::Fetched, EventKind::Buffers];

    /// The word for it in the file.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Requested => "requested",
            EventKind::Again => "again",
            EventKind::Fetched => "fetched",
            EventKind::Buffers => "buffers",
        }
    }

    /// The kind of a word.
    pub fn from_name(name: &str) -> Option<EventKind> {
        EventKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A relation as a film knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilmRelation {
    pub name: RelationName,
    pub path: RelationPath,
}

/// Neighbouring blocks of one fork, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Since the film's beginning.
    pub time: Duration,
    pub relation: Arc<FilmRelation>,
    pub fork: Fork,
    pub blocks: BlockRange,
    pub kind: EventKind,
    /// The process that it is due to; 0 where nobody knows.
    pub pid: u32,
    /// What the job had read by then, this included: what was cached and what it read again too, where that is seen; else what it had
    /// fetched.
    pub job_bytes: Bytes,
}

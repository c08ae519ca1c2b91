//! Where events come from.

use std::sync::Arc;

use super::Error;
use super::event::{EventKind, FilmRelation};
use crate::units::{BlockRange, Fork};

/// Neighbouring blocks that were touched since the last look.
#[derive(Clone, Debug, PartialEq)]
pub struct Touch {
    pub relation: Arc<FilmRelation>,
    pub fork: Fork,
    pub blocks: BlockRange,
    pub kind: EventKind,
    /// 0 where nobody knows.
    pub pid: u32,
    /// pgthaw read over these on its way to others: they came, and are no part of the film.
    pub is_read_over: bool,
}

/// Sees what is touched.
pub trait Source: Send {
    /// Tells `visit` what was touched since the last look, or since the beginning.
    fn look(&mut self, visit: &mut dyn FnMut(Touch)) -> Result<(), Error>;

    /// How it sees, in words for people: with what it cannot see.
    fn describe(&self) -> String;

    /// Events that were lost so far.
    fn lost_events(&self) -> u64;
}

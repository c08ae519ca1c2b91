//! Where events come from.

use std::sync::Arc;
use std::time::Duration;

use super::Error;
use super::event::{EventKind, FilmRelation};
use super::film::Sampled;
use crate::linux::ready::Over;
use crate::units::{BlockRange, Bytes, Fork};

/// Neighbouring blocks that were touched since the last look.
#[derive(Clone, Debug, PartialEq)]
pub struct Touch {
    pub relation: Arc<FilmRelation>,
    pub fork: Fork,
    pub blocks: BlockRange,
    pub kind: EventKind,
    /// 0 where nobody knows.
    pub pid: u32,
    /// When it was, by the monotonic clock; `None`: at some time since the last look.
    pub at: Option<Duration>,
    /// What the job has read by then, this included; `None`: nobody but the one who records counts.
    pub job_bytes: Option<Bytes>,
    /// It is a part of the film. What pgthaw reads over on its way to others is not, nor what came and was not asked for.
    pub is_of_film: bool,
    /// It came into the page cache.
    pub came: bool,
}

impl Touch {
    /// Is the other one of the same kind, at the same moment, and its blocks those that follow?
    pub fn goes_on_with(&self, next: &Touch) -> bool {
        let same = |one: &Touch| (one.fork, one.kind, one.pid, one.at, one.is_of_film, one.came);
        self.blocks.end == next.blocks.start && Arc::ptr_eq(&self.relation, &next.relation) && same(self) == same(next)
    }
}

/// Were server processes of the command seen that a film is of?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobSeen {
    /// Nobody can tell whose reads are whose, or it is of no command.
    #[default]
    Unknown,
    Yes,
    /// None was, and nobody asked for anything.
    No,
    /// None was, and the film has what all of the cluster asked for.
    Everybody,
}

/// What a source says of itself when it ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceEnd {
    /// Events that were lost.
    pub lost_events: u64,
    /// Of which blocks every request was told; `None` where requests are not seen.
    pub sampling: Option<Sampled>,
    /// What came for the job though it had come before; `None` where that is not seen.
    pub fetched_again: Option<Bytes>,
    /// How often its programs in the kernel ran, and nanoseconds that this took, by the kernel's own count.
    pub cost: Option<(u64, u64)>,
    pub job_seen: JobSeen,
    /// Whom it took for the job's without having seen that, and why.
    pub guessed: Vec<String>,
    pub remarks: Vec<String>,
}

/// Sees what is touched.
pub trait Source: Send {
    /// Waits until it is time to look again; the last look `took` so long. `false` when it is `over`, and there is no more to be looked at.
    fn wait(&mut self, took: Duration, over: &Over) -> bool;

    /// Tells `visit` what was touched since the last look, or since the beginning.
    fn look(&mut self, visit: &mut dyn FnMut(Touch)) -> Result<(), Error>;

    /// How it sees, in words for people: with what it cannot see.
    fn describe(&self) -> String;

    /// Looks a last time.
    fn end(&mut self, visit: &mut dyn FnMut(Touch)) -> Result<SourceEnd, Error>;
}

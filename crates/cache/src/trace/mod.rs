//! Films of what jobs touch: recorded, kept, and used to read what a job needs while it starts.

mod assist;
mod attend;
mod decision;
mod error;
mod film;
mod film_file;
#[cfg(test)]
mod fixtures;
mod job;
mod journal;
mod preload;
mod put_back;
mod record;
mod requests;
mod simulation;
mod source;
mod store;
mod summary;
mod touched;

pub use assist::{Assist, Judged, KeptFilm, Means, OthersSeen, Planned, RunReceipt, Which, describe_sessions};
pub use attend::{Attend, Attended, BoundedRoom, Isolated, Progress, Sessions, WAITED_FOR, read_cache_bound};
pub use decision::{Circumstances, Decision, Forecasts, decide};
pub use error::Error;
pub use film::{Event, EventKind, FilmHeader, FilmRelation, ProbeShare, Sampled, Totals};
pub use film_file::{Film, FilmWriter};
pub use job::Job;
pub use journal::{Journal, Journals, Left, Restoring};
pub use preload::{Bringer, Preloaded};
pub use put_back::{PutBack, PuttingBack};
pub use record::{Came, Recorded, Recording};
pub use requests::{AskSessions, Followed, Named, Requests, Wanted};
pub use simulation::{PriceSource, Run, Way};
pub use source::{JobSeen, Own, Polling, Source, SourceEnd, Touch};
pub use store::{Chosen, FilmStore, Films, KEPT, Like, databases_of};
pub use summary::{
    COLUMNS, CurvePoint, FilmPicture, FilmSummary, MOMENTS, MissRatioCurve, Moment, ROWS, RelationPicture,
    RelationTouches,
};
pub use touched::Touched;

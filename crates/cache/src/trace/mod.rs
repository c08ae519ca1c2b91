//! Films of jobs: recorded, stored, and used for preloads.

mod assist;
mod attend;
mod decision;
mod error;
mod film;
#[cfg(test)]
mod fixtures;
mod put_back;
mod record;
mod requests;
mod simulation;
mod store;
mod touched;
mod whose;

pub use assist::{Assist, Judged, KeptFilm, Means, OthersSeen, Planned, Preloaded, RunReceipt, describe_sessions};
pub use attend::{Attend, Attended, Isolated, Progress, Sessions, WAITED_FOR, read_cache_bound};
pub use decision::{Decision, Forecasts};
pub use error::{Error, Result};
pub use film::{
    Event, EventKind, Film, FilmHeader, FilmRelation, FilmWriter, JobSeen, ProbeShare, Recorded, Sampled, Totals,
};
pub use put_back::{EndedJob, Journal, Journals, Left, PutBack, PuttingBack};
pub use record::{Account, Came, Own, Polling, Recording, Source};
pub use requests::Requests;
pub use simulation::{Job, PriceSource, Run, Way};
pub use store::{FilmStore, Which};
pub use touched::{
    COLUMNS, CurvePoint, FilmSummary, MOMENTS, MissRatioCurve, Moment, Picture, ROWS, RelationTouches, Touched,
};
pub use whose::{AskSessions, Named, Wanted};

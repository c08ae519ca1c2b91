//! Films of what jobs touch: recorded, kept, and used to bring what a job needs while it starts.

mod assist;
mod decision;
mod error;
mod event;
mod film;
mod journal;
mod polling;
mod preload;
mod put_back;
mod receipt;
mod record;
mod simulation;
mod source;
mod store;
mod summary;
mod touched;

pub use assist::{Assist, Assisted};
pub use decision::{Decision, Forecasts, decide};
pub use error::Error;
pub use event::{Event, EventKind, FilmRelation};
pub use film::{Film, FilmHeader, FilmWriter, Totals};
pub use journal::{Journal, Journals, Left};
pub use polling::{Own, Polling};
pub use preload::{Preload, Preloaded};
pub use put_back::{PutBack, PuttingBack};
pub use receipt::{KeptFilm, RunReceipt};
pub use record::{Came, Recorded, Recording};
pub use simulation::{Run, Way};
pub use source::{Source, Touch};
pub use store::{FilmStore, KEPT, Like};
pub use summary::{FilmSummary, Moment, RelationTouches};
pub use touched::Touched;

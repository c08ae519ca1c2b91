//! One file per subcommand of the laboratory: its flags beside its behaviour, its doc comment its help.

pub mod bench;
pub mod judge;
pub mod report;
pub mod results;
pub mod serve;
mod store;
pub mod text;

pub use judge::Unreadable;
pub use store::StoreArguments;

// Hidden: the laboratory starts it as a process of its own.
pub use crate::bench::apply_read_ranges;
pub use command::{ConnectionArguments, ExitStatus, LabArguments, OutputArguments, Target, require_lab_server};

use command::{Cast, cast};

/// The error types of the laboratory, one a line.
pub const ERRORS: &[Cast] =
    &[cast::<crate::lab::Error>, cast::<crate::study::Error>, cast::<crate::results::Error>, cast::<Unreadable>];

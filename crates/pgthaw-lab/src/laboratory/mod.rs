//! Subcommands of the laboratory, one file each. Their doc comments are the help.

pub mod bench;
pub mod judge;
pub mod report;
pub mod results;
pub mod serve;
mod store;
pub mod text;

pub use judge::Unreadable;
pub use store::StoreArguments;

pub use command::{ConnectionArguments, ExitStatus, LabArguments, OutputArguments, Target, require_lab_server};

use command::{Cast, cast};

pub const ERRORS: &[Cast] = &[cast::<crate::study::Error>, cast::<crate::results::Error>, cast::<Unreadable>];

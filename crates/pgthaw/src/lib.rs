//! One file or folder per subcommand. The doc comments of a subcommand's options are its help.

mod agent;
mod cli;
mod doctor;
mod evict;
mod film;
mod hydrate;
mod looking;
mod map;
mod predict;
mod restore;
mod run;
#[cfg(test)]
mod schema_tests;
mod snapshot;
#[cfg(not(fuzzing))]
mod top;
#[cfg(fuzzing)]
pub mod top;
mod waits;
pub mod warm_progress;

#[cfg(not(test))]
use derives::JsonSchema;
#[cfg(test)]
use schemars::JsonSchema;

pub use cli::{Cli, NoLaboratory};

use command::{Cast, cast};

pub const ERRORS: &[Cast] = &[cast::<NoLaboratory>, cast::<agent::AgentError>];
pub use map::view::{SelectionArguments, ViewArguments, add_heat, read_current_map};
pub use run::guard_job;
pub use snapshot::{SnapshotPlace, SnapshotsArguments};

pub use command::{
    ConnectionArguments, ExitStatus, LabArguments, OutputArguments, PositionalArguments, Scope, Target,
    connect_to_meant, describe, explain, find_address, find_cluster, find_directory, is_lab_server,
    is_served_invisibly, page_cache_of, require_lab_server, situation_of,
};

//! What both programs share of their commands: the connection and its target, settings, output, exit status, errors in words, and what is
//! written for other programs and browsers.

#[cfg(test)]
#[macro_use]
extern crate host;

mod caught;
pub mod completions;
mod connection;
mod device;
pub mod document;
mod explain;
pub mod http;
mod lab_server;
mod output;
mod running;
mod runtime;
mod settings;
mod signals;
pub mod table;
mod target;
mod words;
pub mod workload;

pub use caught::{Panicked, run_caught};
pub use connection::{ConnectionArguments, PositionalArguments};
pub use device::{DEFAULT_LATENCY_SECONDS, find_profile, own_limit, read_ahead_bytes, read_device_with};
pub use explain::{Cast, cast, describe, explain, explain_also};
pub use lab_server::{LabArguments, NotALabServer, is_lab_server, require_lab_server};
pub use output::{ExitStatus, OutputArguments, exit_status_of};
pub use running::run_program;
pub use runtime::{NoThreads, start_runtime};
pub use settings::{GONE, SettingsError, find_successor, read_command_line};
pub use signals::hear_signals;
pub use target::{Scope, Target, connect_to_meant, find_cluster, find_directory, page_cache_of, situation_of};
pub use words::keep_private;

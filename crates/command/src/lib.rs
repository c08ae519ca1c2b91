//! Code that both programs' commands share.

#[cfg(test)]
#[macro_use]
extern crate host;

pub mod completions;
mod connection;
mod device;
pub mod document;
mod explain;
mod help;
pub mod http;
mod output;
mod program;
mod running;
mod settings;
pub mod table;
mod target;
pub mod workload;

pub use connection::{ConnectionArguments, PositionalArguments};
pub use device::{find_limit, find_limit_of, find_profile, find_profile_of, read_ahead_bytes, read_device_with};
pub use explain::{Cast, cast, describe, explain, explain_also};
pub use help::{connection_topic, with_examples, with_help};
pub use output::{ExitStatus, OutputArguments, exit_status_of};
pub use program::{NoThreads, Panicked, hear_signals, keep_private, run_caught, start_runtime};
pub use running::run_program;
pub use settings::{SettingsError, explain_refused, find_successor, is_option, list_gone, read_command_line};
pub use target::{
    LabArguments, NotALabServer, Scope, Target, connect_to_meant, find_address, find_cluster, find_directory,
    is_lab_server, is_served_invisibly, page_cache_of, require_lab_server, situation_of,
};

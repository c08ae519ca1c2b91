//! Several load generators for one trial: pgbench on other hosts, begun at one instant, counted as if it were one.
//!
//! A host is whatever a command reaches that runs `sh` with our standard input and output: ssh, a network namespace, a
//! container. All that it is told goes through that pipe, so nothing has to be quoted for any shell on the way, no
//! password stands in a list of processes, and when the pipe ends (Ctrl-C, `kill -9`, a cable) pgbench ends there.

mod fleet;
mod script;
mod session;
mod trial_load;

pub use fleet::check_hosts;
pub use trial_load::{LoadFigures, TrialLoad};

//! Every integration test in one binary: it links once. A module a feature; `servers` is what they share.
#![allow(clippy::unwrap_used)]

#[macro_use]
mod servers;

mod bench;
mod command_line;
mod evict;
mod heat;
mod hydrate;
mod judgement;
mod map;
mod predict;
mod probe;
mod receipt;
mod report;
mod restore;
mod results;
mod server_doctor;
mod server_postgres;
mod server_target;
mod snapshot;
mod steady;
mod summary;
mod synthetic_run;

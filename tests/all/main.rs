//! Every integration test in one binary: it links once. A module a feature; `servers`,
//! `memory_limit` and `untested` are what they share.
#![allow(clippy::unwrap_used)]

#[macro_use]
extern crate host;

mod memory_limit;
#[macro_use]
mod servers;

mod before_login;
mod bench;
mod bounds;
mod choice;
mod command_line;
mod consistency;
mod culprits;
mod edited_documents;
mod encodings;
mod every_study;
mod evict;
mod film_mistakes;
mod films;
mod films_of_clusters;
mod first_contact;
mod generators;
mod guarded;
mod guides;
mod heat;
mod hostile;
mod hydrate;
mod isolate;
mod job_forecast;
mod judgement;
mod kept;
mod killed_runs;
mod kills;
mod least_privilege;
mod lying_server;
mod map;
mod measures;
mod memory;
mod mistakes;
mod modes;
mod narrow;
mod others;
mod others_pages;
mod outside;
mod pasted;
mod places;
mod poolers;
mod predict;
mod probe;
mod psql_habits;
mod receipt;
mod report;
mod report_sweep;
mod requests;
mod restore;
mod results;
mod results_exchange;
mod results_import;
mod results_import_missing;
mod results_server;
mod rolled_up;
mod round_trip;
mod rows;
mod secrets;
mod serve;
mod server_doctor;
mod server_meanwhile;
mod server_postgres;
mod server_target;
mod snapshot;
mod sources;
mod stalls;
mod steady;
mod strict_json;
mod study_jobs;
mod study_time;
mod sweep;
mod sweep_grounds;
mod sweep_resume;
mod synthetic_host;
mod synthetic_run;
mod synthetic_sweep;
mod top;
mod waits;

//! The ground that a study stands on: disks, file systems, clusters, databases, load generators. Makes them and undoes them.

mod availability;
mod cluster;
mod databases;
pub mod disk;
mod error;
mod fresh_database;
mod generator;
mod generators;
mod launch;
mod left;
mod server;
mod site;

pub use availability::{find_obstacle, find_program, read_file_system_remarks, read_setting_remarks};
pub use cluster::{Lab, Place, drop_benchmark, run_statement};
pub use databases::{ScriptCopies, client_variables, read_unchanged};
pub use disk::{
    DeviceUse, GroundFacts, PartDisk, choose_in_force, leaves_files_as_they_were, repair_read_ahead, tell_disk_remarks,
};
pub use error::{Error, Measuring};
pub use fresh_database::FreshDatabase;
pub use generator::{Generator, LocalPgbench, NoLoad, Start, read_paces, run_pgbench};
pub use generators::{LoadFigures, TrialLoad, check_hosts};
pub use launch::{Ended, Gated, Launch, Running, Stop, WorkDirectory, remove_abandoned};
pub use left::SweepLock;
pub use server::{
    CONTROL_DATABASE, Look, apply_reload, check_settings, connect, connect_to, describe_machine, needs_restart,
    read_final_look, read_look, read_tables,
};
pub use site::{Site, SiteKey, SiteMaker, SitesAsked};

//! The ground that a study stands on: disks, file systems, clusters, databases, load generators. Makes them and undoes them.

mod availability;
mod cluster;
mod copies;
mod databases;
pub mod disk;
mod error;
mod fresh_database;
mod generator;
mod generators;
mod launch;
mod left;
mod lock;
mod machine;
mod own_file_system;
mod server;
mod settings;
mod site;
mod stop;
mod work_directory;

pub use availability::{find_obstacle, find_program};
pub use cluster::{Lab, Place, drop_benchmark, run_statement};
pub use copies::{ScriptCopies, read_unchanged};
pub use databases::client_variables;
pub use disk::{DeviceUse, PartDisk, choose_in_force, leaves_files_as_they_were, repair_read_ahead, tell_disk_remarks};
pub use error::{Error, Measuring};
pub use fresh_database::FreshDatabase;
pub use generator::{Generator, LocalPgbench, NoLoad, Start, read_paces, run_pgbench};
pub use generators::{LoadFigures, TrialLoad, check_hosts};
pub use launch::{Ended, Gated, Launch, Running};
pub use lock::SweepLock;
pub use machine::describe_machine;
pub use own_file_system::GroundFacts;
pub use server::{
    CONTROL_DATABASE, Look, apply_reload, check_settings, connect, connect_to, needs_restart, read_final_look,
    read_look, read_tables,
};
pub use settings::{read_file_system_remarks, read_setting_remarks};
pub use site::{Site, SiteKey, SiteMaker, SitesAsked};
pub use stop::Stop;
pub use work_directory::{WorkDirectory, remove_abandoned};

mod cluster;
mod databases;
pub mod disk;
mod generator;
mod hosts;
mod launch;
mod left;
mod load;
mod server;
mod site;

pub use cluster::{Lab, Place, drop_benchmark, run_statement};
pub use databases::{
    FreshDatabase, ScriptCopies, client_variables, connection_arguments, make_databases, plan_psql, read_unchanged,
};
pub use disk::{GroundFacts, PartDisk, choose_in_force, leaves_files_as_they_were, repair_read_ahead};
pub use generator::{Generator, LoadFigures};
pub use hosts::check_hosts;
pub use launch::{Ended, Launch, Running, Start, Stop, Work, read_paces, remove_abandoned, run_program};
pub use left::SweepLock;
pub use load::{LocalPgbench, plan_load, ready_load};
pub use server::{
    CONTROL_DATABASE, Look, apply_reload, check_settings, connect, connect_to, describe_machine, find_obstacle,
    find_program, needs_restart, read_file_system_remarks, read_final_look, read_look, read_setting_remarks,
    read_tables,
};
pub use site::{Earlier, Site, SiteKey, SiteMaker, StudyAsked, SweepOptions};

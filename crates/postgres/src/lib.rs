//! PostgreSQL: catalogs, buffers, files, programs.

#[cfg(test)]
#[macro_use]
extern crate host;

mod activity;
mod answer;
mod buffercache;
pub mod capability;
mod catalog;
mod connect;
mod contained_socket;
mod container;
mod data_directory;
mod error;
mod extension;
#[cfg(any(test, feature = "fixtures"))]
mod fixtures;
#[cfg(fuzzing)]
pub mod fuzzing;
mod inventory;
mod lender;
pub mod pgbench;
mod programs;
mod remedy;
mod scratch;
mod secrets;
mod server;
mod shown_statement;
mod statistics;
pub mod trust;
mod warm_set;

#[cfg(not(any(test, feature = "formats")))]
use derives::{JsonSchema, TS};
#[cfg(any(test, feature = "formats"))]
use {schemars::JsonSchema, ts_rs::TS};

pub use activity::{
    Activity, LockProcess, RelationActivity, RowCounts, Session, WALSENDER, Wait, WaitLook, background_kind, leader_of,
    read_activity, read_backend_pid, read_lock_waits, read_named_sessions, read_postmaster_start,
    read_relation_of_file, read_sessions, read_temporary_files, read_wait_event_names, read_waits,
};
pub use buffercache::{
    Buffer, BufferSet, BufferUse, apply_checkpoint, apply_evict_buffers, can_evict_buffers, read_buffer_sets,
    read_buffers, read_usage_summary,
};
pub use catalog::{
    BlockReads, Database, ForkBlocks, PartitionedTable, Relation, RelationKind, RelationName, RelationPath,
    RelationPathError, RowCount, read_block_reads, read_database_comment, read_databases, read_fork_blocks,
    read_partitioned_tables, read_relations, read_row_counts,
};
use connect::Reached;
pub use connect::{ConnectOptions, Parameters, PlainServer, SystemUser, hide_password, parse_connection_string};
pub use data_directory::{DataDirectory, Postmaster};
pub use error::{Error, Result};
pub use extension::{
    Extension, PG_BUFFERCACHE, PG_PREWARM, PrewarmMode, Prewarmer, apply_create_extension, find_extension,
};
pub use inventory::{
    ConfiguredSetting, ServerBuild, SettingState, parse_setting_number, read_configuration,
    read_installable_extensions, read_load_time, read_preloaded, read_server_build, read_setting_errors,
    read_setting_overrides, read_setting_states, read_settings,
};
pub use lender::{Lender, SettingJudge, SettingRefusal, read_configured_setting};
pub use pgbench::{Length, Load, Pgbench, SCRIPT_BYTES_MAX, Script, TransactionLog, visit_transactions};
pub use programs::{Programs, ProgramsVersion};
pub use remedy::{Address, grant, psql_as, quote_identifier, quote_value};
pub use sqlx::PgConnection;
pub use statistics::{
    CheckpointPulse, RowDelta, ServerPulse, ServerStatistics, Statements, StatisticsDelta, read_all_transactions,
    read_checkpoint_pulse, read_lookups, read_pulse, read_server_statistics, read_statements, read_table_statistics,
};

pub use host::failure::quote_argument;
pub use scratch::{
    CLUSTER_PREFIX, LAB_CLUSTER_NAME, Listening, MarkedDirectory, OwnerMark, ScratchCluster, StopMode, has_cluster,
    has_server, hurry_clusters, remove_abandoned, remove_cluster,
};
pub use secrets::{NOT_KEPT, keep_document, keep_record, keep_setting, keep_text, keep_words};
pub use server::{Server, ServerFacts, apply_no_session_limits, can_tell_at_once, tell_statistics};
pub use shown_statement::show_statement;
pub use warm_set::{
    ServerLook, WalPositions, WarmRow, WarmSet, WarmState, has_warm_set, read_server_look, read_warm_set,
    read_warm_state, render_setup, write_warm_set,
};

//! What PostgreSQL knows and does: its catalogs, its buffers, its files' names, its programs.

mod error;
pub mod pgbench;
mod programs;
mod relation;
mod relation_path;
mod scratch;
mod server;

pub use error::Error;
pub use programs::{MissingProgram, Programs, ProgramsVersion};
pub use relation::{Relation, RelationKind, RelationName};
pub use relation_path::{RelationPath, RelationPathError};
pub use scratch::{LAB_CLUSTER_NAME, ScratchCluster, StopMode};
pub use server::{ConnectOptions, Server, ServerFacts};

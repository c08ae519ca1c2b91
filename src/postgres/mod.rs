//! What PostgreSQL knows and does: its catalogs, its buffers, its files' names, its programs.

mod error;
mod relation;
mod relation_path;
mod server;

pub use error::Error;
pub use relation::{Relation, RelationKind, RelationName};
pub use relation_path::{RelationPath, RelationPathError};
pub use server::{ConnectOptions, Server, ServerFacts};

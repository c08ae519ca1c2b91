//! Where a relation's files are, as a value that cannot leave the data directory.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::Fork;

/// The place of a relation's first main-fork segment below the data directory, as `pg_relation_filepath()` prints it.
/// It is only ever made of numbers and of a checked version directory, so that a snapshot file cannot name anything
/// outside. See `src/common/relpath.c` of PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RelationPath {
    /// `global/RELFILENUMBER`: a shared catalog.
    Global { relfilenumber: u32 },
    /// `base/DATABASE/RELFILENUMBER`: the default tablespace.
    Base { database_oid: u32, relfilenumber: u32 },
    /// `pg_tblspc/TABLESPACE/PG_15_202209061/DATABASE/RELFILENUMBER`.
    Tablespace { tablespace_oid: u32, version_directory: String, database_oid: u32, relfilenumber: u32 },
}

/// The text is not the path of a relation.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not the path of a relation below a data directory")]
pub struct RelationPathError(pub String);

impl RelationPath {
    /// The file's number, which a rewrite changes.
    pub fn relfilenumber(&self) -> u32 {
        match self {
            RelationPath::Global { relfilenumber }
            | RelationPath::Base { relfilenumber, .. }
            | RelationPath::Tablespace { relfilenumber, .. } => *relfilenumber,
        }
    }

    /// The database's oid; 0 for a shared catalog, as pg_buffercache has it.
    pub fn database_oid(&self) -> u32 {
        match self {
            RelationPath::Global { .. } => 0,
            RelationPath::Base { database_oid, .. } | RelationPath::Tablespace { database_oid, .. } => *database_oid,
        }
    }

    /// The tablespace's oid as pg_buffercache has it: 1663 is pg_default, 1664 pg_global.
    pub fn tablespace_oid(&self) -> u32 {
        match self {
            RelationPath::Global { .. } => 1664,
            RelationPath::Base { .. } => 1663,
            RelationPath::Tablespace { tablespace_oid, .. } => *tablespace_oid,
        }
    }

    /// The file of one segment of one fork, below the data directory: `base/5/16384_vm`, `base/5/16384.1`.
    pub fn segment_file(&self, data_directory: &Path, fork: Fork, segment: u32) -> PathBuf {
        let segment = if segment == 0 { String::new() } else { format!(".{segment}") };
        data_directory.join(format!("{self}{}{segment}", fork.suffix()))
    }
}

impl fmt::Display for RelationPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RelationPath::Global { relfilenumber } => write!(f, "global/{relfilenumber}"),
            RelationPath::Base { database_oid, relfilenumber } => write!(f, "base/{database_oid}/{relfilenumber}"),
            RelationPath::Tablespace { tablespace_oid, version_directory, database_oid, relfilenumber } => {
                write!(f, "pg_tblspc/{tablespace_oid}/{version_directory}/{database_oid}/{relfilenumber}")
            }
        }
    }
}

impl FromStr for RelationPath {
    type Err = RelationPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || RelationPathError(text.to_owned());
        let number = |part: &str| parse_oid(part).ok_or_else(wrong);
        let parts: Vec<&str> = text.split('/').collect();
        match parts.as_slice() {
            ["global", file] => Ok(RelationPath::Global { relfilenumber: number(file)? }),
            ["base", database, file] => {
                Ok(RelationPath::Base { database_oid: number(database)?, relfilenumber: number(file)? })
            }
            ["pg_tblspc", tablespace, version, database, file] if is_version_directory(version) => {
                Ok(RelationPath::Tablespace {
                    tablespace_oid: number(tablespace)?,
                    version_directory: (*version).to_owned(),
                    database_oid: number(database)?,
                    relfilenumber: number(file)?,
                })
            }
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for RelationPath {
    type Error = RelationPathError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<RelationPath> for String {
    fn from(path: RelationPath) -> String {
        path.to_string()
    }
}

/// Digits alone: `u32::from_str` would take a sign too.
fn parse_oid(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// `PG_` major `_` catalog version.
fn is_version_directory(text: &str) -> bool {
    let Some((major, catalog)) = text.strip_prefix("PG_").and_then(|rest| rest.split_once('_')) else {
        return false;
    };
    parse_oid(major).is_some() && parse_oid(catalog).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints() {
        for text in ["global/1262", "base/5/16384", "pg_tblspc/16390/PG_15_202209061/5/16391"] {
            assert_eq!(text.parse::<RelationPath>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_path_cannot_leave_the_data_directory() {
        let hostile = [
            "",
            "/etc/passwd",
            "../../etc/passwd",
            "base/../../etc/passwd",
            "base/5/..",
            "base/5/16384/..",
            "base//5",
            "base/5/+16384",
            "base/5/16384\0",
            "global/pg_control",
            "pg_tblspc/1/../5/6",
            "pg_tblspc/1/PG_x_1/5/6",
            "base/5/99999999999",
            "base/5/16384.1",
        ];
        for text in hostile {
            assert!(text.parse::<RelationPath>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_segments_of_forks() {
        let path: RelationPath = "base/5/16384".parse().unwrap();
        let root = Path::new("/data");
        assert_eq!(path.segment_file(root, Fork::Main, 0), Path::new("/data/base/5/16384"));
        assert_eq!(path.segment_file(root, Fork::Main, 2), Path::new("/data/base/5/16384.2"));
        assert_eq!(path.segment_file(root, Fork::Vm, 0), Path::new("/data/base/5/16384_vm"));
    }
}

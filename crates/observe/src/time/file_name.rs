//! Which of the server's files it is, from its own name and those of the directories above it.

use std::fmt;

use serde::Serialize;

use host::units::Fork;
use postgres::RelationPath;

/// What a file of the server is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A segment of a fork of a table or an index.
    Relation,
    /// A segment of the write-ahead log.
    Wal,
    /// Which transactions have committed, and the like: pg_xact, pg_multixact, pg_subtrans, pg_commit_ts.
    TransactionStatus,
    /// What did not fit in work_mem.
    Temporary,
    #[default]
    Other,
}

/// Where a file is, below the data directory as a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct FileName {
    /// `base/16386/16387.1`; empty where no name could be read.
    pub path: String,
    pub kind: FileKind,
    /// What of a relation it is: the file of its main fork's first segment, and the database's oid, 0 of a shared catalog.
    #[serde(skip)]
    pub relation: Option<(u32, u32)>,
}

impl FileName {
    /// From its own name, that of its directory, and so on. Names above the data directory may be among them.
    pub fn of_names(names: &[&str]) -> FileName {
        let at = |place: usize| names.get(place).copied().unwrap_or_default();
        let (own, parent, above) = (at(0), at(1), at(2));
        let temporary = |place: usize| at(place).starts_with("pgsql_tmp");
        if temporary(1) || temporary(2) {
            let depth = if temporary(2) { 4 } else { 3 };
            return FileName { path: join(names, depth), kind: FileKind::Temporary, relation: None };
        }
        if is_wal(own) {
            return FileName { path: join(names, 2), kind: FileKind::Wal, relation: None };
        }
        if ["pg_xact", "pg_subtrans", "pg_commit_ts"].contains(&parent) {
            return FileName { path: join(names, 2), kind: FileKind::TransactionStatus, relation: None };
        }
        if above == "pg_multixact" {
            return FileName { path: join(names, 3), kind: FileKind::TransactionStatus, relation: None };
        }
        let number = relation_number(own);
        let database = parent.parse::<u32>().ok();
        match (number, database) {
            (Some(number), _) if parent == "global" => FileName::of_relation(join(names, 2), 0, number),
            (Some(number), Some(database)) if above == "base" => {
                FileName::of_relation(join(names, 3), database, number)
            }
            (Some(number), Some(database)) if above.starts_with("PG_") => {
                FileName::of_relation(join(names, 3), database, number)
            }
            _ => FileName { path: join(names, 2), kind: FileKind::Other, relation: None },
        }
    }

    /// What temporary files are in, as they come and go by thousands.
    pub fn temporary_directory(&self) -> Option<FileName> {
        let (directory, _) = self.path.split_once("pgsql_tmp").filter(|_| self.kind == FileKind::Temporary)?;
        Some(FileName { path: format!("{directory}pgsql_tmp"), kind: FileKind::Temporary, relation: None })
    }

    fn of_relation(path: String, database: u32, number: u32) -> FileName {
        FileName { path, kind: FileKind::Relation, relation: Some((database, number)) }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(or_nameless(&self.path))
    }
}

/// A file's path for people, who are told of one that has none.
pub fn or_nameless(path: &str) -> &str {
    if path.is_empty() { "a file without a name" } else { path }
}

/// The last names, the outermost first.
fn join(names: &[&str], depth: usize) -> String {
    let shown: Vec<&str> = names.iter().take(depth).rev().filter(|name| !name.is_empty()).copied().collect();
    shown.join("/")
}

/// 24 digits: time line, log, segment (`XLogFileName` of `src/include/access/xlog_internal.h`).
fn is_wal(name: &str) -> bool {
    name.len() == 24 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Of `16387`, `16387.1`, `16387_vm`, `16387_fsm.2`.
fn relation_number(name: &str) -> Option<u32> {
    let of_fork = name.split_once('.').map_or(name, |(of_fork, _)| of_fork);
    let number = match of_fork.split_once('_') {
        Some((number, fork)) => Fork::from_name(fork).map(|_| number)?,
        None => of_fork,
    };
    format!("global/{number}").parse::<RelationPath>().ok().map(|path| path.relfilenumber())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_file_is_for() {
        for (names, path, kind, relation) in [
            (&["16387.1", "16386", "base", "data"][..], "base/16386/16387.1", FileKind::Relation, Some((16386, 16387))),
            (&["16387_vm", "5", "base", "data"], "base/5/16387_vm", FileKind::Relation, Some((5, 16387))),
            (&["1262", "global", "data", "lib"], "global/1262", FileKind::Relation, Some((0, 1262))),
            (&["9", "5", "PG_15_2", "fast"], "PG_15_2/5/9", FileKind::Relation, Some((5, 9))),
            (&["00000001000000000000002A", "pg_wal", "data"], "pg_wal/00000001000000000000002A", FileKind::Wal, None),
            (&["0000", "pg_xact", "data", "x"], "pg_xact/0000", FileKind::TransactionStatus, None),
            (&["0000", "offsets", "pg_multixact", "x"], "pg_multixact/offsets/0000", FileKind::TransactionStatus, None),
            (&["pgsql_tmp7.0", "pgsql_tmp", "base", "x"], "base/pgsql_tmp/pgsql_tmp7.0", FileKind::Temporary, None),
            (
                &["i1of4.p0.0", "pgsql_tmp7.0.fileset", "pgsql_tmp", "base"],
                "base/pgsql_tmp/pgsql_tmp7.0.fileset/i1of4.p0.0",
                FileKind::Temporary,
                None,
            ),
            (&["pg_control", "global", "data", "x"], "global/pg_control", FileKind::Other, None),
            (&["t3_16400", "5", "base", "data"], "5/t3_16400", FileKind::Other, None),
            (&[], "", FileKind::Other, None),
        ] {
            let named = FileName::of_names(names);
            assert_eq!((named.path.as_str(), named.kind, named.relation), (path, kind, relation));
        }
        let temporary = FileName::of_names(&["i1of4.p0.0", "pgsql_tmp7.0.fileset", "pgsql_tmp", "base"]);
        let directory = temporary.temporary_directory().unwrap();
        assert_eq!(
            (directory.path.as_str(), directory.temporary_directory()),
            ("base/pgsql_tmp", Some(directory.clone()))
        );
        assert_eq!(FileName::default().to_string(), "a file without a name");
    }
}

//! What of a snapshot can still come back: what it holds of a database that was dropped since is worth nothing.

use std::collections::BTreeSet;

use super::{DatabaseBlocks, SnapshotHeader};

/// Databases that users made have this oid or a greater one: FirstNormalObjectId of PostgreSQL's src/include/access/transam.h.
const FIRST_USER_OID: u32 = 16_384;

/// The databases of a cluster that are there, by their oids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Databases(BTreeSet<u32>);

impl Databases {
    /// These are there. `None`: a cluster without any is one that nobody could look at.
    pub fn of(oids: impl IntoIterator<Item = u32>) -> Option<Databases> {
        let oids: BTreeSet<u32> = oids.into_iter().collect();
        (!oids.is_empty()).then_some(Databases(oids))
    }

    /// What these say of themselves as if they held nothing of databases that are gone.
    pub fn count(&self, headers: &[SnapshotHeader]) -> Vec<SnapshotHeader> {
        let known = self.known(headers);
        let count = |header: &SnapshotHeader| {
            let mut counted = header.clone();
            for database in self.gone(header, &known) {
                counted.os_blocks = counted.os_blocks.saturating_sub(database.os_blocks);
                counted.buffer_blocks = counted.buffer_blocks.saturating_sub(database.buffers_blocks);
            }
            counted
        };
        headers.iter().map(count).collect()
    }

    /// The names of the databases that one of these holds something of and that are gone.
    pub fn gone_of<'a>(&self, header: &'a SnapshotHeader, headers: &[SnapshotHeader]) -> Vec<&'a str> {
        let known = self.known(headers);
        let holds = |one: &&DatabaseBlocks| one.os_blocks > 0 || one.buffers_blocks > 0;
        self.gone(header, &known).filter(holds).map(|one| &*one.name).collect()
    }

    /// A database that was made anew has another oid, and what is restored into it is found by name. Whoever took a snapshot since
    /// knows of it. Where there is one that no snapshot knows, it may be any that is missing: then none is taken for gone.
    fn gone<'a>(&self, header: &'a SnapshotHeader, known: &Known<'_>) -> impl Iterator<Item = &'a DatabaseBlocks> {
        let is_gone = |one: &&DatabaseBlocks| !self.0.contains(&one.oid) && !known.names.contains(&*one.name);
        header.databases.iter().filter(|_| known.has_all).filter(is_gone)
    }

    fn known<'a>(&self, headers: &'a [SnapshotHeader]) -> Known<'a> {
        let databases = || headers.iter().flat_map(|header| &header.databases);
        let oids: BTreeSet<u32> = databases().map(|one| one.oid).collect();
        let has_all = self.0.iter().all(|oid| *oid < FIRST_USER_OID || oids.contains(oid));
        Known { names: self.names(headers), has_all }
    }

    fn names<'a>(&self, headers: &'a [SnapshotHeader]) -> BTreeSet<&'a str> {
        let all = headers.iter().flat_map(|header| &header.databases);
        all.filter(|one| self.0.contains(&one.oid)).map(|one| &*one.name).collect()
    }
}

/// What snapshots know of the databases that are there.
struct Known<'a> {
    names: BTreeSet<&'a str>,
    /// They know all that users have made.
    has_all: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::fixtures::header_of_databases;

    #[test]
    fn what_is_of_a_dropped_database_does_not_count() {
        let headers = [header_of_databases(10, &[(5, "app", 100, 10), (6, "big", 900, 90)])];
        let there = Databases::of([5]).unwrap();
        let counted = there.count(&headers);
        assert_eq!((counted[0].os_blocks, counted[0].buffer_blocks), (100, 10));
        assert_eq!(there.gone_of(&headers[0], &headers), ["big"]);
        let all = Databases::of([5, 6]).unwrap();
        assert_eq!(all.count(&headers), headers);
        assert_eq!(Databases::of([]), None);
    }

    #[test]
    fn one_that_was_made_anew_counts() {
        let headers = [header_of_databases(20, &[(7, "app", 1, 0)]), header_of_databases(10, &[(5, "app", 100, 10)])];
        assert_eq!(Databases::of([7]).unwrap().count(&headers), headers);
        assert_eq!(Databases::of([8]).unwrap().count(&headers)[1].os_blocks, 0, "8 is not a user's");
        let anew = Databases::of([FIRST_USER_OID + 9]).unwrap();
        assert_eq!(anew.count(&headers), headers, "nobody knows what it is called: it may be app");
        assert!(anew.gone_of(&headers[1], &headers).is_empty());
    }
}

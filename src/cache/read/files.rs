//! The relations of a directory, found as files; their names from a snapshot, when there is one.

use std::collections::HashMap;

use super::{Listed, MapInputs, unread};
use crate::cache::{Error, RelationMap, Snapshot};
use crate::postgres::{DataDirectory, Database, Relation, RelationPath};

/// Relations that initdb made have smaller numbers: FirstNormalObjectId in PostgreSQL's `src/include/access/transam.h`.
const FIRST_NORMAL_OID: u32 = 16_384;

/// Every relation of the directory in the databases meant.
pub fn read_files(inputs: &MapInputs<'_>, remarks: &mut Vec<String>) -> Result<Listed, Error> {
    let Some(directory) = inputs.data_directory else { return Ok(Listed::default()) };
    let databases: Vec<&Database> = inputs.databases.iter().collect();
    let relations = scan(directory, |path| matches!(path, RelationPath::Global { .. }) || is_in(path, &databases))?;
    Ok(match inputs.names {
        Some(snapshot) => {
            Listed { relations: name(relations, snapshot, remarks), partitioned: snapshot.map.partitioned.clone() }
        }
        None => {
            remarks.push(
                "the catalogs cannot be read, so files stand for relations; a snapshot of this cluster would know their names"
                    .to_owned(),
            );
            Listed { relations, partitioned: Vec::new() }
        }
    })
}

/// The relations of databases that cannot be connected to. The databases' names are known.
pub fn read_unnamed(directory: &DataDirectory, databases: &[&Database]) -> Result<Vec<RelationMap>, Error> {
    let mut found = scan(directory, |path| is_in(path, databases))?;
    for RelationMap { relation, .. } in &mut found {
        let database = databases.iter().find(|database| database.oid == relation.path.database_oid());
        relation.name.database = database.map(|database| database.name.clone()).unwrap_or_default();
    }
    Ok(found)
}

fn is_in(path: &RelationPath, databases: &[&Database]) -> bool {
    databases.iter().any(|database| database.oid == path.database_oid())
}

fn scan(directory: &DataDirectory, is_meant: impl Fn(&RelationPath) -> bool) -> Result<Vec<RelationMap>, Error> {
    let found = directory.scan()?.into_iter().filter(|relation| is_meant(&relation.path));
    let mark = |mut relation: Relation| {
        relation.is_system |= relation.path.relfilenumber() < FIRST_NORMAL_OID;
        unread(relation)
    };
    Ok(found.map(mark).collect())
}

/// Gives each relation the name that the snapshot knows it by: the file is the same, or the snapshot is not of it.
fn name(relations: Vec<RelationMap>, snapshot: &Snapshot, remarks: &mut Vec<String>) -> Vec<RelationMap> {
    let known: HashMap<&RelationPath, &Relation> =
        snapshot.map.relations.iter().map(|known| (&known.relation.path, &known.relation)).collect();
    let total = relations.len();
    let mut unnamed = 0;
    let name = |found: RelationMap| match known.get(&found.relation.path) {
        Some(known) => unread((*known).clone()),
        None => {
            unnamed += 1;
            found
        }
    };
    let named: Vec<RelationMap> = relations.into_iter().map(name).collect();
    let taken_at = snapshot.map.taken_at.strftime("%Y-%m-%d %H:%M:%S UTC");
    remarks.push(format!(
        "the catalogs cannot be read: names are those of the snapshot of {taken_at}, which knows {} of {total} relations",
        total - unnamed
    ));
    named
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::ForkMap;
    use crate::cache::fixtures::{map_of, relation};
    use crate::units::Fork;

    #[test]
    fn a_snapshot_lends_its_names_to_the_same_files() {
        let known = relation(16_390, ForkMap::empty(Fork::Main, 1));
        let snapshot = Snapshot::new(map_of(vec![known.clone()]), None);
        let mut unnamed = [known.clone(), known.clone()].map(|one| unread(one.relation));
        unnamed.iter_mut().for_each(|one| one.relation.name.name = one.relation.path.to_string());
        unnamed[1].relation.path = RelationPath::Base { database_oid: 5, relfilenumber: 16_391 };
        let mut remarks = Vec::new();
        let named = name(unnamed.to_vec(), &snapshot, &mut remarks);
        assert_eq!(named[0].relation, known.relation);
        assert_eq!(named[1], unnamed[1]);
        assert!(remarks[0].ends_with("which knows 1 of 2 relations"), "{remarks:?}");
    }
}

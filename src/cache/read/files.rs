//! The relations of a directory, found as files; their names from a snapshot, when there is one.

use std::collections::HashMap;

use super::inputs::{Listed, MapInputs};
use crate::cache::{Error, RelationMap, Snapshot};
use crate::postgres::{DataDirectory, Database, Relation, RelationKind, RelationPath};
use crate::units::Bytes;

/// Relations that initdb made have smaller numbers: FirstNormalObjectId in PostgreSQL's `src/include/access/transam.h`.
const FIRST_NORMAL_OID: u32 = 16_384;

/// Every relation of the directory in the databases meant.
pub fn read_files(inputs: &MapInputs<'_>) -> Result<Listed, Error> {
    let Some(directory) = inputs.data_directory else { return Ok(Listed::default()) };
    let databases: Vec<&Database> = inputs.databases.iter().collect();
    let relations = scan(directory, |path| matches!(path, RelationPath::Global { .. }) || is_in(path, &databases))?;
    Ok(match inputs.names {
        Some(snapshot) => {
            Listed { relations: name(relations, snapshot), partitioned: snapshot.map.partitioned.clone() }
        }
        None => Listed { relations, partitioned: Vec::new() },
    })
}

/// Where the names of these relations, all that have blocks, come from; and what stands there without one.
pub fn remark_names(inputs: &MapInputs<'_>, relations: &[RelationMap]) -> String {
    let Some(snapshot) = inputs.names else {
        return "the catalogs cannot be read, so files stand for relations; a snapshot of this cluster would know their names"
            .to_owned();
    };
    let block_size = inputs.data_directory.map_or(0, |directory| directory.block_size);
    let unnamed = relations.iter().filter(|one| one.relation.kind == RelationKind::Unknown);
    let (files, blocks) = unnamed.fold((0, 0), |(files, blocks), one| (files + 1, blocks + one.blocks()));
    let (named, total) = (relations.len() - files, relations.len());
    let rest = match files {
        0 => String::new(),
        1 => format!("; the other one stands under its file's name, {}", Bytes(blocks * u64::from(block_size))),
        _ => format!("; the other {files} stand under their files' names, {}", Bytes(blocks * u64::from(block_size))),
    };
    let taken_at = snapshot.map.taken_at.strftime("%Y-%m-%d %H:%M:%S UTC");
    format!(
        "the catalogs cannot be read: names are those of the snapshot of {taken_at}, which knows {named} of {total} \
         relations{rest}"
    )
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
        RelationMap::unread(relation)
    };
    Ok(found.map(mark).collect())
}

/// Gives each relation the name that the snapshot knows it by: the file is the same, or the snapshot is not of it.
fn name(relations: Vec<RelationMap>, snapshot: &Snapshot) -> Vec<RelationMap> {
    let known: HashMap<&RelationPath, &Relation> =
        snapshot.map.every_relation().map(|known| (&known.path, known)).collect();
    let name = |found: RelationMap| match known.get(&found.relation.path) {
        Some(known) => RelationMap::unread((*known).clone()),
        None => found,
    };
    relations.into_iter().map(name).collect()
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
        let mut unnamed = [known.clone(), known.clone()].map(|one| RelationMap::unread(one.relation));
        unnamed.iter_mut().for_each(|one| one.relation.name.name = one.relation.path.to_string());
        unnamed[1].relation.path = RelationPath::Base { database_oid: 5, relfilenumber: 16_391 };
        let named = name(unnamed.to_vec(), &snapshot);
        assert_eq!(named[0].relation, known.relation);
        assert_eq!(named[1], unnamed[1]);
    }
}

//! Finds relations by their names: one question to each database, several databases at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures_util::{StreamExt as _, stream};

use crate::cache::{Identity, compute_identities};
use crate::postgres::{Database, Error, Relation, RelationPath, Server, read_databases, read_relations};
use crate::warm::Refusal;

/// Databases that are asked at a time.
const CONNECTIONS: usize = 4;

/// What the catalogs of some databases know.
#[derive(Debug, Default)]
pub struct Catalog {
    relations: HashMap<Identity, Relation>,
    /// Whose a file is: a relation that was renamed has kept its own.
    owners: HashMap<RelationPath, Identity>,
    /// Databases that exist and would not answer, with what they said.
    unreachable: BTreeMap<String, Refusal>,
}

/// What a catalog says of a relation.
#[derive(Debug)]
pub enum Found<'a> {
    Relation(&'a Relation),
    Nothing,
    /// Nobody could ask.
    Unreachable(&'a Refusal),
}

impl Catalog {
    /// Asks `names` of the databases for their relations. The shared catalogs are in every answer.
    pub async fn read(server: &Server, names: &BTreeSet<String>) -> Result<Catalog, Error> {
        let mut connection = server.connect_to(&server.database).await?;
        let all = read_databases(&mut connection).await?;
        let mut catalog = Catalog::default();
        let is_own = |database: &&Database| database.name == server.database;
        if let Some(own) = all.iter().find(is_own) {
            catalog.add(read_relations(&mut connection, own, true).await?);
        }
        drop(connection);
        let others = all.iter().filter(|database| !is_own(database) && names.contains(&database.name));
        let answers = others.map(|database| async move { (database, ask(server, database).await) });
        let mut answers = stream::iter(answers).buffer_unordered(CONNECTIONS);
        while let Some((database, answer)) = answers.next().await {
            match answer {
                Ok(relations) => catalog.add(relations),
                Err(error) => _ = catalog.unreachable.insert(database.name.clone(), Refusal::of(&error)),
            }
        }
        Ok(catalog)
    }

    /// A relation as it is now: by its name, or else by its file, when that can be said to be the same.
    pub fn find(&self, identity: &Identity, file: Option<&RelationPath>) -> Found<'_> {
        let by_file = || self.relations.get(self.owners.get(file?)?);
        match (self.relations.get(identity).or_else(by_file), self.unreachable.get(&identity.name.database)) {
            (Some(relation), _) => Found::Relation(relation),
            (None, Some(why)) => Found::Unreachable(why),
            (None, None) => Found::Nothing,
        }
    }

    fn add(&mut self, relations: Vec<Relation>) {
        let identities = compute_identities(relations.iter());
        self.owners.extend(relations.iter().map(|one| one.path.clone()).zip(identities.iter().cloned()));
        self.relations.extend(identities.into_iter().zip(relations));
    }
}

async fn ask(server: &Server, database: &Database) -> Result<Vec<Relation>, Error> {
    read_relations(&mut server.connect_to(&database.name).await?, database, false).await
}

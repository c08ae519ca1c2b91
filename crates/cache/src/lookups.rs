//! How often each relation had been looked up when a map was read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use postgres::{Database, Relation, Server, read_lookups};

/// Blocks that had been looked up, by database and `pg_class.oid`, since the statistics began.
///
/// What is resident does not say who brought it. A load leaves as many buffers as readers do, but looks nothing up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lookups(BTreeMap<String, BTreeMap<u32, u64>>);

impl Lookups {
    /// Those of these databases. One that lets us not in, or does not answer, is left out.
    pub async fn read(server: &Server, databases: &[Database]) -> Lookups {
        let mut lookups = Lookups::default();
        for database in databases.iter().filter(|database| database.allows_connections) {
            let Ok(mut connection) = server.connect_to(&database.name).await else { continue };
            if let Ok(of_database) = read_lookups(&mut connection).await {
                lookups.0.insert(database.name.clone(), of_database);
            }
        }
        lookups
    }

    /// Blocks of a relation; `None` when nobody has counted them.
    pub fn of(&self, relation: &Relation) -> Option<u64> {
        let of_database = self.0.get(&relation.name.database)?;
        Some(of_database.get(&relation.oid).copied().unwrap_or(0))
    }

    #[cfg(any(test, feature = "fixtures"))]
    pub fn of_database(name: &str, blocks: impl IntoIterator<Item = (u32, u64)>) -> Lookups {
        Lookups(BTreeMap::from([(name.to_owned(), blocks.into_iter().collect())]))
    }
}

//! The relations of a running server, from the catalogs of its databases.

use std::collections::{HashMap, HashSet};

use futures_util::{StreamExt as _, stream};

use super::files;
use super::inputs::{Listed, MapInputs};
use crate::cache::{Error, ForkMap, RelationMap};
use crate::failure::Explain as _;
use crate::postgres::{
    self, Database, ForkBlocks, Relation, RelationPath, Server, read_fork_blocks, read_partitioned_tables,
    read_relations,
};

/// Connections at once.
const CONNECTIONS: usize = 4;

/// Relations in the databases meant, in the catalogs' order, with the shared catalogs. With `with_sizes` the server is
/// asked for the sizes of the forks too, for want of files to look at. Of a database that cannot be connected to, the
/// files are listed if they can be.
pub async fn read_catalogs<'a>(
    server: &'a Server,
    inputs: &MapInputs<'a>,
    with_sizes: bool,
    remarks: &mut Vec<String>,
) -> Result<Listed, Error> {
    let is_map = inputs.named.is_none();
    let ask =
        |database: &'a Database| async move { (database, read_database(server, database, with_sizes, is_map).await) };
    // All at hand, so that the closures are not kept over an await: a spawned task could not have them.
    let is_asked = |database: &&Database| database.allows_connections && inputs.asks(&database.name);
    let asked: Vec<_> = inputs.databases.iter().filter(is_asked).map(ask).collect();
    let answers: Vec<(&Database, Result<Listed, postgres::Error>)> =
        stream::iter(asked).buffered(CONNECTIONS).collect().await;

    let Listed { mut relations, mut partitioned } = Listed::default();
    let mut shared: HashSet<RelationPath> = HashSet::new();
    let mut closed: Vec<&Database> = inputs.databases.iter().filter(|database| !is_asked(database)).collect();
    let mut is_there = answers.iter().any(|(_, answer)| answer.is_ok());
    for (database, answer) in answers {
        match answer {
            // Every database lists the shared catalogs: the first one counts.
            Ok(found) => {
                partitioned.extend(found.partitioned);
                relations.extend(found.relations.into_iter().filter(|found| {
                    let path = &found.relation.path;
                    !matches!(path, RelationPath::Global { .. }) || shared.insert(path.clone())
                }));
            }
            // Whatever one database does to its visitors is no reason to go without the others.
            Err(error)
                if error.is_about_database()
                    || is_there
                    || (database.name != server.database && server.is_there().await) =>
            {
                is_there |= !error.is_about_database();
                let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
                remarks
                    .push(format!("the relations of database \"{}\" have no names here: {error}{hint}", database.name));
                closed.push(database);
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(directory) = inputs.data_directory
        && !closed.is_empty()
    {
        relations.extend(files::read_unnamed(directory, &closed)?);
    }
    Ok(Listed { relations, partitioned })
}

async fn read_database(
    server: &Server,
    database: &Database,
    with_sizes: bool,
    with_partitioned: bool,
) -> Result<Listed, postgres::Error> {
    let mut connection = server.connect_to(&database.name).await?;
    let relations = read_relations(&mut connection, database, true).await?;
    let partitioned = match with_partitioned {
        true => read_partitioned_tables(&mut connection, database).await?,
        false => Vec::new(),
    };
    if !with_sizes {
        if database.name == server.database {
            server.give_back(connection);
        }
        return Ok(Listed { relations: relations.into_iter().map(RelationMap::unread).collect(), partitioned });
    }
    let oids: Vec<u32> = relations.iter().map(|relation| relation.oid).collect();
    let sizes = read_fork_blocks(&mut connection, &oids).await?;
    Ok(Listed { relations: join_sizes(relations, &sizes), partitioned })
}

fn join_sizes(relations: Vec<Relation>, sizes: &[ForkBlocks]) -> Vec<RelationMap> {
    let mut forks: HashMap<u32, Vec<ForkMap>> = HashMap::new();
    for size in sizes {
        forks.entry(size.relation_oid).or_default().push(ForkMap::empty(size.fork, size.blocks));
    }
    let join = |relation: Relation| {
        let mut forks = forks.remove(&relation.oid).unwrap_or_default();
        forks.sort_by_key(|fork| fork.fork);
        RelationMap { relation, forks }
    };
    relations.into_iter().map(join).collect()
}

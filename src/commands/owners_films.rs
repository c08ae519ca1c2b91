//! Films that this user lacks and the server's owner has: so root learns of those of the user postgres.

use std::path::PathBuf;

use super::{ConnectionArguments, find_cluster, find_directory};
use crate::linux::home::home_of;
use crate::trace::{Error, FilmStore};

/// The films of the owner of the server that the options lead to, where these are not this user's own.
pub fn owners_store(connection: &ConnectionArguments) -> Option<FilmStore> {
    let directory = find_directory(connection).ok().flatten()?;
    let store = FilmStore::in_home(&home_of(directory.owner_uid)?);
    (store.root() != FilmStore::open().root()).then_some(store)
}

/// An error that says where the film is, when this user lacks one that the server's owner has.
pub fn with_owners(error: Error, name: &str, connection: &ConnectionArguments) -> Error {
    if !matches!(error, Error::NoFilm(_) | Error::UnknownFilm { .. }) {
        return error;
    }
    match owners_store(connection).and_then(|store| store.find_of(find_cluster(connection), name).ok()) {
        Some(film) => Error::KeptElsewhere { error: Box::new(error), film },
        None => error,
    }
}

/// The newest film of a cluster under `label` that the server's owner has, where this user has none.
pub fn find_owners_like(
    connection: &ConnectionArguments,
    own: &FilmStore,
    cluster: u64,
    label: &str,
) -> Option<PathBuf> {
    let find = |store: &FilmStore| store.find_newest_like(cluster, label).ok().flatten();
    if find(own).is_some() { None } else { owners_store(connection).and_then(|store| find(&store)) }
}

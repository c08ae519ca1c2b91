//! Which films a name means: this user's, first those of the cluster that the options lead to. Where this user has none, the error or
//! a remark points to the films of the server's owner, so that root finds those of the user postgres.

use std::fs::File;
use std::path::PathBuf;

use crate::{ConnectionArguments, Target, find_cluster, find_directory};
use cache::NEWEST;
use host::linux::home::home_of;

use cache::trace::{Error, Film, FilmStore};

/// The films of this user.
#[derive(Debug)]
pub struct NamedFilms<'a> {
    pub store: FilmStore,
    connection: &'a ConnectionArguments,
    /// The cluster whose films a name means first, where it is known.
    pub cluster: Option<u64>,
}

impl NamedFilms<'_> {
    /// Queries a server only where one was named whose directory cannot be seen: looking at films needs none.
    pub async fn open(connection: &ConnectionArguments) -> anyhow::Result<NamedFilms<'_>> {
        let cluster = match find_cluster(connection) {
            None if connection.names_cluster() => Target::open(connection).await?.system_identifier(),
            found => found,
        };
        Ok(NamedFilms { store: FilmStore::open(), connection, cluster })
    }

    /// Opens the film that a name means, and prints which of several it is.
    pub fn film(&self, name: &str) -> anyhow::Result<Film<File>> {
        let opened = self.store.open_newest(self.cluster, name);
        let (film, remarks) = opened.map_err(|error| with_owners(error, name, self.connection))?;
        let header = film.header();
        let is_any = name == NEWEST || header.label.as_deref() == Some(name);
        self.require_cluster(header.source.system_identifier, is_any, film.path())?;
        remarks.iter().for_each(|remark| terminal::print_remark(remark));
        Ok(film)
    }

    /// Removes what a name means, all films of a label or one, and returns their names.
    pub fn forget(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let films = self.store.find_all(self.cluster, name);
        let films = films.map_err(|error| with_owners(error, name, self.connection))?;
        for one in &films {
            self.require_cluster(one.system_identifier, one.name != name, &one.path)?;
        }
        films.into_iter().map(|one| Ok(self.store.forget(&one).map(|()| one.name)?)).collect()
    }

    /// Where a cluster was named, `newest` and a label mean no film of another one.
    fn require_cluster(&self, film: u64, is_any: bool, path: &std::path::Path) -> Result<(), Error> {
        match self.cluster {
            Some(cluster) if cluster != film && is_any && self.connection.names_cluster() => {
                Err(Error::OtherCluster { path: path.to_owned(), film, cluster })
            }
            _ => Ok(()),
        }
    }
}

/// The films of the owner of the server that the options lead to, unless this user is the owner.
pub fn owners_store(connection: &ConnectionArguments) -> Option<FilmStore> {
    let directory = find_directory(connection).ok().flatten()?;
    let store = FilmStore::in_home(&home_of(directory.owner_uid)?);
    (store.root() != FilmStore::open().root()).then_some(store)
}

/// Adds to an error where the film is, when this user lacks one that the server's owner has.
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

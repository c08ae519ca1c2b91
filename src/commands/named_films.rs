//! The films that names mean: this user's, and of these first those of the cluster that the options lead to.

use std::fs::File;

use super::owners_films::with_owners;
use super::{ConnectionArguments, Target, find_cluster};
use crate::cache::NEWEST;
use crate::terminal;
use crate::trace::{Error, Film, FilmStore};

/// The films of this user.
#[derive(Debug)]
pub struct NamedFilms<'a> {
    pub store: FilmStore,
    connection: &'a ConnectionArguments,
    /// The one whose films a name means first, where it can be known.
    pub cluster: Option<u64>,
}

impl NamedFilms<'_> {
    /// A server is asked only where one was named whose directory cannot be seen: films can be looked at without any.
    pub async fn open(connection: &ConnectionArguments) -> anyhow::Result<NamedFilms<'_>> {
        let cluster = match find_cluster(connection) {
            None if connection.names_cluster() => Target::open(connection).await?.system_identifier(),
            found => found,
        };
        Ok(NamedFilms { store: FilmStore::open(), connection, cluster })
    }

    /// Opens the film that a name means, and says which of several it is.
    pub fn film(&self, name: &str) -> anyhow::Result<Film<File>> {
        let opened = self.store.open_newest(self.cluster, name);
        let (film, remarks) = opened.map_err(|error| with_owners(error, name, self.connection))?;
        let of_film = film.header().source.system_identifier;
        let is_any = name == NEWEST || film.header().label.as_deref() == Some(name);
        match self.cluster.filter(|cluster| *cluster != of_film) {
            Some(cluster) if is_any && self.connection.names_cluster() => {
                Err(Error::OtherCluster { path: film.path().to_owned(), film: of_film, cluster }.into())
            }
            _ => {
                remarks.iter().for_each(|remark| terminal::print_remark(remark));
                Ok(film)
            }
        }
    }
}

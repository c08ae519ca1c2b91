//! Where results are kept: in a file, or on a server.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use sqlx::postgres::PgConnectOptions;

use super::{Error, Store, default_path};
use crate::postgres::{self, ConnectOptions, hide_password, parse_connection_string};

/// A place that results are kept in.
#[derive(Clone, Debug)]
pub enum Place {
    File(PathBuf),
    Server(ServerPlace),
}

/// A database of a PostgreSQL server.
#[derive(Clone, Debug)]
pub struct ServerPlace {
    pub(super) options: Box<PgConnectOptions>,
    /// `postgres://USER@HOST:PORT/DATABASE`: without what is secret.
    shown: String,
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Place, Error> {
        let told = |error: postgres::Error| Error::Address(error.to_string());
        // A file may be called anything, but not so that it could be a server's address with its password.
        let parameters = match parse_connection_string(text) {
            Ok(Some(parameters)) => parameters,
            Err(error) if hide_password(text).is_some() => return Err(told(error)),
            Ok(None) | Err(_) => return Ok(Place::File(PathBuf::from(text))),
        };
        let connection = ConnectOptions { parameters, ..ConnectOptions::default() };
        let (options, shown) = connection.plain_options().map_err(told)?;
        Ok(Place::Server(ServerPlace { options: Box::new(options), shown }))
    }
}

impl Place {
    /// Opens the store to write to it. A file is made when it is not there; of a server the writes go to the local file
    /// first, and from there to the server as soon as it answers.
    pub async fn open(&self) -> Result<Store, Error> {
        match self {
            Place::File(path) => Store::open(path).await,
            Place::Server(server) => Store::open_queue(&default_path()?, server).await,
        }
    }

    /// Opens a store that must be there, to read it.
    pub async fn open_existing(&self) -> Result<Store, Error> {
        match self {
            Place::File(path) => Store::open_existing(path).await,
            Place::Server(server) => {
                let queue = default_path()?;
                // What waits here belongs to the answer.
                if queue.exists() {
                    let queue = Store::open_existing_queue(&queue, server).await?;
                    if queue.count_unsent().await? > 0 {
                        queue.send().await?;
                    }
                    queue.close().await;
                }
                Store::connect_server(server).await
            }
        }
    }

    /// Opens the local file that stands before a server; `None` where there is none.
    pub async fn open_local_copy(&self) -> Result<Option<Store>, Error> {
        let Place::Server(_) = self else { return Ok(None) };
        let path = default_path()?;
        Ok(if path.exists() { Some(Store::open_existing(&path).await?) } else { None })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => path.display().fmt(f),
            Place::Server(server) => server.fmt(f),
        }
    }
}

impl fmt::Display for ServerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_server_and_anything_else_a_file() {
        let shown = |text: &str| text.parse::<Place>().unwrap().to_string();
        assert_eq!(shown("a/results.sqlite"), "a/results.sqlite");
        assert_eq!(shown("postgres://lab:secret@db.example:5433/results"), "postgres://lab@db.example:5433/results");
        assert_eq!(shown("postgresql://lab@/results?host=/run/pg&port=5432"), "postgres://lab@/run/pg:5432/results");
        assert_eq!(shown("host=db user=lab password=secret dbname=results"), "postgres://lab@db:5432/results");
        assert!("postgress://lab:secret@db/x".parse::<Place>().is_err());
        assert!("postgres://lab@db:port/x".parse::<Place>().is_err());
    }
}

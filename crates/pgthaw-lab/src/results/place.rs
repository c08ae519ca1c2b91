//! Where results are kept: in a file, or on a server.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use postgres::PlainServer;

/// A place that results are kept in.
#[derive(Clone, Debug)]
pub enum Place {
    File(PathBuf),
    Server(ServerPlace),
}

/// A database of a PostgreSQL server.
#[derive(Clone, Debug)]
pub struct ServerPlace(pub(super) Box<PlainServer>);

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
        f.write_str(&self.0.shown)
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

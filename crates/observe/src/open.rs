//! Chooses where the times of a server's processes come from: the most exact source that can be had, and why no better one.

use serde::{Deserialize, Serialize};
use sqlx::postgres::PgConnection;

use super::time::{MemoryLooks, OwnTransactions, SqlLooks, Tier, TimeSource};
use super::{Error, ProbeOptions, TimeProbe};
use host::failure::Explain as _;

/// A source that could not be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedSource {
    pub source: Tier,
    pub reason: String,
    /// What would mend it.
    pub remedy: Option<String>,
}

/// Opens the source that is wanted, or the most exact one that can be had, with those that were refused before. The server's
/// postmaster has to be on this host for all but SQL. What is asked over SQL is counted as `own`, where somebody
/// wants to know.
pub async fn open_time_source(
    wanted: Option<Tier>,
    postmaster_pid: Option<u32>,
    connection: PgConnection,
    own: Option<OwnTransactions>,
) -> Result<(Box<dyn TimeSource>, Vec<RefusedSource>), Error> {
    let (source, refused) = open_local_source(wanted, postmaster_pid)?;
    match source {
        Some(source) => Ok((source, refused)),
        None => Ok((Box::new(SqlLooks::start(connection, own).await?), refused)),
    }
}

/// `None` where SQL is all that is left.
pub type LocalSource = Option<Box<dyn TimeSource>>;

/// The same without SQL: `None` where that is wanted, or all that is left.
pub fn open_local_source(
    wanted: Option<Tier>,
    postmaster_pid: Option<u32>,
) -> Result<(LocalSource, Vec<RefusedSource>), Error> {
    let mut refused = Vec::new();
    for tier in [Tier::Bpf, Tier::Memory].into_iter().filter(|tier| wanted.is_none_or(|wanted| wanted == *tier)) {
        match open_local(tier, postmaster_pid) {
            Ok(source) => return Ok((Some(source), refused)),
            Err(error) if wanted.is_some() => return Err(error),
            Err(error) => {
                refused.push(RefusedSource { source: tier, reason: error.to_string(), remedy: error.hint() });
            }
        }
    }
    Ok((None, refused))
}

fn open_local(tier: Tier, postmaster_pid: Option<u32>) -> Result<Box<dyn TimeSource>, Error> {
    let postmaster_pid = postmaster_pid.ok_or(Error::NotHere)?;
    Ok(match tier {
        Tier::Bpf => Box::new(TimeProbe::open(postmaster_pid, &ProbeOptions::default())?),
        _ => Box::new(MemoryLooks::start(postmaster_pid)?),
    })
}

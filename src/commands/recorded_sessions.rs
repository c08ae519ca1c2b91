//! Whose reads a film is of, where it is of no command: the options that name server processes, and whether there are such.

use clap::Args;

use super::Target;
use super::recorder::ask_sessions;
use crate::linux::process::{is_alive, read_parent};
use crate::observe::time::OwnTransactions;
use crate::postgres::{self, read_databases};
use crate::trace::{Error, Named, Wanted};

/// The server processes that a film is of.
#[derive(Args, Clone, Debug, Default)]
pub struct WhoseArguments {
    /// Record this server process and its parallel workers, until it ends or Ctrl-C
    #[arg(long, visible_alias = "pid", value_name = "PID", conflicts_with = "job", help_heading = "Record")]
    pub backend: Option<u32>,

    /// Record the sessions that call themselves this, until Ctrl-C
    #[arg(long, value_name = "NAME", conflicts_with_all = ["job", "backend"], help_heading = "Record")]
    application_name: Option<String>,

    /// Record the sessions that are connected to this database, until Ctrl-C
    #[arg(long, value_name = "DB", conflicts_with_all = ["job", "backend"], help_heading = "Record")]
    database: Option<String>,
}

impl WhoseArguments {
    /// Was anybody named?
    pub fn names_something(&self) -> bool {
        self.backend.is_some() || self.application_name.is_some() || self.database.is_some()
    }

    /// Whose reads are wanted.
    pub async fn wanted(&self, target: &Target) -> anyhow::Result<Wanted> {
        let (application_name, database) = (self.application_name.clone(), self.database.clone());
        Ok(match (&target.server, self.backend) {
            (_, Some(backend)) => Wanted::Backend(backend),
            _ if application_name.is_none() && database.is_none() => Wanted::Everybody,
            (Some(server), None) => Wanted::Sessions(Named {
                application_name,
                database,
                ask: ask_sessions(server, OwnTransactions::default()).await?,
            }),
            (None, None) => anyhow::bail!("the server has to run for its sessions to be known by their names"),
        })
    }

    /// Sessions of some name may come yet. A process that is none of the server's, and a database that is not there, would be waited for
    /// in vain.
    pub async fn require_there(&self, target: &Target) -> anyhow::Result<()> {
        if let Some(pid) = self.backend {
            require_backend(target, pid)?;
        }
        if let (Some(name), Some(server)) = (&self.database, &target.server) {
            let databases = read_databases(&mut server.connect_to(&server.database).await?).await?;
            if databases.iter().all(|database| database.name != *name) {
                let (database, cluster) = (name.clone(), target.address());
                return Err(postgres::Error::DatabaseMissing { database, cluster }.into());
            }
        }
        Ok(())
    }
}

/// Is this process one of the server's?
fn require_backend(target: &Target, pid: u32) -> Result<(), Error> {
    let reason = match target.find_postmaster() {
        Some(postmaster) if read_parent(pid).is_ok_and(|parent| parent == postmaster) => return Ok(()),
        Some(postmaster) if postmaster == pid => "it is the postmaster, which starts those that read",
        Some(_) if is_alive(pid) => "it is another program's, or another server's",
        Some(_) => "there is no such process",
        None => "no server of it runs on this host, as far as this user can see",
    };
    Err(Error::NoBackend { pid, cluster: target.address(), reason })
}

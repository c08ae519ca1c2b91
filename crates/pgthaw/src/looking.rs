//! The sessions through which a server is looked at, what that may cost, and how a server that went away is found again. The work is done in
//! `crates/observe/src/time/`.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use sqlx::postgres::PgConnection;
use tokio::time::sleep;

use super::Target;
use observe::Error;
use observe::time::ACCOUNT_DEAR;
use postgres::{Server, read_backend_pid};

/// A server that is away is looked for so often.
pub const RETRY: Duration = Duration::from_secs(1);

/// A server that answers, and pgthaw's own sessions there.
pub struct Looking<'a> {
    pub server: &'a Server,
    /// For the looks of the source, and for who the processes are.
    pub looks: PgConnection,
    pub who: PgConnection,
    /// The backends that serve these, and what was connected besides.
    pub own_pids: Vec<u32>,
    /// It may be a newer one than before it went away.
    pub version_num: u32,
    pub postmaster_pid: Option<u32>,
}

impl Looking<'_> {
    /// Connects.
    pub async fn open(target: &Target) -> anyhow::Result<Looking<'_>> {
        let Some(server) = &target.server else { bail!(Error::NoServer) };
        let mut own_pids = Vec::new();
        let looks = connect(server, &mut own_pids).await?;
        let who = connect(server, &mut own_pids).await?;
        let version_num = looks.server_version_num().unwrap_or(server.facts.version_num);
        Ok(Looking { server, looks, who, own_pids, version_num, postmaster_pid: target.find_postmaster() })
    }

    /// A session besides.
    pub async fn connect(&mut self) -> anyhow::Result<PgConnection> {
        connect(self.server, &mut self.own_pids).await
    }
}

async fn connect(server: &Server, own_pids: &mut Vec<u32>) -> anyhow::Result<PgConnection> {
    let mut connection = server.connect_to(&server.database).await?;
    own_pids.push(read_backend_pid(&mut connection).await?);
    Ok(connection)
}

/// Opens what has gone away as soon as it is there again. Each time that it is not yet, `tell` hears why it could not be opened; `None`: it
/// has not been tried since it went.
pub async fn open_again<T, F: Future<Output = anyhow::Result<T>>>(
    open: impl Fn() -> F,
    mut tell: impl FnMut(Option<&anyhow::Error>),
) -> T {
    let mut failure = None;
    loop {
        sleep(RETRY).await;
        tell(failure.as_ref());
        match open().await {
            Ok(opened) => return opened,
            Err(error) => failure = Some(error),
        }
    }
}

/// The flag of every command that looks on.
#[derive(Clone, Copy, Debug, Args)]
pub struct BudgetArguments {
    /// Look at less when looking costs more of all processors than so many percent
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value_t = 100.0 * ACCOUNT_DEAR)]
    budget: f64,
}

impl BudgetArguments {
    /// Of all processors, 0 to 1.
    pub fn share(self) -> f64 {
        self.budget / 100.0
    }
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "a number from 0 to 100 is wanted".to_owned())
}

//! Sessions for observing a server, their cost limit, and reconnecting.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use sqlx::postgres::PgConnection;
use tokio::time::sleep;

use super::Target;
use observe::Error;
use observe::time::ACCOUNT_DEAR;
use postgres::{Server, read_backend_pid};

pub const RETRY: Duration = Duration::from_secs(1);

pub struct Looking<'a> {
    pub server: &'a Server,
    /// Session for sampling. The session `who` identifies the sampled processes.
    pub looks: PgConnection,
    pub who: PgConnection,
    pub own_pids: Vec<u32>,
    pub version_num: u32,
    pub postmaster_pid: Option<u32>,
}

impl Looking<'_> {
    pub async fn open(target: &Target) -> Result<Looking<'_>> {
        let Some(server) = &target.server else { bail!(Error::NoServer) };
        let mut own_pids = Vec::new();
        let looks = connect(server, &mut own_pids).await?;
        let who = connect(server, &mut own_pids).await?;
        let version_num = looks.server_version_num().unwrap_or(server.facts.version_num);
        Ok(Looking { server, looks, who, own_pids, version_num, postmaster_pid: target.find_postmaster() })
    }

    pub async fn connect(&mut self) -> Result<PgConnection> {
        connect(self.server, &mut self.own_pids).await
    }
}

async fn connect(server: &Server, own_pids: &mut Vec<u32>) -> Result<PgConnection> {
    let mut connection = server.connect_to(&server.database).await?;
    own_pids.push(read_backend_pid(&mut connection).await?);
    Ok(connection)
}

/// Retries `open` until it succeeds. Passes the last error to `tell` before each attempt (`None` before the first).
pub async fn open_again<T, F: Future<Output = Result<T>>>(
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

/// Option of the commands that observe a server.
#[derive(Clone, Copy, Debug, Args)]
pub struct BudgetArguments {
    /// Limit pgthaw's overhead, in percent of all processors; beyond it pgthaw measures less
    #[arg(long, value_name = "PERCENT", hide_short_help = true, value_parser = parse_percent, default_value_t = 100.0 * ACCOUNT_DEAR)]
    budget: f64,
}

impl BudgetArguments {
    /// Share of all processors, 0 to 1.
    pub fn share(self) -> f64 {
        self.budget / 100.0
    }
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "must be a number from 0 to 100".to_owned())
}

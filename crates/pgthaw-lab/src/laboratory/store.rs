use std::pin::pin;
use std::time::Duration;

use clap::Args;
use tokio::time::timeout;

use crate::results::{self, DamagedStudy, Place, Store};
use postgres::hide_password;

const VARIABLE: &str = "PGTHAW_RESULTS";

/// Where results are kept.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Results")]
pub struct StoreArguments {
    /// File with the results, or a server's database: postgres://USER@HOST/DATABASE [default: pgthaw/results.sqlite in
    /// $XDG_STATE_HOME or ~/.local/state]
    #[arg(long = "results", value_name = "FILE|ADDRESS", env = VARIABLE, global = true, hide_short_help = true)]
    place: Option<String>,
}

impl StoreArguments {
    pub async fn open(&self) -> Result<Store, results::Error> {
        self.place()?.open().await
    }

    /// Warns before a study if the server does not respond.
    ///
    /// # Errors
    /// If the error is lasting: pgthaw could never send results to this server.
    pub async fn open_for_study(&self) -> Result<Store, results::Error> {
        let store = self.open().await?;
        match store.send().await {
            Ok(damaged) => remark_unsent(&damaged),
            Err(error) if error.is_lasting() => return Err(error),
            Err(error) => {
                terminal::print_remark(&format!("{error}; pgthaw stores results in {} for now", store.place()));
            }
        }
        Ok(store)
    }

    pub async fn open_existing(&self) -> Result<Store, results::Error> {
        let (store, lacking) = self.place()?.open_existing().await?;
        remark_unsent(&lacking);
        Ok(store)
    }

    pub(super) fn place(&self) -> Result<Place, results::Error> {
        let Some(text) = &self.place else { return Ok(Place::File(results::default_path()?)) };
        let place: Place = text.parse()?;
        // The environment variable also applies to suggested commands.
        if std::env::var(VARIABLE).ok().as_ref() != Some(text) {
            terminal::complete_commands_with_results(&hide_password(text).unwrap_or_else(|| text.clone()));
        }
        Ok(place)
    }
}

const TOLD_AFTER: Duration = Duration::from_secs(5);

/// Waits for a blocked store without limit, because measurements cannot be repeated.
pub async fn keep(store: &Store, kept: impl Future<Output = Result<(), results::Error>>) -> Result<(), results::Error> {
    let mut kept = pin!(kept);
    if let Ok(done) = timeout(TOLD_AFTER, &mut kept).await {
        return done;
    }
    terminal::print_remark(&format!(
        "cannot write to {} yet: another program may be reading it (an export, `sqlite3`). pgthaw stores the results as \
             soon as that program ends",
        store.place()
    ));
    kept.await
}

pub fn remark_damaged(damaged: &[DamagedStudy]) {
    if damaged.is_empty() {
        return;
    }
    let names: Vec<&str> = damaged.iter().map(|study| study.id.as_deref().unwrap_or("an unnamed study")).collect();
    terminal::print_remark(&format!(
        "skipped damaged results: {}; `pgthaw results show NAME` shows why, `pgthaw results drop NAME` removes them",
        names.join(", ")
    ));
}

pub fn remark_unsent(damaged: &[DamagedStudy]) {
    for study in damaged {
        terminal::print_remark(&format!("not sent: {}", study.reason));
    }
    if !damaged.is_empty() {
        terminal::print_remark("`pgthaw results drop NAME` removes a study");
    }
}

/// Unsent results stay stored, which is no failure.
pub async fn close_written(store: Store) -> Result<(), results::Error> {
    match store.send().await {
        Ok(damaged) => remark_unsent(&damaged),
        Err(error) => {
            let waiting = store.count_unsent().await?;
            terminal::print_remark(&format!(
                "{error}; {waiting} unsent results are in {}, and `pgthaw results` sends them",
                store.place()
            ));
        }
    }
    store.close().await;
    Ok(())
}

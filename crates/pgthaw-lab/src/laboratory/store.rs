//! The options that say where results are kept.

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
    /// The file that keeps results, or a database of a server: postgres://USER@HOST/DATABASE [default:
    /// pgthaw/results.sqlite in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long = "results", value_name = "FILE|ADDRESS", env = VARIABLE, global = true)]
    place: Option<String>,
}

impl StoreArguments {
    /// The store to write to; made when it is not there.
    pub async fn open(&self) -> Result<Store, results::Error> {
        self.place()?.open().await
    }

    /// The store to write to, for a study: that a server does not answer is told before it begins.
    pub async fn open_for_study(&self) -> Result<Store, results::Error> {
        let store = self.open().await?;
        match store.send().await {
            Ok(damaged) => remark_unsent(&damaged),
            Err(error) => {
                terminal::print_remark(&format!("{error}; results are kept in {} until it does", store.place()));
            }
        }
        Ok(store)
    }

    /// The store to read from, which must be there.
    pub async fn open_existing(&self) -> Result<Store, results::Error> {
        let (store, lacking) = self.place()?.open_existing().await?;
        remark_unsent(&lacking);
        Ok(store)
    }

    pub(super) fn place(&self) -> Result<Place, results::Error> {
        let Some(text) = &self.place else { return Ok(Place::File(results::default_path()?)) };
        let place: Place = text.parse()?;
        // The environment leads there by itself, and may hold a password that is not shown.
        if std::env::var(VARIABLE).ok().as_ref() != Some(text) {
            terminal::complete_commands_with_results(&hide_password(text).unwrap_or_else(|| text.clone()));
        }
        Ok(place)
    }
}

/// After so long it is told that something is not kept yet.
const TOLD_AFTER: Duration = Duration::from_secs(5);

/// Waits until something is kept, however long that takes: it was measured, and cannot be had again.
pub async fn keep(store: &Store, kept: impl Future<Output = Result<(), results::Error>>) -> Result<(), results::Error> {
    let mut kept = pin!(kept);
    if let Ok(done) = timeout(TOLD_AFTER, &mut kept).await {
        return done;
    }
    terminal::print_remark(&format!(
        "{} cannot be written to yet: another program may read it (an export, `sqlite3`). What was measured is kept as \
             soon as that ends",
        store.place()
    ));
    kept.await
}

/// Names what is damaged in a store: it is left out, and stands in no other's way.
pub fn remark_damaged(damaged: &[DamagedStudy]) {
    if damaged.is_empty() {
        return;
    }
    let names: Vec<&str> = damaged.iter().map(|study| study.id.as_deref().unwrap_or("one without a name")).collect();
    terminal::print_remark(&format!(
        "left out, for it is damaged: {}; `pgthaw results show NAME` says why, `pgthaw results drop NAME` forgets it",
        names.join(", ")
    ));
}

/// Names what is damaged in the local file that stands before a server, which lacks it.
pub fn remark_unsent(damaged: &[DamagedStudy]) {
    for study in damaged {
        terminal::print_remark(&format!("not sent: {}", study.reason));
    }
    if !damaged.is_empty() {
        terminal::print_remark("`pgthaw results drop NAME` forgets one");
    }
}

/// Closes a store that was written to. What a server did not take is told: it is kept, and is no failure.
pub async fn close_written(store: Store) -> Result<(), results::Error> {
    match store.send().await {
        Ok(damaged) => remark_unsent(&damaged),
        Err(error) => {
            let waiting = store.count_unsent().await?;
            terminal::print_remark(&format!(
                "{error}; {waiting} results wait in {}, and `pgthaw results` sends them",
                store.place()
            ));
        }
    }
    store.close().await;
    Ok(())
}

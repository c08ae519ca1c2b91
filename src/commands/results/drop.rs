//! `pgthaw results drop`: the work is done in `src/results/`.

use serde_json::json;

use crate::commands::OutputArguments;
use crate::results::{self, Store};
use crate::terminal;

/// What is forgotten, by its kind.
enum Dropped {
    Sweep(String),
    Loading(String),
}

/// Forgets a run with its trials; of a server in the local `copy` too, which the study would be gone on with, and sent from.
pub async fn drop_run(store: &Store, copy: Option<Store>, wanted: &str, output: OutputArguments) -> anyhow::Result<()> {
    let dropped = find(store, wanted).await?;
    // First, for a run that is left on the server alone is found again.
    if let Some(copy) = copy {
        dropped.forget(&copy).await?;
        copy.close().await;
    }
    dropped.forget(store).await?;
    if output.json {
        terminal::print_json(&json!({ "dropped": dropped.id() }))?;
    } else {
        terminal::print_line(&format!("dropped {}", dropped.id()));
    }
    Ok(())
}

async fn find(store: &Store, wanted: &str) -> Result<Dropped, results::Error> {
    if let Some(loading) = store.find_loading(wanted).await? {
        return Ok(Dropped::Loading(loading.id));
    }
    Ok(Dropped::Sweep(store.read_study(wanted).await?.id))
}

impl Dropped {
    fn id(&self) -> &str {
        match self {
            Dropped::Sweep(id) | Dropped::Loading(id) => id,
        }
    }

    /// Nothing happens where it is not.
    async fn forget(&self, store: &Store) -> Result<(), results::Error> {
        match self {
            Dropped::Sweep(id) => store.drop_sweep(id).await,
            Dropped::Loading(id) => store.drop_loading(id).await,
        }
    }
}

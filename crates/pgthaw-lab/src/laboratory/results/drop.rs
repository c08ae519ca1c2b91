//! `pgthaw results drop`: the work is done in `crates/pgthaw-lab/src/results/`.

use serde_json::json;

use crate::laboratory::OutputArguments;
use crate::results::{Error, Store};

/// Forgets a study with its trials; of a server in the local `copy` too, which the study would be gone on with, and sent from.
pub async fn drop_run(store: &Store, copy: Option<Store>, wanted: &str, output: OutputArguments) -> anyhow::Result<()> {
    let id = match (store.read_study_id(wanted).await, &copy) {
        // One that never came to the server, for it is damaged here.
        (Err(Error::UnknownRun(_)), Some(copy)) => copy.read_study_id(wanted).await?,
        (id, _) => id?,
    };
    // First, for a study that is left on the server alone is found again. Nothing happens where it is not.
    if let Some(copy) = copy {
        copy.drop_sweep(&id).await?;
        copy.close().await;
    }
    store.drop_sweep(&id).await?;
    if output.json {
        terminal::print_json(&json!({ "dropped": id }))?;
    } else {
        terminal::print_line(&format!("dropped {id}"));
    }
    Ok(())
}

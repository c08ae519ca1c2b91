//! `pgthaw results import`: the work is done in `src/study/sweep/import/`.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;

use super::sweep::show_sweep;
use crate::commands::OutputArguments;
use crate::results::Store;
use crate::study::{ImportOptions, Imported, Record, read_import};

/// What is imported.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// Logs of `pgbench --log` (of transactions or of intervals), what pgbench printed, a directory of one trial's files, or
    /// one of many such directories, as pgbench-tools makes them
    #[arg(required = true)]
    paths: Vec<PathBuf>,

    /// What was asked [default: imported from the paths]
    #[arg(long)]
    question: Option<String>,

    /// pgbench's scale, where its report does not say it
    #[arg(long)]
    scale: Option<u32>,

    /// The number of clients, where neither report nor log says it
    #[arg(long)]
    clients: Option<u32>,

    /// The script's name, where the report does not say it
    #[arg(long)]
    script: Option<String>,
}

/// Keeps it as a sweep.
pub async fn import(store: &Store, arguments: ImportArguments, output: OutputArguments) -> anyhow::Result<()> {
    let ImportArguments { paths, question, scale, clients, script } = arguments;
    let options = ImportOptions { paths, question, scale, clients, script };
    let Imported { mut run, mut trials } = read_import(&options)?;
    run.hide_secrets();
    trials.iter_mut().for_each(Record::hide_secrets);
    if let Some(known) = store.read_sweeps().await?.iter().find(|known| known.digest == run.digest) {
        bail!("the same was imported already, as {0}; `pgthaw results drop {0}` forgets it", known.id);
    }
    store.save_whole_sweep(&run, &trials).await?;
    show_sweep(store, &run, output).await
}

//! `pgthaw results import`: the work is done in `crates/pgthaw-lab/src/study/import/`.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;

use super::sweep::show_sweep;
use crate::laboratory::OutputArguments;
use crate::laboratory::store::remark_damaged;
use crate::results::Store;
use crate::study::{ImportOptions, Imported, Record, StartAsked, read_import};
use crate::verdict::judge_import;
use postgres::pgbench::QueryMode;

/// What is imported.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// Logs of `pgbench --log` (of transactions or of intervals), what pgbench printed, and directories with such files, as
    /// pgbench-tools makes them. Threads' logs, and a log and its report, are found together by what they say
    #[arg(required = true)]
    paths: Vec<PathBuf>,

    /// What was asked [default: imported from the paths]
    #[arg(long)]
    question: Option<String>,

    /// pgbench's scale [default: as its report says; of a script of one's own that is 1, whatever it was]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    scale: Option<u32>,

    /// The number of clients [default: as report or log say]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    clients: Option<u32>,

    /// pgbench's threads (-j), where the report does not say it [default: as many as have logs]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,

    /// The script's name [default: as the report says]
    #[arg(long)]
    script: Option<String>,

    /// pgbench's query mode (-M), where the report does not say it
    #[arg(long, value_name = "MODE")]
    query_mode: Option<QueryMode>,

    /// How long pgbench ran (-T), where no report says it [default: as long as the log]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,

    /// Each transaction had a connection of its own (pgbench -C), which reports say from version 14 on
    #[arg(long)]
    connect: bool,

    /// Transactions per second that were asked for (pgbench -R), which no report says [default: what was due, in two digits]
    #[arg(long, value_parser = parse_rate)]
    rate: Option<f64>,

    /// How the trials started, for people: cold, warm, restored or as-is [default: as-is]
    #[arg(long)]
    start: Option<StartAsked>,
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "it is a number above 0".to_owned())
}

/// Keeps it as a sweep.
pub async fn import(store: &Store, arguments: ImportArguments, output: OutputArguments) -> anyhow::Result<()> {
    let ImportArguments { paths, question, scale, clients, jobs, script, query_mode, seconds, connect, rate, start } =
        arguments;
    let options =
        ImportOptions { paths, question, scale, clients, jobs, script, query_mode, seconds, connect, rate, start };
    let mut imported = read_import(&options)?;
    judge_import(&mut imported);
    let Imported { mut run, mut trials, .. } = imported;
    run.hide_secrets();
    trials.iter_mut().for_each(Record::hide_secrets);
    remark_damaged(&store.read_damaged_sweeps().await?);
    if let Some(known) = store.read_sweeps().await?.iter().find(|known| known.digest == run.digest) {
        bail!("the same was imported already, as {0}; `pgthaw results drop {0}` forgets it", known.id);
    }
    store.save_whole_sweep(&run, &trials).await?;
    show_sweep(store, &run, output).await
}

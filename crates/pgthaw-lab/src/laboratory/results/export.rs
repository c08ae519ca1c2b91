//! `pgthaw results export`: the work is done in `crates/pgthaw-lab/src/results/export/`.

use std::io::{BufWriter, IsTerminal as _, stdout};
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;

use crate::laboratory::OutputArguments;
use crate::results::{ExportFormat, ExportTable, NEWEST, Store};

use host::units::counted;

/// What goes where.
#[derive(Debug, Args)]
pub struct ExportArguments {
    /// Runs or sweeps, or the first characters of their names
    #[arg(default_value = NEWEST)]
    runs: Vec<String>,

    /// points, trials or seconds: the views of docs/queries.md
    #[arg(long, default_value = "trials")]
    rows: ExportTable,

    /// csv, json or parquet [default: as the file's name ends, or csv]
    #[arg(long)]
    format: Option<ExportFormat>,

    /// The file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes results for other programs.
pub async fn export(store: &Store, arguments: ExportArguments, output: OutputArguments) -> anyhow::Result<()> {
    let mut ids: Vec<String> = Vec::new();
    for wanted in &arguments.runs {
        ids.push(store.read_study(wanted).await?.id);
    }
    let table = arguments.rows;
    let format = arguments.format.or_else(|| format_of(arguments.output.as_ref()?)).unwrap_or(ExportFormat::Csv);
    let Some(path) = arguments.output else {
        if format == ExportFormat::Parquet && stdout().is_terminal() {
            bail!("Parquet is nothing for a terminal: --output FILE");
        }
        store.export(table, &ids, format, BufWriter::new(stdout())).await?;
        return Ok(());
    };
    let rows = store.export_to_file(table, &ids, format, &path).await?;
    if output.shows_progress() {
        terminal::print_remark(&format!("{} in {}", counted(rows, "row"), path.display()));
    }
    Ok(())
}

fn format_of(path: &std::path::Path) -> Option<ExportFormat> {
    path.extension()?.to_str()?.parse().ok()
}

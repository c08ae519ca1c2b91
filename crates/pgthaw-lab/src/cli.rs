use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory as _, Parser, Subcommand};
use command::{ExitStatus, OutputArguments, completions, keep_private, read_command_line};

use crate::bench::apply_read_ranges;
use crate::laboratory::{bench, judge, report, results, serve};

/// Commands of pgthaw. The laboratory ignores their settings in `pgthaw.toml`.
const TOOL: &str = "doctor map snapshot restore evict hydrate run film predict waits top connection";

/// Measures PostgreSQL, cold and warm. pgthaw runs this program, pgthaw-lab, for the commands bench, results, report,
/// serve and judge.
#[derive(Debug, Parser)]
#[command(name = "pgthaw", version, propagate_version = true, arg_required_else_help = true)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(bench::BenchArguments),
    Results(results::ResultsArguments),
    Report(report::ReportArguments),
    Serve(serve::ServeArguments),
    Judge(judge::JudgeArguments),
    // `make` runs this command to write the packages' shell completions and manual pages.
    #[command(hide = true)]
    Completions(completions::CompletionsArguments),
    /// Read the ranges of a list, one read each: the strategy one-read-per-range
    #[command(hide = true)]
    ReadRanges {
        /// A line per range: first byte, number of bytes, file
        list: PathBuf,
    },
}

impl Cli {
    /// Reads options from the command line, the environment and `pgthaw.toml`, in this order of precedence.
    pub fn read(arguments: &[OsString]) -> anyhow::Result<Cli> {
        keep_private(arguments);
        Ok(read_command_line(arguments, &TOOL.split(' ').collect::<Vec<_>>())?)
    }

    /// True if output, including errors, is JSON.
    pub fn as_json(&self) -> bool {
        self.output.json
    }

    pub async fn run(self) -> anyhow::Result<ExitStatus> {
        let output = self.output;
        output.apply();
        match self.command {
            Command::Bench(arguments) => bench::run(arguments, output).await,
            Command::Results(arguments) => results::run(arguments, output).await,
            Command::Report(arguments) => report::run(arguments, output).await,
            Command::Serve(arguments) => serve::run(arguments, output).await,
            Command::Judge(arguments) => judge::run(arguments, output).await,
            Command::Completions(arguments) => {
                completions::run(arguments, Cli::command().name("pgthaw-lab"), "pgthaw-lab").await
            }
            Command::ReadRanges { list } => {
                apply_read_ranges(&list)?;
                Ok(ExitStatus::Done)
            }
        }
    }
}

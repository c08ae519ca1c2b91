//! One file per subcommand: its flags beside its behaviour, its doc comment its help. The only place that opens things
//! and wires them together.

mod bench;
mod bench_device;
mod bench_forecast;
mod bench_judge;
mod bench_point;
mod bench_read_ranges;
mod bench_residency;
mod bench_sweep;
mod caught;
mod completions;
mod connection;
mod current_map;
mod demo;
mod demo_acts;
mod doctor;
mod doctor_probe;
mod evict;
mod explain;
mod finished;
mod hydrate;
mod lab;
mod map;
mod measured;
mod predict;
mod report;
mod report_sweep;
mod restore;
mod results;
mod results_compare;
mod results_drop;
mod results_export;
mod results_import;
mod results_list;
mod results_loading;
mod results_noise;
mod results_sweep;
mod runtime;
mod serve;
mod settings;
mod snapshot;
mod snapshot_diff;
mod snapshot_list;
mod snapshot_place;
mod snapshot_take;
mod steady;
mod store;
mod study;
mod sweep_earlier;
mod target;
mod view;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

pub use caught::{Panicked, run_caught};
pub use connection::{ConnectionArguments, PositionalArguments};
pub use current_map::{add_heat, read_current_map};
pub use explain::{describe, explain};
pub use lab::{LabArguments, NotALabServer, is_lab_server, require_lab_server};
pub use measured::MeasuredError;
pub use runtime::{NoThreads, start_runtime};
pub use settings::SettingsError;
pub use snapshot_place::{SnapshotPlace, SnapshotsArguments};
pub use store::StoreArguments;
pub use target::{Scope, Target, find_directory, last_start_of, page_cache_of};
pub use view::{SelectionArguments, ViewArguments};

use crate::failure::ErrorKind;
use crate::files::FileMode;
use crate::linux::arguments::hide_arguments;
use crate::postgres::hide_password;
use crate::terminal;

/// Gets a cold PostgreSQL back to full speed, and proves it.
#[derive(Debug, Parser)]
#[command(name = "pgthaw", version, propagate_version = true, arg_required_else_help = true, disable_help_flag = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    output: OutputArguments,
}

/// What every command takes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct OutputArguments {
    /// Print one JSON document with stable field names (docs/formats.md) instead of text
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,

    /// Draw no progress
    #[arg(short, long, global = true, help_heading = "Output")]
    pub quiet: bool,

    /// Who may read the files that are written, as in chmod: 640 lets the group read them [default: 600]
    #[arg(long, global = true, value_name = "MODE", env = "PGTHAW_MODE", help_heading = "Output")]
    pub mode: Option<FileMode>,

    /// Print help; -h is psql's host
    #[arg(short = '?', long, global = true, action = clap::ArgAction::Help, help_heading = "Output")]
    help: Option<bool>,
}

impl OutputArguments {
    /// Should progress be drawn?
    pub fn shows_progress(self) -> bool {
        !self.json && !self.quiet
    }
}

/// How a command that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Done,
    /// The command did its work, and the answer is that this kind of thing is the matter.
    Because(ErrorKind),
    /// The command answers by its exit status, as its help says.
    Answer(u8),
}

impl ExitStatus {
    /// The process's exit status.
    pub fn code(self) -> u8 {
        match self {
            ExitStatus::Done => 0,
            ExitStatus::Because(kind) => kind.exit_code(),
            ExitStatus::Answer(code) => code,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    Doctor(doctor::DoctorArguments),
    Map(map::MapArguments),
    Snapshot(snapshot::SnapshotArguments),
    Restore(restore::RestoreArguments),
    Evict(evict::EvictArguments),
    Hydrate(hydrate::HydrateArguments),
    Bench(bench::BenchArguments),
    Results(results::ResultsArguments),
    Report(report::ReportArguments),
    Serve(serve::ServeArguments),
    Predict(predict::PredictArguments),
    Steady(steady::SteadyArguments),
    Demo(demo::DemoArguments),
    Completions(completions::CompletionsArguments),
}

impl Cli {
    /// Reads the command line, the environment and `pgthaw.toml`; the first of them wins.
    pub fn read(arguments: &[OsString]) -> anyhow::Result<Cli> {
        // What is written from here on is its owner's alone, by this process and by those that it starts.
        FileMode::PRIVATE.apply();
        let words = arguments.iter().map(|word| word.to_string_lossy().into_owned());
        let hide = |word: String| {
            let shown = hide_password(&word)?;
            // clap shows the value alone.
            let value = word.split_once('=').filter(|(option, _)| option.starts_with("--"));
            let value = value.map(|(_, value)| (value.to_owned(), "…".to_owned()));
            Some([(word.clone(), shown)].into_iter().chain(value))
        };
        let hidden: Vec<(String, String)> = words.filter_map(hide).flatten().collect();
        if !hidden.is_empty() {
            terminal::hide_words(hidden);
            hide_arguments(hide_password);
        }
        Ok(settings::read_command_line(arguments)?)
    }

    /// Was `--json` given? Failures are then told in JSON too.
    pub fn as_json(&self) -> bool {
        self.output.json
    }

    /// Which server was named, by the commands that take one.
    fn named(&self) -> Option<ConnectionArguments> {
        match &self.command {
            Command::Doctor(arguments) => Some(arguments.named()),
            Command::Map(arguments) => Some(arguments.named()),
            Command::Snapshot(arguments) => Some(arguments.named()),
            Command::Evict(arguments) => Some(arguments.named()),
            Command::Restore(arguments) => Some(arguments.connection.clone()),
            Command::Hydrate(arguments) => Some(arguments.connection.clone()),
            Command::Predict(arguments) => Some(arguments.connection.clone()),
            _ => None,
        }
    }

    /// Runs the subcommand.
    pub async fn run(self) -> anyhow::Result<ExitStatus> {
        let output = self.output;
        output.mode.unwrap_or(FileMode::PRIVATE).apply();
        if let Some(named) = self.named() {
            named.complete_printed_commands();
        }
        match self.command {
            Command::Doctor(arguments) => doctor::run(arguments, output).await,
            Command::Map(arguments) => map::run(arguments, output).await,
            Command::Snapshot(arguments) => snapshot::run(arguments, output).await,
            Command::Restore(arguments) => restore::run(arguments, output).await,
            Command::Evict(arguments) => evict::run(arguments, output).await,
            Command::Hydrate(arguments) => hydrate::run(arguments, output).await,
            Command::Bench(arguments) => bench::run(arguments, output).await,
            Command::Results(arguments) => results::run(arguments, output).await,
            Command::Report(arguments) => report::run(arguments, output).await,
            Command::Serve(arguments) => serve::run(arguments, output).await,
            Command::Predict(arguments) => predict::run(arguments, output).await,
            Command::Steady(arguments) => steady::run(arguments, output).await,
            Command::Demo(arguments) => demo::run(arguments, output).await,
            Command::Completions(arguments) => completions::run(arguments, output).await,
        }
    }
}

//! The command line: which subcommands there are, and what comes before them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory as _, Parser, Subcommand};

use super::{
    ConnectionArguments, ExitStatus, OutputArguments, completions, doctor, evict, film, hydrate, map, predict, restore,
    run, snapshot, top, waits,
};
use crate::command::read_command_line;
use crate::files::FileMode;
use crate::laboratory::{apply_read_ranges, bench, judge, report, results, serve};
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

#[derive(Debug, Subcommand)]
enum Command {
    Doctor(doctor::DoctorArguments),
    Map(map::MapArguments),
    Snapshot(snapshot::SnapshotArguments),
    Restore(restore::RestoreArguments),
    Evict(evict::EvictArguments),
    Hydrate(hydrate::HydrateArguments),
    Run(run::RunArguments),
    Film(film::FilmArguments),
    Bench(bench::BenchArguments),
    Results(results::ResultsArguments),
    Report(report::ReportArguments),
    Serve(serve::ServeArguments),
    Predict(predict::PredictArguments),
    Judge(judge::JudgeArguments),
    Waits(waits::WaitsArguments),
    Top(top::TopArguments),
    Completions(completions::CompletionsArguments),
    /// Read the ranges of a list, one read each: the strategy one-read-per-range
    #[command(hide = true)]
    ReadRanges {
        /// A line per range: first byte, number of bytes, file
        list: PathBuf,
    },
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
        Ok(read_command_line(arguments, &[])?)
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
            Command::Run(arguments) => Some(arguments.connection.clone()),
            Command::Film(arguments) => Some(arguments.named()),
            Command::Predict(arguments) => Some(arguments.connection.clone()),
            Command::Waits(arguments) => Some(arguments.connection.clone()),
            Command::Top(arguments) => Some(arguments.connection.clone()),
            _ => None,
        }
    }

    /// Runs the subcommand.
    pub async fn run(self) -> anyhow::Result<ExitStatus> {
        let output = self.output;
        output.mode.unwrap_or(FileMode::PRIVATE).apply();
        if output.quiet {
            terminal::keep_quiet();
        }
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
            Command::Run(arguments) => run::run(arguments, output).await,
            Command::Film(arguments) => film::run(arguments, output).await,
            Command::Bench(arguments) => bench::run(arguments, output).await,
            Command::Results(arguments) => results::run(arguments, output).await,
            Command::Report(arguments) => report::run(arguments, output).await,
            Command::Serve(arguments) => serve::run(arguments, output).await,
            Command::Predict(arguments) => predict::run(arguments, output).await,
            Command::Judge(arguments) => judge::run(arguments, output).await,
            Command::Waits(arguments) => waits::run(arguments, output).await,
            Command::Top(arguments) => top::run(arguments, output).await,
            Command::Completions(arguments) => completions::run(arguments, Cli::command()).await,
            Command::ReadRanges { list } => {
                apply_read_ranges(&list)?;
                Ok(ExitStatus::Done)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::command::{GONE, SettingsError, find_successor};

    /// Every row is refused by the command line of today, and answered by its successor.
    #[test]
    fn whoever_types_what_is_gone_gets_its_successor() {
        for (gone, instead) in GONE {
            let words: Vec<OsString> = format!("pgthaw {gone}").split(' ').map(OsString::from).collect();
            let error = Cli::command().try_get_matches_from(&words).unwrap_err();
            let found = find_successor(&error, &words);
            assert!(matches!(found, Some(SettingsError::Gone { instead: found, .. }) if found == instead), "{gone}");
        }
        let with_value: Vec<OsString> = ["pgthaw", "waits", "--lwlocks=5"].map(OsString::from).to_vec();
        let error = Cli::command().try_get_matches_from(&with_value).unwrap_err();
        assert!(find_successor(&error, &with_value).is_some());
        for line in ["pgthaw map --lwlocks", "pgthaw no-such-command", "pgthaw waits --seconds x"] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let error = Cli::command().try_get_matches_from(&words).unwrap_err();
            assert!(find_successor(&error, &words).is_none(), "{line}");
        }
    }
}

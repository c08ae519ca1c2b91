use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;

use clap::{CommandFactory as _, Parser, Subcommand};

use super::{
    ExitStatus, OutputArguments, agent, doctor, evict, film, hydrate, map, predict, restore, run, snapshot, top, waits,
};
use command::{completions, connection_topic, is_option, read_command_line};
use host::failure::{ErrorKind, Explain};
use host::linux::own_program::find_beside;

/// Commands of pgthaw-lab, a separate program installed beside this one.
const LABORATORY: [(&str, &str); 5] = [
    ("bench", "Measure warmers, settings, disks and scales in a study"),
    ("results", "List, show, compare, export or import stored studies"),
    ("report", "Write a self-contained HTML report of one or several studies"),
    ("serve", "Show results, comparisons and the running trial in a browser"),
    ("judge", "Judge whether a throughput curve is steady and warm"),
];

/// Omits clap's list of subcommands, because commands.txt lists all commands on one screen.
const TEMPLATE: &str = "{about-with-newline}{usage-heading} {usage}{after-help}";

#[derive(Debug, thiserror::Error)]
#[error("`pgthaw {command}` is a command of pgthaw-lab, which is not installed")]
pub struct NoLaboratory {
    command: &'static str,
}

impl Explain for NoLaboratory {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }

    fn hint(&self) -> Option<String> {
        Some("install the package pgthaw-lab, or put the program pgthaw-lab beside pgthaw or on PATH".into())
    }
}

/// Finds the command word before clap parses the command line. In `help map` it is `map`.
pub fn find_command(arguments: &[OsString]) -> Option<String> {
    let words: Vec<String> = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let command = (0..words.len()).find(|at| !is_option(&words, *at) && words[*at] != "help")?;
    Some(words[command].clone())
}

/// If the arguments name a command of pgthaw-lab, or its help, replaces this process by pgthaw-lab.
fn run_laboratory(arguments: &[OsString]) -> anyhow::Result<()> {
    let named = find_command(arguments);
    let Some((command, _)) = LABORATORY.into_iter().find(|(name, _)| Some(*name) == named.as_deref()) else {
        return Ok(());
    };
    let program = find_beside("pgthaw-lab").ok_or(NoLaboratory { command })?;
    let failed = std::process::Command::new(&program).args(&arguments[1..]).exec();
    Err(anyhow::Error::new(failed).context(format!("cannot run {}", program.display())))
}

/// Gets a cold PostgreSQL back to full speed, and proves it.
#[derive(Debug, Parser)]
#[command(name = "pgthaw", version, propagate_version = true, arg_required_else_help = true)]
#[command(disable_help_flag = true, disable_version_flag = true)]
#[command(subcommands = LABORATORY.map(|(name, about)| clap::Command::new(name).about(about)))]
#[command(subcommands = [connection_topic()])]
#[command(help_template = TEMPLATE, after_help = include_str!("commands.txt").trim_end())]
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
    Predict(predict::PredictArguments),
    Waits(waits::WaitsArguments),
    Top(top::TopArguments),
    Agent(agent::AgentArguments),
    Ready(agent::ReadyArguments),
    Completions(completions::CompletionsArguments),
}

impl Cli {
    pub fn read(arguments: &[OsString]) -> anyhow::Result<Cli> {
        run_laboratory(arguments)?;
        Ok(read_command_line(arguments, &LABORATORY.map(|(name, _)| name))?)
    }

    pub fn as_json(&self) -> bool {
        self.output.json
    }

    pub async fn run(self) -> anyhow::Result<ExitStatus> {
        let output = self.output;
        output.apply();
        match self.command {
            Command::Doctor(arguments) => doctor::run(arguments, output).await,
            Command::Map(arguments) => map::run(arguments, output).await,
            Command::Snapshot(arguments) => snapshot::run(arguments, output).await,
            Command::Restore(arguments) => restore::run(arguments, output).await,
            Command::Evict(arguments) => evict::run(arguments, output).await,
            Command::Hydrate(arguments) => hydrate::run(arguments, output).await,
            Command::Run(arguments) => run::run(arguments, output).await,
            Command::Film(arguments) => film::run(arguments, output).await,
            Command::Predict(arguments) => predict::run(arguments, output).await,
            Command::Waits(arguments) => waits::run(arguments, output).await,
            Command::Top(arguments) => top::run(arguments, output).await,
            Command::Agent(arguments) => agent::run(arguments, output).await,
            Command::Ready(arguments) => agent::ready(arguments, output).await,
            Command::Completions(arguments) => completions::run(arguments, Cli::command(), "pgthaw").await,
        }
    }
}

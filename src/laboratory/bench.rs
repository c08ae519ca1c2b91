//! `pgthaw bench`: the work is done in `src/bench/`.

use clap::{Args, Subcommand};

use super::bench_forecast::{self, ForecastArguments};
use super::bench_judge::{self, JudgeArguments};
use super::bench_point::{PointArguments, Trials};
use super::bench_read_ranges::{self, ReadRangesArguments};
use super::bench_residency::{self, ResidencyArguments};
use super::bench_sweep::{self, SweepArguments};
use super::results::show_sweeps;
use super::running::{Begin, run_studies, status_of, tell_where_kept};
use super::store::close_written;
use super::study::TrialArguments;
use super::{ExitStatus, OutputArguments};
use crate::study::Until;
use crate::terminal;

/// Measure honestly: proven start state, repeats, randomised order
#[derive(Debug, Args)]
pub struct BenchArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// The tournament: how long every way to warm a cold server takes, while pgbench runs against it
    Warmup(Box<WarmupArguments>),
    /// How long loaders take until what a snapshot asks for is verified resident, on an idle server
    Residency(Box<ResidencyArguments>),
    /// Read the ranges of a list, one read each
    #[command(hide = true)]
    ReadRanges(ReadRangesArguments),
    Forecast(Box<ForecastArguments>),
    Judge(JudgeArguments),
    Sweep(Box<SweepArguments>),
}

#[derive(Debug, Args)]
struct WarmupArguments {
    #[command(flatten)]
    trials: TrialArguments,

    /// Begin anew, even when a run of the same study was interrupted
    #[arg(long)]
    anew: bool,

    /// Print the study as a file for `pgthaw bench sweep`, to begin one of your own with, and do nothing
    #[arg(long)]
    print_study: bool,

    #[command(flatten)]
    point: PointArguments,
}

/// Runs the command.
pub async fn run(arguments: BenchArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    match arguments.action {
        Action::Warmup(arguments) => run_warmup(*arguments, output).await,
        Action::Residency(arguments) => bench_residency::run(*arguments, output).await,
        Action::Forecast(arguments) => bench_forecast::run(*arguments, output).await,
        Action::Judge(arguments) => bench_judge::run(&arguments, output),
        Action::ReadRanges(arguments) => bench_read_ranges::run(&arguments),
        Action::Sweep(arguments) => bench_sweep::run(*arguments, output).await,
    }
}

async fn run_warmup(arguments: WarmupArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let WarmupArguments { trials, anew, print_study, point } = arguments;
    let TrialArguments { seconds, repeats, until_steady, .. } = trials;
    let until = until_steady.then_some(Until::Steady);
    let (study, text) = point.study(Trials { seconds, repeats, strategies: trials.strategies(), until }).await?;
    if print_study {
        terminal::print_verbatim(text.trim_end());
        return Ok(ExitStatus::Done);
    }
    let store = point.store.open_for_study().await?;
    let finished = run_studies(vec![study], Begin::asked(anew), &store, output, |_| Ok(())).await?;
    show_sweeps(&store, &finished, None, output).await?;
    if !output.json {
        tell_where_kept(&finished, &store);
    }
    close_written(store).await?;
    Ok(status_of(&finished))
}

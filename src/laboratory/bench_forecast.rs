//! `pgthaw bench forecast`: the work is done in `src/model/` and `src/bench/`.

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;

use super::bench_device::read_bench_device;
use super::bench_point::{PointArguments, Trials};
use super::running::{Begin, run_studies};
use super::store::close_written;
use super::{ExitStatus, OutputArguments};
use crate::bench::{StudyAsked, describe_cold_start};
use crate::command::workload::{PopularityArgument, make_classes};
use crate::failure::ErrorKind;
use crate::lab::choose_in_force;
use crate::laboratory::text::{render_judged_forecasts, render_written_forecast};
use crate::linux::block_device::{DEFAULT_READ_AHEAD, read_block_device};
use crate::model::{Error, PageClass, compute_outlook};
use crate::study::{Calibration, Event, Strategy};
use crate::terminal;
use crate::verdict::{WrittenForecast, judge_forecast};

/// Forecast a cold start, then measure it: how far off the forecast is here
///
/// Makes the cluster and runs the workload on it while it is warm. From that, the sizes and the device's profile (`doctor
/// --probe`) the forecast is written; then one cold start is measured with nothing beside it.
#[derive(Debug, Args)]
pub struct ForecastArguments {
    #[command(flatten)]
    point: PointArguments,

    /// Seconds that the trial lasts
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,

    /// How the script chooses rows: uniform, zipfian:1.07, permuted:1.07, gaussian:5, exponential:10, newest:0.1:0.99
    #[arg(long, value_name = "WHICH", default_value = "uniform")]
    popularity: String,

    /// What to call it in a sweep
    #[arg(long, default_value = "forecast")]
    name: String,
}

/// Runs the command.
pub async fn run(arguments: ForecastArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let popularity: PopularityArgument = arguments.popularity.parse().map_err(anyhow::Error::msg)?;
    let store = arguments.point.store.open_for_study().await?;
    let strategies = vec![Strategy::Nothing];
    let trials = Trials { seconds: arguments.seconds, repeats: 1, strategies, until: None };
    let (asked, _) = arguments.point.study(trials).await?;
    let mut written = None;
    let finished = run_studies(vec![asked.clone()], Begin::Once, &store, output, |event| {
        if let Event::Calibrated(calibration) = event {
            let forecast = forecast(calibration, &asked, &popularity, &arguments.popularity)?;
            if !output.json {
                terminal::print_line(&render_written_forecast(&forecast));
            }
            written = Some(forecast);
        }
        Ok(())
    })
    .await?;
    let one = finished.first().context("the study left nothing behind")?;
    let trial = store.read_sweep_trial(&one.run.id, 0, 1).await?;
    close_written(store).await?;
    if one.is_interrupted {
        return Ok(ExitStatus::Because(ErrorKind::Interrupted));
    }
    let trial = trial.filter(|trial| trial.failure.is_none()).context("the trial left nothing behind")?;
    let written = written.context("no forecast was written")?;
    let judged = judge_forecast(arguments.name, written, &one.run, &trial);
    match output.json {
        true => terminal::print_json(&judged)?,
        false => terminal::print_line(&render_judged_forecasts(&[judged])),
    }
    Ok(ExitStatus::Done)
}

/// From what is known before the trial.
fn forecast(
    calibration: &Calibration,
    asked: &StudyAsked,
    popularity: &PopularityArgument,
    named: &str,
) -> anyhow::Result<WrittenForecast> {
    let calibration_tps = calibration.tps.ok_or(Error::IdleServer)?;
    let directory = asked.place.directory();
    let disk = choose_in_force(directory, asked.sweep.disk(&asked.sweep.point(0)));
    let (device, described) = read_bench_device(&disk, directory)?;
    let made = make_classes(&calibration.activity, None, Some(popularity))?;
    let mut assumptions = made.describe();
    let own = read_block_device(directory).map_or(DEFAULT_READ_AHEAD, |device| device.read_ahead_bytes);
    let read_ahead = disk.read_ahead_in_force(own);
    let scenario = describe_cold_start(&asked.sweep, calibration, &device, read_ahead, made.classes)?;
    let outlook = compute_outlook(&scenario)?;
    assumptions.extend([described, format!("the kernel reads ahead by up to {}", read_ahead)]);
    Ok(WrittenForecast {
        written_at: Timestamp::now(),
        calibration_tps,
        popularity: named.to_owned(),
        classes: scenario.workload.classes.iter().map(PageClass::access).collect(),
        assumptions,
        to_50_seconds: outlook.to_50_seconds.map(|span| span.seconds),
        warm_after_seconds: outlook.warm_after_seconds.map(|span| span.seconds),
        steady_tps: outlook.steady_tps,
    })
}

//! `pgthaw bench forecast`: the work is done in `src/model/` and `src/bench/`.

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;

use super::bench_point::PointArguments;
use super::predict::{
    PopularityArgument, READ_CPU_SECONDS, STARTUP_READS, make_classes, read_ahead_bytes, read_device_with,
};
use super::study::run_study;
use super::{ExitStatus, OutputArguments};
use crate::bench::{Calibration, Event, Options, Strategy, WrittenForecast, judge_forecast};
use crate::failure::ErrorKind;
use crate::model::{Error, Scenario, Server, Workload, compute_outlook};
use crate::postgres::pgbench::Script;
use crate::terminal;

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

/// pgbench asks the catalogs about its tables before it runs a script of its own: in so many reads.
const PGBENCH_READS: f64 = 90.0;

/// Private memory of a server, and of each backend: seen as 1.5 to 3 MB of the latter.
const SERVER_BYTES: f64 = 12e6;
const BACKEND_BYTES: f64 = 2.5e6;

/// Runs the command.
pub async fn run(arguments: ForecastArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let popularity: PopularityArgument = arguments.popularity.parse().map_err(anyhow::Error::msg)?;
    let store = arguments.point.store.open().await?;
    let options = arguments.point.options(arguments.seconds, 1, vec![Strategy::Nothing]).await?;
    let asked = options.clone();
    let mut written = None;
    let acts = run_study(vec![options], &store, output, |event| {
        if let Event::Calibrated(calibration) = event {
            let forecast = forecast(calibration, &asked, &popularity, &arguments.popularity)?;
            if !output.json {
                terminal::print_line(&terminal::render_written_forecast(&forecast));
            }
            written = Some(forecast);
        }
        Ok(())
    })
    .await?;
    store.close().await;
    let finished = acts.first().context("the study left nothing behind")?;
    if finished.is_interrupted {
        return Ok(ExitStatus::Because(ErrorKind::Interrupted));
    }
    let trial = finished.trials.first().context("the trial left nothing behind")?;
    let written = written.context("no forecast was written")?;
    let judged = judge_forecast(arguments.name, written, &finished.run, trial);
    match output.json {
        true => terminal::print_json(&judged)?,
        false => terminal::print_line(&terminal::render_judged_forecasts(&[judged])),
    }
    Ok(ExitStatus::Done)
}

/// From what is known before the trial.
fn forecast(
    calibration: &Calibration,
    options: &Options,
    popularity: &PopularityArgument,
    named: &str,
) -> anyhow::Result<WrittenForecast> {
    let tps = calibration.tps.ok_or(Error::IdleServer)?;
    let clients = options.workload.clients;
    let cores = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    let block_bytes = f64::from(calibration.facts.block_size);
    let directory = Some(options.place.directory());
    let riops = options.disk.riops.map(|riops| riops as f64);
    let (device, described) = read_device_with(riops, options.disk.rbps, directory)?;
    let read_ahead = read_ahead_bytes(options.disk.read_ahead, directory);
    let buffers = calibration.facts.shared_buffers_bytes.0 as f64;
    let private = SERVER_BYTES + BACKEND_BYTES * f64::from(clients);
    let room = options.memory.map_or(f64::INFINITY, |memory| memory.0 as f64 - buffers - private);
    let own_reads = if matches!(options.workload.script, Script::Builtin(_)) { PGBENCH_READS } else { 0.0 };
    let workload = Workload {
        clients,
        classes: make_classes(&calibration.activity, None, Some(popularity)),
        hit_seconds: f64::from(clients).min(cores) / tps,
        copy_seconds: 0.0,
        read_seconds: READ_CPU_SECONDS,
        read_ahead_pages: read_ahead.0 as f64 / block_bytes,
        startup_reads: STARTUP_READS + own_reads,
    };
    let (buffers_pages, os_pages) = (buffers / block_bytes, room / block_bytes);
    let server = Server { device, cores, buffers_pages, os_pages, block_bytes };
    let scenario = Scenario { name: "cold restart".into(), workload, server, warmer: None };
    let outlook = compute_outlook(&scenario)?;
    let each = |class: &crate::model::PageClass| {
        format!("{}: {:.0} blocks, {:.2} of them in a transaction", class.name, class.pages, class.accesses)
    };
    let mut assumptions: Vec<String> = scenario.workload.classes.iter().map(each).collect();
    assumptions.extend([described, format!("the kernel reads ahead by up to {read_ahead}")]);
    Ok(WrittenForecast {
        written_at: Timestamp::now(),
        calibration_tps: tps,
        popularity: named.to_owned(),
        assumptions,
        to_50_seconds: outlook.to_50_seconds.map(|span| span.seconds),
        warm_after_seconds: outlook.warm_after_seconds.map(|span| span.seconds),
        steady_tps: outlook.steady_tps,
    })
}

//! `pgthaw waits`: the work is done in `crates/observe/src/time/`.

mod arguments;
mod opened;
pub mod stalls_text;
pub mod statistics_text;
mod table;
pub mod time_text;

use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::Command;

pub use arguments::WaitsArguments;

use super::{ExitStatus, OutputArguments, Target};
use crate::waits::time_text::render_time_report;
use command::table::ExportFile;
use host::failure::ErrorKind;
use host::linux::clock::read_own_cpu_time;
use host::linux::count_cores;
use host::linux::process::terminate;
use host::linux::signals::{status_of, status_of_end};
use observe::time::{LookingCost, Tier, TimeReport, TimeSource as _, Watch};
use observe::{BudgetedSource, Error};
use opened::{Following, Here};
use terminal::{Canvas, Progress};

/// Looked at for so long when nobody says how long.
const SECONDS: u32 = 10;

/// The account has a line for each.
const STEP: Duration = Duration::from_secs(1);

/// Runs the command.
pub async fn run(arguments: WaitsArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    // A place that cannot be written to is told before anything is looked at.
    let file = arguments.parquet.as_deref().map(|path| ExportFile::open(path, "--parquet FILE")).transpose()?;
    let target = Target::open(&arguments.connection).await?;
    let Some(server) = &target.server else { bail!(Error::NoServer) };
    let here = Here::open(&target, arguments.source).await?;
    // Why its files are not seen says the source's own refusal.
    let seen = target.data_directory.is_some();
    let mut remarks = if seen { target.remarks.clone() } else { server.version_remark().into_iter().collect() };
    if here.names.is_empty() && here.source.tier() != Tier::Sql {
        remarks.push(format!("the wait events of PostgreSQL {} have no names here", server.facts.version));
    }
    let cpu_before = read_own_cpu_time();
    let mut following = Following::new(&target, arguments.source, &here);
    let (roster, stalls) = (here.roster(), here.stalls(&target));
    let mut source = BudgetedSource::new(here.source, here.postmaster_pid, arguments.budget.share());
    let mut watch = Watch::begin(&mut source, (here.who, None), roster, arguments.by, here.names, Some(stalls)).await?;
    let status = arguments.wait(&mut following, &mut watch, &mut source, output).await?;
    let cost = LookingCost {
        kernel: source.cost(),
        kernel_refusal: source.cost_refusal(),
        own_cpu_ns: read_own_cpu_time().saturating_sub(cpu_before).as_nanos() as u64,
        processors: count_cores(),
    };
    let watched = watch.finish(&mut source).await?;
    remarks.extend(following.remarks);
    remarks.extend((!watched.answered).then(|| "the server did not answer any more before the end".to_owned()));
    let report = TimeReport::new(watched, &source, arguments.by, following.refused, cost, remarks);
    let written =
        file.map(|file| file.write_parquet("waits", &table::columns(), &table::facts(&report), table::rows(&report)));
    // A disk that is full by now is no reason to keep it back.
    tell(report, output)?;
    written.transpose()?;
    Ok(status)
}

fn tell(report: TimeReport, output: OutputArguments) -> anyhow::Result<()> {
    match output.json {
        true => terminal::print_json(&report)?,
        false => terminal::print_line(&render_time_report(&report, Canvas::of_stdout(false).width)),
    }
    Ok(())
}

impl WaitsArguments {
    /// Until the time is over, the command has ended, or somebody wants an end; what is known by then is told.
    async fn wait(
        &self,
        following: &mut Following<'_>,
        watch: &mut Watch,
        source: &mut BudgetedSource,
        output: OutputArguments,
    ) -> anyhow::Result<ExitStatus> {
        let Some((program, words)) = self.command.split_first() else {
            let seconds = self.seconds.unwrap_or(SECONDS).into();
            let progress = Progress::steps("looking, by seconds", seconds, output.shows_progress());
            let end = tokio::time::timeout(Duration::from_secs(seconds), terminal::wait_for_interrupt());
            let ended = following.until(watch, source, STEP, end, || progress.advance(1)).await;
            progress.finish();
            // Without signals to wait for there is the time alone.
            return Ok(match ended? {
                Ok(Ok(())) => ExitStatus::Because(ErrorKind::Interrupted),
                _ => ExitStatus::Done,
            });
        };
        let mut command = Command::new(program);
        command.args(words).kill_on_drop(true);
        if output.json {
            // Standard output is one document.
            command.stdout(Stdio::from(std::io::stderr()));
        }
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.to_string_lossy()))?;
        // Ctrl-C is the command's too; what was seen is told all the same.
        let end = async {
            tokio::select! {
                status = child.wait() => return status,
                _ = terminal::wait_for_interrupt() => {}
            }
            child.id().into_iter().for_each(terminate);
            child.wait().await
        };
        let status = following.until(watch, source, STEP, end, || ()).await?.context("cannot wait for the command")?;
        Ok(match status.code() {
            Some(0) => ExitStatus::Done,
            Some(code) => ExitStatus::Answer(code as u8),
            None if status_of_end().is_some() => ExitStatus::Because(ErrorKind::Interrupted),
            // A signal that came from elsewhere ended the command alone.
            None => ExitStatus::Answer(status.signal().map_or(1, status_of)),
        })
    }
}

//! `pgthaw waits`; the work is in `crates/observe/src/time/`.

pub mod culprit_text;
mod locks;
mod table;
pub mod time_text;

use std::ffi::OsString;
use std::future::ready;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use jiff::Timestamp;
use sqlx::postgres::PgConnection;
use tokio::process::Command;
use tokio::sync::oneshot;

use super::{ConnectionArguments, ExitStatus, OutputArguments, SnapshotsArguments, Target};
use crate::looking::{BudgetArguments, Looking, open_again, open_history, parse_past};
use crate::waits::time_text::render_time_report;
use command::table::ExportFile;
use host::failure::ErrorKind;
use host::linux::clock::{read_own_cpu_time, read_wall_ms};
use host::linux::count_cores;
use host::linux::process::terminate;
use host::linux::signals::{status_of, status_of_end};
use host::units::counted;
use observe::stall::{StallWatch, render_clock};
use observe::time::{By, LookingCost, Roster, Tier, TimeReport, TimeSource, WaitNames, Watch};
use observe::top::LookBack;
use observe::{BudgetedSource, Error, GivenUp, RefusedSource, open_time_source};
use postgres::{read_postmaster_start, read_sessions};
use terminal::{Canvas, Progress};

const SECONDS: u32 = 10;

const STEP: Duration = Duration::from_secs(1);

/// Show where server processes spend time, by wait event
///
/// Processes run, are ready for a processor, or wait for an event. Also shows which sessions block others, sessions idle in a transaction,
/// and writers of temporary files. Measures for some seconds, or while a command runs: pgthaw waits -- pgbench -T 30.
///
/// If pgthaw runs as root, a BPF program in the kernel assigns every nanosecond of every server process to running, ready or a wait
/// event, and pgthaw prints the overhead. With fewer privileges, pgthaw samples wait events, in the processes'
/// memory or over SQL. Times are then estimates, without counts. docs/waits.md describes the measurement.
#[derive(Debug, Args)]
pub struct WaitsArguments {
    /// Seconds to measure [default: 10, or until CMD ends]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,

    /// By kind (default), user, database, query, backend
    #[arg(long, value_enum, default_value_t, hide_possible_values = true, hide_default_value = true)]
    by: By,

    /// How to measure the times [default: the most exact source available]
    #[arg(long, value_enum, hide_short_help = true)]
    source: Option<Tier>,

    #[command(flatten)]
    budget: BudgetArguments,

    /// Report on the agent's history from this time
    ///
    /// Stalls and blockers come first. TIME is as for `top --at`.
    #[arg(long, value_name = "TIME", value_parser = parse_past, conflicts_with_all = ["seconds", "by", "source", "budget", "command"])]
    from: Option<Timestamp>,

    /// End of that time [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_past, requires = "from")]
    to: Option<Timestamp>,

    /// Also write statistics and times to this Parquet file
    ///
    /// It has the times of each second.
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,

    /// Measure while this command runs, and exit with its status
    #[arg(last = true, value_name = "CMD", conflicts_with = "seconds")]
    command: Vec<OsString>,

    #[command(flatten)]
    snapshots: SnapshotsArguments,

    #[command(flatten)]
    pub connection: ConnectionArguments,
}

pub async fn run(arguments: WaitsArguments, output: OutputArguments) -> Result<ExitStatus> {
    // Checks the file before the measurement.
    let file = arguments.parquet.as_deref().map(|path| ExportFile::open(path, "--parquet FILE")).transpose()?;
    if let Some(from) = arguments.from {
        let report = arguments.look_back(from).await?;
        return finish(&report, file, output, ExitStatus::Done);
    }
    let target = Target::open(&arguments.connection).await?;
    let Some(server) = &target.server else { bail!(Error::NoServer) };
    let mut here = Here::open(&target, arguments.source).await?;
    // Without a data directory, the target's other remarks would repeat the reasons in `refused`.
    let seen = target.data_directory.is_some();
    let remarks = if seen { target.remarks.clone() } else { server.version_remark().into_iter().collect() };
    let locks_before = locks::read(server, &mut here.who).await;
    let cpu_before = read_own_cpu_time();
    let stalls = here.stalls(&target);
    let mut source = BudgetedSource::new(here.source, here.postmaster_pid, arguments.budget.share());
    let watch =
        Watch::begin(&mut source, (here.who, None), here.roster, arguments.by, here.names, Some(stalls)).await?;
    let (wanted, started_at, refused) = (arguments.source, here.started_at, here.refused);
    let mut following = Following { target: &target, wanted, watch, source, started_at, refused, remarks };
    let status = arguments.wait(&mut following, output).await?;
    let Following { watch, mut source, refused, mut remarks, .. } = following;
    let cost = LookingCost {
        kernel: source.cost(),
        kernel_refusal: source.current.cost_refusal(),
        own_cpu_ns: read_own_cpu_time().saturating_sub(cpu_before).as_nanos() as u64,
        processors: count_cores(),
    };
    let (mut report, failed, answered) = watch.finish(&mut source, refused, cost).await?;
    remarks.extend((failed.count > 0).then(|| {
        format!("{} for the process list failed; the last error: {}", counted(failed.count, "request"), failed.why)
    }));
    remarks.extend(locks::tell_since(server, locks_before).await);
    remarks.extend((!answered).then(|| "the server stopped responding before the end".to_owned()));
    report.remarks = remarks;
    finish(&report, file, output, status)
}

fn finish(
    report: &TimeReport,
    file: Option<ExportFile>,
    output: OutputArguments,
    status: ExitStatus,
) -> Result<ExitStatus> {
    let written =
        file.map(|file| file.write_parquet("waits", &table::columns(), &table::facts(report), table::rows(report)));
    // Prints the report even if writing the Parquet file failed, as on a full disk.
    terminal::print_answer(report, output.json, || render_time_report(report, Canvas::of_stdout(false).width))?;
    written.transpose()?;
    Ok(status)
}

impl WaitsArguments {
    async fn look_back(&self, from: Timestamp) -> Result<TimeReport> {
        let mut past = open_history(&self.snapshots, &self.connection).await?;
        let (mut sum, to) = (LookBack::default(), self.to.unwrap_or_else(Timestamp::now));
        past.read(from.as_millisecond(), to.as_millisecond(), |frame| {
            sum.add(frame);
            true
        })?;
        Ok(sum.finish(&past.damaged))
    }

    async fn wait(&self, following: &mut Following<'_>, output: OutputArguments) -> Result<ExitStatus> {
        let Some((program, words)) = self.command.split_first() else {
            let seconds = self.seconds.unwrap_or(SECONDS).into();
            let progress = Progress::steps("measuring (seconds)", seconds, output.shows_progress());
            let end = tokio::time::timeout(Duration::from_secs(seconds), terminal::wait_for_interrupt());
            let ended = following.until(end, || progress.advance(1)).await;
            progress.finish();
            // Falls back to the timeout if signals are unavailable.
            return Ok(match ended? {
                Ok(Ok(())) => ExitStatus::Because(ErrorKind::Interrupted),
                _ => ExitStatus::Done,
            });
        };
        let mut command = Command::new(program);
        command.args(words).kill_on_drop(true);
        if output.json {
            // With --json, standard output is one JSON document, so the command writes to standard error.
            command.stdout(Stdio::from(std::io::stderr()));
        }
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.to_string_lossy()))?;
        // Ctrl-C also reaches the command. The report follows anyway.
        let end = async {
            tokio::select! {
                status = child.wait() => return status,
                _ = terminal::wait_for_interrupt() => {}
            }
            child.id().into_iter().for_each(terminate);
            child.wait().await
        };
        let status = following.until(end, || ()).await?.context("cannot wait for the command")?;
        Ok(match status.code() {
            Some(0) => ExitStatus::Done,
            Some(code) => ExitStatus::Answer(code as u8),
            None if status_of_end().is_some() => ExitStatus::Because(ErrorKind::Interrupted),
            // The command was ended by a signal that pgthaw did not receive.
            None => ExitStatus::Answer(status.signal().map_or(1, status_of)),
        })
    }
}

struct Here {
    pub who: PgConnection,
    pub roster: Roster,
    pub postmaster_pid: Option<u32>,
    /// Start of the server, by its clock.
    started_at: f64,
    pub names: WaitNames,
    pub source: Box<dyn TimeSource>,
    pub refused: Vec<RefusedSource>,
}

impl Here {
    pub async fn open(target: &Target, wanted: Option<Tier>) -> Result<Here> {
        let Looking { looks, mut who, own_pids, version_num, postmaster_pid, .. } = Looking::open(target).await?;
        let started_at = read_postmaster_start(&mut who).await?;
        let names = WaitNames::of_server(version_num, &mut who).await;
        let (source, refused) = open_time_source(wanted, postmaster_pid, ready(Ok(looks)), None).await?;
        let mut roster = Roster::new(postmaster_pid, own_pids);
        roster.see(read_sessions(&mut who).await?);
        Ok(Here { who, roster, postmaster_pid, started_at, names, source, refused })
    }

    pub fn stalls(&self, target: &Target) -> StallWatch {
        let directory = target.data_directory.as_ref().map(|directory| &*directory.path);
        StallWatch::new(self.names.clone(), directory)
    }
}

struct Following<'a> {
    target: &'a Target,
    wanted: Option<Tier>,
    watch: Watch,
    source: BudgetedSource,
    started_at: f64,
    refused: Vec<RefusedSource>,
    remarks: Vec<String>,
}

impl Following<'_> {
    /// Reads the source every `STEP` until `end`, across server restarts. Calls `hear` after each step.
    async fn until<T>(&mut self, end: impl Future<Output = T>, hear: impl Fn()) -> Result<T> {
        let mut end = std::pin::pin!(end);
        loop {
            let (target, gone) = (self.target, self.watch.hear_gone());
            let has_given_up_programs = self.source.reductions.iter().any(|one| one.given_up == GivenUp::Programs);
            let wanted = if has_given_up_programs { Some(Tier::Memory) } else { self.wanted };
            let next = async {
                tokio::select! {
                    biased;
                    ended = &mut end => Ok(ended),
                    back = come_back(target, wanted, gone) => Err(Box::new(back)),
                }
            };
            let (here, gone_ms) = match self.watch.until(&mut self.source, STEP, next, |_, _| hear()).await? {
                Ok(ended) => return Ok(ended),
                Err(back) => *back,
            };
            let [gone, now] = [gone_ms, read_wall_ms()].map(render_clock);
            let was_restarted = here.started_at != self.started_at;
            if was_restarted {
                let stalls = here.stalls(self.target);
                self.watch.follow_restart(here.names, Some(stalls));
                self.started_at = here.started_at;
                self.remarks.push(format!(
                    "the server restarted: it stopped at {gone}, and the measurement continued at {now}; all figures include the time before the restart"
                ));
            } else {
                self.remarks.push(format!("the server ended pgthaw's sessions at {gone}; pgthaw reconnected at {now}"));
            }
            self.watch.follow(here.who, here.roster);
            // Other sources need no session and continued during the outage.
            if was_restarted || self.source.current.tier() == Tier::Sql {
                self.refused = here.refused;
                self.source.follow(here.source, here.postmaster_pid)?;
            }
        }
    }
}

/// Waits for an outage and the reconnection. Returns the outage's start, in milliseconds since 1970 UTC.
async fn come_back(target: &Target, wanted: Option<Tier>, gone: oneshot::Receiver<String>) -> (Here, i64) {
    if gone.await.is_err() {
        std::future::pending::<()>().await;
    }
    let gone_ms = read_wall_ms();
    (open_again(|| Here::open(target, wanted), |_| ()).await, gone_ms)
}

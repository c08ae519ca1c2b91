//! `pgthaw record`: the work is done in `src/trace/`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::job::{Job, JobEnd, describe_job, refuse};
use super::{ConnectionArguments, ExitStatus, OutputArguments, SnapshotsArguments, Target, read_current_map};
use crate::cache::{Error, Map, check_label};
use crate::linux::block_device::{Devices, read_block_device};
use crate::terminal;
use crate::trace::{FilmHeader, FilmStore, FilmWriter, Own, Polling, Progress, Recorded, Recording};

/// Record which blocks a job touches, in order, as a film
///
/// Runs a command, or waits some seconds, and looks at the page cache several times a second: which blocks of which relations came, and
/// when. What was cached before is not seen, so record a cold job. What was in shared_buffers before is noted, and marked as not proven
/// (with pg_buffercache). Whoever else reads at the same time is in the film too.
///
/// The command's input, output, signals and exit status are its own; what pgthaw has to say goes to standard error. `pgthaw trace show`
/// looks at the film, `pgthaw run --like NAME` uses it.
#[derive(Debug, Args)]
pub struct RecordArguments {
    #[command(flatten)]
    pub connection: ConnectionArguments,

    /// Write the film to this file, which must not exist [default: pgthaw/films in $XDG_STATE_HOME or ~/.local/state]
    #[arg(short, long, value_name = "FILE", help_heading = "Record")]
    output: Option<PathBuf>,

    /// Keep it under this name, for `pgthaw run --like NAME`
    #[arg(long, value_name = "NAME", conflicts_with = "output", help_heading = "Record")]
    name: Option<String>,

    /// Record for so many seconds whatever runs, instead of a command
    #[arg(long, value_name = "N", conflicts_with = "job", required_unless_present = "job", help_heading = "Record",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,

    /// The command, behind `--`
    #[arg(last = true, value_name = "COMMAND")]
    job: Vec<OsString>,
}

/// Runs the command.
pub async fn run(arguments: RecordArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    arguments.name.as_deref().map_or(Ok(()), check_label)?;
    if let Some(path) = arguments.output.as_ref().filter(|path| path.exists()) {
        return Err(Error::Exists(path.clone()).into());
    }
    let target = Target::open(&arguments.connection).await?;
    let map = read_current_map(&target, &SnapshotsArguments::default().open(), output.without_progress()).await?;
    let store = FilmStore::open();
    let (draft, path) = store.begin(map.source.system_identifier, arguments.output.as_deref())?;
    let writer = FilmWriter::begin(draft, &path)?;
    let header = new_header(&map, arguments.name.as_deref(), &arguments.job);
    let recording = begin(&target, &map, writer, header, Arc::default(), Arc::default())?;
    let end = match arguments.seconds {
        Some(seconds) => {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(seconds.into())) => {}
                interrupted = terminal::wait_for_interrupt() => interrupted?,
            }
            None
        }
        None => match Job::start(&arguments.job) {
            Ok(mut job) => Some(job.wait().await?),
            Err(error) => return Ok(refuse(&arguments.job, &error, output.json)),
        },
    };
    let kept = tokio::task::spawn_blocking(move || -> Result<_, crate::trace::Error> {
        let Recorded { draft, header } = recording.end()?;
        store.place(Recorded { draft, header }, arguments.output.as_deref())
    });
    let kept = kept.await?;
    match (kept, end) {
        (Ok((path, header)), end) => {
            let text = match output.json {
                true => terminal::render_film_json(&path, &header).to_string(),
                false => terminal::render_recorded(&path, &header),
            };
            match end {
                None if output.json => terminal::print_verbatim(&text),
                None => terminal::print_line(&text),
                Some(_) => terminal::print_aside(&text, output.json),
            }
            Ok(end.map_or(ExitStatus::Done, JobEnd::pass_on))
        }
        // The job's own failure comes first: whoever started it asks for that.
        (Err(error), Some(end)) if !end.status.success() => {
            terminal::print_remark(&format!("the film was not kept: {error}"));
            Ok(end.pass_on())
        }
        (Err(error), _) => Err(error.into()),
    }
}

/// What a film will say of itself, as far as that is known when it begins.
pub fn new_header(map: &Map, label: Option<&str>, job: &[OsString]) -> FilmHeader {
    FilmHeader {
        label: label.map(str::to_owned),
        recorded_at: map.taken_at,
        source: map.source.clone(),
        job: describe_job(job),
        recorder: String::new(),
        recorder_pid: std::process::id(),
        seconds: 0.0,
        lost_events: 0,
        totals: Default::default(),
        device_reads: None,
        device_bytes: None,
        requested_bytes: None,
        workers: None,
        remarks: map.remarks.clone(),
    }
}

/// Begins a film of a target, of a job that is as far as `progress` says.
pub fn begin(
    target: &Target,
    map: &Map,
    writer: FilmWriter,
    header: FilmHeader,
    own: Arc<Own>,
    progress: Arc<Progress>,
) -> Result<Recording, crate::trace::Error> {
    let source = Polling::new(Arc::new(target.page_cache()), map, own)?;
    let directory = target.data_directory.as_ref();
    let device = directory.and_then(|directory| read_block_device(&directory.path).ok()).map(|device| device.number);
    Recording::begin(writer, Box::new(source), map, header, Devices::from(device), progress)
}

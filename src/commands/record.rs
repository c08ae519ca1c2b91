//! `pgthaw record`: the work is done in `src/trace/`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clap::Args;

use super::job::{Job, JobEnd, refuse};
use super::recorded_sessions::WhoseArguments;
use super::recorder::{RecordingAsked, SourceArguments, new_header, open_source, wait_for_end};
use super::{ConnectionArguments, ExitStatus, OutputArguments, SnapshotsArguments, Target, read_current_map};
use crate::cache::{Error, check_label};
use crate::terminal::{self, Progress};
use crate::trace::{self, FilmStore, FilmWriter, Wanted};

/// Record which blocks a job touches, in order, as a film
///
/// Runs a command and has the kernel tell which blocks of which relations its server processes ask the page cache for, and when, those
/// that were cached too; parallel workers belong to it. Or records some seconds, a backend, or sessions by their names. What
/// shared_buffers had before is noted, and marked as not proven (with pg_buffercache).
///
/// Where the kernel takes no program from this user, the page cache is looked at several times a second: what was cached before is not
/// seen then, so record a cold job, and whoever else reads at the same time is in the film too.
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

    /// Keep it under this name, for `pgthaw run --like NAME`; the film of a command that failed is kept, but not under it
    #[arg(long, value_name = "NAME", conflicts_with = "output", help_heading = "Record")]
    name: Option<String>,

    /// Record for so many seconds, instead of a command; of the sessions that are chosen, or of whoever runs
    #[arg(long, value_name = "N", conflicts_with = "job", help_heading = "Record",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,

    #[command(flatten)]
    whose: WhoseArguments,

    #[command(flatten)]
    source: SourceArguments,

    /// The command, behind `--`
    #[arg(last = true, value_name = "COMMAND")]
    job: Vec<OsString>,
}

impl RecordArguments {
    fn names_something(&self) -> bool {
        self.whose.names_something() || self.seconds.is_some() || !self.job.is_empty()
    }
}

/// Runs the command.
pub async fn run(arguments: RecordArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    arguments.name.as_deref().map_or(Ok(()), check_label)?;
    if !arguments.names_something() {
        return Err(trace::Error::NothingNamed.into());
    }
    if let Some(path) = arguments.output.as_ref().filter(|path| path.exists()) {
        return Err(Error::Exists(path.clone()).into());
    }
    let target = Target::open(&arguments.connection).await?;
    arguments.whose.require_there(&target).await?;
    let map = read_current_map(&target, &SnapshotsArguments::default().open(), output.without_progress()).await?;
    let store = FilmStore::open();
    let (draft, path) = store.begin(map.source.system_identifier, arguments.output.as_deref())?;
    let writer = FilmWriter::begin(draft, &path)?;
    let header = new_header(&map, arguments.name.as_deref(), &arguments.job);
    let command = Arc::new(AtomicU32::new(0));
    let wanted = match arguments.job.is_empty() {
        true => arguments.whose.wanted(&target).await?,
        false => Wanted::command(&command),
    };
    let asked = RecordingAsked { source: arguments.source, wanted, own: Arc::default(), progress: Arc::default() };
    let recording = open_source(&target, &map, header, asked)?.begin(&target, &map, writer)?;
    let end = match arguments.job.is_empty() {
        true => {
            let (seconds, is_shown) = (arguments.seconds, output.shows_progress() && arguments.seconds.is_some());
            let progress = Progress::steps("recording, by seconds", seconds.unwrap_or_default().into(), is_shown);
            let interrupted = tokio::select! {
                () = wait_for_end(seconds, arguments.whose.backend, &progress) => Ok(()),
                interrupted = terminal::wait_for_interrupt() => interrupted,
            };
            progress.finish();
            interrupted?;
            None
        }
        false => match Job::start(&arguments.job) {
            Ok(mut job) => {
                command.store(job.pid(), Ordering::Release);
                Some(job.wait().await?)
            }
            Err(error) => return Ok(refuse(&arguments.job, &error, output.json)),
        },
    };
    let is_failed = end.is_some_and(|end| !end.status.success());
    let recording = if is_failed { recording.without_name() } else { recording };
    let kept = tokio::task::spawn_blocking(move || store.place(recording.end()?, arguments.output.as_deref()));
    match (kept.await?, end) {
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
        (Err(error), Some(end)) if is_failed => {
            terminal::print_complaint(&format!("the film was not kept: {error}"));
            Ok(end.pass_on())
        }
        (Err(error), _) => Err(error.into()),
    }
}

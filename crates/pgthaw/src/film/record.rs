//! `pgthaw film record` and `pgthaw run --record-only`: the work is done in `crates/cache/src/trace/`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::task::spawn_blocking;

use super::recorder::{RecordingAsked, SourceArguments, ask_sessions, new_header, open_source};
use crate::film::film_text::{render_film_json, render_recorded};
use crate::job::{Job, JobEnd, refuse};
use crate::{ConnectionArguments, ExitStatus, OutputArguments, SnapshotsArguments, Target, read_current_map};
use cache::check_label;
use cache::trace::{Error, FilmHeader, FilmStore, FilmWriter, Named, Recording, Wanted};
use host::linux::process::{is_alive, read_parent};
use observe::time::OwnTransactions;
use postgres::read_databases;
use terminal::Progress;

/// Interval at which pgthaw checks whether a recorded backend has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Record which blocks server processes read, in order, as a film
///
/// Records for some seconds, or until Ctrl-C: everything that the server reads, a backend with its parallel workers, or the sessions of a
/// name or a database. `pgthaw run --record-only -- COMMAND` records a command.
///
/// The kernel reports which blocks of which relations are requested from the page cache, and when, cached blocks too. The film also holds
/// what shared_buffers held before, marked as not proven (with pg_buffercache). Where the kernel takes no program from this user, pgthaw
/// looks at the page cache several times a second: it then sees only what came, whoever read it.
///
/// `pgthaw film show` shows the film, `pgthaw run --like NAME` uses it.
#[derive(Debug, Args)]
pub struct RecordArguments {
    #[command(flatten)]
    pub connection: ConnectionArguments,

    /// Write the film to this file, which must not exist [default: pgthaw/films in $XDG_STATE_HOME or ~/.local/state]
    #[arg(short, long, value_name = "FILE", help_heading = "Record")]
    output: Option<PathBuf>,

    /// Keep the film under this name, for `pgthaw run --like NAME`
    #[arg(long, value_name = "NAME", conflicts_with = "output", help_heading = "Record")]
    like: Option<String>,

    /// Record for so many seconds
    #[arg(long, value_name = "N", help_heading = "Record", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,

    /// Record this server process and its parallel workers, until it ends or Ctrl-C
    #[arg(long, visible_alias = "pid", value_name = "PID", help_heading = "Record")]
    backend: Option<u32>,

    /// Record the sessions with this application_name, until Ctrl-C
    #[arg(long, value_name = "NAME", conflicts_with = "backend", help_heading = "Record")]
    application_name: Option<String>,

    /// Record the sessions of this database, until Ctrl-C
    #[arg(long, value_name = "DB", conflicts_with = "backend", help_heading = "Record")]
    database: Option<String>,

    #[command(flatten)]
    source: SourceArguments,
}

/// What a film is recorded of, with its name and file.
#[derive(Debug)]
pub struct RecordedAs<'a> {
    pub connection: &'a ConnectionArguments,
    pub source: SourceArguments,
    pub label: Option<&'a str>,
    pub file: Option<&'a Path>,
}

impl RecordedAs<'_> {
    /// Refuses names and files that cannot be used.
    fn check(&self) -> anyhow::Result<()> {
        self.label.map_or(Ok(()), check_label)?;
        match self.file.filter(|path| path.exists()) {
            Some(path) => Err(cache::Error::Exists(path.to_owned()).into()),
            None => Ok(()),
        }
    }

    /// Begins to record. `job` is the command's words, none where sessions are recorded.
    async fn begin(
        &self,
        target: &Target,
        wanted: Wanted,
        job: &[OsString],
        output: OutputArguments,
    ) -> anyhow::Result<Recording> {
        let map = read_current_map(target, &SnapshotsArguments::default().open(), output.without_progress()).await?;
        let (draft, path) = FilmStore::open().begin(map.source.system_identifier, self.file)?;
        let writer = FilmWriter::begin(draft, &path)?;
        let header = new_header(&map, self.label, job);
        let asked = RecordingAsked { source: self.source, wanted, own: Arc::default(), progress: Arc::default() };
        Ok(open_source(target, &map, header, asked)?.begin(target, &map, writer)?)
    }

    async fn keep(&self, recording: Recording, output: OutputArguments) -> anyhow::Result<String> {
        let file = self.file.map(Path::to_owned);
        let kept = spawn_blocking(move || FilmStore::open().place(recording.end()?, file.as_deref())).await?;
        let (path, header): (PathBuf, FilmHeader) = kept?;
        Ok(match output.json {
            true => render_film_json(&path, &header).to_string(),
            false => render_recorded(&path, &header),
        })
    }
}

/// Records a command: its input, output, signals and exit status are its own.
pub async fn record_job(
    asked: RecordedAs<'_>,
    job: &[OsString],
    output: OutputArguments,
) -> anyhow::Result<ExitStatus> {
    asked.check()?;
    let target = Target::open(asked.connection).await?;
    let command = Arc::new(AtomicU32::new(0));
    let recording = asked.begin(&target, Wanted::command(&command), job, output).await?;
    let end = match Job::start(job) {
        Ok(mut job) => {
            command.store(job.pid(), Ordering::Release);
            job.wait().await?
        }
        Err(error) => return Ok(refuse(job, &error, output.json)),
    };
    let is_failed = !end.status.success();
    let recording = if is_failed { recording.without_name() } else { recording };
    match asked.keep(recording, output).await {
        Ok(text) => terminal::print_aside(&text, output.json),
        // The job's own failure comes first.
        Err(error) if is_failed => terminal::print_complaint(&format!("the film was not kept: {error}")),
        Err(error) => return Err(error),
    }
    Ok(JobEnd::pass_on(end))
}

/// Runs the command.
pub async fn run(arguments: RecordArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let RecordArguments { connection, output: file, like, seconds, backend, application_name, database, source } =
        arguments;
    let asked = RecordedAs { connection: &connection, source, label: like.as_deref(), file: file.as_deref() };
    asked.check()?;
    if seconds.is_none() && backend.is_none() && application_name.is_none() && database.is_none() {
        return Err(Error::NothingNamed.into());
    }
    let target = Target::open(&connection).await?;
    if let Some(pid) = backend {
        require_backend(&target, pid)?;
    }
    if let Some(name) = &database {
        require_database(&target, name).await?;
    }
    let wanted = match (&target.server, backend) {
        (_, Some(backend)) => Wanted::Backend(backend),
        _ if application_name.is_none() && database.is_none() => Wanted::Everybody,
        (Some(server), None) => {
            let ask = ask_sessions(server, OwnTransactions::default()).await?;
            Wanted::Sessions(Named { application_name, database, ask })
        }
        (None, None) => anyhow::bail!("the server has to run for its sessions to be known by their names"),
    };
    let recording = asked.begin(&target, wanted, &[], output).await?;
    let is_shown = output.shows_progress() && seconds.is_some();
    let progress = Progress::steps("recording, by seconds", seconds.unwrap_or_default().into(), is_shown);
    let interrupted = tokio::select! {
        () = wait_for_end(seconds, backend, &progress) => Ok(()),
        interrupted = terminal::wait_for_interrupt() => interrupted,
    };
    progress.finish();
    interrupted?;
    let text = asked.keep(recording, output).await?;
    if output.json {
        terminal::print_verbatim(&text)
    } else {
        terminal::print_line(&text)
    }
    Ok(ExitStatus::Done)
}

/// Refuses a process that is none of the server's: nothing would ever be recorded of it.
fn require_backend(target: &Target, pid: u32) -> Result<(), Error> {
    let reason = match target.find_postmaster() {
        Some(postmaster) if read_parent(pid).is_ok_and(|parent| parent == postmaster) => return Ok(()),
        Some(postmaster) if postmaster == pid => "it is the postmaster, which starts those that read",
        Some(_) if is_alive(pid) => "it is another program's, or another server's",
        Some(_) => "there is no such process",
        None => "no server of it runs on this host, as far as this user can see",
    };
    Err(Error::NoBackend { pid, cluster: target.address(), reason })
}

/// Refuses a database that does not exist. Sessions of a name may come yet.
async fn require_database(target: &Target, name: &str) -> anyhow::Result<()> {
    let Some(server) = &target.server else { return Ok(()) };
    let databases = read_databases(&mut server.connect_to(&server.database).await?).await?;
    if databases.iter().all(|database| database.name != name) {
        let (database, cluster) = (name.to_owned(), target.address());
        return Err(postgres::Error::DatabaseMissing { database, cluster }.into());
    }
    Ok(())
}

/// Waits so many seconds, or until this process has ended; for ever where neither is given.
async fn wait_for_end(seconds: Option<u32>, pid: Option<u32>, progress: &Progress) {
    let end = seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let begun = Instant::now();
    while end.is_none_or(|end| begun.elapsed() < end) && pid.is_none_or(is_alive) {
        let left = end.map_or(LOOK_INTERVAL, |end| end.saturating_sub(begun.elapsed()));
        tokio::time::sleep(left.min(LOOK_INTERVAL)).await;
        if let Some(seconds) = seconds {
            progress.reach(begun.elapsed().as_secs(), seconds.into());
        }
    }
}

//! `pgthaw film`; the work is in `crates/cache/src/trace/`. Names refer to this user's films. If none matches, the
//! error names a film of the server's owner.

pub mod film_text;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::film::film_text::{
    FilmLine, render_film, render_film_json, render_film_page, render_film_summary_json, render_films,
    render_films_json, render_recorded,
};
use crate::{
    ConnectionArguments, ExitStatus, OutputArguments, SnapshotsArguments, Target, find_cluster, find_directory,
    page_cache_of, read_current_map,
};
use cache::trace::{
    self, AskSessions, Error, FilmHeader, FilmStore, FilmSummary, FilmWriter, Named, Own, Polling, Recording, Requests,
    Source, Wanted,
};
use cache::{Generation, Map, NEWEST, check_label};
use command::document;
use host::failure::Explain as _;
use host::files::Draft;
use host::linux::block_device::{Devices, read_block_device};
use host::linux::own_program::home_of;
use host::linux::page_cache::PageCache as _;
use host::linux::process::{is_alive, read_parent};
use observe::open_pages_ahead;
use observe::time::OwnTransactions;
use postgres::{Server, read_databases, read_sessions, tell_statistics};
use terminal::{Canvas, Progress};

/// Record reads of server processes as films; show or drop films
#[derive(Debug, Args)]
pub struct FilmArguments {
    #[command(subcommand)]
    command: FilmCommand,
}

#[derive(Debug, Subcommand)]
enum FilmCommand {
    Record(RecordArguments),

    /// List the films, newest first, or show the relations in one
    ///
    /// The output for one film includes its working set over time.
    Show {
        /// `newest`, a name (its newest film), the first characters of an id in the list, or a file
        ///
        /// If a name has films of several clusters, the connection options select the cluster.
        film: Option<String>,

        /// Also draw the film in this HTML file
        ///
        /// Shows the job's position in each relation over time, and its misses by memory size.
        #[arg(long, value_name = "FILE", requires = "film")]
        html: Option<PathBuf>,

        #[command(flatten)]
        connection: ConnectionArguments,
    },

    /// Remove films
    Drop {
        /// A film's name, or the first characters of its entry in `film show`
        ///
        /// A name removes all films of this name in one cluster (this server's, if it has any), an entry only one film.
        film: String,

        #[command(flatten)]
        connection: ConnectionArguments,
    },
}

pub async fn run(arguments: FilmArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    match arguments.command {
        FilmCommand::Record(arguments) => return record(arguments, output).await,
        FilmCommand::Show { film: None, connection, .. } => list(&NamedFilms::open(&connection).await?, output)?,
        FilmCommand::Show { film: Some(film), html, connection } => {
            show(&NamedFilms::open(&connection).await?, &film, html.as_deref(), output)?;
        }
        FilmCommand::Drop { film, connection } => forget(&NamedFilms::open(&connection).await?, &film, output)?,
    }
    Ok(ExitStatus::Done)
}

fn show(named: &NamedFilms<'_>, name: &str, html: Option<&Path>, output: OutputArguments) -> anyhow::Result<()> {
    let opened = named.store.open_sound(named.cluster, name, false);
    let (film, remarks) = opened.map_err(|error| with_owners(error, name, named.connection))?;
    let (path, header) = (film.path(), film.header());
    let is_any = name == NEWEST || header.label.as_deref() == Some(name);
    named.require_cluster(header.source.system_identifier, is_any, path)?;
    remarks.iter().for_each(|remark| terminal::print_remark(remark));
    let summary = FilmSummary::read(&film)?;
    if let Some(html) = html {
        document::write_report(html, &render_film_page(path, header, &summary), false)?;
    }
    let answer = render_film_summary_json(path, header, &summary);
    Ok(terminal::print_answer(&answer, output.json, || render_film(path, header, &summary, Canvas::of_stdout(false)))?)
}

fn list(named: &NamedFilms<'_>, output: OutputArguments) -> anyhow::Result<()> {
    let line = |generation: Generation| {
        let header = generation.require_file().map_err(Error::from).and_then(FilmHeader::read_unverified);
        FilmLine { generation, header }
    };
    let lines: Vec<FilmLine> = named.store.read_all()?.films.into_iter().map(line).collect();
    terminal::print_answer(&render_films_json(&lines), output.json, || match lines.is_empty() {
        true => render_none(&named.store, named.connection),
        false => render_films(&lines, named.cluster, Canvas::of_stdout(false)),
    })?;
    Ok(())
}

fn render_none(store: &FilmStore, connection: &ConnectionArguments) -> String {
    let elsewhere = owners_store(connection)
        .filter(|owners| owners.read_all().is_ok_and(|some| !some.films.is_empty()))
        .map(|owners| format!("; the server's owner keeps films in {}", owners.root().display()));
    let more = elsewhere.unwrap_or_else(|| " yet: `pgthaw run --like NAME -- COMMAND` records one".to_owned());
    format!("there is no film in {}{more}", store.root().display())
}

fn forget(named: &NamedFilms<'_>, name: &str, output: OutputArguments) -> anyhow::Result<()> {
    let films = named.store.find_all(named.cluster, name);
    let films = films.map_err(|error| with_owners(error, name, named.connection))?;
    for one in &films {
        named.require_cluster(one.system_identifier, one.name != name, &one.path)?;
    }
    let forget = |one: Generation| named.store.forget(&one).map(|()| one.name);
    let dropped: Vec<String> = films.into_iter().map(forget).collect::<Result<_, Error>>()?;
    let lines = || dropped.iter().map(|name| format!("dropped film {name}")).collect::<Vec<_>>().join("\n");
    Ok(terminal::print_answer(&json!({ "dropped": dropped }), output.json, lines)?)
}

#[derive(Debug)]
struct NamedFilms<'a> {
    store: FilmStore,
    connection: &'a ConnectionArguments,
    cluster: Option<u64>,
}

impl NamedFilms<'_> {
    /// Connects only if the options name a server whose data directory is not accessible.
    async fn open(connection: &ConnectionArguments) -> anyhow::Result<NamedFilms<'_>> {
        let cluster = match find_cluster(connection) {
            None if connection.names_cluster() => Target::open(connection).await?.system_identifier(),
            found => found,
        };
        Ok(NamedFilms { store: FilmStore::open(), connection, cluster })
    }

    /// If the options name a cluster, rejects another cluster's film that was chosen by `newest` or a label (`is_any`).
    fn require_cluster(&self, film: u64, is_any: bool, path: &std::path::Path) -> Result<(), Error> {
        match self.cluster {
            Some(cluster) if cluster != film && is_any && self.connection.names_cluster() => {
                Err(Error::OtherCluster { path: path.to_owned(), film, cluster })
            }
            _ => Ok(()),
        }
    }
}

/// Films of the server's owner; `None` if this user is the owner.
fn owners_store(connection: &ConnectionArguments) -> Option<FilmStore> {
    let directory = find_directory(connection).ok().flatten()?;
    let store = FilmStore::in_home(&home_of(directory.owner_uid)?);
    (store.root() != FilmStore::open().root()).then_some(store)
}

/// If the server's owner has a film `name`, adds the path of this film to the error.
pub fn with_owners(error: Error, name: &str, connection: &ConnectionArguments) -> Error {
    if !matches!(error, Error::NoFilm(_) | Error::UnknownFilm { .. }) {
        return error;
    }
    match owners_store(connection).and_then(|store| store.find_of(find_cluster(connection), name).ok()) {
        Some(film) => Error::KeptElsewhere { error: Box::new(error), film },
        None => error,
    }
}

/// Newest film of the server's owner with this label; `None` if this user has such a film.
pub fn find_owners_like(connection: &ConnectionArguments, cluster: u64, label: &str) -> Option<PathBuf> {
    let find = |store: FilmStore| store.find_newest_like(cluster, label).ok().flatten();
    if find(FilmStore::open()).is_some() { None } else { owners_store(connection).and_then(find) }
}

const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Record the blocks that server processes read, in order, as a film
///
/// Records the whole server, a backend with its parallel workers, or the sessions of an application_name or a database. Stops after
/// `--seconds` or at Ctrl-C. `pgthaw run --record-only -- COMMAND` records a command.
///
/// The kernel reports each request to the page cache, also for cached blocks. With pg_buffercache the film also lists the blocks of
/// shared_buffers at the start, perhaps not used by the sessions. If BPF is unavailable, pgthaw samples the page cache several times a second. The
/// film then holds only pages that were loaded, by any process.
///
/// `pgthaw film show` shows the film, and `pgthaw run --like NAME` uses it.
#[derive(Debug, Args)]
pub struct RecordArguments {
    /// Write the film to this new file
    ///
    /// Default: below pgthaw/films in $XDG_STATE_HOME or ~/.local/state.
    #[arg(short, long, value_name = "FILE", help_heading = "Record")]
    output: Option<PathBuf>,

    /// Store the film under this name
    ///
    /// `pgthaw run --like NAME` uses it.
    #[arg(long, value_name = "NAME", conflicts_with = "output", help_heading = "Record")]
    like: Option<String>,

    /// Record for this many seconds
    #[arg(long, value_name = "N", help_heading = "Record", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,

    /// Record this backend
    ///
    /// Includes the backend's parallel workers. Stops when the backend ends, or at Ctrl-C.
    #[arg(long, visible_alias = "pid", value_name = "PID", help_heading = "Record")]
    backend: Option<u32>,

    /// Record sessions with this name
    ///
    /// That is, with this application_name, until Ctrl-C.
    #[arg(long, value_name = "NAME", conflicts_with = "backend", help_heading = "Record")]
    application_name: Option<String>,

    /// Record sessions of this database
    ///
    /// Until Ctrl-C.
    #[arg(long, value_name = "DB", conflicts_with = "backend", help_heading = "Record")]
    database: Option<String>,

    #[command(flatten)]
    source: SourceArguments,

    #[command(flatten)]
    pub connection: ConnectionArguments,
}

#[derive(Debug)]
pub struct RecordedAs<'a> {
    pub connection: &'a ConnectionArguments,
    pub source: SourceArguments,
    pub label: Option<&'a str>,
    pub file: Option<&'a Path>,
}

impl RecordedAs<'_> {
    pub fn check(&self) -> anyhow::Result<()> {
        self.label.map_or(Ok(()), check_label)?;
        match self.file.filter(|path| path.exists()) {
            Some(path) => Err(cache::Error::Exists(path.to_owned()).into()),
            None => Ok(()),
        }
    }

    /// `job` is the command line; it is empty for sessions.
    pub async fn begin(&self, target: &Target, wanted: Wanted, job: String) -> anyhow::Result<Recording> {
        let map = read_current_map(target, &SnapshotsArguments::default().open(), false).await?;
        let draft = FilmStore::open().begin(map.source.system_identifier, self.file)?;
        let source = open_source(target, &map, self.source, wanted, Arc::default())?;
        Ok(begin_film(target, &map, draft, (self.label, job), source, Arc::default())?)
    }

    pub async fn keep(&self, recording: Recording, output: OutputArguments) -> anyhow::Result<String> {
        let file = self.file.map(Path::to_owned);
        let place = move || FilmStore::open().place(recording.end()?.0, file.as_deref());
        let (path, header) = spawn_blocking(place).await??;
        Ok(match output.json {
            true => render_film_json(&path, &header).to_string(),
            false => render_recorded(&path, &header),
        })
    }
}

async fn record(arguments: RecordArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
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
        (None, None) => anyhow::bail!("the server must be running to find sessions by name"),
    };
    let recording = asked.begin(&target, wanted, String::new()).await?;
    let is_shown = output.shows_progress() && seconds.is_some();
    let progress = Progress::steps("recording (seconds)", seconds.unwrap_or_default().into(), is_shown);
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

fn require_backend(target: &Target, pid: u32) -> Result<(), Error> {
    let reason = match target.find_postmaster() {
        Some(postmaster) if read_parent(pid).is_ok_and(|parent| parent == postmaster) => return Ok(()),
        Some(postmaster) if postmaster == pid => {
            "the process is the postmaster, which only starts the processes that read"
        }
        Some(_) if is_alive(pid) => "the process belongs to another program or to another server",
        Some(_) => "there is no such process",
        None => "this user sees no running server of the cluster on this host",
    };
    Err(Error::NoBackend { pid, cluster: target.address(), reason })
}

/// An application_name is not checked: its sessions may start later.
async fn require_database(target: &Target, name: &str) -> anyhow::Result<()> {
    let Some(server) = &target.server else { return Ok(()) };
    let databases = read_databases(&mut server.connect_to(&server.database).await?).await?;
    if databases.iter().all(|database| database.name != name) {
        let (database, cluster) = (name.to_owned(), target.address());
        return Err(postgres::Error::DatabaseMissing { database, cluster }.into());
    }
    Ok(())
}

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SourceKind {
    /// The kernel reports each request to the page cache, with its process
    Bpf,
    /// pgthaw samples the page cache several times a second, and records pages loaded by any process
    Polling,
}

/// Option for the source of a film.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct SourceArguments {
    /// How to record reads [default: bpf, or polling if BPF is unavailable]
    #[arg(long, value_name = "SOURCE", help_heading = "Record", hide_short_help = true)]
    source: Option<SourceKind>,
}

impl SourceArguments {
    /// Loads the BPF programs early, because loading takes long. Needs a data directory that is known without the
    /// server.
    pub fn begin_ahead(self, connection: &ConnectionArguments) {
        if self.source == Some(SourceKind::Polling) {
            return;
        }
        let connection = connection.clone();
        spawn_blocking(move || {
            open_pages_ahead(|| {
                let directory = find_directory(&connection).ok().flatten()?;
                Requests::room_ahead(&directory, page_cache_of(Some(&directory)).page_bytes())
            });
        });
    }
}

/// A source that has not begun to record, and reasons why its film will be less exact, if any.
type OpenSource = (Box<dyn Source>, Vec<String>);

pub fn begin_film(
    target: &Target,
    map: &Map,
    (draft, path): (Draft, PathBuf),
    (label, job): (Option<&str>, String),
    (source, coarser): OpenSource,
    progress: Arc<trace::Progress>,
) -> Result<Recording, Error> {
    let header = FilmHeader {
        label: label.map(str::to_owned),
        recorded_at: map.taken_at,
        source: map.source.clone(),
        job,
        remarks: map.remarks.iter().cloned().chain(coarser).collect(),
        ..FilmHeader::default()
    };
    let directory = target.data_directory.as_ref();
    let device = directory.and_then(|directory| read_block_device(&directory.path).ok()).map(|device| device.number);
    Recording::begin(FilmWriter::begin(draft, &path)?, source, map, header, Devices::from(device), progress)
}

/// `own` tracks pgthaw's own reads. Loading BPF programs takes some 60 ms.
pub fn open_source(
    target: &Target,
    map: &Map,
    SourceArguments { source: kind }: SourceArguments,
    wanted: Wanted,
    own: Arc<Own>,
) -> Result<OpenSource, Error> {
    let is_everybody = matches!(wanted, Wanted::Everybody | Wanted::Command { .. });
    let mut coarser = Vec::new();
    if kind != Some(SourceKind::Polling) {
        match open_requests(target, map, wanted, &own) {
            Ok(requests) => return Ok((Box::new(requests), coarser)),
            Err(error) if kind.is_some() => return Err(error),
            Err(error) => {
                coarser.push(format!("the film is recorded by polling, which is less exact: {}", error.with_hint()));
            }
        }
    }
    if !is_everybody {
        coarser.push(
            "polling cannot distinguish the reads of different sessions: the film has all sessions' reads".to_owned(),
        );
    }
    Ok((Box::new(Polling::new(Arc::new(target.page_cache()), map, own)?), coarser))
}

fn open_requests(target: &Target, map: &Map, wanted: Wanted, own: &Arc<Own>) -> Result<Requests, Error> {
    let directory = target.data_directory.as_ref();
    let directory = directory.ok_or_else(|| Error::NothingSeen("the data directory is not known".to_owned()))?;
    let postmaster_pid = directory.find_postmaster_pid();
    Requests::open(map, directory, target.page_cache().page_bytes(), (wanted, postmaster_pid), Arc::clone(own))
}

/// Returns a function that queries the server's sessions, from any thread. `own` counts its queries.
pub async fn ask_sessions(server: &Server, own: OwnTransactions) -> Result<AskSessions, postgres::Error> {
    let mut connection = server.connect_to(&server.database).await?;
    // Makes the server count this connection's transactions now, instead of during the job.
    tell_statistics(&mut connection).await?;
    let runtime = tokio::runtime::Handle::current();
    Ok(Box::new(move || {
        let _asked = own.begin();
        tokio::task::block_in_place(|| runtime.block_on(read_sessions(&mut connection))).ok()
    }))
}

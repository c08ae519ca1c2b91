//! `pgthaw run`: the work is done in `crates/cache/src/trace/`. The job runs as if it had been started without pgthaw: its input and output, its
//! signals and its end are its own.

mod beside;
mod prepared;
pub mod receipt_text;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use clap::{Args, ValueEnum};
use prepared::{Ended, Prepared, Unprepared};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::film::{RecordedAs, SourceArguments, with_owners};
use crate::restore::DeviceArguments;
use crate::run::receipt_text::render_run;
use crate::{ConnectionArguments, ExitStatus, OutputArguments, Target, find_cluster};
use cache::check_label;
use cache::trace::{Decision, Error, FilmHeader, FilmStore, RunReceipt, Wanted, databases_of};
use cache::warm::Control;
use host::failure::ErrorKind;
use host::files::with_given_umask;
use host::linux::signals;
use postgres::quote_argument;

pub use prepared::finish_left_runs;

/// Runs the command.
pub async fn run(mut arguments: RunArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    arguments.like.as_deref().map_or(Ok(()), check_label)?;
    if arguments.record_only {
        let RunArguments { connection, source, like, output: file, job, .. } = &arguments;
        let asked = RecordedAs { connection, source: *source, label: like.as_deref(), file: file.as_deref() };
        return record_job(asked, job, output).await;
    }
    arguments.resolve()?;
    let begun = std::time::Instant::now();
    // Whatever is wrong with the server or the cache: the job is to run. Only for a film that was named itself nothing else will do.
    let mut prepared = match Prepared::new(&arguments, output.shows_progress()).await {
        Ok(prepared) => Ok(prepared),
        Err(Unprepared::Because(why)) => Err(why),
        Err(Unprepared::Refused(error)) => return Err(error.into()),
    };
    let mut receipt = RunReceipt {
        prepared_seconds: begun.elapsed().as_secs_f64(),
        decision: Decision::nothing("neither --like NAME nor --film FILM was given"),
        ..RunReceipt::default()
    };
    let may_start = match &mut prepared {
        Ok(prepared) => prepared.bring_first().await,
        Err(_) => true,
    };
    let job = if may_start { Some(Job::start(&arguments.job)) } else { None };
    let mut job = match job {
        Some(Ok(job)) => job,
        // There is no job: what was brought for it goes again.
        none => {
            if let Ok(prepared) = prepared {
                prepared.end(&arguments, Ended::Never, Arc::new(Control::default()), &mut receipt).await;
            }
            return Ok(match none {
                Some(Err(error)) => refuse(&arguments.job, &error, output.json),
                _ => ExitStatus::Because(ErrorKind::Interrupted),
            });
        }
    };
    let helped = match prepared {
        Ok(prepared) => Some(prepared.help(&arguments, job.pid()).await),
        Err(why) => {
            if arguments.protects() {
                let apart = if arguments.isolates() { "the job is not set apart, and " } else { "" };
                receipt.remarks.push(format!("{apart}the cache is not put back afterwards, for the same reason"));
            }
            receipt.decision.reason = why;
            None
        }
    };
    let end = job.wait().await?;
    receipt.seconds = end.seconds;
    if let Some(helped) = helped {
        let ended = if end.status.success() { Ended::Well } else { Ended::Failed };
        helped.end(&arguments, ended, job.interrupts(), &mut receipt).await;
    }
    let text = match output.json {
        true => serde_json::to_string(&receipt)?,
        false => render_run(&receipt),
    };
    terminal::print_aside(&text, output.json);
    Ok(end.pass_on())
}

/// Records a command: its input, output, signals and exit status are its own.
async fn record_job(asked: RecordedAs<'_>, job: &[OsString], output: OutputArguments) -> anyhow::Result<ExitStatus> {
    asked.check()?;
    let target = Target::open(asked.connection).await?;
    let command = Arc::new(AtomicU32::new(0));
    let recording = asked.begin(&target, Wanted::command(&command), describe_job(job), output).await?;
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

/// Run a job, read what it needs while it starts, and leave the cache as it was
///
/// With --like NAME pgthaw reads what the last films under this name say that the job will touch, in large reads and a few at a time, if the
/// forecast gains at least 10 %, and keeps the job's new film under the name. What does not fit into memory is read window by window just
/// ahead of the job. The first run only records. With --protect pgthaw drops afterwards what the job brought into the page cache, and
/// restores what it evicted. With --protect=isolate the job gets of the disk what the others leave while it runs and, with cgroups of
/// version 2, its page cache is bounded; that takes root.
///
/// The command's input, output, signals and exit status are its own. One paragraph on standard error says what pgthaw did and why; where it
/// cannot help, the command just runs. Concurrent runs do not undo each other. What a killed run leaves, the next run with --like, --film or
/// --protect or the next restore puts back.
///
/// Exit status: the command's, after a signal that of the signal; 127 where there is no such command, 126 where it may not be run.
#[derive(Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub connection: ConnectionArguments,

    /// The job's name: its films are kept under it, and say what it will touch
    #[arg(long, value_name = "NAME", help_heading = "Run")]
    pub like: Option<String>,

    /// Go by this film, and keep no new one: a name as of --like, `newest`, the beginning of one that `film show` shows, or a file
    #[arg(long, value_name = "FILM", conflicts_with = "like", help_heading = "Run")]
    pub film: Option<String>,

    /// What --like or --film means.
    #[arg(skip)]
    pub by: By,

    /// Only record: the film has what shared_buffers held before, too, and is kept under --like NAME, in --output FILE, or without a name. A
    /// command that fails keeps its film, but not the name
    #[arg(long, conflicts_with_all = ["film", "protect", "application_name"], help_heading = "Run")]
    pub record_only: bool,

    /// Write the film of --record-only to this file, which must not exist
    #[arg(short, long, value_name = "FILE", requires = "record_only", conflicts_with = "like", help_heading = "Run")]
    pub output: Option<PathBuf>,

    /// Afterwards drop what the job brought in, and bring back what it pushed out; with =isolate it also has cgroups of its own while it
    /// runs, with a share of the disk and, in version 2, a bounded page cache
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "put-back", help_heading = "Run")]
    pub protect: Option<Protection>,

    /// The job's sessions are those that call themselves so, beside those that its processes open themselves: for a job behind a pooler
    #[arg(long, value_name = "NAME", help_heading = "Run")]
    pub application_name: Option<String>,

    #[command(flatten)]
    pub source: SourceArguments,

    #[command(flatten)]
    pub device: DeviceArguments,

    /// The command, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub job: Vec<OsString>,
}

/// The films that a job goes by.
#[derive(Clone, Debug, Default)]
pub enum By {
    #[default]
    Nothing,
    /// The best under this name.
    Label(String),
    /// A path, `newest`, or the beginning of a name; of this cluster rather than of another.
    Name(String),
}

/// How the others are protected from a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protection {
    /// The cache is put back afterwards
    #[value(alias = "true")]
    PutBack,
    /// And meanwhile the job is set apart
    Isolate,
}

impl RunArguments {
    /// Is the cache to be put back afterwards?
    pub fn protects(&self) -> bool {
        self.protect.is_some()
    }

    /// Is the job to be set apart while it runs?
    pub fn isolates(&self) -> bool {
        self.protect == Some(Protection::Isolate)
    }

    /// Finds out what --like or --film means.
    ///
    /// # Errors
    /// When nobody has such a film, or only films of another cluster are called so: then nothing is to run.
    pub fn resolve(&mut self) -> Result<(), Error> {
        let Some(film) = &self.film else {
            self.by = self.like.clone().map_or(By::Nothing, By::Label);
            return Ok(());
        };
        let films = FilmStore::open().read_all()?;
        if !films.has_label(film) {
            films.find_of(None, film).map_err(|error| with_owners(error, film, &self.connection))?;
            self.by = By::Name(film.clone());
            return Ok(());
        }
        let cluster = find_cluster(&self.connection);
        if let Some((cluster, other)) = cluster.and_then(|own| Some((own, films.find_other_clusters(own, film)?))) {
            return Err(Error::OtherCluster { path: other.path.clone(), film: other.system_identifier, cluster });
        }
        self.by = By::Label(film.clone());
        Ok(())
    }

    /// The database that its newest film says the job asks first, whichever cluster it is; `None` where that is not known.
    pub fn first_film_database(&self) -> Option<String> {
        match &self.by {
            By::Name(name) => read_header(None, name)?.first_database().map(str::to_owned),
            By::Label(label) => FilmStore::open().first_database_like(label),
            By::Nothing => None,
        }
    }

    /// The databases that its films of this cluster say the job asks; `None` where they are not known.
    pub fn film_databases(&self, cluster: u64) -> Option<Vec<String>> {
        match &self.by {
            By::Name(name) => {
                let header = read_header(Some(cluster), name)?;
                databases_of(Some(header).filter(|header| header.source.system_identifier == cluster).into_iter())
            }
            By::Label(label) => FilmStore::open().databases_like(cluster, label),
            By::Nothing => None,
        }
    }
}

fn read_header(cluster: Option<u64>, name: &str) -> Option<FilmHeader> {
    FilmHeader::read_unverified(&FilmStore::open().find_of(cluster, name).ok()?).ok()
}

/// What shells answer for a command that there is not, and for one that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;

/// A command that runs.
#[derive(Debug)]
pub struct Job {
    child: Child,
    signals: mpsc::UnboundedReceiver<i32>,
    started: Instant,
}

/// How a command ended.
#[derive(Clone, Copy, Debug)]
pub struct JobEnd {
    pub status: std::process::ExitStatus,
    pub seconds: f64,
}

/// The command's words as a shell would take them.
pub fn describe_job(words: &[OsString]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote_argument(&word.to_string_lossy())).collect();
    words.join(" ")
}

impl Job {
    /// Starts a command. From now on the signals that reach pgthaw are its.
    pub fn start(words: &[OsString]) -> io::Result<Job> {
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments);
        // Those that are ignored stay so, for the command too.
        let heeded = signals::PASSED.into_iter().filter(|number| !signals::is_ignored(*number));
        let streams: Vec<(i32, Signal)> =
            heeded.map(|number| Ok((number, signal(SignalKind::from_raw(number))?))).collect::<io::Result<_>>()?;
        let child = with_given_umask(|| command.spawn())?;
        let (pass, signals) = mpsc::unbounded_channel();
        for (number, mut stream) in streams {
            let pass = pass.clone();
            tokio::spawn(async move { while stream.recv().await.is_some() && pass.send(number).is_ok() {} });
        }
        Ok(Job { child, signals, started: Instant::now() })
    }

    /// Its process; 0 when that has ended already.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Waits for its end, and passes on what signals come meanwhile. What is typed at the terminal reached it already.
    pub async fn wait(&mut self) -> io::Result<JobEnd> {
        loop {
            tokio::select! {
                status = self.child.wait() => {
                    return Ok(JobEnd { status: status?, seconds: self.started.elapsed().as_secs_f64() });
                }
                Some(number) = self.signals.recv() => {
                    let is_typed = matches!(number, libc::SIGINT | libc::SIGQUIT) && signals::is_in_foreground();
                    if let Some(pid) = self.child.id().filter(|_| !is_typed) {
                        signals::send(pid, number);
                    }
                }
            }
        }
    }

    /// Stops what is done after the command's end, when a signal comes that would have ended it.
    pub fn interrupts(mut self) -> Arc<Control> {
        let control = Arc::new(Control::default());
        let told = Arc::clone(&control);
        tokio::spawn(async move {
            while let Some(number) = self.signals.recv().await {
                if !matches!(number, libc::SIGUSR1 | libc::SIGUSR2) {
                    told.interrupt();
                }
            }
        });
        control
    }
}

impl JobEnd {
    /// Ends pgthaw as the command ended: by the same signal, or with its status.
    pub fn pass_on(self) -> ExitStatus {
        if let Some(number) = self.status.signal() {
            signals::end_by(number);
        }
        let by_signal = || self.status.signal().map(signals::status_of);
        ExitStatus::Answer(self.status.code().map(|code| code as u8).or_else(by_signal).unwrap_or(1))
    }
}

/// Tells that a command cannot be started, and the status that shells have for it.
pub fn refuse(words: &[OsString], error: &io::Error, as_json: bool) -> ExitStatus {
    let message = format!("cannot run {}: {error}", describe_job(&words[..1]));
    let (status, hint) = match error.kind() {
        io::ErrorKind::NotFound => {
            (NOT_FOUND, "name a program that is in PATH, or its path; all behind -- is the command")
        }
        _ => (NOT_RUNNABLE, "name a program that this user may run"),
    };
    terminal::print_error(&message, host::failure::ErrorKind::Failed, Some(hint), as_json);
    ExitStatus::Answer(status)
}

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::film::{SourceArguments, with_owners};
use crate::restore::DeviceArguments;
use crate::{ConnectionArguments, find_cluster};
use cache::trace::{Error, FilmStore, Which};
use postgres::{keep_text, keep_words, quote_argument};

/// Run a job, read what it needs while it starts, and leave the cache as it was
///
/// With --like NAME pgthaw reads what the last films under this name say that the job will touch, in large reads and a few at a time, if the
/// forecast gains at least 10 %, and keeps the job's new film under the name. What does not fit into memory is read window by window just
/// ahead of the job. The first run only records. With --protect pgthaw afterwards drops what the job alone brought into the page cache,
/// where the kernel shows who reads (Linux 6.12, root), and restores what it evicted. With --protect=isolate the job gets of the disk what
/// the others leave while it runs and, with cgroups of version 2, its page cache is bounded; that takes root.
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
    pub which: Option<Which>,

    /// Only record: the film has what shared_buffers held before, too, and is kept under --like NAME, in --output FILE, or without a name. A
    /// command that fails keeps its film, but not the name
    #[arg(long, conflicts_with_all = ["film", "protect", "application_name"], help_heading = "Run")]
    pub record_only: bool,

    /// Write the film of --record-only to this file, which must not exist
    #[arg(short, long, value_name = "FILE", requires = "record_only", conflicts_with = "like", help_heading = "Run")]
    pub output: Option<PathBuf>,

    /// Afterwards drop what the job alone brought in, and bring back what it pushed out; with =isolate it also has cgroups of its own while it
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
    pub fn protects(&self) -> bool {
        self.protect.is_some()
    }

    pub fn isolates(&self) -> bool {
        self.protect == Some(Protection::Isolate)
    }

    /// # Errors
    /// If the film does not exist or belongs to another cluster; the job must not run then.
    pub fn resolve(&mut self) -> Result<(), Error> {
        let Some(film) = &self.film else {
            self.which = self.like.clone().map(Which::Like);
            return Ok(());
        };
        let films = FilmStore::open().read_all()?;
        if !films.has_label(film) {
            films.find_of(None, film).map_err(|error| with_owners(error, film, &self.connection))?;
            self.which = Some(Which::Named(film.clone()));
            return Ok(());
        }
        let cluster = find_cluster(&self.connection);
        if let Some((cluster, other)) = cluster.and_then(|own| Some((own, films.find_other_clusters(own, film)?))) {
            return Err(Error::OtherCluster { path: other.path.clone(), film: other.system_identifier, cluster });
        }
        self.which = Some(Which::Like(film.clone()));
        Ok(())
    }
}

/// Quoted for a shell, without secrets.
pub fn describe_job(words: &[OsString]) -> String {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let kept = keep_words(&words);
    keep_text(kept.iter().map(|word| quote_argument(word)).collect::<Vec<_>>().join(" "))
}

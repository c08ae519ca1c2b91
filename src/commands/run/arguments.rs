//! The options of a run.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use crate::commands::ConnectionArguments;
use crate::commands::recorder::SourceArguments;
use crate::commands::restore::DeviceArguments;
use crate::trace::{FilmHeader, FilmStore, Films, databases_of};

/// Run a job, bring what it needs while it starts, and leave the cache as it was
///
/// With --like NAME what the last films under this name say that the job will touch is read while it runs, in large reads and a few at
/// a time, if the forecast gains at least 10 %; and the job's new film is kept under the name. What does not fit into memory is read
/// window by window just ahead of the job. The first run only records. With --protect what the job brought into the page cache is dropped
/// afterwards, and what it pushed out comes back. With --protect=isolate it has a little of the page cache while it runs, and of the disk
/// what the others leave; that takes root.
///
/// The command's input, output, signals and exit status are its own. What pgthaw did and why is one paragraph on standard error; where it
/// cannot help, the command just runs. Runs at once do not undo each other, and what one leaves that is killed, the next run with --like or
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

    /// The film to go by instead; no new one is kept
    #[arg(skip)]
    pub film: Option<FilmAsked>,

    #[command(flatten)]
    pub protection: ProtectionArguments,

    #[command(flatten)]
    pub source: SourceArguments,

    #[command(flatten)]
    pub device: DeviceArguments,

    /// The command, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub job: Vec<OsString>,
}

/// Which film a job is to go by.
#[derive(Clone, Debug)]
pub enum FilmAsked {
    /// The best under this name.
    Label(String),
    /// A path, `newest`, or the beginning of a name, among these films; of this cluster rather than of another.
    Name(String, Films),
}

/// How the others are protected from a job.
#[derive(Clone, Debug, Default, Args)]
pub struct ProtectionArguments {
    /// Afterwards drop what the job brought in, and bring back what it pushed out; with =isolate it also has cgroups of its own while it
    /// runs, with a bounded page cache and a share of the disk
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "put-back", help_heading = "Run")]
    pub protect: Option<Protection>,

    /// The job's sessions are those that call themselves so, beside those that its processes open themselves: for a job behind a pooler
    #[arg(long, value_name = "NAME", help_heading = "Run")]
    pub application_name: Option<String>,
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
        self.protection.protect.is_some()
    }

    /// Is the job to be set apart while it runs?
    pub fn isolates(&self) -> bool {
        self.protection.protect == Some(Protection::Isolate)
    }

    /// The database that its newest film says the job asks first, whichever cluster it is; `None` where that is not known.
    pub fn first_film_database(&self) -> Option<String> {
        match (&self.film, &self.like) {
            (Some(FilmAsked::Name(name, films)), _) => {
                read_header(films, None, name)?.first_database().map(str::to_owned)
            }
            (Some(FilmAsked::Label(label)), _) | (None, Some(label)) => FilmStore::open().first_database_like(label),
            (None, None) => None,
        }
    }

    /// The databases that its films of this cluster say the job asks; `None` where they are not known.
    pub fn film_databases(&self, cluster: u64) -> Option<Vec<String>> {
        match (&self.film, &self.like) {
            (Some(FilmAsked::Name(name, films)), _) => {
                let header = read_header(films, Some(cluster), name)?;
                databases_of(Some(header).filter(|header| header.source.system_identifier == cluster).into_iter())
            }
            (Some(FilmAsked::Label(label)), _) | (None, Some(label)) => {
                FilmStore::open().databases_like(cluster, label)
            }
            (None, None) => None,
        }
    }

    /// Is it to be helped by a film?
    pub fn has_film(&self) -> bool {
        self.like.is_some() || self.film.is_some()
    }
}

fn read_header(films: &Films, cluster: Option<u64>, name: &str) -> Option<FilmHeader> {
    FilmHeader::read_unverified(&films.find_of(cluster, name).ok()?).ok()
}

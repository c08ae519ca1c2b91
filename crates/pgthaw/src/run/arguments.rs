use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::film::{SourceArguments, with_owners};
use crate::restore::DeviceArguments;
use crate::{ConnectionArguments, find_cluster};
use cache::trace::{Error, FilmStore, Which};
use postgres::{keep_text, keep_words, quote_argument};

/// Run a job, preload its data, and restore the cache afterwards
///
/// With --like NAME pgthaw preloads the blocks of a film under this name, in large reads, if it forecasts that this
/// saves at least 10 % of the job's time. It stores the job's new film under the name. If the blocks exceed memory,
/// pgthaw reads them in windows ahead of the job. The first run only records.
///
/// With --protect pgthaw afterwards evicts the pages that only the job loaded, if the kernel reports which process
/// reads a page (Linux 6.12, root). It restores the pages that the job evicted. With --protect=isolate (root) the job
/// gets only the disk bandwidth that other processes leave, and, with cgroups version 2, a bounded page cache.
///
/// The command keeps its input, output, signals and exit status. A paragraph on standard error reports what pgthaw did and why. If pgthaw
/// cannot help, the command just runs. Concurrent runs do not undo each other. If a run is killed, the next restore, or the next run with
/// --like, --film or --protect, completes its clean-up.
///
/// Exit status: the command's, or 128 plus the number of the signal that ended it; 127 if the command does not exist, 126 if it
/// cannot be executed.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// Job's name: preload its film, and store the new one
    #[arg(long, value_name = "NAME", help_heading = "Run")]
    pub like: Option<String>,

    /// Preload from this film, and store no new one
    ///
    /// A name as for --like, `newest`, the first characters of an id in `film show`, or a file.
    #[arg(long, value_name = "FILM", conflicts_with = "like", help_heading = "Run")]
    pub film: Option<String>,

    /// Parsed --like or --film.
    #[arg(skip)]
    pub which: Option<Which>,

    /// Only record the job's film, without a preload
    ///
    /// The film also lists the blocks of shared_buffers before the job. --like NAME names the film, --output FILE writes it to a file. If the
    /// command fails, pgthaw stores the film without the name.
    #[arg(long, conflicts_with_all = ["film", "protect", "application_name"], help_heading = "Run")]
    pub record_only: bool,

    /// Write the film of --record-only to this new file
    #[arg(short, long, value_name = "FILE", requires = "record_only", conflicts_with = "like", help_heading = "Run")]
    pub output: Option<PathBuf>,

    /// Restore the cache after the job; =isolate also limits the job
    ///
    /// By default (`put-back`) pgthaw evicts the pages that only the job loaded, and reloads the pages that the job evicted. `isolate` gives the job
    /// cgroups of its own, with a share of the disk and, in version 2, a bounded page cache.
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "put-back", help_heading = "Run", hide_possible_values = true)]
    pub protect: Option<Protection>,

    /// Sessions with this application_name also belong to the job
    ///
    /// For a job behind a pooler.
    #[arg(long, value_name = "NAME", help_heading = "Run", hide_short_help = true)]
    pub application_name: Option<String>,

    #[command(flatten)]
    pub source: SourceArguments,

    #[command(flatten)]
    pub device: DeviceArguments,

    /// Command, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND", help_heading = "Run")]
    pub job: Vec<OsString>,

    #[command(flatten)]
    pub connection: ConnectionArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protection {
    /// Restore the cache after the job
    #[value(alias = "true")]
    PutBack,
    /// Also run the job in cgroups of its own
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
        if films.films.iter().all(|one| one.label() != Some(film)) {
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

/// The command line, quoted for a shell, without secrets.
pub fn describe_job(words: &[OsString]) -> String {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let kept = keep_words(&words);
    keep_text(kept.iter().map(|word| quote_argument(word)).collect::<Vec<_>>().join(" "))
}

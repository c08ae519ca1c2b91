//! `pgthaw replay`: the work is done in `src/trace/`.

use std::ffi::OsString;

use clap::Args;

use super::owners_films::with_owners;
use super::recorder::SourceArguments;
use super::restore::DeviceArguments;
use super::run::{FilmAsked, ProtectionArguments, RunArguments};
use super::{ConnectionArguments, ExitStatus, OutputArguments, find_cluster, run};
use crate::trace::{Error, FilmStore};

/// Run a job, and read what a film has just ahead of it
///
/// As `run --like`, by this one film, and no new one is kept. What does not fit into memory is read window by window, as far ahead of the
/// job as six tenths of what can be cached; behind it what the film does not use again is let go. How far the job is follows from what its
/// sessions have asked for. Where the job goes another way than its film, pgthaw stops and says so; where it uses all reads of the disk
/// by itself, pgthaw stays out of its way.
#[derive(Debug, Args)]
pub struct ReplayArguments {
    #[command(flatten)]
    pub connection: ConnectionArguments,

    /// The name that films were kept under, of which the best is taken as `run` does; `newest`, the beginning of one that `trace list` shows, or
    /// a file
    film: String,

    #[command(flatten)]
    protection: ProtectionArguments,

    #[command(flatten)]
    device: DeviceArguments,

    /// The command, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    job: Vec<OsString>,
}

/// Runs the command.
pub async fn run(arguments: ReplayArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let ReplayArguments { connection, film, protection, device, job } = arguments;
    let films = FilmStore::open().read_all()?;
    let film = match films.has_label(&film) {
        true => match find_cluster(&connection)
            .and_then(|cluster| Some((cluster, films.find_other_clusters(cluster, &film)?)))
        {
            Some((cluster, other)) => {
                let (path, film) = (other.path.clone(), other.system_identifier);
                return Err(Error::OtherCluster { path, film, cluster }.into());
            }
            None => FilmAsked::Label(film),
        },
        false => {
            // Nothing runs for a film that nobody has.
            films.find_of(None, &film).map_err(|error| with_owners(error, &film, &connection))?;
            FilmAsked::Name(film, films)
        }
    };
    let arguments = RunArguments {
        connection,
        like: None,
        film: Some(film),
        protection,
        source: SourceArguments::default(),
        device,
        job,
    };
    run::run(arguments, output).await
}

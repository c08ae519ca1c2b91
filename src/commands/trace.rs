//! `pgthaw trace`: the work is done in `src/trace/`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};

use super::named_films::NamedFilms;
use super::owners_films::owners_store;
use super::{ConnectionArguments, ExitStatus, OutputArguments};
use crate::cache::{Error, check_label};
use crate::command::document;
use crate::terminal::{self, Canvas, FilmLine};
use crate::trace::{self, Film, FilmHeader, FilmPicture, FilmStore, FilmSummary, FilmWriter, Part, Recorded};

/// Look at the films of jobs that `record` and `run` have kept
#[derive(Debug, Args)]
pub struct TraceArguments {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// List the films that there are
    List {
        #[command(flatten)]
        connection: ConnectionArguments,
    },

    /// Show a film: what of which relation was touched when, and the working set over time
    Show {
        /// `newest`, the name that it was kept under (its newest film), the beginning of one that `list` shows, or a file. Of several clusters
        /// that of the server which the options lead to
        film: String,

        /// Also draw it: where in each relation the job was when, and how much memory would have sufficed, as one HTML file
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,

        #[command(flatten)]
        connection: ConnectionArguments,
    },

    /// Tell what two films of a cluster have in common, relation by relation
    Diff {
        /// A film, as `show` takes it
        first: String,

        /// The one to compare it with
        second: String,

        #[command(flatten)]
        connection: ConnectionArguments,
    },

    /// Make a film of a part of one: of some seconds of it
    Cut {
        /// A film, as `show` takes it
        film: String,

        /// From which second on
        #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = parse_seconds)]
        from: f64,

        /// Up to which second [default: to its end]
        #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
        to: Option<f64>,

        #[command(flatten)]
        place: NewFilmArguments,

        #[command(flatten)]
        connection: ConnectionArguments,
    },

    /// Make one film of several of a cluster: of each block the first time that one has it. A film whose job was helped by a preload adds what
    /// the others do not have
    // By itself the line is wider than a terminal.
    #[command(override_usage = "pgthaw trace merge [OPTIONS] <--output FILE|--name NAME> <FILM> <FILM>...")]
    Merge {
        /// Films, as `show` takes them
        #[arg(required = true, num_args = 2.., value_name = "FILM")]
        films: Vec<String>,

        #[command(flatten)]
        place: NewFilmArguments,

        #[command(flatten)]
        connection: ConnectionArguments,
    },
}

/// Where a film goes that is made of others.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct NewFilmArguments {
    /// Write it to this file, which must not exist
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Keep it under this name, for `pgthaw run --like NAME`
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Seconds of a film: no more than it can have.
fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..1e9).contains(seconds));
    seconds.ok_or_else(|| "give seconds since the film's beginning, such as 1.5".to_owned())
}

impl TraceArguments {
    /// Which server was named.
    pub fn named(&self) -> ConnectionArguments {
        self.command.connection().clone()
    }
}

impl TraceCommand {
    fn connection(&self) -> &ConnectionArguments {
        match self {
            TraceCommand::List { connection }
            | TraceCommand::Show { connection, .. }
            | TraceCommand::Diff { connection, .. }
            | TraceCommand::Cut { connection, .. }
            | TraceCommand::Merge { connection, .. } => connection,
        }
    }
}

/// Runs the command.
pub async fn run(arguments: TraceArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let named = NamedFilms::open(arguments.command.connection()).await?;
    match &arguments.command {
        TraceCommand::List { connection } => list(&named, connection, output)?,
        TraceCommand::Diff { first, second, .. } => {
            let films = [named.film(first)?, named.film(second)?];
            let difference = trace::compare(&films)?;
            let headers = [films[0].header(), films[1].header()];
            match output.json {
                true => terminal::print_json(&terminal::render_film_difference_json(headers, &difference))?,
                false => terminal::print_line(&terminal::render_film_difference(
                    headers,
                    &difference,
                    Canvas::of_stdout(false),
                )),
            }
        }
        TraceCommand::Cut { film, from, to, place, .. } => {
            let film = named.film(film)?;
            let part = Part { from: Duration::from_secs_f64(*from), to: to.map(Duration::from_secs_f64) };
            let label = place.name.as_deref();
            place.keep(&named.store, film.header(), output, |writer| trace::cut(&film, part, label, writer))?;
        }
        TraceCommand::Merge { films, place, .. } => {
            let films = films.iter().map(|film| named.film(film)).collect::<anyhow::Result<Vec<_>>>()?;
            let label = place.name.as_deref();
            // Two of them at least.
            place.keep(&named.store, films[0].header(), output, |writer| trace::merge(&films, label, writer))?;
        }
        TraceCommand::Show { film, html, .. } => show(&named.film(film)?, html.as_deref(), output)?,
    }
    Ok(ExitStatus::Done)
}

fn show(film: &Film<File>, html: Option<&Path>, output: OutputArguments) -> anyhow::Result<()> {
    let (path, header, summary) = (film.path(), film.header(), FilmSummary::read(film)?);
    if let Some(html) = html {
        let json = terminal::render_film_summary_json(path, header, &summary);
        let page = super::film_page::render_film_page(header, &summary, &FilmPicture::read(film)?, &json)?;
        document::write_report(html, &page, false)?;
    }
    match output.json {
        true => terminal::print_json(&terminal::render_film_summary_json(path, header, &summary))?,
        false => terminal::print_line(&terminal::render_film(path, header, &summary, Canvas::of_stdout(false))),
    }
    Ok(())
}

fn list(named: &NamedFilms<'_>, connection: &ConnectionArguments, output: OutputArguments) -> anyhow::Result<()> {
    let line = |generation: crate::cache::Generation| {
        let is_file = generation.require_file().map_err(crate::trace::Error::from);
        let header = is_file.and_then(|()| FilmHeader::read_unverified(&generation.path));
        FilmLine { generation, header }
    };
    let lines: Vec<FilmLine> = named.store.read_all()?.films.into_iter().map(line).collect();
    match output.json {
        true => terminal::print_json(&terminal::render_films_json(&lines))?,
        false if lines.is_empty() => terminal::print_line(&render_none(&named.store, connection)),
        false => terminal::print_line(&terminal::render_films(&lines, named.cluster, Canvas::of_stdout(false))),
    }
    Ok(())
}

/// Where there is none, and who may have some.
fn render_none(store: &FilmStore, connection: &ConnectionArguments) -> String {
    let elsewhere = owners_store(connection)
        .filter(|owners| owners.read_all().is_ok_and(|some| !some.films.is_empty()))
        .map(|owners| format!("; the server's owner keeps his in {}", owners.root().display()));
    let more = elsewhere.unwrap_or_else(|| " yet: pgthaw record -- COMMAND makes one".to_owned());
    format!("there is no film in {}{more}", store.root().display())
}

impl NewFilmArguments {
    /// Has a film made, puts it where it belongs, and tells so.
    fn keep(
        &self,
        store: &FilmStore,
        of: &FilmHeader,
        output: OutputArguments,
        make: impl FnOnce(FilmWriter) -> Result<Recorded, trace::Error>,
    ) -> anyhow::Result<()> {
        self.name.as_deref().map_or(Ok(()), check_label)?;
        if let Some(path) = self.output.as_ref().filter(|path| path.exists()) {
            return Err(Error::Exists(path.clone()).into());
        }
        let (draft, path) = store.begin(of.source.system_identifier, self.output.as_deref())?;
        let (path, header) = store.place(make(FilmWriter::begin(draft, &path)?)?, self.output.as_deref())?;
        match output.json {
            true => terminal::print_json(&terminal::render_film_json(&path, &header))?,
            false => terminal::print_line(&terminal::render_recorded(&path, &header)),
        }
        Ok(())
    }
}

//! `pgthaw film`: the work is done in `crates/cache/src/trace/`.

pub mod film_text;
mod named;
mod page;
mod record;
mod recorder;

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::{ConnectionArguments, ExitStatus, OutputArguments};
use crate::film::film_text::FilmLine;
use crate::film::film_text::{render_film, render_film_summary_json, render_films, render_films_json};
use cache::Generation;
use cache::trace::{Error, Film, FilmHeader, FilmPicture, FilmStore, FilmSummary};
use command::document;
pub use named::{NamedFilms, find_owners_like, with_owners};
use record::RecordArguments;
pub use record::{RecordedAs, record_job};
pub use recorder::{RecordingAsked, SourceArguments, ask_sessions, new_header, open_source};
use terminal::Canvas;

/// Record what server processes read, and look at the films of jobs
#[derive(Debug, Args)]
pub struct FilmArguments {
    #[command(subcommand)]
    command: FilmCommand,
}

#[derive(Debug, Subcommand)]
enum FilmCommand {
    Record(RecordArguments),

    /// List the films, newest first
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

    /// Remove films
    Drop {
        /// The name that they were kept under (all of this cluster), or the beginning of one that `list` shows
        film: String,

        #[command(flatten)]
        connection: ConnectionArguments,
    },
}

impl FilmArguments {
    /// The server that was named.
    pub fn named(&self) -> ConnectionArguments {
        match &self.command {
            FilmCommand::Record(RecordArguments { connection, .. })
            | FilmCommand::List { connection }
            | FilmCommand::Show { connection, .. }
            | FilmCommand::Drop { connection, .. } => connection.clone(),
        }
    }
}

/// Runs the command.
pub async fn run(arguments: FilmArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    match arguments.command {
        FilmCommand::Record(arguments) => return record::run(arguments, output).await,
        FilmCommand::List { connection } => list(&NamedFilms::open(&connection).await?, &connection, output)?,
        FilmCommand::Show { film, html, connection } => {
            show(&NamedFilms::open(&connection).await?.film(&film)?, html.as_deref(), output)?;
        }
        FilmCommand::Drop { film, connection } => forget(&NamedFilms::open(&connection).await?, &film, output)?,
    }
    Ok(ExitStatus::Done)
}

fn show(film: &Film<File>, html: Option<&Path>, output: OutputArguments) -> anyhow::Result<()> {
    let (path, header, summary) = (film.path(), film.header(), FilmSummary::read(film)?);
    if let Some(html) = html {
        let json = render_film_summary_json(path, header, &summary);
        let page = page::render_film_page(header, &summary, &FilmPicture::read(film)?, &json)?;
        document::write_report(html, &page, false)?;
    }
    match output.json {
        true => terminal::print_json(&render_film_summary_json(path, header, &summary))?,
        false => terminal::print_line(&render_film(path, header, &summary, Canvas::of_stdout(false))),
    }
    Ok(())
}

fn list(named: &NamedFilms<'_>, connection: &ConnectionArguments, output: OutputArguments) -> anyhow::Result<()> {
    let line = |generation: Generation| {
        let is_file = generation.require_file().map_err(Error::from);
        let header = is_file.and_then(|()| FilmHeader::read_unverified(&generation.path));
        FilmLine { generation, header }
    };
    let lines: Vec<FilmLine> = named.store.read_all()?.films.into_iter().map(line).collect();
    match output.json {
        true => terminal::print_json(&render_films_json(&lines))?,
        false if lines.is_empty() => terminal::print_line(&render_none(&named.store, connection)),
        false => terminal::print_line(&render_films(&lines, named.cluster, Canvas::of_stdout(false))),
    }
    Ok(())
}

/// Says where no film is, and who may have some.
fn render_none(store: &FilmStore, connection: &ConnectionArguments) -> String {
    let elsewhere = named::owners_store(connection)
        .filter(|owners| owners.read_all().is_ok_and(|some| !some.films.is_empty()))
        .map(|owners| format!("; the server's owner keeps his in {}", owners.root().display()));
    let more = elsewhere.unwrap_or_else(|| " yet: `pgthaw run --like NAME -- COMMAND` makes one".to_owned());
    format!("there is no film in {}{more}", store.root().display())
}

/// Removes the films that a name means.
fn forget(named: &NamedFilms<'_>, name: &str, output: OutputArguments) -> anyhow::Result<()> {
    let dropped = named.forget(name)?;
    match output.json {
        true => terminal::print_json(&json!({ "dropped": dropped }))?,
        false => dropped.iter().for_each(|name| terminal::print_line(&format!("dropped film {name}"))),
    }
    Ok(())
}

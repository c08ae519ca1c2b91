//! `pgthaw trace`: the work is done in `src/trace/`.

use clap::{Args, Subcommand};

use super::{ExitStatus, OutputArguments};
use crate::terminal::{self, Canvas, FilmLine};
use crate::trace::{Film, FilmHeader, FilmStore, FilmSummary};

/// Look at the films of jobs that `record` and `run` have kept
#[derive(Debug, Args)]
pub struct TraceArguments {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// List the films that there are
    List,

    /// Show a film: what of which relation was touched when, and the working set over time
    Show {
        /// `newest`, the name that it was kept under (its newest film), the beginning of one that `list` shows, or a file
        film: String,
    },
}

/// Runs the command.
pub async fn run(arguments: TraceArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let store = FilmStore::open();
    match arguments.command {
        TraceCommand::List => list(&store, output)?,
        TraceCommand::Show { film } => {
            let path = store.find(&film)?;
            let film = Film::open(&path)?;
            let (header, summary) = (film.header(), FilmSummary::read(&film)?);
            match output.json {
                true => terminal::print_json(&terminal::render_film_summary_json(&path, header, &summary))?,
                false => {
                    terminal::print_line(&terminal::render_film(&path, header, &summary, Canvas::of_stdout(false)))
                }
            }
        }
    }
    Ok(ExitStatus::Done)
}

fn list(store: &FilmStore, output: OutputArguments) -> anyhow::Result<()> {
    let line = |generation: crate::cache::Generation| {
        let is_file = generation.require_file().map_err(crate::trace::Error::from);
        let header = is_file.and_then(|()| FilmHeader::read_unverified(&generation.path));
        FilmLine { generation, header }
    };
    let lines: Vec<FilmLine> = store.read_all()?.into_iter().map(line).collect();
    match output.json {
        true => terminal::print_json(&terminal::render_films_json(&lines))?,
        false if lines.is_empty() => terminal::print_line(&format!(
            "there is no film in {} yet: pgthaw record -- COMMAND makes one",
            store.root().display()
        )),
        false => terminal::print_line(&terminal::render_films(&lines, Canvas::of_stdout(false))),
    }
    Ok(())
}

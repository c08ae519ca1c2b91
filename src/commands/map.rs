//! `pgthaw map`: the work is done in `src/cache/`.

use std::time::Duration;

use clap::Args;

use super::{ConnectionArguments, ExitStatus, OutputArguments, SnapshotsArguments, Target, read_current_map};
use crate::cache::{Map, Selection};
use crate::terminal::{self, Canvas, MapView, Screen};

/// What is resident now, per relation, in shared_buffers and in the OS page cache
///
/// Sees both tiers when it may read the server's files and the server has pg_buffercache; shared_buffers alone through
/// SQL (a managed server), the page cache alone of a stopped server (--data-dir). The bar shows where in the relation's
/// main fork the warm parts are.
#[derive(Debug, Args)]
pub struct MapArguments {
    #[command(flatten)]
    connection: ConnectionArguments,

    #[command(flatten)]
    selection: SelectionArguments,

    /// The largest N; 0 for all [default: 20, with --json all]
    #[arg(long, value_name = "N")]
    top: Option<usize>,

    /// A row for each fork
    #[arg(long)]
    forks: bool,

    /// Show system catalogs one by one
    #[arg(long)]
    system: bool,

    /// Show it again every SECONDS, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", conflicts_with = "json")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    watch: Option<u64>,

    /// Draw with ASCII characters alone, as in a locale that is not UTF-8
    #[arg(long)]
    ascii: bool,

    #[command(flatten)]
    snapshots: SnapshotsArguments,
}

/// Which relations.
#[derive(Clone, Debug, Default, Args)]
pub struct SelectionArguments {
    /// This relation, with the indexes and the TOAST of a table; `schema.name` or `name`, * for any characters
    #[arg(short, long, value_name = "NAME")]
    relation: Option<String>,

    /// The relations of this schema
    #[arg(short = 'n', long, value_name = "NAME")]
    schema: Option<String>,
}

impl SelectionArguments {
    /// What the arguments mean.
    pub fn selection(&self) -> Selection {
        Selection { relation: self.relation.clone(), schema: self.schema.clone() }
    }
}

/// Runs the command.
pub async fn run(arguments: MapArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let target = Target::open(&arguments.connection).await?;
    if let Some(seconds) = arguments.watch {
        watch(&target, &arguments, output, Duration::from_secs(seconds)).await?;
        return Ok(ExitStatus::Done);
    }
    let map = read_current_map(&target, arguments.snapshots.directory(), output).await?;
    if output.json {
        let places = arguments.selection.selection().find(map.relations.iter().map(|one| &one.relation))?;
        terminal::print_json(&terminal::render_map_json(&map, &places, arguments.top.unwrap_or(0)))?;
    } else {
        let canvas = Canvas { height: None, ..Canvas::of_stdout(arguments.ascii) };
        terminal::print_line(&render(&map, &arguments, canvas)?);
    }
    Ok(ExitStatus::Done)
}

fn render(map: &Map, arguments: &MapArguments, canvas: Canvas) -> anyhow::Result<String> {
    let selection = arguments.selection.selection();
    let places = selection.find(map.relations.iter().map(|one| &one.relation))?;
    let view = MapView {
        top: arguments.top.unwrap_or(20),
        with_forks: arguments.forks,
        with_system: arguments.system || selection != Selection::default(),
    };
    Ok(terminal::render_map(map, &places, view, canvas))
}

/// Redraws until Ctrl-C. Where standard output is no terminal, one table follows the other.
async fn watch(
    target: &Target,
    arguments: &MapArguments,
    output: OutputArguments,
    pause: Duration,
) -> anyhow::Result<()> {
    let is_terminal = Canvas::of_stdout(arguments.ascii).height.is_some();
    let screen = is_terminal.then(Screen::enter).transpose()?;
    let quiet = OutputArguments { quiet: true, ..output };
    let draw = async {
        loop {
            let map = read_current_map(target, arguments.snapshots.directory(), quiet).await?;
            let picture = render(&map, arguments, Canvas::of_stdout(arguments.ascii))?;
            match &screen {
                Some(screen) => screen.draw(&picture)?,
                None => terminal::print_line(&format!("{picture}\n")),
            }
            tokio::time::sleep(pause).await;
        }
    };
    tokio::select! {
        ended = draw => ended,
        interrupted = terminal::wait_for_interrupt() => Ok(interrupted?),
    }
}

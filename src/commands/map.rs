//! `pgthaw map`: the work is done in `src/cache/`.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::Zoned;

use super::{
    ConnectionArguments, ExitStatus, OutputArguments, PositionalArguments, SnapshotsArguments, Target, ViewArguments,
    describe, read_current_map,
};
use crate::cache::Map;
use crate::terminal::{self, Canvas};
use crate::tui::{LiveMap, LiveScreen, Next, draw_map};

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
    positional: PositionalArguments,

    #[command(flatten)]
    view: ViewArguments,

    /// Show it again every SECONDS, until Ctrl-C; on a terminal as a live screen that sorts, filters and unfolds by key and tells
    /// what changed since the last look
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", conflicts_with = "json")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    watch: Option<u64>,

    #[command(flatten)]
    snapshots: SnapshotsArguments,
}

impl MapArguments {
    /// Which server and databases were named.
    pub fn named(&self) -> ConnectionArguments {
        self.connection.clone().with(self.positional.clone())
    }
}

/// Runs the command.
pub async fn run(arguments: MapArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let target = Target::open(&arguments.named()).await?;
    let is_terminal = Canvas::of_stdout(arguments.view.ascii).is_drawable();
    match arguments.watch {
        Some(seconds) => {
            let watch =
                Watch { target, quiet: output.without_progress(), pause: Duration::from_secs(seconds), arguments };
            if is_terminal { show_live(Arc::new(watch)).await? } else { print_again_and_again(&watch).await? }
        }
        None => {
            let map = read_current_map(&target, &arguments.snapshots.open(), output).await?;
            arguments.view.print(&map, output)?;
        }
    }
    Ok(ExitStatus::Done)
}

/// What is looked at again and again.
struct Watch {
    target: Target,
    arguments: MapArguments,
    quiet: OutputArguments,
    pause: Duration,
}

impl Watch {
    async fn look(&self) -> anyhow::Result<Map> {
        read_current_map(&self.target, &self.arguments.snapshots.open(), self.quiet).await
    }

    /// The map, and the places of the relations that are meant.
    async fn look_at_selected(&self) -> anyhow::Result<(Map, Vec<usize>)> {
        let map = self.look().await?;
        let places = self.arguments.view.select(&map)?;
        Ok((map, places))
    }
}

/// One table follows the other until Ctrl-C, or until nobody reads them.
async fn print_again_and_again(watch: &Watch) -> anyhow::Result<()> {
    let view = &watch.arguments.view;
    let print = async {
        while terminal::is_output_open() {
            let table = view.render(&watch.look().await?, Canvas::of_stdout(view.ascii))?;
            let now = Zoned::now().strftime("%T").to_string();
            terminal::print_line(&format!("{now}, every {} s until Ctrl-C\n{table}\n", watch.pause.as_secs()));
            tokio::time::sleep(watch.pause).await;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        ended = print => ended,
        interrupted = terminal::wait_for_interrupt() => Ok(interrupted?),
    }
}

/// The live screen, until a key or a signal ends it. The first look has to succeed; later ones may fail, for a server
/// restarts and comes back.
async fn show_live(watch: Arc<Watch>) -> anyhow::Result<()> {
    let (map, places) = watch.look_at_selected().await?;
    let mut live = LiveMap::new(map, places, watch.arguments.view.live(watch.pause));
    let mut screen = LiveScreen::enter()?;
    let mut interrupted = std::pin::pin!(terminal::wait_for_interrupt());
    loop {
        // A task of its own: looking at many files keeps no key waiting.
        let next = Arc::clone(&watch);
        let mut look = tokio::spawn(async move {
            tokio::time::sleep(next.pause).await;
            next.look_at_selected().await.map_err(|error| describe(&error))
        });
        let looked = loop {
            screen.draw(|frame| draw_map(frame, &mut live, Canvas::of_stdout(watch.arguments.view.ascii)))?;
            tokio::select! {
                looked = &mut look => break looked?,
                key = screen.next_key() => if live.press(key) == Next::Quit {
                    return Ok(());
                },
                ended = &mut interrupted => return Ok(ended?),
            }
        };
        if !live.is_paused {
            live.take(looked);
        }
    }
}

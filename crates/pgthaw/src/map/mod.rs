//! `pgthaw map`; the work is in `crates/cache/src/`.

pub mod map_text;
pub mod rows;
pub mod view;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::Zoned;

use super::{
    ConnectionArguments, ExitStatus, OutputArguments, PositionalArguments, SnapshotsArguments, Target, describe,
};
use crate::map::rows::FillArguments;
use crate::map::view::{ViewArguments, read_current_map};
use cache::Map;
use terminal::{Canvas, Key, LiveScreen};

/// Show the cached data of each relation, in both caches
///
/// The caches are shared_buffers and the OS page cache. The page cache requires access to the server's files, shared_buffers require
/// pg_buffercache. So a managed server shows only shared_buffers, a stopped one (--data-dir) only the page cache. The bar shows the
/// positions of cached blocks in the relation's main fork.
#[derive(Debug, Args)]
pub struct MapArguments {
    #[command(flatten)]
    positional: PositionalArguments,

    #[command(flatten)]
    view: ViewArguments,

    /// Refresh every SECONDS until q or Ctrl-C is pressed
    ///
    /// Also shows the changes since the last refresh.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", conflicts_with = "json")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    watch: Option<u64>,

    /// Show the density of rows in each table
    ///
    /// The fill time is the time that random reads need to load the rows. Row counts are those of the last ANALYZE. --top 0 includes
    /// system catalogs.
    #[arg(long, conflicts_with_all = ["watch", "relations", "schema", "by"])]
    rows: bool,

    #[command(flatten)]
    fill: FillArguments,

    #[command(flatten)]
    snapshots: SnapshotsArguments,

    #[command(flatten)]
    connection: ConnectionArguments,
}

impl MapArguments {
    pub fn named(&self) -> ConnectionArguments {
        self.connection.clone().with(self.positional.clone())
    }
}

pub async fn run(arguments: MapArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    // With `--watch`, connects for each sample: a permanent session would block DROP DATABASE.
    let named = ConnectionArguments { keeps_first: arguments.watch.is_none(), ..arguments.named() };
    let target = Target::open(&named).await?;
    if arguments.rows {
        return arguments.fill.print(&target, arguments.view.shows_all(), output).await;
    }
    if let Some(seconds) = arguments.watch {
        let pause = Duration::from_secs(seconds);
        watch(Arc::new(Watch { target, pause, arguments })).await?;
        return Ok(ExitStatus::Done);
    }
    let map = read_current_map(&target, &arguments.snapshots.open(), output.shows_progress()).await?;
    arguments.view.print(&map, output)?;
    Ok(ExitStatus::Done)
}

struct Watch {
    target: Target,
    arguments: MapArguments,
    pause: Duration,
}

impl Watch {
    async fn look(&self) -> anyhow::Result<Look> {
        let map = read_current_map(&self.target, &self.arguments.snapshots.open(), false).await?;
        Ok(Look { map, at: Zoned::now() })
    }

    fn render(&self, look: &Look, before: Option<&Look>, failure: Option<&str>) -> anyhow::Result<String> {
        let view = &self.arguments.view;
        let table = view.render(&look.map, before.map(|look| &look.map), Canvas::of_stdout(false))?;
        let (at, seconds) = (look.at.strftime("%T"), self.pause.as_secs());
        let failure = failure.map(|reason| format!("; the last update failed: {reason}")).unwrap_or_default();
        Ok(format!("{at}, every {seconds} s until q or Ctrl-C{failure}\n{table}"))
    }
}

struct Look {
    map: Map,
    at: Zoned,
}

/// Refreshes the map until q, a signal or closed output. The first sample must succeed. On a terminal, later samples
/// may fail, as servers may restart.
async fn watch(watch: Arc<Watch>) -> anyhow::Result<()> {
    let mut shown = watch.look().await?;
    let (mut before, mut failure): (Option<Look>, Option<String>) = (None, None);
    let text = watch.render(&shown, None, None)?;
    let canvas = || Canvas::of_stdout(false);
    let mut screen = canvas().is_drawable().then(LiveScreen::enter).transpose()?;
    if screen.is_none() {
        terminal::print_line(&format!("{text}\n"));
    }
    let mut interrupted = std::pin::pin!(terminal::wait_for_interrupt());
    while terminal::is_output_open() {
        // Sampling in a separate task keeps the keys responsive.
        let next = Arc::clone(&watch);
        let mut look = tokio::spawn(async move {
            tokio::time::sleep(next.pause).await;
            next.look().await
        });
        let looked = loop {
            if let Some(screen) = &mut screen {
                let text = watch.render(&shown, before.as_ref(), failure.as_deref())?;
                screen.show(terminal::fit_line(&text).lines(), canvas().height)?;
            }
            let key = async {
                match &mut screen {
                    Some(screen) => screen.next_key().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                looked = &mut look => break looked?,
                key = key => if matches!(key, Key::CtrlC | Key::Escape | Key::Char('q')) {
                    return Ok(());
                },
                ended = &mut interrupted => return Ok(ended?),
            }
        };
        match looked {
            Ok(look) => {
                before = Some(std::mem::replace(&mut shown, look));
                failure = None;
            }
            Err(error) if screen.is_some() => failure = Some(describe(&error)),
            Err(error) => return Err(error),
        }
        if screen.is_none() {
            terminal::print_line(&format!("{}\n", watch.render(&shown, before.as_ref(), None)?));
        }
    }
    Ok(())
}

//! `pgthaw map`: the work is done in `src/cache/`.

use std::time::Duration;

use clap::Args;
use jiff::Zoned;

use super::{
    ConnectionArguments, ExitStatus, OutputArguments, PositionalArguments, SnapshotsArguments, Target, ViewArguments,
    read_current_map,
};
use crate::terminal::{self, Canvas, Screen};

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

    /// Show it again every SECONDS, until Ctrl-C
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
    match arguments.watch {
        Some(seconds) => watch(&target, &arguments, output, Duration::from_secs(seconds)).await?,
        None => {
            let map = read_current_map(&target, &arguments.snapshots.open(), output).await?;
            arguments.view.print(&map, output)?;
        }
    }
    Ok(ExitStatus::Done)
}

/// Redraws until Ctrl-C. Where standard output is no terminal, one table follows the other until nobody reads them.
async fn watch(
    target: &Target,
    arguments: &MapArguments,
    output: OutputArguments,
    pause: Duration,
) -> anyhow::Result<()> {
    let is_terminal = Canvas::of_stdout(arguments.view.ascii).height.is_some();
    let screen = is_terminal.then(Screen::enter).transpose()?;
    let quiet = OutputArguments { quiet: true, ..output };
    let draw = async {
        while terminal::is_output_open() {
            let map = read_current_map(target, &arguments.snapshots.open(), quiet).await?;
            let table = arguments.view.render(&map, Canvas::of_stdout(arguments.view.ascii))?;
            let picture = format!("{}, every {} s until Ctrl-C\n{table}", Zoned::now().strftime("%T"), pause.as_secs());
            match &screen {
                Some(screen) => screen.draw(&picture)?,
                None => terminal::print_line(&format!("{picture}\n")),
            }
            tokio::time::sleep(pause).await;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        ended = draw => ended,
        interrupted = terminal::wait_for_interrupt() => Ok(interrupted?),
    }
}

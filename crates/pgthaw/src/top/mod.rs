//! `pgthaw top`: the work is done in `crates/observe/src/top/`, and what is shown in `screen/`.

mod arguments;
mod endpoint;
mod live;
mod opened;
mod outputs;
mod replay;
pub mod screen;

use super::{ExitStatus, OutputArguments, Target};
use observe::Error;
use terminal::Canvas;

pub use arguments::TopArguments;

/// Runs the command.
pub async fn run(arguments: TopArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let canvas = Canvas::of_stdout(arguments.ascii);
    let with_screen = !output.json && canvas.is_drawable();
    // Lines of JSON are for programs, and no program reads a terminal.
    if canvas.height.is_some() && !with_screen && !output.json && arguments.listen.is_none() {
        return Err(Error::DumbTerminal.into());
    }
    if let Some(path) = &arguments.replay {
        return replay::replay(path, with_screen, arguments.ascii).await;
    }
    let endpoint = endpoint::bind(&arguments).await?;
    // The first time it has to succeed: a name that was mistyped is told at once.
    let target = Target::open(&arguments.connection).await?;
    match with_screen {
        true => live::show(arguments, target, endpoint).await?,
        false => outputs::print(arguments, target, endpoint, output).await?,
    }
    Ok(ExitStatus::Done)
}

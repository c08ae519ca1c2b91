//! `pgthaw agent` and `pgthaw ready`.

mod arguments;
mod exposition;
mod setup;
mod share;
mod status;
mod supervisor;

use super::{ExitStatus, OutputArguments};
use arguments::Action;

pub use arguments::{AgentArguments, ReadyArguments};
#[cfg(test)]
pub use status::AgentStatus;
pub use status::{AgentError, find_history};

pub async fn run(arguments: AgentArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    match arguments.action {
        None => supervisor::run(arguments.run, output).await,
        Some(Action::Status(place)) => status::show(&place, output).await,
        Some(Action::Setup(setup)) => setup::run(setup, output).await,
        Some(Action::PrepareSwitchover(place)) => share::prepare_switchover(&place, output).await,
        Some(Action::Share { snapshot, place }) => share::share(&snapshot, &place, output).await,
        Some(Action::Record { history, place }) => share::record(history, &place).await,
        Some(Action::Receive(place)) => share::receive(&place, output).await,
    }
}

pub async fn ready(arguments: ReadyArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    status::wait(&arguments, output).await
}

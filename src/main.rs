//! Parse, run, tell how it went.

use std::process::ExitCode;

use pgthaw::commands::{Cli, describe, explain, run_caught};
use pgthaw::terminal;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let cli = match Cli::read(&arguments) {
        Ok(cli) => cli,
        // What was asked for is not known yet, except for this.
        Err(error) => {
            return fail(&error, arguments.iter().any(|argument| argument == "--json"));
        }
    };
    let as_json = cli.as_json();
    match run_caught(cli.run()).await {
        Ok(status) => match terminal::output_failure() {
            None => ExitCode::from(status.code()),
            Some(failure) => {
                let failure = std::io::Error::new(failure.kind(), failure.to_string());
                fail(&anyhow::Error::new(failure).context("cannot write to standard output"), as_json)
            }
        },
        Err(error) => fail(&error, as_json),
    }
}

/// Tells what went wrong and what to do about it.
fn fail(error: &anyhow::Error, as_json: bool) -> ExitCode {
    let (kind, hint) = explain(error);
    terminal::print_error(&describe(error), kind, hint.as_deref(), as_json);
    ExitCode::from(kind.exit_code())
}

//! Parse, run, tell how it went.

use std::ffi::OsString;
use std::process::ExitCode;

use pgthaw::command::{describe, exit_status_of, explain, explain_also, run_caught, start_runtime};
use pgthaw::commands::Cli;
use pgthaw::laboratory;
use pgthaw::terminal;

fn main() -> ExitCode {
    explain_also(laboratory::ERRORS);
    let arguments: Vec<_> = std::env::args_os().collect();
    // What was asked for is not known yet, except for this.
    let as_json = arguments.iter().any(|argument| argument == "--json");
    match start_runtime() {
        Ok(runtime) => runtime.block_on(run(&arguments, as_json)),
        Err(error) => fail(&error.into(), as_json),
    }
}

async fn run(arguments: &[OsString], as_json: bool) -> ExitCode {
    let cli = match Cli::read(arguments) {
        Ok(cli) => cli,
        Err(error) => return fail(&error, as_json),
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
    ExitCode::from(exit_status_of(kind))
}

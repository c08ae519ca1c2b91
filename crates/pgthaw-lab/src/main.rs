use std::process::ExitCode;

use command::run_program;
use pgthaw_lab::Cli;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    run_program(&arguments, pgthaw_lab::laboratory::ERRORS, Cli::read, Cli::as_json, Cli::run)
}

//! The program: the work is done in its library.

use std::process::ExitCode;

use command::run_program;
use pgthaw::Cli;

fn main() -> ExitCode {
    run_program(pgthaw::ERRORS, Cli::read, Cli::as_json, Cli::run)
}

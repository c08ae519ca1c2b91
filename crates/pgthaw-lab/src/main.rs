//! The program: the work is done in its library.

use std::process::ExitCode;

use command::run_program;
use pgthaw_lab::Cli;

fn main() -> ExitCode {
    run_program(pgthaw_lab::laboratory::ERRORS, Cli::read, Cli::as_json, Cli::run)
}

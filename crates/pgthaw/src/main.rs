//! Entry point.

use std::ffi::OsString;
use std::process::ExitCode;

use command::{keep_private, run_program};
use pgthaw::{Cli, guard_job};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    guard_job(&arguments).unwrap_or_else(|| {
        keep_private(&arguments);
        run_program(&arguments, pgthaw::ERRORS, Cli::read, Cli::as_json, Cli::run)
    })
}

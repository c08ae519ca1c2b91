//! Parses the arguments, runs the command and reports its outcome, for pgthaw and pgthaw-lab.

use std::ffi::OsString;
use std::process::ExitCode;

use host::linux::own_program::read_own_program;

use super::{Cast, ExitStatus, describe, exit_status_of, explain, explain_also, run_caught, start_runtime};

/// `arguments` is the command line before passwords are hidden; `errors` are the program's own error types.
pub fn run_program<C, F: Future<Output = anyhow::Result<ExitStatus>>>(
    arguments: &[OsString],
    errors: &'static [Cast],
    read: impl FnOnce(&[OsString]) -> anyhow::Result<C>,
    is_json: impl FnOnce(&C) -> bool,
    run: impl FnOnce(C) -> F,
) -> ExitCode {
    explain_also(errors);
    let mut as_json = arguments.iter().any(|argument| argument == "--json");
    read_own_program();
    // Help and usage errors need no threads.
    let cli = match read(arguments) {
        Ok(cli) => cli,
        Err(error) => return fail(&error, as_json),
    };
    as_json = is_json(&cli);
    let runtime = match start_runtime() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into(), as_json),
    };
    match runtime.block_on(run_caught(run(cli))) {
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

fn fail(error: &anyhow::Error, as_json: bool) -> ExitCode {
    let (kind, hint) = explain(error);
    terminal::print_error(&describe(error), kind, hint.as_deref(), as_json);
    ExitCode::from(exit_status_of(kind))
}

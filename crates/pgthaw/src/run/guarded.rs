//! Guards the job: it runs even if pgthaw fails.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use host::files::with_given_umask;
use host::linux::guard::{Ended, work_behind_guard};
use host::linux::own_program::hide_arguments;

use super::{pass_on, refuse};
use crate::ExitStatus;
use crate::cli::find_command;

/// Runs `pgthaw run` in a child process and returns its status. `None` in the child itself and for other commands.
pub fn guard_job(arguments: &[OsString]) -> Option<ExitCode> {
    let dashes = arguments.iter().position(|word| word == "--")?;
    let (before, job) = (&arguments[..dashes], &arguments[dashes + 1..]);
    if job.is_empty() || find_command(before)? != "run" {
        return None;
    }
    // Hides the arguments of this waiting process: they may contain secrets.
    let hide = |word: &str| (arguments[0] != *word && word != "run").then(|| "*".to_owned());
    let status = match work_behind_guard(|| hide_arguments(hide)).transpose()? {
        Ok(Ended::AsMeant(status)) => Some(status),
        Ok(Ended::WithoutTheJob(early, status)) => {
            terminal::print_complaint(&format!("pgthaw ended early ({early}); the job ran to its end"));
            status
        }
        Ok(Ended::BeforeTheJob(early)) => return Some(become_job(job, &format!("pgthaw ended early ({early})"))),
        Err(error) => return Some(become_job(job, &format!("pgthaw cannot start ({error})"))),
    };
    let status = status.map(|status| pass_on(status).code());
    Some(ExitCode::from(status.unwrap_or(1)))
}

fn become_job(job: &[OsString], why: &str) -> ExitCode {
    terminal::print_complaint(&format!("{why}; the job runs without pgthaw"));
    let error = with_given_umask(|| Command::new(&job[0]).args(&job[1..]).exec());
    ExitCode::from(ExitStatus::code(refuse(job, &error, false)))
}

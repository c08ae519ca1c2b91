//! What takes a while of a cluster, and ends when the user wants no more of it.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use super::running::POLL_INTERVAL;
use crate::postgres::Error;
use crate::postgres::programs::command_name;

/// Are clusters on their way out? One for the whole process: whoever hears its signals knows no cluster.
static IS_HURRIED: AtomicBool = AtomicBool::new(false);

/// From now on clusters are on their way out: an initdb that runs is ended, a server that starts is waited for no longer, and one
/// that writes its last checkpoint for nobody ends without it.
pub fn hurry_clusters() {
    IS_HURRIED.store(true, Ordering::Relaxed);
}

/// Was [`hurry_clusters`] called?
pub(super) fn is_hurried() -> bool {
    IS_HURRIED.load(Ordering::Relaxed)
}

/// Runs a program that prints little to its end.
pub(super) fn run_until_stopped(command: &mut Command) -> Result<(), Error> {
    let program = command_name(command);
    let failed = |output: String| Error::Program { program: program.clone(), output };
    let pipes = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = pipes.spawn().map_err(|error| failed(error.to_string()))?;
    while matches!(child.try_wait(), Ok(None)) {
        if is_hurried() {
            // It may have ended by itself meanwhile. What it has made goes with its directory.
            let _ = child.kill();
            let _ = child.wait();
            return Err(Error::Interrupted);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        // What it did before it failed is no news.
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

//! What pgthaw needs before it can do anything, asked for by `main`: its own code in memory, and threads.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use host::failure::{ErrorKind, Explain, NO_THREADS, TOO_FEW_FILES, is_too_few_files};
use host::linux::own_program::read_own_program;
use host::linux::signals::{FILE_TOO_LARGE, is_ignored};
use host::linux::threads::check_room;

/// Beside a thread for each processor: one that may wait for a disk, and one of the results store.
const FURTHER_THREADS: usize = 2;

/// A thread that waits for disks stays when it is idle: where no second one can be started, what is asked of it would wait
/// for ever.
const KEPT: Duration = Duration::from_secs(365 * 24 * 3600);

/// The system gives no more threads.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the threads that pgthaw needs: {0}")]
pub struct NoThreads(io::Error);

impl Explain for NoThreads {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Failed
    }

    fn hint(&self) -> Option<String> {
        Some(if is_too_few_files(&self.0) { TOO_FEW_FILES } else { NO_THREADS }.to_owned())
    }
}

/// Starts what runs the commands, and has this program's file read first where that is cold.
///
/// # Errors
/// When there are too few threads to be had: tokio ends the program in the midst of it.
pub fn start_runtime() -> Result<Runtime, NoThreads> {
    read_own_program();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    check_room(workers + FURTHER_THREADS).map_err(NoThreads)?;
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(workers).thread_keep_alive(KEPT).enable_all().build().map_err(NoThreads)?;
    runtime.spawn_blocking(|| ());
    survive_file_limit(&runtime);
    Ok(runtime)
}

/// Has a file that grows beyond what this user may write (`ulimit -f`) be an error, as a full disk is, and not the end of the
/// program, whose job may not have begun. What it starts is told by the signal as always.
fn survive_file_limit(runtime: &Runtime) {
    if !is_ignored(FILE_TOO_LARGE) {
        let _within = runtime.enter();
        // The handler stays when its stream goes. Where none can be had, all is as it was.
        drop(signal(SignalKind::from_raw(FILE_TOO_LARGE)));
    }
}

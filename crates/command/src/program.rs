//! Process setup: panics as errors, threads, hidden passwords, signals.

use std::collections::HashMap;
use std::ffi::OsString;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::pin::pin;
use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;
use std::{io, thread};

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use host::failure::{ErrorKind, Explain, NO_THREADS, TOO_FEW_FILES, is_too_few_files};
use host::files::FileMode;
use host::linux::own_program::hide_arguments;
use host::linux::signals::{FILE_TOO_LARGE, is_ignored, note_end};
use host::linux::threads::{check_room, count_processors};
use postgres::{hide_password, keep_words};

// The PostgreSQL protocol library panics on messages that no PostgreSQL sends.

static LAST: Mutex<String> = Mutex::new(String::new());

#[derive(Debug, thiserror::Error)]
#[error("cannot process the reply: {0}")]
pub struct Panicked(String);

impl Explain for Panicked {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Failed
    }

    fn hint(&self) -> Option<String> {
        Some("check that a PostgreSQL server answers at this address; if it does, this is a bug in pgthaw: please report it with the output of RUST_BACKTRACE=1".into())
    }
}

pub async fn run_caught<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let usual = take_hook();
    set_hook(Box::new(move |panic| {
        // Nothing else reports another thread's panic.
        if thread::current().name() != Some("main") || std::env::var_os("RUST_BACKTRACE").is_some() {
            return usual(panic);
        }
        if let Ok(mut last) = LAST.lock() {
            let said = panic.payload_as_str().unwrap_or_default();
            *last =
                panic.location().map_or(said.to_owned(), |place| format!("{said} ({}:{})", place.file(), place.line()));
        }
    }));
    let mut work = pin!(work);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(state) => state,
        Err(_) => {
            let said = LAST.lock().map(|said| said.clone()).unwrap_or_default();
            Poll::Ready(Err(Panicked(said).into()))
        }
    })
    .await
}

/// Threads in addition to one per processor: one waits for disks, one runs the results store.
const FURTHER_THREADS: usize = 2;

/// Time for which the idle blocking thread is kept. If it ended and no other could start, blocking work would wait
/// forever.
const KEPT: Duration = Duration::from_secs(365 * 24 * 3600);

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

/// # Errors
/// If too few threads are available; tokio would end the program midway.
pub fn start_runtime() -> Result<Runtime, NoThreads> {
    let workers = count_processors();
    check_room(workers + FURTHER_THREADS).map_err(NoThreads)?;
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(workers).thread_keep_alive(KEPT).enable_all().build().map_err(NoThreads)?;
    runtime.spawn_blocking(|| ());
    survive_file_limit(&runtime);
    Ok(runtime)
}

/// Turns a write beyond `ulimit -f` into an error, as on a full disk: SIGXFSZ would end pgthaw.
fn survive_file_limit(runtime: &Runtime) {
    if !is_ignored(FILE_TOO_LARGE) {
        let _within = runtime.enter();
        // The handler outlives its stream.
        drop(signal(SignalKind::from_raw(FILE_TOO_LARGE)));
    }
}

/// Hides passwords in output and process lists. Makes new files private, also for child processes.
pub fn keep_private(arguments: &[OsString]) {
    FileMode::PRIVATE.apply();
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let passwords: Vec<(&String, String)> =
        words.iter().filter_map(|word| Some((word, hide_password(word)?))).collect();
    let value_of =
        |word: &String| Some(word.split_once('=').filter(|(option, _)| option.starts_with("--"))?.1.to_owned());
    let values = passwords.iter().filter_map(|(word, _)| Some((value_of(word)?, "…".to_owned())));
    let hidden = passwords.iter().map(|(word, shown)| ((*word).clone(), shown.clone())).chain(values).collect();
    // A job's command follows `--` and may contain any secret.
    let job = &words[words.iter().position(|word| word == "--").unwrap_or(words.len())..];
    let of_job = job.iter().zip(keep_words(job)).filter(|(word, kept)| *word != kept);
    let listed = passwords.into_iter().chain(of_job).map(|(word, shown)| (word.as_str(), shown));
    let listed: HashMap<&str, String> = listed.collect();
    if !listed.is_empty() {
        terminal::hide_words(hidden);
        hide_arguments(|word| listed.get(word).cloned());
    }
}

pub fn hear_signals() -> std::io::Result<impl Future<Output = ()>> {
    // A shell's background processes ignore SIGQUIT, and so would a server that they start: it could not shut down
    // immediately. Handling the signal restores the default in child processes.
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
    let streams = kinds.into_iter().map(|kind| Ok((kind, signal(kind)?)));
    let mut streams = streams.collect::<std::io::Result<Vec<_>>>()?;
    Ok(poll_fn(move |context| {
        let mut came = streams.iter_mut().filter_map(|(kind, one)| one.poll_recv(context).is_ready().then_some(*kind));
        let Some(kind) = came.next() else { return Poll::Pending };
        note_end(kind.as_raw_value());
        Poll::Ready(())
    }))
}

#[cfg(test)]
mod caught_tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let failed = run_caught(async { if true { panic!("advance past the end") } else { anyhow::Ok(()) } }).await;
        assert!(failed.unwrap_err().is::<Panicked>());
        assert_eq!(run_caught(async { anyhow::Ok(7) }).await.unwrap(), 7);
    }
}

//! A panic told as a failure: the library that speaks PostgreSQL's protocol panics at messages that no PostgreSQL sends.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::pin::pin;
use std::sync::Mutex;
use std::task::Poll;
use std::thread;

use host::failure::{ErrorKind, Explain};

/// Where the last panic was, and what it said.
static LAST: Mutex<String> = Mutex::new(String::new());

/// What nobody thought of happened.
#[derive(Debug, thiserror::Error)]
#[error("what came was not understood: {0}")]
pub struct Panicked(String);

impl Explain for Panicked {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Failed
    }

    fn hint(&self) -> Option<String> {
        Some("is it PostgreSQL that answers there? If so this is a defect of pgthaw: please report it, RUST_BACKTRACE=1 shows where".into())
    }
}

/// Runs it to its end, or to its panic.
pub async fn run_caught<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let usual = take_hook();
    set_hook(Box::new(move |panic| {
        // What another thread says is told by nobody else.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let failed = run_caught(async { if true { panic!("advance past the end") } else { anyhow::Ok(()) } }).await;
        assert!(failed.unwrap_err().is::<Panicked>());
        assert_eq!(run_caught(async { anyhow::Ok(7) }).await.unwrap(), 7);
    }
}

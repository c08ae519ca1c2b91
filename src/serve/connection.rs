//! One connection: what it may send, and how long it may take.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// A browser sends a request within milliseconds; who stays idle for so long opens a new connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// So long may a browser take no byte of its answer.
const STALL_TIMEOUT: Duration = Duration::from_secs(20);

/// However slowly: a report of 100 MB takes less over a poor line.
const LIFETIME_MAX: Duration = Duration::from_secs(600);

/// Requests have no body, and a few hundred bytes; a cookie has at most 4 kB.
const REQUEST_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

/// Answers what is asked over `stream` until the other side goes, takes too long, or `ending` turns true.
pub(super) async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    router: Router,
    mut ending: watch::Receiver<bool>,
) {
    let stream = TokioIo::new(Patient { stream, stalled: None });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(REQUEST_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(stream, TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let talk = async {
        tokio::select! {
            // What went wrong was the other side's doing, and nobody here can do anything about it.
            _ = connection.as_mut() => return,
            _ = ending.wait_for(|is_ending| *is_ending) => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    };
    let _ = timeout(LIFETIME_MAX, talk).await;
}

/// A stream that fails when what is written is not taken for [`STALL_TIMEOUT`].
struct Patient<S> {
    stream: S,
    /// Runs since the other side took the last byte.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    /// Turns a wait that has lasted too long into an error.
    fn check<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALL_TIMEOUT)));
        ready!(stalled.as_mut().poll(context));
        stalled.as_mut().reset(Instant::now() + STALL_TIMEOUT);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.check(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.check(context, closed)
    }
}

//! One connection: what it may send, and how long it may take.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// How long the other side may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Time for the head of a request. A browser sends it within milliseconds; who is idle for longer opens a new connection.
    pub head: Duration,
    /// Time for taking the next byte of an answer.
    pub stall: Duration,
    /// Time for the whole connection. A report of 100 MB takes less over a poor line.
    pub lifetime: Duration,
}

pub const PATIENCE: Patience =
    Patience { head: Duration::from_secs(10), stall: Duration::from_secs(20), lifetime: Duration::from_secs(600) };

/// Requests have no body, and a few hundred bytes; a cookie has at most 4 kB.
const REQUEST_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

/// Answers what is asked over `stream` until the other side goes, takes too long, or `ending` turns true.
pub async fn answer<S, B>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    moved: LastMoved,
    service: S,
    mut ending: watch::Receiver<bool>,
    patience: Patience,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = TokioIo::new(Patient { stream, moved, stall: patience.stall, stalled: None });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.head)
        .max_buf_size(REQUEST_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(stream, service);
    let mut connection = std::pin::pin!(connection);
    let talk = async {
        tokio::select! {
            // What went wrong was the other side's doing, and nobody here can do anything about it.
            _ = connection.as_mut() => return,
            _ = ending.wait_for(|is_ending| *is_ending) => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    };
    let _ = timeout(patience.lifetime, talk).await;
}

/// When something came or went through a connection last. Clones are of one connection.
#[derive(Clone, Debug)]
pub struct LastMoved(Arc<Mutex<Instant>>);

impl LastMoved {
    pub fn now() -> LastMoved {
        LastMoved(Arc::new(Mutex::new(Instant::now())))
    }

    pub fn at(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_moved(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// A stream that fails when what is written is not taken for too long.
struct Patient<S> {
    stream: S,
    moved: LastMoved,
    stall: Duration,
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
        let stall = self.stall;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(stall)));
        ready!(stalled.as_mut().poll(context));
        // Whoever asks again is told again after as long.
        stalled.as_mut().reset(Instant::now() + stall);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if into.filled().len() > before {
            self.moved.has_moved();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            self.moved.has_moved();
        }
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

#[cfg(test)]
mod tests {
    use hyper::service::service_fn;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::task::JoinHandle;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(600);
    const PATIENT: Patience = Patience { head: LONG, stall: LONG, lifetime: LONG };

    /// A browser's end of a connection on which ten megabytes are answered, and what talks at the other.
    fn connect(patience: Patience) -> (DuplexStream, watch::Sender<bool>, JoinHandle<()>) {
        let (browser, server) = duplex(1024);
        let (tell_end, ending) = watch::channel(false);
        let page = service_fn(|_: Request<Incoming>| async { Ok(Response::new("x".repeat(10_000_000))) });
        (browser, tell_end, tokio::spawn(answer(server, LastMoved::now(), page, ending, patience)))
    }

    async fn read(mut browser: DuplexStream) -> String {
        let mut text = Vec::new();
        let _ = browser.read_to_end(&mut text).await;
        String::from_utf8(text).unwrap()
    }

    #[tokio::test]
    async fn a_head_that_does_not_come_ends_the_connection() {
        let (mut browser, _tell_end, talk) = connect(Patience { head: SHORT, ..PATIENT });
        browser.write_all(b"GET / HTTP/1.1\r\nHost: loc").await.unwrap();
        talk.await.unwrap();
        assert!(!read(browser).await.contains("200"));
        // Nor does one stay that never says anything.
        connect(Patience { head: SHORT, ..PATIENT }).2.await.unwrap();
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_ends_the_connection() {
        for patience in [Patience { stall: SHORT, ..PATIENT }, Patience { lifetime: SHORT, ..PATIENT }] {
            let (mut browser, _tell_end, talk) = connect(patience);
            browser.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            talk.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_body_is_not_waited_for() {
        let (mut browser, _tell_end, talk) = connect(PATIENT);
        browser.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nx").await.unwrap();
        let answered = read(browser).await;
        assert!(answered.starts_with("HTTP/1.1 200") && answered.len() > 10_000_000);
        talk.await.unwrap();
    }

    #[tokio::test]
    async fn a_head_has_a_size() {
        for long in [format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000)), {
            let headers: String = (0..100).map(|number| format!("h{number}: x\r\n")).collect();
            format!("GET / HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
        }] {
            let (browser, _tell_end, talk) = connect(PATIENT);
            let (reader, mut writer) = tokio::io::split(browser);
            let written = tokio::spawn(async move { writer.write_all(long.as_bytes()).await });
            let mut answered = [0; 12];
            let mut reader = reader;
            reader.read_exact(&mut answered).await.unwrap();
            assert_eq!(&answered, b"HTTP/1.1 431");
            drop(reader);
            let _ = written.await;
            talk.await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_end_closes_what_is_idle() {
        let (browser, tell_end, talk) = connect(PATIENT);
        tell_end.send(true).unwrap();
        talk.await.unwrap();
        drop(browser);
    }
}

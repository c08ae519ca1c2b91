//! Where pgthaw listens, how many may ask at once, and the page of metrics.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::{Service, service_fn};
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::access::{add_headers, is_loopback_address, refuse};
use super::connection::{LastMoved, PATIENCE, answer};
use super::{Error, Token};

/// Open at once: a browser opens six. Whoever comes when there are as many waits until one ends ...
const CONNECTIONS_MAX: usize = 64;

/// ... or until nothing has moved through one for so long, and has its place: who is slow or idle keeps nobody waiting. A report is made in
/// less.
const STILL_MIN: Duration = Duration::from_secs(1);

/// What was asked before the end has so long to be answered.
const GRACE: Duration = Duration::from_millis(500);

/// The text format that Prometheus reads.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Where descriptors have run out, some may be free by then.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Where to listen, and who may ask.
#[derive(Clone, Copy, Debug)]
pub struct ListenOptions {
    pub address: SocketAddr,
    pub token: Option<Token>,
}

impl ListenOptions {
    /// Any address.
    ///
    /// # Errors
    /// Without a token, unless it is one of loopback, which nobody else can reach.
    pub fn listening(address: SocketAddr, token: Option<Token>) -> Result<ListenOptions, Error> {
        if token.is_none() && !is_loopback_address(address.ip()) {
            return Err(Error::NoToken(address));
        }
        Ok(ListenOptions { address, token })
    }
}

/// A socket that listens, and does not answer yet: neither pages nor metrics.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    token: Option<Token>,
}

impl Listener {
    pub async fn bind(options: ListenOptions) -> Result<Listener, Error> {
        let ListenOptions { address, token } = options;
        let listener = TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?;
        Ok(Listener { listener, token })
    }

    /// Where it listens: of port 0 the one that was free.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(Error::Serve)
    }

    /// Who may ask.
    pub fn token(&self) -> Option<Token> {
        self.token
    }

    /// Answers `/metrics` with what `render` says, until `end`.
    pub async fn run_metrics(
        self,
        render: impl Fn() -> String + Clone + Send + Sync + 'static,
        end: impl Future<Output = ()>,
    ) {
        let token = self.token;
        let answer = move |request: Request<Incoming>| {
            let answer = answer_metrics(&render, token, &request);
            async { Ok(answer) }
        };
        self.answer_all(service_fn(answer), end).await;
    }

    /// Has `service` answer every request until `end`, and then for a moment what was asked before.
    pub async fn answer_all<S, B>(self, service: S, end: impl Future<Output = ()>)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (tell_end, ending) = watch::channel(false);
        let mut connections = JoinSet::new();
        tokio::select! {
            () = end => {}
            () = accept(&self.listener, &mut connections, |stream, moved| answer(stream, moved, service.clone(), ending.clone(), PATIENCE)) => {}
        }
        drop((self.listener, service));
        let _ = tell_end.send(true);
        let closing = async { while connections.join_next().await.is_some() {} };
        let _ = timeout(GRACE, closing).await;
        connections.shutdown().await;
    }
}

fn answer_metrics(render: impl Fn() -> String, token: Option<Token>, request: &Request<Incoming>) -> Response<String> {
    let status = |status: StatusCode| {
        let mut response = Response::new(String::new());
        *response.status_mut() = status;
        response
    };
    let answer = || match (request.uri().path(), request.method()) {
        ("/metrics", &Method::GET | &Method::HEAD) => {
            let mut page = Response::new(render());
            page.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(METRICS_TYPE));
            page
        }
        ("/metrics", _) => {
            let mut refusal = status(StatusCode::METHOD_NOT_ALLOWED);
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET,HEAD"));
            refusal
        }
        _ => status(StatusCode::NOT_FOUND),
    };
    let mut response = refuse(token, request.uri(), request.headers()).unwrap_or_else(answer);
    add_headers(&mut response);
    response
}

/// Has `talk` speak with whoever comes, with so many at once. It ends never.
async fn accept<F>(listener: &TcpListener, connections: &mut JoinSet<()>, talk: impl Fn(TcpStream, LastMoved) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut open: Vec<(LastMoved, AbortHandle)> = Vec::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                make_room(&mut open, connections).await;
                let moved = LastMoved::now();
                open.push((moved.clone(), connections.spawn(talk(stream, moved))));
            }
            // One that is gone already, or no descriptor is free: neither is a reason to serve nobody any more.
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Waits for a place among those that are open.
async fn make_room(open: &mut Vec<(LastMoved, AbortHandle)>, connections: &mut JoinSet<()>) {
    loop {
        while connections.try_join_next().is_some() {}
        open.retain(|(_, connection)| !connection.is_finished());
        let stillest = (0..open.len()).min_by_key(|place| open[*place].0.at());
        let Some(place) = stillest.filter(|_| open.len() >= CONNECTIONS_MAX) else { return };
        let until = open[place].0.at() + STILL_MIN;
        if until <= Instant::now() {
            open.swap_remove(place).1.abort();
            return;
        }
        tokio::select! {
            _ = connections.join_next() => {}
            () = sleep_until(until) => {}
        }
    }
}

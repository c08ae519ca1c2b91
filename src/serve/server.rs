//! The server: where it listens, and which address is answered by what.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use axum::{Router, middleware};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::access::{guard, is_loopback_address};
use super::answers::{self, Served};
use super::connection::{LastMoved, PATIENCE, answer};
use super::{Error, Token};
use crate::report::{render_missing_page, render_served_page};
use crate::results::Store;

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
pub struct ServerOptions {
    pub address: SocketAddr,
    pub token: Option<Token>,
}

impl ServerOptions {
    /// The loopback address.
    pub fn loopback(port: u16, token: Option<Token>) -> ServerOptions {
        ServerOptions { address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port), token }
    }

    /// Any address.
    ///
    /// # Errors
    /// Without a token, unless it is one of loopback, which nobody else can reach.
    pub fn listening(address: SocketAddr, token: Option<Token>) -> Result<ServerOptions, Error> {
        if token.is_none() && !is_loopback_address(address.ip()) {
            return Err(Error::NoToken(address));
        }
        Ok(ServerOptions { address, token })
    }
}

/// A server that listens, and does not answer yet: neither pages nor metrics.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    token: Option<Token>,
}

impl Server {
    pub async fn bind(options: ServerOptions) -> Result<Server, Error> {
        let ServerOptions { address, token } = options;
        let listener = TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?;
        Ok(Server { listener, token })
    }

    /// Where it listens: of port 0 the one that was free.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(Error::Serve)
    }

    /// Answers until `end`, and then for a moment what was asked before; closes the store.
    pub async fn run(self, store: Store, end: impl Future<Output = ()>) -> Result<(), Error> {
        let served = Arc::new(Served { store, page: render_served_page()?, missing: render_missing_page()? });
        let router = routes(Arc::clone(&served), self.token);
        self.answer_all(router, end).await;
        if let Some(served) = Arc::into_inner(served) {
            let _ = timeout(GRACE, served.store.close()).await;
        }
        Ok(())
    }

    /// Answers `/metrics` with what `render` says, until `end`.
    pub async fn run_metrics(
        self,
        render: impl Fn() -> String + Clone + Send + Sync + 'static,
        end: impl Future<Output = ()>,
    ) {
        let token = self.token;
        self.answer_all(metrics_routes(render, token), end).await;
    }

    async fn answer_all(self, router: Router, end: impl Future<Output = ()>) {
        let (tell_end, ending) = watch::channel(false);
        let mut connections = JoinSet::new();
        tokio::select! {
            () = end => {}
            () = accept(&self.listener, &mut connections, |stream, moved| answer(stream, moved, router.clone(), ending.clone(), PATIENCE)) => {}
        }
        drop((self.listener, router));
        let _ = tell_end.send(true);
        let closing = async { while connections.join_next().await.is_some() {} };
        let _ = timeout(GRACE, closing).await;
        connections.shutdown().await;
    }
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

pub(super) fn routes(served: Arc<Served>, token: Option<Token>) -> Router {
    Router::new()
        .route("/", get(answers::page))
        .route("/runs/{id}", get(answers::run))
        .route("/api/studies", get(answers::studies))
        .route("/api/studies/{id}", get(answers::study))
        .route("/api/studies/{id}/trials/{number}/{repeat}", get(answers::trial))
        .route("/api/compare", get(answers::compare))
        .route("/api/live", get(answers::live))
        .fallback(answers::missing)
        .with_state(served)
        .layer(middleware::from_fn_with_state(token, guard))
}

fn metrics_routes(render: impl Fn() -> String + Clone + Send + Sync + 'static, token: Option<Token>) -> Router {
    let answer = move || {
        let page = render();
        async move { ([(CONTENT_TYPE, METRICS_TYPE)], page) }
    };
    Router::new().route("/metrics", get(answer)).layer(middleware::from_fn_with_state(token, guard))
}

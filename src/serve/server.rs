//! The server: where it listens, and which address is answered by what.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::routing::get;
use axum::{Router, middleware};
use tokio::net::TcpListener;

use super::access::{guard, is_loopback_address};
use super::answers::{self, Served};
use super::{Error, Token};
use crate::report::render_served_page;
use crate::results::Store;

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

/// A server that listens, and does not answer yet.
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

    /// Answers until `end`, and then what was asked before; closes the store.
    pub async fn run(self, store: Store, end: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
        let served = Arc::new(Served { store, page: render_served_page()? });
        let router = routes(Arc::clone(&served), self.token);
        axum::serve(self.listener, router).with_graceful_shutdown(end).await.map_err(Error::Serve)?;
        if let Some(served) = Arc::into_inner(served) {
            served.store.close().await;
        }
        Ok(())
    }
}

fn routes(served: Arc<Served>, token: Option<Token>) -> Router {
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
